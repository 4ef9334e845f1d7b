//! floe's REST client against floe's REST server: the catalogs' common suite, races, staged creation, protocol details.

#[path = "../../engine/tests/catalog_suite/mod.rs"]
mod catalog_suite;

use std::collections::HashMap;
use std::sync::Arc;

use catalog_suite::*;
use floe_conformance::serve::Server;
use floe_engine::ErrorKind;
use floe_engine::catalog::{Catalog, open_catalog};
use serde_json::{Value, json};

const OVER_SQL: Abilities = Abilities::ALL;
const OVER_HADOOP: Abilities = Abilities::FOLDERS;

/// Serves a catalog; returns the server's base URI.
async fn serve(spec: &str, token: Option<&str>) -> String {
    let catalog = open_catalog(spec, "behind", HashMap::new()).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let router = Server::new(catalog, token.map(str::to_string)).router();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    uri
}

async fn client(uri: &str, props: &[(&str, &str)]) -> floe_engine::Result<Arc<dyn Catalog>> {
    let props = props.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    open_catalog(&format!("rest:{uri}"), "rest", props).await
}

/// A server with table `n.t`, which has one snapshot: its URI and a client.
async fn served_table(dir: &std::path::Path) -> (String, Arc<dyn Catalog>, iceberg::TableIdent) {
    let uri = serve(&specs(dir)[0], None).await;
    let (catalog, id) = (client(&uri, &[]).await.unwrap(), ident(&["n"], "t"));
    make_table(&catalog, &id).await;
    commit_until_done(&catalog, &id, "a", "1").await.unwrap();
    (uri, catalog, id)
}

fn specs(dir: &std::path::Path) -> [String; 2] {
    [format!("sql:sqlite:{}/c.db", dir.display()), format!("hadoop:{}/wh", dir.display())]
}

/// A request without the client, to see status and body.
async fn send(
    method: &str,
    url: &str,
    body: Option<&Value>,
    headers: &[(&str, &str)],
) -> (u16, HashMap<String, String>, Value) {
    let mut request = reqwest::Client::new().request(method.parse().unwrap(), url);
    for (k, v) in headers {
        request = request.header(*k, *v);
    }
    if let Some(body) = body {
        request = request.body(body.to_string());
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let headers = response.headers().iter().map(|(k, v)| (k.to_string(), v.to_str().unwrap().to_string())).collect();
    let bytes = response.bytes().await.unwrap();
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
    (status, headers, body)
}

#[tokio::test]
async fn the_suite_passes_over_a_sql_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let uri = serve(&specs(dir.path())[0], None).await;
    run(client(&uri, &[]).await.unwrap(), OVER_SQL, &format!("{}/outside", dir.path().display())).await;
}

#[tokio::test]
async fn the_suite_passes_over_a_hadoop_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let uri = serve(&specs(dir.path())[1], None).await;
    run(client(&uri, &[]).await.unwrap(), OVER_HADOOP, &format!("{}/outside", dir.path().display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_lose_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let uri = serve(&spec, None).await;
        let id = ident(&["n"], "t");
        let catalog = client(&uri, &[]).await.unwrap();
        make_table(&catalog, &id).await;
        let mut writers = Vec::new();
        for _ in 0..4 {
            writers.push(client(&uri, &[]).await.unwrap());
        }
        race(&catalog, writers, &id, 6).await;
    }
}

/// A server and a direct user of the same catalog race too: the swap is the catalog's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_and_a_direct_user_lose_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    let spec = &specs(dir.path())[0];
    let uri = serve(spec, None).await;
    let id = ident(&["n"], "t");
    // Catalogs of one database are told apart by name: the server's is called `behind`.
    let direct = open_catalog(spec, "behind", HashMap::new()).await.unwrap();
    make_table(&direct, &id).await;
    race(&direct, vec![direct.clone(), client(&uri, &[]).await.unwrap()], &id, 8).await;
}

#[tokio::test]
async fn a_token_is_needed_and_can_be_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let uri = serve(&specs(dir.path())[0], Some("s3cret")).await;
    for props in [&[][..], &[("token", "wrong")], &[("credential", "id:wrong")]] {
        let e = client(&uri, props).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
    }
    for props in [[("token", "s3cret")], [("credential", "id:s3cret")]] {
        let catalog = client(&uri, &props).await.unwrap();
        assert!(catalog.list_namespaces(None).await.unwrap().is_empty());
    }
    let (status, _, body) = send("GET", &format!("{uri}/v1/namespaces"), None, &[]).await;
    assert_eq!((status, body["error"]["type"].as_str()), (401, Some("NotAuthorizedException")));
}

/// `stage-create` writes nothing; the commit with `assert-create` makes the table with the staged field ids (REST-8, REST-R1).
#[tokio::test]
async fn staged_creation() {
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let uri = serve(&spec, None).await;
        let catalog = client(&uri, &[]).await.unwrap();
        catalog.create_namespace(&ns(&["n"]), HashMap::new()).await.unwrap();
        let tables = format!("{uri}/v1/namespaces/n/tables");
        let create = json!({ "name": "t", "stage-create": true, "properties": { "format-version": "3", "k": "v" },
            "schema": { "type": "struct", "fields": [{ "id": 5, "name": "id", "required": true, "type": "long" }] },
            "partition-spec": { "fields": [{ "source-id": 5, "transform": "bucket[4]", "name": "b" }] } });
        let (status, _, staged) = send("POST", &tables, Some(&create), &[]).await;
        assert_eq!((status, &staged["metadata-location"]), (200, &Value::Null), "{staged}");
        assert!(!catalog.table_exists(&ident(&["n"], "t")).await.unwrap());
        let m = &staged["metadata"];
        let commit = json!({ "requirements": [{ "type": "assert-create" }], "updates": [
            { "action": "assign-uuid", "uuid": m["table-uuid"] },
            { "action": "upgrade-format-version", "format-version": 3 },
            { "action": "add-schema", "schema": m["schemas"][0], "last-column-id": 1 },
            { "action": "set-current-schema", "schema-id": -1 },
            { "action": "add-spec", "spec": m["partition-specs"][0] },
            { "action": "set-default-spec", "spec-id": -1 },
            { "action": "add-sort-order", "sort-order": m["sort-orders"][0] },
            { "action": "set-default-sort-order", "sort-order-id": -1 },
            { "action": "set-location", "location": m["location"] },
            { "action": "set-properties", "updates": m["properties"] },
            { "action": "add-snapshot", "snapshot": { "snapshot-id": 9, "sequence-number": 1,
                "timestamp-ms": m["last-updated-ms"], "manifest-list": "/x/l.avro", "summary": { "operation": "append" },
                "schema-id": 0, "first-row-id": 0, "added-rows": 7 } },
            { "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 9 } ] });
        let table = format!("{tables}/t");
        let (status, _, made) = send("POST", &table, Some(&commit), &[]).await;
        assert_eq!(status, 200, "{made}");
        let got = catalog.clone().load_table(&ident(&["n"], "t")).await.unwrap();
        let got = got.metadata();
        assert_eq!(got.uuid().to_string(), m["table-uuid"].as_str().unwrap());
        assert_eq!((got.current_snapshot_id(), got.next_row_id()), (Some(9), 7));
        assert_eq!(got.current_schema().as_struct().fields()[0].id, 1);
        assert_eq!(got.default_partition_spec().fields()[0].field_id, 1000);
        assert_eq!(got.properties()["k"], "v");
        let (status, _, again) = send("POST", &table, Some(&commit), &[]).await;
        assert_eq!((status, again["error"]["type"].as_str()), (409, Some("CommitFailedException")));
    }
}

#[tokio::test]
async fn protocol_details() {
    let dir = tempfile::tempdir().unwrap();
    let uri = serve(&specs(dir.path())[0], None).await;
    let catalog = client(&uri, &[]).await.unwrap();
    let (status, _, config) = send("GET", &format!("{uri}/v1/config?warehouse=x"), None, &[]).await;
    assert_eq!((status, &config["defaults"], &config["idempotency-key-lifetime"]), (200, &json!({}), &json!("PT30M")));
    for n in ["c", "a", "b"] {
        catalog.create_namespace(&ns(&[n]), HashMap::new()).await.unwrap();
    }
    let url = format!("{uri}/v1/namespaces");
    let (_, _, first) = send("GET", &format!("{url}?pageToken=&pageSize=2"), None, &[]).await;
    assert_eq!(first, json!({ "namespaces": [["a"], ["b"]], "next-page-token": "2" }));
    let (_, _, second) = send("GET", &format!("{url}?pageToken=2&pageSize=2"), None, &[]).await;
    assert_eq!(second, json!({ "namespaces": [["c"]], "next-page-token": null }));
    for bad in ["pageToken=x", "pageToken=&pageSize=0", "parent=%1F"] {
        assert_eq!(send("GET", &format!("{url}?{bad}"), None, &[]).await.0, 400, "{bad}");
    }

    // Errors have status, type and message; what does not exist is not 500.
    for (method, path, body, want) in [
        ("GET", "namespaces/none", None, (404, "NoSuchNamespaceException")),
        ("GET", "namespaces/none/tables", None, (404, "NoSuchNamespaceException")),
        ("GET", "namespaces/a/tables/none", None, (404, "NoSuchTableException")),
        ("POST", "namespaces", Some("{"), (400, "BadRequestException")),
        ("POST", "namespaces", Some(r#"{"namespace":["a"]}"#), (409, "AlreadyExistsException")),
        ("POST", "namespaces", Some(r#"{"namespace":[]}"#), (400, "BadRequestException")),
        ("POST", "namespaces", Some(r#"{"namespace":["z"],"properties":{"k":1}}"#), (400, "BadRequestException")),
        ("POST", "namespaces/a/tables", Some(r#"{"name":"t"}"#), (400, "BadRequestException")),
        ("POST", "namespaces/a/tables/none", Some(r#"{"updates":[{"action":"x"}]}"#), (400, "BadRequestException")),
        ("POST", "namespaces/a/tables/none", Some("{}"), (404, "NoSuchTableException")),
        ("POST", "transactions/commit", Some(r#"{"table-changes":[{},{}]}"#), (406, "UnsupportedOperationException")),
        ("GET", "views", None, (404, "NoSuchEndpointException")),
        ("PUT", "namespaces", None, (405, "UnsupportedOperationException")),
    ] {
        let body: Option<Vec<u8>> = body.map(|b: &str| b.as_bytes().to_vec());
        let mut request = reqwest::Client::new().request(method.parse().unwrap(), format!("{uri}/v1/{path}"));
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        assert_eq!((status, body["error"]["type"].as_str().unwrap()), want, "{method} {path}: {body}");
        assert_eq!(body["error"]["code"], status);
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
    }

    // Properties of a namespace.
    let body = json!({ "removals": ["x", "gone"], "updates": { "k": "v" } });
    let props = format!("{url}/a/properties");
    let (_, _, answer) = send("POST", &props, Some(&json!({ "updates": { "x": "1" } })), &[]).await;
    assert_eq!(answer, json!({ "updated": ["x"], "removed": [], "missing": [] }));
    let (_, _, answer) = send("POST", &props, Some(&body), &[]).await;
    assert_eq!(answer, json!({ "updated": ["k"], "removed": ["x"], "missing": ["gone"] }));
    let both = json!({ "removals": ["k"], "updates": { "k": "v" } });
    assert_eq!(send("POST", &props, Some(&both), &[]).await.0, 422);
}

#[tokio::test]
async fn etags_and_snapshots_of_refs() {
    let dir = tempfile::tempdir().unwrap();
    let (uri, catalog, id) = served_table(dir.path()).await;
    commit_until_done(&catalog, &id, "b", "1").await.unwrap();
    let url = format!("{uri}/v1/namespaces/n/tables/t");
    let (_, all_headers, all) = send("GET", &url, None, &[]).await;
    let (_, refs_headers, refs) = send("GET", &format!("{url}?snapshots=refs"), None, &[]).await;
    assert_eq!(all["metadata"]["snapshots"].as_array().unwrap().len(), 2);
    assert_eq!(refs["metadata"]["snapshots"].as_array().unwrap().len(), 1);
    assert_ne!(all_headers["etag"], refs_headers["etag"], "an ETag names a representation (REST-41)");
    let known = [("If-None-Match", all_headers["etag"].as_str())];
    assert_eq!(send("GET", &url, None, &known).await.0, 304);
    commit_until_done(&catalog, &id, "c", "1").await.unwrap();
    assert_eq!(send("GET", &url, None, &known).await.0, 200);
    assert_eq!(send("GET", &format!("{url}?snapshots=some"), None, &[]).await.0, 400);
}

/// A repeated key gets the first outcome; the same key for something else is refused (REST-63).
#[tokio::test]
async fn idempotency_keys() {
    let dir = tempfile::tempdir().unwrap();
    let uri = serve(&specs(dir.path())[0], None).await;
    let url = format!("{uri}/v1/namespaces");
    let body = json!({ "namespace": ["n"], "properties": {} });
    let key = uuid::Uuid::now_v7().to_string();
    let with_key = [("Idempotency-Key", key.as_str())];
    let (first, _, answer) = send("POST", &url, Some(&body), &with_key).await;
    let (second, _, again) = send("POST", &url, Some(&body), &with_key).await;
    assert_eq!((first, second), (200, 200));
    assert_eq!(answer, again);
    assert_eq!(send("POST", &url, Some(&body), &[]).await.0, 409, "without the key it exists");
    let other = json!({ "namespace": ["m"], "properties": {} });
    assert_eq!(send("POST", &url, Some(&other), &with_key).await.0, 422);
    assert_eq!(send("DELETE", &format!("{url}/n"), None, &[("Idempotency-Key", "abc")]).await.0, 400);
    let key = uuid::Uuid::now_v7().to_string();
    for _ in 0..2 {
        assert_eq!(send("DELETE", &format!("{url}/n"), None, &[("Idempotency-Key", key.as_str())]).await.0, 204);
    }
}

/// A snapshot computed before another branch was committed to is a lost race (REST-53); one whose row ids begin beyond the
/// table's next one would let ids be given twice, and is refused (META-6).
#[tokio::test]
async fn a_snapshot_takes_the_next_row_id() {
    let dir = tempfile::tempdir().unwrap();
    let (uri, catalog, id) = served_table(dir.path()).await;
    let m = catalog.clone().load_table(&id).await.unwrap();
    let m = m.metadata();
    let snapshot = |sequence: i64, first: Value| {
        json!({ "updates": [{ "action": "add-snapshot", "snapshot": { "snapshot-id": 5, "parent-snapshot-id": m.current_snapshot_id(),
            "sequence-number": sequence, "timestamp-ms": m.last_updated_ms() + 1, "manifest-list": "/x/l.avro",
            "summary": { "operation": "append" }, "schema-id": 0, "first-row-id": first, "added-rows": 1 } }] })
    };
    let url = format!("{uri}/v1/namespaces/n/tables/t");
    for stale in [snapshot(2, json!(0)), snapshot(1, json!(3))] {
        let (status, _, body) = send("POST", &url, Some(&stale), &[]).await;
        assert_eq!((status, body["error"]["type"].as_str()), (409, Some("CommitFailedException")), "{body}");
    }
    assert_eq!(send("POST", &url, Some(&snapshot(2, Value::Null)), &[]).await.0, 400);
    let (status, _, body) = send("POST", &url, Some(&snapshot(2, json!(4))), &[]).await;
    assert_eq!((status, body["error"]["type"].as_str()), (400, Some("BadRequestException")), "{body}");
    let why = body["error"]["message"].as_str().unwrap();
    assert!(why.contains("first-row-id 4") && why.contains("META-6"), "{why}");
    let now = catalog.clone().load_table(&id).await.unwrap();
    assert_eq!((now.metadata().next_row_id(), now.metadata().snapshots().count()), (3, 1));
    assert_eq!(send("POST", &url, Some(&snapshot(2, json!(3))), &[]).await.0, 200);
}

/// Clients write files into a table's folders without making them; a staged table has them before it exists, and nobody sees
/// it as a table until it is committed. Names stay where they are in a Hadoop layout.
#[tokio::test]
async fn over_a_hadoop_warehouse_folders_come_first_and_renames_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let warehouse = dir.path().join("wh");
    let catalog = floe_engine::catalog::HadoopCatalog::new("behind", &warehouse.display().to_string(), HashMap::new());
    let local = floe_conformance::serve::Local::start(Arc::new(catalog.unwrap())).await.unwrap();
    let url = format!("{}/v1/namespaces", local.uri());
    assert_eq!(send("POST", &url, Some(&json!({ "namespace": ["n"] })), &[]).await.0, 200);
    let schema = json!({ "type": "struct", "fields": [{ "id": 1, "name": "id", "type": "int", "required": false }] });
    let body = |name: &str, stage: bool| json!({ "name": name, "schema": schema, "stage-create": stage, "properties": { "format-version": "3" } });
    let (status, _, staged) = send("POST", &format!("{url}/n/tables"), Some(&body("staged", true)), &[]).await;
    assert_eq!((status, &staged["metadata-location"]), (200, &Value::Null));
    assert_eq!(staged["metadata"]["location"], json!(warehouse.join("n/staged").display().to_string()));
    let (status, _, _) = send("POST", &format!("{url}/n/tables"), Some(&body("made", false)), &[]).await;
    assert_eq!(status, 200);
    for folder in ["staged/metadata", "staged/data", "made/metadata", "made/data"] {
        assert!(warehouse.join("n").join(folder).is_dir(), "{folder}");
    }
    let (_, _, listed) = send("GET", &format!("{url}/n/tables"), None, &[]).await;
    assert_eq!(listed["identifiers"], json!([{ "namespace": ["n"], "name": "made" }]));
    assert_eq!(send("HEAD", &format!("{url}/n/tables/staged"), None, &[]).await.0, 404);

    // The commit that makes a staged table is its version 1 in the layout that path readers know.
    let m = &staged["metadata"];
    let updates = json!([
        { "action": "assign-uuid", "uuid": m["table-uuid"] },
        { "action": "upgrade-format-version", "format-version": 3 },
        { "action": "add-schema", "schema": m["schemas"][0], "last-column-id": 1 },
        { "action": "set-current-schema", "schema-id": -1 },
        { "action": "add-spec", "spec": { "spec-id": 0, "fields": [] } },
        { "action": "set-default-spec", "spec-id": -1 },
        { "action": "add-sort-order", "sort-order": { "order-id": 0, "fields": [] } },
        { "action": "set-default-sort-order", "sort-order-id": -1 },
        { "action": "set-location", "location": m["location"] },
        { "action": "set-properties", "updates": m["properties"] },
    ]);
    let commit = json!({ "requirements": [{ "type": "assert-create" }], "updates": updates });
    let (status, _, made) = send("POST", &format!("{url}/n/tables/staged"), Some(&commit), &[]).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["metadata"]["table-uuid"], m["table-uuid"]);
    assert!(warehouse.join("n/staged/metadata/v1.metadata.json").is_file());
    assert_eq!(send("POST", &format!("{url}/n/tables/staged"), Some(&commit), &[]).await.0, 409, "it exists now");

    let rename =
        json!({ "source": { "namespace": ["n"], "name": "made" }, "destination": { "namespace": ["n"], "name": "b" } });
    let (status, _, refused) = send("POST", &format!("{}/v1/tables/rename", local.uri()), Some(&rename), &[]).await;
    assert_eq!((status, refused["error"]["type"].as_str()), (406, Some("UnsupportedOperationException")));
    assert_eq!(send("DELETE", &format!("{url}/n/tables/made"), None, &[]).await.0, 204);
    assert!(!warehouse.join("n/made").exists());
    drop(local);
}
