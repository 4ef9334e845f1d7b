//! Google Cloud Storage. fake-gcs-server 1.56.1 refuses the XML protocol's plain puts (`invalid uploadType`), by which `object_store` writes,
//! and knows none of its conditions: it serves what is read, and a small server of the test's own, which keeps conditions and wants
//! the token, takes what is written.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use floe_engine::ErrorKind;
use floe_engine::io::{FileIo, FileMeta};

use super::catalog_suite::Abilities;
use super::lake::{Props, carries, keeps_deletes, props, reads_deletes};
use super::servers::{Running, free_ports, has, installed, must, start};

pub const TOKEN: &str = "ya29.tOkEnOfThisTest";

/// How the store is broken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    None,
    /// Puts are refused.
    ReadOnly,
    /// Conditions of puts are ignored.
    Overwrites,
    /// Text files are taken and never found again.
    Forgets,
}

/// Objects of one bucket with their generations.
type Objects = Arc<Mutex<BTreeMap<String, (Bytes, u64)>>>;

async fn answer(objects: Objects, fault: Fault, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let header = |k: &str| head.headers.get(k).map(|v| v.to_str().unwrap().to_string());
    if header("authorization").as_deref() != Some(&format!("Bearer {TOKEN}")) {
        return (StatusCode::UNAUTHORIZED, "<Error><Code>AuthenticationRequired</Code></Error>").into_response();
    }
    let body = axum::body::to_bytes(body, 1 << 28).await.unwrap();
    let path = decode(head.uri.path());
    let Some(key) = path.strip_prefix("/lake").map(|k| k.trim_start_matches('/').to_string()) else {
        return (StatusCode::NOT_FOUND, "<Error><Code>NoSuchBucket</Code></Error>").into_response();
    };
    let query: BTreeMap<String, String> = head
        .uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|p| p.split_once('='))
        .map(|(k, v)| (k.to_string(), decode(v)))
        .collect();
    let mut objects = objects.lock().unwrap();
    match head.method {
        Method::GET if key.is_empty() => list(&objects, &query),
        Method::PUT if fault == Fault::ReadOnly => (
            StatusCode::FORBIDDEN,
            "<Error><Code>AccessDenied</Code><Message>no storage.objects.create</Message></Error>",
        )
            .into_response(),
        Method::PUT if fault == Fault::Forgets && key.ends_with(".txt") => [("ETag", "\"1\"")].into_response(),
        Method::PUT => {
            let create = header("x-goog-if-generation-match").as_deref() == Some("0") && fault != Fault::Overwrites;
            if create && objects.contains_key(&key) {
                return (StatusCode::PRECONDITION_FAILED, "<Error><Code>PreconditionFailed</Code></Error>")
                    .into_response();
            }
            let generation = objects.len() as u64 + objects.get(&key).map_or(1, |o| o.1 + 1);
            objects.insert(key, (body, generation));
            [("ETag", format!("\"{generation}\"")), ("x-goog-generation", generation.to_string())].into_response()
        }
        Method::DELETE => match objects.remove(&key) {
            Some(_) => StatusCode::NO_CONTENT.into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Method::GET | Method::HEAD => {
            let Some((bytes, generation)) = objects.get(&key) else {
                return (StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>").into_response();
            };
            let range = header("range").map(|r| {
                let (start, end) = r.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                let end = end.parse::<usize>().map_or(bytes.len(), |e| (e + 1).min(bytes.len()));
                (start.parse::<usize>().unwrap(), end)
            });
            let reply = Response::builder()
                .header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
                .header("ETag", format!("\"{generation}\""));
            if head.method == Method::HEAD {
                return reply.header("Content-Length", bytes.len()).body(Body::empty()).unwrap();
            }
            match range {
                None => reply.body(Body::from(bytes.clone())).unwrap(),
                Some((start, end)) => reply
                    .status(StatusCode::PARTIAL_CONTENT)
                    .header("Content-Range", format!("bytes {start}-{}/{}", end - 1, bytes.len()))
                    .body(Body::from(bytes.slice(start..end)))
                    .unwrap(),
            }
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn list(objects: &BTreeMap<String, (Bytes, u64)>, query: &BTreeMap<String, String>) -> Response {
    let prefix = query.get("prefix").cloned().unwrap_or_default();
    let (mut contents, mut folders) = (String::new(), std::collections::BTreeSet::new());
    for (key, (bytes, generation)) in objects.range(prefix.clone()..).take_while(|(k, _)| k.starts_with(&prefix)) {
        match key[prefix.len()..].split_once('/').filter(|_| query.contains_key("delimiter")) {
            Some((folder, _)) => _ = folders.insert(format!("{prefix}{folder}/")),
            None => {
                contents += &format!(
                    "<Contents><Key>{key}</Key><Size>{}</Size><LastModified>2024-01-01T00:00:00.000Z</LastModified>\
                     <ETag>\"{generation}\"</ETag></Contents>",
                    bytes.len()
                );
            }
        }
    }
    let folders: String =
        folders.iter().map(|f| format!("<CommonPrefixes><Prefix>{f}</Prefix></CommonPrefixes>")).collect();
    format!("<ListBucketResult>{contents}{folders}</ListBucketResult>").into_response()
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::new(), 0);
    while i < bytes.len() {
        if bytes[i] == b'%' {
            out.push(u8::from_str_radix(&text[i + 1..i + 3], 16).unwrap());
            i += 3;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    String::from_utf8(out).unwrap()
}

/// Starts a store with an empty bucket `lake`; returns its address.
pub async fn store(fault: Fault) -> String {
    let objects = Objects::default();
    let app = axum::Router::new().fallback(move |request: Request| answer(objects.clone(), fault, request));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    host
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn gcs_carries_tables() {
    let host = store(Fault::None).await;
    let of = |token: &str| props(&[("gcs.service.host", &host), ("gcs.oauth2.token", token), ("gcs.project-id", "p")]);
    carries("hadoop:gs://lake/wh", &of(TOKEN), Abilities::FOLDERS).await;
    let e = FileIo::new(of("ya29.wRoNgToken")).read("gs://lake/x").await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
    assert!(!format!("{e} {e:?}").contains("wRoNgToken"), "{e:?}");
    let e = FileIo::new(of(TOKEN)).read("gs://other/x").await.unwrap_err();
    assert!(e.kind() == ErrorKind::NotFound && e.message().contains("NoSuchBucket"), "{e}");
}

/// The emulator with an empty bucket `lake`; `None`, with the reason printed, where Go cannot build it.
async fn emulator() -> Option<(Running, Props)> {
    if !has("go") {
        eprintln!("skipped: no fake-gcs-server here (it is built from its Go module: install go)");
        return None;
    }
    let home = installed("fake-gcs-server-1.56.1", |dir| {
        let module = "github.com/fsouza/fake-gcs-server@v1.56.1";
        must(
            Command::new("go").args(["install", "-ldflags=-s -w", module]).env("GOBIN", dir).env("GOFLAGS", "-mod=mod"),
        );
    });
    let port = free_ports(1)[0];
    let host = format!("http://127.0.0.1:{port}");
    let mut command = Command::new(home.join("fake-gcs-server"));
    command.args(["-scheme", "http", "-host", "127.0.0.1", "-backend", "memory", "-log-level", "warn"]);
    command.args([format!("-port={port}"), format!("-public-host=127.0.0.1:{port}"), format!("-external-url={host}")]);
    let server = start(command, tempfile::tempdir().unwrap(), port, Duration::from_secs(60));
    let bucket = reqwest::Client::new().post(format!("{host}/storage/v1/b?project=p")).body("{\"name\": \"lake\"}");
    let made = bucket.header("Content-Type", "application/json").send().await.unwrap();
    assert!(made.status().is_success(), "the bucket cannot be made: {made:?}");
    Some((server, props(&[("gcs.service.host", &host), ("gcs.oauth2.token", TOKEN), ("gcs.project-id", "p")])))
}

/// A table that was written elsewhere, read from the emulator: listings, sizes, ranges, vectors.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_emulator_serves_tables() {
    let Some((server, mut there)) = emulator().await else {
        return;
    };
    let mut here = props(&[("gcs.service.host", &store(Fault::None).await), ("gcs.oauth2.token", TOKEN)]);
    for p in [&mut here, &mut there] {
        p.insert("warehouse".into(), "gs://lake/wh".into());
    }
    let spec = format!("sql:sqlite:{}/c.db", server.dir.path().display());
    keeps_deletes(&spec, &here).await;
    let (from, to, client) = (FileIo::new(here), FileIo::new(there.clone()), reqwest::Client::new());
    let files = from.list("gs://lake/").await.unwrap();
    assert!(files.len() >= 10, "{} files", files.len());
    for f in &files {
        let bytes = from.read(&f.location).await.unwrap();
        let name = f.location.strip_prefix("gs://lake/").unwrap();
        let url = format!("{}/upload/storage/v1/b/lake/o", there["gcs.service.host"]);
        let put = client.post(url).query(&[("uploadType", "media"), ("name", name)]).body(bytes).send().await.unwrap();
        assert!(put.status().is_success(), "{name}: {put:?}");
    }
    let listed = |files: &[FileMeta]| files.iter().map(|f| (f.location.clone(), f.size)).collect::<BTreeMap<_, _>>();
    assert_eq!(listed(&to.list("gs://lake/").await.unwrap()), listed(&files));
    let one = &files[0];
    assert_eq!(to.size(&one.location).await.unwrap(), Some(one.size));
    assert_eq!(to.read_range(&one.location, 1..5).await.unwrap(), from.read(&one.location).await.unwrap().slice(1..5));
    assert_eq!(to.read("gs://lake/no/such").await.unwrap_err().kind(), ErrorKind::NotFound);
    reads_deletes(&spec, &there).await;
}
