//! Splits a script into statements at `;`, outside of strings, quoted identifiers and comments.

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its text, without the `;` and without blanks around it.
    pub text: &'a str,
    /// Line of its first character, counted from 1.
    pub line: usize,
}

/// Splits a script. Pieces that hold nothing but blanks and comments are left out. An open string, quoted identifier
/// or comment is left to the tokenizer of the last piece, so that the statements before it still run.
pub fn split(script: &str) -> Vec<Piece<'_>> {
    let bytes = script.as_bytes();
    let mut out = Vec::new();
    let (mut i, mut start, mut has_code) = (0, 0, false);
    while i < bytes.len() {
        match bytes[i] {
            quote @ (b'\'' | b'"' | b'`') => {
                has_code = true;
                i = skip_quoted(bytes, i, quote);
            }
            b'-' if bytes.get(i + 1) == Some(&b'-') => {
                while i < bytes.len() && bytes[i] != b'\n' {
                    i += 1;
                }
            }
            b'/' if bytes.get(i + 1) == Some(&b'*') => i = skip_comment(bytes, i),
            b';' => {
                if has_code {
                    out.push(piece(script, start, i));
                }
                i += 1;
                (start, has_code) = (i, false);
            }
            b => {
                has_code |= !b.is_ascii_whitespace();
                i += 1;
            }
        }
    }
    if has_code {
        out.push(piece(script, start, bytes.len()));
    }
    out
}

/// Index after the closing quote. A doubled quote stays inside; a backslash escapes in strings, not in identifiers.
fn skip_quoted(bytes: &[u8], open: usize, quote: u8) -> usize {
    let mut i = open + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' if quote != b'`' => i += 2,
            b if b == quote && bytes.get(i + 1) == Some(&quote) => i += 2,
            b if b == quote => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// Index after a `/* … */` comment, which may hold others.
fn skip_comment(bytes: &[u8], open: usize) -> usize {
    let (mut i, mut depth) = (open + 2, 1usize);
    while i < bytes.len() && depth > 0 {
        match (bytes[i], bytes.get(i + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                i += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                i += 2;
            }
            _ => i += 1,
        }
    }
    i.min(bytes.len())
}

fn piece(script: &str, start: usize, end: usize) -> Piece<'_> {
    let raw = &script[start..end];
    let text = strip_comments(raw);
    let line = 1 + script[..start + (raw.len() - text.len())].matches('\n').count();
    Piece { text: text.trim_end(), line }
}

/// The text after leading blanks and comments.
pub(crate) fn strip_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        if rest.starts_with("--") {
            rest = rest.find('\n').map_or("", |n| rest[n..].trim_start());
        } else if rest.starts_with("/*") {
            rest = rest[skip_comment(rest.as_bytes(), 0)..].trim_start();
        } else {
            return rest;
        }
    }
}
