//! A small map by field id: sorted pairs in one piece of memory, for there is one for each metric of each file.

use std::ops::Index;

/// Values by field id, in the order of the ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ById<V>(Vec<(i32, V)>);

impl<V> Default for ById<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> ById<V> {
    /// An empty one with room for `n` values.
    pub fn with_capacity(n: usize) -> Self {
        Self(Vec::with_capacity(n))
    }

    fn find(&self, id: i32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |p| p.0)
    }

    /// The value of an id.
    pub fn get(&self, id: &i32) -> Option<&V> {
        self.find(*id).ok().map(|i| &self.0[i].1)
    }

    /// Whether an id has a value.
    pub fn contains_key(&self, id: &i32) -> bool {
        self.find(*id).is_ok()
    }

    /// Sets the value of an id; the one that it had.
    pub fn insert(&mut self, id: i32, value: V) -> Option<V> {
        // writers go by the ids' order, mostly
        if self.0.last().is_none_or(|p| p.0 < id) {
            self.0.push((id, value));
            return None;
        }
        match self.find(id) {
            Ok(i) => Some(std::mem::replace(&mut self.0[i].1, value)),
            Err(i) => {
                self.0.insert(i, (id, value));
                None
            }
        }
    }

    /// Adds a pair as it comes; [`Self::settle`] puts all in order.
    pub(super) fn push(&mut self, id: i32, value: V) {
        self.0.push((id, value));
    }

    /// Puts pushed pairs in order; of an id that came twice the last value counts. Takes n log n time whatever the order was.
    pub(super) fn settle(&mut self) {
        if self.0.is_sorted_by(|a, b| a.0 < b.0) {
            return;
        }
        self.0.sort_by_key(|p| p.0);
        self.0.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                std::mem::swap(next, kept);
            }
            same
        });
    }

    /// The value of an id, made where there is none.
    pub fn get_or_default(&mut self, id: i32) -> &mut V
    where
        V: Default,
    {
        let i = match self.find(id) {
            Ok(i) => i,
            Err(i) => {
                self.0.insert(i, (id, V::default()));
                i
            }
        };
        &mut self.0[i].1
    }

    /// Ids and values.
    pub fn iter(&self) -> impl Iterator<Item = (&i32, &V)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// The ids.
    pub fn keys(&self) -> impl Iterator<Item = &i32> {
        self.0.iter().map(|p| &p.0)
    }

    /// How many ids have values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> Index<&i32> for ById<V> {
    type Output = V;

    /// # Panics
    /// When the id has no value.
    fn index(&self, id: &i32) -> &V {
        self.get(id).expect("a value of this id")
    }
}

impl<V> FromIterator<(i32, V)> for ById<V> {
    fn from_iter<I: IntoIterator<Item = (i32, V)>>(pairs: I) -> Self {
        let mut out = Self(pairs.into_iter().collect());
        out.settle();
        out
    }
}

impl<V, const N: usize> From<[(i32, V); N]> for ById<V> {
    fn from(pairs: [(i32, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}
