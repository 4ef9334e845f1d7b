//! Spark's lexical rules over `sqlparser`: a dialect, and a pass over the tokens for what a dialect cannot say.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::dialect::{DatabricksDialect, Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace, Word};

use crate::Error;

/// Spark's SQL: back-quoted identifiers, strings in either quote with backslash escapes.
#[derive(Debug, Default, Clone, Copy)]
pub struct SparkDialect;

impl Dialect for SparkDialect {
    // `array(…)` and `exists(…)` are functions only for this dialect's type id.
    fn dialect(&self) -> TypeId {
        TypeId::of::<DatabricksDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn ignores_wildcard_escapes(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_values_as_table_factor(&self) -> bool {
        true
    }

    fn supports_bang_not_operator(&self) -> bool {
        true
    }

    // `DIV`
    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        let left = Box::new(expr.clone());
        let precedence = self.prec_value(Precedence::MulDivModOp);
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
            left,
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }
}

/// Tokens of one statement, blanks and comments taken out, with Spark's literals in words that `sqlparser` knows:
/// `1.5D` becomes `CAST('1.5' AS DOUBLE)`, `"s"` becomes `'s'`, `[FOR] VERSION AS OF x` becomes `AT(x)`.
pub fn tokenize(text: &str) -> crate::Result<Vec<TokenWithSpan>> {
    let raw = Tokenizer::new(&SparkDialect, text)
        .tokenize_with_location()
        .map_err(|e| Error::invalid(format!("cannot read the text: {e}")))?;
    let adjacent: Vec<bool> = raw.windows(2).map(|w| w[0].span.end == w[1].span.start).chain([false]).collect();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(raw.len());
    let mut i = 0;
    while i < raw.len() {
        let here = &raw[i];
        match &here.token {
            Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_))
            | Token::Whitespace(_) => {}
            Token::DoubleQuotedString(s) => {
                out.push(TokenWithSpan::new(Token::SingleQuotedString(s.clone()), here.span));
            }
            Token::Number(n, false) => {
                let suffix = match raw.get(i + 1).map(|t| &t.token) {
                    Some(Token::Word(w)) if adjacent[i] && w.quote_style.is_none() => number_type(&w.value),
                    _ => None,
                };
                match suffix {
                    Some(ty) => {
                        cast(&mut out, here, n, ty);
                        i += 1;
                    }
                    // a number with an exponent is a double in Spark
                    None if n.contains(['e', 'E']) => cast(&mut out, here, n, "DOUBLE"),
                    None => out.push(here.clone()),
                }
            }
            _ => out.push(here.clone()),
        }
        i += 1;
    }
    check_depth(&out)?;
    Ok(time_travel(out))
}

/// Prefix operators in a row that are read.
const PREFIXES: usize = 50;
/// UNION, EXCEPT, INTERSECT and JOIN of one statement.
const SET_OPERATIONS: usize = 500;
/// AND and OR of one statement.
const CONNECTIVES: usize = 10_000;

/// Refuses text whose tree is so deep that walking it would exhaust the stack; the parser guards brackets itself.
fn check_depth(tokens: &[TokenWithSpan]) -> crate::Result<()> {
    let (mut run, mut sets, mut connectives) = (0, 0, 0);
    for t in tokens {
        let word = match &t.token {
            Token::Word(w) if w.quote_style.is_none() => w.value.to_ascii_uppercase(),
            _ => String::new(),
        };
        let prefix =
            word == "NOT" || matches!(t.token, Token::Minus | Token::Plus | Token::Tilde | Token::ExclamationMark);
        run = if prefix { run + 1 } else { 0 };
        sets += usize::from(matches!(word.as_str(), "UNION" | "EXCEPT" | "INTERSECT" | "MINUS" | "JOIN"));
        connectives += usize::from(matches!(word.as_str(), "AND" | "OR"));
        let what = if run > PREFIXES {
            format!("more than {PREFIXES} prefix operators in a row")
        } else if sets > SET_OPERATIONS {
            format!("more than {SET_OPERATIONS} set operations and joins")
        } else if connectives > CONNECTIVES {
            format!("more than {CONNECTIVES} ANDs and ORs; IN (…) takes any number of values")
        } else {
            continue;
        };
        let at = t.span.start;
        return Err(Error::invalid(format!("the statement has {what} at line {}, column {}", at.line, at.column)));
    }
    Ok(())
}

fn number_type(suffix: &str) -> Option<&'static str> {
    match suffix.to_ascii_uppercase().as_str() {
        "D" => Some("DOUBLE"),
        "F" => Some("FLOAT"),
        "S" => Some("SMALLINT"),
        "Y" => Some("TINYINT"),
        "L" => Some("BIGINT"),
        "BD" => Some("BD"),
        _ => None,
    }
}

fn cast(out: &mut Vec<TokenWithSpan>, at: &TokenWithSpan, number: &str, ty: &str) {
    let mut push = |t| out.push(TokenWithSpan::new(t, at.span));
    if ty == "BD" {
        push(Token::Number(number.to_string(), false));
        return;
    }
    push(Token::make_keyword("CAST"));
    push(Token::LParen);
    push(Token::SingleQuotedString(number.to_string()));
    push(Token::make_keyword("AS"));
    push(Token::make_keyword(ty));
    push(Token::RParen);
}

fn is_word(t: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(t.map(|t| &t.token), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

fn time_travel(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let at = |n: usize| tokens.get(i + n);
        let skip = usize::from(is_word(at(0), "FOR"));
        let of = is_word(at(skip + 1), "AS") && is_word(at(skip + 2), "OF");
        let version = is_word(at(skip), "VERSION") || is_word(at(skip), "SYSTEM_VERSION");
        let time = is_word(at(skip), "TIMESTAMP") || is_word(at(skip), "SYSTEM_TIME");
        if of
            && version
            && let Some(value) = at(skip + 3)
        {
            let span = tokens[i].span;
            out.push(TokenWithSpan::new(Token::make_keyword("AT"), span));
            out.push(TokenWithSpan::new(Token::LParen, span));
            out.push(value.clone());
            out.push(TokenWithSpan::new(Token::RParen, span));
            i += skip + 4;
        } else if of && time {
            out.push(TokenWithSpan::new(Token::make_keyword("TIMESTAMP"), tokens[i].span));
            i += skip + 1;
        } else if is_word(at(0), "TIMESTAMP_LTZ")
            && matches!(at(1).map(|t| &t.token), Some(Token::SingleQuotedString(_)))
        {
            out.push(TokenWithSpan::new(keyword(Keyword::TIMESTAMP, "TIMESTAMP"), tokens[i].span));
            i += 1;
        } else {
            out.push(tokens[i].clone());
            i += 1;
        }
    }
    out
}

fn keyword(keyword: Keyword, text: &str) -> Token {
    Token::Word(Word { value: text.into(), quote_style: None, keyword })
}
