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
    read_duration(text.trim()).map_err(|why| {
        let shown = crate::clean_text(text, 64);
        Error::invalid(format!(
            "\"{shown}\" is not a duration: {why}; write it like 30s, 1h 30m, 500ms, 2d or 1w"
        ))
    })
}

fn read_duration(mut rest: &str) -> Result<Duration, &'static str> {
    if rest.is_empty() {
        return Err("it is empty");
    }
    let (mut total, mut next_unit) = (0_u64, 0);
    while !rest.is_empty() {
        let (unit, millis, after) = read_part(rest)?;
        if unit < next_unit {
            return Err("units go from large to small, each once");
        }
        next_unit = unit + 1;
        total = total.checked_add(millis).ok_or("it is too long")?;
        rest = after;
    }
    let span = Duration::from_millis(total);
    if span > MAX_DELAY {
        Err("it is longer than 100 years")
    } else {
        Ok(span)
    }
}

/// One number with its unit: the unit's place in [`UNITS`], the milliseconds, and what follows.
fn read_part(text: &str) -> Result<(usize, u64, &str), &'static str> {
    let (digits, after) = split_at_first(text, |c| !c.is_ascii_digit());
    let (name, rest) = split_at_first(after.trim_start(), |c| !c.is_ascii_alphabetic());
    if digits.is_empty() {
        return Err("a number is missing");
    }
    let count: u64 = digits.parse().map_err(|_| "the number is too large")?;
    let unit = UNITS.iter().position(|(unit, _)| *unit == name);
    let unit = unit.ok_or("every number needs a unit of w, d, h, m, s or ms")?;
    let millis = count.checked_mul(UNITS[unit].1).ok_or("it is too long")?;
    Ok((unit, millis, rest.trim_start()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_read_as_written() {
        for (text, expected) in [
            ("30s", secs(30)),
            ("1h 30m", mins(90)),
            ("1h30m", mins(90)),
            ("500ms", Duration::from_millis(500)),
            ("2d", hours(48)),
            ("1w", days(7)),
            (" 1 h ", hours(1)),
            ("0s", Duration::ZERO),
            ("36500d", MAX_DELAY),
        ] {
            assert_eq!(parse_duration(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn wrong_durations_say_why() {
        for (text, why) in [
            ("", "it is empty"),
            ("30", "every number needs a unit"),
            ("s", "a number is missing"),
            ("-5s", "a number is missing"),
            ("1.5h", "every number needs a unit"),
            ("5 minutes", "every number needs a unit"),
            ("30m 1h", "units go from large to small"),
            ("1s 1s", "units go from large to small"),
            ("36501d", "longer than 100 years"),
            ("99999999999999999999s", "the number is too large"),
            ("18446744073709551615w", "it is too long"),
            ("1s\0", "a number is missing"),
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn case_c30_arithmetic_saturates_and_never_wraps() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        for span in [
            Duration::MAX,
            Duration::from_millis(u64::MAX),
            days(u64::MAX),
        ] {
            assert_eq!(now.plus(span), Timestamp::MAX);
            assert_eq!(now.checked_plus(span), None);
        }
        for day in [24, 25, 365, 36_500] {
            assert_eq!(now.plus(days(day)).since(now), days(day));
        }
        let lowest = Timestamp::from_millis(i64::MIN);
        assert_eq!(lowest.since(now), Duration::ZERO);
        assert_eq!(
            Timestamp::MAX.since(lowest),
            Duration::from_millis(u64::MAX)
        );
        assert_eq!(lowest.minus(Duration::MAX), lowest);
    }

    #[test]
    fn instants_print_and_read_back() {
        let at = Timestamp::from_millis(1_772_937_000_123);
        assert_eq!(at.to_string(), "2026-03-08T02:30:00.123Z");
        assert_eq!(
            "2026-03-08T03:30:00.123+01:00"
                .parse::<Timestamp>()
                .unwrap(),
            at
        );
        assert_eq!(Timestamp::MAX.to_string(), "never");
        assert_eq!("never".parse::<Timestamp>().unwrap(), Timestamp::MAX);
        assert_eq!(
            Timestamp::from_millis(i64::MIN).to_string(),
            "-9223372036854775808 ms"
        );
        assert_eq!(Timestamp::MAX_VALID.to_string(), "9999-12-31T23:59:59.999Z");
        assert!("tomorrow".parse::<Timestamp>().is_err());
        assert_eq!(
            Timestamp::from(SystemTime::UNIX_EPOCH + secs(3)).as_millis(),
            3_000
        );
        assert_eq!(
            Timestamp::from(SystemTime::UNIX_EPOCH - secs(3)).as_millis(),
            -3_000
        );
    }

    proptest! {
        #[test]
        fn written_durations_read_back(millis in 0..=3_153_600_000_000_u64) {
            let span = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(span)).unwrap(), span);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = parse_duration(&text);
        }

        #[test]
        fn plus_and_since_agree(at: i64, millis: u64) {
            let at = Timestamp::from_millis(at);
            let span = Duration::from_millis(millis);
            let later = at.plus(span);
            prop_assert!(later >= at);
            if let Some(exact) = at.checked_plus(span) {
                prop_assert_eq!(exact.since(at), span);
            } else {
                prop_assert_eq!(later, Timestamp::MAX);
            }
        }

        #[test]
        fn instants_read_back(millis in 0..=253_402_300_799_999_i64) {
            let at = Timestamp::from_millis(millis);
            prop_assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        }
    }
}
