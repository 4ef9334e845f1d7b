//! Type names (TYPE-*).

use datafusion::sql::sqlparser::tokenizer::Token;

use super::Cursor;
use crate::Result;
use crate::sql::ast::{SqlField, SqlType};

const TYPES: &str = "a type: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, \
    TIMESTAMP_NTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS, STRING, VARCHAR(n), CHAR(n), BINARY, UUID, FIXED(n), STRUCT<…>, ARRAY<…>, \
    MAP<…>, VARIANT, UNKNOWN, GEOMETRY or GEOGRAPHY";

impl Cursor {
    /// A type.
    pub(super) fn data_type(&mut self) -> Result<SqlType> {
        self.nested_type(0)
    }

    fn nested_type(&mut self, depth: usize) -> Result<SqlType> {
        if depth > 64 {
            return self.expected("a type of at most 64 levels");
        }
        let Token::Word(w) = self.p.peek_token().token else {
            return self.expected(TYPES);
        };
        let ty = match w.value.to_ascii_uppercase().as_str() {
            "BOOLEAN" | "BOOL" => SqlType::Boolean,
            "INT" | "INTEGER" | "SMALLINT" | "SHORT" | "TINYINT" | "BYTE" => SqlType::Int,
            "BIGINT" | "LONG" => SqlType::Long,
            "FLOAT" | "REAL" => SqlType::Float,
            "DOUBLE" => SqlType::Double,
            "DATE" => SqlType::Date,
            "TIME" => SqlType::Time,
            "TIMESTAMP" | "TIMESTAMP_LTZ" | "TIMESTAMPTZ" => SqlType::Timestamp,
            "TIMESTAMP_NTZ" => SqlType::TimestampNtz,
            "TIMESTAMP_NS" => SqlType::TimestampNs,
            "TIMESTAMPTZ_NS" | "TIMESTAMP_LTZ_NS" => SqlType::TimestamptzNs,
            "STRING" => SqlType::String,
            "BINARY" => SqlType::Binary,
            "UUID" => SqlType::Uuid,
            "VARIANT" => SqlType::Variant,
            "UNKNOWN" | "VOID" => SqlType::Unknown,
            "DECIMAL" | "DEC" | "NUMERIC" => {
                self.p.advance_token();
                return self.decimal();
            }
            "VARCHAR" | "CHAR" | "CHARACTER" => {
                self.p.advance_token();
                if self.p.consume_token(&Token::LParen) {
                    let _: u32 = self.integer()?;
                    self.token(&Token::RParen)?;
                }
                return Ok(SqlType::String);
            }
            "FIXED" => {
                self.p.advance_token();
                let length = self.list(|p| p.integer::<u64>())?;
                return match length.as_slice() {
                    [n] if *n > 0 => Ok(SqlType::Fixed(*n)),
                    _ => self.expected("FIXED(length), length at least 1"),
                };
            }
            name @ ("GEOMETRY" | "GEOGRAPHY") => {
                let name = name.to_ascii_lowercase();
                self.p.advance_token();
                return self.geo(&name);
            }
            "ARRAY" => {
                self.p.advance_token();
                self.open()?;
                let element = self.nested_type(depth + 1)?;
                self.close()?;
                return Ok(SqlType::List(Box::new(element)));
            }
            "MAP" => {
                self.p.advance_token();
                self.open()?;
                let key = self.nested_type(depth + 1)?;
                self.token(&Token::Comma)?;
                let value = self.nested_type(depth + 1)?;
                self.close()?;
                return Ok(SqlType::Map(Box::new(key), Box::new(value)));
            }
            "STRUCT" => {
                self.p.advance_token();
                self.open()?;
                let fields = self.comma(|p| p.struct_field(depth + 1))?;
                self.close()?;
                return Ok(SqlType::Struct(fields));
            }
            _ => return self.expected(TYPES),
        };
        self.p.advance_token();
        Ok(ty)
    }

    fn struct_field(&mut self, depth: usize) -> Result<SqlField> {
        let name = self.ident()?;
        let _ = self.p.consume_token(&Token::Colon);
        let ty = self.nested_type(depth)?;
        let required = self.words(&["NOT", "NULL"]);
        let comment = if self.word("COMMENT") { Some(self.string()?) } else { None };
        Ok(SqlField { name, ty, required, comment })
    }

    /// `(p)`, `(p, s)` or nothing: Spark's default is (10, 0).
    fn decimal(&mut self) -> Result<SqlType> {
        let (mut precision, mut scale) = (10, 0);
        if self.p.consume_token(&Token::LParen) {
            precision = self.integer()?;
            if self.p.consume_token(&Token::Comma) {
                scale = self.integer()?;
            }
            self.token(&Token::RParen)?;
        }
        if precision == 0 || precision > 38 || scale > precision {
            return self.expected(&format!("DECIMAL(p,s) with 1 <= p <= 38 and s <= p, not ({precision},{scale}),"));
        }
        Ok(SqlType::Decimal(precision, scale))
    }

    /// `[('crs' [, 'algorithm'])]`, kept as table metadata words it.
    fn geo(&mut self, name: &str) -> Result<SqlType> {
        let mut text = name.to_string();
        if self.peek_is(&Token::LParen) {
            let args = self.list(|p| match p.p.peek_token().token {
                Token::SingleQuotedString(s) | Token::Number(s, _) => {
                    p.p.advance_token();
                    Ok(s)
                }
                Token::Word(_) => {
                    let mut s = p.ident()?;
                    while p.p.consume_token(&Token::Colon) {
                        s = match p.p.next_token().token {
                            Token::Word(w) => format!("{s}:{}", w.value),
                            Token::Number(n, _) => format!("{s}:{n}"),
                            _ => return p.expected("a coordinate system, e.g. 'OGC:CRS84'"),
                        };
                    }
                    Ok(s)
                }
                _ => p.expected("a coordinate system, e.g. 'OGC:CRS84'"),
            })?;
            if args.len() > if name == "geography" { 2 } else { 1 } {
                return self.expected("GEOMETRY('crs') or GEOGRAPHY('crs' [, 'algorithm'])");
            }
            text = format!("{name}({})", args.join(", "));
        }
        Ok(if name == "geometry" { SqlType::Geometry(text) } else { SqlType::Geography(text) })
    }

    fn open(&mut self) -> Result<()> {
        self.token(&Token::Lt)
    }

    /// `>`, or one half of the `>>` that closes two types.
    fn close(&mut self) -> Result<()> {
        if self.pending_gt > 0 {
            self.pending_gt -= 1;
            return Ok(());
        }
        if self.p.consume_token(&Token::ShiftRight) {
            self.pending_gt += 1;
            return Ok(());
        }
        self.token(&Token::Gt)
    }
}
