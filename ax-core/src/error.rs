//! The one error type of the library: a coarse kind for code, a sentence for people.
//!
//! In: the place that failed and what to do about it. Out: a value that every room returns.
//! Losing a race is never an error (it is an `Option` or a `bool`), and what a handler returns is
//! [`JobError`](crate::JobError), not this.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What kind of thing went wrong, for code that decides by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value given by the caller can never work; the text names it and its limits.
    Invalid,
    /// Nothing has this id or name.
    NotFound,
    /// The thing exists already, or its state does not allow what was asked.
    Conflict,
    /// The database answered with an error that is none of the others.
    Database,
    /// The database or the engine cannot be reached now; asking again later may work.
    Unavailable,
    /// Too much is under way, or a lock was not to be had in time; asking again later may work.
    Busy,
    /// The schema is missing, too old or too new for this program.
    Schema,
    /// No job of this name is registered where it has to be.
    Unregistered,
    /// The engine is shutting down or has stopped.
    Stopped,
    /// A stored row or document cannot be read back.
    Corrupt,
    /// The given time ran out before an answer came.
    Timeout,
    /// The database does not offer what was asked for.
    Unsupported,
}

impl ErrorKind {
    /// The kind as a lower-case word, the same in logs and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Database => "database",
            Self::Unavailable => "unavailable",
            Self::Busy => "busy",
            Self::Schema => "schema",
            Self::Unregistered => "unregistered",
            Self::Stopped => "stopped",
            Self::Corrupt => "corrupt",
            Self::Timeout => "timeout",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An opaque error: [`kind`](Error::kind) for code, `Display` for people, `source` for logs.
///
/// The text is a lower-case fragment that fits "failed to …: {error}" and says what to do.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    text: Box<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` whose text says what is wrong and what to do.
    #[must_use]
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        let text = text.into().into_boxed_str();
        Self {
            kind,
            text,
            source: None,
        }
    }

    /// An error of kind [`ErrorKind::Invalid`].
    #[must_use]
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    /// Keeps the error that caused this one; it stays reachable by `source()`.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Puts a fragment in front of the text: `submit job "a": payload …`.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.text = format!("{doing}: {}", self.text).into_boxed_str();
        self
    }

    /// The kind, for code that decides by it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.kind)?;
        let mut cause = StdError::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_text_kind_and_cause() {
        let error = Error::new(ErrorKind::Database, "read the row")
            .with_source(std::io::Error::other("disk is full"))
            .context("claim");
        assert_eq!(error.to_string(), "claim: read the row");
        assert_eq!(
            format!("{error:?}"),
            "claim: read the row (database): disk is full"
        );
        assert_eq!(error.clone().kind(), ErrorKind::Database);
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("disk is full")
        );
    }
}
