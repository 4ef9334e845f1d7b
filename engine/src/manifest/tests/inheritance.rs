//! Sequence numbers, snapshot ids and row ids that are not stored (SEQ-1..5, FRID-2, FRID-8, FRID-9).

use iceberg::spec::{FormatVersion, ManifestContentType};

use super::support::*;
use crate::manifest::{Content, Status};

#[test]
fn numbers_are_inherited_by_added_entries_only() {
    let m = metadata(FormatVersion::V3, &[], &[]);
    let mut dated = entry(Status::Added, bare("c", 1));
    dated.sequence_number = Some(2);
    let mut anonymous = entry(Status::Added, bare("d", 1));
    anonymous.snapshot_id = None;
    let entries = [entry(Status::Added, bare("a", 1)), entry(Status::Existing, bare("b", 1)), dated, anonymous];
    let (bytes, file) = write(&m, ManifestContentType::Data, &entries, None);
    let back = read(&m, &bytes, &file).unwrap();
    let numbers: Vec<_> = back.iter().map(|e| (e.sequence_number.unwrap(), e.file_sequence_number.unwrap())).collect();
    assert_eq!(numbers, [(9, 9), (3, 4), (2, 9), (9, 9)]);
    let snapshots: Vec<_> = back.iter().map(|e| e.snapshot_id.unwrap()).collect();
    assert_eq!(snapshots, [77, 11, 77, 77]);
    assert_eq!(file.min_sequence_number, 2);
}

/// LINEAGE-30: a stored id stays and adds nothing; the others count on; DELETED ones are passed over.
#[test]
fn row_ids_walk_all_entries_in_order() {
    let m = metadata(FormatVersion::V3, &[], &[]);
    let mut stored = bare("s", 25);
    stored.first_row_id = Some(800);
    let entries = [
        entry(Status::Existing, stored),
        entry(Status::Added, bare("a", 50)),
        entry(Status::Deleted, bare("gone", 1000)),
        entry(Status::Added, bare("b", 50)),
        entry(Status::Existing, bare("c", 1)),
    ];
    let (bytes, file) = write(&m, ManifestContentType::Data, &entries, Some(1000));
    let ids = |back: Vec<crate::manifest::ManifestEntry>| back.iter().map(|e| e.file.first_row_id).collect::<Vec<_>>();
    assert_eq!(ids(read(&m, &bytes, &file).unwrap()), [Some(800), Some(1000), None, Some(1050), Some(1100)]);
    // a manifest without ids has none at all, even stored ones (FRID-8)
    let unassigned = iceberg::spec::ManifestFile { first_row_id: None, ..file };
    assert_eq!(ids(read(&m, &bytes, &unassigned).unwrap()), [None; 5]);
}

#[test]
fn row_ids_do_not_overflow_silently() {
    let m = metadata(FormatVersion::V3, &[], &[]);
    let (bytes, file) =
        write(&m, ManifestContentType::Data, &[entry(Status::Added, bare("a", 50))], Some(i64::MAX as u64));
    assert_eq!(read(&m, &bytes, &file).unwrap_err().clause_id(), Some("FRID-2"));
}

#[test]
fn carried_over_entries_must_carry_numbers() {
    let m = metadata(FormatVersion::V2, &[], &[]);
    let mut e = entry(Status::Existing, bare("a", 1));
    e.sequence_number = None;
    let target = crate::manifest::ManifestTarget::new(&m, 0, ManifestContentType::Data).unwrap();
    let error = crate::manifest::write_manifest(&target, "m", 77, &[e]).unwrap_err();
    assert_eq!(error.clause_id(), Some("MAN-12"));
}

/// A delete manifest is one by the list and its header; entries agree or are refused (MAN-1, case F5).
#[test]
fn content_is_never_guessed_to_be_data() {
    let m = metadata(FormatVersion::V3, &[], &[]);
    let mut equality = bare("e", 2);
    equality.content = Content::EqualityDeletes;
    equality.equality_ids = Some(vec![1]);
    let entries = [entry(Status::Added, equality), entry(Status::Added, dv("p", "a"))];
    let (bytes, file) = write(&m, ManifestContentType::Deletes, &entries, None);
    assert_eq!(read(&m, &bytes, &file).unwrap()[0].file.equality_ids, Some(vec![1]));
    let as_data = iceberg::spec::ManifestFile { content: ManifestContentType::Data, ..file };
    let e = read(&m, &bytes, &as_data).unwrap_err();
    assert_eq!(e.clause_id(), Some("ML-4"));
    assert!(e.place().unwrap().contains("m0.avro"), "{e}");
    let target = crate::manifest::ManifestTarget::new(&m, 0, ManifestContentType::Data).unwrap();
    assert_eq!(crate::manifest::write_manifest(&target, "m", 77, &entries).unwrap_err().clause_id(), Some("MAN-1"));
}

/// B6, B9, DEL-6: a null reference on a position delete file is fine, on a DV it is an error.
#[test]
fn what_a_dv_must_carry() {
    let m = metadata(FormatVersion::V3, &[], &[]);
    let mut positions = dv("p", "a");
    (positions.format, positions.referenced_data_file) = (crate::manifest::FileFormat::Parquet, None);
    (positions.content_offset, positions.content_size) = (None, None);
    let (bytes, file) = write(&m, ManifestContentType::Deletes, &[entry(Status::Existing, positions.clone())], None);
    assert_eq!(read(&m, &bytes, &file).unwrap()[0].file, positions);
    let refused = |change: fn(&mut crate::manifest::DataFile), clause: &str| {
        let mut f = dv("p", "a");
        change(&mut f);
        let (bytes, file) = write(&m, ManifestContentType::Deletes, &[entry(Status::Added, f.clone())], None);
        let e = read(&m, &bytes, &file).unwrap_err();
        assert_eq!(e.clause_id(), Some(clause), "{e}");
        assert!(e.place().unwrap().ends_with("entry 0"), "{e}");
        let (bytes, file) = write(&m, ManifestContentType::Deletes, &[entry(Status::Deleted, f)], None);
        assert_eq!(read(&m, &bytes, &file).unwrap().len(), 1, "a removed one harms nobody");
    };
    refused(|f| f.referenced_data_file = None, "DV-6");
    refused(|f| f.content_offset = None, "DEL-6");
    refused(|f| f.content_size = Some(-1), "MAN-D24");
    refused(|f| f.format = crate::manifest::FileFormat::Parquet, "DEL-6");
}
