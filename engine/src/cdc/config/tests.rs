//! One test a rule of the configuration.

use iceberg::spec::{NullOrder, SortDirection, Transform};

use super::*;

const SOURCE: &str = "source: {table: ns.t, catalog_name: a, catalog_properties: {type: hadoop, warehouse: /w}";

fn pipeline(extra: &str, target: &str) -> Result<PipelineConfig> {
    PipelineConfig::parse(&format!("{SOURCE}{extra}}}\n{target}"), "pipeline.yaml")
}

fn refused<T: std::fmt::Debug>(r: Result<T>, words: &[&str]) {
    let e = r.expect_err("must be refused");
    assert_eq!(e.kind(), crate::ErrorKind::InvalidInput, "{e}");
    let text = e.to_string();
    for w in words {
        assert!(text.contains(w), "{text:?} does not say {w:?}");
    }
}

#[test]
fn reads_the_documents_pipeline() {
    let text = "
source:
  table: ns.orders
  catalog_name: local
  catalog_properties:
    type: hadoop
    warehouse: /w
  from_snapshot: 5
  streaming: true
  poll_interval_seconds: 10
  include_metadata_columns: true
target:
  table: ns.copy
  catalog_name: other
  catalog_properties: {type: rest, uri: 'http://localhost:1'}
  mode: merge-on-read
  change_type_column: CHANGE_TYPE
  equality_columns: [id]
sync:
  schema_evolution: add
";
    let p = PipelineConfig::parse(text, "f").unwrap();
    assert_eq!(p.source.read.table, "ns.orders");
    assert_eq!(p.source.start, RangeStart::Snapshot("5".into()));
    assert_eq!(p.source.poll_interval.as_secs(), 10);
    assert!(p.source.include_metadata_columns && p.source.streaming);
    let t = p.target.unwrap();
    assert_eq!(t.mode, WriteMode::MergeOnRead);
    assert_eq!(t.equality_columns, Some(vec!["id".to_string()]));
    assert_eq!(p.sync.schema_evolution, SchemaEvolution::Add);
}

#[test]
fn json_is_read_too() {
    let p = PipelineConfig::parse(r#"{"source": {"table": "ns.t", "to_timestamp": 12}}"#, "f").unwrap();
    assert_eq!(p.source.to_timestamp, Some(12));
    assert_eq!(p.source.poll_interval.as_secs(), 60);
    assert_eq!(p.source.start, RangeStart::Earliest);
    assert!(p.target.is_none());
}

#[test]
fn an_unknown_key_is_named_with_the_allowed_ones() {
    refused(pipeline(", form_snapshot: 1", ""), &["`form_snapshot`", "from_snapshot", "(at source)"]);
    refused(pipeline("", "sink: {}"), &["`sink`", "source, sync, target"]);
    refused(pipeline("", "sync: {retries: 3}"), &["`retries`", "schema_evolution"]);
    refused(pipeline("", "target: {table: ns.u, tabel_properties: {}}"), &["`tabel_properties`", "table_properties"]);
}

#[test]
fn syntax_and_shape_are_checked() {
    refused(PipelineConfig::parse("source: [", "p.yaml"), &["YAML", "p.yaml"]);
    refused(PipelineConfig::parse("- a", "p.yaml"), &["a list", "map"]);
    refused(PipelineConfig::parse("source: 5", "p.yaml"), &["`source`", "a map of keys"]);
    refused(PipelineConfig::parse("source: {table: a.b, table: a.c}", "p.yaml"), &["table"]);
    refused(PipelineConfig::parse("", "p.yaml"), &["`source` is required"]);
    refused(PipelineConfig::parse("source: {}", "p.yaml"), &["`table` is required"]);
}

/// What a key takes.
#[derive(Clone, Copy)]
enum Takes {
    Text,
    List,
    Map,
    Bool,
    /// At least this.
    Int(i64),
    /// One of these.
    Word(&'static str),
}
use Takes::{Bool, Int, List, Map, Text, Word};

const CATALOG: &str = "{type: hadoop, warehouse: /w}";
const READ: [(&str, Takes, &str); 7] = [
    ("table", Text, "ns.t"),
    ("catalog_name", Text, "local"),
    ("catalog_properties", Map, CATALOG),
    ("config_properties", Map, "{fs.s3a.endpoint: x}"),
    ("filter", Text, "a > 3"),
    ("keep", List, "[a, b.c]"),
    ("drop", List, "[a]"),
];
const CDC_READ: [(&str, Takes, &str); 13] = [
    ("branch", Text, "main"),
    ("from_snapshot", Text, "12"),
    ("start_snapshot_id", Text, "12"),
    ("from_timestamp", Int(0), "12"),
    ("to_snapshot", Text, "12"),
    ("end_snapshot_id", Text, "12"),
    ("to_timestamp", Int(0), "12"),
    ("streaming", Bool, "true"),
    ("poll_interval_seconds", Int(1), "1, streaming: true"),
    ("starting_strategy", Word("earliest, latest, snapshot, timestamp"), "latest"),
    ("include_metadata_columns", Bool, "true"),
    ("identifier_columns", List, "[id]"),
    ("net_changes", Bool, "true"),
];
const WRITE: [(&str, Takes, &str); 33] = [
    ("table", Text, "ns.t"),
    ("catalog_name", Text, "local"),
    ("catalog_properties", Map, CATALOG),
    ("config_properties", Map, "{a: b}"),
    ("mode", Word("append, merge-on-read, copy-on-write"), "copy-on-write"),
    ("equality_columns", List, "[id]"),
    ("change_type_column", Text, "op"),
    ("change_type_map", Map, "{I: INSERT}"),
    ("sequence_number_column", Text, "seq"),
    ("upsert", Bool, "true"),
    ("keep", List, "[a]"),
    ("drop", List, "[a]"),
    ("only", Text, "a"),
    ("partition_fields", List, "['bucket(id, 4)']"),
    ("sort_fields", List, "[id desc]"),
    ("table_properties", Map, "{format-version: 3}"),
    ("snapshot_properties", Map, "{by: me}"),
    ("distribution_mode", Word("none, hash"), "hash"),
    ("sorter_memory_mb", Int(1), "100"),
    ("triggering_frequency_seconds", Int(1), "5"),
    ("direct_write_byte_limit", Int(0), "0"),
    ("autosharding", Bool, "false"),
    ("num_shards", Int(1), "16"),
    ("shards_per_partition", Int(1), "2"),
    ("allowed_lateness_seconds", Int(0), "21600"),
    ("sink_id", Text, "sink"),
    ("token_heartbeat_seconds", Int(1), "60"),
    ("write_properties", Map, "{a: b}"),
    ("error_handling", Map, "{output: bad}"),
    ("use_side_input_table_cache", Bool, "true"),
    ("table_cache_refresh_interval_seconds", Int(1), "5"),
    ("maximum_table_cache_size", Int(1), "5"),
    ("table_cache_polling_buckets", Int(1), "5"),
];
const SYNC: [(&str, Takes, &str); 9] = [
    ("id", Text, "one"),
    ("snapshots_per_commit", Int(1), "10"),
    ("schema_evolution", Word("off, add, full"), "add"),
    ("delete_format", Word("positions, equality"), "positions"),
    ("stop_after_snapshots", Int(1), "3"),
    ("stop_at_snapshot", Text, "12"),
    ("stop_when_idle", Bool, "true"),
    ("ledger", Text, "ns.ledger"),
    ("memory_mb", Int(16), "64"),
];

/// Values that a key must refuse, each with words that its message must have.
fn bad_values(takes: Takes) -> Vec<(String, String)> {
    let pair = |v: &str, w: &str| (v.to_string(), w.to_string());
    match takes {
        Text => vec![pair("[x]", "a text"), pair("{x: y}", "a text"), pair("' '", "not empty")],
        List => vec![
            pair("x", "a list of texts"),
            pair("{x: y}", "a list of texts"),
            pair("[1]", "a list of texts"),
            pair("[[x]]", "a list of texts"),
        ],
        Map => vec![
            pair("x", "a map of texts"),
            pair("[x]", "a map of texts"),
            pair("{x: [y]}", "a text, number or boolean"),
        ],
        Bool => vec![pair("maybe", "true, false"), pair("3", "true, false"), pair("[true]", "true, false")],
        Int(min) => vec![
            pair("soon", "an integer"),
            pair("1.5", "an integer"),
            pair("[1]", "an integer"),
            (format!("{}", min - 1), format!("at least {min}")),
        ],
        Word(words) => vec![pair("nonsense", words), pair("[x]", "a text")],
    }
}

/// Every key of every section: a good value is taken, each bad one is refused with the key's name and what is allowed, and no
/// key that the parser knows is missing here.
#[test]
fn every_key_is_checked() {
    type Parse = fn(&str) -> Result<()>;
    let source: Parse = |t| PipelineConfig::parse(&format!("source: {{{t}}}"), "p").map(|_| ());
    let target: Parse =
        |t| PipelineConfig::parse(&format!("source: {{table: ns.s}}\ntarget: {{{t}}}"), "p").map(|_| ());
    let sync: Parse = |t| PipelineConfig::parse(&format!("source: {{table: ns.s}}\nsync: {{{t}}}"), "p").map(|_| ());
    let read: Parse = |t| parse_managed_read(&format!("{{{t}}}"), "p").map(|_| ());
    let write: Parse = |t| parse_managed_write(&format!("{{{t}}}"), "p").map(|_| ());
    let writes = WRITE.as_slice();
    let cdc: Vec<_> = READ.iter().chain(&CDC_READ).copied().collect();
    for (name, parse, keys, rest) in [
        ("source", source, cdc.as_slice(), &["table: ns.t"][..]),
        ("target", target, writes, &["table: ns.t", "mode: merge-on-read"][..]),
        ("sync", sync, SYNC.as_slice(), &[][..]),
        ("io read", read, READ.as_slice(), &["table: ns.t"][..]),
        ("io write", write, writes, &["table: ns.t", "mode: merge-on-read"][..]),
    ] {
        let with = |key: &str, value: &str| {
            let mut all: Vec<String> = vec![format!("{key}: {value}")];
            all.extend(rest.iter().filter(|r| !r.starts_with(&format!("{key}:"))).map(ToString::to_string));
            all.join(", ")
        };
        for (key, takes, good) in keys {
            parse(&with(key, good)).unwrap_or_else(|e| panic!("{name}: {key}: {good}\n{e}"));
            for (bad, words) in bad_values(*takes) {
                let e = parse(&with(key, &bad)).expect_err(&format!("{name}: {key}: {bad}"));
                let text = e.to_string();
                assert_eq!(e.kind(), crate::ErrorKind::InvalidInput, "{text}");
                assert!(text.contains(&format!("`{key}")) && text.contains(&words), "{name}: {key}: {bad}\n{text}");
            }
        }
        let text = parse(&with("no_such_key", "1")).expect_err("unknown").to_string();
        let known = text.split("allowed: ").nth(1).expect("a list").split(" (at").next().expect("a list");
        let mut known: Vec<&str> = known.split(", ").collect();
        let mut here: Vec<&str> = keys.iter().map(|k| k.0).collect();
        known.sort_unstable();
        here.sort_unstable();
        assert_eq!(known, here, "{name}");
    }
}

#[test]
fn catalogs_are_checked() {
    for (properties, words) in [
        ("{warehouse: /w}", &["`catalog_properties.type` is required", "hadoop (with `warehouse`)"][..]),
        ("{type: glue}", &["`catalog_properties.type`", "glue", "rest (with `uri`)"][..]),
        ("{type: hadoop}", &["`catalog_properties.warehouse` is required"][..]),
        ("{type: rest, warehouse: /w}", &["`catalog_properties.uri` is required"][..]),
    ] {
        let text = format!("source: {{table: ns.t, catalog_properties: {properties}}}");
        refused(PipelineConfig::parse(&text, "p"), words);
    }
}

#[test]
fn sections_fit_together() {
    let with = |source: &str, target: &str, sync: &str| {
        PipelineConfig::parse(
            &format!("source: {{table: ns.s{source}}}\ntarget: {{table: {target}}}\nsync: {{{sync}}}"),
            "p",
        )
    };
    refused(with(", to_snapshot: 3", "a.b", "stop_at_snapshot: 4"), &["`stop_at_snapshot`", "`to_snapshot`"]);
    refused(with("", "a.b, mode: copy-on-write", "delete_format: equality"), &["`delete_format`", "merge-on-read"]);
    refused(
        with("", "a.b, mode: merge-on-read, partition_fields: [x]", "delete_format: equality"),
        &["`delete_format`", "positions"],
    );
    refused(with("", "a.b", "ledger: a.l"), &["`ledger`", "template"]);
    refused(with("", "'a_{x}.b'", ""), &["`ledger` is required", "NAMESPACE.TABLE"]);
    refused(
        with("", "'a.b', table_properties: {format-version: 1}", ""),
        &["`table_properties.format-version`", "2, 3"],
    );
    let p = with("", "'a.b_{x.y}'", "").expect("a template");
    assert_eq!(p.sync.ledger.as_deref(), Some("a.floe_sync"));
    let p = with("", "'a_{x.y}.b'", "ledger: c.l").expect("a template");
    assert_eq!(p.sync.ledger.as_deref(), Some("c.l"));
}

#[test]
fn exclusive_keys_are_refused() {
    refused(pipeline(", keep: [a], drop: [b]", ""), &["`keep` and `drop`", "at most one"]);
    refused(pipeline(", from_snapshot: 1, from_timestamp: 2", ""), &["`from_snapshot` and `from_timestamp`"]);
    refused(pipeline(", from_snapshot: 1, start_snapshot_id: 2", ""), &["`from_snapshot` and `start_snapshot_id`"]);
    refused(pipeline(", to_snapshot: 1, to_timestamp: 2", ""), &["`to_snapshot` and `to_timestamp`"]);
    refused(pipeline(", to_snapshot: 1, end_snapshot_id: 2", ""), &["`to_snapshot` and `end_snapshot_id`"]);
    refused(pipeline(", from_snapshot: 1, to_timestamp: 2", ""), &["`from_snapshot` and `to_timestamp`"]);
    refused(
        pipeline(", from_snapshot: 1, starting_strategy: latest", ""),
        &["`from_snapshot` and `starting_strategy: latest`"],
    );
    refused(parse_managed_write("table: a.b\nkeep: [a]\nonly: r", "w"), &["`keep` and `only`"]);
}

/// Every strategy with every start: only the key that belongs to a strategy goes with it.
#[test]
fn a_strategy_goes_with_its_own_start() {
    let snapshot = || RangeStart::Snapshot("7".into());
    let after = || RangeStart::AfterSnapshot("7".into());
    let time = || RangeStart::Timestamp(7);
    for streaming in [false, true] {
        let default = if streaming { RangeStart::Latest } else { RangeStart::Earliest };
        for (strategy, [none, from, start, timestamp]) in [
            ("", [Some(default), Some(snapshot()), Some(after()), Some(time())]),
            ("earliest", [Some(RangeStart::Earliest), None, None, None]),
            ("latest", [Some(RangeStart::Latest), None, None, None]),
            ("snapshot", [None, Some(snapshot()), Some(after()), None]),
            ("timestamp", [None, None, None, Some(time())]),
        ] {
            for (key, want) in
                [("", none), ("from_snapshot", from), ("start_snapshot_id", start), ("from_timestamp", timestamp)]
            {
                let mut text = format!(", streaming: {streaming}");
                if !strategy.is_empty() {
                    text += &format!(", starting_strategy: {strategy}");
                }
                if !key.is_empty() {
                    text += &format!(", {key}: 7");
                }
                let got = pipeline(&text, "");
                let Some(want) = want else {
                    let named = if key.is_empty() { "found none".to_string() } else { format!("`{key}`") };
                    refused(got, &[&format!("`starting_strategy: {strategy}"), &named, "allowed"]);
                    continue;
                };
                assert_eq!(got.unwrap_or_else(|e| panic!("{text}: {e}")).source.start, want, "{text}");
            }
        }
    }
}

#[test]
fn values_are_checked() {
    refused(pipeline(", poll_interval_seconds: 0, streaming: true", ""), &["`poll_interval_seconds`", "at least 1"]);
    refused(pipeline(", poll_interval_seconds: 5", ""), &["`poll_interval_seconds` needs `streaming: true`"]);
    refused(pipeline(", streaming: maybe", ""), &["`streaming`", "maybe", "true, false"]);
    refused(
        pipeline(", starting_strategy: oldest", ""),
        &["`starting_strategy`", "earliest, latest, snapshot, timestamp"],
    );
    refused(pipeline(", from_timestamp: soon", ""), &["`from_timestamp`", "soon", "integer"]);
    refused(pipeline(", from_timestamp: 9, to_timestamp: 3", ""), &["`from_timestamp` 9 is after `to_timestamp` 3"]);
    refused(pipeline(", keep: a", ""), &["`keep`", "a list of texts"]);
    refused(pipeline(", keep: []", ""), &["`keep`", "at least one"]);
    refused(pipeline(", keep: [a, a]", ""), &["`keep`", "once"]);
    refused(
        pipeline("", "target: {table: ns.u, mode: merge_on_read}"),
        &["`mode`", "append, merge-on-read, copy-on-write"],
    );
    refused(pipeline("", "sync: {schema_evolution: some}"), &["`schema_evolution`", "off, add, full"]);
    refused(pipeline("", "sync: {snapshots_per_commit: 0}"), &["`snapshots_per_commit`", "at least 1"]);
    refused(PipelineConfig::parse("source: {table: t}", "p"), &["`table`", "NAMESPACE.TABLE"]);
}

#[test]
fn options_of_one_mode_are_refused_in_the_other() {
    for key in ["equality_columns: [id]", "change_type_column: c", "upsert: true", "sequence_number_column: s"] {
        refused(pipeline("", &format!("target: {{table: ns.u, {key}}}")), &["mode append", "mode: merge-on-read"]);
    }
}

#[test]
fn change_types_are_checked() {
    let t =
        parse_managed_write("table: a.b\nmode: merge-on-read\nchange_type_map: {c: insert, d: DELETE}", "w").unwrap();
    assert_eq!(t.change_type_map["c"], "INSERT");
    refused(
        parse_managed_write("table: a.b\nmode: merge-on-read\nchange_type_map: {c: CREATE}", "w"),
        &["`change_type_map.c`", "CREATE", "UPDATE_BEFORE"],
    );
}

#[test]
fn reserved_snapshot_properties_are_refused() {
    refused(parse_managed_write("table: a.b\nsnapshot_properties: {floe.cdc.x: 1}", "w"), &["floe.cdc.x", "reserved"]);
    refused(parse_managed_write("table: a.b\nsnapshot_properties: {beam.cdc.x: 1}", "w"), &["beam.cdc.x", "reserved"]);
}

#[test]
fn keys_without_effect_are_taken_and_named() {
    let w = parse_managed_write(
        "table: a.b\ntriggering_frequency_seconds: 5\ndirect_write_byte_limit: 0\nautosharding: true\nnum_shards: 4",
        "w",
    )
    .unwrap();
    assert_eq!(w.ignored, ["triggering_frequency_seconds", "direct_write_byte_limit", "autosharding", "num_shards"]);
    refused(parse_managed_write("table: a.b\nnum_shards: none", "w"), &["`num_shards`", "integer"]);
}

#[test]
fn partition_terms() {
    let ok = [
        ("foo", Transform::Identity, "foo", "foo"),
        ("truncate(foo, 4)", Transform::Truncate(4), "foo", "foo_trunc"),
        ("bucket(a.b,16)", Transform::Bucket(16), "a.b", "a_b_bucket"),
        ("hour(ts)", Transform::Hour, "ts", "ts_hour"),
        ("DAY(ts)", Transform::Day, "ts", "ts_day"),
        ("month(ts)", Transform::Month, "ts", "ts_month"),
        ("year( ts )", Transform::Year, "ts", "ts_year"),
        ("void(ts)", Transform::Void, "ts", "ts_null"),
    ];
    for (text, transform, column, name) in ok {
        let t = parse_partition_term(text, "partition_fields").unwrap();
        assert_eq!((t.transform, t.column.as_str(), t.field_name().as_str()), (transform, column, name), "{text}");
    }
    for text in
        ["bucket(foo)", "bucket(foo,0)", "bucket(foo,-1)", "bucket(16,foo)", "week(ts)", "day(ts", "", "a b", "hour()"]
    {
        refused(parse_partition_term(text, "partition_fields"), &["`partition_fields`", "bucket(COLUMN, N)"]);
    }
}

#[test]
fn sort_terms() {
    let ok = [
        ("foo", SortDirection::Ascending, NullOrder::First),
        ("foo asc", SortDirection::Ascending, NullOrder::First),
        ("foo DESC", SortDirection::Descending, NullOrder::Last),
        ("bucket(foo, 4) desc nulls first", SortDirection::Descending, NullOrder::First),
        (" day(ts)  nulls last", SortDirection::Ascending, NullOrder::Last),
    ];
    for (text, direction, nulls) in ok {
        let t = parse_sort_term(text, "sort_fields").unwrap();
        assert_eq!((t.direction, t.nulls), (direction, nulls), "{text}");
    }
    for text in ["foo up", "foo asc nulls", "foo nulls middle", "foo asc desc", ""] {
        refused(parse_sort_term(text, "sort_fields"), &["`sort_fields`", "nulls first"]);
    }
}

#[test]
fn table_templates() {
    let t = TableTemplate::parse("ds.my_{col1}_{col2.nested}_table").unwrap();
    assert_eq!(t.parts.len(), 5);
    assert_eq!(t.parts[3], TemplatePart::Field("col2.nested".into()));
    assert!(t.fixed().is_none());
    assert_eq!(TableTemplate::parse("a.b").unwrap().fixed(), Some("a.b"));
    for text in ["b", "{a.b}", "a.{b", "a.b}", "a.{}", "a.", "a.{b.}"] {
        refused(parse_managed_write(&format!("table: '{text}'"), "w"), &["`table`", "{column}"]);
    }
}

#[test]
fn managed_read_takes_its_keys_only() {
    let r = parse_managed_read("table: ns.t\nfilter: a > 3\nkeep: [a, s.x]", "r").unwrap();
    assert_eq!(r.columns, Columns::Keep(vec!["a".into(), "s.x".into()]));
    assert_eq!(r.filter.as_deref(), Some("a > 3"));
    refused(parse_managed_read("table: ns.t\nstreaming: true", "r"), &["`streaming`", "filter"]);
    assert!(parse_managed_read("source: {table: ns.t}", "r").is_ok());
}

/// Only `true` and `false` are booleans (YAML 1.2): columns may have the names that older YAML took for them.
#[test]
fn a_column_may_be_called_like_an_old_boolean() {
    for name in ["n", "y", "on", "off", "yes", "no", "Y", "ON"] {
        let text = format!(
            "source: {{table: ns.s}}\ntarget: {{table: ns.t, mode: merge-on-read, equality_columns: [id, {name}]}}"
        );
        let p = PipelineConfig::parse(&text, "p").expect("a list of names");
        let target = p.target.expect("a target");
        assert_eq!(target.equality_columns, Some(vec!["id".to_string(), name.to_string()]));
    }
}

/// libFuzzer found a document of 250 bytes that took 18 seconds.
#[test]
fn anchors_that_multiply_are_refused() {
    let nine = |of: &str| format!("[{}]", [of; 9].join(","));
    let bomb = format!(
        "a: &a {}\nb: &b {}\nc: &c {}\nd: &d {}\ntable: {}\n",
        nine("1"),
        nine("*a"),
        nine("*b"),
        nine("*c"),
        nine("*d")
    );
    let e = super::Section::parse(&bomb, "config.yaml").unwrap_err();
    assert!(e.kind() == crate::ErrorKind::InvalidInput && e.message().contains("alias"), "{e}");
    // an anchor that is used is fine
    let shared = super::Section::parse("a: &a [1, 2]\ntable: *a\nother: *a\n", "config.yaml");
    assert!(shared.is_ok(), "{shared:?}");
}
