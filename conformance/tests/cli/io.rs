//! `floe io`: the document's commands, values that do not fit, and rows that come back as they went out.

use super::*;

#[test]
fn the_commands_of_the_document_run_as_they_are_printed() {
    let page = std::fs::read_to_string(root().join("docs/io.md")).expect("docs/io.md");
    let shown = shown_by(&page);
    let printed: Vec<&str> = page.split("```json\n").skip(1).filter_map(|p| p.split("```").next()).collect();
    assert_eq!(printed.len(), 2, "the document lost what is printed");
    // a table has no order: files are read at the same time
    for line in printed.iter().flat_map(|block| block.lines()) {
        assert!(shown.lines().any(|l| l == line), "{line} is not printed:\n{shown}");
    }
}

fn write(dir: &Path, table: &str, rows: &str) -> Output {
    let config = format!("table: {table}\ncatalog_properties: {{type: hadoop, warehouse: ./w}}\n");
    std::fs::write(dir.join("write.yaml"), config).expect("written");
    std::fs::write(dir.join("rows.jsonl"), rows).expect("written");
    floe(dir, &["io", "write", "--config", "write.yaml", "--input", "rows.jsonl"])
}

const TYPES: &str = "CREATE NAMESPACE ns; CREATE TABLE ns.t (i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(5,2), day DATE, \
    at TIMESTAMP, here TIMESTAMP_NTZ, b BOOLEAN, s STRING, x BINARY, p STRUCT<a: INT, c: ARRAY<INT>>, m MAP<STRING, INT>) \
    USING iceberg TBLPROPERTIES('format-version'='3')";

#[test]
fn a_value_that_does_not_fit_is_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    must(at, "hadoop:w", TYPES);
    let before = files(&at.join("w"));
    let bad: &[(&str, &[&str])] = &[
        ("{\"i\": 1.5}", &["\"i\" is int", "1.5"]),
        ("{\"i\": 3000000000}", &["\"i\" is int", "3000000000"]),
        ("{\"i\": \"7\"}", &["\"i\" is int", "\"7\""]),
        ("{\"l\": 9223372036854775808}", &["\"l\" is long"]),
        ("{\"f\": 1e300}", &["\"f\" is float", "1e300"]),
        ("{\"n\": 1.239}", &["\"n\" is decimal(5, 2)", "1.239"]),
        ("{\"day\": 19000}", &["\"day\" is date", "19000"]),
        ("{\"at\": \"2024-01-01T00:00:00.0000001Z\"}", &["\"at\" is timestamptz"]),
        ("{\"here\": \"2024-01-01T00:00:00Z\"}", &["\"here\" is timestamp "]),
        ("{\"b\": 1}", &["\"b\" is boolean"]),
        ("{\"s\": 1}", &["\"s\" is string"]),
        ("{\"x\": \"0\"}", &["\"x\" is binary"]),
        ("{\"p\": {\"a\": 1, \"z\": 2}}", &["\"p\" has no field \"z\""]),
        ("{\"p\": {\"c\": [1, 2.5]}}", &["\"p.c.element\" is int", "2.5"]),
        ("{\"i\": 1, \"i\": 2}", &["\"i\" comes twice"]),
        ("{\"unknown_column\": 1}", &["unknown_column"]),
    ];
    for (row, words) in bad {
        let out = write(at, "ns.t", &format!("{{\"i\": 1}}\n{row}\n"));
        refused(&out, row, words);
        let said = text(&out.stderr);
        if !row.contains("unknown_column") {
            assert!(said.contains("rows.jsonl line 2"), "{row}: {said}");
        }
        assert!(!said.contains("Int32") && !said.contains("Utf8"), "Arrow's words in {said}");
    }
    assert_eq!(files(&at.join("w")), before, "a refused row wrote or removed a file");
}

#[test]
fn what_io_read_prints_io_write_takes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    must(at, "hadoop:w", TYPES);
    must(at, "hadoop:w", &TYPES.replace("CREATE NAMESPACE ns; ", "").replace("ns.t", "ns.copy"));
    // a table that has changed: its columns' ids are no longer those of their places
    let changed = "ALTER TABLE ns.copy DROP COLUMN m; ALTER TABLE ns.copy DROP COLUMN p; ALTER TABLE ns.copy ADD COLUMN m MAP<STRING, INT>; \
        ALTER TABLE ns.copy ADD COLUMN p STRUCT<a: INT, c: ARRAY<INT>>";
    must(at, "hadoop:w", changed);
    must(
        at,
        "hadoop:w",
        "INSERT INTO ns.t VALUES
         (-2147483648, 9223372036854775807, CAST(0.1 AS FLOAT), 1e300, 999.99, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00:00.000001',
          TIMESTAMP_NTZ '1969-12-31 23:59:59.999999', true, 'a \"b\" ä', X'00FF', named_struct('a', 1, 'c', array(1, NULL)), map('k', 1, '', 2)),
         (NULL, NULL, CAST('NaN' AS FLOAT), CAST('-Infinity' AS DOUBLE), -0.01, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL)",
    );
    std::fs::write(at.join("read.yaml"), "table: ns.t\ncatalog_properties: {type: hadoop, warehouse: ./w}\n")
        .expect("written");
    let read = floe(at, &["io", "read", "--config", "read.yaml"]);
    assert!(read.status.success(), "{}", text(&read.stderr));
    let out = write(at, "ns.copy", &text(&read.stdout));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let of = |t: &str| rows(at, "hadoop:w", &format!("SELECT * FROM {t} ORDER BY i"));
    assert_eq!(of("ns.copy"), of("ns.t"));
    assert_eq!(of("ns.t").len(), 2);
}
