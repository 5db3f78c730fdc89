//! What can go wrong between the engine and a database, in the few kinds that decide what to do next.

use std::error::Error as StdError;
use std::fmt;

use ax_core::{Error, ErrorKind};

/// A result of the database layer.
pub type DbResult<T> = Result<T, DbError>;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DbErrorKind {
    /// A unique index refused a row.
    Unique,
    /// Deadlock, serialization failure, busy or lock timeout: nothing was done, try the transaction again.
    Retry,
    /// The connection went away: the outcome of what was sent last is unknown.
    Lost,
    /// No connection was to be had: nothing was sent.
    Unreachable,
    /// The server takes no writes now (a fail-over under way, or a read-only file).
    ReadOnly,
    /// A table or column is missing.
    Schema,
    /// No space left.
    Full,
    /// The server's statement timeout, or no free connection in time: nothing was done.
    Timeout,
    /// A stored row cannot be read back.
    Corrupt,
    /// The database was closed by us.
    Closed,
    /// A wrong URL or option.
    Invalid,
    /// The database or feature is not in this build.
    Unsupported,
    /// Anything else.
    Other,
}

impl DbErrorKind {
    /// The kind that callers of the library see.
    #[must_use]
    pub const fn public(self) -> ErrorKind {
        match self {
            Self::Unique => ErrorKind::Conflict,
            Self::Retry | Self::Timeout => ErrorKind::Busy,
            Self::Lost | Self::Unreachable | Self::ReadOnly => ErrorKind::Unavailable,
            Self::Schema => ErrorKind::Schema,
            Self::Full | Self::Other => ErrorKind::Database,
            Self::Corrupt => ErrorKind::Corrupt,
            Self::Closed => ErrorKind::Stopped,
            Self::Invalid => ErrorKind::Invalid,
            Self::Unsupported => ErrorKind::Unsupported,
        }
    }
}

/// An error of the database layer. Its text never holds a URL or a password.
#[derive(Debug)]
pub struct DbError {
    kind: DbErrorKind,
    text: Box<str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl DbError {
    /// An error of this kind; the text says what to do.
    #[must_use]
    pub fn new(kind: DbErrorKind, text: impl Into<Box<str>>) -> Self {
        Self {
            kind,
            text: text.into(),
            source: None,
        }
    }

    /// Keeps the driver's error as the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error seen as another kind.
    #[must_use]
    pub fn as_kind(mut self, kind: DbErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> DbErrorKind {
        self.kind
    }
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for DbError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Self {
        let public = Self::new(error.kind.public(), error.text);
        match error.source {
            Some(source) => public.with_source(source),
            None => public,
        }
    }
}

impl From<Error> for DbError {
    /// A row that cannot be read back, or a value that was refused, on its way through the database layer.
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Corrupt => DbErrorKind::Corrupt,
            ErrorKind::Invalid => DbErrorKind::Invalid,
            ErrorKind::Schema => DbErrorKind::Schema,
            _ => DbErrorKind::Other,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}
