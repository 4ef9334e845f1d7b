//! How a source's schema moved since the target was last brought to it: by field id, which the target does not share.

use iceberg::spec::{NestedFieldRef, Type};

/// What became of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// It has another name now.
    Renamed(String),
    /// It was dropped, and another column has its name now (EVO-9).
    Replaced,
    /// It was dropped.
    Dropped,
}

/// The moves that the target has not made, by the path that the target still knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drift(Vec<(Vec<String>, Move)>);

impl Drift {
    /// Compares the source's fields of then and now, as far as the target still has the old ones.
    pub fn of(old: &[NestedFieldRef], new: &[NestedFieldRef], target: &[NestedFieldRef]) -> Self {
        let mut out = Self::default();
        out.walk(&mut Vec::new(), old, new, target);
        out
    }

    fn walk(
        &mut self,
        path: &mut Vec<String>,
        old: &[NestedFieldRef],
        new: &[NestedFieldRef],
        target: &[NestedFieldRef],
    ) {
        for o in old {
            let Some(t) = target.iter().find(|t| t.name == o.name) else { continue };
            path.push(o.name.clone());
            match new.iter().find(|n| n.id == o.id) {
                Some(n) => {
                    if n.name != o.name {
                        self.0.push((path.clone(), Move::Renamed(n.name.clone())));
                    }
                    self.inside(path, &o.field_type, &n.field_type, &t.field_type);
                }
                None if new.iter().any(|n| n.name == o.name) => self.0.push((path.clone(), Move::Replaced)),
                None => self.0.push((path.clone(), Move::Dropped)),
            }
            path.pop();
        }
    }

    fn inside(&mut self, path: &mut Vec<String>, old: &Type, new: &Type, target: &Type) {
        match (old, new, target) {
            (Type::Struct(o), Type::Struct(n), Type::Struct(t)) => self.walk(path, o.fields(), n.fields(), t.fields()),
            (Type::List(o), Type::List(n), Type::List(t)) => {
                path.push("element".into());
                self.inside(
                    path,
                    &o.element_field.field_type,
                    &n.element_field.field_type,
                    &t.element_field.field_type,
                );
                path.pop();
            }
            (Type::Map(o), Type::Map(n), Type::Map(t)) => {
                path.push("value".into());
                self.inside(path, &o.value_field.field_type, &n.value_field.field_type, &t.value_field.field_type);
                path.pop();
            }
            _ => {}
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What became of the column at a path.
    pub fn get(&self, path: &[String]) -> Option<&Move> {
        self.0.iter().find(|(p, _)| p == path).map(|(_, m)| m)
    }

    /// The moves after which old rows of the target would be wrong: a rename, and a name that means another column. (A
    /// dropped column just gets no more values.)
    pub fn harmful(&self) -> impl Iterator<Item = (String, &Move)> {
        self.0.iter().filter(|(_, m)| *m != Move::Dropped).map(|(p, m)| (p.join("."), m))
    }
}
