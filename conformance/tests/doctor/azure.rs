//! Azure, on Azurite.

use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use floe_engine::ErrorKind;
use floe_engine::io::FileIo;
use sha2::{Digest, Sha256};

use super::catalog_suite::Abilities;
use super::lake::{carries, props};
use super::servers::{free_ports, has, installed, must, start};

/// The account and key that every Azurite has; they are public.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |x: u8| block.map(|b| b ^ x).to_vec();
    let inner = Sha256::digest([pad(0x36), text.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

/// Makes a container; the store's client has no call for that.
async fn make_container(endpoint: &str, name: &str) {
    let base64 = base64::engine::general_purpose::STANDARD;
    let date = "x-ms-date:Mon, 01 Jan 2024 00:00:00 GMT\nx-ms-version:2021-08-06";
    let resource = format!("/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container");
    let text = format!("PUT\n\n\n\n\n\n\n\n\n\n\n\n{date}\n{resource}");
    let signature = base64.encode(hmac(&base64.decode(KEY).unwrap(), text.as_bytes()));
    let answer = reqwest::Client::new()
        .put(format!("{endpoint}/{name}?restype=container"))
        .header("x-ms-date", "Mon, 01 Jan 2024 00:00:00 GMT")
        .header("x-ms-version", "2021-08-06")
        .header("Authorization", format!("SharedKey {ACCOUNT}:{signature}"))
        .header("Content-Length", "0")
        .send()
        .await
        .unwrap();
    assert!(answer.status().is_success(), "{} {}", answer.status(), answer.text().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn azure_carries_tables() {
    if !has("npm") || !has("node") {
        eprintln!("skipped: no Azure store here (Azurite comes through npm: install node and npm)");
        return;
    }
    let home = installed("azurite-3.35.0", |dir| {
        must(Command::new("npm").args(["install", "--no-audit", "--no-fund", "azurite@3.35.0"]).current_dir(dir));
    });
    let dir = tempfile::tempdir().unwrap();
    let port = free_ports(1)[0];
    let mut command = Command::new("node");
    command.arg(home.join("node_modules/.bin/azurite-blob"));
    command.args(["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort"]);
    command.arg(port.to_string()).arg("--location").arg(dir.path());
    let server = start(command, dir, port, Duration::from_secs(60));
    let endpoint = format!("http://127.0.0.1:{port}/{ACCOUNT}");
    make_container(&endpoint, "lake").await;

    let connection = format!("AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint}");
    let one = props(&[(&format!("adls.connection-string.{ACCOUNT}.dfs.core.windows.net"), &connection)]);
    carries(&format!("hadoop:abfss://lake@{ACCOUNT}.dfs.core.windows.net/wh"), &one, Abilities::FOLDERS).await;

    // The keys one by one, and the other spelling of a location.
    let two = props(&[
        ("adls.auth.shared-key.account.name", ACCOUNT),
        ("adls.auth.shared-key.account.key", KEY),
        ("adls.account-host", &endpoint),
    ]);
    let io = FileIo::new(two);
    let found = io.list(&format!("wasbs://lake@{ACCOUNT}.blob.core.windows.net/wh/walk/t/data")).await.unwrap();
    assert!(found.iter().any(|f| f.location.ends_with(".puffin")), "{found:?}");
    let wrong = KEY.replace("Eby8", "Aby8");
    let io = FileIo::new(props(&[("adls.account-key", &wrong), ("adls.account-host", &endpoint)]));
    let e = io.read(&format!("abfs://lake@{ACCOUNT}.dfs.core.windows.net/x")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Denied, "{e}");
    assert!(!format!("{e} {e:?}").contains(&wrong[..20]), "{e:?}");
    drop(server);
}
