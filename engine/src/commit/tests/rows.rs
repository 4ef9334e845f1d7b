//! Row ids and sequence numbers through merges and rewrites (FRID-*, SEQ-*, cases C11, E3, E4, B5).

use iceberg::spec::FormatVersion;

use super::support::*;
use crate::commit::merge::{Bin, MergeSettings, plan};
use crate::commit::{Producer, commit, update_metadata};
use crate::manifest::{ManifestEntry, Status};

fn ids(entries: &[ManifestEntry]) -> Vec<(String, Option<i64>)> {
    let mut out: Vec<_> =
        entries.iter().map(|e| (e.file.path.rsplit('/').next().unwrap().to_string(), e.file.first_row_id)).collect();
    out.sort();
    out
}

/// E3: with merging forced, a rewrite keeps the surviving file's id and numbers the new one after everything.
#[tokio::test]
async fn merging_keeps_ids() {
    let (_, t) = table(FormatVersion::V3, false, &[("commit.manifest.min-count-to-merge", "1")]).await;
    let (a, b) = (data("a", 125, 10), data("b", 100, 10));
    let t = go(&t, Producer::FastAppend, vec![a.clone(), b], vec![]).await;
    assert_eq!(ids(&live(&t).await.0), [("a".to_string(), Some(0)), ("b".into(), Some(125))]);
    let t = go(&t, Producer::Rewrite, vec![data("c", 125, 10)], vec![a]).await;
    assert_eq!(ids(&live(&t).await.0), [("b".to_string(), Some(125)), ("c".into(), Some(225))]);
    // the merged manifest holds 125 added and 100 existing rows: both consume ids (FRID-7)
    assert_eq!(row_range(&t), Some((225, 225)));
    let manifests = all_entries(&t).await;
    assert_eq!(manifests.len(), 1, "merged into one");
    let statuses: Vec<_> = manifests[0].1.iter().map(|e| e.status).collect();
    assert_eq!(statuses, [Status::Added, Status::Deleted, Status::Existing]);
    let gone = &manifests[0].1[1];
    assert_eq!(gone.file.first_row_id, Some(0), "a DELETED entry stores its id (FRID-3)");
    assert_eq!(gone.sequence_number, Some(1), "and its sequence number (MAN-12)");
}

/// E4: rewriting manifests changes no id and no sequence number.
#[tokio::test]
async fn rewriting_manifests_keeps_lineage() {
    let (_, mut t) = table(FormatVersion::V3, false, &[]).await;
    for i in 0..3 {
        t = go(&t, Producer::FastAppend, vec![data(&format!("f{i}"), 10 + i, 10)], vec![]).await;
    }
    let before = live(&t).await.0;
    let t = go(&t, Producer::RewriteManifests, vec![], vec![]).await;
    expect(
        &t,
        &[
            ("operation", "replace"),
            ("entries-processed", "3"),
            ("manifests-created", "1"),
            ("manifests-kept", "0"),
            ("manifests-replaced", "3"),
            ("total-records", "33"),
        ],
    );
    let after = live(&t).await.0;
    assert_eq!(ids(&before), ids(&after));
    let sequences = |e: &[ManifestEntry]| {
        let mut s: Vec<_> =
            e.iter().map(|e| (e.file.path.clone(), e.sequence_number, e.file_sequence_number, e.snapshot_id)).collect();
        s.sort();
        s
    };
    assert_eq!(sequences(&before), sequences(&after));
    let again = done(commit(&t, change(Producer::RewriteManifests, vec![], vec![])).await);
    assert_eq!(again.table.metadata_location(), t.metadata_location(), "nothing to pack, no commit");
}

/// C11: a fast append keeps a manifest that holds only DELETED entries; the next merging commit drops it.
#[tokio::test]
async fn manifests_of_deleted_entries() {
    let (_, t) = table(FormatVersion::V3, false, &[]).await;
    let a = data("a", 10, 10);
    let t = go(&t, Producer::FastAppend, vec![a.clone()], vec![]).await;
    let t = go(&t, Producer::DeleteFiles, vec![], vec![a]).await;
    let t = go(&t, Producer::FastAppend, vec![data("b", 1, 10)], vec![]).await;
    expect(&t, &[("manifests-created", "1"), ("manifests-kept", "1")]);
    let t = go(&t, Producer::MergeAppend, vec![data("c", 1, 10)], vec![]).await;
    expect(&t, &[("manifests-created", "1"), ("manifests-kept", "1")]);
    assert!(all_entries(&t).await.iter().flat_map(|m| &m.1).all(ManifestEntry::is_live));
}

/// B5: two DVs in one Puffin file; removing one data file takes only its own.
#[tokio::test]
async fn a_sibling_dv_survives() {
    let (_, t) = table(FormatVersion::V3, false, &[]).await;
    let (a, b) = (data("a", 10, 10), data("b", 10, 10));
    let t = go(&t, Producer::FastAppend, vec![a.clone(), b.clone()], vec![]).await;
    let (da, db) = (dv(&a, "one.puffin", 4, 1, 42), dv(&b, "one.puffin", 46, 1, 42));
    let t = go(&t, Producer::RowDelta, vec![da.clone(), db.clone()], vec![]).await;
    let t = go(&t, Producer::Rewrite, vec![data("z", 9, 10)], vec![a, da]).await;
    let (_, deletes) = live(&t).await;
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].file.key(), db.key());
    expect(&t, &[("removed-dvs", "1"), ("total-delete-files", "1"), ("total-position-deletes", "1")]);
}

/// LINEAGE-24: even an empty append after an upgrade numbers the old files; FRID-10: ids of callers are dropped.
#[tokio::test]
async fn an_empty_append_after_an_upgrade_assigns() {
    let (_, t) = table(FormatVersion::V2, false, &[]).await;
    let t = go(&t, Producer::FastAppend, vec![data("a", 10, 10)], vec![]).await;
    let t = update_metadata(&t, |b| Ok(b.upgrade_format_version(FormatVersion::V3)?), vec![]).await.unwrap();
    let t = go(&t, Producer::FastAppend, vec![], vec![]).await;
    assert_eq!(row_range(&t), Some((0, 10)));
    expect(&t, &[("operation", "append"), ("changed-partition-count", "0")]);
    assert_eq!(ids(&live(&t).await.0), [("a".to_string(), Some(0))]);
    let mut b = data("b", 10, 10);
    b.first_row_id = Some(3);
    let t = go(&t, Producer::FastAppend, vec![b], vec![]).await;
    assert_eq!(ids(&live(&t).await.0), [("a".to_string(), Some(0)), ("b".into(), Some(10))]);
}

/// A file given twice counts and is written once (SUMMARY-42).
#[tokio::test]
async fn duplicates_count_once() {
    let (_, t) = table(FormatVersion::V3, false, &[]).await;
    let a = data("a", 10, 10);
    let t = go(&t, Producer::FastAppend, vec![a.clone(), a], vec![]).await;
    expect(&t, &[("added-data-files", "1"), ("added-records", "10")]);
    assert_eq!(live(&t).await.0.len(), 1);
}

/// SUMMARY-33: partition summaries up to the limit.
#[tokio::test]
async fn partition_summaries() {
    let (_, t) = table(FormatVersion::V3, true, &[("write.summary.partition-limit", "2")]).await;
    let files =
        |names: &[(&str, Option<i32>)]| names.iter().map(|(n, p)| within(data(n, 10, 100), 0, *p)).collect::<Vec<_>>();
    let t = go(&t, Producer::FastAppend, files(&[("a", Some(7)), ("b", None), ("c", Some(7))]), vec![]).await;
    expect(
        &t,
        &[
            ("changed-partition-count", "2"),
            ("partition-summaries-included", "true"),
            ("partitions.part=7", "added-data-files=2,added-records=20,added-files-size=200"),
            ("partitions.part=null", "added-data-files=1,added-records=10,added-files-size=100"),
        ],
    );
    let three = files(&[("d", Some(1)), ("e", Some(2)), ("f", Some(3))]);
    let t = go(&t, Producer::FastAppend, three, vec![]).await;
    expect(&t, &[("partition-summaries-included", "-"), ("changed-partition-count", "3")]);
}

/// Manifests whose bounds exclude the partition of a removed file are not touched, and nothing is missed.
#[tokio::test]
async fn removal_finds_its_manifest() {
    let (_, mut t) = table(FormatVersion::V3, true, &[]).await;
    let parts = [Some(1), None, Some(5), Some(i32::MIN)];
    let files: Vec<_> = parts.iter().enumerate().map(|(i, p)| within(data(&format!("f{i}"), 10, 10), 0, *p)).collect();
    for f in &files {
        t = go(&t, Producer::FastAppend, vec![f.clone()], vec![]).await;
    }
    for (i, f) in files.iter().enumerate() {
        t = go(&t, Producer::DeleteFiles, vec![], vec![f.clone()]).await;
        expect(
            &t,
            &[("deleted-data-files", "1"), ("manifests-replaced", "1"), ("manifests-kept", &(3 - i).to_string())],
        );
    }
    assert!(live(&t).await.0.is_empty());
}

/// OP-21: packing goes from the end; the newest bin waits, older full bins and other specs do not.
#[test]
fn merge_plan() {
    let settings = MergeSettings { target_size: 10, min_count: 3, enabled: true };
    let keep = |v: &[usize]| v.iter().copied().map(Bin::Keep).collect::<Vec<_>>();
    assert_eq!(plan(&[(0, 4), (0, 4)], &settings), keep(&[0, 1]), "too few with the newest");
    assert_eq!(plan(&[(0, 3), (0, 3), (0, 3)], &settings), [Bin::Merge(vec![0, 1, 2])]);
    assert_eq!(
        plan(&[(0, 4), (0, 4), (0, 4), (0, 4)], &settings),
        [Bin::Keep(0), Bin::Keep(1), Bin::Merge(vec![2, 3])]
    );
    assert_eq!(plan(&[(1, 4), (0, 4), (0, 4)], &settings), [Bin::Keep(0), Bin::Merge(vec![1, 2])], "specs descending");
    assert_eq!(plan(&[(0, 30), (0, 30)], &settings), keep(&[0, 1]), "larger than the target");
    assert_eq!(plan(&[(0, 1), (0, 1)], &MergeSettings { enabled: false, ..settings }), keep(&[0, 1]));
}
