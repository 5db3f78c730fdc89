//! What goes into a statement and what comes out: integers, texts, 16-byte ids, bytes.
//!
//! Nulls are typed, because a database may have to know what it is that is missing.

use std::sync::Arc;

use ax_core::{Error, ErrorKind, Timestamp};

use crate::store::Sql;

/// One parameter or column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// A BIGINT.
    Int(Option<i64>),
    /// A TEXT.
    Text(Option<Arc<str>>),
    /// A 16-byte id or token.
    Id(Option<[u8; 16]>),
    /// Other bytes.
    Bytes(Arc<[u8]>),
}

impl Value {
    /// Whether there is nothing in it.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Int(None) | Self::Text(None) | Self::Id(None))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Self {
        Self::Int(Some(value.as_millis()))
    }
}

impl From<Option<Timestamp>> for Value {
    fn from(value: Option<Timestamp>) -> Self {
        Self::Int(value.map(Timestamp::as_millis))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Some(Arc::from(value)))
    }
}

impl From<&Arc<str>> for Value {
    fn from(value: &Arc<str>) -> Self {
        Self::Text(Some(Arc::clone(value)))
    }
}

impl From<Arc<str>> for Value {
    fn from(value: Arc<str>) -> Self {
        Self::Text(Some(value))
    }
}

impl From<Option<&str>> for Value {
    fn from(value: Option<&str>) -> Self {
        Self::Text(value.map(Arc::from))
    }
}

impl From<&Option<Arc<str>>> for Value {
    fn from(value: &Option<Arc<str>>) -> Self {
        Self::Text(value.clone())
    }
}

impl From<&[u8; 16]> for Value {
    fn from(value: &[u8; 16]) -> Self {
        Self::Id(Some(*value))
    }
}

impl From<Option<&[u8; 16]>> for Value {
    fn from(value: Option<&[u8; 16]>) -> Self {
        Self::Id(value.copied())
    }
}

/// One row of a result, with the statement it came from for the sake of messages.
#[derive(Clone, Debug)]
pub struct Row {
    sql: Sql,
    values: Box<[Value]>,
}

impl Row {
    /// The row that `sql` returned.
    #[must_use]
    pub fn new(sql: Sql, values: impl Into<Box<[Value]>>) -> Self {
        Self {
            sql,
            values: values.into(),
        }
    }

    /// All columns.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The error of a column that does not hold what its place promises.
    #[must_use]
    pub fn corrupt(&self, column: usize, expected: &str) -> Error {
        let found = self.values.get(column);
        let sql = self.sql;
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "column {column} of {sql:?} holds {found:?} instead of {expected}; repair or delete the row"
            ),
        )
    }

    /// An integer that must be there.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when the column is missing, null, or something else; likewise for the others.
    pub fn int(&self, column: usize) -> Result<i64, Error> {
        match self.values.get(column) {
            Some(Value::Int(Some(value))) => Ok(*value),
            _ => Err(self.corrupt(column, "an integer")),
        }
    }

    /// An integer or null.
    ///
    /// # Errors
    /// As [`Row::int`].
    pub fn int_opt(&self, column: usize) -> Result<Option<i64>, Error> {
        match self.values.get(column) {
            Some(Value::Int(value)) => Ok(*value),
            Some(value) if value.is_null() => Ok(None),
            _ => Err(self.corrupt(column, "an integer or null")),
        }
    }

    /// An instant.
    ///
    /// # Errors
    /// As [`Row::int`].
    pub fn time(&self, column: usize) -> Result<Timestamp, Error> {
        self.int(column).map(Timestamp::from_millis)
    }

    /// An instant or null.
    ///
    /// # Errors
    /// As [`Row::int`].
    pub fn time_opt(&self, column: usize) -> Result<Option<Timestamp>, Error> {
        Ok(self.int_opt(column)?.map(Timestamp::from_millis))
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// As [`Row::int`].
    pub fn text(&self, column: usize) -> Result<&Arc<str>, Error> {
        match self.values.get(column) {
            Some(Value::Text(Some(value))) => Ok(value),
            _ => Err(self.corrupt(column, "a text")),
        }
    }

    /// A text or null.
    ///
    /// # Errors
    /// As [`Row::int`].
    pub fn text_opt(&self, column: usize) -> Result<Option<&Arc<str>>, Error> {
        match self.values.get(column) {
            Some(Value::Text(value)) => Ok(value.as_ref()),
            Some(value) if value.is_null() => Ok(None),
            _ => Err(self.corrupt(column, "a text or null")),
        }
    }

    /// A 16-byte id that must be there.
    ///
    /// # Errors
    /// As [`Row::int`].
    pub fn id(&self, column: usize) -> Result<[u8; 16], Error> {
        match self.values.get(column) {
            Some(Value::Id(Some(value))) => Ok(*value),
            _ => Err(self.corrupt(column, "a 16-byte id")),
        }
    }

    /// A 16-byte id or null.
    ///
    /// # Errors
    /// As [`Row::int`].
    pub fn id_opt(&self, column: usize) -> Result<Option<[u8; 16]>, Error> {
        match self.values.get(column) {
            Some(Value::Id(value)) => Ok(*value),
            Some(value) if value.is_null() => Ok(None),
            _ => Err(self.corrupt(column, "a 16-byte id or null")),
        }
    }
}
