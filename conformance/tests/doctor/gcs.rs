//! Google Cloud Storage: no emulator takes the XML protocol's conditional puts, so the test has a small server of its own that
//! does, and wants the token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use floe_engine::ErrorKind;
use floe_engine::io::FileIo;

use super::catalog_suite::Abilities;
use super::lake::{carries, props};

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
