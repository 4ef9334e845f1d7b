use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use crate::sql::parser::{parse, parse_expression};

/// Levels of AND and OR.
fn depth(e: &Expr) -> usize {
    match e {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            1 + depth(left).max(depth(right))
        }
        Expr::Nested(e) => depth(e),
        _ => 0,
    }
}

#[test]
fn long_conditions_become_flat_trees_with_the_same_text() {
    let one = |n: usize| format!("id = {n}");
    let joined = |op: &str, parts: Vec<String>| parts.join(op);
    let pairs = |n: usize| (0..n).map(|i| format!("id = {i} AND a < {i}")).collect::<Vec<_>>();
    let nested = |n: usize| format!("({})", joined(" OR ", (0..n).map(one).collect()));
    let texts = [
        joined(" OR ", (0..10_000).map(one).collect()),
        joined(" AND ", (0..500).map(one).collect()),
        joined(" OR ", pairs(4_000)),
        joined(" AND ", (0..20).map(|_| nested(400)).collect()),
        format!("NOT {}", nested(500)),
    ];
    for text in texts {
        let e = parse_expression(&text).expect("parses");
        assert!(depth(&e) <= 40, "{} levels: {}…", depth(&e), &text[..60]);
        assert_eq!(e.to_string(), text);
    }
    // short ones stay as they are read
    let e = parse_expression("a OR b OR c").expect("parses");
    assert!(matches!(&e, Expr::BinaryOp { left, .. } if left.to_string() == "a OR b"), "{e:?}");
}

/// How deep a `Debug` form nests.
fn brackets(printed: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for c in printed.chars() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        most = most.max(open);
    }
    most
}

#[test]
fn conditions_are_flat_wherever_a_statement_has_them() {
    let long: String = (0..5_000).map(|i| format!("id = {i} OR ")).collect::<String>() + "false";
    for statement in [
        format!("SELECT * FROM t WHERE {long}"),
        format!("SELECT {long} AS a FROM (SELECT id FROM t WHERE {long})"),
        format!("SELECT id FROM t GROUP BY id HAVING {long}"),
        format!("DELETE FROM t WHERE {long}"),
        format!("UPDATE t SET b = ({long}) WHERE id = 1"),
        format!(
            "MERGE INTO t USING (SELECT id FROM u WHERE {long}) s ON s.id = t.id WHEN MATCHED AND t.id > 1 THEN DELETE"
        ),
        format!("INSERT INTO t SELECT * FROM u WHERE {long}"),
    ] {
        let printed = format!("{:?}", parse(&statement).expect("parses"));
        assert!(brackets(&printed) < 300, "{}…", &statement[..40]);
    }
}

/// Every operator that can be repeated without a bracket is bounded, and the message says what to do.
#[test]
fn long_runs_of_other_operators_are_refused() {
    for piece in [
        " + 1",
        " - 1",
        " * 1",
        " / 1",
        " % 1",
        " || 'a'",
        " = 1",
        " < 1",
        " <=> 1",
        " & 1",
        " | 1",
        " ^ 1",
        "::INT",
        " IS NULL",
        " IS NOT TRUE",
        "[1]",
        ".a",
        " DIV 1",
        " AT TIME ZONE 'UTC'",
        " COLLATE a",
        " LIKE 'a'",
        " IN (1)",
        " NOT IN (1)",
    ] {
        for n in [20_000, 200_000] {
            let e = parse(&format!("SELECT a{}", piece.repeat(n))).expect_err(piece).to_string();
            assert!(e.contains("more than 1000 words and signs") && e.contains("line 1, column"), "{piece}: {e}");
        }
    }
    let e = parse(&format!("SELECT 1{}", " + 1".repeat(490))).map(|_| ());
    assert!(e.is_ok(), "{e:?}");
    // commas, brackets and clauses begin anew
    assert!(parse(&format!("SELECT a{}", ", a + 1".repeat(5_000))).is_ok());
    assert!(parse(&format!("INSERT INTO t VALUES (1){}", ", (1, 'a')".repeat(5_000))).is_ok());
    assert!(parse(&format!("SELECT * FROM t WHERE a IN (1{})", ", 1".repeat(20_000))).is_ok());
    assert!(parse(&format!("SELECT CASE {}END", "WHEN a = 1 THEN 2 ".repeat(3_000))).is_ok());
}

/// Conditions that must all hold are counted through brackets and NOT.
#[test]
fn too_many_conditions_that_must_all_hold_are_refused() {
    let join = |op: &str, n: usize| (0..n).map(|i| format!("a <> {i}")).collect::<Vec<_>>().join(op);
    let groups = |n: usize| (0..n).map(|_| format!("({})", join(" AND ", 100))).collect::<Vec<_>>().join(" AND ");
    for text in [
        join(" AND ", 501),
        join(" AND ", 9_000),
        groups(6),
        format!("NOT ({})", join(" OR ", 501)),
        format!("NOT (NOT ({}))", join(" AND ", 501)),
        format!("b OR NOT (c OR ({}))", join(" OR ", 9_000)),
        format!("CASE WHEN {} THEN 1 END", join(" AND ", 501)),
    ] {
        let e = parse_expression(&text).expect_err("too many").to_string();
        assert!(e.contains("more than 500 conditions") && e.contains("NOT IN"), "{}…: {e}", &text[..40]);
    }
    for text in [
        groups(5),
        join(" OR ", 9_000),
        format!("NOT ({})", join(" AND ", 500)),
        (0..2_000).map(|i| format!("a = {i} AND b = {i}")).collect::<Vec<_>>().join(" OR "),
    ] {
        assert!(parse_expression(&text).is_ok(), "{}…", &text[..40]);
    }
}
