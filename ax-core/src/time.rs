//! Instants as integer milliseconds, and durations as people write them.
//!
//! In: milliseconds since 1970 UTC, or texts such as `1h 30m`. Out: [`Timestamp`] with saturating and
//! checked arithmetic (nothing here wraps or panics). Never asks any clock what time it is.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest duration that any option takes: 100 years of 365 days.
pub const MAX_DELAY: Duration = days(36_500);

/// An instant in milliseconds since 1970-01-01T00:00:00Z, as stored in every time column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// "Never": the `ready_at` of a row that waits for something other than time.
    pub const MAX: Self = Self(i64::MAX);
    /// The earliest instant that a caller may give: 1970-01-01T00:00:00Z.
    pub const MIN_VALID: Self = Self(0);
    /// The latest instant that a caller may give: 9999-12-31T23:59:59.999Z.
    pub const MAX_VALID: Self = Self(253_402_300_799_999);

    /// The instant `millis` milliseconds after 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This instant moved forward by whole milliseconds, [`Timestamp::MAX`] when it does not fit.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        self.checked_plus(span).unwrap_or(Self::MAX)
    }

    /// This instant moved forward by whole milliseconds, `None` when it does not fit.
    #[must_use]
    pub fn checked_plus(self, span: Duration) -> Option<Self> {
        let millis = i64::try_from(span.as_millis()).ok()?;
        self.0.checked_add(millis).map(Self)
    }

    /// This instant moved back by whole milliseconds, stopping at the smallest number.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis))
    }

    /// The time from `earlier` to here, zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// The instant of a calendar date and time, cut to milliseconds.
    #[must_use]
    pub fn from_datetime(at: DateTime<Utc>) -> Self {
        Self(at.timestamp_millis())
    }

    /// The calendar date and time, `None` when the calendar does not reach that far.
    #[must_use]
    pub fn to_datetime(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_millis(self.0)
    }

    /// Whether a caller may give this instant: from 1970 to 9999.
    #[must_use]
    pub fn is_valid(self) -> bool {
        (Self::MIN_VALID..=Self::MAX_VALID).contains(&self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_datetime() {
            _ if *self == Self::MAX => f.write_str("never"),
            Some(at) => f.write_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true)),
            None => write!(f, "{} ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({self})")
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// Reads RFC 3339 (`2026-03-08T02:30:00Z`, any offset) or `never`.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "never" {
            return Ok(Self::MAX);
        }
        DateTime::parse_from_rfc3339(text).map(Self::from).map_err(|error| {
            let shown = crate::clean_text(text, 64);
            Error::invalid(format!("\"{shown}\" is not an RFC 3339 instant ({error}); write it like 2026-03-08T02:30:00Z"))
        })
    }
}

impl<Z: TimeZone> From<DateTime<Z>> for Timestamp {
    fn from(at: DateTime<Z>) -> Self {
        Self(at.timestamp_millis())
    }
}

impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        match at.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self(0).plus(after),
            Err(before) => Self(0).minus(before.duration()),
        }
    }
}

/// A duration of `n` seconds.
#[must_use]
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A duration of `n` minutes, saturating.
#[must_use]
pub const fn mins(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(60))
}

/// A duration of `n` hours, saturating.
#[must_use]
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(3_600))
}

/// A duration of `n` days of 24 hours, saturating.
#[must_use]
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(86_400))
}

/// The units of a duration text with their milliseconds, longest first.
const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Reads a duration such as `30s`, `1h 30m`, `500ms`, `2d` or `1w`.
///
/// Whole numbers with a unit each, from large to small, blanks between them or not.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for anything else, and for more than [`MAX_DELAY`].
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let refuse = |why: &str| {
        let shown = crate::clean_text(text, 64);
        Error::invalid(format!(
            "\"{shown}\" is not a duration: {why}; write it like 30s, 1h 30m, 500ms, 2d or 1w"
        ))
    };
    let mut rest = text.trim();
    let (mut millis, mut next_unit) = (0_u64, 0);
    if rest.is_empty() {
        return Err(refuse("it is empty"));
    }
    while !rest.is_empty() {
        let (number, after) = split_at_first(rest, |c| !c.is_ascii_digit());
        let number: u64 = match number.parse() {
            Ok(number) => number,
            Err(_) if number.is_empty() => return Err(refuse("a number is missing")),
            Err(_) => return Err(refuse("the number is too large")),
        };
        let (unit, after) = split_at_first(after.trim_start(), |c| !c.is_ascii_alphabetic());
        let index = UNITS.iter().position(|(name, _)| *name == unit);
        let index =
            index.ok_or_else(|| refuse("every number needs a unit of w, d, h, m, s or ms"))?;
        if index < next_unit {
            return Err(refuse("units go from large to small, each once"));
        }
        next_unit = index + 1;
        let part = number.checked_mul(UNITS[index].1);
        millis = part
            .and_then(|part| millis.checked_add(part))
            .ok_or_else(|| refuse("it is too long"))?;
        rest = after.trim_start();
    }
    let span = Duration::from_millis(millis);
    if span > MAX_DELAY {
        Err(refuse("it is longer than 100 years"))
    } else {
        Ok(span)
    }
}

fn split_at_first(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

/// Writes a duration the way [`parse_duration`] reads it (`1h 30m`), cut to milliseconds.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let mut rest = span.as_millis();
    let mut parts = Vec::new();
    // A week reads better as `7d` unless the whole span is in weeks.
    let weeks_only = rest.is_multiple_of(604_800_000);
    for (unit, millis) in UNITS.iter().skip(usize::from(!weeks_only)) {
        let count = rest / u128::from(*millis);
        rest %= u128::from(*millis);
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        }
    }
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}
