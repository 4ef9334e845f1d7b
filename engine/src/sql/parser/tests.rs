use proptest::prelude::*;

use super::*;
use crate::sql::ast::{AlterAction, MergeKind, SqlType};
use crate::sql::split::split;

fn golden_statements() -> Vec<String> {
    let root = std::env::var_os("FLOE_SHARED").map(std::path::PathBuf::from).or_else(|| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|a| a.join("shared"))
            .find(|p| p.join("golden").is_dir())
    });
    let folder = root.expect("golden cases not found: set FLOE_SHARED to the shared folder").join("golden");
    let mut out = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("golden folder") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|e| e == "json") {
            let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("json");
            collect(&json, &mut out);
        }
    }
    out.sort();
    out.dedup();
    out
}

fn collect(v: &serde_json::Value, out: &mut Vec<String>) {
    match v {
        serde_json::Value::Object(m) => {
            for (k, v) in m {
                match v {
                    serde_json::Value::String(s) if k == "sql" && !s.trim_start().starts_with("--") => {
                        out.push(s.clone())
                    }
                    serde_json::Value::String(s) if k == "checksum_sql" => out.push(format!("SELECT {s} FROM t")),
                    v => collect(v, out),
                }
            }
        }
        serde_json::Value::Array(a) => a.iter().for_each(|v| collect(v, out)),
        _ => {}
    }
}

#[test]
fn every_golden_statement_parses() {
    let all = golden_statements();
    assert!(all.len() > 200, "only {} statements", all.len());
    // floe, as Spark, has no interval columns, and a CRS by number is no type of Iceberg's
    for sql in all.iter().filter(|s| !s.contains("x INTERVAL")) {
        if let Err(e) = parse(sql) {
            panic!("{sql}\n{e}");
        }
    }
}

#[test]
fn splits_outside_of_strings_identifiers_and_comments() {
    let script = "SELECT ';', \"a;\", `b;` -- c;\n; /* ; /* ; */ ; */ SELECT 'it''s;', 'x\\';';\n-- end\n;";
    let pieces = split(script);
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[1].text, "SELECT 'it''s;', 'x\\';'");
    assert_eq!(pieces[1].line, 2);
}

#[test]
fn merge_clauses_keep_their_order() {
    let s = parse(
        "MERGE INTO ns.t AS t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED AND s.id = 2 THEN DELETE \
         WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.a.b = 1",
    )
    .expect("parses");
    let Statement::Merge(m) = s else { panic!("not a merge") };
    assert_eq!(m.alias.as_deref(), Some("t"));
    let kinds: Vec<_> = m.clauses.iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [MergeKind::Matched, MergeKind::Matched, MergeKind::NotMatched, MergeKind::NotMatchedBySource]);
}

#[test]
fn nested_types_close_with_shift_tokens() {
    let s =
        parse("CREATE TABLE t (a ARRAY<ARRAY<MAP<STRING, STRUCT<x: DECIMAL(38,10), y ARRAY<INT>>>>>)").expect("parses");
    let Statement::CreateTable(t) = s else { panic!("not a table") };
    let SqlType::List(inner) = &t.columns[0].ty else { panic!("not a list") };
    assert!(matches!(**inner, SqlType::List(_)));
    let s =
        parse("CREATE TABLE t (a STRUCT<x: INT, y: STRUCT<z: INT>>, b ARRAY<STRUCT<k: INT>>, c INT)").expect("parses");
    let Statement::CreateTable(t) = s else { panic!("not a table") };
    let names: Vec<_> = t.columns.iter().map(|c| c.path.join(".")).collect();
    assert_eq!(names, ["a", "b", "c"], "a comma after >> goes on with the columns");
}

#[test]
fn alter_words() {
    for (sql, ok) in [
        ("ALTER TABLE t WRITE ORDERED BY id DESC NULLS LAST, bucket(4, s)", true),
        ("ALTER TABLE t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id", true),
        ("ALTER TABLE t ADD COLUMNS (a INT FIRST, st.c STRING COMMENT 'x' AFTER b)", true),
        ("ALTER TABLE t ADD COLUMN arr.element.x INT DEFAULT 5", true),
        (
            "ALTER TABLE t CREATE BRANCH dev AS OF VERSION 5 RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 HOURS",
            true,
        ),
        ("ALTER TABLE t CREATE OR REPLACE TAG x RETAIN 1 DAYS", true),
        ("ALTER TABLE t REPLACE PARTITION FIELD days(ts) WITH hours(ts) AS h", true),
        ("ALTER TABLE t SET IDENTIFIER FIELDS id, a.b", true),
        ("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a', b.c-d)", true),
        ("ALTER TABLE t FROBNICATE", false),
        ("ALTER TABLE t ADD PARTITION FIELD bucket(0, id)", false),
        ("ALTER TABLE t CREATE TAG x RETAIN 9223372036854775807 DAYS", false),
    ] {
        assert_eq!(parse(sql).is_ok(), ok, "{sql}: {:?}", parse(sql));
    }
    let Ok(Statement::AlterTable { action: AlterAction::SetRef(r), .. }) =
        parse("ALTER TABLE t CREATE TAG x AS OF VERSION 5 RETAIN 1 HOURS")
    else {
        panic!("not a ref")
    };
    assert_eq!((r.snapshot_id, r.max_ref_age_ms), (Some(5), Some(3_600_000)));
}

#[test]
fn errors_say_where_and_what_is_allowed() {
    let e = parse("FROB x").expect_err("unknown statement").to_string();
    assert!(e.contains("line 1, column 1") && e.contains("MERGE"), "{e}");
    let e = parse("DROP FUNCTION x").expect_err("unknown object").to_string();
    assert!(e.contains("cannot parse DROP") && e.contains("NAMESPACE, TABLE or VIEW"), "{e}");
    let e = parse("CREATE TABLE t (a DECIMAL(39,2))").expect_err("precision").to_string();
    assert!(e.contains("p <= 38"), "{e}");
}

#[test]
fn deep_nesting_is_an_error() {
    let sql = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(parse(&sql).is_err());
    for (piece, tail) in [("NOT ", "true"), ("- ", "1"), ("! ", "true")] {
        assert!(parse(&format!("SELECT {}{tail}", piece.repeat(10_000))).is_err());
    }
    assert!(parse(&format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(10_000))).is_err());
    assert!(parse(&format!("SELECT 1 WHERE true{}", " OR true".repeat(100_000))).is_err());
    let sql = format!("CREATE TABLE t (a {}INT{})", "ARRAY<".repeat(1_000), ">".repeat(1_000));
    assert!(parse(&sql).is_err());
    for (open, close) in [("ARRAY<", ">"), ("STRUCT<a: ", ">"), ("MAP<INT, ", ">")] {
        let nested = |n: usize| format!("SELECT CAST(x AS {}INT{})", open.repeat(n), close.repeat(n));
        let e = parse(&nested(20_000)).unwrap_err().to_string();
        assert!(e.contains("nested deeper than 50"), "{open}: {e}");
    }
    assert!(parse("SELECT CAST(x AS ARRAY<INT>)").is_ok());
    for (open, close) in [("CASE WHEN ", " THEN 1 END"), ("(SELECT * FROM ", ")"), ("f(", ")"), ("(b JOIN ", ")")] {
        for n in [30, 49, 20_000] {
            // an answer either way, never the end of the stack
            let _ = parse(&format!("SELECT {}1{}", open.repeat(n), close.repeat(n)));
        }
    }
}

/// Words that reach deep into the parser.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "t",
    "ns.t",
    "(",
    ")",
    ",",
    ";",
    "'x'",
    "\"y\"",
    "`z`",
    "1",
    "1.5D",
    "-",
    "*",
    "CREATE",
    "TABLE",
    "VIEW",
    "ALTER",
    "ADD",
    "COLUMN",
    "INT",
    "STRUCT<",
    "ARRAY<",
    ">",
    ">>",
    "a:",
    "DROP",
    "MERGE",
    "INTO",
    "USING",
    "ON",
    "WHEN",
    "MATCHED",
    "NOT",
    "THEN",
    "UPDATE",
    "SET",
    "DELETE",
    "INSERT",
    "VALUES",
    "DEFAULT",
    "CALL",
    "=>",
    "=",
    "VERSION",
    "AS",
    "OF",
    "FOR",
    "TIMESTAMP",
    "PARTITIONED",
    "BY",
    "bucket(",
    "TBLPROPERTIES",
    "INTERVAL",
    "DAY",
    "CAST(",
    "CASE",
    "END",
    "--",
    "/*",
    "*/",
    "'",
    "\\",
    "é",
    "X'0'",
    "PARTITION",
    "FIELD",
    "BRANCH",
    "TAG",
    "RETAIN",
    "WRITE",
    "ORDERED",
    "SHOW",
    "DESCRIBE",
    "EXPLAIN",
    "WITH",
    "JOIN",
    ".",
    "1e5",
    "L",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_panics(text in "\\PC{0,80}") {
        for piece in split(&text) {
            let _ = parse(piece.text);
        }
        let _ = parse(&text);
    }

    #[test]
    fn no_words_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..24), glue in prop::sample::select(&[" ", ""][..])) {
        let text = words.join(glue);
        for piece in split(&text) {
            let _ = parse(piece.text);
        }
        let _ = parse(&text);
    }
}
