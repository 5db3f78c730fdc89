//! How attempts and tasks end.
//!
//! In: what a handler returned. Out: [`JobError`] for the engine's decision, [`Outcome`] for the caller,
//! [`AttemptEnd`] for the history of an attempt that did not end its task.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Error, State};

/// What a handler returns.
pub type JobResult<T> = Result<T, JobError>;

/// What the engine does about a [`JobError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobErrorKind {
    /// Try again by the job's policy.
    Retry,
    /// Trying again is useless: dead letter.
    Terminal,
    /// Try again after this time; spends an attempt.
    RetryAfter(Duration),
    /// Not now: run after this time; spends no attempt.
    Snooze(Duration),
    /// The task is to end as canceled.
    Canceled,
}

/// Why a handler did not succeed. Made from any error by `?`, also from `anyhow`, `eyre` and strings.
///
/// It is itself not a [`std::error::Error`]; that is what lets `?` take every other error.
#[derive(Clone, PartialEq, Eq)]
pub struct JobError {
    kind: JobErrorKind,
    message: String,
}

impl JobError {
    /// An error with this text; the task is tried again by policy.
    #[must_use]
    pub fn msg(message: impl fmt::Display) -> Self {
        Self {
            kind: JobErrorKind::Retry,
            message: message.to_string(),
        }
    }

    /// Not now: runs again after `delay` without spending an attempt.
    #[must_use]
    pub fn snooze(delay: Duration) -> Self {
        Self {
            kind: JobErrorKind::Snooze(delay),
            message: "snoozed by the handler".to_owned(),
        }
    }

    /// Ends the task as canceled.
    #[must_use]
    pub fn canceled() -> Self {
        Self {
            kind: JobErrorKind::Canceled,
            message: "canceled by the handler".to_owned(),
        }
    }

    /// The same error, but trying again is useless.
    #[must_use]
    pub fn terminal(self) -> Self {
        Self {
            kind: JobErrorKind::Terminal,
            ..self
        }
    }

    /// The same error, tried again after `delay` instead of the policy's.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self {
            kind: JobErrorKind::RetryAfter(delay),
            ..self
        }
    }

    /// What the engine does about it.
    #[must_use]
    pub const fn kind(&self) -> JobErrorKind {
        self.kind
    }

    /// The text, causes joined with `: `.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self {
            kind: JobErrorKind::Retry,
            message: with_causes(&*error.into()),
        }
    }
}

/// The error's text with its causes; a cause that the text already ends with is not repeated.
fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.message, self.kind)
    }
}

/// Turns any `Result` into a [`JobResult`] with a decision about trying again.
pub trait ResultExt<T> {
    /// An error here means that trying again is useless.
    ///
    /// # Errors
    /// The error, as [`JobErrorKind::Terminal`].
    fn or_terminal(self) -> JobResult<T>;

    /// An error here means trying again after `delay`.
    ///
    /// # Errors
    /// The error, as [`JobErrorKind::RetryAfter`].
    fn or_retry_after(self, delay: Duration) -> JobResult<T>;
}

impl<T, E: Into<JobError>> ResultExt<T> for Result<T, E> {
    fn or_terminal(self) -> JobResult<T> {
        self.map_err(|error| error.into().terminal())
    }

    fn or_retry_after(self, delay: Duration) -> JobResult<T> {
        self.map_err(|error| error.into().retry_after(delay))
    }
}

/// How a task ended, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "value", rename_all = "snake_case")]
pub enum Outcome<T> {
    /// It succeeded with this result.
    Succeeded(T),
    /// It failed for good; it stands in the list of dead letters.
    Failed {
        /// The last attempt's error.
        error: String,
    },
    /// It was canceled.
    Canceled,
    /// Its deadline passed before it started.
    Expired,
    /// Its workflow left it out.
    Skipped,
    /// A step that it needs did not succeed.
    UpstreamFailed,
}

impl<T> Outcome<T> {
    /// The final state that this outcome belongs to.
    #[must_use]
    pub const fn state(&self) -> State {
        match self {
            Self::Succeeded(_) => State::Succeeded,
            Self::Failed { .. } => State::Failed,
            Self::Canceled => State::Canceled,
            Self::Expired => State::Expired,
            Self::Skipped => State::Skipped,
            Self::UpstreamFailed => State::UpstreamFailed,
        }
    }

    /// The result, if there is one.
    #[must_use]
    pub fn ok(self) -> Option<T> {
        match self {
            Self::Succeeded(value) => Some(value),
            _ => None,
        }
    }

    /// The same outcome with its result turned into something else.
    ///
    /// # Errors
    /// What `read` returns; it is called only for [`Outcome::Succeeded`].
    pub fn try_map<U, E>(self, read: impl FnOnce(T) -> Result<U, E>) -> Result<Outcome<U>, E> {
        Ok(match self {
            Self::Succeeded(value) => Outcome::Succeeded(read(value)?),
            Self::Failed { error } => Outcome::Failed { error },
            Self::Canceled => Outcome::Canceled,
            Self::Expired => Outcome::Expired,
            Self::Skipped => Outcome::Skipped,
            Self::UpstreamFailed => Outcome::UpstreamFailed,
        })
    }
}

/// Why an attempt that did not end its task ended. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i16)]
pub enum AttemptEnd {
    /// The handler failed; another try follows.
    Retried = 1,
    /// The handler asked to run later.
    Snoozed = 2,
    /// Its node stopped, or never started it.
    Released = 3,
    /// The handler sleeps durably or waits for an event.
    Waited = 4,
    /// Its worker died.
    Lost = 5,
    /// It ran longer than allowed; another try follows.
    TimedOut = 6,
}

impl AttemptEnd {
    /// All reasons in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Retried,
        Self::Snoozed,
        Self::Released,
        Self::Waited,
        Self::Lost,
        Self::TimedOut,
    ];

    /// The stored number.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The reason of a stored number.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.code() == code)
    }

    /// The word used in JSON and texts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
            Self::Waited => "waited",
            Self::Lost => "lost",
            Self::TimedOut => "timed_out",
        }
    }
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for AttemptEnd {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|end| end.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                Error::invalid(format!(
                    "\"{}\" is not an attempt end; use one of {known}",
                    crate::clean_text(text, 64)
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("read the invoice")
        }
    }

    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    fn parse(text: &str) -> JobResult<u8> {
        Ok(text.parse::<u8>()?)
    }

    #[test]
    fn question_mark_takes_every_error() {
        assert_eq!(parse("7").unwrap(), 7);
        let error = parse("x").unwrap_err();
        assert_eq!(error.message(), "invalid digit found in string");
        assert_eq!(error.kind(), JobErrorKind::Retry);
        assert_eq!(JobError::from("plain").message(), "plain");
        assert_eq!(JobError::from(String::from("owned")).message(), "owned");
        let boxed: Box<dyn StdError + Send + Sync> = "boxed".into();
        assert_eq!(JobError::from(boxed).message(), "boxed");
    }

    #[test]
    fn causes_are_joined_once() {
        let error = JobError::from(Outer(io::Error::other("disk is full")));
        assert_eq!(error.message(), "read the invoice: disk is full");
        // io::Error::other shows its inner error itself and names it as its source too.
        let nested = JobError::from(io::Error::other(Outer(io::Error::other("gone"))));
        assert_eq!(nested.message(), "read the invoice: gone");
    }

    #[test]
    fn errors_carry_a_decision() {
        let second = Duration::from_secs(1);
        let broken: Result<(), _> = Err(io::Error::other("x"));
        assert_eq!(
            broken.or_terminal().unwrap_err().kind(),
            JobErrorKind::Terminal
        );
        let broken: Result<(), _> = Err("busy");
        assert_eq!(
            broken.or_retry_after(second).unwrap_err().kind(),
            JobErrorKind::RetryAfter(second)
        );
        let again: JobResult<()> = Err(JobError::msg("again"));
        assert_eq!(
            again.or_terminal().unwrap_err(),
            JobError::msg("again").terminal()
        );
        assert_eq!(
            JobError::snooze(second).kind(),
            JobErrorKind::Snooze(second)
        );
        assert_eq!(JobError::canceled().kind(), JobErrorKind::Canceled);
    }

    #[test]
    fn outcomes_read_back() {
        let done = Outcome::Succeeded(7);
        let text = serde_json::to_string(&done).unwrap();
        assert_eq!(text, r#"{"state":"succeeded","value":7}"#);
        assert_eq!(serde_json::from_str::<Outcome<i32>>(&text).unwrap(), done);
        assert_eq!(done.state(), State::Succeeded);
        assert_eq!(
            Outcome::Succeeded("7")
                .try_map(str::parse::<i32>)
                .unwrap()
                .ok(),
            Some(7)
        );
        let failed = Outcome::<&str>::Failed {
            error: "no".to_owned(),
        }
        .try_map(str::parse::<i32>);
        assert_eq!(failed.unwrap().state(), State::Failed);
        assert_eq!(Outcome::<()>::Expired.ok(), None);
    }

    #[test]
    fn attempt_ends_read_back() {
        for end in AttemptEnd::ALL {
            assert_eq!(AttemptEnd::from_code(end.code()), Some(end));
            assert_eq!(end.as_str().parse::<AttemptEnd>().unwrap(), end);
        }
        assert_eq!(AttemptEnd::from_code(0), None);
    }
}
