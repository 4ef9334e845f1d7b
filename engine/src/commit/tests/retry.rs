//! Attempts, races and clean-up (CONC-40..43).

use iceberg::spec::FormatVersion;

use super::support::*;
use crate::ErrorKind;
use crate::commit::{Change, Producer, commit, update_metadata};
use crate::manifest::load_manifest_list;

const FAST: &[(&str, &str)] = &[("commit.retry.min-wait-ms", "1"), ("commit.retry.max-wait-ms", "2")];

#[tokio::test]
async fn a_lost_race_is_retried_and_leaves_nothing() {
    let (catalog, t) = table(FormatVersion::V3, false, FAST).await;
    catalog.faults.lock().unwrap().extend([Fault::Lost, Fault::Lost]);
    let t = go(&t, Producer::FastAppend, vec![data("a", 10, 100)], vec![]).await;
    let files = stored(&t).await;
    assert_eq!(files.len(), 2, "one manifest and one list: {files:?}");
    let head = t.metadata().current_snapshot().unwrap();
    let name = head.manifest_list().rsplit('/').next().unwrap();
    assert!(name.starts_with(&format!("snap-{}-3-", head.snapshot_id())), "third attempt: {name}");
    assert_eq!(row_range(&t), Some((0, 10)));
}

#[tokio::test]
async fn exhausted_retries_clean_up() {
    let (catalog, t) = table(FormatVersion::V3, false, &[FAST, &[("commit.retry.num-retries", "1")]].concat()).await;
    catalog.faults.lock().unwrap().extend([Fault::Lost, Fault::Lost]);
    let e = commit(&t, change(Producer::FastAppend, vec![data("a", 10, 100)], vec![])).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitFailed);
    assert_eq!(stored(&t).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_unknown_outcome_deletes_nothing() {
    for fault in [Fault::UnknownApplied, Fault::Io] {
        let (catalog, t) = table(FormatVersion::V3, false, FAST).await;
        catalog.faults.lock().unwrap().push_back(fault);
        let e = commit(&t, change(Producer::FastAppend, vec![data("a", 10, 100)], vec![])).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::CommitUnknown, "{e}");
        assert_eq!(stored(&t).await.len(), 2);
        let now = t.refresh().await.unwrap();
        assert_eq!(now.metadata().current_snapshot().is_some(), fault == Fault::UnknownApplied);
        if fault == Fault::UnknownApplied {
            assert_eq!(live(&now).await.0.len(), 1, "the snapshot that did go through is readable");
        }
    }
}

/// C12: ids are given at commit; ranges of racing writers are disjoint whatever the interleaving.
#[tokio::test]
async fn racing_appends_get_disjoint_ids() {
    let (_, t) = table(FormatVersion::V3, false, &[FAST, &[("commit.retry.num-retries", "50")]].concat()).await;
    let writers = (0..8).map(|i| {
        let t = t.clone();
        tokio::spawn(async move {
            done(commit(&t, change(Producer::MergeAppend, vec![data(&format!("w{i}"), 10 + i, 100)], vec![])).await)
        })
    });
    for w in futures::future::join_all(writers).await {
        w.unwrap();
    }
    let t = t.refresh().await.unwrap();
    let (files, _) = live(&t).await;
    assert_eq!(files.len(), 8);
    let mut ranges: Vec<_> = files.iter().map(|e| (e.file.first_row_id.unwrap(), e.file.record_count)).collect();
    ranges.sort();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{ranges:?}");
    }
    let last = ranges.last().unwrap();
    assert_eq!(t.metadata().next_row_id() as i64, last.0 + last.1);
    let mut sequences: Vec<_> = files.iter().map(|e| e.sequence_number.unwrap()).collect();
    sequences.sort();
    assert_eq!(sequences, (1..=8).collect::<Vec<_>>());
    assert_eq!(key(&t, "total-records"), Some((0..8).map(|i| 10 + i).sum::<i64>().to_string()));
}

#[tokio::test]
async fn branches() {
    let (_, t) = table(FormatVersion::V3, false, FAST).await;
    let t = go(&t, Producer::FastAppend, vec![data("a", 10, 100)], vec![]).await;
    let main = t.metadata().current_snapshot_id();
    let to_dev = Change { branch: "dev".into(), ..change(Producer::FastAppend, vec![data("b", 5, 50)], vec![]) };
    let t = done(commit(&t, to_dev).await).table;
    assert_eq!(t.metadata().current_snapshot_id(), main);
    let dev = t.snapshot_of_ref("dev").unwrap().clone();
    assert_eq!(dev.parent_snapshot_id(), main, "a new branch starts at main (META-33)");
    assert_eq!(dev.row_range(), Some((10, 5)));
    assert_eq!(t.metadata().next_row_id(), 15, "the counter moves for any branch (META-4)");
    assert_eq!(load_manifest_list(t.io(), &dev).await.unwrap().len(), 2);

    let head = main.unwrap();
    let tag =
        iceberg::spec::SnapshotReference::new(head, iceberg::spec::SnapshotRetention::Tag { max_ref_age_ms: None });
    let t = update_metadata(&t, |b| Ok(b.set_ref("v1", tag.clone())?), vec![]).await.unwrap();
    let before = stored(&t).await;
    let to_tag = Change { branch: "v1".into(), ..change(Producer::FastAppend, vec![data("c", 5, 50)], vec![]) };
    let e = commit(&t, to_tag).await.unwrap_err();
    assert_eq!((e.kind(), e.clause_id()), (ErrorKind::InvalidInput, Some("META-33")), "{e}");
    assert_eq!(stored(&t).await, before);
}

#[tokio::test]
async fn metadata_changes() {
    let (catalog, t) = table(FormatVersion::V2, false, FAST).await;
    catalog.faults.lock().unwrap().push_back(Fault::Lost);
    let set =
        |b: iceberg::spec::TableMetadataBuilder| Ok(b.set_properties([("k".to_string(), "v".to_string())].into())?);
    let t2 = update_metadata(&t, set, vec![]).await.unwrap();
    assert_eq!(t2.property("k", ""), "v");
    let same = update_metadata(&t2, Ok, vec![]).await.unwrap();
    assert_eq!(same.metadata_location(), t2.metadata_location(), "no change, no commit");
    let stale = iceberg::TableRequirement::CurrentSchemaIdMatch { current_schema_id: 7 };
    let e = update_metadata(&t2, set, vec![stale]).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
}

#[tokio::test]
async fn wrong_settings_are_named() {
    for (k, v) in [
        ("commit.retry.num-retries", "many"),
        ("commit.manifest.min-count-to-merge", "0"),
        ("commit.manifest-merge.enabled", "maybe"),
        ("write.manifest.compression-codec", "lzma"),
    ] {
        let (_, t) = table(FormatVersion::V3, false, &[(k, v)]).await;
        let e = commit(&t, change(Producer::MergeAppend, vec![data("a", 1, 1)], vec![])).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput);
        assert_eq!(e.place(), Some(k), "{e}");
        assert_eq!(stored(&t).await, Vec::<String>::new());
    }
}
