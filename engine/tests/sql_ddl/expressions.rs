//! Expressions as long and as deep as a generator of SQL makes them: an answer, or a refusal that says what to do; soon.

use std::time::Duration;

use super::*;

/// Longest time that one statement may take here, in a build without optimisation.
const SOON: Duration = Duration::from_secs(60);

async fn answer(w: &mut World, sql: &str) -> Result<Vec<String>, String> {
    let start: String = sql.chars().take(60).collect();
    let done = tokio::time::timeout(SOON, w.session.execute_one(sql)).await;
    match done.unwrap_or_else(|_| panic!("{start}… takes more than {SOON:?}")) {
        Ok(r) => Ok(r.batches.iter().flat_map(lines).collect()),
        Err(e) => Err(e.to_string()),
    }
}

fn repeated(first: &str, n: usize, piece: impl Fn(usize) -> String) -> String {
    let rest: String = (1..n).map(piece).collect();
    format!("{first}{rest}")
}

#[tokio::test(flavor = "multi_thread")]
async fn long_conditions_are_answered() {
    let mut w = world().await;
    w.run("CREATE TABLE t (id INT, n INT) TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read')")
        .await;
    w.run("INSERT INTO t SELECT CAST(id AS INT), CAST(id % 7 AS INT) FROM range(0, 1000, 1, 2)").await;
    let any = repeated("id = 1", 5_000, |i| format!(" OR id = {}", i * 3));
    assert_eq!(answer(&mut w, &format!("SELECT count(*) FROM t WHERE {any}")).await, Ok(vec!["334".into()]));
    let mixed = repeated("id = 1", 2_000, |i| format!(" OR id = {i} AND n < 3"));
    assert_eq!(answer(&mut w, &format!("SELECT count(*) FROM t WHERE {mixed}")).await, Ok(vec!["428".into()]));
    // the kind of condition whose range is looked for in all of them
    let all = repeated("n + 1 > 0", 500, |i| format!(" AND n + {i} > 1"));
    assert_eq!(answer(&mut w, &format!("SELECT count(*) FROM t WHERE {all}")).await, Ok(vec!["857".into()]));
    let sum = format!("SELECT count(*) FROM t WHERE n{} > 490", " + 1".repeat(490));
    assert_eq!(answer(&mut w, &sum).await, Ok(vec!["857".into()]));
    let list = repeated("1", 20_000, |i| format!(", {}", i * 3));
    assert_eq!(answer(&mut w, &format!("SELECT count(*) FROM t WHERE id IN ({list})")).await, Ok(vec!["334".into()]));
    w.run(&format!("DELETE FROM t WHERE {any}")).await;
    assert_eq!(w.rows("SELECT count(*) FROM t").await, ["666"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_sums_are_answered_or_refused() {
    let mut w = world().await;
    let sum = |n: usize| format!("SELECT {} AS a", repeated("1", n, |_| " + 1".into()));
    assert_eq!(answer(&mut w, &sum(490)).await, Ok(vec!["490".into()]));
    for n in [2_000, 20_000, 500_000] {
        let e = answer(&mut w, &sum(n)).await.expect_err("too long");
        assert!(e.contains("words and signs in a row"), "{e}");
    }
    let text = format!("SELECT {} AS a", repeated("'a'", 490, |_| " || 'b'".into()));
    assert_eq!(answer(&mut w, &text).await.map(|rows| rows[0].len()), Ok(490));
    let e = answer(&mut w, &format!("SELECT 1 WHERE {}", repeated("true", 20_000, |_| " OR true".into()))).await;
    assert!(e.expect_err("too many").contains("more than 10000 ANDs and ORs"));
    let e = answer(&mut w, &format!("SELECT 1 FROM range(1) a{}", " JOIN range(1) b ON true".repeat(5_000))).await;
    assert!(e.expect_err("too many").contains("set operations and joins"));
}

/// What nests as deep as is allowed, in each way there is: an answer or an error, never the end of the stack.
#[tokio::test(flavor = "multi_thread")]
async fn deep_nesting_is_answered_or_refused() {
    let mut w = world().await;
    let forms = [
        ("(", "1", ")"),
        ("(1 + ", "1", ")"),
        ("abs(", "1", ")"),
        ("CASE WHEN true THEN ", "1", " ELSE 0 END"),
        ("(SELECT ", "1", ")"),
        ("CAST(", "1", " AS INT)"),
        ("NOT ", "true", ""),
        ("- ", "1", ""),
        ("array(", "1", ")"),
        ("(true OR ", "true", ")"),
        ("1 IN (1, ", "1", ")"),
    ];
    for (open, middle, close) in forms {
        for n in [10, 40, 200, 20_000] {
            let sql = format!("SELECT {}{middle}{} AS a", open.repeat(n), close.repeat(n));
            match answer(&mut w, &sql).await {
                Ok(rows) => assert_eq!(rows.len(), 1, "{open} × {n}"),
                Err(e) => assert!(n > 10 || open.starts_with("1 IN"), "{open} × {n}: {e}"),
            }
        }
    }
}
