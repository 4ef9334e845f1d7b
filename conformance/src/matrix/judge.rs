//! What a reader's answer comes to.

use super::result::{Check, Outcome};
use crate::compare::Difference;
use crate::protocol::Answer;
use crate::value::Rows;

/// A file's name without its folders.
pub(super) fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What an answer comes to when `compare` finds the difference from what was expected.
pub(super) fn judge(
    n: usize,
    what: &str,
    answer: Answer<Rows>,
    compare: impl FnOnce(&Rows) -> Option<Difference>,
) -> Check {
    match answer {
        Answer::Ok(rows) => match compare(&rows) {
            None => Check::pass(n, what),
            Some(d) => {
                let mut c = Check::new(n, what, Outcome::Fail, d.reason);
                (c.expected, c.got) = (d.expected, d.got);
                c
            }
        },
        Answer::Refused(m) => Check::new(n, what, Outcome::Refused, m),
        Answer::Skipped(m) => Check::new(n, what, Outcome::Skipped, m),
        Answer::Error(m) => Check::new(n, what, Outcome::Errored, m),
    }
}

/// A table that must not be readable: a refusal passes, and so does an error; rows are a wrong answer.
pub(super) fn judge_unreadable(n: usize, answer: Answer<Rows>) -> Check {
    let what = "malformed table refused";
    match answer {
        Answer::Ok(rows) => {
            let m = format!("malformed table was answered with {} rows", rows.count);
            let mut c = Check::new(n, what, Outcome::Fail, m);
            c.expected = "an error".into();
            c.got = format!("{} rows", rows.count);
            c
        }
        Answer::Refused(_) | Answer::Error(_) => Check::pass(n, what),
        Answer::Skipped(m) => Check::new(n, what, Outcome::Skipped, m),
    }
}

/// A permutation of `0..n` that depends only on `seed`.
pub(super) fn shuffled(n: usize, seed: &str) -> Vec<usize> {
    let mut state =
        seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)) | 1;
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % (i as u64 + 1)) as usize);
    }
    order
}
