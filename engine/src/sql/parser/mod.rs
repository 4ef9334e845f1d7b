//! Spark's statements, parsed by hand over `sqlparser`'s tokens; expressions and queries are delegated to it.

mod alter;
mod chains;
mod create;
mod dml;
mod types;

#[cfg(test)]
mod tests;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{Call, Name, Statement};
use super::dialect::{SparkDialect, tokenize};
use super::split;
use crate::{Error, Result};

/// Nested expressions and queries beyond this depth are refused.
const RECURSION_LIMIT: usize = 50;

const STATEMENTS: &str = "SELECT, WITH, VALUES, EXPLAIN, CREATE, REPLACE, DROP, ALTER, SHOW, DESCRIBE, USE, INSERT, DELETE, UPDATE, \
    MERGE, TRUNCATE, CALL or SET";

/// Parses one statement. Errors say which statement, where (line and column in `text`), what was found and what is
/// allowed there.
pub fn parse(text: &str) -> Result<Statement> {
    let text = split::strip_comments(text.trim()).trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    stack();
    if let Some(set) = parse_set(text) {
        return Ok(set);
    }
    with_room(|| {
        let mut p = Cursor::new(tokens(text)?);
        let statement = p.statement()?;
        p.end()?;
        Ok(statement)
    })
}

/// Parsers and planners recurse; their guards look at what is left of the stack, and unoptimised frames are large.
pub(super) fn stack() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        recursive::set_minimum_stack_size(1 << 20);
        recursive::set_stack_allocation_size(8 << 20);
    });
}

/// Parses one expression, e.g. a filter of a configuration.
pub fn parse_expression(text: &str) -> Result<ast::Expr> {
    stack();
    with_room(|| {
        let mut p = Cursor::new(tokens(text)?);
        p.what = "expression";
        let e = p.expr()?;
        p.end()?;
        Ok(e)
    })
}

/// Stack for a parser: the deepest text that is allowed has room in it. Frames for CASE alone, unoptimised, can fill a
/// thread's two megabytes at 25 levels.
const ROOM: usize = 32 << 20;

/// Runs a parser on a stack of [`ROOM`] bytes.
fn with_room<T>(read: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM, ROOM, read)
}

/// Parses a dotted name, as procedures take it in a string.
pub fn parse_name(text: &str) -> Result<Name> {
    let mut p = Cursor::new(tokens(text)?);
    p.what = "name";
    let name = p.name()?;
    p.end()?;
    Ok(name)
}

/// Tokens of a text whose brackets and types are not nested too deep and whose expressions are not too long: `sqlparser` counts neither
/// types nor joins in brackets, and would go on until the stack ends.
fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = tokenize(text)?;
    let (mut brackets, mut types, mut cases) = (0usize, 0usize, 0usize);
    let mut runs = chains::Runs::default();
    for (i, t) in tokens.iter().enumerate() {
        match &t.token {
            Token::LParen | Token::LBracket | Token::LBrace => brackets += 1,
            Token::RParen | Token::RBracket | Token::RBrace => brackets = brackets.saturating_sub(1),
            Token::Lt if i > 0 && opens_type(&tokens[i - 1].token) => types += 1,
            Token::Gt => types = types.saturating_sub(1),
            Token::ShiftRight => types = types.saturating_sub(2),
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("case") => cases += 1,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("end") => {
                cases = cases.saturating_sub(1);
            }
            _ => {}
        }
        let fault = if [brackets, types, cases].iter().any(|n| *n > RECURSION_LIMIT) {
            Err(format!("nested deeper than {RECURSION_LIMIT} levels"))
        } else {
            runs.take(&t.token)
        };
        if let Err(fault) = fault {
            let at = t.span.start;
            return Err(Error::invalid(fault).at(format!("line {}, column {}", at.line, at.column)));
        }
    }
    Ok(tokens)
}

/// Whether a `<` after this token opens a type.
fn opens_type(before: &Token) -> bool {
    matches!(before, Token::Word(w) if ["ARRAY", "MAP", "STRUCT"].iter().any(|k| w.value.eq_ignore_ascii_case(k)))
}

/// `SET` takes the rest of the text as it stands.
fn parse_set(text: &str) -> Option<Statement> {
    let rest = text.get(..3).filter(|s| s.eq_ignore_ascii_case("set")).map(|_| &text[3..])?;
    if rest.starts_with(|c: char| !c.is_whitespace()) {
        return None;
    }
    let unquote = |s: &str| s.trim().trim_matches(['`', '\'', '"']).to_string();
    let (key, value) = match rest.split_once('=') {
        Some((k, v)) => (unquote(k), Some(unquote(v))),
        None => (unquote(rest), None),
    };
    Some(Statement::Set { key: Some(key).filter(|k| !k.is_empty()), value })
}

/// Position in the tokens of one statement.
pub(super) struct Cursor {
    p: Parser<'static>,
    /// The statement being read, for messages.
    what: &'static str,
    /// `>` still owed by a `>>` that closed two types.
    pending_gt: usize,
}

impl Cursor {
    fn new(tokens: Vec<TokenWithSpan>) -> Self {
        static DIALECT: SparkDialect = SparkDialect;
        let p = Parser::new(&DIALECT).with_recursion_limit(RECURSION_LIMIT).with_tokens_with_locations(tokens);
        Self { p, what: "statement", pending_gt: 0 }
    }

    fn statement(&mut self) -> Result<Statement> {
        if self.peek("SELECT")
            || self.peek("WITH")
            || self.peek("VALUES")
            || self.peek("TABLE")
            || self.peek_is(&Token::LParen)
        {
            self.what = "query";
            return Ok(Statement::Query(self.query()?));
        }
        if self.word("EXPLAIN") {
            self.what = "EXPLAIN";
            return Ok(Statement::Explain(self.query()?));
        }
        if self.word("CREATE") {
            return self.create();
        }
        if self.words(&["REPLACE", "TABLE"]) {
            self.what = "REPLACE TABLE";
            return self.create_table(true, false);
        }
        if self.word("DROP") {
            return self.drop();
        }
        if self.words(&["ALTER", "TABLE"]) {
            return self.alter_table();
        }
        if self.word("SHOW") {
            return self.show();
        }
        if self.word("DESCRIBE") || self.word("DESC") {
            return self.describe();
        }
        if self.word("USE") {
            self.what = "USE";
            let _ = self.any_word(&["NAMESPACE", "DATABASE", "SCHEMA"]);
            return Ok(Statement::Use { name: self.name()? });
        }
        if self.word("INSERT") {
            return self.insert();
        }
        if self.words(&["DELETE", "FROM"]) {
            return self.delete();
        }
        if self.word("UPDATE") {
            return self.update();
        }
        if self.words(&["MERGE", "INTO"]) {
            return self.merge();
        }
        if self.words(&["TRUNCATE", "TABLE"]) {
            self.what = "TRUNCATE TABLE";
            return Ok(Statement::Truncate { table: self.name()? });
        }
        if self.word("CALL") {
            return self.call();
        }
        self.expected(STATEMENTS)
    }

    fn show(&mut self) -> Result<Statement> {
        self.what = "SHOW";
        if self.any_word(&["NAMESPACES", "DATABASES", "SCHEMAS"]).is_some() {
            let parent = if self.any_word(&["IN", "FROM"]).is_some() { Some(self.name()?) } else { None };
            return Ok(Statement::ShowNamespaces { parent });
        }
        if self.word("TABLES") {
            let namespace = if self.any_word(&["IN", "FROM"]).is_some() { Some(self.name()?) } else { None };
            return Ok(Statement::ShowTables { namespace });
        }
        if self.word("TBLPROPERTIES") {
            let table = self.name()?;
            let mut key = None;
            if self.p.consume_token(&Token::LParen) {
                key = Some(self.property_key()?);
                self.token(&Token::RParen)?;
            }
            return Ok(Statement::ShowProperties { table, key });
        }
        if self.words(&["CREATE", "TABLE"]) {
            return Ok(Statement::ShowCreate { table: self.name()? });
        }
        self.expected("NAMESPACES, TABLES, TBLPROPERTIES or CREATE TABLE")
    }

    fn describe(&mut self) -> Result<Statement> {
        self.what = "DESCRIBE";
        if self.any_word(&["NAMESPACE", "DATABASE", "SCHEMA"]).is_some() {
            let _ = self.word("EXTENDED");
            return Ok(Statement::DescribeNamespace { name: self.name()? });
        }
        let _ = self.word("TABLE");
        let extended = self.any_word(&["EXTENDED", "FORMATTED"]).is_some();
        Ok(Statement::Describe { table: self.name()?, extended })
    }

    fn call(&mut self) -> Result<Statement> {
        self.what = "CALL";
        let name = self.name()?;
        self.token(&Token::LParen)?;
        let mut args: Vec<(Option<String>, ast::Expr)> = Vec::new();
        while !self.p.consume_token(&Token::RParen) {
            if !args.is_empty() {
                self.token(&Token::Comma)?;
            }
            let name = match (self.p.peek_token().token, self.p.peek_nth_token(1).token) {
                (Token::Word(w), Token::RArrow) => {
                    self.p.advance_token();
                    self.p.advance_token();
                    Some(w.value)
                }
                _ => None,
            };
            if name.is_none() && args.iter().any(|(n, _)| n.is_some()) {
                return self.expected("`name => value`: arguments by position come first");
            }
            args.push((name, self.expr()?));
        }
        Ok(Statement::Call(Box::new(Call { name, args })))
    }

    // ---- what every statement uses

    fn expr(&mut self) -> Result<ast::Expr> {
        let mut e = self.p.parse_expr().map_err(|e| self.foreign(e))?;
        chains::flatten(&mut e)?;
        Ok(e)
    }

    fn query(&mut self) -> Result<Box<ast::Query>> {
        let mut q = self.p.parse_query().map_err(|e| self.foreign(e))?;
        chains::flatten(&mut q)?;
        Ok(q)
    }

    fn foreign(&self, e: ParserError) -> Error {
        let message = match e {
            ParserError::TokenizerError(m) | ParserError::ParserError(m) => m,
            ParserError::RecursionLimitExceeded => {
                format!("nested deeper than {RECURSION_LIMIT} levels")
            }
        };
        Error::invalid(format!("cannot parse {}: {message}", self.what))
    }

    fn expected<T>(&self, allowed: &str) -> Result<T> {
        let found = self.p.peek_token();
        let (what, at) = match &found.token {
            Token::EOF => ("the end of the statement".to_string(), String::new()),
            t => (
                format!("{:?}", t.to_string()),
                format!(" at line {}, column {}", found.span.start.line, found.span.start.column),
            ),
        };
        Err(Error::invalid(format!("cannot parse {}: expected {allowed}, found {what}{at}", self.what)))
    }

    fn end(&mut self) -> Result<()> {
        while self.p.consume_token(&Token::SemiColon) {}
        if self.peek_is(&Token::EOF) { Ok(()) } else { self.expected("the end of the statement") }
    }

    fn peek_is(&self, token: &Token) -> bool {
        self.p.peek_token_ref().token == *token
    }

    /// Whether the next token is this unquoted word.
    fn peek(&self, word: &str) -> bool {
        self.peek_nth(0, word)
    }

    fn peek_nth(&self, n: usize, word: &str) -> bool {
        matches!(&self.p.peek_nth_token_ref(n).token,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// Takes the word if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let yes = self.peek(word);
        if yes {
            self.p.advance_token();
        }
        yes
    }

    /// Takes the words if all of them come next.
    fn words(&mut self, words: &[&str]) -> bool {
        let yes = words.iter().enumerate().all(|(n, w)| self.peek_nth(n, w));
        if yes {
            words.iter().for_each(|_| self.p.advance_token());
        }
        yes
    }

    fn any_word(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|w| self.word(w))
    }

    fn need(&mut self, word: &str) -> Result<()> {
        if self.word(word) { Ok(()) } else { self.expected(word) }
    }

    fn token(&mut self, token: &Token) -> Result<()> {
        if self.p.consume_token(token) { Ok(()) } else { self.expected(&format!("{:?}", token.to_string())) }
    }

    /// An identifier, quoted or not; any word will do.
    fn ident(&mut self) -> Result<String> {
        match self.p.peek_token().token {
            Token::Word(w) if !w.value.is_empty() => {
                self.p.advance_token();
                Ok(w.value)
            }
            _ => self.expected("a name"),
        }
    }

    /// A dotted name.
    fn name(&mut self) -> Result<Name> {
        let mut parts = vec![self.ident()?];
        while self.p.consume_token(&Token::Period) {
            parts.push(self.ident()?);
        }
        Ok(parts)
    }

    fn string(&mut self) -> Result<String> {
        match self.p.peek_token().token {
            Token::SingleQuotedString(s) => {
                self.p.advance_token();
                Ok(s)
            }
            _ => self.expected("a string"),
        }
    }

    fn integer<T: std::str::FromStr>(&mut self) -> Result<T> {
        match self.p.peek_token().token {
            Token::Number(n, _) if n.parse::<T>().is_ok() => {
                self.p.advance_token();
                n.parse().or_else(|_| self.expected("an integer"))
            }
            _ => self.expected("an integer"),
        }
    }

    fn if_not_exists(&mut self) -> bool {
        self.words(&["IF", "NOT", "EXISTS"])
    }

    fn if_exists(&mut self) -> bool {
        self.words(&["IF", "EXISTS"])
    }

    /// `( item, … )`, at least one.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.token(&Token::LParen)?;
        let out = self.comma(&mut item)?;
        self.token(&Token::RParen)?;
        Ok(out)
    }

    /// `item, …`, at least one.
    fn comma<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = vec![item(self)?];
        // after `>>` the enclosing type is closed too: the comma is not this list's
        while self.pending_gt == 0 && self.p.consume_token(&Token::Comma) {
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// A property's key: a string or a dotted name, whose parts may be any words.
    fn property_key(&mut self) -> Result<String> {
        if let Token::SingleQuotedString(s) = self.p.peek_token().token {
            self.p.advance_token();
            return Ok(s);
        }
        let mut key = String::new();
        loop {
            match self.p.peek_token().token {
                Token::Word(w) => key += &w.value,
                Token::Period => key.push('.'),
                Token::Minus => key.push('-'),
                _ => break,
            }
            self.p.advance_token();
        }
        if key.is_empty() { self.expected("a property key") } else { Ok(key) }
    }

    /// `('key' = 'value', …)`.
    fn properties(&mut self) -> Result<Vec<(String, String)>> {
        if self.peek_is(&Token::LParen) && self.p.peek_nth_token_ref(1).token == Token::RParen {
            self.p.advance_token();
            self.p.advance_token();
            return Ok(Vec::new());
        }
        self.list(|p| {
            let key = p.property_key()?;
            let _ = p.p.consume_token(&Token::Eq);
            let minus = p.p.consume_token(&Token::Minus);
            let value = match p.p.peek_token().token {
                Token::SingleQuotedString(s) => s,
                Token::Number(n, _) => n,
                Token::Word(w) if w.quote_style.is_none() => w.value.to_lowercase(),
                _ => return p.expected("a property value: a string, a number, true or false"),
            };
            p.p.advance_token();
            Ok((key, if minus { format!("-{value}") } else { value }))
        })
    }
}
