//! `floe doctor` on catalogs that are well, and on each way one is not.

use std::collections::HashMap;

use floe_conformance::doctor::{advice, examine};
use floe_conformance::serve::Server;
use floe_engine::ErrorKind;
use floe_engine::catalog::open_catalog;

fn names(steps: &[floe_conformance::doctor::Step]) -> Vec<&'static str> {
    steps.iter().map(|s| s.name).collect()
}

#[tokio::test]
async fn healthy_catalogs_pass_every_step_and_stay_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("wh")).unwrap();
    for spec in [format!("hadoop:{}/wh", dir.path().display()), format!("sql:sqlite:{}/c.db", dir.path().display())] {
        let steps = examine(&spec, HashMap::new(), false).await;
        for s in &steps {
            assert!(s.outcome.is_ok(), "{spec}: {s:?}");
        }
        assert!(names(&steps).contains(&"conditional put") && names(&steps).contains(&"commit"));
        let catalog = open_catalog(&spec, "doctor", HashMap::new()).await.unwrap();
        assert!(catalog.list_namespaces(None).await.unwrap().is_empty(), "{spec}: something was left");
    }
    let steps = examine(&format!("hadoop:{}/wh", dir.path().display()), HashMap::new(), true).await;
    assert_eq!(names(&steps), ["reach", "authenticate", "list namespaces"]);
}

#[tokio::test]
async fn faults_stop_at_their_step() {
    let dir = tempfile::tempdir().unwrap();
    for (spec, step, kind) in [
        ("rest:http://127.0.0.1:1".to_string(), "reach", ErrorKind::Io),
        ("sql:sqlite:/no/such/folder/c.db".to_string(), "reach", ErrorKind::NotFound),
        ("gopher:x".to_string(), "reach", ErrorKind::InvalidInput),
    ] {
        let steps = examine(&spec, HashMap::new(), false).await;
        let last = steps.last().unwrap();
        assert_eq!((last.name, last.outcome.as_ref().unwrap_err().kind()), (step, kind), "{spec}");
    }
    // A server that wants a token.
    let spec = format!("sql:sqlite:{}/c.db", dir.path().display());
    let behind = open_catalog(&spec, "x", HashMap::new()).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("rest:http://{}", listener.local_addr().unwrap());
    let router = Server::new(behind, Some("t".into())).router();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let steps = examine(&uri, HashMap::new(), false).await;
    assert_eq!(names(&steps), ["authenticate"]);
    let steps = examine(&uri, HashMap::from([("token".to_string(), "t".to_string())]), false).await;
    assert!(steps.iter().all(|s| s.outcome.is_ok()), "{steps:?}");
}

/// Each way in which a store can be broken fails at its step, and the remedy names it.
#[tokio::test]
async fn broken_stores_are_found_out() {
    use super::gcs::{Fault, TOKEN, store};
    let cases = [
        (Fault::ReadOnly, TOKEN, "lake", "create namespace", ErrorKind::Denied, "may read but not write"),
        (Fault::Overwrites, TOKEN, "lake", "conditional put", ErrorKind::Unsupported, "would lose commits"),
        (Fault::Forgets, TOKEN, "lake", "write a file", ErrorKind::NotFound, "read-after-write"),
        (Fault::None, "ya29.wRoNgToken", "lake", "authenticate", ErrorKind::Denied, "expired credential"),
        (Fault::None, TOKEN, "other", "list namespaces", ErrorKind::NotFound, "does not exist at this endpoint"),
    ];
    for (fault, token, bucket, step, kind, remedy) in cases {
        let props = super::lake::props(&[("gcs.service.host", &store(fault).await), ("gcs.oauth2.token", token)]);
        let steps = examine(&format!("hadoop:gs://{bucket}/wh"), props, false).await;
        let failed: Vec<_> = steps.iter().filter(|s| s.outcome.is_err()).collect();
        assert!(!failed.is_empty(), "{fault:?}: {steps:?}");
        let e = failed[0].outcome.as_ref().unwrap_err();
        assert_eq!((failed[0].name, e.kind()), (step, kind), "{fault:?}: {steps:?}");
        assert!(advice(step, e).contains(remedy), "{fault:?}: {e}: {}", advice(step, e));
        assert!(!format!("{steps:?}").contains(token), "{steps:?}");
    }
    let props = super::lake::props(&[
        ("gcs.service.host", "http://127.0.0.1:1"),
        ("gcs.no-auth", "true"),
        ("io.max-retries", "0"),
    ]);
    let steps = examine("hadoop:gs://lake/wh", props, false).await;
    let e = steps.last().unwrap().outcome.as_ref().unwrap_err();
    assert_eq!((steps.last().unwrap().name, e.kind()), ("list namespaces", ErrorKind::Io));
    assert!(advice("list namespaces", e).contains("cannot be reached"), "{e}");
}
