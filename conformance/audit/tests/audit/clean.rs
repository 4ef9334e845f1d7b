//! The valid table has no finding at all, read from its folder or its metadata file, moved or not.

use floe_audit::{Options, audit};

use crate::fixture;

#[test]
fn the_valid_table_has_no_finding() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = fixture::table(dir.path()).write();
    for target in [dir.path(), &path] {
        let r = audit(target, &Options::default()).expect("readable");
        assert!(r.findings.is_empty(), "{}", r.text());
        let c = &r.looked_at;
        assert_eq!((c.snapshots, c.manifests, c.data_files, c.deletes, c.dvs), (6, 9, 4, 5, 3));
    }
}

#[test]
fn a_moved_table_is_found_by_its_new_folder_or_a_map() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    std::fs::create_dir(&old).expect("folder");
    fixture::table(&old).write();
    std::fs::rename(&old, &new).expect("move");
    let r = audit(&new, &Options::default()).expect("readable");
    assert!(r.findings.is_empty(), "{}", r.text());
    let meta = dir.path().join("v7.metadata.json");
    std::fs::copy(new.join("metadata/v7.metadata.json"), &meta).expect("copy");
    let maps = vec![(format!("file:{}", old.display()), new.display().to_string())];
    let r = audit(&meta, &Options { maps, ..Options::default() }).expect("readable");
    assert!(r.findings.is_empty(), "{}", r.text());
}

#[test]
fn gzip_metadata_is_read_and_garbage_is_unreadable() {
    let dir = tempfile::tempdir().expect("tempdir");
    std::fs::create_dir(dir.path().join("metadata")).expect("folder");
    assert!(audit(dir.path(), &Options::default()).is_err());
    std::fs::write(dir.path().join("metadata/v1.metadata.json"), "{not json").expect("write");
    assert!(audit(dir.path(), &Options::default()).is_err());
    // A gzip member with one stored block: header, block header, body, checksum, length.
    let body = br#"{"format-version": 9}"#;
    let mut gz = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    gz.extend((body.len() as u16).to_le_bytes());
    gz.extend((!(body.len() as u16)).to_le_bytes());
    gz.extend(body);
    gz.extend(crc32fast::hash(body).to_le_bytes());
    gz.extend((body.len() as u32).to_le_bytes());
    std::fs::write(dir.path().join("metadata/v2.gz.metadata.json"), gz).expect("write");
    let r = audit(dir.path(), &Options::default()).expect("readable");
    assert_eq!(r.format_version, 9);
    assert!(r.findings.iter().any(|f| f.clause == "META-F01") && !r.clean());
}

#[test]
fn coverage_page_is_current() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit-coverage.md");
    let want = floe_audit::coverage_markdown();
    if std::env::var_os("FLOE_BLESS").is_some() {
        std::fs::create_dir_all(page.parent().expect("docs")).expect("docs");
        std::fs::write(&page, &want).expect("write");
    }
    assert_eq!(std::fs::read_to_string(&page).expect("docs/audit-coverage.md"), want, "run with FLOE_BLESS=1");
}
