//! The statements that the subcommands stand for.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: MaintenanceArgs,
}

fn call(words: &[&str]) -> String {
    let all = std::iter::once("maintenance").chain(words.iter().copied());
    Cli::try_parse_from(all).unwrap_or_else(|e| panic!("{words:?}: {e}")).args.procedure.call()
}

#[test]
fn subcommands_become_calls() {
    assert_eq!(
        call(&["rewrite-data-files", "ns.t", "--option", "rewrite-all=true", "--where", "s = 'it''s'"]),
        r"CALL system.rewrite_data_files(table => 'ns.t', options => map('rewrite-all', 'true'), where => 's = \'it\'\'s\'')"
    );
    assert_eq!(
        call(&[
            "expire-snapshots",
            "ns.t",
            "--older-than",
            "2025-01-01 00:00:00",
            "--snapshot-id",
            "1",
            "--snapshot-id",
            "2"
        ]),
        "CALL system.expire_snapshots(table => 'ns.t', older_than => TIMESTAMP '2025-01-01 00:00:00', snapshot_ids => array(1, 2))"
    );
    assert_eq!(
        call(&["remove-orphan-files", "ns.t"]),
        "CALL system.remove_orphan_files(table => 'ns.t', dry_run => true)"
    );
    assert_eq!(
        call(&["remove-orphan-files", "ns.t", "--execute"]),
        "CALL system.remove_orphan_files(table => 'ns.t', dry_run => false)"
    );
    assert_eq!(
        call(&["rollback-to-snapshot", "ns.t", "7"]),
        "CALL system.rollback_to_snapshot(table => 'ns.t', snapshot_id => 7)"
    );
}

#[test]
fn a_malformed_option_is_refused() {
    let parsed = Cli::try_parse_from(["maintenance", "rewrite-data-files", "ns.t", "--option", "rewrite-all"]);
    assert!(parsed.expect_err("no value").to_string().contains("KEY=VALUE"));
}
