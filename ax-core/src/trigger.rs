//! When a schedule fires. In: an instant. Out: the next instant strictly after it, or that there is none.
//!
//! Pure: the same trigger and instant give the same answer on every node. Misfires, overlap and jitter are
//! decided elsewhere.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Cron, Error, MAX_DELAY, Timestamp, format_duration};

/// A rule that names instants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub enum Trigger {
    /// Once, at this instant.
    Once(Timestamp),
    /// This long after the instant it is asked from.
    Delay(Duration),
    /// At `phase_from` and then at a fixed rate, whatever the runs take.
    Every {
        /// The time from one tick to the next.
        interval: Duration,
        /// The first tick, and the grid of all others.
        phase_from: Timestamp,
    },
    /// This long after the end of the last run.
    FixedDelay(Duration),
    /// By a cron pattern in a time zone.
    Cron(Cron),
}

impl Trigger {
    /// The first instant strictly after `after`; `None` when it can never fire again.
    ///
    /// For [`Trigger::FixedDelay`], `after` is the end of the last run.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let next = match self {
            Self::Once(at) => (*at > after).then_some(*at),
            Self::Delay(delay) | Self::FixedDelay(delay) => {
                after.checked_plus((*delay).max(Duration::from_millis(1)))
            }
            Self::Every {
                interval,
                phase_from,
            } => next_on_grid(*interval, *phase_from, after),
            Self::Cron(cron) => cron.next_after(after),
        };
        next.filter(|next| *next <= Timestamp::MAX_VALID)
    }

    /// Refuses what can only be a mistake.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an interval under 1 ms or over 100 years, a delay over
    /// 100 years, and an instant outside 1970 to 9999. A cron that can never fire is not an error; it is asked by
    /// [`Cron::can_fire`].
    pub fn validate(&self) -> Result<(), Error> {
        match self {
            Self::Once(at) => check_instant(*at),
            Self::Delay(delay) | Self::FixedDelay(delay) => check_span("delay", *delay),
            Self::Every {
                interval,
                phase_from,
            } => {
                if interval.as_millis() == 0 {
                    return Err(Error::invalid(
                        "interval is shorter than 1 ms; give a longer one",
                    ));
                }
                check_span("interval", *interval)?;
                check_instant(*phase_from)
            }
            Self::Cron(_) => Ok(()),
        }
    }
}

fn check_instant(at: Timestamp) -> Result<(), Error> {
    if at.is_valid() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "instant {at} lies outside the years 1970 to 9999; check how it is computed"
    )))
}

fn check_span(what: &str, span: Duration) -> Result<(), Error> {
    if span <= MAX_DELAY {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} of {} is longer than 100 years; give a shorter one",
        format_duration(span)
    )))
}

/// The first of `phase_from + k × interval` (k ≥ 0) after `after`; computed wide, so that nothing overflows.
fn next_on_grid(interval: Duration, phase_from: Timestamp, after: Timestamp) -> Option<Timestamp> {
    let interval = i128::try_from(interval.as_millis())
        .ok()
        .filter(|interval| *interval > 0)?;
    let (first, after) = (
        i128::from(phase_from.as_millis()),
        i128::from(after.as_millis()),
    );
    let next = if after < first {
        first
    } else {
        first + ((after - first) / interval + 1) * interval
    };
    i64::try_from(next).ok().map(Timestamp::from_millis)
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(at) => write!(f, "once at {at}"),
            Self::Delay(delay) => write!(f, "after {}", format_duration(*delay)),
            Self::Every { interval, .. } => write!(f, "every {}", format_duration(*interval)),
            Self::FixedDelay(delay) => write!(
                f,
                "{} after the end of the last run",
                format_duration(*delay)
            ),
            Self::Cron(cron) => write!(f, "cron {cron}"),
        }
    }
}

/// The stored form: `{"kind":"every","interval_ms":60000,"phase_from":0}`.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Stored {
    Once {
        at: Timestamp,
    },
    Delay {
        delay_ms: u64,
    },
    Every {
        interval_ms: u64,
        phase_from: Timestamp,
    },
    FixedDelay {
        delay_ms: u64,
    },
    Cron {
        text: String,
        zone: String,
    },
}

impl From<Trigger> for Stored {
    fn from(trigger: Trigger) -> Self {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        match trigger {
            Trigger::Once(at) => Self::Once { at },
            Trigger::Delay(delay) => Self::Delay {
                delay_ms: millis(delay),
            },
            Trigger::Every {
                interval,
                phase_from,
            } => Self::Every {
                interval_ms: millis(interval),
                phase_from,
            },
            Trigger::FixedDelay(delay) => Self::FixedDelay {
                delay_ms: millis(delay),
            },
            Trigger::Cron(cron) => Self::Cron {
                text: cron.text().to_owned(),
                zone: cron.zone().to_owned(),
            },
        }
    }
}

impl TryFrom<Stored> for Trigger {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        Ok(match stored {
            Stored::Once { at } => Self::Once(at),
            Stored::Delay { delay_ms } => Self::Delay(Duration::from_millis(delay_ms)),
            Stored::Every {
                interval_ms,
                phase_from,
            } => Self::Every {
                interval: Duration::from_millis(interval_ms),
                phase_from,
            },
            Stored::FixedDelay { delay_ms } => Self::FixedDelay(Duration::from_millis(delay_ms)),
            Stored::Cron { text, zone } => Self::Cron(Cron::parse(&text, &zone)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{days, mins, secs};
    use proptest::prelude::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn every(interval: Duration, phase_from: i64) -> Trigger {
        Trigger::Every {
            interval,
            phase_from: at(phase_from),
        }
    }

    #[test]
    fn each_kind_names_its_next_instant() {
        assert_eq!(Trigger::Once(at(10)).next_after(at(9)), Some(at(10)));
        assert_eq!(Trigger::Once(at(10)).next_after(at(10)), None);
        assert_eq!(Trigger::Delay(secs(1)).next_after(at(5)), Some(at(1_005)));
        assert_eq!(
            Trigger::FixedDelay(Duration::ZERO).next_after(at(5)),
            Some(at(6))
        );
        let minute = every(mins(1), 30_000);
        assert_eq!(minute.next_after(at(-5)), Some(at(30_000)));
        assert_eq!(minute.next_after(at(30_000)), Some(at(90_000)));
        assert_eq!(minute.next_after(at(89_999)), Some(at(90_000)));
    }

    #[test]
    fn case_c30_far_instants_end_and_never_wrap() {
        assert_eq!(every(days(1), 0).next_after(Timestamp::MAX), None);
        assert_eq!(every(Duration::MAX, 0).next_after(at(1)), None);
        assert_eq!(every(Duration::ZERO, 0).next_after(at(1)), None);
        assert_eq!(Trigger::Delay(Duration::MAX).next_after(at(1)), None);
        assert_eq!(
            every(days(1), i64::MIN).next_after(at(i64::MIN)),
            Some(at(i64::MIN + 86_400_000))
        );
        for wrong in [
            every(Duration::from_micros(999), 0),
            every(Duration::MAX, 0),
            every(secs(1), -1),
            Trigger::Delay(Duration::MAX),
            Trigger::Once(Timestamp::MAX),
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
        assert!(every(secs(1), 0).validate().is_ok());
    }

    #[test]
    fn triggers_read_back_from_their_column() {
        let cron = Cron::parse("0 0 2 * * *", "Asia/Shanghai").unwrap();
        for (trigger, text) in [
            (Trigger::Once(at(5)), r#"{"kind":"once","at":5}"#),
            (
                Trigger::Delay(secs(1)),
                r#"{"kind":"delay","delay_ms":1000}"#,
            ),
            (
                every(mins(1), 7),
                r#"{"kind":"every","interval_ms":60000,"phase_from":7}"#,
            ),
            (
                Trigger::FixedDelay(secs(2)),
                r#"{"kind":"fixed_delay","delay_ms":2000}"#,
            ),
            (
                Trigger::Cron(cron),
                r#"{"kind":"cron","text":"0 0 2 * * *","zone":"Asia/Shanghai"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&trigger).unwrap(), text);
            assert_eq!(serde_json::from_str::<Trigger>(text).unwrap(), trigger);
        }
        let wrong = r#"{"kind":"cron","text":"61 * * * *","zone":"UTC"}"#;
        assert!(
            serde_json::from_str::<Trigger>(wrong)
                .unwrap_err()
                .to_string()
                .contains("minute")
        );
    }

    proptest! {
        #[test]
        fn a_grid_tick_is_the_first_one_after(interval in 1..10_000_000_000_u64, phase in 0..2_000_000_000_000_i64, after in 0..4_000_000_000_000_i64) {
            let next = every(Duration::from_millis(interval), phase).next_after(at(after)).unwrap().as_millis();
            let interval = i64::try_from(interval).unwrap();
            prop_assert!(next > after);
            prop_assert_eq!((next - phase).rem_euclid(interval), 0);
            prop_assert!(next == phase || next - interval <= after);
        }

        #[test]
        fn no_trigger_goes_backwards(seconds in 0..u64::MAX, phase: i64, after: i64) {
            let span = Duration::from_secs(seconds);
            for trigger in [every(span, phase), Trigger::Delay(span), Trigger::FixedDelay(span), Trigger::Once(at(phase))] {
                prop_assert!(trigger.next_after(at(after)).is_none_or(|next| next > at(after)));
            }
        }
    }
}
