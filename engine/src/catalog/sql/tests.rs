use std::collections::HashMap;
use std::sync::Arc;

use iceberg::{NamespaceIdent, TableIdent};
use sqlx::Row;

use super::{Catalog, SqlCatalog};
use crate::ErrorKind;

async fn raw(path: &std::path::Path) -> sqlx::SqlitePool {
    sqlx::SqlitePool::connect(&format!("sqlite:{}?mode=rwc", path.display())).await.unwrap()
}

/// What Java's JdbcCatalog selects by: table and column names, the marker of a namespace, the table type (CAT-2, CAT-3).
#[tokio::test]
async fn the_database_has_the_jdbc_catalogs_shape() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.db");
    let catalog = SqlCatalog::open("prod", &format!("sqlite:{}", file.display()), HashMap::new()).await.unwrap();
    let ns = NamespaceIdent::from_strs(["a", "b"]).unwrap();
    catalog.create_namespace(&ns, HashMap::from([("owner".into(), "me".into())])).await.unwrap();
    catalog.db.insert("prod", "a.b", "t", "/x/metadata/00000-u.metadata.json").await.unwrap();

    let db = raw(&file).await;
    let row = sqlx::query(
        "SELECT catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location, iceberg_type
         FROM iceberg_tables",
    )
    .fetch_one(&db)
    .await
    .unwrap();
    let got: Vec<Option<String>> = (0..6).map(|i| row.get(i)).collect();
    let want = [Some("prod"), Some("a.b"), Some("t"), Some("/x/metadata/00000-u.metadata.json"), None, Some("TABLE")];
    assert_eq!(got.iter().map(Option::as_deref).collect::<Vec<_>>(), want);

    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT namespace, property_key, property_value FROM iceberg_namespace_properties ORDER BY property_key",
    )
    .fetch_all(&db)
    .await
    .unwrap();
    let want = [("a.b", "exists", "true"), ("a.b", "owner", "me")];
    assert_eq!(rows, want.map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())));
}

/// A database made with the catalog's old schema has no `iceberg_type`; views in a new one are not tables.
#[tokio::test]
async fn old_schema_is_read_and_views_are_not_tables() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("old.db");
    let db = raw(&file).await;
    sqlx::query(
        "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
         table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
         PRIMARY KEY (catalog_name, table_namespace, table_name))",
    )
    .execute(&db)
    .await
    .unwrap();
    let url = format!("jdbc:sqlite:{}", file.display());
    let catalog = SqlCatalog::open("c", &url, HashMap::new()).await.unwrap();
    assert!(!catalog.db.typed);
    assert!(catalog.db.insert("c", "n", "t", "/l").await.unwrap());
    assert!(catalog.db.swap("c", "n", "t", "/l", "/m").await.unwrap());
    assert!(!catalog.db.swap("c", "n", "t", "/l", "/m").await.unwrap());

    let file = dir.path().join("new.db");
    let catalog = SqlCatalog::open("c", &format!("sqlite:{}", file.display()), HashMap::new()).await.unwrap();
    sqlx::query(
        "INSERT INTO iceberg_tables VALUES ('c', 'n', 'v', '/l', NULL, 'VIEW'), ('c', 'n', 't', '/l', NULL, NULL)",
    )
    .execute(&raw(&file).await)
    .await
    .unwrap();
    let ns = NamespaceIdent::new("n".into());
    assert_eq!(catalog.list_tables(&ns).await.unwrap(), [TableIdent::new(ns.clone(), "t".into())]);
    assert!(!catalog.table_exists(&TableIdent::new(ns, "v".into())).await.unwrap());
}

#[tokio::test]
async fn catalogs_of_one_database_do_not_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/c.db", dir.path().display());
    let (a, b) = (
        SqlCatalog::open("a", &url, HashMap::new()).await.unwrap(),
        SqlCatalog::open("b", &url, HashMap::new()).await.unwrap(),
    );
    let ns = NamespaceIdent::new("n".into());
    a.create_namespace(&ns, HashMap::new()).await.unwrap();
    assert!(!b.namespace_exists(&ns).await.unwrap());
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_written() {
    let e = SqlCatalog::open("c", "sqlite:/no/such/folder/c.db", HashMap::new()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    let catalog = Arc::new(SqlCatalog::open("c", "sqlite::memory:", HashMap::new()).await.unwrap());
    let dotted = NamespaceIdent::new("a.b".into());
    let e = catalog.create_namespace(&dotted, HashMap::new()).await.unwrap_err();
    assert_eq!((e.kind(), e.clause_id()), (ErrorKind::InvalidInput, Some("CAT-3")));
    let long = "x".repeat(1001);
    assert_eq!(catalog.db.insert("c", "n", "t", &long).await.unwrap_err().clause_id(), Some("CAT-2"));
    assert!(catalog.db.tables("c", "n").await.unwrap().is_empty());
}

/// A password never shows, wherever the connection fails.
#[tokio::test]
async fn secrets_stay_out_of_messages() {
    let url = "postgres://user:s3cret@127.0.0.1:1/db";
    let props = HashMap::from([("jdbc.password".to_string(), "0ther".to_string())]);
    let e = SqlCatalog::open("c", url, props).await.unwrap_err();
    let all = format!("{e} {e:?}");
    assert!(!all.contains("s3cret") && !all.contains("0ther"), "{all}");
    assert_eq!(e.kind(), ErrorKind::Io);
}
