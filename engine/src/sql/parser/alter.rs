//! `ALTER TABLE`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::Result;
use crate::sql::ast::{AlterAction, ColumnChange, SetRef, SortTerm, Statement};

const ACTIONS: &str = "SET, UNSET, ADD, DROP, RENAME, ALTER, CHANGE, REPLACE, CREATE or WRITE";

impl Cursor {
    /// After `ALTER TABLE`.
    pub(super) fn alter_table(&mut self) -> Result<Statement> {
        self.what = "ALTER TABLE";
        let table = self.name()?;
        let action = if self.word("SET") {
            self.alter_set()?
        } else if self.word("UNSET") {
            self.need("TBLPROPERTIES")?;
            let if_exists = self.if_exists();
            AlterAction::UnsetProperties { keys: self.list(Self::property_key)?, if_exists }
        } else if self.word("ADD") {
            self.alter_add()?
        } else if self.word("DROP") {
            self.alter_drop()?
        } else if self.word("RENAME") {
            if self.word("TO") {
                AlterAction::RenameTable(self.name()?)
            } else {
                self.need("COLUMN")?;
                let path = self.name()?;
                self.need("TO")?;
                AlterAction::RenameColumn { path, to: self.ident()? }
            }
        } else if self.word("ALTER") || self.word("CHANGE") {
            self.alter_column()?
        } else if self.word("REPLACE") {
            if self.words(&["PARTITION", "FIELD"]) {
                let from = self.term()?;
                self.need("WITH")?;
                let to = self.term()?;
                AlterAction::ReplacePartitionField { from, to, name: self.as_name()? }
            } else {
                self.set_ref(false, true)?
            }
        } else if self.word("CREATE") {
            let replace = self.words(&["OR", "REPLACE"]);
            self.set_ref(true, replace)?
        } else if self.word("WRITE") {
            self.write_order()?
        } else {
            return self.expected(ACTIONS);
        };
        Ok(Statement::AlterTable { table, action })
    }

    fn alter_set(&mut self) -> Result<AlterAction> {
        if self.word("TBLPROPERTIES") {
            return Ok(AlterAction::SetProperties(self.properties()?));
        }
        if self.word("LOCATION") {
            return Ok(AlterAction::SetLocation(self.string()?));
        }
        if self.words(&["IDENTIFIER", "FIELDS"]) {
            return Ok(AlterAction::SetIdentifierFields(self.comma(Self::name)?));
        }
        self.expected("TBLPROPERTIES, LOCATION or IDENTIFIER FIELDS")
    }

    fn alter_add(&mut self) -> Result<AlterAction> {
        if self.words(&["PARTITION", "FIELD"]) {
            let term = self.term()?;
            return Ok(AlterAction::AddPartitionField { term, name: self.as_name()? });
        }
        if self.any_word(&["COLUMNS", "COLUMN"]).is_none() {
            return self.expected("COLUMN, COLUMNS or PARTITION FIELD");
        }
        let if_not_exists = self.if_not_exists();
        let columns = if self.peek_is(&Token::LParen) {
            self.list(|p| p.column_def(true))?
        } else {
            self.comma(|p| p.column_def(true))?
        };
        Ok(AlterAction::AddColumns { columns, if_not_exists })
    }

    fn alter_drop(&mut self) -> Result<AlterAction> {
        if self.words(&["PARTITION", "FIELD"]) {
            return Ok(AlterAction::DropPartitionField(self.term()?));
        }
        if self.words(&["IDENTIFIER", "FIELDS"]) {
            return Ok(AlterAction::DropIdentifierFields(self.comma(Self::name)?));
        }
        if let Some(kind) = self.any_word(&["BRANCH", "TAG"]) {
            let if_exists = self.if_exists();
            return Ok(AlterAction::DropRef { branch: kind == "BRANCH", name: self.ident()?, if_exists });
        }
        if self.any_word(&["COLUMNS", "COLUMN"]).is_none() {
            return self.expected("COLUMN, COLUMNS, PARTITION FIELD, IDENTIFIER FIELDS, BRANCH or TAG");
        }
        let if_exists = self.if_exists();
        let paths = if self.peek_is(&Token::LParen) { self.list(Self::name)? } else { self.comma(Self::name)? };
        Ok(AlterAction::DropColumns { paths, if_exists })
    }

    fn alter_column(&mut self) -> Result<AlterAction> {
        let _ = self.word("COLUMN");
        let path = self.name()?;
        let change = if self.word("TYPE") {
            ColumnChange::Type(self.data_type()?)
        } else if self.word("COMMENT") {
            ColumnChange::Comment(self.string()?)
        } else if self.peek("FIRST") || self.peek("AFTER") {
            ColumnChange::Position(self.position()?)
        } else if self.words(&["SET", "NOT", "NULL"]) {
            ColumnChange::SetNotNull
        } else if self.words(&["DROP", "NOT", "NULL"]) {
            ColumnChange::DropNotNull
        } else if self.words(&["SET", "DEFAULT"]) {
            ColumnChange::SetDefault(self.expr()?)
        } else if self.words(&["DROP", "DEFAULT"]) {
            ColumnChange::DropDefault
        } else {
            return self.expected("TYPE, COMMENT, FIRST, AFTER, SET|DROP NOT NULL or SET|DROP DEFAULT");
        };
        Ok(AlterAction::AlterColumn { path, change })
    }

    fn as_name(&mut self) -> Result<Option<String>> {
        if self.word("AS") { Ok(Some(self.ident()?)) } else { Ok(None) }
    }

    /// After `CREATE [OR REPLACE]` or `REPLACE`.
    fn set_ref(&mut self, create: bool, replace: bool) -> Result<AlterAction> {
        let branch = match self.any_word(&["BRANCH", "TAG"]) {
            Some(kind) => kind == "BRANCH",
            None => return self.expected("BRANCH, TAG or PARTITION FIELD"),
        };
        let if_not_exists = create && !replace && self.if_not_exists();
        let name = match self.p.peek_token().token {
            Token::SingleQuotedString(s) => {
                self.p.advance_token();
                s
            }
            _ => self.ident()?,
        };
        let mut r = SetRef {
            branch,
            name,
            create,
            replace,
            if_not_exists,
            snapshot_id: None,
            max_ref_age_ms: None,
            min_snapshots_to_keep: None,
            max_snapshot_age_ms: None,
        };
        if self.words(&["AS", "OF", "VERSION"]) {
            r.snapshot_id = Some(self.integer()?);
        }
        if self.word("RETAIN") {
            r.max_ref_age_ms = Some(self.duration()?);
        }
        if branch && self.words(&["WITH", "SNAPSHOT", "RETENTION"]) {
            if self.peek_nth(1, "SNAPSHOTS") {
                r.min_snapshots_to_keep = Some(self.integer()?);
                self.need("SNAPSHOTS")?;
            }
            if matches!(self.p.peek_token_ref().token, Token::Number(..)) {
                r.max_snapshot_age_ms = Some(self.duration()?);
            }
        }
        Ok(AlterAction::SetRef(r))
    }

    /// `n DAYS|HOURS|MINUTES`, in milliseconds.
    fn duration(&mut self) -> Result<i64> {
        let n: i64 = self.integer()?;
        let unit = match self.any_word(&["DAYS", "DAY", "HOURS", "HOUR", "MINUTES", "MINUTE"]) {
            Some("DAYS" | "DAY") => 86_400_000,
            Some("HOURS" | "HOUR") => 3_600_000,
            Some(_) => 60_000,
            None => return self.expected("DAYS, HOURS or MINUTES"),
        };
        match n.checked_mul(unit) {
            Some(ms) => Ok(ms),
            None => self.expected("a smaller retention before this place"),
        }
    }

    /// After `WRITE`.
    fn write_order(&mut self) -> Result<AlterAction> {
        if self.word("UNORDERED") {
            return Ok(AlterAction::WriteOrder { terms: Vec::new(), distribution: Some("none") });
        }
        let hash = self.words(&["DISTRIBUTED", "BY", "PARTITION"]);
        let local = self.word("LOCALLY");
        if hash && !local && !self.peek("ORDERED") {
            return Ok(AlterAction::WriteOrder { terms: Vec::new(), distribution: Some("hash") });
        }
        if !self.words(&["ORDERED", "BY"]) {
            return self.expected("[DISTRIBUTED BY PARTITION] [LOCALLY] ORDERED BY, or UNORDERED");
        }
        let parens = self.p.consume_token(&Token::LParen);
        let terms = self.comma(Self::sort_term)?;
        if parens {
            self.token(&Token::RParen)?;
        }
        let distribution = if hash {
            Some("hash")
        } else if local {
            Some("none")
        } else {
            Some("range")
        };
        Ok(AlterAction::WriteOrder { terms, distribution })
    }

    fn sort_term(&mut self) -> Result<SortTerm> {
        let term = self.term()?;
        let descending = self.any_word(&["ASC", "DESC"]) == Some("DESC");
        let mut nulls_first = !descending;
        if self.word("NULLS") {
            nulls_first = match self.any_word(&["FIRST", "LAST"]) {
                Some(w) => w == "FIRST",
                None => return self.expected("FIRST or LAST"),
            };
        }
        Ok(SortTerm { term, descending, nulls_first })
    }
}
