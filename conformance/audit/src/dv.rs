//! Deletion-vector blobs, read strictly: framing, checksum, key order and every container (DV-20..45).

/// A fault in a blob: clause, what was found, what is allowed.
#[derive(Debug, PartialEq)]
pub struct Fault(pub &'static str, pub String, pub String);

fn fault<T>(clause: &'static str, found: impl ToString, allowed: impl ToString) -> Result<T, Fault> {
    Err(Fault(clause, found.to_string(), allowed.to_string()))
}

/// Positions of a DV as sorted, disjoint, inclusive ranges.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Positions {
    pub ranges: Vec<(u64, u64)>,
    pub cardinality: u64,
}

impl Positions {
    fn push(&mut self, first: u64, last: u64) {
        self.cardinality += last - first + 1;
        match self.ranges.last_mut() {
            Some(r) if r.1 + 1 == first => r.1 = last,
            _ => self.ranges.push((first, last)),
        }
    }
    pub fn max(&self) -> Option<u64> {
        self.ranges.last().map(|r| r.1)
    }
    pub fn contains(&self, p: u64) -> bool {
        let i = self.ranges.partition_point(|r| r.1 < p);
        self.ranges.get(i).is_some_and(|r| r.0 <= p)
    }
    /// First position of `self` that `other` lacks.
    pub fn first_missing_in(&self, other: &Positions) -> Option<u64> {
        for (a, b) in &self.ranges {
            let mut p = *a;
            while p <= *b {
                let i = other.ranges.partition_point(|r| r.1 < p);
                match other.ranges.get(i) {
                    Some(r) if r.0 <= p => p = r.1 + 1,
                    _ => return Some(p),
                }
            }
        }
        None
    }
}

struct Cur<'a> {
    b: &'a [u8],
    p: usize,
}

impl<'a> Cur<'a> {
    fn take(&mut self, n: usize, clause: &'static str, what: &str) -> Result<&'a [u8], Fault> {
        let end = self.p.checked_add(n).filter(|e| *e <= self.b.len());
        match end {
            Some(e) => {
                let s = &self.b[self.p..e];
                self.p = e;
                Ok(s)
            }
            None => fault(
                clause,
                format!("{what} needs {n} bytes at {}, the vector has {}", self.p, self.b.len()),
                "everything inside the vector",
            ),
        }
    }
    fn u16(&mut self, clause: &'static str, what: &str) -> Result<u16, Fault> {
        let b = self.take(2, clause, what)?;
        Ok(u16::from_le_bytes([b[0], b[1]]))
    }
    fn u32(&mut self, clause: &'static str, what: &str) -> Result<u32, Fault> {
        let b = self.take(4, clause, what)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
}

/// Parses a whole blob.
///
/// # Errors
/// The first fault, with its clause.
pub fn parse(blob: &[u8]) -> Result<Positions, Fault> {
    if blob.len() < 12 {
        return fault("DV-24", format!("{} bytes", blob.len()), "at least 20 bytes");
    }
    let n = blob.len();
    let declared = u32::from_be_bytes([blob[0], blob[1], blob[2], blob[3]]);
    if u64::from(declared) + 8 != n as u64 {
        return fault("DV-20", format!("length {declared} in a blob of {n} bytes"), n - 8);
    }
    if blob[4..8] != [0xd1, 0xd3, 0x39, 0x64] {
        return fault("DV-21", crate::avro::hex(&blob[4..8]), "d1d33964");
    }
    let stored = u32::from_be_bytes([blob[n - 4], blob[n - 3], blob[n - 2], blob[n - 1]]);
    let crc = crc32fast::hash(&blob[4..n - 4]);
    if stored != crc {
        return fault("DV-23", format!("{stored:08x}"), format!("{crc:08x}"));
    }
    vector(&blob[8..n - 4])
}

fn vector(b: &[u8]) -> Result<Positions, Fault> {
    let mut c = Cur { b, p: 0 };
    let head = c.take(8, "DV-25", "the bitmap count")?;
    let count = u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]]);
    // The smallest bitmap takes 4 bytes of key and 8 of its own: a larger count is a lie (A5 of the cases).
    if count > (b.len() as u64 - 8) / 12 {
        return fault(
            "DV-25",
            format!("{count} bitmaps in {} bytes", b.len()),
            format!("at most {}", (b.len() - 8) / 12),
        );
    }
    let mut out = Positions::default();
    let mut prev: Option<u32> = None;
    for _ in 0..count {
        let key = c.u32("DV-25", "a bitmap key")?;
        if key > 0x7fff_ffff {
            return fault("DV-26", format!("key {key:#x}"), "at most 0x7fffffff");
        }
        if prev.is_some_and(|p| p >= key) {
            return fault("DV-25", format!("key {key} after {}", prev.unwrap_or(0)), "ascending keys");
        }
        prev = Some(key);
        bitmap(&mut c, u64::from(key) << 32, &mut out)?;
    }
    if c.p != b.len() {
        return fault("DV-45", format!("{} bytes after the last bitmap", b.len() - c.p), "none");
    }
    Ok(out)
}

fn bitmap(c: &mut Cur, base: u64, out: &mut Positions) -> Result<(), Fault> {
    let start = c.p;
    let cookie = c.u32("DV-41", "the cookie")?;
    let (count, runs) = match cookie {
        12346 => (c.u32("DV-41", "the container count")? as usize, None),
        k if k & 0xffff == 12347 => {
            let n = (k >> 16) as usize + 1;
            (n, Some(c.take(n.div_ceil(8), "DV-41", "the run flags")?))
        }
        k => {
            return fault("DV-41", format!("cookie {k}"), "12346, or 12347 with the count");
        }
    };
    if count > 65536 {
        return fault("DV-41", format!("{count} containers"), "at most 65536");
    }
    let mut heads = Vec::with_capacity(count);
    for _ in 0..count {
        let (k, n) = (c.u16("DV-42", "a container header")?, c.u16("DV-42", "a container header")?);
        if heads.last().is_some_and(|(p, _)| *p >= k) {
            return fault("DV-45", format!("container key {k} out of order"), "ascending keys");
        }
        heads.push((k, u32::from(n) + 1));
    }
    let offsets: Option<Vec<u32>> = if runs.is_none() || count >= 4 {
        Some((0..count).map(|_| c.u32("DV-43", "the offset header")).collect::<Result<_, _>>()?)
    } else {
        None
    };
    for (i, (key, card)) in heads.iter().enumerate() {
        if let Some(o) = &offsets
            && o[i] as usize != c.p - start
        {
            return fault("DV-43", format!("offset {} of container {i}", o[i]), c.p - start);
        }
        let hi = base | u64::from(*key) << 16;
        let run = runs.is_some_and(|f| f[i / 8] >> (i % 8) & 1 == 1);
        let before = out.cardinality;
        if run {
            let n = c.u16("DV-44", "a run count")?;
            let mut next = 0u32;
            for k in 0..n {
                let (a, l) = (u32::from(c.u16("DV-44", "a run")?), u32::from(c.u16("DV-44", "a run")?));
                if (k > 0 && a < next) || a + l > 0xffff {
                    return fault(
                        "DV-45",
                        format!("run [{a}, {}] in container {i}", a + l),
                        "sorted, disjoint runs below 65536",
                    );
                }
                next = a + l + 1;
                out.push(hi + u64::from(a), hi + u64::from(a + l));
            }
        } else if *card <= 4096 {
            let mut prev: Option<u16> = None;
            for _ in 0..*card {
                let v = c.u16("DV-44", "an array container")?;
                if prev.is_some_and(|p| p >= v) {
                    return fault(
                        "DV-45",
                        format!("value {v} out of order in container {i}"),
                        "sorted, distinct values",
                    );
                }
                prev = Some(v);
                out.push(hi + u64::from(v), hi + u64::from(v));
            }
        } else {
            let w = c.take(8192, "DV-44", "a bitset container")?;
            for (k, b) in w.iter().enumerate().filter(|(_, b)| **b != 0) {
                for bit in 0..8 {
                    if b >> bit & 1 == 1 {
                        let v = hi + (k as u64) * 8 + bit;
                        out.push(v, v);
                    }
                }
            }
        }
        let real = out.cardinality - before;
        if real != u64::from(*card) {
            return fault(
                "DV-45",
                format!("container {i} declares {card} values and holds {real}"),
                "the declared cardinality",
            );
        }
    }
    Ok(())
}
