//! Long flat expressions: `a OR b OR c …` nests as deep as it is long, and every step after the parser walks that depth, some of
//! them once for each level. Conditions are put into a tree that is as flat as can be; what cannot be is bounded.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::super::rewrite::null;
use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// Words and signs of an expression between two of: AND, OR, a comma, a bracket, the start of a clause.
const RUN: usize = 1_000;
/// Conditions that must all hold. The plan of a filter nests them one in another whatever their tree was, and looks for the range of
/// each column in all of them, which takes time by the third power.
const CONJUNCTS: usize = 500;

/// Chains up to this depth stay as they are.
const SHORT: usize = 32;

/// Words that end an expression.
const ENDS: [&str; 20] = [
    "AND",
    "OR",
    "SELECT",
    "FROM",
    "WHERE",
    "HAVING",
    "ON",
    "SET",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "VALUES",
    "BY",
    "LIMIT",
    "USING",
    "JOIN",
    "UNION",
    "EXCEPT",
    "INTERSECT",
];

/// Counts the words and signs of expressions over the tokens of a statement, one level of brackets at a time.
#[derive(Default)]
pub(super) struct Runs {
    outer: Vec<usize>,
    run: usize,
}

impl Runs {
    /// Takes the next token. Error: the fault, for a message.
    pub(super) fn take(&mut self, token: &Token) -> Result<(), String> {
        match token {
            // a bracket may follow a bracket without end: `a[1][1]…`
            Token::LParen | Token::LBracket | Token::LBrace => self.outer.push(std::mem::take(&mut self.run) + 1),
            Token::RParen | Token::RBracket | Token::RBrace => self.run = self.outer.pop().unwrap_or_default(),
            Token::Comma => self.run = 0,
            Token::Word(w) if w.quote_style.is_none() && ENDS.iter().any(|e| w.value.eq_ignore_ascii_case(e)) => {
                self.run = 0
            }
            _ => self.run += 1,
        }
        if self.run > RUN {
            return Err(format!(
                "an expression has more than {RUN} words and signs in a row; group its parts with brackets"
            ));
        }
        Ok(())
    }
}

/// Brings the chains of AND and of OR in a statement's part into flat trees; the order of the conditions stays. Error: too many
/// that must all hold.
pub(super) fn flatten(part: &mut impl VisitMut) -> Result<()> {
    struct Flatten;
    impl VisitorMut for Flatten {
        type Break = ();

        // before its parts are visited, so that nothing walks down the chain
        fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
            balance(e);
            if conjuncts(e, false) > CONJUNCTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    match part.visit(&mut Flatten) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::invalid(format!(
            "AND joins more than {CONJUNCTS} conditions (so does OR under NOT); NOT IN (…) takes any number of values"
        ))),
    }
}

/// Conditions that must all hold for an expression to be true, or false when `negated`.
fn conjuncts(e: &Expr, negated: bool) -> usize {
    match e {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } if !negated => {
            conjuncts(left, false) + conjuncts(right, false)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } if negated => {
            conjuncts(left, true) + conjuncts(right, true)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => conjuncts(expr, !negated),
        Expr::Nested(inner) => conjuncts(inner, negated),
        _ => 1,
    }
}

fn balance(e: &mut Expr) {
    let op = match e {
        Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => op.clone(),
        _ => return,
    };
    let mut depth = 0;
    let mut at = &*e;
    while let Expr::BinaryOp { left, op: o, .. } = at
        && *o == op
    {
        depth += 1;
        at = left;
    }
    if depth < SHORT {
        return;
    }
    let mut parts = Vec::with_capacity(depth + 1);
    let mut rest = std::mem::replace(e, null());
    loop {
        match rest {
            Expr::BinaryOp { left, op: o, right } if o == op => {
                parts.push(*right);
                rest = *left;
            }
            first => {
                parts.push(first);
                break;
            }
        }
    }
    parts.reverse();
    while parts.len() > 1 {
        let mut pairs = parts.into_iter();
        let mut joined = Vec::new();
        while let Some(left) = pairs.next() {
            joined.push(match pairs.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        parts = joined;
    }
    if let Some(whole) = parts.pop() {
        *e = whole;
    }
}
