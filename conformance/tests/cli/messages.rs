//! What floe says when a file, a folder or a port is not what it should be, and what its help says.

use super::*;

fn put(dir: &Path, name: &str, content: &str) {
    std::fs::write(dir.join(name), content).expect("written");
}

/// Each message says what the file was for, not only what the operating system says of it.
#[test]
fn files_are_called_by_their_role() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    std::fs::create_dir(at.join("folder")).expect("made");
    put(at, "file", "not a folder");
    put(at, "bytes", "");
    std::fs::write(at.join("bytes"), [0xff, 0xfe]).expect("written");
    put(at, "write.yaml", "table: ns.t\ncatalog_properties: {type: hadoop, warehouse: ./w}\n");
    let cases: &[(&[&str], &[&str])] = &[
        (&["sql", "-f", "folder"], &["the statements (--file)", "folder"]),
        (&["sql", "-f", "none.sql"], &["the statements (--file)", "none.sql"]),
        (&["sql", "-f", "bytes"], &["the statements (--file)", "utf-8"]),
        (&["cdc", "read", "--config", "folder"], &["the configuration (--config)", "folder"]),
        (&["cdc", "sync", "--config", "none.yaml"], &["the configuration (--config)", "none.yaml"]),
        (&["io", "read", "--config", "bytes"], &["the configuration (--config)", "bytes"]),
        (
            &["io", "write", "--config", "write.yaml", "--input", "none.jsonl"],
            &["the file of rows (--input)", "none.jsonl"],
        ),
        (&["io", "write", "--config", "write.yaml", "--input", "folder"], &["the file of rows (--input)", "folder"]),
        (&["sql", "--catalog", "hadoop:file", "-c", "CREATE NAMESPACE ns"], &["cannot make the folder", "file/ns"]),
        (&["sql", "--catalog", "hadoop:file", "-c", "SHOW NAMESPACES"], &["cannot list the folder", "file"]),
        (&["report", "show", "folder"], &["the result file", "floe conformance"]),
        (&["engines", "template", "file"], &["the driver", "file"]),
        (&["serve", "--warehouse", "file", "--port", "0"], &["the warehouse (--warehouse)", "file"]),
    ];
    for (args, words) in cases {
        refused(&floe(at, args), &args.join(" "), words);
    }
    let unreadable = floe(at, &["audit", "none"]);
    assert_eq!(unreadable.status.code(), Some(2));
    assert!(text(&unreadable.stderr).contains("no table folder or metadata file"), "{}", text(&unreadable.stderr));
    // inside the checkout, where the scenarios are
    for command in
        [&["conformance", "--engines", "floe", "--scenario", "dv/smoke"][..], &["bench", "--engines", "floe"][..]]
    {
        let out = at.join("file").display().to_string();
        let args: Vec<&str> = command.iter().copied().chain(["--out", &out]).collect();
        refused(&floe(&root(), &args), &args.join(" "), &["--out", "is a file; a folder is needed"]);
    }
    assert_eq!(std::fs::read_to_string(at.join("file")).expect("still there"), "not a folder");
}

#[test]
fn faults_of_floe_toml_list_what_is_allowed() {
    let cases = [
        (
            "type = \"hadop\"\nwarehouse = \"w\"",
            &["hadop", "hadoop, sql, rest, hive", "[catalog.lake]", "floe.toml"][..],
        ),
        ("warehouse = \"w\"", &["no `type`", "hadoop, sql, rest, hive"]),
        ("type = \"hadoop\"", &["needs `warehouse`"]),
        (
            "type = \"hadoop\"\nwarehouse = \"w\"\ntable-default.\"write.delete.mode\" = \"merge\"",
            &["table-default.write.delete.mode is \"merge\"", "merge-on-read", "floe.toml"],
        ),
        (
            "type = \"hadoop\"\nwarehouse = \"w\"\ntable-override.\"commit.retry.num-retries\" = -1",
            &["table-override.commit.retry.num-retries is \"-1\"", "zero or more"],
        ),
    ];
    for (section, words) in cases {
        let dir = tempfile::tempdir().expect("temporary folder");
        put(dir.path(), "floe.toml", &format!("[catalog.lake]\n{section}\n"));
        let out = floe(dir.path(), &["sql", "--catalog", "lake", "-c", "CREATE NAMESPACE ns"]);
        refused(&out, section, words);
        assert!(!dir.path().join("w").exists(), "something was made");
    }
    let dir = tempfile::tempdir().expect("temporary folder");
    let bad = "table: ns.t\ncatalog_properties: {type: hadoop, warehouse: ./w}\ntable_properties: {write.delete.mode: merge}\n";
    put(dir.path(), "io.yaml", bad);
    let out = floe(dir.path(), &["io", "write", "--config", "io.yaml"]);
    refused(&out, bad, &["table_properties.write.delete.mode is \"merge\"", "merge-on-read"]);
}

/// A port that is taken: the message names it, and nothing was made.
#[test]
fn a_server_that_cannot_listen_leaves_nothing_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its number").port().to_string();
    let dir = tempfile::tempdir().expect("temporary folder");
    for args in [vec![], vec!["--catalog", "hadoop:lake"], vec!["--catalog", "sql:sqlite:catalog.db"]] {
        let all: Vec<&str> = ["serve", "--warehouse", "lake", "--port", &port].into_iter().chain(args).collect();
        refused(&floe(dir.path(), &all), &all.join(" "), &["cannot listen", &port]);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0, "{all:?} left something behind");
    }
}

/// A state that cannot be kept is told before a row is printed.
#[test]
fn a_state_file_is_tried_before_rows_are_printed() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let at = dir.path();
    must(at, "hadoop:w", "CREATE NAMESPACE ns; CREATE TABLE ns.t (id INT) USING iceberg; INSERT INTO ns.t VALUES (1)");
    put(at, "cdc.yaml", "source:\n  table: ns.t\n  catalog_properties: {type: hadoop, warehouse: ./w}\n");
    std::fs::create_dir(at.join("folder")).expect("made");
    put(at, "file", "");
    put(at, "text", "not a number");
    for (state, words) in [
        ("none/state", &["cannot write the state (--state)", "none/state"][..]),
        ("file/state", &["the state (--state)"]),
        ("folder", &["cannot read the state (--state)", "folder"]),
        ("text", &["a snapshot id is required", "text"]),
    ] {
        let out = floe(at, &["cdc", "read", "--config", "cdc.yaml", "--state", state]);
        refused(&out, state, words);
        assert!(out.stdout.is_empty(), "{state}: rows were printed");
    }
    let out = floe(at, &["cdc", "read", "--config", "cdc.yaml", "--state", "state"]);
    assert!(out.status.success() && text(&out.stdout).contains("\"id\":1"), "{}", text(&out.stderr));
    assert!(at.join("state").is_file() && !at.join("state.new").exists());
}

#[test]
fn help_says_exit_codes_and_shows_examples() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let help = |args: &[&str]| {
        let out = floe(dir.path(), args);
        assert!(out.status.success(), "{args:?}");
        text(&out.stdout)
    };
    let all = help(&["--help"]);
    for word in ["Exit codes:", "0 ", "1 ", "2 ", "130 "] {
        assert!(all.contains(word), "{word}: {all}");
    }
    let commands: Vec<&str> = all
        .lines()
        .skip_while(|l| *l != "Commands:")
        .skip(1)
        .take_while(|l| !l.is_empty())
        .filter_map(|l| l.split_whitespace().next())
        .filter(|c| *c != "help")
        .collect();
    assert!(commands.len() >= 12, "{commands:?}");
    for command in commands {
        let page = match command {
            // their examples are on the pages of their subcommands
            "cdc" => help(&["cdc", "read", "--help"]) + &help(&["cdc", "sync", "--help"]),
            "io" => help(&["io", "read", "--help"]) + &help(&["io", "write", "--help"]),
            _ => help(&[command, "--help"]),
        };
        assert!(
            page.contains(&format!("\n  floe {command}")) || page.contains(&format!(" floe {command} ")),
            "{command} has no example: {page}"
        );
    }
}
