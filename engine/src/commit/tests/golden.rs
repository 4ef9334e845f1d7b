//! What Spark with Iceberg 1.12.0 recorded (`golden/*.json`), replayed on fake files: operation, counts, manifests,
//! totals, row ids. The sequence of file changes is the recorded one; only names and partitions are ours.

use iceberg::spec::FormatVersion;

use super::support::*;
use crate::commit::{Change, Drop, Producer, commit, update_metadata};

const MANIFESTS: [&str; 3] = ["manifests-created", "manifests-kept", "manifests-replaced"];

#[track_caller]
fn expect_manifests(table: &crate::Table, want: [&str; 3]) {
    let pairs: Vec<_> = MANIFESTS.into_iter().zip(want).collect();
    expect(table, &pairs);
}

/// partitioned_v3_mor: a whole day deleted rewrites the data manifest, so its 80 surviving rows consume ids; a new
/// spec lets the next append merge the old spec's manifests.
#[tokio::test]
async fn partitioned_merge_on_read() {
    let (_, mut t) = table(FormatVersion::V3, true, &[]).await;
    let files: Vec<_> = (0..12).map(|i| within(data(&format!("f{i}"), 10, 1000 + i), 0, Some(i as i32))).collect();
    t = go(&t, Producer::MergeAppend, files.clone(), vec![]).await;
    expect(
        &t,
        &[
            ("operation", "append"),
            ("added-data-files", "12"),
            ("added-records", "120"),
            ("changed-partition-count", "12"),
            ("total-records", "120"),
            ("total-delete-files", "0"),
        ],
    );
    expect_manifests(&t, ["1", "0", "0"]);
    assert_eq!(row_range(&t), Some((0, 120)));

    // step 2: one DV
    let d0 = dv(&files[0], "p1", 4, 1, 42);
    t = go(&t, Producer::RowDelta, vec![d0.clone()], vec![]).await;
    expect(
        &t,
        &[
            ("operation", "delete"),
            ("added-delete-files", "1"),
            ("added-dvs", "1"),
            ("added-files-size", "42"),
            ("added-position-deletes", "1"),
            ("added-position-delete-files", "-"),
            ("changed-partition-count", "1"),
            ("removed-dvs", "-"),
        ],
    );
    expect_manifests(&t, ["1", "1", "0"]);
    assert_eq!(row_range(&t), Some((120, 0)));

    // step 3: five DVs in one Puffin file, one of them replaces the first
    let ds: Vec<_> = (0..5)
        .map(|i| dv(&files[i], "p2", 4 + 50 * i as i64, if i == 0 { 2 } else { 1 }, if i == 0 { 44 } else { 42 }))
        .collect();
    t = go(&t, Producer::RowDelta, ds.clone(), vec![d0]).await;
    expect(
        &t,
        &[
            ("operation", "delete"),
            ("added-delete-files", "5"),
            ("removed-delete-files", "1"),
            ("added-dvs", "5"),
            ("removed-dvs", "1"),
            ("added-files-size", "212"),
            ("removed-files-size", "42"),
            ("added-position-deletes", "6"),
            ("removed-position-deletes", "1"),
            ("changed-partition-count", "5"),
            ("total-delete-files", "5"),
            ("total-position-deletes", "6"),
        ],
    );
    expect_manifests(&t, ["2", "1", "1"]);

    // step 4: four whole files go by a filter, two of them have DVs
    let gone = [files[3].clone(), files[4].clone(), files[10].clone(), files[11].clone()];
    let c = Change { declared_removal: true, ..change(Producer::DeleteFiles, vec![], gone.to_vec()) };
    t = done(commit(&t, c).await).table;
    expect(
        &t,
        &[
            ("operation", "delete"),
            ("deleted-data-files", "4"),
            ("removed-delete-files", "2"),
            ("removed-dvs", "2"),
            ("deleted-records", "40"),
            ("removed-position-deletes", "2"),
            ("changed-partition-count", "4"),
            ("total-records", "80"),
            ("total-delete-files", "3"),
        ],
    );
    expect_manifests(&t, ["2", "0", "2"]);
    assert_eq!(row_range(&t), Some((120, 80)));
    assert_eq!(t.metadata().next_row_id(), 200);

    // step 5: an UPDATE moves a row
    let moved = within(data("m1", 1, 1465), 0, Some(20));
    let d6 = dv(&files[6], "p3", 4, 1, 42);
    t = go(&t, Producer::RowDelta, vec![moved, d6.clone()], vec![]).await;
    expect(&t, &[("operation", "overwrite"), ("changed-partition-count", "2"), ("added-files-size", "1507")]);
    expect_manifests(&t, ["2", "2", "0"]);
    assert_eq!(row_range(&t), Some((200, 1)));

    // step 6: MERGE: two data files, two DVs, one replaced
    let two = [within(data("m2", 1, 1433), 0, Some(21)), within(data("m3", 1, 1433), 0, Some(22))];
    let d1b = dv(&files[1], "p4", 4, 2, 44);
    let d7 = dv(&files[7], "p4", 60, 1, 42);
    let added = vec![two[0].clone(), two[1].clone(), d1b, d7];
    t = go(&t, Producer::RowDelta, added, vec![ds[1].clone()]).await;
    expect_manifests(&t, ["3", "3", "1"]);
    assert_eq!(row_range(&t), Some((201, 2)));

    // step 7: dynamic INSERT OVERWRITE of the partition of file 1 drops its DV with it
    let over = within(data("o1", 1, 890), 0, Some(1));
    let c = Change {
        drop: Drop::Partitions(vec![(0, over.partition.clone())]),
        ..change(Producer::ReplacePartitions, vec![over], vec![])
    };
    t = done(commit(&t, c).await).table;
    expect(
        &t,
        &[
            ("operation", "overwrite"),
            ("replace-partitions", "true"),
            ("added-data-files", "1"),
            ("deleted-data-files", "1"),
            ("removed-dvs", "1"),
            ("removed-delete-files", "1"),
            ("removed-position-deletes", "2"),
            ("changed-partition-count", "1"),
        ],
    );
    expect_manifests(&t, ["3", "4", "2"]);
    assert_eq!(row_range(&t), Some((203, 71)));

    // steps 8, 9: a new spec, then an append: the four live data manifests of the old spec merge
    t = update_metadata(
        &t,
        |b| {
            let spec = iceberg::spec::UnboundPartitionSpec::builder()
                .add_partition_field(1, "id", iceberg::spec::Transform::Identity)?
                .build();
            Ok(b.add_default_partition_spec(spec)?)
        },
        vec![],
    )
    .await
    .unwrap();
    let spec = t.metadata().default_partition_spec_id();
    assert_ne!(spec, 0);
    let rows_before: i64 = live(&t).await.0.iter().map(|e| e.file.record_count).sum();
    let (ids_before, _) = live(&t).await;
    t = go(
        &t,
        Producer::MergeAppend,
        vec![within(data("n1", 1, 854), spec, Some(1)), within(data("n2", 1, 854), spec, None)],
        vec![],
    )
    .await;
    expect(&t, &[("operation", "append"), ("added-data-files", "2"), ("changed-partition-count", "2")]);
    expect_manifests(&t, ["2", "3", "4"]);
    assert_eq!(row_range(&t), Some((274, 2 + rows_before as u64)), "existing rows of the merged manifest consume ids");
    // and still every old file keeps the ids it had (E3, FRID-3)
    let (ids_after, _) = live(&t).await;
    for e in &ids_before {
        let after = ids_after.iter().find(|a| a.file.path == e.file.path).unwrap();
        assert_eq!(after.file.first_row_id, e.file.first_row_id, "{}", e.file.path);
        assert_eq!(after.sequence_number, e.sequence_number);
    }

    // step 10: DVs in both specs, one replaces an old one: two new delete manifests and one rewritten
    let n1 = within(data("n1", 1, 854), spec, Some(1));
    t = go(&t, Producer::RowDelta, vec![dv(&files[0], "p5", 4, 3, 44), dv(&n1, "p5", 60, 1, 42)], vec![ds[0].clone()])
        .await;
    expect(&t, &[("operation", "delete"), ("changed-partition-count", "2")]);
    expect_manifests(&t, ["3", "4", "1"]);
}

/// lineage_v3_cow: every copy-on-write step replaces all files; ids move on by the new files' rows only.
#[tokio::test]
async fn copy_on_write() {
    let (_, mut t) = table(FormatVersion::V3, false, &[]).await;
    let (a, b) = (data("a", 10, 965), data("b", 10, 957));
    t = go(&t, Producer::MergeAppend, vec![a.clone()], vec![]).await;
    t = go(&t, Producer::MergeAppend, vec![b.clone()], vec![]).await;
    expect_manifests(&t, ["1", "1", "0"]);
    assert_eq!(row_range(&t), Some((10, 10)));
    let c = data("c", 20, 1744);
    t = go(&t, Producer::Overwrite, vec![c.clone()], vec![a, b]).await;
    expect(
        &t,
        &[
            ("operation", "overwrite"),
            ("added-data-files", "1"),
            ("deleted-data-files", "2"),
            ("added-records", "20"),
            ("deleted-records", "20"),
            ("added-files-size", "1744"),
            ("removed-files-size", "1922"),
            ("changed-partition-count", "1"),
            ("total-records", "20"),
            ("total-data-files", "1"),
        ],
    );
    expect_manifests(&t, ["3", "0", "2"]);
    assert_eq!(row_range(&t), Some((20, 20)));
    let d = data("d", 20, 1790);
    t = go(&t, Producer::Overwrite, vec![d.clone()], vec![c]).await;
    expect_manifests(&t, ["2", "0", "1"]);
    assert_eq!(row_range(&t), Some((40, 20)));
    let e = data("e", 19, 1889);
    t = go(&t, Producer::Overwrite, vec![e.clone()], vec![d]).await;
    assert_eq!(row_range(&t), Some((60, 19)));
    let f = data("f", 19, 1904);
    t = go(&t, Producer::Rewrite, vec![f.clone()], vec![e]).await;
    expect(&t, &[("operation", "replace")]);
    expect_manifests(&t, ["2", "0", "1"]);
    assert_eq!(row_range(&t), Some((79, 19)));
    let g = data("g", 1, 860);
    t = go(&t, Producer::MergeAppend, vec![g.clone()], vec![]).await;
    expect_manifests(&t, ["1", "1", "0"]);
    let c = Change { drop: Drop::Everything, ..change(Producer::ReplacePartitions, vec![data("h", 13, 1007)], vec![]) };
    t = done(commit(&t, c).await).table;
    expect(&t, &[("operation", "overwrite"), ("deleted-data-files", "2"), ("deleted-records", "20")]);
    expect_manifests(&t, ["3", "0", "2"]);
    assert_eq!(row_range(&t), Some((99, 13)));
}

/// fold_v2_v3_file: V2 position deletes, upgrade, the first V3 DELETE numbers all 2000 old rows and folds one file's
/// position deletes into a DV.
#[tokio::test]
async fn upgrade_and_fold() {
    let (_, mut t) = table(FormatVersion::V2, false, &[]).await;
    let (a, b) = (data("a", 1000, 3385), data("b", 1000, 3431));
    t = go(&t, Producer::MergeAppend, vec![a.clone()], vec![]).await;
    t = go(&t, Producer::MergeAppend, vec![b.clone()], vec![]).await;
    let p1 = pos("p1", Some(&a), 1, 1520);
    t = go(&t, Producer::RowDelta, vec![p1.clone()], vec![]).await;
    expect(
        &t,
        &[
            ("operation", "delete"),
            ("added-position-delete-files", "1"),
            ("added-delete-files", "1"),
            ("added-files-size", "1520"),
            ("added-position-deletes", "1"),
            ("added-dvs", "-"),
        ],
    );
    expect_manifests(&t, ["1", "2", "0"]);
    let (p2, p3) = (pos("p2", Some(&a), 2, 1571), pos("p3", Some(&b), 1, 1520));
    t = go(&t, Producer::RowDelta, vec![p2.clone(), p3.clone()], vec![p1]).await;
    expect_manifests(&t, ["2", "2", "1"]);
    assert_eq!(row_range(&t), None);

    t = update_metadata(&t, |b| Ok(b.upgrade_format_version(FormatVersion::V3)?), vec![]).await.unwrap();
    assert_eq!(t.metadata().next_row_id(), 0);
    let (before, _) = live(&t).await;
    assert!(before.iter().all(|e| e.file.first_row_id.is_none()), "null until the next commit (LINEAGE-20)");

    let d1 = dv(&a, "q1", 4, 3, 46);
    t = go(&t, Producer::RowDelta, vec![d1.clone()], vec![p2]).await;
    expect(
        &t,
        &[
            ("operation", "delete"),
            ("removed-position-delete-files", "1"),
            ("added-delete-files", "1"),
            ("removed-delete-files", "1"),
            ("added-dvs", "1"),
            ("added-files-size", "46"),
            ("removed-files-size", "1571"),
            ("added-position-deletes", "3"),
            ("removed-position-deletes", "2"),
            ("removed-dvs", "-"),
        ],
    );
    expect_manifests(&t, ["2", "2", "1"]);
    assert_eq!(row_range(&t), Some((0, 2000)));
    let (after, deletes) = live(&t).await;
    let mut firsts: Vec<_> = after.iter().map(|e| e.file.first_row_id).collect();
    firsts.sort();
    assert_eq!(firsts, [Some(0), Some(1000)]);
    assert_eq!(deletes.len(), 2, "the DV and the other file's position deletes");

    let d2 = dv(&b, "q2", 4, 2, 44);
    t = go(&t, Producer::RowDelta, vec![d2.clone()], vec![p3]).await;
    expect_manifests(&t, ["2", "3", "1"]);
    assert_eq!(row_range(&t), Some((2000, 0)));

    // step 10: UPDATE in both files
    let (d1b, d2b, u) = (dv(&a, "q3", 4, 4, 46), dv(&b, "q3", 60, 3, 44), data("u", 2, 1479));
    t = go(&t, Producer::RowDelta, vec![u.clone(), d1b.clone(), d2b.clone()], vec![d1, d2]).await;
    expect(
        &t,
        &[
            ("operation", "overwrite"),
            ("added-dvs", "2"),
            ("removed-dvs", "2"),
            ("added-files-size", "1569"),
            ("removed-files-size", "90"),
            ("added-position-deletes", "7"),
            ("removed-position-deletes", "5"),
        ],
    );
    expect_manifests(&t, ["4", "2", "2"]);
    assert_eq!(row_range(&t), Some((2000, 2)));

    // step 11: compaction takes the DVs with the files
    t = go(&t, Producer::Rewrite, vec![data("z", 1995, 10406)], vec![a, b, u, d1b, d2b]).await;
    expect(
        &t,
        &[
            ("operation", "replace"),
            ("deleted-data-files", "3"),
            ("removed-delete-files", "2"),
            ("removed-dvs", "2"),
            ("added-records", "1995"),
            ("deleted-records", "2002"),
            ("removed-position-deletes", "7"),
            ("total-delete-files", "0"),
            ("total-position-deletes", "0"),
            ("total-records", "1995"),
        ],
    );
    expect_manifests(&t, ["5", "0", "4"]);
    assert_eq!(row_range(&t), Some((2002, 1995)));
}

/// whole_file_v2_mor: a delete by filter that drops the last data files sweeps out delete files that are older than
/// all data (DEL-21); an append does not.
#[tokio::test]
async fn old_delete_files_are_swept() {
    let (_, mut t) = table(FormatVersion::V2, false, &[]).await;
    let f: Vec<_> = (0..4).map(|i| data(&format!("f{i}"), 100, 1000 + i)).collect();
    for x in &f {
        t = go(&t, Producer::MergeAppend, vec![x.clone()], vec![]).await;
    }
    let by_filter = |files: Vec<_>| Change { declared_removal: true, ..change(Producer::DeleteFiles, vec![], files) };
    t = done(commit(&t, by_filter(vec![f[0].clone()])).await).table;
    expect_manifests(&t, ["1", "3", "1"]);
    t = go(&t, Producer::RowDelta, vec![pos("p1", None, 1, 1531)], vec![]).await;
    expect_manifests(&t, ["1", "3", "0"]);
    t = done(commit(&t, by_filter(vec![f[1].clone()])).await).table;
    expect(&t, &[("removed-delete-files", "-")]);
    expect_manifests(&t, ["1", "3", "1"]);
    t = go(&t, Producer::RowDelta, vec![pos("p2", None, 100, 1715)], vec![]).await;
    expect_manifests(&t, ["1", "3", "0"]);
    t = go(&t, Producer::RowDelta, vec![pos("p3", None, 11, 1605)], vec![]).await;
    expect_manifests(&t, ["1", "4", "0"]);
    t = done(commit(&t, by_filter(vec![f[2].clone(), f[3].clone()])).await).table;
    expect(
        &t,
        &[
            ("operation", "delete"),
            ("deleted-data-files", "2"),
            ("removed-position-delete-files", "2"),
            ("removed-delete-files", "2"),
            ("removed-position-deletes", "101"),
            ("total-delete-files", "1"),
        ],
    );
    expect_manifests(&t, ["4", "1", "4"]);
    let last = data("l", 1, 832);
    t = go(&t, Producer::MergeAppend, vec![last.clone()], vec![]).await;
    expect_manifests(&t, ["1", "1", "0"]);
    t = done(commit(&t, by_filter(vec![last])).await).table;
    expect(&t, &[("removed-position-delete-files", "1"), ("removed-position-deletes", "11")]);
    expect_manifests(&t, ["2", "0", "2"]);
}

/// eqdelete_v3 step 8: a compaction that lists its DVs leaves the equality deletes alone.
#[tokio::test]
async fn listed_delete_files_do_not_sweep() {
    let (_, mut t) = table(FormatVersion::V3, false, &[]).await;
    let (a, b, c) = (data("a", 1000, 3385), data("b", 1, 867), data("c", 1, 1430));
    t = go(&t, Producer::MergeAppend, vec![a.clone()], vec![]).await;
    t = go(&t, Producer::RowDelta, vec![eq("e1", 2, 453)], vec![]).await;
    expect(
        &t,
        &[
            ("operation", "delete"),
            ("added-equality-delete-files", "1"),
            ("added-equality-deletes", "2"),
            ("total-equality-deletes", "2"),
        ],
    );
    t = go(&t, Producer::MergeAppend, vec![b.clone()], vec![]).await;
    let d = dv(&a, "q1", 4, 1, 42);
    t = go(&t, Producer::RowDelta, vec![d.clone()], vec![]).await;
    t = go(&t, Producer::RowDelta, vec![eq("e2", 2, 453)], vec![]).await;
    let d2 = dv(&a, "q2", 4, 2, 42);
    t = go(&t, Producer::RowDelta, vec![c.clone(), d2.clone()], vec![d]).await;
    expect_manifests(&t, ["3", "4", "1"]);
    let seq = t.metadata().last_sequence_number();
    let head = t.metadata().current_snapshot_id();
    let mut rewrite = Change {
        data_sequence_number: Some(seq),
        ..change(Producer::Rewrite, vec![data("z", 996, 5759)], vec![a, b, c, d2])
    };
    rewrite.validation.from_snapshot = head;
    t = done(commit(&t, rewrite).await).table;
    expect(
        &t,
        &[
            ("operation", "replace"),
            ("removed-delete-files", "1"),
            ("removed-dvs", "1"),
            ("removed-equality-delete-files", "-"),
        ],
    );
    expect_manifests(&t, ["5", "2", "4"]);
    assert_eq!(row_range(&t), Some((1002, 996)));
    let (files, _) = live(&t).await;
    assert_eq!(files[0].sequence_number, Some(6), "explicit data sequence number");
    assert_eq!(files[0].file_sequence_number, Some(7), "the file sequence number is still inherited (SEQ-2)");

    // removing dangling equality deletes only
    let (_, deletes) = live(&t).await;
    t = go(&t, Producer::Rewrite, vec![], deletes.into_iter().map(|e| e.file).collect()).await;
    expect(
        &t,
        &[
            ("operation", "replace"),
            ("removed-equality-delete-files", "2"),
            ("removed-delete-files", "2"),
            ("removed-equality-deletes", "4"),
        ],
    );
    expect_manifests(&t, ["2", "1", "2"]);
    assert_eq!(row_range(&t), Some((1998, 0)));
}

/// walk_v3_mor: the empty commits, INSERT OVERWRITE of everything, TRUNCATE.
#[tokio::test]
async fn the_walk() {
    let (_, mut t) = table(FormatVersion::V3, false, &[]).await;
    let (a, b) = (data("a", 50_000, 150_000), data("b", 50_000, 151_076));
    let c =
        Change { drop: Drop::Everything, ..change(Producer::ReplacePartitions, vec![a.clone(), b.clone()], vec![]) };
    t = done(commit(&t, c).await).table;
    expect(&t, &[("operation", "overwrite"), ("deleted-data-files", "-"), ("added-files-size", "301076")]);
    assert_eq!(row_range(&t), Some((0, 100_000)));
    let d = dv(&a, "q", 4, 1, 42);
    t = go(&t, Producer::RowDelta, vec![d], vec![]).await;
    // rows were scanned, none matched: an empty row delta
    t = go(&t, Producer::RowDelta, vec![], vec![]).await;
    expect(
        &t,
        &[
            ("operation", "overwrite"),
            ("changed-partition-count", "0"),
            ("added-dvs", "-"),
            ("total-records", "100000"),
        ],
    );
    expect_manifests(&t, ["0", "2", "0"]);
    // metrics excluded every file: a metadata delete that hits nothing
    t = done(commit(&t, Change { declared_removal: true, ..Change::new(Producer::DeleteFiles) }).await).table;
    expect(&t, &[("operation", "delete"), ("changed-partition-count", "0")]);
    assert_eq!(row_range(&t), Some((100_000, 0)));
    let c = Change { drop: Drop::Everything, ..change(Producer::ReplacePartitions, vec![data("o", 1, 853)], vec![]) };
    t = done(commit(&t, c).await).table;
    expect(&t, &[("deleted-data-files", "2"), ("removed-dvs", "1"), ("deleted-records", "100000")]);
    expect_manifests(&t, ["3", "0", "2"]);
    assert_eq!(row_range(&t), Some((100_000, 1)));
    t = done(commit(&t, Change { drop: Drop::Everything, ..Change::new(Producer::DeleteFiles) }).await).table;
    expect(
        &t,
        &[("operation", "delete"), ("deleted-data-files", "1"), ("total-records", "0"), ("total-files-size", "0")],
    );
    expect_manifests(&t, ["1", "0", "1"]);
    assert_eq!(row_range(&t), Some((100_001, 0)));
}

/// upgrade_rewrite_only: position deletes become DVs by a rewrite, which also numbers the rows.
#[tokio::test]
async fn rewriting_position_deletes_to_dvs() {
    let (_, mut t) = table(FormatVersion::V2, false, &[]).await;
    let (a, b) = (data("a", 1000, 3385), data("b", 1000, 3431));
    t = go(&t, Producer::MergeAppend, vec![a.clone()], vec![]).await;
    t = go(&t, Producer::MergeAppend, vec![b.clone()], vec![]).await;
    let (p1, p2) = (pos("p1", None, 2, 1373), pos("p2", None, 2, 1373));
    t = go(&t, Producer::RowDelta, vec![p1.clone()], vec![]).await;
    t = go(&t, Producer::RowDelta, vec![p2.clone()], vec![]).await;
    t = update_metadata(&t, |b| Ok(b.upgrade_format_version(FormatVersion::V3)?), vec![]).await.unwrap();
    t = go(&t, Producer::Rewrite, vec![dv(&a, "q", 4, 2, 44), dv(&b, "q", 60, 2, 44)], vec![p1, p2]).await;
    expect(
        &t,
        &[
            ("operation", "replace"),
            ("removed-position-delete-files", "2"),
            ("added-delete-files", "2"),
            ("removed-delete-files", "2"),
            ("added-dvs", "2"),
            ("added-files-size", "88"),
            ("removed-files-size", "2746"),
            ("added-position-deletes", "4"),
            ("removed-position-deletes", "4"),
            ("changed-partition-count", "1"),
        ],
    );
    assert_eq!(row_range(&t), Some((0, 2000)));
    let e = update_metadata(&t, |b| Ok(b.upgrade_format_version(FormatVersion::V2)?), vec![]).await.unwrap_err();
    assert_eq!(e.message(), "Cannot downgrade v3 table to v2");
}
