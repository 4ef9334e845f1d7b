use std::collections::HashMap;

use super::{open_catalog, open_catalog_in, parse_section};
use crate::ErrorKind;

const FILE: &str = r#"
[catalog.lake]
type = "hadoop"
warehouse = "wh"
s3.endpoint = "http://127.0.0.1:9000"
[catalog.lake.table-default]
"write.delete.mode" = "merge-on-read"
[catalog.bad]
uri = "x"
[catalog.list]
type = ["hadoop"]
"#;

#[test]
fn section_becomes_flat_properties() {
    let section = parse_section(FILE, "lake").unwrap();
    assert_eq!(section.kind, "hadoop");
    assert_eq!(section.props["s3.endpoint"], "http://127.0.0.1:9000");
    assert_eq!(section.props["table-default.write.delete.mode"], "merge-on-read");
    assert!(!section.props.contains_key("type"));
}

#[test]
fn faults_of_a_section_are_named() {
    for (name, text) in [("none", "it has: bad, lake, list"), ("bad", "no `type`"), ("list", "type: a property is")] {
        let e = parse_section(FILE, name).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput);
        assert!(e.message().contains(text), "{e}");
    }
    assert!(parse_section("[catalog", "x").unwrap_err().message().contains("TOML"));
}

#[tokio::test]
async fn unknown_schemes_list_what_is_allowed() {
    for spec in ["ftp:/x", "lakehouse", "sql:mysql://h/db", "hadoop:", "sql:sqlite:", "rest:ftp://x"] {
        let e = open_catalog(spec, "c", HashMap::new()).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{spec}: {e}");
    }
    let e = open_catalog("ftp:/x", "c", HashMap::new()).await.unwrap_err();
    assert!(e.message().contains("hadoop:DIR") && e.message().contains("sql:sqlite:PATH"), "{e}");
}

#[tokio::test]
async fn a_name_is_found_in_a_parent_folder_and_given_properties_win() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("floe.toml"), FILE).unwrap();
    let deep = dir.path().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    let catalog = open_catalog_in(&deep, "lake", "prod", HashMap::new()).await.unwrap();
    assert_eq!(catalog.name(), "prod");
    let ns = iceberg::NamespaceIdent::new("n".into());
    catalog.create_namespace(&ns, HashMap::new()).await.unwrap();
    assert!(dir.path().join("wh/n").is_dir(), "a relative warehouse is relative to floe.toml");

    let other = dir.path().join("other").to_string_lossy().into_owned();
    let props = HashMap::from([("warehouse".to_string(), other)]);
    let catalog = open_catalog_in(&deep, "lake", "prod", props).await.unwrap();
    catalog.create_namespace(&ns, HashMap::new()).await.unwrap();
    assert!(dir.path().join("other/n").is_dir());
}
