"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const esc = s => String(s ?? "").replace(/[&<>"']/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}[c]));
const by = (list, key) => Object.fromEntries(list.map(x => [x[key], x]));
const engines = by(D.engines, "name"), scenarios = by(D.scenarios, "id");
const order = ["metadata", "audit", ...D.engines.map(e => e.name)];
const axis = key => [...new Set(D.cells.map(c => c[key]))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
const kind = c => c.outcome === "pass" ? "pass" : c.outcome === "skipped" ? "skipped" : c.accepted ? "known" : "bad";
const verdict = c => c.known ? `${c.outcome} (known)` : c.outcome === "refused" && c.accepted ? "refused as declared" : c.outcome;
const tally = cells => { const t = {pass: 0, known: 0, bad: 0, skipped: 0}; cells.forEach(c => t[kind(c)]++); t.ran = t.pass + t.known + t.bad; return t; };
const shade = t => t.ran === 0 ? (t.skipped ? "skipped" : "none") : t.bad ? "bad" : t.known ? "known" : "pass";
const share = t => t.ran === 0 ? "–" : `${Math.round(100 * t.pass / t.ran)} % <span class="small">${t.pass}/${t.ran}</span>`;
const link = (path, text) => `<a href="#/${path.split("/").map(encodeURIComponent).join("/")}">${esc(text)}</a>`;
const scenarioLink = id => link("scenario/" + id, id);
const title = n => n === "metadata" ? "metadata facts" : n === "audit" ? "audit of the bytes" : engines[n]?.title || n;
const engineLink = n => engines[n] ? link("engine/" + n, n) : esc(n);
const tag = c => `<span class="tag ${kind(c)}">${esc(verdict(c))}</span>`;
const why = c => esc(c.known || c.reason);

function params() {
  const [path, query] = location.hash.slice(1).split("?");
  return {path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query || "")};
}
function setQuery(key, value) {
  const {query} = params(), path = location.hash.slice(1).split("?")[0] || "/";
  value ? query.set(key, value) : query.delete(key);
  const text = query.toString();
  location.hash = path + (text ? "?" + text : "");
}
function choice(key, label, values, now) {
  return `<label>${label} <select data-key="${key}"><option value="">all</option>${values.map(v => `<option ${v === now ? "selected" : ""}>${esc(v)}</option>`).join("")}</select></label>`;
}
function grid(cells, query) {
  const readers = axis("reader"), writers = axis("writer");
  const head = readers.map(r => `<th>${engineLink(r)}</th>`).join("");
  const rows = writers.map(w => `<tr><th>${engineLink(w)}</th>` + readers.map(r => {
    const t = tally(cells.filter(c => c.writer === w && c.reader === r));
    const q = new URLSearchParams(query); q.set("writer", w); q.set("reader", r);
    return `<td class="${shade(t)}"><a class="cell" href="#/scenarios?${q}">${share(t)}</a></td>`;
  }).join("") + "</tr>").join("");
  return `<div class="scroll"><table class="grid"><tr><th>writer \\ reader</th>${head}</tr>${rows}</table></div>`;
}
function overview(query) {
  const feature = query.get("feature") || "";
  const cells = feature ? D.cells.filter(c => scenarios[c.scenario].features.includes(feature)) : D.cells;
  const t = tally(cells), all = [...new Set(D.scenarios.flatMap(s => s.features))].sort();
  const readers = axis("reader");
  const areas = [...new Set(D.scenarios.map(s => s.id.split("/")[0]))];
  const areaRows = areas.map(a => `<tr><th><a href="#/scenarios?area=${a}">${a}</a></th>` + readers.map(r => {
    const x = tally(cells.filter(c => c.reader === r && c.scenario.startsWith(a + "/")));
    return `<td class="${shade(x)}"><a class="cell" href="#/scenarios?area=${a}&reader=${encodeURIComponent(r)}">${share(x)}</a></td>`;
  }).join("") + "</tr>").join("");
  const missing = D.engines.filter(e => e.skipped);
  return `<h1>Who can share a table with whom</h1>
<div class="numbers"><div><b>${D.scenarios.length}</b>scenarios</div><div><b>${D.engines.length - missing.length}</b>engines</div>
<div class="pass"><b>${t.pass}</b>passed</div><div class="known"><b>${t.known}</b>accepted, not passed</div><div class="bad"><b>${t.bad}</b>not accepted</div><div class="skipped"><b>${t.skipped}</b>skipped</div></div>
<p class="soft">Each cell: the share of scenarios that pass when the engine of the row writes and that of the column reads; <i>metadata</i> compares snapshot summaries and table metadata. Green all pass, amber only refusals as declared and known deviations besides, red a failure.</p>
<div class="filters">${choice("feature", "feature", all, feature)}</div>
${grid(cells, feature ? {feature} : {})}
<h2>By area and reader</h2><div class="scroll"><table class="grid"><tr><th>area</th>${readers.map(r => `<th>${engineLink(r)}</th>`).join("")}</tr>${areaRows}</table></div>
${D.stale_deviations.length ? `<h2>Known deviations no longer seen</h2><ul>${D.stale_deviations.map(d => `<li>${esc(d)}</li>`).join("")}</ul>` : ""}
${missing.length ? `<h2>Engines that took no part</h2>${engineTable(missing)}` : ""}
<p class="soft small">floe ${esc(D.floe)}, ${esc(D.launcher)} launcher, ${new Date(D.started * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC, ${Math.round(D.seconds)} s.</p>`;
}
function engineTable(list) {
  return `<div class="scroll"><table><tr><th>engine</th><th>version</th><th>Iceberg</th><th>state</th></tr>${list.map(e => `<tr><td>${engineLink(e.name)}<br><span class="soft small">${esc(e.title)}</span></td><td>${esc(e.version)}</td><td>${esc(e.iceberg)}</td>
<td>${e.skipped ? `<span class="tag skipped">skipped</span> ${esc(e.skipped)}<pre>${esc(e.command)}</pre>` : `ran; started in ${e.start_seconds.toFixed(1)} s`}</td></tr>`).join("")}</table></div>`;
}
function cellTable(cells) {
  if (!cells.length) return `<p class="soft">Nothing here.</p>`;
  return `<div class="scroll"><table><tr><th>scenario</th><th>writer</th><th>reader</th><th>verdict</th><th>why</th></tr>${cells.map(c => `<tr><td>${cellLink(c)}</td><td>${engineLink(c.writer)}</td><td>${engineLink(c.reader)}</td><td>${tag(c)}</td><td class="small">${why(c)}</td></tr>`).join("")}</table></div>`;
}
const cellLink = c => `<a href="#/scenario/${c.scenario.split("/").map(encodeURIComponent).join("/")}?writer=${encodeURIComponent(c.writer)}&reader=${encodeURIComponent(c.reader)}">${esc(c.scenario)}</a>`;
function list(query) {
  const g = k => query.get(k) || "";
  const states = ["pass", "known", "bad", "skipped"], words = {pass: "passed", known: "accepted, not passed", bad: "not accepted", skipped: "skipped"};
  const text = g("text").toLowerCase();
  const cells = D.cells.filter(c => (!g("writer") || c.writer === g("writer")) && (!g("reader") || c.reader === g("reader"))
    && (!g("state") || words[kind(c)] === g("state")) && (!g("area") || c.scenario.startsWith(g("area") + "/"))
    && (!g("feature") || scenarios[c.scenario].features.includes(g("feature")))
    && (!text || (c.scenario + " " + scenarios[c.scenario].title + " " + scenarios[c.scenario].clauses.join(" ")).toLowerCase().includes(text)));
  const areas = [...new Set(D.scenarios.map(s => s.id.split("/")[0]))], feats = [...new Set(D.scenarios.flatMap(s => s.features))].sort();
  const rows = D.scenarios.filter(s => cells.some(c => c.scenario === s.id)).map(s => {
    const mine = cells.filter(c => c.scenario === s.id), t = tally(mine);
    const one = mine.length === 1 ? `${tag(mine[0])} <span class="small">${why(mine[0])}</span>` : share(t);
    return `<tr><td>${mine.length === 1 ? cellLink(mine[0]) : scenarioLink(s.id)}<br><span class="soft small">${esc(s.title)}</span></td><td class="small">${s.clauses.map(esc).join(", ")}</td><td class="${mine.length === 1 ? "" : shade(t)}">${one}</td></tr>`;
  }).join("");
  return `<h1>Scenarios</h1><div class="filters">${choice("area", "area", areas, g("area"))}${choice("feature", "feature", feats, g("feature"))}${choice("writer", "writer", axis("writer"), g("writer"))}${choice("reader", "reader", axis("reader"), g("reader"))}${choice("state", "verdict", states.map(s => words[s]), g("state"))}
<label>text <input data-key="text" value="${esc(g("text"))}" placeholder="name or clause"></label></div>
<div class="scroll"><table><tr><th>scenario</th><th>clauses</th><th>verdict</th></tr>${rows}</table></div>`;
}
function facts(step) {
  const out = [];
  const pairs = o => Object.entries(o).map(([k, v]) => `${k} = ${v}`).join(", ");
  if (step.snapshot) { const {summary, exact, ...rest} = step.snapshot; out.push(["snapshot", pairs({...rest, ...(summary || {})}) + (exact === false ? " (others may follow)" : "")]); }
  if (step["no-snapshot"]) out.push(["snapshot", "none is made"]);
  if (step.table) out.push(["table metadata", pairs(step.table)]);
  if (step.files) out.push(["new files", pairs(step.files)]);
  if (step.refused) out.push(["must be refused", (step.refused.mentions || []).length ? "with a message that says one of: " + step.refused.mentions.join(", ") : "with a clear message"]);
  if (step.unreadable) out.push(["readers", "must refuse the table"]);
  if (step.changes) out.push(["changes", `${step.changes.after ? "after step " + step.changes.after : "since the start"}: ${JSON.stringify(step.changes.rows)}`]);
  (step.query || []).forEach(q => out.push(["question", `${q.sql} gives ${JSON.stringify(q.rows)}`]));
  return out.length ? `<dl>${out.map(([k, v]) => `<dt>${k}</dt><dd>${esc(v)}</dd>`).join("")}</dl>` : "";
}
function scenario(id, query) {
  const s = scenarios[id];
  if (!s) return `<p>No scenario ${esc(id)}.</p>`;
  const cells = D.cells.filter(c => c.scenario === id), readers = [...new Set(cells.map(c => c.reader))].sort((a, b) => order.indexOf(a) - order.indexOf(b)), writers = [...new Set(cells.map(c => c.writer))];
  const w = query.get("writer"), r = query.get("reader");
  const chosen = cells.filter(c => c.writer === w && c.reader === r);
  const table = `<div class="scroll"><table class="grid"><tr><th>writer \\ reader</th>${readers.map(x => `<th>${engineLink(x)}</th>`).join("")}</tr>${writers.map(x => `<tr><th>${engineLink(x)}</th>${readers.map(y => {
    const c = cells.find(k => k.writer === x && k.reader === y);
    return c ? `<td class="${kind(c)}"><a class="cell" href="#/scenario/${id}?writer=${encodeURIComponent(x)}&reader=${encodeURIComponent(y)}">${esc(verdict(c))}</a></td>` : `<td class="none">–</td>`;
  }).join("")}</tr>`).join("")}</table></div>`;
  const steps = s.step.map((st, i) => {
    const checks = chosen.flatMap(c => c.checks.filter(k => k.step === i + 1));
    const shown = checks.map(k => `<div><span class="tag ${k.outcome === "pass" ? "pass" : k.outcome === "skipped" ? "skipped" : chosen[0].accepted ? "known" : "bad"}">${esc(k.what)}: ${esc(k.outcome)}</span> ${esc(k.reason || "")}${k.expected || k.got ? `<div class="two"><div><span class="soft small">expected</span><pre>${esc(k.expected)}</pre></div><div><span class="soft small">got</span><pre>${esc(k.got)}</pre></div></div>` : ""}</div>`).join("");
    const what = st.sql ? esc(st.sql) : "damage: " + esc(JSON.stringify(st.damage));
    return `<div class="step"><b>${i + 1}</b> ${st.note ? esc(st.note) : ""}${st.by ? ` <span class="tag known">run by the second engine</span>` : ""}<pre>${what}</pre>${facts(st)}${shown}</div>`;
  }).join("");
  const names = [...new Set(["floe", w, r].filter(x => engines[x]))];
  const command = `cargo floe conformance --scenario ${id}${names.length ? " --engines " + names.join(",") : ""}`;
  const verdictBox = chosen.map(c => `<p>${tag(c)} written by ${engineLink(c.writer)}, read by ${engineLink(c.reader)}. ${why(c)}</p>`).join("") || `<p class="soft">Choose a cell to see what was expected and what came.</p>`;
  return `<h1>${esc(s.title)}</h1><p class="soft">${esc(id)}</p>${s.description ? `<p>${esc(s.description)}</p>` : ""}
<dl>${s.clauses.map(c => `<dt>${esc(c)}</dt><dd>${esc(D.clauses[c] || "")}</dd>`).join("")}<dt>needs</dt><dd>${s.features.map(esc).join(", ")}</dd>${s.origin ? `<dt>comes from</dt><dd>${esc(s.origin)}</dd>` : ""}</dl>
${table}${verdictBox}<p class="soft small">To run this one:</p><pre>${esc(command)}</pre><h2>Steps</h2>${steps}`;
}
function engine(name) {
  const e = engines[name];
  if (!e) return `<p>No engine ${esc(name)}.</p>`;
  const wrote = D.cells.filter(c => c.writer === name), read = D.cells.filter(c => c.reader === name);
  const open = [...new Set([...wrote, ...read])].filter(c => c.outcome !== "pass" && c.outcome !== "skipped");
  const sum = (cells, key) => `<div class="scroll"><table class="grid"><tr>${[...new Set(cells.map(c => c[key]))].map(n => `<th>${engineLink(n)}</th>`).join("")}</tr><tr>${[...new Set(cells.map(c => c[key]))].map(n => { const t = tally(cells.filter(c => c[key] === n)); return `<td class="${shade(t)}">${share(t)}</td>`; }).join("")}</tr></table></div>`;
  return `<h1>${esc(e.title)}</h1>${e.skipped ? `<p><span class="tag skipped">skipped</span> ${esc(e.skipped)}</p>` : ""}
<dl><dt>version</dt><dd>${esc(e.version)}</dd><dt>Iceberg inside</dt><dd>${esc(e.iceberg || "–")}</dd><dt>roles</dt><dd>${e.roles.map(esc).join(", ") || "–"}</dd><dt>declares</dt><dd>${e.capabilities.map(esc).join(", ") || "–"}</dd><dt>does not declare</dt><dd>${D.capabilities.filter(c => !e.capabilities.includes(c)).map(esc).join(", ") || "–"}</dd></dl>
<pre>${esc(e.command)}</pre>
${wrote.length ? `<h2>Its tables, read by</h2>${sum(wrote, "reader")}` : ""}${read.length ? `<h2>It reads the tables of</h2>${sum(read, "writer")}` : ""}
<h2>What did not pass</h2>${cellTable(open)}`;
}
function show() {
  const {path, query} = params();
  const page = path[0];
  main.innerHTML = page === "scenarios" ? list(query) : page === "scenario" ? scenario(path.slice(1).join("/"), query) : page === "engines" ? `<h1>Engines</h1>${engineTable(D.engines)}`
    : page === "engine" ? engine(path[1]) : page === "open" ? `<h1>What did not pass</h1>${cellTable(D.cells.filter(c => kind(c) === "bad"))}<h2>Accepted: known deviations and refusals as declared</h2>${cellTable(D.cells.filter(c => kind(c) === "known"))}` : overview(query);
  main.querySelectorAll("[data-key]").forEach(e => e.addEventListener("change", () => setQuery(e.dataset.key, e.value)));
}
addEventListener("hashchange", () => { show(); scrollTo(0, 0); });
const root = document.documentElement, themes = ["", "light", "dark"];
let theme = 0;
document.getElementById("theme").addEventListener("click", () => { theme = (theme + 1) % 3; themes[theme] ? root.dataset.theme = themes[theme] : delete root.dataset.theme; });
show();
