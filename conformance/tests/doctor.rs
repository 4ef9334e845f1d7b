//! `floe doctor` on catalogs that are well, and on each way one is not.

use std::collections::HashMap;

use floe_conformance::cli::doctor::examine;
use floe_conformance::serve::Server;
use floe_engine::ErrorKind;
use floe_engine::catalog::open_catalog;

fn names(steps: &[floe_conformance::cli::doctor::Step]) -> Vec<&'static str> {
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
    assert_eq!(names(&steps), ["reach", "list namespaces"]);
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
