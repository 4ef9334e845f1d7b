//! Concurrency validation, through real commits from a stale table (CONC-*).

use std::sync::Arc;

use iceberg::spec::FormatVersion;

use super::support::*;
use crate::commit::{Change, Drop, FileFilter, Isolation, Producer, Validation, commit};
use crate::manifest::DataFile;
use crate::{ErrorKind, Table};

/// Matches files whose path contains a word.
struct Named(&'static str);

impl FileFilter for Named {
    fn may_match(&self, f: &DataFile) -> bool {
        f.path.contains(self.0)
    }

    fn must_match(&self, f: &DataFile) -> bool {
        f.path.contains(self.0) && !f.path.contains("partly")
    }

    fn describe(&self) -> String {
        format!("path like {}", self.0)
    }
}

fn head(t: &Table) -> Option<i64> {
    t.metadata().current_snapshot_id()
}

async fn seeded(files: &[DataFile]) -> Table {
    let (_, t) = table(FormatVersion::V3, false, &[]).await;
    go(&t, Producer::MergeAppend, files.to_vec(), vec![]).await
}

async fn refused(t: &Table, c: Change, kind: ErrorKind, clause: &str, text: &str) {
    let before = stored(t).await;
    let latest = t.refresh().await.unwrap();
    let e = commit(t, c).await.expect_err("must be refused");
    assert_eq!(e.kind(), kind, "{e}");
    assert_eq!(e.clause_id(), Some(clause), "{e}");
    assert!(e.message().contains(text), "{e}");
    assert_eq!(stored(t).await, before, "a refused commit leaves no files");
    assert_eq!(t.refresh().await.unwrap().metadata_location(), latest.metadata_location());
}

fn delete_rows(base: &Table, dvs: Vec<DataFile>, old: Vec<DataFile>, isolation: Isolation) -> Change {
    let referenced = dvs.iter().filter_map(|d| d.referenced_data_file.clone()).collect();
    Change {
        validation: Validation::merge_on_read(isolation, false, head(base), None, referenced),
        ..change(Producer::RowDelta, dvs, old)
    }
}

#[tokio::test]
async fn two_deletes_on_one_file() {
    let a = data("a", 10, 100);
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::RowDelta, vec![dv(&a, "p1", 4, 1, 42)], vec![]).await;
    let second = delete_rows(&stale, vec![dv(&a, "p2", 4, 1, 42)], vec![], Isolation::Snapshot);
    refused(&stale, second, ErrorKind::Conflict, "CONC-16", "Found concurrently added DV").await;
}

/// A filter that is too narrow must not hide the second DV.
#[tokio::test]
async fn a_narrow_filter_does_not_hide_a_dv() {
    let a = data("a", 10, 100);
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::RowDelta, vec![dv(&a, "p1", 4, 1, 42)], vec![]).await;
    let mut second = delete_rows(&stale, vec![dv(&a, "p2", 4, 1, 42)], vec![], Isolation::Snapshot);
    second.validation.filter = Some(Arc::new(Named("nothing like it")));
    refused(&stale, second, ErrorKind::Conflict, "CONC-16", "Found concurrently added DV").await;
}

/// Without a starting snapshot the whole history counts; with the head as start, forgetting the old DV is still seen
/// (case C6).
#[tokio::test]
async fn an_old_dv_must_be_replaced() {
    let a = data("a", 10, 100);
    let t = seeded(&[a.clone()]).await;
    let t = go(&t, Producer::RowDelta, vec![dv(&a, "p1", 4, 1, 42)], vec![]).await;
    let forgetful = delete_rows(&t, vec![dv(&a, "p2", 4, 2, 44)], vec![], Isolation::Snapshot);
    refused(&t, forgetful, ErrorKind::Conflict, "DV-2", "does not replace").await;
}

/// CONC-17: a rewrite that folds position deletes into a DV races with the first DV of that file.
#[tokio::test]
async fn rewrite_races_with_first_dv() {
    let (_, t) = table(FormatVersion::V2, false, &[]).await;
    let a = data("a", 10, 100);
    let t = go(&t, Producer::MergeAppend, vec![a.clone()], vec![]).await;
    let p = pos("p", None, 2, 50);
    let t = go(&t, Producer::RowDelta, vec![p.clone()], vec![]).await;
    let stale =
        crate::commit::update_metadata(&t, |b| Ok(b.upgrade_format_version(FormatVersion::V3)?), vec![]).await.unwrap();
    go(&stale, Producer::RowDelta, vec![dv(&a, "q1", 4, 3, 42)], vec![]).await;
    let mut fold = change(Producer::Rewrite, vec![dv(&a, "q2", 4, 2, 42)], vec![p]);
    fold.validation.from_snapshot = head(&stale);
    refused(&stale, fold, ErrorKind::Conflict, "CONC-16", "Found concurrently added DV").await;
}

#[tokio::test]
async fn isolation_decides_about_new_data() {
    for (isolation, ok) in [(Isolation::Serializable, false), (Isolation::Snapshot, true)] {
        let a = data("a", 10, 100);
        let stale = seeded(&[a.clone()]).await;
        go(&stale, Producer::FastAppend, vec![data("b", 5, 50)], vec![]).await;
        let delete = delete_rows(&stale, vec![dv(&a, "p", 4, 1, 42)], vec![], isolation);
        if ok {
            let t = done(commit(&stale, delete).await).table;
            let (files, deletes) = live(&t).await;
            assert_eq!((files.len(), deletes.len()), (2, 1), "delete and append both went through");
        } else {
            refused(&stale, delete, ErrorKind::Conflict, "CONC-13", "Found conflicting files").await;
        }
    }
}

#[tokio::test]
async fn the_filter_limits_new_data_conflicts() {
    let a = data("a", 10, 100);
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::FastAppend, vec![data("other", 5, 50)], vec![]).await;
    let mut delete = delete_rows(&stale, vec![dv(&a, "p", 4, 1, 42)], vec![], Isolation::Serializable);
    delete.validation.filter = Some(Arc::new(Named("/a")));
    done(commit(&stale, delete).await);
}

#[tokio::test]
async fn data_files_must_exist() {
    // removed by compaction: always a conflict
    let a = data("a", 10, 100);
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::Rewrite, vec![data("z", 10, 100)], vec![a.clone()]).await;
    let delete = delete_rows(&stale, vec![dv(&a, "p", 4, 1, 42)], vec![], Isolation::Snapshot);
    refused(&stale, delete, ErrorKind::Conflict, "CONC-11", "missing data files").await;

    // removed by a delete: an UPDATE cares, and a DELETE whose vector would stay behind (DV-4); one that writes a
    // position-delete file does not (CONC-4)
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::DeleteFiles, vec![], vec![a.clone()]).await;
    let mut update = delete_rows(&stale, vec![dv(&a, "p", 4, 1, 42)], vec![], Isolation::Snapshot);
    update.validation.removed_files_exist = true;
    refused(&stale, update, ErrorKind::Conflict, "CONC-11", "missing data files").await;
    let delete = delete_rows(&stale, vec![dv(&a, "p", 4, 1, 42)], vec![], Isolation::Snapshot);
    refused(&stale, delete, ErrorKind::Conflict, "CONC-11", "missing data files").await;
    let (_, t) = table(FormatVersion::V2, false, &[]).await;
    let stale = go(&t, Producer::MergeAppend, vec![a.clone()], vec![]).await;
    go(&stale, Producer::DeleteFiles, vec![], vec![a.clone()]).await;
    done(commit(&stale, delete_rows(&stale, vec![pos("p", Some(&a), 1, 42)], vec![], Isolation::Snapshot)).await);
}

/// Right after an upgrade rows have no ids; the first commit gives them some, and whoever read them before must not move
/// them without (LINEAGE-11, LINEAGE-21).
#[tokio::test]
async fn rows_read_without_ids_are_not_moved_once_they_have_some() {
    let a = data("a", 10, 100);
    let (_, t) = table(FormatVersion::V2, false, &[]).await;
    let t = go(&t, Producer::MergeAppend, vec![a.clone()], vec![]).await;
    let upgrade = |b: iceberg::spec::TableMetadataBuilder| Ok(b.upgrade_format_version(FormatVersion::V3)?);
    let stale = crate::commit::update_metadata(&t, upgrade, vec![]).await.unwrap();
    let compact = |base: &Table| {
        let mut c = change(Producer::Rewrite, vec![data("z", 10, 100)], vec![a.clone()]);
        c.validation.from_snapshot = head(base);
        c
    };
    let update = |base: &Table| {
        let mut c = delete_rows(base, vec![data("y", 1, 10), dv(&a, "p", 4, 1, 42)], vec![], Isolation::Snapshot);
        c.validation.removed_files_exist = true;
        c
    };
    let now = go(&stale, Producer::MergeAppend, vec![data("b", 1, 10)], vec![]).await;
    refused(&stale, compact(&stale), ErrorKind::Conflict, "LINEAGE-11", "gave ids to rows").await;
    refused(&stale, update(&stale), ErrorKind::Conflict, "LINEAGE-11", "gave ids to rows").await;
    // a DELETE moves nothing, and who reads again has the ids
    done(commit(&stale, delete_rows(&stale, vec![dv(&a, "q", 4, 1, 42)], vec![], Isolation::Snapshot)).await);
    let mut again = compact(&now);
    again.removed = vec![data("b", 1, 10)];
    again.added = vec![data("x", 1, 10)];
    done(commit(&now, again).await);
}

#[tokio::test]
async fn compaction_loses_against_a_delete() {
    let a = data("a", 10, 100);
    let compact = |base: &Table, seq: Option<i64>| {
        let mut c = change(Producer::Rewrite, vec![data("z", 9, 90)], vec![a.clone()]);
        c.validation.from_snapshot = head(base);
        c.data_sequence_number = seq;
        c
    };
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::RowDelta, vec![dv(&a, "p", 4, 1, 42)], vec![]).await;
    refused(&stale, compact(&stale, Some(1)), ErrorKind::Conflict, "CONC-25", "new position delete").await;

    // an equality delete conflicts only when the new files would be newer than it (C8, CONC-27)
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::RowDelta, vec![eq("e", 1, 40)], vec![]).await;
    refused(&stale, compact(&stale, None), ErrorKind::Conflict, "CONC-25", "new delete").await;
    let t = done(commit(&stale, compact(&stale, Some(1))).await).table;
    let (files, deletes) = live(&t).await;
    assert!(files[0].sequence_number < deletes[0].sequence_number, "the equality delete still applies");
}

#[tokio::test]
async fn copy_on_write_sees_new_deletes_and_missing_files() {
    let a = data("a", 10, 100);
    let overwrite = |base: &Table| Change {
        validation: Validation::copy_on_write(Isolation::Snapshot, head(base), None),
        ..change(Producer::Overwrite, vec![data("z", 9, 90)], vec![a.clone()])
    };
    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::RowDelta, vec![dv(&a, "p", 4, 1, 42)], vec![]).await;
    refused(&stale, overwrite(&stale), ErrorKind::Conflict, "CONC-22", "new delete for replaced data file").await;

    let stale = seeded(&[a.clone()]).await;
    go(&stale, Producer::DeleteFiles, vec![], vec![a.clone()]).await;
    refused(&stale, overwrite(&stale), ErrorKind::Conflict, "CONC-12", "Missing required files to delete").await;
}

#[tokio::test]
async fn replacing_partitions_looks_at_those_partitions() {
    let (_, t) = table(FormatVersion::V3, true, &[]).await;
    let stale = go(&t, Producer::MergeAppend, vec![within(data("a", 1, 10), 0, Some(1))], vec![]).await;
    go(&stale, Producer::FastAppend, vec![within(data("b", 1, 10), 0, Some(2))], vec![]).await;
    let replace = |part: i32| {
        let f = within(data("n", 1, 10), 0, Some(part));
        let mut c = change(Producer::ReplacePartitions, vec![f.clone()], vec![]);
        c.drop = Drop::Partitions(vec![(0, f.partition)]);
        c.validation = Validation { from_snapshot: head(&stale), no_conflicting_data: true, ..Default::default() };
        c
    };
    refused(&stale, replace(2), ErrorKind::Conflict, "CONC-21", "Found conflicting files").await;
    let t = done(commit(&stale, replace(1)).await).table;
    assert_eq!(live(&t).await.0.len(), 2);

    let mut append_only = replace(1);
    append_only.validation = Validation { append_only: true, ..Default::default() };
    refused(&t, append_only, ErrorKind::Conflict, "CONC-23", "would delete existing data").await;
}

#[tokio::test]
async fn expired_history_is_no_history() {
    let a = data("a", 10, 100);
    let stale = seeded(&[a.clone()]).await;
    let mut delete = delete_rows(&stale, vec![dv(&a, "p", 4, 1, 42)], vec![], Isolation::Snapshot);
    delete.validation.from_snapshot = Some(4711);
    refused(&stale, delete, ErrorKind::Conflict, "CONC-7", "Cannot determine history").await;
}

#[tokio::test]
async fn a_filter_drops_whole_files_only() {
    let t = seeded(&[data("a", 1, 10), data("partly-a", 1, 10), data("b", 1, 10)]).await;
    let by = |word| Change { drop: Drop::Filter(Arc::new(Named(word))), ..Change::new(Producer::DeleteFiles) };
    refused(&t, by("partly"), ErrorKind::InvalidInput, "DEL-22", "some, but not all").await;
    let t = done(commit(&t, by("/b")).await).table;
    expect(&t, &[("operation", "delete"), ("deleted-data-files", "1")]);
    assert_eq!(live(&t).await.0.len(), 2);
}

/// What is refused before the table is even looked at.
#[tokio::test]
async fn wrong_by_itself() {
    let a = data("a", 10, 100);
    let t = seeded(&[a.clone()]).await;
    let invalid = ErrorKind::InvalidInput;
    let two = change(Producer::RowDelta, vec![dv(&a, "p", 4, 1, 42), dv(&a, "q", 4, 1, 42)], vec![]);
    refused(&t, two, invalid, "DV-2", "two deletion vectors").await;
    let both = change(Producer::RowDelta, vec![dv(&a, "p", 4, 1, 42)], vec![a.clone()]);
    refused(&t, both, invalid, "CONC-15", "referenced by new delete files").await;
    let mut blind = dv(&a, "p", 4, 1, 42);
    blind.referenced_data_file = None;
    refused(&t, change(Producer::RowDelta, vec![blind], vec![]), invalid, "DV-6", "referenced_data_file").await;
    refused(&t, change(Producer::RowDelta, vec![dv(&a, "p", 4, 0, 42)], vec![]), invalid, "DV-16", "cardinality 0")
        .await;
    refused(&t, change(Producer::RowDelta, vec![pos("p", None, 1, 10)], vec![]), invalid, "DEL-5", "Must use DVs")
        .await;
    let grows = change(Producer::Rewrite, vec![data("z", 11, 100)], vec![a.clone()]);
    refused(&t, grows, invalid, "OP-11", "Invalid REPLACE operation: 11 added records > 10").await;
    refused(&t, change(Producer::Rewrite, vec![a.clone()], vec![]), invalid, "OP-12", "cannot be empty").await;
    refused(&t, change(Producer::FastAppend, vec![], vec![a.clone()]), invalid, "OP-1", "removes no files").await;
    refused(&t, change(Producer::FastAppend, vec![eq("e", 1, 1)], vec![]), invalid, "OP-1", "data files only").await;

    let (_, v2) = table(FormatVersion::V2, false, &[]).await;
    refused(&v2, change(Producer::RowDelta, vec![dv(&a, "p", 4, 1, 42)], vec![]), invalid, "DEL-5", "Must not use DVs")
        .await;
}

/// The guard runs against the table as it is at the attempt, not as the caller saw it.
#[tokio::test]
async fn an_upgrade_in_between_is_seen() {
    let (_, t) = table(FormatVersion::V2, false, &[]).await;
    let stale = go(&t, Producer::MergeAppend, vec![data("a", 10, 100)], vec![]).await;
    crate::commit::update_metadata(&stale, |b| Ok(b.upgrade_format_version(FormatVersion::V3)?), vec![]).await.unwrap();
    let c = change(Producer::RowDelta, vec![pos("p", None, 1, 10)], vec![]);
    refused(&stale, c, ErrorKind::InvalidInput, "DEL-5", "Must use DVs").await;
}
