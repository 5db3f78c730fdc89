//! The text forms of the policies, as attributes and stored definitions write them.
//!
//! In: `list 30s, 2m, 10m jitter 20%`, `fire_all(100)`, `allow(2)`. Out: the values, or an error that lists
//! the forms. `Display` writes what `FromStr` reads.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Backoff, RetryPolicy};
use crate::{Error, clean_text, format_duration, hours, parse_duration};

/// What a schedule does about ticks whose time passed while nobody could fire them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Misfire {
    /// One task for all missed ticks together.
    #[default]
    FireOnce,
    /// None; the next tick is the next one to come.
    Skip,
    /// One task for each missed tick, the oldest first, at most `cap`.
    FireAll {
        /// How many at most.
        cap: u32,
    },
    /// One task for each of the `n` youngest missed ticks.
    FireLast {
        /// How many.
        n: u32,
    },
}

/// What a schedule does when a tick comes while a task of an earlier tick is not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Overlap {
    /// The tick makes no task.
    #[default]
    Skip,
    /// One task waits; further ticks make none.
    QueueOne,
    /// Every tick makes a task; they run one after the other.
    QueueAll,
    /// The running task is canceled.
    CancelRunning,
    /// Up to this many run side by side; more wait.
    Allow(u32),
}

/// What becomes of a task whose worker died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i16)]
pub enum OnLost {
    /// It runs again: at least once.
    #[default]
    Retry = 0,
    /// It fails: at most once.
    Fail = 1,
}

impl OnLost {
    /// The stored number.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The value of a stored number.
    #[must_use]
    pub const fn from_code(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::Retry),
            1 => Some(Self::Fail),
            _ => None,
        }
    }

    /// The word used in attributes and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for OnLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OnLost {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "retry" => Ok(Self::Retry),
            "fail" => Ok(Self::Fail),
            _ => Err(unknown("on_lost", text, "retry or fail")),
        }
    }
}

fn unknown(what: &str, text: &str, forms: &str) -> Error {
    Error::invalid(format!(
        "{what} \"{}\" is unknown; use {forms}",
        clean_text(text, 64)
    ))
}

/// `word` or `word(number)`, taken apart.
fn word_and_number(text: &str) -> Option<(&str, Option<u32>)> {
    let Some((word, rest)) = text.trim().split_once('(') else {
        return Some((text.trim(), None));
    };
    let number = rest.strip_suffix(')')?.trim().parse().ok()?;
    (number > 0).then_some((word.trim(), Some(number)))
}

impl FromStr for Misfire {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match word_and_number(text) {
            Some(("fire_once", None)) => Ok(Self::FireOnce),
            Some(("skip", None)) => Ok(Self::Skip),
            Some(("fire_all", Some(cap))) => Ok(Self::FireAll { cap }),
            Some(("fire_last_n", Some(n))) => Ok(Self::FireLast { n }),
            _ => Err(unknown(
                "misfire",
                text,
                "fire_once, skip, fire_all(100) or fire_last_n(3)",
            )),
        }
    }
}

impl fmt::Display for Misfire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FireOnce => f.write_str("fire_once"),
            Self::Skip => f.write_str("skip"),
            Self::FireAll { cap } => write!(f, "fire_all({cap})"),
            Self::FireLast { n } => write!(f, "fire_last_n({n})"),
        }
    }
}

impl FromStr for Overlap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match word_and_number(text) {
            Some(("skip", None)) => Ok(Self::Skip),
            Some(("queue_one", None)) => Ok(Self::QueueOne),
            Some(("queue_all", None)) => Ok(Self::QueueAll),
            Some(("cancel_running", None)) => Ok(Self::CancelRunning),
            Some(("allow", Some(n))) => Ok(Self::Allow(n)),
            _ => Err(unknown(
                "overlap",
                text,
                "skip, queue_one, queue_all, cancel_running or allow(2)",
            )),
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::QueueOne => f.write_str("queue_one"),
            Self::QueueAll => f.write_str("queue_all"),
            Self::CancelRunning => f.write_str("cancel_running"),
            Self::Allow(n) => write!(f, "allow({n})"),
        }
    }
}

macro_rules! text_form {
    ($($name:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

text_form!(Misfire, Overlap);

const BACKOFF_FORMS: &str = "\"fixed 10s\", \"exponential 1s x2 max 10m\" or \"list 30s, 2m, 10m\"";

impl FromStr for Backoff {
    type Err = Error;

    /// Reads `fixed 10s`, `exponential 1s x2 max 10m` or `list 30s, 2m, 10m`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let text = single_blanks(text);
        let (kind, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let backoff = match kind {
            "fixed" => Self::Fixed(parse_duration(rest)?),
            "list" => Self::List(
                rest.split(',')
                    .map(parse_duration)
                    .collect::<Result<_, _>>()?,
            ),
            "exponential" => exponential(rest)?,
            _ => return Err(unknown("back-off", &text, BACKOFF_FORMS)),
        };
        backoff.validate()?;
        Ok(backoff)
    }
}

fn single_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads what follows `exponential`: `BASE [xFACTOR] [max CAP]`.
fn exponential(text: &str) -> Result<Backoff, Error> {
    let (growth, cap) = match text.split_once(" max ") {
        Some((growth, cap)) => (growth, Some(parse_duration(cap)?)),
        None => (text, None),
    };
    let (base, factor) = match growth.split_once(" x") {
        Some((base, factor)) => (base, number(factor)?),
        None => (growth, 2.0),
    };
    let base = parse_duration(base)?;
    Ok(Backoff::Exponential {
        base,
        factor,
        cap: cap.unwrap_or(base.max(hours(1))),
    })
}

fn number(text: &str) -> Result<f64, Error> {
    text.trim()
        .parse()
        .map_err(|_| unknown("back-off number", text, "a number such as 2 or 1.5"))
}

impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(delay) => write!(f, "fixed {}", format_duration(*delay)),
            Self::List(list) => {
                let list: Vec<String> = list.iter().copied().map(format_duration).collect();
                write!(f, "list {}", list.join(", "))
            }
            Self::Exponential { base, factor, cap } => {
                write!(
                    f,
                    "exponential {} x{factor} max {}",
                    format_duration(*base),
                    format_duration(*cap)
                )
            }
        }
    }
}

impl FromStr for RetryPolicy {
    type Err = Error;

    /// Reads a back-off with an optional ` jitter 20%` and an optional ` retries 5` behind it.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut policy = Self::default();
        let text = single_blanks(text);
        let mut rest = text.as_str();
        if let Some((before, retries)) = rest.rsplit_once(" retries ") {
            policy.max_retries = retries
                .trim()
                .parse()
                .map_err(|_| unknown("number of retries", retries, "a number such as 5"))?;
            rest = before;
        }
        if let Some((before, jitter)) = rest.rsplit_once(" jitter ") {
            let percent = jitter.trim().strip_suffix('%');
            let percent =
                percent.ok_or_else(|| unknown("jitter", jitter, "a share such as 20%"))?;
            policy.jitter = number(percent)? / 100.0;
            rest = before;
        }
        policy.backoff = rest.parse()?;
        policy.validate()?;
        Ok(policy)
    }
}

impl fmt::Display for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.backoff)?;
        if self.jitter > 0.0 {
            // Rounded, so that 0.07 reads 7 % and not 7.000000000000001 %.
            write!(f, " jitter {}%", (self.jitter * 1e8).round() / 1e6)?;
        }
        write!(f, " retries {}", self.max_retries)
    }
}

impl RetryPolicy {
    /// A single attempt.
    #[must_use]
    pub fn never() -> Self {
        Self {
            max_retries: 0,
            ..Self::default()
        }
    }

    /// `max_retries` retries, each after the same delay.
    #[must_use]
    pub fn fixed(max_retries: u32, delay: Duration) -> Self {
        Self {
            max_retries,
            backoff: Backoff::Fixed(delay),
            jitter: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mins, secs};
    use proptest::prelude::*;
    use std::fmt::Debug;

    fn reads_back<T: FromStr<Err = Error> + fmt::Display + PartialEq + Debug>(
        value: T,
        text: &str,
    ) {
        assert_eq!(value.to_string(), text);
        assert_eq!(text.parse::<T>().unwrap(), value);
    }

    #[test]
    fn words_read_back() {
        reads_back(Misfire::FireOnce, "fire_once");
        reads_back(Misfire::Skip, "skip");
        reads_back(Misfire::FireAll { cap: 100 }, "fire_all(100)");
        reads_back(Misfire::FireLast { n: 3 }, "fire_last_n(3)");
        reads_back(Overlap::Skip, "skip");
        reads_back(Overlap::QueueOne, "queue_one");
        reads_back(Overlap::QueueAll, "queue_all");
        reads_back(Overlap::CancelRunning, "cancel_running");
        reads_back(Overlap::Allow(2), "allow(2)");
        reads_back(OnLost::Retry, "retry");
        reads_back(OnLost::Fail, "fail");
        let stored = serde_json::to_string(&Misfire::FireLast { n: 3 }).unwrap();
        assert_eq!(stored, "\"fire_last_n(3)\"");
        assert_eq!(
            serde_json::from_str::<Misfire>(&stored).unwrap(),
            Misfire::FireLast { n: 3 }
        );
        for lost in [OnLost::Retry, OnLost::Fail] {
            assert_eq!(OnLost::from_code(lost.code()), Some(lost));
        }
    }

    #[test]
    fn wrong_words_list_the_forms() {
        for text in [
            "",
            "fire_all",
            "fire_all()",
            "fire_all(0)",
            "fire_all(-1)",
            "fire_once(2)",
            "fire_all(1",
        ] {
            let error = text.parse::<Misfire>().unwrap_err().to_string();
            assert!(
                error.contains("fire_once, skip, fire_all(100) or fire_last_n(3)"),
                "{error}"
            );
        }
        for text in [
            "allow",
            "allow(0)",
            "allow(99999999999)",
            "queue_one(1)",
            "never",
        ] {
            assert!(text.parse::<Overlap>().is_err(), "{text}");
        }
    }

    #[test]
    fn policies_read_back() {
        let exponential = Backoff::Exponential {
            base: secs(1),
            factor: 2.0,
            cap: mins(10),
        };
        reads_back(Backoff::Fixed(secs(10)), "fixed 10s");
        reads_back(exponential.clone(), "exponential 1s x2 max 10m");
        reads_back(Backoff::default(), "list 30s, 2m, 10m");
        reads_back(RetryPolicy::default(), "list 30s, 2m, 10m retries 3");
        let policy = RetryPolicy {
            max_retries: 5,
            backoff: exponential,
            jitter: 0.07,
        };
        reads_back(policy, "exponential 1s x2 max 10m jitter 7% retries 5");
        let short = "exponential  90m".parse::<Backoff>().unwrap();
        assert_eq!(
            short,
            Backoff::Exponential {
                base: mins(90),
                factor: 2.0,
                cap: mins(90)
            }
        );
    }

    #[test]
    fn case_c29_wrong_policies_are_refused_when_read() {
        for text in [
            "",
            "list",
            "fixed",
            "fixed 10",
            "exponential 1s xNaN",
            "exponential 1s xinf",
            "exponential 1s x0.5",
            "exponential 10m x2 max 1m",
            "fixed 1s jitter 101%",
            "fixed 1s jitter -1%",
            "fixed 1s jitter NaN%",
            "fixed 1s jitter 20",
            "fixed 1s retries -1",
            "fixed 1s retries 2147483648",
            "linear 1s",
        ] {
            assert!(text.parse::<RetryPolicy>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(list|fixed|exponential|x) .{0,20}") {
            if let Ok(policy) = text.parse::<RetryPolicy>() {
                prop_assert!(policy.validate().is_ok());
            }
        }

        #[test]
        fn any_valid_exponential_reads_back(base in 1..10_000_000_u64, factor in 1.0..100.0_f64, more in 0..1_000_000_u64) {
            let base = Duration::from_millis(base);
            let backoff = Backoff::Exponential { base, factor, cap: base + Duration::from_millis(more) };
            prop_assert_eq!(backoff.to_string().parse::<Backoff>().unwrap(), backoff);
        }
    }
}
