//! `CREATE …` and `DROP …`.

use datafusion::sql::sqlparser::tokenizer::Token;
use iceberg::spec::Transform;

use super::Cursor;
use crate::Result;
use crate::sql::ast::{ColumnDef, CreateTable, Position, Statement, Term};

const NAMESPACE: [&str; 3] = ["NAMESPACE", "DATABASE", "SCHEMA"];

impl Cursor {
    /// After `CREATE`.
    pub(super) fn create(&mut self) -> Result<Statement> {
        self.what = "CREATE";
        if self.any_word(&NAMESPACE).is_some() {
            return self.create_namespace();
        }
        let or_replace = self.words(&["OR", "REPLACE"]);
        if self.word("TABLE") {
            return self.create_table(or_replace, true);
        }
        let _ = self.word("GLOBAL");
        let temporary = self.word("TEMPORARY") || self.word("TEMP");
        if self.word("VIEW") {
            return self.create_view(or_replace, temporary);
        }
        self.expected("NAMESPACE, TABLE or TEMPORARY VIEW")
    }

    fn create_namespace(&mut self) -> Result<Statement> {
        self.what = "CREATE NAMESPACE";
        let if_not_exists = self.if_not_exists();
        let name = self.name()?;
        let mut properties = Vec::new();
        loop {
            if self.word("COMMENT") {
                properties.push(("comment".into(), self.string()?));
            } else if self.word("LOCATION") {
                properties.push(("location".into(), self.string()?));
            } else if self.words(&["WITH", "DBPROPERTIES"]) || self.words(&["WITH", "PROPERTIES"]) {
                properties.extend(self.properties()?);
            } else {
                return Ok(Statement::CreateNamespace { name, if_not_exists, properties });
            }
        }
    }

    /// After `TABLE`.
    pub(super) fn create_table(&mut self, replace: bool, create: bool) -> Result<Statement> {
        if create {
            self.what = "CREATE TABLE";
        }
        let if_not_exists = self.if_not_exists();
        if if_not_exists && replace {
            return self.expected("either OR REPLACE or IF NOT EXISTS, not both, before the name");
        }
        let mut t = CreateTable {
            table: self.name()?,
            if_not_exists,
            replace,
            create,
            columns: Vec::new(),
            using: None,
            partitioned_by: Vec::new(),
            location: None,
            comment: None,
            properties: Vec::new(),
            query: None,
        };
        if self.peek_is(&Token::LParen) {
            t.columns = self.list(|p| p.column_def(false))?;
        }
        loop {
            if self.word("USING") {
                t.using = Some(self.ident()?);
            } else if self.words(&["PARTITIONED", "BY"]) {
                t.partitioned_by = self.list(Self::term)?;
            } else if self.word("TBLPROPERTIES") || self.word("OPTIONS") {
                t.properties.extend(self.properties()?);
            } else if self.word("LOCATION") {
                t.location = Some(self.string()?);
            } else if self.word("COMMENT") {
                t.comment = Some(self.string()?);
            } else if self.word("AS") || self.peek("SELECT") || self.peek("WITH") {
                t.query = Some(self.query()?);
                break;
            } else if self.peek_is(&Token::EOF) || self.peek_is(&Token::SemiColon) {
                break;
            } else {
                return self.expected("USING, PARTITIONED BY, TBLPROPERTIES, LOCATION, COMMENT or AS query");
            }
        }
        if t.columns.is_empty() && t.query.is_none() {
            return self.expected("columns or AS query");
        }
        Ok(Statement::CreateTable(Box::new(t)))
    }

    /// `name type [NOT NULL] [DEFAULT e] [COMMENT 's']`, and with `alter` a path and `FIRST|AFTER c`.
    pub(super) fn column_def(&mut self, alter: bool) -> Result<ColumnDef> {
        let path = if alter { self.name()? } else { vec![self.ident()?] };
        let mut c =
            ColumnDef { path, ty: self.data_type()?, required: false, comment: None, default: None, position: None };
        loop {
            if self.words(&["NOT", "NULL"]) {
                c.required = true;
            } else if self.word("NULL") {
                c.required = false;
            } else if self.word("COMMENT") {
                c.comment = Some(self.string()?);
            } else if self.word("DEFAULT") {
                c.default = Some(self.expr()?);
            } else if alter && (self.peek("FIRST") || self.peek("AFTER")) {
                c.position = Some(self.position()?);
            } else {
                return Ok(c);
            }
        }
    }

    pub(super) fn position(&mut self) -> Result<Position> {
        if self.word("FIRST") {
            return Ok(Position::First);
        }
        self.need("AFTER")?;
        Ok(Position::After(self.ident()?))
    }

    /// A partition or sort term.
    pub(super) fn term(&mut self) -> Result<Term> {
        let name = self.name()?;
        if !self.p.consume_token(&Token::LParen) {
            return Ok(Term { transform: Transform::Identity, column: name });
        }
        let (mut width, mut column) = (None, None);
        loop {
            match self.p.peek_token().token {
                Token::Number(..) if width.is_none() => width = Some(self.integer::<u32>()?),
                Token::Word(_) if column.is_none() => column = Some(self.name()?),
                _ => return self.expected("a column, or a number and a column"),
            }
            if !self.p.consume_token(&Token::Comma) {
                break;
            }
        }
        self.token(&Token::RParen)?;
        let function = name.join(".").to_ascii_lowercase();
        let transform = match (function.as_str(), width) {
            ("bucket", Some(n)) if n > 0 => Transform::Bucket(n),
            ("truncate", Some(n)) if n > 0 => Transform::Truncate(n),
            ("years" | "year", None) => Transform::Year,
            ("months" | "month", None) => Transform::Month,
            ("days" | "day" | "date", None) => Transform::Day,
            ("hours" | "hour" | "date_hour", None) => Transform::Hour,
            ("identity", None) => Transform::Identity,
            ("void", None) => Transform::Void,
            _ => {
                return self.expected(&format!(
                    "a transform: bucket(n, c), truncate(n, c), years(c), months(c), days(c), hours(c), identity(c) or \
                     void(c), not {function:?} with {} number; after it",
                    if width.is_some() { "a" } else { "no" }
                ));
            }
        };
        match column {
            Some(column) => Ok(Term { transform, column }),
            None => self.expected("a column in the transform before this place"),
        }
    }

    fn create_view(&mut self, or_replace: bool, temporary: bool) -> Result<Statement> {
        self.what = "CREATE VIEW";
        let if_not_exists = self.if_not_exists();
        let name = self.name()?;
        let mut columns = Vec::new();
        if self.peek_is(&Token::LParen) {
            columns = self.list(|p| {
                let name = p.ident()?;
                if p.word("COMMENT") {
                    let _ = p.string()?;
                }
                Ok(name)
            })?;
        }
        if self.word("COMMENT") {
            let _ = self.string()?;
        }
        self.need("AS")?;
        Ok(Statement::CreateView { name, or_replace, if_not_exists, temporary, columns, query: self.query()? })
    }

    /// After `DROP`.
    pub(super) fn drop(&mut self) -> Result<Statement> {
        self.what = "DROP";
        if self.any_word(&NAMESPACE).is_some() {
            self.what = "DROP NAMESPACE";
            let if_exists = self.if_exists();
            let name = self.name()?;
            let cascade = self.word("CASCADE");
            let _ = !cascade && self.word("RESTRICT");
            return Ok(Statement::DropNamespace { name, if_exists, cascade });
        }
        if self.word("TABLE") {
            self.what = "DROP TABLE";
            let if_exists = self.if_exists();
            return Ok(Statement::DropTable { table: self.name()?, if_exists, purge: self.word("PURGE") });
        }
        if self.word("VIEW") {
            self.what = "DROP VIEW";
            let if_exists = self.if_exists();
            return Ok(Statement::DropView { name: self.name()?, if_exists });
        }
        self.expected("NAMESPACE, TABLE or VIEW")
    }
}
