//! `INSERT`, `DELETE`, `UPDATE`, `MERGE`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Cursor, chains};
use crate::Result;
use crate::sql::ast::{Assignment, Delete, Insert, Merge, MergeAction, MergeClause, MergeKind, Statement, Update};

impl Cursor {
    /// After `INSERT`.
    pub(super) fn insert(&mut self) -> Result<Statement> {
        self.what = "INSERT";
        let overwrite = match self.any_word(&["INTO", "OVERWRITE"]) {
            Some(word) => word == "OVERWRITE",
            None => return self.expected("INTO or OVERWRITE"),
        };
        let _ = overwrite && self.word("INTO");
        let _ = self.word("TABLE");
        let table = self.name()?;
        let mut partition = Vec::new();
        if self.word("PARTITION") {
            partition = self.list(|p| {
                let column = p.ident()?;
                let value = if p.p.consume_token(&Token::Eq) { Some(p.expr()?) } else { None };
                Ok((column, value))
            })?;
        }
        let by_name = self.words(&["BY", "NAME"]);
        let mut columns = None;
        // `(` may open a column list or a query
        let query = ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|w| self.peek_nth(1, w))
            || self.p.peek_nth_token_ref(1).token == Token::LParen;
        if self.peek_is(&Token::LParen) && !query {
            columns = Some(self.list(Self::ident)?);
        }
        if by_name && columns.is_some() {
            return self.expected("a query: BY NAME and a column list exclude each other; before this place");
        }
        let source = self.query()?;
        Ok(Statement::Insert(Box::new(Insert { table, overwrite, columns, by_name, partition, source })))
    }

    /// After `DELETE FROM`.
    pub(super) fn delete(&mut self) -> Result<Statement> {
        self.what = "DELETE";
        let table = self.name()?;
        let alias = self.alias("WHERE")?;
        let selection = if self.word("WHERE") { Some(self.expr()?) } else { None };
        Ok(Statement::Delete(Box::new(Delete { table, alias, selection })))
    }

    /// After `UPDATE`.
    pub(super) fn update(&mut self) -> Result<Statement> {
        self.what = "UPDATE";
        let table = self.name()?;
        let alias = self.alias("SET")?;
        self.need("SET")?;
        let assignments = self.comma(Self::assignment)?;
        let selection = if self.word("WHERE") { Some(self.expr()?) } else { None };
        Ok(Statement::Update(Box::new(Update { table, alias, assignments, selection })))
    }

    /// After `MERGE INTO`.
    pub(super) fn merge(&mut self) -> Result<Statement> {
        self.what = "MERGE";
        let target = self.name()?;
        let alias = self.alias("USING")?;
        self.need("USING")?;
        let mut source = self.p.parse_table_factor().map_err(|e| self.foreign(e))?;
        chains::flatten(&mut source)?;
        self.need("ON")?;
        let on = self.expr()?;
        let mut clauses = Vec::new();
        while self.word("WHEN") {
            clauses.push(self.merge_clause()?);
        }
        if clauses.is_empty() {
            return self.expected("WHEN [NOT] MATCHED …");
        }
        Ok(Statement::Merge(Box::new(Merge { target, alias, source, on, clauses })))
    }

    fn merge_clause(&mut self) -> Result<MergeClause> {
        let kind = if self.word("MATCHED") {
            MergeKind::Matched
        } else if self.words(&["NOT", "MATCHED", "BY", "SOURCE"]) {
            MergeKind::NotMatchedBySource
        } else if self.words(&["NOT", "MATCHED", "BY", "TARGET"]) || self.words(&["NOT", "MATCHED"]) {
            MergeKind::NotMatched
        } else {
            return self.expected("MATCHED, NOT MATCHED [BY TARGET] or NOT MATCHED BY SOURCE");
        };
        let condition = if self.word("AND") { Some(self.expr()?) } else { None };
        self.need("THEN")?;
        let action = if kind == MergeKind::NotMatched { self.merge_insert()? } else { self.merge_change(kind)? };
        Ok(MergeClause { kind, condition, action })
    }

    fn merge_change(&mut self, kind: MergeKind) -> Result<MergeAction> {
        if self.word("DELETE") {
            return Ok(MergeAction::Delete);
        }
        if self.words(&["UPDATE", "SET"]) {
            if kind == MergeKind::Matched && self.p.consume_token(&Token::Mul) {
                return Ok(MergeAction::UpdateAll);
            }
            return Ok(MergeAction::Update(self.comma(Self::assignment)?));
        }
        self.expected("UPDATE SET … or DELETE")
    }

    fn merge_insert(&mut self) -> Result<MergeAction> {
        self.need("INSERT")?;
        if self.p.consume_token(&Token::Mul) {
            return Ok(MergeAction::InsertAll);
        }
        let columns = if self.peek_is(&Token::LParen) {
            // a column may be qualified by the target's name
            self.list(|p| Ok(p.name()?.pop().unwrap_or_default()))?
        } else {
            Vec::new()
        };
        self.need("VALUES")?;
        let values = self.list(Self::expr)?;
        if !columns.is_empty() && columns.len() != values.len() {
            return self.expected(&format!(
                "as many values as columns in INSERT ({} columns, {} values) before this place",
                columns.len(),
                values.len()
            ));
        }
        Ok(MergeAction::Insert { columns, values })
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let target = self.name()?;
        self.token(&Token::Eq)?;
        Ok(Assignment { target, value: self.expr()? })
    }

    /// `[AS] alias`, unless the next word goes on with the statement.
    fn alias(&mut self, next: &str) -> Result<Option<String>> {
        if self.word("AS") || (!self.peek(next) && matches!(self.p.peek_token_ref().token, Token::Word(_))) {
            return Ok(Some(self.ident()?));
        }
        Ok(None)
    }
}
