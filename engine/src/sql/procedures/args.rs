//! Arguments of a procedure.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;

use crate::sql::ast::Name;
use crate::sql::session::timestamp_ms;
use crate::{Error, Result};

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    name: &'static str,
    required: bool,
}

impl Parameter {
    /// One that must be given.
    pub(crate) const fn required(name: &'static str) -> Self {
        Self { name, required: true }
    }

    /// One that may be left out.
    pub(crate) const fn optional(name: &'static str) -> Self {
        Self { name, required: false }
    }
}

/// The arguments of one call, by parameter. A null counts as not given.
#[derive(Debug)]
pub(crate) struct Args {
    procedure: String,
    values: BTreeMap<&'static str, ScalarValue>,
}

impl Args {
    /// Matches arguments to parameters: by position, then by name.
    pub(crate) fn new(
        procedure: &str,
        parameters: &[Parameter],
        given: Vec<(Option<String>, ScalarValue)>,
    ) -> Result<Self> {
        let names = || parameters.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        let mut values = BTreeMap::new();
        for (i, (name, value)) in given.into_iter().enumerate() {
            let parameter = match &name {
                Some(n) => parameters.iter().find(|p| p.name.eq_ignore_ascii_case(n)),
                None => parameters.get(i),
            };
            let Some(parameter) = parameter else {
                let what = name.map_or_else(|| format!("argument {}", i + 1), |n| format!("parameter {n}"));
                return Err(Error::invalid(format!("{procedure} has no {what}; it has: {}", names())));
            };
            if values.insert(parameter.name, value).is_some() {
                return Err(Error::invalid(format!("{procedure}: {} is given twice", parameter.name)));
            }
        }
        values.retain(|_, v| !v.is_null());
        if let Some(missing) = parameters.iter().find(|p| p.required && !values.contains_key(p.name)) {
            return Err(Error::invalid(format!("{procedure} needs {}; its parameters: {}", missing.name, names())));
        }
        Ok(Self { procedure: procedure.to_string(), values })
    }

    fn wrong(&self, name: &str, want: &str) -> Error {
        let found = self.values.get(name).map_or_else(|| "nothing".to_string(), ToString::to_string);
        Error::invalid(format!("{}: {name} is {want}, not {found}", self.procedure))
    }

    /// A string.
    pub(crate) fn string(&self, name: &str) -> Result<Option<String>> {
        match self.values.get(name) {
            None => Ok(None),
            Some(ScalarValue::Utf8(Some(s)) | ScalarValue::LargeUtf8(Some(s)) | ScalarValue::Utf8View(Some(s))) => {
                Ok(Some(s.clone()))
            }
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// A string that must be given.
    pub(crate) fn need_string(&self, name: &str) -> Result<String> {
        self.string(name)?.ok_or_else(|| self.wrong(name, "a string"))
    }

    /// The table that parameter `table` names.
    pub(crate) fn table(&self) -> Result<Name> {
        let text = self.need_string("table")?;
        match crate::sql::parser::parse_name(&text) {
            Ok(name) => Ok(name),
            Err(e) => Err(e.at("table")),
        }
    }

    /// An integer.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>> {
        match self.values.get(name) {
            None => Ok(None),
            Some(v) => match v.data_type().is_integer().then(|| v.cast_to(&DataType::Int64)) {
                Some(Ok(ScalarValue::Int64(Some(n)))) => Ok(Some(n)),
                _ => Err(self.wrong(name, "an integer")),
            },
        }
    }

    /// An integer that must be given.
    pub(crate) fn need_integer(&self, name: &str) -> Result<i64> {
        self.integer(name)?.ok_or_else(|| self.wrong(name, "an integer"))
    }

    /// A boolean.
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>> {
        match self.values.get(name) {
            None => Ok(None),
            Some(ScalarValue::Boolean(Some(b))) => Ok(Some(*b)),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    /// A time, in milliseconds since the epoch.
    pub(crate) fn time_ms(&self, name: &str) -> Result<Option<i64>> {
        match self.values.get(name) {
            None => Ok(None),
            Some(v) => timestamp_ms(v).map(Some).ok_or_else(|| self.wrong(name, "a timestamp")),
        }
    }

    /// An array of strings.
    pub(crate) fn strings(&self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(v) = self.values.get(name) else {
            return Ok(None);
        };
        let ScalarValue::List(list) = v else {
            return Err(self.wrong(name, "an array of strings"));
        };
        Ok(Some(texts(list.value(0).as_ref()).ok_or_else(|| self.wrong(name, "an array of strings"))?))
    }

    /// An array of integers.
    pub(crate) fn integers(&self, name: &str) -> Result<Option<Vec<i64>>> {
        let Some(v) = self.values.get(name) else {
            return Ok(None);
        };
        let wrong = || self.wrong(name, "an array of integers");
        let ScalarValue::List(list) = v else {
            return Err(wrong());
        };
        let values = arrow::compute::cast(&list.value(0), &DataType::Int64).map_err(|_| wrong())?;
        Ok(Some(values.as_primitive::<arrow::datatypes::Int64Type>().iter().flatten().collect()))
    }

    /// A map of strings.
    pub(crate) fn map(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let Some(v) = self.values.get(name) else {
            return Ok(BTreeMap::new());
        };
        let wrong = || self.wrong(name, "a map of strings");
        let ScalarValue::Map(map) = v else {
            return Err(wrong());
        };
        let entries = map.value(0);
        let keys = texts(entries.column(0).as_ref()).ok_or_else(wrong)?;
        let values = texts(entries.column(1).as_ref()).ok_or_else(wrong)?;
        Ok(keys.into_iter().zip(values).collect())
    }
}

fn texts(array: &dyn Array) -> Option<Vec<String>> {
    if array.data_type().is_nested() {
        return None;
    }
    let text = crate::sql::functions::spark_strings(array).ok()?;
    text.iter().map(|v| v.map(str::to_string)).collect()
}
