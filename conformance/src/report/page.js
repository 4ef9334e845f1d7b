"use strict";
// The page of a run: everything is computed from the result file inside it, and the address's fragment says what is shown.
const D = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const esc = s => String(s ?? "").replace(/[&<>"']/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}[c]));
const by = (list, key) => Object.fromEntries(list.map(x => [x[key], x]));
const engines = by(D.engines, "name"), scenarios = by(D.scenarios, "id");
const order = ["metadata", "audit", ...D.engines.map(e => e.name)];
const sorted = names => [...new Set(names)].sort((a, b) => order.indexOf(a) - order.indexOf(b));
const READERS = sorted(D.cells.map(c => c.reader)), WRITERS = sorted(D.cells.map(c => c.writer));
const AREAS = [...new Set(D.scenarios.map(s => s.id.split("/")[0]))];
const FEATURES = [...new Set(D.scenarios.flatMap(s => s.features))].sort();
const area = c => c.scenario.split("/")[0], features = c => scenarios[c.scenario]?.features || [];

// ---- verdicts: a kind has a colour, a sign and a word, so that none of them is needed alone
const KINDS = {
  pass: {sign: "✓", word: "passed"}, known: {sign: "≈", word: "accepted, not passed"},
  bad: {sign: "✗", word: "not accepted"}, skipped: {sign: "○", word: "skipped"}, none: {sign: "·", word: "did not run"},
};
const kind = c => c.outcome === "pass" ? "pass" : c.outcome === "skipped" ? "skipped" : c.accepted ? "known" : "bad";
const verdict = c => c.known ? `${c.outcome}, known` : c.outcome === "refused" && c.accepted ? "refused as declared" : c.outcome;
const tag = c => `<span class="tag ${kind(c)}">${KINDS[kind(c)].sign} ${esc(verdict(c))}</span>`;
const why = c => esc(c.known || c.reason);
function tally(cells) {
  const t = {pass: 0, known: 0, bad: 0, skipped: 0};
  for (const c of cells) t[kind(c)]++;
  t.ran = t.pass + t.known + t.bad;
  return t;
}
const shade = t => t.ran === 0 ? (t.skipped ? "skipped" : "none") : t.bad ? "bad" : t.known ? "known" : "pass";
// 99.6 % is not 100 %
const percent = t => t.pass === t.ran ? 100 : Math.min(99, Math.round(100 * t.pass / t.ran));
function shareCell(t, href, current) {
  const s = shade(t), title = `${t.pass} passed, ${t.known} accepted without passing, ${t.bad} not accepted, ${t.skipped} skipped`;
  const text = t.ran ? `<b>${KINDS[s].sign} ${percent(t)} %</b><small>${t.pass}/${t.ran}</small>` : `<b>${KINDS[s].sign}</b><small>${t.skipped ? t.skipped + " skipped" : "&nbsp;"}</small>`;
  if (s === "none") return `<td class="none"><span class="cell" title="${KINDS.none.word}">${KINDS.none.sign}</span></td>`;
  return `<td class="${s}"><a href="${esc(href)}" title="${title}" ${current ? `aria-current="true"` : ""}>${text}</a></td>`;
}

// ---- addresses
function params() {
  const [path, query] = location.hash.slice(1).split("?");
  const decode = s => { try { return decodeURIComponent(s); } catch { return s; } };
  return {path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query || "")};
}
function address(path, query) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query || {})) if (v) q.set(k, v);
  const text = q.toString();
  return "#/" + path.split("/").map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}
const link = (path, text, query) => `<a href="${esc(address(path, query))}">${esc(text)}</a>`;
const engineLink = n => engines[n] ? link("engine/" + n, n) : esc(n);
const cellLink = c => link("scenario/" + c.scenario, c.scenario, {writer: c.writer, reader: c.reader});

// ---- pieces
const choice = (key, label, values, now) => `<label>${label}<select data-key="${key}"><option value="">all</option>${values.map(v => `<option ${v === now ? "selected" : ""}>${esc(v)}</option>`).join("")}</select></label>`;
const empty = text => `<p class="empty">${text}</p>`;
const commandBox = text => `<div class="command"><pre>${esc(text)}</pre><button type="button" data-copy="${esc(text)}">Copy</button></div>`;
const legend = () => `<ul class="legend">${["pass", "known", "bad", "skipped"].map(k => `<li><span class="tag ${k}">${KINDS[k].sign}</span> ${k === "pass" ? "all that ran passed" : k === "known" ? "accepted: refused as declared, or a known deviation" : k === "bad" ? "a failure that is not accepted" : "skipped, with a reason"}</li>`).join("")}</ul>`;
// rows x columns of cells, each a tally of what `pick` puts there
function gridTable(caption, corner, rows, rowHead, columns, columnHead, cells, picks, href) {
  const index = new Map();
  for (const c of cells) for (const r of picks.row(c)) {
    const key = r + "\n" + picks.column(c);
    index.has(key) ? index.get(key).push(c) : index.set(key, [c]);
  }
  const head = columns.map(n => `<th scope="col">${columnHead(n)}</th>`).join("");
  const body = rows.map(r => `<tr><th scope="row">${rowHead(r)}</th>${columns.map(n => shareCell(tally(index.get(r + "\n" + n) || []), href(r, n))).join("")}</tr>`).join("");
  return `<div class="scroll" tabindex="0" role="region" aria-label="${esc(caption)}"><table class="grid ${columns.length > 9 ? "many" : ""}"><thead><tr><th>${corner}</th>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
}
const LIMIT = 200;
function cellTable(cells, query, path) {
  if (!cells.length) return empty("Nothing here.");
  const shown = query.get("all") ? cells : cells.slice(0, LIMIT);
  const rest = cells.length - shown.length;
  return `<div class="scroll"><table class="cards"><thead><tr><th>scenario</th><th>written by</th><th>read by</th><th>verdict</th><th>why</th></tr></thead><tbody>${shown.map(c => `<tr><td class="name">${cellLink(c)}</td><td data-label="written by">${engineLink(c.writer)}</td><td data-label="read by">${engineLink(c.reader)}</td><td>${tag(c)}</td><td class="why small">${why(c)}</td></tr>`).join("")}</tbody></table></div>
${rest ? `<p>${link(path, `Show the other ${rest}`, {...Object.fromEntries(query), all: "1"})}</p>` : ""}`;
}
function engineTable(list) {
  if (!list.length) return empty("No engine took part.");
  return `<div class="scroll"><table class="cards"><thead><tr><th>engine</th><th>version</th><th>Iceberg inside</th><th>its tables</th><th>its reading</th><th>state</th></tr></thead><tbody>${list.map(e => {
    const share = cells => { const t = tally(cells); return t.ran ? `<span class="tag ${shade(t)}">${KINDS[shade(t)].sign} ${t.pass}/${t.ran}</span>` : "–"; };
    return `<tr><td class="name">${engineLink(e.name)}<br><span class="soft small">${esc(e.title)}</span></td><td data-label="version">${esc(e.version)}</td><td data-label="Iceberg inside">${esc(e.iceberg || "–")}</td><td data-label="its tables">${share(D.cells.filter(c => c.writer === e.name))}</td><td data-label="its reading">${share(D.cells.filter(c => c.reader === e.name))}</td>
<td class="why small">${e.skipped ? `<span class="tag skipped">${KINDS.skipped.sign} skipped</span> ${esc(e.skipped)}<pre>${esc(e.command)}</pre>` : `ran; started in ${e.start_seconds.toFixed(1)} s`}</td></tr>`;
  }).join("")}</tbody></table></div>`;
}

const catalogs = D.catalogs || [];
const catalogKind = c => c.outcome === "pass" || c.outcome === "skipped" ? c.outcome : "bad";
function catalogTable() {
  return `<div class="scroll"><table class="cards"><thead><tr><th>catalog</th><th>verdict</th><th>why, and how to run it</th></tr></thead><tbody>${catalogs.map(c => `<tr><td class="name">${link("catalog/" + c.name, c.name)}<br><span class="soft small">${esc(c.title)}</span></td><td><span class="tag ${catalogKind(c)}">${KINDS[catalogKind(c)].sign} ${esc(c.outcome)}</span></td>
<td class="why small">${c.outcome === "pass" ? `${c.checks.length} checks in ${c.seconds.toFixed(1)} s` : esc(c.reason)}${c.outcome === "pass" ? "" : `<pre>${esc(c.command)}</pre>`}</td></tr>`).join("")}</tbody></table></div>`;
}

// ---- pages
function catalogList() {
  return `<h1>Catalogs</h1><p class="soft">floe on each catalog it knows: reach, list, write, conditional put and commit as <code>floe doctor</code> tries them, then the walk-through of a table with deletion vectors, in SQL.</p>
${catalogs.length ? catalogTable() : empty("This run put floe on no catalog: a run of chosen scenarios does not.")}`;
}
function catalog(name) {
  const c = catalogs.find(x => x.name === name);
  if (!c) return `<h1>No such catalog</h1>${empty(`This run has no catalog ${esc(name)}. <a href="#/catalogs">Show all</a>`)}`;
  return `<p class="crumb">${link("catalogs", "Catalogs")}</p><h1>${esc(c.title)}</h1><div class="box"><span class="tag ${catalogKind(c)}">${KINDS[catalogKind(c)].sign} ${esc(c.outcome)}</span> ${esc(c.reason)}</div>
<h2>To run this one</h2>${commandBox(c.command)}${c.checks.length ? `<h2>Steps</h2>${c.checks.map(k => checkLine(k, false)).join("")}` : ""}`;
}
function cost() {
  const c = D.cost || {charts: []};
  if (!c.charts.length) return `<h1>Copy-on-write against merge-on-read</h1>${empty("Nothing was measured.")}`;
  return `<h1>Copy-on-write against merge-on-read</h1><p class="soft">Not of this run: the measured run that floe keeps, ${esc(c.engines.join(", "))}, ${c.rows.toLocaleString("en")} rows in 4 data files, on ${esc(c.machine)}. For one table: <code>floe advise ns.t</code>. On your machine:</p>
${commandBox("cargo floe bench --workload deletes")}<div class="charts">${c.charts.map(x => `<figure><figcaption><b>${esc(x.title)}</b><br><span class="soft small">${esc(x.note)}</span></figcaption>${x.svg}<details><summary>In numbers</summary><pre>${esc(x.table)}</pre></details></figure>`).join("")}</div>`;
}
function overview(query) {
  const feature = query.get("feature") || "", rows = query.get("rows") || "area";
  const cells = feature ? D.cells.filter(c => features(c).includes(feature)) : D.cells;
  const t = tally(cells), missing = D.engines.filter(e => e.skipped), q = {feature};
  const number = (k, n, text) => `<a class="${k}" href="${esc(address("scenarios", {...q, state: k}))}"><b>${KINDS[k].sign} ${n}</b>${text}</a>`;
  const bar = ["pass", "known", "bad", "skipped"].map(k => t[k] ? `<i class="${k}" style="flex:${t[k]};color:var(--${k});background:currentColor"></i>` : "").join("");
  const second = rows === "feature" ? FEATURES : AREAS;
  return `<h1>Who can share a table with whom</h1>
<p class="soft">Every engine writes each scenario's table, every engine reads each state of it. <i>metadata</i> compares snapshot summaries and table metadata with the scenario, <i>audit</i> judges the raw bytes by clause.</p>
<div class="numbers"><a class="plain" href="#/scenarios"><b>${D.scenarios.length}</b>scenarios</a><a class="plain" href="#/engines"><b>${D.engines.length - missing.length}</b>engines ran${missing.length ? `, ${missing.length} skipped` : ""}</a>
${number("pass", t.pass, "passed")}${number("known", t.known, "accepted, not passed")}${number("bad", t.bad, "not accepted")}${number("skipped", t.skipped, "skipped")}</div>
<div class="bar" aria-hidden="true">${bar}</div>
<h2>Writer and reader</h2>
<div class="filters">${choice("feature", "needs the feature", FEATURES, feature)}</div>
${cells.length ? gridTable("share of scenarios that pass, by writer and reader", "writer ↓ &nbsp;reader →", WRITERS, engineLink, READERS, engineLink, cells, {row: c => [c.writer], column: c => c.reader}, (w, r) => address("scenarios", {...q, writer: w, reader: r})) : empty("No cell ran.")}
${legend()}
<h2>${rows === "feature" ? "Feature" : "Area"} and reader, all writers</h2>
<div class="filters"><label>rows<select data-key="rows"><option value="">area</option><option ${rows === "feature" ? "selected" : ""}>feature</option></select></label></div>
${gridTable("share of scenarios that pass, by area and reader", rows + " ↓ &nbsp;reader →", second, n => link("scenarios", n, {[rows]: n}), READERS, engineLink, cells, {row: c => rows === "feature" ? features(c) : [area(c)], column: c => c.reader}, (a, r) => address("scenarios", {...q, [rows]: a, reader: r}))}
${D.stale_deviations.length ? `<h2>Known deviations no longer seen</h2><p>The run is red until these entries go.</p><ul>${D.stale_deviations.map(d => `<li>${esc(d)}</li>`).join("")}</ul>` : ""}
${missing.length ? `<h2>Engines that took no part</h2>${engineTable(missing)}` : ""}
${catalogs.length ? `<h2>Catalogs</h2>${catalogTable()}` : ""}
${(D.figures || []).length ? `<h2>Formally tested</h2><p class="soft">${esc(D.figures_note)}</p><ul class="figures">${D.figures.map(f => `<li>${esc(f)}</li>`).join("")}</ul>` : ""}
<p class="soft small">floe ${esc(D.floe)}, ${esc(D.launcher)} launcher, ${new Date(D.started * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC, ${Math.round(D.seconds)} s.</p>`;
}
function matches(query) {
  const g = k => query.get(k) || "", words = g("text").toLowerCase().split(/\s+/).filter(Boolean);
  const said = s => (s.id + " " + s.title + " " + s.description + " " + s.clauses.join(" ") + " " + s.origin).toLowerCase();
  const named = new Set(D.scenarios.filter(s => words.every(w => said(s).includes(w))).map(s => s.id));
  return D.cells.filter(c => named.has(c.scenario) && (!g("writer") || c.writer === g("writer")) && (!g("reader") || c.reader === g("reader"))
    && (!g("state") || kind(c) === g("state")) && (!g("area") || area(c) === g("area")) && (!g("feature") || features(c).includes(g("feature"))));
}
function list(query) {
  const g = k => query.get(k) || "";
  const states = ["pass", "known", "bad", "skipped"].map(k => `<option value="${k}" ${g("state") === k ? "selected" : ""}>${KINDS[k].word}</option>`).join("");
  return `<h1>Scenarios</h1><div class="filters">${choice("area", "area", AREAS, g("area"))}${choice("feature", "feature", FEATURES, g("feature"))}${choice("writer", "written by", WRITERS, g("writer"))}${choice("reader", "read by", READERS, g("reader"))}<label>verdict<select data-key="state"><option value="">all</option>${states}</select></label>
<label>text<input type="search" data-key="text" value="${esc(g("text"))}" placeholder="name, title or clause"></label>${[...query.keys()].length ? `<a href="#/scenarios">Clear</a>` : ""}</div><div id="found">${found(query)}</div>`;
}
function found(query) {
  const mine = new Map();
  for (const c of matches(query)) mine.has(c.scenario) ? mine.get(c.scenario).push(c) : mine.set(c.scenario, [c]);
  const rows = D.scenarios.filter(s => mine.has(s.id)).map(s => {
    const cells = mine.get(s.id), one = cells.length === 1, t = tally(cells), k = shade(t);
    const q = {writer: query.get("writer"), reader: query.get("reader")};
    const shown = one ? `${tag(cells[0])} <span class="small">${why(cells[0])}</span>` : t.ran ? `<span class="tag ${k}">${KINDS[k].sign} ${percent(t)} %</span> <span class="soft small">${t.pass}/${t.ran}</span>` : `<span class="tag ${k}">${KINDS[k].sign} ${KINDS[k].word}</span>`;
    return `<tr><td class="name">${one ? cellLink(cells[0]) : link("scenario/" + s.id, s.id, q)}<br><span class="soft small">${esc(s.title)}</span></td><td class="small soft">${s.clauses.map(esc).join(", ")}</td><td class="${one ? "why" : ""}">${shown}</td></tr>`;
  });
  return rows.length ? `<p class="soft small">${rows.length} of ${D.scenarios.length} scenarios</p><div class="scroll"><table class="cards"><thead><tr><th>scenario</th><th>clauses</th><th>verdict</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>` : empty(`No scenario fits. <a href="#/scenarios">Show all</a>`);
}
const plain = v => Array.isArray(v) ? "(" + v.map(plain).join(", ") + ")" : v === null ? "null" : typeof v === "object" ? ("null" in v ? "null" : JSON.stringify(v)) : String(v);
function operation(op) {
  const keys = k => plain(k).replace(/^\(|\)$/g, "");
  if (op.insert) return op.insert.length > 6 ? `${op.insert.length} rows are added` : "added: " + op.insert.map(plain).join(" ");
  if (op.fill !== undefined) return `added for each key of ${keys(op.fill)}: ${plain(op.row)}`;
  if (op.delete !== undefined) return `gone: the rows of keys ${keys(op.delete)}`;
  if (op.update !== undefined) return `changed: the rows of keys ${keys(op.update)} to ${Object.entries(op.set).map(([k, v]) => k + " = " + plain(v)).join(", ")}`;
  if (op.rename) return Object.entries(op.rename).map(([a, b]) => `column ${a} is now ${b}`).join(", ");
  return "every row is gone";
}
function facts(step) {
  const out = [], pairs = o => Object.entries(o).map(([k, v]) => `${k} = ${v}`).join(", ");
  if (step.model) out.push(["rows", step.model.map(operation).join("; ")]);
  if (step.rows) out.push(["rows", step.rows.length ? step.rows.map(plain).join(" ") : "none"]);
  if (step.columns) out.push(["columns", step.columns.join(", ")]);
  if (step.snapshot) { const {summary, exact, ...rest} = step.snapshot; out.push(["snapshot", pairs({...rest, ...(summary || {})}) + (exact === false ? " (other counters may be there)" : "")]); }
  if (step["no-snapshot"]) out.push(["snapshot", "none is made"]);
  if (step.table) out.push(["table metadata", pairs(step.table)]);
  if (step.files) out.push(["new files", pairs(step.files)]);
  if (step.refused) out.push(["refusal", (step.refused.mentions || []).length ? "with a message that says one of: " + step.refused.mentions.join(", ") : "with a clear message"]);
  if (step.unreadable) out.push(["readers", "must refuse the table"]);
  if (step.changes) out.push(["changes", `${step.changes.after ? "after step " + step.changes.after : "since the start"}: ${step.changes.rows.map(plain).join(" ") || "none"}`]);
  for (const q of step.query || []) out.push(["question", `${q.sql} gives ${q.rows.map(plain).join(" ") || "no rows"}`]);
  return out.length ? `<dl class="small">${out.map(([k, v]) => `<dt>${k}</dt><dd>${esc(v)}</dd>`).join("")}</dl>` : "";
}
// expected and got side by side; the lines that only one of them has are marked
function sides(check) {
  const a = String(check.expected || "").split("\n"), b = String(check.got || "").split("\n");
  const text = (lines, other) => { const there = new Set(other); return lines.map(l => l.trim() && !there.has(l) ? `<mark>${esc(l)}</mark>` : esc(l) + "\n").join(""); };
  return `<div class="two"><div class="want"><h4>expected</h4><pre>${text(a, b) || "nothing"}</pre></div><div class="have"><h4>got</h4><pre>${text(b, a) || "nothing"}</pre></div></div>`;
}
function checkLine(check, accepted) {
  const k = check.outcome === "pass" ? "pass" : check.outcome === "skipped" ? "skipped" : accepted ? "known" : "bad";
  return `<div class="check"><span class="tag ${k}">${KINDS[k].sign} ${esc(check.what)}: ${esc(check.outcome)}</span> <span class="small">${esc(check.reason)}</span>${check.expected || check.got ? sides(check) : ""}</div>`;
}
function damageText(d) {
  return `-- the newest .${d.newest} file is ` + (d.remove ? "removed" : d.truncate != null ? `cut to ${d.truncate} bytes` : `changed: byte ${d.at} xor ${d.xor}`);
}
function scenario(id, query) {
  const s = scenarios[id];
  if (!s) return `<h1>No such scenario</h1>${empty(`This run has no scenario ${esc(id)}. <a href="#/scenarios">Show all</a>`)}`;
  const cells = D.cells.filter(c => c.scenario === id), readers = sorted(cells.map(c => c.reader)), writers = sorted(cells.map(c => c.writer));
  const w = query.get("writer"), r = query.get("reader"), at = query.get("step");
  const chosen = cells.find(c => c.writer === w && c.reader === r);
  const here = extra => address("scenario/" + id, {writer: w, reader: r, ...extra});
  const grid = cells.length ? `<div class="scroll" tabindex="0" role="region" aria-label="verdicts by writer and reader"><table class="grid ${readers.length > 9 ? "many" : ""}"><thead><tr><th>writer ↓ &nbsp;reader →</th>${readers.map(x => `<th scope="col">${engineLink(x)}</th>`).join("")}</tr></thead><tbody>${writers.map(x => `<tr><th scope="row">${engineLink(x)}</th>${readers.map(y => {
    const c = cells.find(k => k.writer === x && k.reader === y);
    if (!c) return `<td class="none"><span class="cell">${KINDS.none.sign}</span></td>`;
    return `<td class="${kind(c)}"><a href="${esc(address("scenario/" + id, {writer: x, reader: y}))}" title="${why(c)}" ${c === chosen ? `aria-current="true"` : ""}><b>${KINDS[kind(c)].sign}</b><small>${esc(verdict(c))}</small></a></td>`;
  }).join("")}</tr>`).join("")}</tbody></table></div>` : empty("No engine ran this scenario.");
  const names = [...new Set(["floe", w, r].filter(x => engines[x]))];
  const command = `cargo floe conformance --scenario ${id} --engines ${names.join(",")}${D.launcher === "native" ? "" : " --launcher " + D.launcher}`;
  const box = chosen ? `<div class="box">${tag(chosen)} written by ${engineLink(chosen.writer)}, read by ${engineLink(chosen.reader)}${chosen.reason ? `<div>${esc(chosen.reason)}</div>` : ""}${chosen.known ? `<div class="small soft">known: ${esc(chosen.known)}</div>` : ""}</div>` : `<p class="soft">Choose a cell to see, step by step, what was expected and what came.</p>`;
  const steps = s.step.map((st, i) => {
    const n = i + 1, checks = chosen ? chosen.checks.filter(k => k.step === n) : [];
    const worst = checks.some(k => k.outcome !== "pass" && k.outcome !== "skipped") ? (chosen.accepted ? "known" : "bad") : checks.some(k => k.outcome === "pass") ? "pass" : "";
    const passed = checks.filter(k => k.outcome === "pass"), counts = new Map();
    passed.forEach(k => counts.set(k.what, (counts.get(k.what) || 0) + 1));
    const good = [...counts].map(([what, many]) => `<span class="tag pass">${KINDS.pass.sign} ${esc(what)}${many > 1 ? " ×" + many : ""}</span>`).join(" ");
    return `<section class="step ${at === String(n) ? "here" : ""}" id="step-${n}"><a class="${worst}" href="${esc(here({step: n}))}" title="link to this step">${n}</a><div>${st.note ? `<div>${esc(st.note)}</div>` : ""}${st.by ? `<span class="tag skipped">run by the second engine</span>` : ""}<pre>${esc(st.sql || damageText(st.damage || {}))}</pre>${facts(st)}${good ? `<div class="check">${good}</div>` : ""}${checks.filter(k => k.outcome !== "pass").map(k => checkLine(k, chosen.accepted)).join("")}</div></section>`;
  }).join("");
  const place = D.scenarios.indexOf(s), turn = (o, text) => o ? link("scenario/" + o.id, text(o.id), {writer: w, reader: r}) : "<span></span>";
  return `<p class="crumb">${link("scenarios", "Scenarios")} / ${link("scenarios", area({scenario: id}), {area: area({scenario: id})})}</p><h1>${esc(s.title)}</h1><p class="soft small">${esc(id)}</p>${s.description ? `<p>${esc(s.description)}</p>` : ""}
${grid}${box}
<h2>To run this one</h2>${commandBox(command)}
<h2>What the format says</h2><dl>${s.clauses.map(c => `<dt>${link("scenarios", c, {text: c})}</dt><dd>${esc(D.clauses[c] || "not among the clauses floe knows")}</dd>`).join("")}</dl>
<dl class="small"><dt>needs</dt><dd>${s.features.map(f => link("scenarios", f, {feature: f})).join(", ")}</dd><dt>columns</dt><dd>${s.columns.map(esc).join(", ")}</dd>${s.origin ? `<dt>comes from</dt><dd>${esc(s.origin)}</dd>` : ""}</dl>
<h2>Steps</h2>${steps}
<div class="turn">${turn(D.scenarios[place - 1], n => "← " + n)}${turn(D.scenarios[place + 1], n => n + " →")}</div>`;
}
function engine(name, query) {
  const e = engines[name];
  if (!e) return `<h1>No such engine</h1>${empty(`This run has no engine ${esc(name)}. <a href="#/engines">Show all</a>`)}`;
  const wrote = D.cells.filter(c => c.writer === name), read = D.cells.filter(c => c.reader === name);
  const open = [...new Set([...wrote, ...read])].filter(c => c.outcome !== "pass" && c.outcome !== "skipped").sort((a, b) => a.accepted - b.accepted);
  const line = (cells, key, query) => gridTable(key, key === "reader" ? "reader →" : "writer →", [name], () => key === "reader" ? "its tables" : "it reads", sorted(cells.map(c => c[key])), engineLink, cells, {row: () => [name], column: c => c[key]}, (_, n) => address("scenarios", {...query, [key]: n}));
  const needs = f => tally(wrote.filter(c => features(c).includes(f))), asks = f => tally(read.filter(c => features(c).includes(f)));
  const capable = D.capabilities.filter(f => e.capabilities.includes(f));
  return `<p class="crumb">${link("engines", "Engines")}</p><h1>${esc(e.title)}</h1>${e.skipped ? `<div class="box"><span class="tag skipped">${KINDS.skipped.sign} skipped</span> ${esc(e.skipped)}</div>` : ""}
<dl><dt>version</dt><dd>${esc(e.version)}</dd><dt>Iceberg inside</dt><dd>${esc(e.iceberg || "–")}</dd><dt>roles</dt><dd>${e.roles.map(esc).join(", ") || "–"}</dd><dt>does not declare</dt><dd>${D.capabilities.filter(c => !e.capabilities.includes(c)).map(esc).join(", ") || "–"}</dd></dl>
${commandBox(e.command)}
${wrote.length ? `<h2>Its tables, read by</h2>${line(wrote, "reader", {writer: name})}` : ""}${read.length ? `<h2>It reads the tables of</h2>${line(read, "writer", {reader: name})}` : ""}
${capable.length ? `<h2>What it declares, put to the test</h2><div class="scroll"><table class="grid"><thead><tr><th>capability</th><th scope="col">as writer</th><th scope="col">as reader</th></tr></thead><tbody>${capable.map(f => `<tr><th scope="row">${esc(f)}</th>${shareCell(needs(f), address("scenarios", {feature: f, writer: name}))}${shareCell(asks(f), address("scenarios", {feature: f, reader: name}))}</tr>`).join("")}</tbody></table></div>` : ""}
<h2>What did not pass</h2>${cellTable(open, query, "engine/" + name)}`;
}
function notPassed(query) {
  return `<h1>What did not pass</h1>${catalogs.filter(c => catalogKind(c) === "bad").map(c => `<div class="box"><span class="tag bad">${KINDS.bad.sign} ${esc(c.outcome)}</span> catalog ${link("catalog/" + c.name, c.name)}: ${esc(c.reason)}</div>`).join("")}<h2>${KINDS.bad.sign} Not accepted</h2>${cellTable(D.cells.filter(c => kind(c) === "bad"), query, "open")}<h2>${KINDS.known.sign} Accepted: known deviations, and refusals as declared</h2>${cellTable(D.cells.filter(c => kind(c) === "known"), query, "open")}`;
}

// ---- running
function show() {
  const {path, query} = params(), page = path[0] || "";
  main.innerHTML = page === "scenarios" ? list(query) : page === "scenario" ? scenario(path.slice(1).join("/"), query) : page === "engines" ? `<h1>Engines</h1>${engineTable(D.engines)}`
    : page === "engine" ? engine(path[1], query) : page === "catalogs" ? catalogList() : page === "cost" ? cost() : page === "catalog" ? catalog(path[1]) : page === "open" ? notPassed(query) : page === "" ? overview(query) : `<h1>No such page</h1>${empty(`<a href="#/">To the overview</a>`)}`;
  const nav = {scenario: "scenarios", engine: "engines", catalog: "catalogs"}[page] ?? page;
  document.querySelectorAll("nav a").forEach(a => a.dataset.page === nav ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current"));
  document.title = (main.querySelector("h1")?.textContent || "report") + " – floe conformance";
}
function setQuery(key, value) {
  const {path, query} = params(), all = Object.fromEntries(query);
  return address(path.join("/"), {...all, [key]: value});
}
main.addEventListener("change", e => { if (e.target.matches("select[data-key]")) location.hash = setQuery(e.target.dataset.key, e.target.value); });
main.addEventListener("input", e => {
  if (!e.target.matches("input[data-key]")) return;
  // the box keeps the cursor: only the list below it is made again
  history.replaceState(null, "", setQuery(e.target.dataset.key, e.target.value));
  document.getElementById("found").innerHTML = found(params().query);
});
main.addEventListener("click", e => {
  const text = e.target.dataset?.copy;
  if (text === undefined) return;
  const done = ok => { e.target.textContent = ok ? "Copied" : "Select it"; setTimeout(() => { e.target.textContent = "Copy"; }, 1500); };
  navigator.clipboard ? navigator.clipboard.writeText(text).then(() => done(true), () => done(false)) : done(false);
});
addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#/") && location.hash !== "") return;  // the link past the header
  show();
  const step = params().query.get("step");
  step ? document.getElementById("step-" + step)?.scrollIntoView() : scrollTo(0, 0);
});
const root = document.documentElement, THEMES = ["", "light", "dark"], button = document.getElementById("theme");
const store = {get: () => { try { return localStorage.getItem("floe-theme") || ""; } catch { return ""; } }, set: v => { try { localStorage.setItem("floe-theme", v); } catch { /* a page from disk may have no store */ } }};
function paint(theme) {
  theme ? root.dataset.theme = theme : delete root.dataset.theme;
  button.textContent = {light: "Light", dark: "Dark"}[theme] || "Auto";
}
button.addEventListener("click", () => { const next = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % 3]; store.set(next); paint(next); });
paint(store.get());
show();
if (params().query.get("step")) document.getElementById("step-" + params().query.get("step"))?.scrollIntoView();
