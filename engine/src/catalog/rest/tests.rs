use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use iceberg::{NamespaceIdent, TableIdent, TableRequirement};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Catalog, RestCatalog, wire};
use crate::catalog::{NewTable, TableCommit};
use crate::{ErrorKind, Table};

/// A request as the server under test saw it.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    path: String,
    headers: HashMap<String, String>,
    body: String,
}

type Script = Box<dyn FnMut(&Seen) -> (u16, Value) + Send>;

/// A server that answers from a script; status 0 closes the connection without an answer.
struct Fake {
    uri: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    async fn start(mut script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let Some(request) = read_request(&mut socket).await else {
                    continue;
                };
                log.lock().unwrap().push(request.clone());
                let (status, body) = script(&request);
                if status != 0 {
                    let body = if body.is_null() { String::new() } else { body.to_string() };
                    let head =
                        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                    let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
                }
                let _ = socket.shutdown().await;
            }
        });
        Self { uri, seen }
    }

    fn requests(&self, path: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|s| s.path.starts_with(path)).cloned().collect()
    }
}

async fn read_request(socket: &mut tokio::net::TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = socket.read(&mut buffer).await.ok()?;
        bytes.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let mut first = lines.next()?.split(' ');
            let headers: HashMap<String, String> = lines
                .filter_map(|l| l.split_once(": "))
                .map(|(k, v)| (k.to_ascii_lowercase(), v.to_string()))
                .collect();
            let length = headers.get("content-length").map_or(0, |l| l.parse().unwrap());
            if body.len() >= length {
                let (method, path) = (first.next()?.to_string(), first.next()?.to_string());
                return Some(Seen { method, path, headers, body: body.to_string() });
            }
        }
        if n == 0 {
            return None;
        }
    }
}

fn props(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn ns() -> NamespaceIdent {
    NamespaceIdent::from_strs(["a b", "c"]).unwrap()
}

async fn open(fake: &Fake, pairs: &[(&str, &str)]) -> crate::Result<Arc<RestCatalog>> {
    RestCatalog::open("r", &fake.uri, props(pairs)).await.map(Arc::new)
}

/// Table metadata as a server gives it.
fn metadata() -> Value {
    let schema = Schema::builder()
        .with_fields([Arc::new(NestedField::required(1, "id", Type::Primitive(PrimitiveType::Int)))])
        .build()
        .unwrap();
    let table = NewTable {
        ident: TableIdent::new(ns(), "t".into()),
        schema,
        ext: Default::default(),
        partition_spec: None,
        sort_order: None,
        location: None,
        properties: HashMap::new(),
        format_version: iceberg::spec::FormatVersion::V3,
    };
    let m = crate::catalog::files::first_metadata(&table, "memory:/wh/t", &HashMap::new()).unwrap();
    serde_json::from_slice(&m.to_json().unwrap()).unwrap()
}

fn loaded(metadata: &Value) -> Value {
    json!({ "metadata-location": "memory:/wh/t/metadata/00000-x.metadata.json", "metadata": metadata })
}

#[tokio::test]
async fn configuration_prefix_headers_and_separator() {
    let fake = Fake::start(Box::new(|r| match r.path.split('?').next().unwrap() {
        "/v1/config" => (
            200,
            json!({ "defaults": { "a": "default", "b": "default" }, "overrides": { "b": "server", "prefix": "ws/1 2" },
                    "endpoints": ["HEAD /v1/{prefix}/namespaces/{namespace}"] }),
        ),
        _ => (204, Value::Null),
    }))
    .await;
    let catalog = open(&fake, &[("warehouse", "my wh"), ("a", "mine"), ("header.x-user-project", "p1")]).await.unwrap();
    assert_eq!(catalog.props["a"], "mine", "the client's value wins over a default");
    assert_eq!(catalog.props["b"], "server", "an override wins over all");
    assert!(catalog.namespace_exists(&ns()).await.unwrap());
    let config = &fake.requests("/v1/config")[0];
    assert_eq!(config.path, "/v1/config?warehouse=my+wh");
    let head = &fake.requests("/v1/ws/1%202/namespaces/a%20b%1Fc")[0];
    assert_eq!((head.method.as_str(), head.headers["x-user-project"].as_str()), ("HEAD", "p1"));
    assert_eq!(head.headers["x-iceberg-access-delegation"], "vended-credentials");
}

#[tokio::test]
async fn without_endpoints_no_head_is_assumed() {
    let fake = Fake::start(Box::new(|_| (200, json!({})))).await;
    let catalog = open(&fake, &[]).await.unwrap();
    catalog.namespace_exists(&ns()).await.unwrap();
    assert_eq!(fake.requests("/v1/namespaces")[0].method, "GET");
}

#[tokio::test]
async fn pages_are_followed() {
    let fake = Fake::start(Box::new(|r| match r.path.as_str() {
        "/v1/namespaces?pageToken=" => (200, json!({ "namespaces": [["b"]], "next-page-token": "x&y" })),
        "/v1/namespaces?pageToken=x%26y" => (200, json!({ "namespaces": [["a"]], "next-page-token": null })),
        _ => (200, json!({})),
    }))
    .await;
    let catalog = open(&fake, &[]).await.unwrap();
    let got = catalog.list_namespaces(None).await.unwrap();
    assert_eq!(got, [NamespaceIdent::new("a".into()), NamespaceIdent::new("b".into())]);
    // A listing without its list is not an empty one.
    let e = catalog.list_tables(&ns()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Malformed);
}

#[tokio::test]
async fn a_repeated_page_token_ends() {
    let fake = Fake::start(Box::new(|r| {
        if r.path.starts_with("/v1/namespaces") {
            return (200, json!({ "namespaces": [], "next-page-token": "same" }));
        }
        (200, json!({}))
    }))
    .await;
    let e = open(&fake, &[]).await.unwrap().list_namespaces(None).await.unwrap_err();
    assert_eq!(e.clause_id(), Some("REST-33"));
}

#[tokio::test]
async fn client_credentials_are_fetched_kept_and_renewed() {
    let mut tokens = 0;
    let fake = Fake::start(Box::new(move |r| match r.path.as_str() {
        "/v1/oauth/tokens" => {
            tokens += 1;
            (200, json!({ "access_token": format!("tok{tokens}"), "token_type": "bearer", "expires_in": 3600 }))
        }
        // The first token is revoked after the configuration.
        p if p.starts_with("/v1/namespaces") && r.headers["authorization"] == "Bearer tok1" => {
            (401, json!({ "error": { "message": "expired", "type": "NotAuthorizedException", "code": 401 } }))
        }
        p if p.starts_with("/v1/namespaces") => (200, json!({ "namespaces": [] })),
        _ => (200, json!({})),
    }))
    .await;
    let catalog = open(&fake, &[("credential", "me:s3cret"), ("scope", "PRINCIPAL_ROLE:ALL"), ("audience", "aud")])
        .await
        .unwrap();
    catalog.list_namespaces(None).await.unwrap();
    catalog.list_namespaces(None).await.unwrap();
    let asked = fake.requests("/v1/oauth/tokens");
    assert_eq!(asked.len(), 2, "one at first, one after the 401");
    for part in [
        "grant_type=client_credentials",
        "client_id=me",
        "client_secret=s3cret",
        "scope=PRINCIPAL_ROLE%3AALL",
        "audience=aud",
    ] {
        assert!(asked[0].body.contains(part), "{}", asked[0].body);
    }
    let debug = format!("{catalog:?}");
    assert!(!debug.contains("s3cret") && !debug.contains("tok2"), "{debug}");
}

#[tokio::test]
async fn refused_tokens_are_denied_without_secrets() {
    let fake = Fake::start(Box::new(|r| match r.path.as_str() {
        "/v1/oauth/tokens" => (401, json!({ "error": "invalid_client", "error_description": "no such client" })),
        _ => (401, json!({ "error": { "message": "who are you", "type": "NotAuthorizedException", "code": 401 } })),
    }))
    .await;
    let e = open(&fake, &[("credential", "me:s3cret")]).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied);
    assert!(e.message().contains("no such client"), "{e}");
    assert!(!format!("{e} {e:?}").contains("s3cret"));
    let e = open(&fake, &[("token", "t0ken")]).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied);
    assert!(e.message().contains("who are you") && !format!("{e} {e:?}").contains("t0ken"), "{e:?}");
}

#[tokio::test]
async fn google_credentials_of_a_user_and_of_a_machine() {
    let fake = Fake::start(Box::new(|r| match r.path.as_str() {
        "/token" => (200, json!({ "access_token": "from-google", "expires_in": 3599 })),
        _ if r.headers.get("authorization").map(String::as_str) == Some("Bearer from-google") => (200, json!({})),
        _ => (401, Value::Null),
    }))
    .await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("adc.json");
    let adc = json!({ "type": "authorized_user", "client_id": "cid", "client_secret": "csec", "refresh_token": "rtok",
                      "token_uri": format!("{}/token", fake.uri) });
    std::fs::write(&file, adc.to_string()).unwrap();
    let path = file.to_str().unwrap();
    open(&fake, &[("rest.auth.type", "google"), ("gcp.auth.credentials-path", path)]).await.unwrap();
    let asked = &fake.requests("/token")[0];
    for part in ["grant_type=refresh_token", "client_id=cid", "client_secret=csec", "refresh_token=rtok"] {
        assert!(asked.body.contains(part), "{}", asked.body);
    }
    std::fs::write(&file, json!({ "type": "external_account" }).to_string()).unwrap();
    let e = open(&fake, &[("rest.auth.type", "google"), ("gcp.auth.credentials-path", path)]).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    std::fs::write(&file, "secret text").unwrap();
    let e = open(&fake, &[("rest.auth.type", "google"), ("gcp.auth.credentials-path", path)]).await.unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidInput && !format!("{e:?}").contains("secret text"), "{e:?}");
    let e = open(&fake, &[("rest.auth.type", "kerberos")]).await.unwrap_err();
    assert!(e.message().contains("none, basic, oauth2, google, sigv4"), "{e}");
}

#[tokio::test]
async fn basic_authentication() {
    let fake = Fake::start(Box::new(|_| (200, json!({})))).await;
    let pairs =
        [("rest.auth.type", "basic"), ("rest.auth.basic.username", "user"), ("rest.auth.basic.password", "pass")];
    open(&fake, &pairs).await.unwrap();
    assert_eq!(fake.requests("/v1/config")[0].headers["authorization"], "Basic dXNlcjpwYXNz");
    assert_eq!(open(&fake, &pairs[..2]).await.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_errors_have_their_kind() {
    let mut busy = 2;
    let fake = Fake::start(Box::new(move |r| {
        if !r.path.starts_with("/v1/namespaces") {
            return (200, json!({}));
        }
        let error = |code: u16, name: &str| (code, json!({ "error": { "message": "m", "type": name, "code": code } }));
        match r.method.as_str() {
            "GET" if busy > 0 => {
                busy -= 1;
                error(503, "ServiceUnavailableException")
            }
            "GET" if r.path.contains("pageToken") => (200, json!({ "namespaces": [] })),
            "GET" => error(404, "NoSuchNamespaceException"),
            "DELETE" => error(409, "NamespaceNotEmptyException"),
            _ => error(409, "AlreadyExistsException"),
        }
    }))
    .await;
    let catalog = open(&fake, &[]).await.unwrap();
    catalog.list_namespaces(None).await.unwrap();
    let e = catalog.namespace_properties(&ns()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.message().contains("404 NoSuchNamespaceException: m"), "{e}");
    assert_eq!(catalog.drop_namespace(&ns()).await.unwrap_err().kind(), ErrorKind::Conflict);
    let made = catalog.create_namespace(&ns(), HashMap::new()).await;
    assert_eq!(made.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_io_error() {
    let e = RestCatalog::open("r", "http://127.0.0.1:1", HashMap::new()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.message().contains("cannot connect"), "{e}");
    let e = RestCatalog::open("r", "ftp://x", HashMap::new()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidInput);
}

/// A commit that adds one snapshot to an empty table.
fn snapshot_commit(base: Table) -> TableCommit {
    let m = base.metadata();
    let snapshot = json!({
        "snapshot-id": 77, "sequence-number": 1, "timestamp-ms": m.last_updated_ms(), "manifest-list": "memory:/wh/t/l.avro",
        "summary": { "operation": "delete" }, "schema-id": 0, "first-row-id": 0, "added-rows": 0,
    });
    let updates = serde_json::from_value(json!([
        { "action": "add-snapshot", "snapshot": snapshot },
        { "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 77 },
    ]));
    let requirements = vec![TableRequirement::UuidMatch { uuid: m.uuid() }];
    TableCommit { metadata: m.as_ref().clone(), base, updates: updates.unwrap(), requirements }
}

/// What a server does with a commit, and what the table looks like afterwards.
async fn commit_against(answers: &'static [u16], applied: bool, lifetime: bool) -> (crate::Result<Table>, Vec<Seen>) {
    let before = metadata();
    let mut after = before.clone();
    after["snapshots"] = json!([{ "snapshot-id": 77, "sequence-number": 1, "timestamp-ms": before["last-updated-ms"],
        "manifest-list": "memory:/wh/t/l.avro", "summary": { "operation": "delete" }, "schema-id": 0,
        "first-row-id": 0, "added-rows": 0 }]);
    after["refs"] = json!({ "main": { "snapshot-id": 77, "type": "branch" } });
    after["current-snapshot-id"] = json!(77);
    after["last-sequence-number"] = json!(1);
    let mut posts = 0;
    let fake = Fake::start(Box::new(move |r| match (r.method.as_str(), r.path.starts_with("/v1/config")) {
        (_, true) if lifetime => (200, json!({ "idempotency-key-lifetime": "PT30M" })),
        (_, true) => (200, json!({})),
        ("POST", _) => {
            posts += 1;
            match answers[posts - 1] {
                200 => (200, loaded(&after)),
                0 => (0, Value::Null),
                code => (code, json!({ "error": { "message": "m", "type": "T", "code": code } })),
            }
        }
        _ if posts > 0 && applied => (200, loaded(&after)),
        _ => (200, loaded(&before)),
    }))
    .await;
    let catalog = open(&fake, &[]).await.unwrap();
    let base = catalog.clone().load_table(&TableIdent::new(ns(), "t".into())).await.unwrap();
    let result = catalog.commit_table(snapshot_commit(base)).await;
    let posts = fake.requests("/v1/").into_iter().filter(|s| s.method == "POST").collect();
    (result, posts)
}

#[tokio::test]
async fn commit_sends_requirements_and_updates() {
    let (result, posts) = commit_against(&[200], true, false).await;
    assert!(result.unwrap().metadata().snapshot_by_id(77).is_some());
    let body: Value = serde_json::from_str(&posts[0].body).unwrap();
    assert_eq!(posts[0].path, "/v1/namespaces/a%20b%1Fc/tables/t");
    assert_eq!(body["identifier"], json!({ "namespace": ["a b", "c"], "name": "t" }));
    assert_eq!(body["requirements"][0]["type"], "assert-table-uuid");
    let snapshot = &body["updates"][0]["snapshot"];
    assert_eq!((&snapshot["first-row-id"], &snapshot["added-rows"]), (&json!(0), &json!(0)));
    assert_eq!(body["updates"][1]["ref-name"], "main");
    assert!(!posts[0].headers.contains_key("idempotency-key"));
}

#[tokio::test]
async fn a_lost_race_is_told_from_an_unknown_outcome() {
    let (result, posts) = commit_against(&[409], false, false).await;
    assert_eq!((result.unwrap_err().kind(), posts.len()), (ErrorKind::CommitFailed, 1));
    for code in [500, 502, 503, 504, 0] {
        let answers: &'static [u16] = Box::leak(Box::new([code]));
        // It happened: the snapshot is found, the commit is a success (REST-64).
        let (result, posts) = commit_against(answers, true, false).await;
        assert!(result.unwrap().metadata().snapshot_by_id(77).is_some(), "{code}");
        assert_eq!(posts.len(), 1, "never sent twice without a key");
        // It did not, or not yet: nobody may clean up (CONC-41).
        let (result, _) = commit_against(answers, false, false).await;
        let e = result.unwrap_err();
        assert_eq!((e.kind(), e.clause_id()), (ErrorKind::CommitUnknown, Some("CONC-41")), "{code}");
    }
}

#[tokio::test]
async fn with_a_key_the_commit_is_sent_again() {
    let (result, posts) = commit_against(&[0, 503, 200], true, true).await;
    result.unwrap();
    let keys: Vec<_> = posts.iter().map(|p| p.headers["idempotency-key"].clone()).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|k| *k == keys[0]), "one operation, one key (REST-63)");
}

#[test]
fn storage_credentials_of_the_longest_prefix_win() {
    let body = json!({ "metadata-location": "x", "metadata": metadata(), "config": { "a": "1", "s3.region": "r" },
        "storage-credentials": [
            { "prefix": "memory:/wh", "config": { "key": "short" } },
            { "prefix": "memory:/wh/t", "config": { "key": "long" } },
            { "prefix": "memory:/other/long/prefix", "config": { "key": "other" } } ] });
    let loaded = wire::parse_load_result(&body).unwrap();
    assert_eq!((loaded.config["key"].as_str(), loaded.config["a"].as_str()), ("long", "1"));
    assert_eq!(wire::parse_load_result(&json!({})).unwrap_err().clause_id(), Some("REST-40"));
}

/// Nessie makes V2 tables whatever is asked for, and takes no creation that does not say whether it is staged.
#[tokio::test]
async fn a_table_in_an_older_format_than_asked_for_is_not_kept() {
    let mut old = metadata();
    old["format-version"] = json!(2);
    let fake = Fake::start(Box::new(move |r| match r.method.as_str() {
        "POST" => (200, loaded(&old)),
        "DELETE" => (204, Value::Null),
        _ => (200, json!({})),
    }))
    .await;
    let catalog = open(&fake, &[]).await.unwrap();
    let body = json!({ "name": "t", "properties": { "format-version": "3" }, "schema": { "type": "struct", "schema-id": 0,
        "fields": [{ "id": 1, "name": "id", "required": true, "type": "int" }] } });
    let (table, _) = wire::parse_create_request(ns(), &body).unwrap();
    let e = catalog.create_table(table).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.message().contains("format version v2") && e.message().contains("asked for was v3"), "{e}");
    let sent = fake.requests("/v1/namespaces");
    let asked: Value = serde_json::from_str(&sent[0].body).unwrap();
    assert_eq!(asked["stage-create"], false);
    let last = sent.last().unwrap();
    assert!(last.method == "DELETE" && last.path.ends_with("/tables/t?purgeRequested=true"), "{last:?}");
}

/// A V3 type that the model lacks travels as itself, in both directions.
#[test]
fn extended_types_travel() {
    let body = json!({ "name": "t", "properties": { "format-version": "3" }, "schema": { "type": "struct", "schema-id": 0,
        "fields": [{ "id": 1, "name": "v", "required": false, "type": "variant" }] } });
    let (table, staged) = wire::parse_create_request(ns(), &body).unwrap();
    assert!(!staged && !table.ext.0.is_empty());
    let again = wire::create_request(&table).unwrap();
    assert_eq!(again["schema"]["fields"][0]["type"], "variant");
    assert_eq!(again["properties"]["format-version"], "3");

    let update = json!({ "updates": [{ "action": "add-schema", "schema": body["schema"] }] });
    let commit = wire::parse_commit(&update).unwrap();
    let sent = wire::commit_request(&table.ident, &[], &commit.updates, &commit.ext).unwrap();
    assert_eq!(sent["updates"][0]["schema"]["fields"][0]["type"], "variant");
}

#[test]
fn unknown_updates_and_requirements_are_refused() {
    for body in [
        json!({ "updates": [{ "action": "paint-blue" }] }),
        json!({ "requirements": [{ "type": "assert-moon" }] }),
        json!({ "updates": {} }),
    ] {
        assert_eq!(wire::parse_commit(&body).unwrap_err().kind(), ErrorKind::InvalidInput, "{body}");
    }
    let e = wire::parse_commit(&json!({ "updates": [{ "action": "paint-blue" }] })).unwrap_err();
    assert!(e.clause_id() == Some("REST-51") && e.message().contains("paint-blue"), "{e}");
}

/// A staged creation keeps the field ids of the schema it was staged with.
#[test]
fn a_creating_commit_round_trips() {
    let m = crate::table::Metadata::from_json(metadata().to_string().as_bytes()).unwrap();
    let id = TableIdent::new(ns(), "t".into());
    let commit = wire::parse_commit(&wire::creating_commit(&id, &m).unwrap()).unwrap();
    assert!(commit.creates());
    let back = wire::metadata_of_creation(&commit, None).unwrap();
    assert_eq!(back.uuid(), m.uuid());
    assert_eq!(back.location(), m.location());
    assert_eq!(back.current_schema(), m.current_schema());
    assert_eq!(back.properties(), m.properties());
    assert_eq!((back.format_version(), back.next_row_id()), (m.format_version(), 0));
    assert_eq!(back.last_column_id(), m.last_column_id());
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let mut block = [0u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |x: u8| block.map(|b| b ^ x).to_vec();
    let inner = Sha256::digest([pad(0x36), text.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The signature that AWS would compute from the request as it arrived; the path is escaped a second time.
fn expected_signature(seen: &Seen, secret: &str, scope: &str) -> String {
    use sha2::{Digest, Sha256};
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let mut pairs: Vec<&str> = query.split('&').filter(|p| !p.is_empty()).collect();
    pairs.sort_unstable();
    let names = seen.headers["authorization"].split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    let headers: String = names.split(';').map(|n| format!("{n}:{}\n", seen.headers[n])).collect();
    let hash = hex(&Sha256::digest(seen.body.as_bytes()));
    assert_eq!(seen.headers["x-amz-content-sha256"], hash, "the body is signed");
    let canonical =
        format!("{}\n{}\n{}\n{headers}\n{names}\n{hash}", seen.method, path.replace('%', "%25"), pairs.join("&"));
    let text = format!(
        "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
        seen.headers["x-amz-date"],
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let start = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(start, |key, part| hmac(&key, part.as_bytes()));
    hex(&hmac(&key, text.as_bytes()))
}

#[tokio::test]
async fn requests_are_signed_for_aws() {
    let fake = Fake::start(Box::new(|seen: &Seen| match seen.path.contains("/config") {
        true => (200, json!({ "defaults": {}, "overrides": { "prefix": "arn:aws:s3tables:eu-west-1:1:bucket/b" } })),
        false => (200, json!({})),
    }))
    .await;
    let secret = "wJalrXUtnFEMIexampleKEY";
    let of = |region: &'static str| {
        vec![
            ("rest.sigv4-enabled", "true"),
            ("rest.signing-name", "s3tables"),
            ("client.region", region),
            ("rest.access-key-id", "AKIDEXAMPLE"),
            ("rest.secret-access-key", secret),
            ("rest.session-token", "tOkEnOfASession"),
            ("warehouse", "arn:aws:s3tables:eu-west-1:1:bucket/b"),
        ]
    };
    let catalog = open(&fake, &of("eu-west-1")).await.unwrap();
    catalog.create_namespace(&NamespaceIdent::new("a b".into()), HashMap::new()).await.unwrap();
    let requests = fake.requests("/v1/");
    assert_eq!(requests.len(), 2);
    assert!(requests[1].path.contains("arn%3Aaws%3As3tables"), "{}", requests[1].path);
    for seen in &requests {
        let auth = &seen.headers["authorization"];
        let scope = format!("{}/eu-west-1/s3tables/aws4_request", &seen.headers["x-amz-date"][..8]);
        assert!(auth.starts_with(&format!("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, ")), "{auth}");
        assert_eq!(seen.headers["x-amz-security-token"], "tOkEnOfASession");
        let signature = auth.split("Signature=").nth(1).unwrap();
        assert_eq!(signature, expected_signature(seen, secret, &scope), "{}", seen.path);
    }
    let shown = format!("{catalog:?} {:?}", catalog.http);
    assert!(!shown.contains(secret) && !shown.contains("tOkEnOfASession"), "{shown}");
}

#[tokio::test]
async fn signing_needs_a_region_and_both_keys() {
    let fake = Fake::start(Box::new(|_: &Seen| (200, json!({})))).await;
    let e =
        open(&fake, &[("rest.auth.type", "sigv4"), ("client.region", "eu-west-1"), ("rest.access-key-id", "A")]).await;
    assert!(e.unwrap_err().message().contains("s3.secret-access-key"), "both keys are needed");
    if std::env::var("AWS_REGION").is_err() {
        let e =
            open(&fake, &[("rest.auth.type", "sigv4"), ("rest.access-key-id", "A"), ("rest.secret-access-key", "B")])
                .await;
        assert!(e.unwrap_err().message().contains("rest.signing-region"));
    }
}

/// A server can neither widen nor remove the fence around file access, by configuration or with a table.
#[tokio::test]
async fn a_server_cannot_open_the_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let allowed = dir.path().join("in");
    std::fs::create_dir_all(&allowed).unwrap();
    let mut metadata = metadata();
    metadata["location"] = json!("/etc");
    let mut answer = loaded(&metadata);
    answer["config"] = json!({ "floe.sandbox": "/", "s3.region": "x" });
    let fake = Fake::start(Box::new(move |seen: &Seen| match seen.path.contains("/config") {
        true => (200, json!({ "defaults": { "floe.sandbox": "/" }, "overrides": { "floe.sandbox": "/" } })),
        false => (200, answer.clone()),
    }))
    .await;
    let fence = allowed.display().to_string();
    let catalog = open(&fake, &[("floe.sandbox", &fence)]).await.unwrap();
    let table = catalog.load_table(&TableIdent::new(ns(), "t".into())).await.unwrap();
    assert_eq!(table.io().read("/etc/hostname").await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(table.io().exists(&format!("{fence}/x")).await.is_ok());
}

/// Keys that the server vends with a table sign the requests for its files, and are in no text.
#[tokio::test]
async fn vended_credentials_reach_the_store() {
    let mut metadata = metadata();
    metadata["location"] = json!("s3://lake/t");
    let answer = Arc::new(Mutex::new(loaded(&metadata)));
    let given = answer.clone();
    let fake = Fake::start(Box::new(move |seen: &Seen| match seen.path.as_str() {
        p if p.starts_with("/v1/config") => (200, json!({})),
        p if p.starts_with("/v1/") => (200, given.lock().unwrap().clone()),
        _ => (403, json!({})),
    }))
    .await;
    answer.lock().unwrap()["storage-credentials"] = json!([{ "prefix": "s3://lake/", "config": {
        "s3.endpoint": fake.uri, "s3.region": "us-east-1", "s3.access-key-id": "AKIDVENDED",
        "s3.secret-access-key": "vEnDeDsEcReT", "s3.session-token": "vEnDeDtOkEn" } }]);
    let catalog =
        open(&fake, &[("s3.access-key-id", "AKIDOWN"), ("s3.secret-access-key", "oWnSeCrEtKeY")]).await.unwrap();
    let table = catalog.clone().load_table(&TableIdent::new(ns(), "t".into())).await.unwrap();
    let e = table.io().read("s3://lake/t/data/f").await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
    let seen = &fake.requests("/lake/t/data/f")[0];
    assert!(seen.headers["authorization"].contains("Credential=AKIDVENDED/"), "{seen:?}");
    assert_eq!(seen.headers["x-amz-security-token"], "vEnDeDtOkEn");
    let shown = format!("{e} {e:?} {table:?} {catalog:?} {:?}", table.io());
    for secret in ["vEnDeDsEcReT", "vEnDeDtOkEn", "oWnSeCrEtKeY"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
