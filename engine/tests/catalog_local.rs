//! The Hadoop and SQLite catalogs: the common suite, layout, races between tasks and processes, killed writers.

mod catalog_suite;
#[path = "catalog_suite/requests.rs"]
mod requests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use catalog_suite::*;
use floe_engine::ErrorKind;
use floe_engine::catalog::{Catalog, open_catalog};
use iceberg::spec::FormatVersion;

const HADOOP: Abilities = Abilities::FOLDERS;
const SQL: Abilities = Abilities::ALL;

/// Both local catalogs in a folder, as command-line specs.
fn specs(dir: &Path) -> [String; 2] {
    [format!("hadoop:{}/wh", dir.display()), format!("sql:sqlite:{}/catalog.db", dir.display())]
}

async fn open(spec: &str) -> Arc<dyn Catalog> {
    open_catalog(spec, "local", HashMap::new()).await.unwrap()
}

async fn with_table(spec: &str) -> (Arc<dyn Catalog>, iceberg::TableIdent) {
    let catalog = open(spec).await;
    let id = ident(&["n"], "t");
    make_table(&catalog, &id).await;
    (catalog, id)
}

#[tokio::test]
async fn hadoop_passes_the_suite() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(&specs(dir.path())[0]).await;
    run(catalog, HADOOP, &format!("{}/outside", dir.path().display())).await;
}

#[tokio::test]
async fn hadoop_with_a_file_uri_passes_the_suite_and_keeps_the_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(&format!("hadoop:file://{}/wh", dir.path().display())).await;
    run(catalog.clone(), HADOOP, &format!("{}/outside", dir.path().display())).await;
    let t = make_table(&catalog, &ident(&["n"], "t")).await;
    assert_eq!(t.metadata().location(), format!("file://{}/wh/n/t", dir.path().display()));
}

#[tokio::test]
async fn sqlite_passes_the_suite() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(&specs(dir.path())[1]).await;
    run(catalog, SQL, &format!("{}/outside", dir.path().display())).await;
}

#[tokio::test]
async fn sqlite_in_memory_passes_the_suite() {
    let dir = tempfile::tempdir().unwrap();
    let props = HashMap::from([("warehouse".to_string(), format!("{}/wh", dir.path().display()))]);
    let catalog = open_catalog("sql:sqlite::memory:", "m", props).await.unwrap();
    run(catalog, SQL, &format!("{}/outside", dir.path().display())).await;
}

/// The files Spark's `type=hadoop` catalog looks for (FS-2, FS-4, CAT-1).
#[tokio::test]
async fn hadoop_layout() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, id) = with_table(&specs(dir.path())[0]).await;
    commit_until_done(&catalog, &id, "k", "1").await.unwrap();
    let table = dir.path().join("wh/n/t");
    let mut names: Vec<_> = std::fs::read_dir(table.join("metadata"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["v1.metadata.json", "v2.metadata.json", "version-hint.text"]);
    assert_eq!(std::fs::read_to_string(table.join("metadata/version-hint.text")).unwrap(), "2");
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(table.join("metadata/v1.metadata.json")).unwrap()).unwrap();
    assert_eq!(json["location"], table.to_str().unwrap());
    assert_eq!(json["next-row-id"], 0);
    assert_eq!(json["format-version"], 3);
}

/// A hint that is behind, or none, costs nothing but a look (FS-4, FS-5).
#[tokio::test]
async fn hadoop_finds_the_version_whatever_the_hint_says() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, id) = with_table(&specs(dir.path())[0]).await;
    for n in 0..3 {
        commit_until_done(&catalog, &id, "n", &n.to_string()).await.unwrap();
    }
    let metadata = dir.path().join("wh/n/t/metadata");
    let hint = metadata.join("version-hint.text");
    for text in ["1", "3", " 2\n", "x", "", "-1", "\u{fffd}"] {
        std::fs::write(&hint, text).unwrap();
        let t = catalog.clone().load_table(&id).await.unwrap();
        assert!(t.metadata_location().ends_with("/v4.metadata.json"), "hint {text:?}: {}", t.metadata_location());
    }
    std::fs::write(&hint, [0xff, 0xfe]).unwrap();
    assert!(catalog.table_exists(&id).await.unwrap());
    std::fs::remove_file(&hint).unwrap();
    // Old versions may be gone, and what a killed writer left is no version.
    std::fs::remove_file(metadata.join("v1.metadata.json")).unwrap();
    std::fs::write(metadata.join("6f9b2f0c-0000-4000-8000-000000000000.metadata.json"), "{").unwrap();
    std::fs::write(metadata.join("v5.metadata.json#1"), "{").unwrap();
    std::fs::write(metadata.join(".v9.metadata.json.crc"), "crc").unwrap();
    let t = catalog.clone().load_table(&id).await.unwrap();
    assert!(t.metadata_location().ends_with("/v4.metadata.json"));
    commit_until_done(&catalog, &id, "n", "after").await.unwrap();
    assert_eq!(std::fs::read_to_string(&hint).unwrap(), "5");
}

/// A hint that is ahead of every file tells of commits that are lost: no call goes back to an older version (FS-5).
#[tokio::test]
async fn hadoop_refuses_a_table_whose_newest_metadata_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, id) = with_table(&specs(dir.path())[0]).await;
    for n in 0..3 {
        commit_until_done(&catalog, &id, "n", &n.to_string()).await.unwrap();
    }
    let base = catalog.clone().load_table(&id).await.unwrap();
    let metadata = dir.path().join("wh/n/t/metadata");
    let newest = std::fs::read(metadata.join("v4.metadata.json")).unwrap();
    std::fs::remove_file(metadata.join("v4.metadata.json")).unwrap();

    let told = |e: floe_engine::Error| {
        assert_eq!((e.kind(), e.clause_id()), (ErrorKind::Malformed, Some("FS-5")), "{e}");
        let text = e.to_string();
        assert!(text.contains("version 4") && text.contains("v3") && text.contains("version-hint.text"), "{text}");
    };
    told(catalog.clone().load_table(&id).await.unwrap_err());
    told(catalog.table_exists(&id).await.unwrap_err());
    told(catalog.drop_table(&id, false).await.unwrap_err());
    told(base.refresh().await.unwrap_err());
    // the commit of a writer that had loaded the table before
    told(commit_until_done(&catalog, &id, "n", "late").await.unwrap_err());
    assert!(!metadata.join("v4.metadata.json").exists(), "nothing is written over the gap");

    // the file is back; or a later one is there, whichever name the hint says; or nobody names the lost one
    std::fs::write(metadata.join("v4.metadata.json"), &newest).unwrap();
    let loaded = |t: floe_engine::Table| t.metadata_location().rsplit('/').next().unwrap().to_string();
    assert_eq!(loaded(catalog.clone().load_table(&id).await.unwrap()), "v4.metadata.json");
    std::fs::rename(metadata.join("v4.metadata.json"), metadata.join("v7.gz.metadata.json")).unwrap();
    assert_eq!(loaded(catalog.clone().load_table(&id).await.unwrap()), "v7.gz.metadata.json");
    std::fs::remove_file(metadata.join("v7.gz.metadata.json")).unwrap();
    std::fs::remove_file(metadata.join("version-hint.text")).unwrap();
    assert_eq!(loaded(catalog.clone().load_table(&id).await.unwrap()), "v3.metadata.json");
}

/// A table of which only packed versions are kept is one all the same, in each of their names (FS-3).
#[tokio::test]
async fn hadoop_finds_packed_versions_without_a_hint() {
    for name in ["v7.metadata.json", "v7.gz.metadata.json", "v7.metadata.json.gz"] {
        let dir = tempfile::tempdir().unwrap();
        let (catalog, id) = with_table(&specs(dir.path())[0]).await;
        let metadata = dir.path().join("wh/n/t/metadata");
        std::fs::rename(metadata.join("v1.metadata.json"), metadata.join(name)).unwrap();
        std::fs::remove_file(metadata.join("version-hint.text")).unwrap();
        assert_eq!(catalog.list_tables(id.namespace()).await.unwrap(), [id.clone()], "{name}");
        assert!(catalog.clone().load_table(&id).await.unwrap().metadata_location().ends_with(name));
        commit_until_done(&catalog, &id, "k", "1").await.unwrap();
        assert!(metadata.join("v8.metadata.json").exists(), "{name}");
    }
}

/// Spark's local file system refuses a hint whose checksum file is stale.
#[tokio::test]
async fn hadoop_removes_the_stale_checksum_of_the_hint() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, id) = with_table(&specs(dir.path())[0]).await;
    let crc = dir.path().join("wh/n/t/metadata/.version-hint.text.crc");
    std::fs::write(&crc, "crc of another text").unwrap();
    commit_until_done(&catalog, &id, "k", "1").await.unwrap();
    assert!(!crc.exists());
}

/// Gzip names are read (FS-3), also Java's old spelling; the name of the next version follows from the base.
#[tokio::test]
async fn hadoop_reads_and_writes_gzip() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, id) = with_table(&specs(dir.path())[0]).await;
    commit_until_done(&catalog, &id, "write.metadata.compression-codec", "gzip").await.unwrap();
    commit_until_done(&catalog, &id, "k", "1").await.unwrap();
    let metadata = dir.path().join("wh/n/t/metadata");
    let packed = metadata.join("v3.gz.metadata.json");
    assert!(std::fs::read(&packed).unwrap().starts_with(&[0x1f, 0x8b]));
    std::fs::rename(&packed, metadata.join("v3.metadata.json.gz")).unwrap();
    let t = catalog.clone().load_table(&id).await.unwrap();
    assert!(t.metadata_location().ends_with("v3.metadata.json.gz"));
    commit_until_done(&catalog, &id, "k", "2").await.unwrap();
    assert_eq!(catalog.clone().load_table(&id).await.unwrap().metadata().properties()["k"], "2");
    // A cut gzip file is an error, not an older version.
    let newest = metadata.join("v4.gz.metadata.json");
    let bytes = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(catalog.clone().load_table(&id).await.unwrap_err().kind(), ErrorKind::Malformed);
}

#[tokio::test]
async fn hadoop_refuses_what_folders_cannot_do() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, id) = with_table(&specs(dir.path())[0]).await;
    let e = catalog.rename_table(&id, &ident(&["n"], "u")).await.unwrap_err();
    assert_eq!((e.kind(), e.clause_id()), (ErrorKind::Unsupported, Some("CAT-1")));
    for name in ["..", ".", "a/b", "", "a\\b"] {
        let e = catalog.create_namespace(&ns(&[name]), HashMap::new()).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{name:?}");
    }
    let base = catalog.clone().load_table(&id).await.unwrap();
    let commit = commit_of(&base, "write.metadata.path", "/elsewhere");
    assert_eq!(catalog.clone().commit_table(commit).await.unwrap_err().clause_id(), Some("FS-6"));
    let mut commit = commit_of(&base, "k", "1");
    let moved = commit.metadata.inner.clone().into_builder(None).set_location("/elsewhere".into());
    commit.metadata.inner = moved.build().unwrap().metadata;
    assert_eq!(catalog.clone().commit_table(commit).await.unwrap_err().clause_id(), Some("FS-6"));
    assert_eq!(catalog.clone().load_table(&id).await.unwrap().metadata_location(), base.metadata_location());
}

/// Metadata files that fell out of the log are deleted when the table asks for it (PROP-19).
#[tokio::test]
async fn old_metadata_files_go_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let (catalog, id) = with_table(&spec).await;
        commit_until_done(&catalog, &id, "write.metadata.previous-versions-max", "2").await.unwrap();
        commit_until_done(&catalog, &id, "write.metadata.delete-after-commit.enabled", "true").await.unwrap();
        for n in 0..4 {
            commit_until_done(&catalog, &id, "n", &n.to_string()).await.unwrap();
        }
        let t = catalog.clone().load_table(&id).await.unwrap();
        let folder = PathBuf::from(t.metadata_folder());
        let left = std::fs::read_dir(folder).unwrap();
        let left = left.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".metadata.json"));
        // The current one and the two of the log.
        assert_eq!(left.count(), 3, "{spec}");
    }
}

/// `gc.enabled=false` protects files that others may use (PROP-29).
#[tokio::test]
async fn purge_is_refused_without_gc() {
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let (catalog, id) = with_table(&spec).await;
        let mut commit = commit_of(&catalog.clone().load_table(&id).await.unwrap(), "gc.enabled", "false");
        // Without the snapshot: its manifest list does not exist.
        let base = commit.base.clone();
        let only = base.metadata().inner.clone().into_builder(Some(base.metadata_location().into()));
        let only = only.set_properties(HashMap::from([("gc.enabled".to_string(), "false".to_string())])).unwrap();
        commit.metadata.inner = only.build().unwrap().metadata;
        let t = catalog.clone().commit_table(commit).await.unwrap();
        assert_eq!(catalog.drop_table(&id, true).await.unwrap_err().clause_id(), Some("PROP-29"));
        assert_eq!(catalog.clone().load_table(&id).await.unwrap().metadata_location(), t.metadata_location());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_lose_no_commit() {
    const WRITERS: usize = 6;
    const EACH: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let (_, id) = with_table(&spec).await;
        let mut writers = Vec::new();
        for _ in 0..WRITERS {
            // A catalog of its own each, as separate sessions have.
            writers.push(open(&spec).await);
        }
        race(&open(&spec).await, writers, &id, EACH).await;
    }
}

/// Of many creators of one table or namespace exactly one wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_creator_wins() {
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let id = ident(&["n"], "t");
        let mut namespaces = Vec::new();
        for _ in 0..6 {
            let (catalog, id) = (open(&spec).await, id.clone());
            namespaces
                .push(tokio::spawn(async move { catalog.create_namespace(id.namespace(), HashMap::new()).await }));
        }
        for t in namespaces {
            if let Err(e) = t.await.unwrap() {
                assert_eq!(e.kind(), ErrorKind::AlreadyExists);
            }
        }
        let mut tasks = Vec::new();
        for n in 0..6 {
            let (catalog, mut table) = (open(&spec).await, new_table(&id, FormatVersion::V3));
            let codec = if n % 2 == 0 { "gzip" } else { "none" };
            table.properties.insert("write.metadata.compression-codec".into(), codec.into());
            tasks.push(tokio::spawn(async move { catalog.create_table(table).await }));
        }
        let mut won = Vec::new();
        for t in tasks {
            match t.await.unwrap() {
                Ok(t) => won.push(t.metadata().uuid()),
                Err(e) => assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}"),
            }
        }
        let now = open(&spec).await.load_table(&id).await.unwrap();
        assert_eq!(won, [now.metadata().uuid()], "{spec}");
    }
}

/// Name of the environment variable that makes a test program a writer: `spec|writer|commits`.
const WRITER: &str = "FLOE_TEST_WRITER";

fn spawn_writer(test: &str, spec: &str, writer: usize, commits: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(WRITER, format!("{spec}|{writer}|{commits}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// In a writer's process: commits and returns true.
async fn is_writer() -> bool {
    let Ok(task) = std::env::var(WRITER) else {
        return false;
    };
    let parts: Vec<&str> = task.split('|').collect();
    let (catalog, id) = (open(parts[0]).await, ident(&["n"], "t"));
    for n in 0..parts[2].parse().unwrap() {
        commit_until_done(&catalog, &id, &format!("w{}-{n}", parts[1]), "done").await.unwrap();
    }
    true
}

#[tokio::test]
async fn processes_lose_no_commit() {
    if is_writer().await {
        return;
    }
    const WRITERS: usize = 4;
    const EACH: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let (catalog, id) = with_table(&spec).await;
        let writers: Vec<_> = (0..WRITERS).map(|w| spawn_writer("processes_lose_no_commit", &spec, w, EACH)).collect();
        for mut w in writers {
            assert!(w.wait().unwrap().success(), "a writer failed on {spec}");
        }
        assert_no_lost_commit(&catalog, &id, WRITERS, EACH).await;
    }
}

/// Writers are killed at many moments; each time the table is readable, and the next commit works.
#[tokio::test]
async fn a_killed_writer_leaves_the_table_readable() {
    if is_writer().await {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for spec in specs(dir.path()) {
        let (catalog, id) = with_table(&spec).await;
        let mut versions = 0;
        for round in 0..12u64 {
            let mut writer = spawn_writer("a_killed_writer_leaves_the_table_readable", &spec, round as usize, 10_000);
            // Wait until it commits, then for another few milliseconds.
            let before = catalog.clone().load_table(&id).await.unwrap().metadata().last_sequence_number();
            loop {
                let now = catalog.clone().load_table(&id).await.unwrap().metadata().last_sequence_number();
                if now > before {
                    break;
                }
                assert!(writer.try_wait().unwrap().is_none(), "the writer ended by itself");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_micros(round * 700)).await;
            writer.kill().unwrap();
            writer.wait().unwrap();
            let t = catalog.clone().load_table(&id).await.unwrap();
            let m = t.metadata();
            assert_eq!(m.snapshots().count() as i64, m.last_sequence_number());
            commit_until_done(&catalog, &id, "after", &round.to_string()).await.unwrap();
            versions = m.last_sequence_number();
        }
        assert!(versions >= 12);
    }
}
