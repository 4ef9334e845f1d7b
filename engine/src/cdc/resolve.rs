//! From raw deletes and inserts to changes: carry-overs cancel, net changes collapse, updates pair (SPARK-3..5, CDC-25).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, FieldRef};
use arrow::row::{Row, RowConverter, Rows, SortField};

use super::reader::Kind;
use crate::types::canonical_nans;
use crate::{Error, Result};

/// Type of a change, as `_change_type` words it (CDC-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeType {
    /// The row is gone.
    Delete,
    /// The row as it was.
    UpdateBefore,
    /// The row as it is now.
    UpdateAfter,
    /// The row is new.
    Insert,
}

impl ChangeType {
    /// The words of all, as messages list them.
    pub const WORDS: [&'static str; 4] =
        [Self::Insert.as_str(), Self::UpdateBefore.as_str(), Self::UpdateAfter.as_str(), Self::Delete.as_str()];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::UpdateBefore => "UPDATE_BEFORE",
            Self::UpdateAfter => "UPDATE_AFTER",
            Self::Insert => "INSERT",
        }
    }
}

/// What makes a delete and an insert an update of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Nothing.
    None,
    /// Equal key columns (the last columns of the collected batches).
    Key,
    /// Equal non-null `_row_id` (CDC-25).
    RowId,
}

/// A batch of rows to be resolved; all rows share kind and ordinal.
#[derive(Debug)]
pub struct Collected {
    /// Output columns, then key columns.
    pub rows: RecordBatch,
    /// Kind.
    pub kind: Kind,
    /// Ordinal of the snapshot in the scan.
    pub ordinal: u32,
    /// `_row_id`.
    pub row_ids: Int64Array,
}

/// A resolved row: where it is, and as what it is reported.
#[derive(Debug, Clone, Copy)]
pub struct Resolved {
    /// Batch and row.
    pub at: (usize, usize),
    /// Type.
    pub change: ChangeType,
    /// Ordinal it is reported under.
    pub ordinal: u32,
}

/// Encodes columns so that equal bytes are equal rows; null equals null (SPARK-7).
pub struct Encoder(RowConverter);

impl Encoder {
    /// An encoder of columns of these types; maps are compared entry by entry in stored order.
    pub fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Result<Self> {
        Ok(Self(RowConverter::new(types.into_iter().map(|t| SortField::new(rowable_type(t))).collect())?))
    }

    /// The rows.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns = columns.iter().map(rowable).collect::<Result<Vec<_>>>()?;
        Ok(self.0.convert_columns(&columns)?)
    }
}

fn rowable_type(t: &DataType) -> DataType {
    let field = |f: &FieldRef| Arc::new(f.as_ref().clone().with_data_type(rowable_type(f.data_type())));
    match t {
        DataType::Map(entries, _) => DataType::List(field(entries)),
        DataType::List(f) => DataType::List(field(f)),
        DataType::Struct(fs) => DataType::Struct(fs.iter().map(field).collect()),
        t => t.clone(),
    }
}

/// The row format knows no maps: they become lists of their entries.
fn rowable(a: &ArrayRef) -> Result<ArrayRef> {
    let wanted = rowable_type(a.data_type());
    let item = |t: &DataType| -> Result<FieldRef> {
        match t {
            DataType::List(f) => Ok(f.clone()),
            _ => Err(Error::internal("a list was expected")),
        }
    };
    Ok(match a.data_type() {
        // every NaN is the same value
        DataType::Float32 | DataType::Float64 => canonical_nans(a.clone()),
        DataType::Map(..) => {
            let m: &MapArray = a.as_map();
            let entries = rowable(&(Arc::new(m.entries().clone()) as ArrayRef))?;
            Arc::new(ListArray::try_new(item(&wanted)?, m.offsets().clone(), entries, m.nulls().cloned())?)
        }
        DataType::List(_) if wanted != *a.data_type() => {
            let l: &ListArray = a.as_list();
            Arc::new(ListArray::try_new(item(&wanted)?, l.offsets().clone(), rowable(l.values())?, l.nulls().cloned())?)
        }
        DataType::Struct(_) if wanted != *a.data_type() => {
            let s: &StructArray = a.as_struct();
            let columns = s.columns().iter().map(rowable).collect::<Result<Vec<_>>>()?;
            let DataType::Struct(fields) = wanted else {
                return Err(Error::internal("a struct was expected"));
            };
            Arc::new(StructArray::try_new_with_length(fields, columns, s.nulls().cloned(), s.len())?)
        }
        _ => a.clone(),
    })
}

#[derive(Clone, Copy)]
struct Event {
    batch: usize,
    row: usize,
    kind: Kind,
    ordinal: u32,
}

/// Resolves the rows of one unit: one snapshot, or with net changes the whole range. `keys` = number of key columns at the
/// end of each batch. The result is ordered by ordinal; in it deletes come before inserts and the images of an update are
/// neighbours.
pub fn resolve(batches: &[Collected], keys: usize, pairing: Pairing) -> Result<Vec<Resolved>> {
    let Some(first) = batches.first() else {
        return Ok(Vec::new());
    };
    let total = first.rows.num_columns();
    let types =
        |from: usize| -> Vec<DataType> { (from..total).map(|i| first.rows.column(i).data_type().clone()).collect() };
    let encode = |from: usize| -> Result<Vec<Rows>> {
        let encoder = Encoder::new(&types(from))?;
        batches.iter().map(|b| encoder.encode(&b.rows.columns()[from..])).collect()
    };
    let values = encode(0)?;
    let mut events: Vec<Event> = Vec::new();
    for (b, c) in batches.iter().enumerate() {
        events.extend((0..c.rows.num_rows()).map(|row| Event { batch: b, row, kind: c.kind, ordinal: c.ordinal }));
    }
    // stable: rows of one snapshot and kind stay in the order in which they were read
    events.sort_by_key(|e| (e.ordinal, e.kind));
    let mut out = match pairing {
        Pairing::None => net(events, |e| values[e.batch].row(e.row)).into_iter().map(plain).collect(),
        Pairing::Key => {
            let key_rows = encode(total - keys)?;
            let left = net(events, |e| values[e.batch].row(e.row));
            let (pairs, rest) = pair(left, |e| Some(key_rows[e.batch].row(e.row)));
            images(pairs).chain(rest.into_iter().map(plain)).collect::<Vec<_>>()
        }
        Pairing::RowId => {
            let id = |e: &Event| {
                let ids = &batches[e.batch].row_ids;
                ids.is_valid(e.row).then(|| ids.value(e.row))
            };
            // the same row first: what it went through inside the range collapses
            let left = net(events, |e| (id(e), values[e.batch].row(e.row)));
            let (pairs, rest) = pair(left, id);
            // rows without a partner that are equal in value cancel as they do without lineage
            let rest = net(rest, |e| values[e.batch].row(e.row));
            images(pairs).chain(rest.into_iter().map(plain)).collect()
        }
    };
    out.sort_by_key(|r: &Resolved| r.ordinal);
    Ok(out)
}

fn plain(e: Event) -> Resolved {
    let change = match e.kind {
        Kind::Delete => ChangeType::Delete,
        Kind::Insert => ChangeType::Insert,
    };
    Resolved { at: (e.batch, e.row), change, ordinal: e.ordinal }
}

/// Images of updates; both are reported where the new image came.
fn images(pairs: Vec<(Event, Event)>) -> impl Iterator<Item = Resolved> {
    pairs.into_iter().flat_map(|(d, i)| {
        [
            Resolved { at: (d.batch, d.row), change: ChangeType::UpdateBefore, ordinal: i.ordinal.max(d.ordinal) },
            Resolved { at: (i.batch, i.row), change: ChangeType::UpdateAfter, ordinal: i.ordinal.max(d.ordinal) },
        ]
    })
}

/// A run of equal rows of one kind that nothing has cancelled yet.
struct Run {
    first: Event,
    count: usize,
}

/// Cancels equal rows of opposite kind pairwise, in order; what is left are copies of the first row of its run (SPARK-4), so
/// multiplicity is kept (case G8).
fn net<K: std::hash::Hash + Eq>(events: Vec<Event>, key: impl Fn(&Event) -> K) -> Vec<Event> {
    let mut runs: HashMap<K, Run> = HashMap::with_capacity(events.len());
    for e in &events {
        let run = runs.entry(key(e)).or_insert(Run { first: *e, count: 0 });
        if run.count == 0 {
            *run = Run { first: *e, count: 1 };
        } else if run.first.kind == e.kind {
            run.count += 1;
        } else {
            run.count -= 1;
        }
    }
    let mut out: Vec<Event> = runs.into_values().flat_map(|r| std::iter::repeat_n(r.first, r.count)).collect();
    out.sort_by_key(|e| (e.ordinal, e.kind, e.batch, e.row));
    out
}

/// Pairs deletes with inserts of the same key, in order; rows whose key is `None` stay alone.
fn pair<K: std::hash::Hash + Eq>(
    events: Vec<Event>,
    key: impl Fn(&Event) -> Option<K>,
) -> (Vec<(Event, Event)>, Vec<Event>) {
    let mut deletes: HashMap<K, std::collections::VecDeque<usize>> = HashMap::new();
    for (i, e) in events.iter().enumerate().filter(|(_, e)| e.kind == Kind::Delete) {
        if let Some(k) = key(e) {
            deletes.entry(k).or_default().push_back(i);
        }
    }
    let mut used = vec![false; events.len()];
    let mut pairs = Vec::new();
    for (i, e) in events.iter().enumerate().filter(|(_, e)| e.kind == Kind::Insert) {
        let Some(d) = key(e).and_then(|k| deletes.get_mut(&k)).and_then(std::collections::VecDeque::pop_front) else {
            continue;
        };
        used[d] = true;
        used[i] = true;
        pairs.push((events[d], *e));
    }
    let rest = events.iter().zip(used).filter(|(_, u)| !u).map(|(e, _)| *e).collect();
    (pairs, rest)
}

/// Hash of an encoded row, the same in every pass over the data.
pub fn row_hash(row: Row<'_>) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(row.as_ref())
}
