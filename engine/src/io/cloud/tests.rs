use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::errors::{redact, secrets_of};
use crate::io::FileIo;
use crate::{Error, ErrorKind};

const SECRET: &str = "vErYsEcReTkEy42";

fn props(of: &[(&str, &str)]) -> HashMap<String, String> {
    of.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

/// A server that answers with what `reply` says, given the number of requests before.
async fn stub(reply: impl Fn(u32, &Request) -> Response + Send + Sync + 'static) -> (String, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let (seen, reply) = (count.clone(), Arc::new(reply));
    let app = axum::Router::new().fallback(move |request: Request| {
        let answer = reply(seen.fetch_add(1, Ordering::SeqCst), &request);
        async move { answer }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address.to_string(), count)
}

fn s3(address: &str) -> FileIo {
    FileIo::new(props(&[
        ("s3.endpoint", &format!("http://{address}")),
        ("s3.access-key-id", "AKIDEXAMPLE"),
        ("s3.secret-access-key", SECRET),
        ("s3.session-token", "tOkEnOfASession"),
        ("client.region", "eu-west-1"),
        ("io.max-retries", "3"),
    ]))
}

/// Neither in its text nor in any form that a log would print.
fn no_secret(e: &Error) {
    let mut text = format!("{e} {e:?}");
    let mut cause = std::error::Error::source(e);
    while let Some(c) = cause {
        text.push_str(&format!("{c} {c:?}"));
        cause = c.source();
    }
    for secret in [SECRET, "tOkEnOfASession"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn a_servers_refusal_is_shown_by_status_code_and_message() {
    let xml = |code: &str, message: &str| {
        format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message><StringToSign>{SECRET}</StringToSign></Error>"
        )
    };
    let cases = [
        (StatusCode::FORBIDDEN, xml("AccessDenied", "Access Denied"), ErrorKind::Denied, "403 Forbidden: AccessDenied"),
        (
            StatusCode::FORBIDDEN,
            xml("SignatureDoesNotMatch", &format!("for key {SECRET}")),
            ErrorKind::Denied,
            "SignatureDoesNotMatch: for key ***",
        ),
        (StatusCode::NOT_FOUND, xml("NoSuchBucket", "no bucket"), ErrorKind::NotFound, "404 Not Found: NoSuchBucket"),
        (StatusCode::UNAUTHORIZED, "who?".to_string(), ErrorKind::Denied, "401 Unauthorized: who?"),
        (StatusCode::BAD_REQUEST, format!("bad {SECRET}"), ErrorKind::Io, "400 Bad Request: bad ***"),
    ];
    for (status, body, kind, part) in cases {
        let (address, count) = stub(move |_, _| (status, body.clone()).into_response()).await;
        let e = s3(&address).read("s3://b/k").await.unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.message().contains(part), "{e}");
        assert_eq!(e.place(), Some("s3://b/k"));
        no_secret(&e);
        assert_eq!(count.load(Ordering::SeqCst), 1, "a refusal is not tried again: {e}");
    }
}

#[tokio::test]
async fn server_errors_are_tried_again_with_growing_pauses_and_given_up() {
    let (address, count) = stub(|n, _| match n {
        0 | 1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => Response::builder()
            .header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            .header("ETag", "\"1\"")
            .body(Body::from("bytes"))
            .unwrap(),
    })
    .await;
    assert_eq!(s3(&address).read("s3://b/k").await.unwrap(), "bytes");
    assert_eq!(count.load(Ordering::SeqCst), 3);
    let (address, count) = stub(|_, _| StatusCode::INTERNAL_SERVER_ERROR.into_response()).await;
    let start = Instant::now();
    let e = s3(&address).read("s3://b/k").await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.message().contains("500 Internal Server Error"), "{e}");
    assert_eq!(count.load(Ordering::SeqCst), 4, "three retries");
    assert!(start.elapsed() >= Duration::from_millis(300), "with pauses");
}

#[tokio::test]
async fn requests_of_one_store_are_bounded() {
    let (flying, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (f, m) = (flying.clone(), most.clone());
    let app = axum::Router::new().fallback(move || {
        let (f, m) = (f.clone(), m.clone());
        async move {
            m.fetch_max(f.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            f.fetch_sub(1, Ordering::SeqCst);
            ([("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"), ("ETag", "\"1\"")], "x")
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let io = FileIo::new(props(&[
        ("s3.endpoint", &endpoint),
        ("s3.access-key-id", "A"),
        ("s3.secret-access-key", SECRET),
        ("io.max-requests", "3"),
    ]));
    let reads = (0..20).map(|i| {
        let io = io.clone();
        async move { io.read(&format!("s3://b/{i}")).await.unwrap() }
    });
    futures::future::join_all(reads).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn no_answer_and_no_tls_are_said() {
    let mut io = s3("127.0.0.1:1");
    let e = io.read("s3://b/k").await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Io);
    assert!(e.message().to_lowercase().contains("connect"), "{e}");
    no_secret(&e);
    let (address, _) = stub(|_, _| StatusCode::OK.into_response()).await;
    io = FileIo::new(props(&[
        ("s3.endpoint", &format!("https://{address}")),
        ("s3.access-key-id", "A"),
        ("s3.secret-access-key", SECRET),
        ("io.max-retries", "0"),
    ]));
    let e = io.read("s3://b/k").await.unwrap_err();
    assert!(e.kind() == ErrorKind::Io && e.message().contains("TLS failure"), "{e}");
    no_secret(&e);
}

#[test]
fn wrong_configuration_is_named_and_not_repeated() {
    let cases: &[(&[(&str, &str)], &str, &str)] = &[
        (&[("s3.access-key-id", "A")], "s3://b/k", "s3.secret-access-key is not"),
        (&[("s3.secret-access-key", SECRET)], "s3://b/k", "s3.access-key-id is not"),
        (&[("s3.endpoint", "localhost:9000")], "s3://b/k", "s3.endpoint is not"),
        (&[("s3.path-style-access", "yes")], "s3://b/k", "allowed: true, false"),
        (&[("s3.remote-signing-enabled", "true")], "s3://b/k", "vended credentials"),
        (&[("s3.sse.type", "custom")], "s3://b/k", "allowed: none, s3, kms"),
        (&[("io.max-requests", "many")], "s3://b/k", "io.max-requests"),
        (&[("gcs.service.host", "x")], "gs://b/k", "gcs.service.host"),
        (&[("gcp.auth.credentials-path", "/no/such/file.json")], "gs://b/k", "gs store"),
        (&[("adls.client-id", "c")], "abfss://c@a.dfs.core.windows.net/k", "needed together"),
        (&[("adls.connection-string", SECRET)], "abfss://c@a.dfs.core.windows.net/k", "NAME=VALUE"),
        (&[("adls.account-key", "not base64 at all!")], "abfss://c@a.dfs.core.windows.net/k", "store"),
    ];
    for (of, location, part) in cases {
        let e = FileIo::new(props(of)).resolve(location).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported), "{e}");
        assert!(e.to_string().contains(part), "{e}");
        assert!(!e.to_string().contains("not base64 at all!"), "{e}");
        no_secret(&e);
    }
}

#[tokio::test]
async fn google_tokens_and_billed_projects_travel_in_headers() {
    let seen: Arc<Mutex<Vec<(String, String, String)>>> = Arc::default();
    let log = seen.clone();
    let (address, _) = stub(move |_, request| {
        let header = |k: &str| request.headers().get(k).map(|v| v.to_str().unwrap().to_string()).unwrap_or_default();
        log.lock().unwrap().push((
            request.uri().path().to_string(),
            header("authorization"),
            header("x-goog-user-project"),
        ));
        ([("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"), ("ETag", "\"1\"")], "x").into_response()
    })
    .await;
    let io = FileIo::new(props(&[
        ("gcs.service.host", &format!("http://{address}")),
        ("gcs.oauth2.token", SECRET),
        ("gcs.user-project", "billed"),
        ("gcs.project-id", "p"),
    ]));
    io.read("gs://bucket/a/k=%2F").await.unwrap();
    let io = FileIo::new(props(&[("gcs.service.host", &format!("http://{address}")), ("gcs.no-auth", "true")]));
    io.read("gs://bucket/b").await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], ("/bucket/a%2Fk%3D%252F".into(), format!("Bearer {SECRET}"), "billed".into()));
    assert_eq!(seen[1], ("/bucket/b".into(), String::new(), String::new()));
}

#[test]
fn texts_lose_their_secrets() {
    let secrets =
        secrets_of(&props(&[("s3.secret-access-key", SECRET), ("adls.sas-token.a", "sig=abcdef"), ("uri", "x")]));
    let text = format!("GET https://a.blob.core.windows.net/c/k?sv=1&sig=zz failed, {SECRET}, sig=abcdef");
    let shown = redact(&text, &secrets);
    assert_eq!(shown, "GET https://a.blob.core.windows.net/c/k?*** failed, ***, ***");
    let io = FileIo::new(props(&[("s3.secret-access-key", SECRET)]));
    assert!(!format!("{io:?}").contains(SECRET));
}

/// What is logged while requests succeed, fail and are tried again.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn logs_hold_no_secret() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    tracing::debug!("the log is on");
    let (address, count) = stub(|n, _| match n {
        0 => (StatusCode::SERVICE_UNAVAILABLE, SECRET).into_response(),
        _ => (StatusCode::FORBIDDEN, SECRET).into_response(),
    })
    .await;
    let e = s3(&address).read("s3://b/k").await.unwrap_err();
    no_secret(&e);
    tracing::warn!("{e} {e:?}");
    let sas = format!("sv=2024&sig={SECRET}");
    let azure = FileIo::new(props(&[
        ("adls.account-host", &format!("http://{address}/a")),
        ("adls.sas-token.a", &sas),
        ("io.max-retries", "1"),
    ]));
    let e = azure.read("abfss://c@a.dfs.core.windows.net/k").await.unwrap_err();
    no_secret(&e);
    assert!(count.load(Ordering::SeqCst) >= 3);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("the log is on") && text.contains("403"), "{text}");
    assert!(!text.contains(SECRET) && !text.contains("tOkEnOfASession"), "{text}");
}
