//! Structure of the standard 32-bit Roaring bitmap (DV-40..45): checked in one pass over the bytes, so that a hostile
//! blob is refused before a bitmap is built from it.

use crate::Error;

/// A fault in a blob: where (byte offset in the blob), which clause, what.
#[derive(Debug)]
pub(super) struct Fault {
    at: usize,
    clause: &'static str,
    message: String,
}

impl Fault {
    pub(super) fn new(at: usize, clause: &'static str, message: impl Into<String>) -> Self {
        Self { at, clause, message: message.into() }
    }

    /// The fault as an error; `file` is where the blob comes from and at which offset.
    pub(super) fn into_error(self, file: Option<(&str, u64)>) -> Error {
        let place = match file {
            Some((file, offset)) => {
                format!("{file} byte {} (blob at {offset})", offset.saturating_add(self.at as u64))
            }
            None => format!("byte {} of the blob", self.at),
        };
        Error::malformed(format!("deletion vector: {}", self.message)).at(place).clause(self.clause)
    }
}

/// Kind of a container (DV-44).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    /// Sorted values.
    Array,
    /// 65536 bits.
    Bitset,
    /// Runs.
    Run,
}

/// One container of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerInfo {
    /// High 48 bits of its positions: they start at `key << 16`.
    pub key: u64,
    /// How it is stored.
    pub kind: ContainerKind,
    /// Positions in it.
    pub cardinality: u32,
}

/// Length of a bitmap without containers.
pub(super) const EMPTY_LEN: usize = 8;
/// Cookie without run containers; the container count follows (DV-41).
const COOKIE_NO_RUNS: u32 = 12346;
/// Low half of the cookie with run containers; the high half is the container count − 1 (DV-41).
const COOKIE_RUNS: u32 = 12347;
/// With run containers, offsets are there from this many containers on (DV-43).
const OFFSETS_FROM: usize = 4;
const MAX_CONTAINERS: u32 = 1 << 16;
/// Up to this many values a container without runs is an array (DV-44).
const MAX_ARRAY: u32 = 4096;
const BITSET_LEN: usize = 8192;
/// Largest value of a container.
const MAX_LOW: u32 = 0xFFFF;

pub(super) fn read_u16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*b.get(at..)?.first_chunk()?))
}

pub(super) fn read_u32(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*b.get(at..)?.first_chunk()?))
}

pub(super) fn read_u64(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*b.get(at..)?.first_chunk()?))
}

/// How far [`check`] looks into run containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    /// Their number of values alone: `roaring` checks the order of runs when it builds them, whatever it is told.
    Counted,
    /// Their order as well.
    Ordered,
}

/// Checks the bitmap that starts `bytes` (at byte `base` of the blob) and returns its length.
/// `found` gets key, kind and cardinality of each container.
pub(super) fn check(
    bytes: &[u8],
    base: usize,
    look: Runs,
    mut found: impl FnMut(u16, ContainerKind, u32),
) -> Result<usize, Fault> {
    let take = |at: usize, len: usize, what: &str| {
        bytes.get(at..).and_then(|b| b.get(..len)).ok_or_else(|| {
            let left = bytes.len().saturating_sub(at);
            Fault::new(base + at, "DV-45", format!("truncated: {what} need {len} bytes, {left} are left"))
        })
    };
    let cookie = read_u32(take(0, 4, "the cookie")?, 0).unwrap_or_default();
    let (count, flags, mut at) = if cookie == COOKIE_NO_RUNS {
        let count = read_u32(take(4, 4, "the container count")?, 0).unwrap_or_default();
        if count > MAX_CONTAINERS {
            return Err(Fault::new(base + 4, "DV-41", format!("{count} containers; at most {MAX_CONTAINERS}")));
        }
        (count as usize, None, 8)
    } else if cookie & 0xFFFF == COOKIE_RUNS {
        let count = (cookie >> 16) as usize + 1;
        let len = count.div_ceil(8);
        (count, Some(take(4, len, "the run flags")?), 4 + len)
    } else {
        return Err(Fault::new(
            base,
            "DV-41",
            format!("cookie {cookie:#010x}; {COOKIE_NO_RUNS} or, in the low half, {COOKIE_RUNS}"),
        ));
    };
    let headers_at = at;
    let headers = take(at, count * 4, "the container headers")?;
    at += headers.len();
    let offsets_at = at;
    let offsets =
        if flags.is_none() || count >= OFFSETS_FROM { take(at, count * 4, "the container offsets")? } else { &[] };
    at += offsets.len();

    let mut last = None;
    for (i, header) in headers.chunks_exact(4).enumerate() {
        let key = u16::from_le_bytes([header[0], header[1]]);
        let cardinality = u32::from(u16::from_le_bytes([header[2], header[3]])) + 1;
        if let Some(last) = last.replace(key)
            && last >= key
        {
            let at = base + headers_at + 4 * i;
            return Err(Fault::new(
                at,
                "DV-40",
                format!("container key {key} after {last}; keys ascend and are not repeated"),
            ));
        }
        if let Some(offset) = read_u32(offsets, 4 * i)
            && offset as usize != at
        {
            let place = base + offsets_at + 4 * i;
            return Err(Fault::new(place, "DV-43", format!("offset {offset} of container {i}, which is at {at}")));
        }
        let kind = match flags {
            Some(flags) if flags[i / 8] & (1 << (i % 8)) != 0 => ContainerKind::Run,
            _ if cardinality <= MAX_ARRAY => ContainerKind::Array,
            _ => ContainerKind::Bitset,
        };
        let len = match kind {
            ContainerKind::Run => {
                let runs = usize::from(read_u16(take(at, 2, "the run count")?, 0).unwrap_or_default());
                let body = take(at + 2, 4 * runs, "the runs")?;
                check_runs(body, cardinality, look).map_err(|(o, m)| Fault::new(base + at + 2 + o, "DV-44", m))?;
                2 + body.len()
            }
            ContainerKind::Array => {
                let body = take(at, 2 * cardinality as usize, "the values")?;
                check_array(body).map_err(|(o, m)| Fault::new(base + at + o, "DV-44", m))?;
                body.len()
            }
            ContainerKind::Bitset => {
                let body = take(at, BITSET_LEN, "the bits")?;
                let bits = count_bits(body);
                if bits != cardinality {
                    return Err(Fault::new(
                        base + at,
                        "DV-45",
                        format!("{bits} bits set in a container of cardinality {cardinality}"),
                    ));
                }
                BITSET_LEN
            }
        };
        at += len;
        found(key, kind, cardinality);
    }
    Ok(at)
}

/// Runs are sorted, apart by at least one value, inside the container, and hold `cardinality` values.
fn check_runs(body: &[u8], cardinality: u32, look: Runs) -> Result<(), (usize, String)> {
    // start in the low half, length − 1 in the high half; signed, so that the compiler makes vector code of the comparison
    let run = |b: &[u8]| {
        let v = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        ((v & 0xFFFF) as i32, (v >> 16) as i32)
    };
    let runs = || body.chunks_exact(4);
    if look == Runs::Ordered {
        let apart = |a: &[u8], b: &[u8]| {
            let ((start, extra), (next, _)) = (run(a), run(b));
            start + extra + 1 < next
        };
        let pairs = || runs().zip(body.get(4..).unwrap_or_default().chunks_exact(4));
        // the last run that is apart from all before ends last
        let ends_inside = runs().next_back().is_none_or(|r| run(r).0 + run(r).1 <= MAX_LOW as i32);
        if !(pairs().fold(true, |ok, (a, b)| ok & apart(a, b)) && ends_inside) {
            let i = pairs().position(|(a, b)| !apart(a, b)).map_or(runs().len() - 1, |i| i + 1);
            return Err((
                4 * i,
                format!(
                    "run {i} touches or precedes the one before, or ends after {MAX_LOW}; runs ascend and do not touch"
                ),
            ));
        }
    }
    let total = runs().map(|r| run(r).1).sum::<i32>() + runs().len() as i32;
    if total != cardinality as i32 {
        return Err((0, format!("runs of {total} values in a container of cardinality {cardinality}")));
    }
    Ok(())
}

/// Values ascend and are not repeated.
fn check_array(body: &[u8]) -> Result<(), (usize, String)> {
    let value = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
    let pairs = || body.chunks_exact(2).zip(body[2..].chunks_exact(2));
    // No early end, so that the compiler makes vector code of it; the place is looked for only if there is a fault.
    if pairs().fold(true, |ok, (a, b)| ok & (value(a) < value(b))) {
        return Ok(());
    }
    let (i, (a, b)) = pairs().enumerate().find(|(_, (a, b))| value(a) >= value(b)).unwrap_or((0, (body, body)));
    Err((2 * i + 2, format!("value {} after {}; values ascend and are not repeated", value(b), value(a))))
}

/// Bits set in a bitset: carry-save adders over eight words at a time leave one count in eight.
fn count_bits(body: &[u8]) -> u32 {
    let add = |a: u64, b: u64, c: u64| {
        let half = a ^ b;
        ((a & b) | (half & c), half ^ c)
    };
    let (mut ones, mut twos, mut fours, mut eights) = (0, 0, 0, 0);
    for block in body.chunks_exact(64) {
        let w = |i: usize| {
            let b = &block[8 * i..8 * i + 8];
            u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
        };
        let (t0, o) = add(ones, w(0), w(1));
        let (t1, o) = add(o, w(2), w(3));
        let (f0, t) = add(twos, t0, t1);
        let (t0, o) = add(o, w(4), w(5));
        let (t1, o) = add(o, w(6), w(7));
        let (f1, t) = add(t, t0, t1);
        let (e, f) = add(fours, f0, f1);
        (ones, twos, fours) = (o, t, f);
        eights += e.count_ones();
    }
    8 * eights + 4 * fours.count_ones() + 2 * twos.count_ones() + ones.count_ones()
}
