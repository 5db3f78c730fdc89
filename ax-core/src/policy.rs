//! What to do when things go wrong or pile up, as values.
//!
//! In: texts from attributes (`exponential 1s x2 max 10m`) or values from code. Out: retry delays and the
//! words for misfire, overlap and lost workers. Pure: the random number of a jitter is handed in.

mod words;

use std::time::Duration;

use crate::{Error, MAX_DELAY, hours, mins, secs};

pub use words::{Misfire, OnLost, Overlap};

/// How long to wait before the n-th retry.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// One delay per retry; the last one repeats.
    List(Vec<Duration>),
    /// The same delay before every retry.
    Fixed(Duration),
    /// `base × factor^(retry − 1)`, never above `cap`.
    Exponential {
        /// The delay before the first retry.
        base: Duration,
        /// By how much each delay exceeds the one before; at least 1.
        factor: f64,
        /// The longest delay; at least `base`.
        cap: Duration,
    },
}

impl Default for Backoff {
    /// 30 seconds, 2 minutes, then 10 minutes.
    fn default() -> Self {
        Self::List(vec![secs(30), mins(2), mins(10)])
    }
}

impl Backoff {
    /// Exponential growth by 2 from `base`, capped at one hour (or at `base` where that is longer).
    #[must_use]
    pub fn exponential(base: Duration) -> Self {
        Self::Exponential {
            base,
            factor: 2.0,
            cap: base.max(hours(1)),
        }
    }

    /// The delay before retry number `retry` (1 is the first), without jitter.
    fn delay(&self, retry: u32) -> Duration {
        let index = retry.max(1) - 1;
        let delay = match self {
            Self::List(list) => {
                let at = usize::try_from(index)
                    .unwrap_or(usize::MAX)
                    .min(list.len().saturating_sub(1));
                list.get(at).copied().unwrap_or(MAX_DELAY)
            }
            Self::Fixed(delay) => *delay,
            Self::Exponential { base, factor, cap } => grown(*base, *factor, index).min(*cap),
        };
        delay.min(MAX_DELAY)
    }

    fn validate(&self) -> Result<(), Error> {
        match self {
            Self::List(list) if list.is_empty() => Err(Error::invalid(
                "the back-off list is empty; give it a delay",
            )),
            Self::List(list) => list.iter().try_for_each(|delay| check_delay(*delay)),
            Self::Fixed(delay) => check_delay(*delay),
            Self::Exponential { base, factor, cap } => {
                if !factor.is_finite() || *factor < 1.0 {
                    return Err(Error::invalid(format!(
                        "back-off factor {factor} must be a number of at least 1"
                    )));
                }
                if cap < base {
                    return Err(Error::invalid(
                        "the back-off cap is below its base; raise max or lower the base",
                    ));
                }
                check_delay(*cap)
            }
        }
    }
}

fn check_delay(delay: Duration) -> Result<(), Error> {
    if delay > MAX_DELAY {
        return Err(Error::invalid(
            "a back-off delay is longer than 100 years; give a shorter one",
        ));
    }
    Ok(())
}

/// `base × factor^steps`, at most [`MAX_DELAY`]: the comparison comes before the conversion, so that no
/// growth can overflow it.
fn grown(base: Duration, factor: f64, steps: u32) -> Duration {
    if base.is_zero() {
        return Duration::ZERO;
    }
    let seconds = base.as_secs_f64() * factor.powf(f64::from(steps));
    if seconds.is_nan() || seconds >= MAX_DELAY.as_secs_f64() {
        return MAX_DELAY;
    }
    Duration::try_from_secs_f64(seconds).unwrap_or(base)
}

/// How often and how soon a failed task is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Retries after the first attempt; 0 means a single attempt.
    pub max_retries: u32,
    /// The delays between them.
    pub backoff: Backoff,
    /// The share of a delay (0 to 1) that chance may take off it, so that a herd spreads out.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    /// Three retries after 30 seconds, 2 minutes and 10 minutes, without jitter.
    fn default() -> Self {
        Self {
            max_retries: 3,
            backoff: Backoff::default(),
            jitter: 0.0,
        }
    }
}

impl RetryPolicy {
    /// Refuses what can only be a mistake.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an empty list, a delay above [`MAX_DELAY`], a factor
    /// that is not a number of at least 1, a cap below the base, a jitter outside 0 to 1, or more than
    /// `i32::MAX` retries.
    pub fn validate(&self) -> Result<(), Error> {
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(Error::invalid(format!(
                "jitter {} must lie between 0 and 1",
                self.jitter
            )));
        }
        check_retries(self.max_retries)?;
        self.backoff.validate()
    }

    /// The wait before retry number `retry` (1 is the first; 0 counts as 1).
    ///
    /// `random` from 0 to 1 picks the place within the jitter: the delay lies between `(1 − jitter) × d` and
    /// `d`. For one `random` an exponential delay never shrinks from one retry to the next. Never panics,
    /// also for a policy that [`validate`](Self::validate) refuses.
    #[must_use]
    pub fn delay(&self, retry: u32, random: f64) -> Duration {
        let delay = self.backoff.delay(retry);
        let share = unit(self.jitter) * unit(random);
        if share == 0.0 {
            return delay;
        }
        Duration::try_from_secs_f64(delay.as_secs_f64() * (1.0 - share))
            .unwrap_or(delay)
            .min(delay)
    }
}

/// `value` forced into 0 to 1; what is not a number counts as 0.
fn unit(value: f64) -> f64 {
    if value.is_nan() {
        0.0
    } else {
        value.clamp(0.0, 1.0)
    }
}

/// The number of retries fits its column.
pub(crate) fn check_retries(retries: u32) -> Result<(), Error> {
    if i32::try_from(retries).is_err() {
        return Err(Error::invalid(format!(
            "{retries} retries are too many; use at most {}",
            i32::MAX
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::days;
    use proptest::prelude::*;

    fn exponential(base: Duration, factor: f64, cap: Duration) -> RetryPolicy {
        RetryPolicy {
            max_retries: 3,
            backoff: Backoff::Exponential { base, factor, cap },
            jitter: 0.0,
        }
    }

    #[test]
    fn the_default_waits_as_written() {
        let policy = RetryPolicy::default();
        let waits = [1, 2, 3, 4, u32::MAX].map(|retry| policy.delay(retry, 0.5));
        assert_eq!(waits, [secs(30), mins(2), mins(10), mins(10), mins(10)]);
        assert_eq!(policy.delay(0, 0.5), secs(30));
    }

    #[test]
    fn exponential_doubles_up_to_its_cap() {
        let policy = exponential(secs(1), 2.0, secs(10));
        let waits = [1, 2, 3, 4, 5, 6].map(|retry| policy.delay(retry, 0.0).as_secs());
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn case_c29_backoff_saturates() {
        for base in [Duration::from_millis(1), secs(1), days(1)] {
            for factor in [1.0, 1.5, 2.0, 1e3, 1e9] {
                for cap in [base, days(30), MAX_DELAY] {
                    let policy = exponential(base, factor, cap.max(base));
                    policy.validate().unwrap();
                    let mut before = Duration::ZERO;
                    for retry in [
                        1,
                        2,
                        3,
                        31,
                        32,
                        33,
                        63,
                        64,
                        65,
                        1_000,
                        1_000_000,
                        u32::MAX - 1,
                        u32::MAX,
                    ] {
                        let delay = policy.delay(retry, 0.0);
                        assert!(
                            delay >= before && delay >= base && delay <= cap,
                            "{policy:?} {retry}"
                        );
                        before = delay;
                    }
                    assert!(
                        factor == 1.0 || before == cap.max(base),
                        "{policy:?} {before:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn case_c29_misconfiguration_is_refused() {
        for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.99, -2.0] {
            assert!(
                exponential(secs(1), factor, mins(1)).validate().is_err(),
                "{factor}"
            );
        }
        assert!(exponential(mins(2), 2.0, mins(1)).validate().is_err());
        assert!(exponential(mins(2), 2.0, Duration::MAX).validate().is_err());
        for jitter in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
            assert!(
                RetryPolicy {
                    jitter,
                    ..RetryPolicy::default()
                }
                .validate()
                .is_err(),
                "{jitter}"
            );
        }
        for backoff in [
            Backoff::List(vec![]),
            Backoff::Fixed(Duration::MAX),
            Backoff::List(vec![Duration::MAX]),
        ] {
            assert!(
                RetryPolicy {
                    backoff,
                    ..RetryPolicy::default()
                }
                .validate()
                .is_err()
            );
        }
        assert!(
            RetryPolicy {
                max_retries: u32::MAX,
                ..RetryPolicy::default()
            }
            .validate()
            .is_err()
        );
        assert!(RetryPolicy::default().validate().is_ok());
        assert!(RetryPolicy::never().validate().is_ok());
    }

    fn any_duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0..u64::MAX, 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
            (0..10_000_000_u64).prop_map(Duration::from_millis),
            Just(Duration::ZERO),
            Just(Duration::MAX),
        ]
    }

    fn any_backoff() -> impl Strategy<Value = Backoff> {
        prop_oneof![
            prop::collection::vec(any_duration(), 0..5).prop_map(Backoff::List),
            any_duration().prop_map(Backoff::Fixed),
            (any_duration(), any::<f64>(), any_duration())
                .prop_map(|(base, factor, cap)| Backoff::Exponential { base, factor, cap }),
        ]
    }

    proptest! {
        #[test]
        fn no_policy_panics_or_exceeds_the_limit(backoff in any_backoff(), jitter: f64, retry: u32, random: f64) {
            let policy = RetryPolicy { max_retries: 3, backoff, jitter };
            prop_assert!(policy.delay(retry, random) <= MAX_DELAY);
        }

        #[test]
        fn valid_exponentials_grow_up_to_the_cap(
            base in 1..86_400_000_u64, factor in 1.0..1e9_f64, more in 0..1_000_000_000_u64,
            jitter in 0.0..=1.0_f64, random in 0.0..=1.0_f64, retry in 1..u32::MAX,
        ) {
            let base = Duration::from_millis(base);
            let mut policy = exponential(base, factor, base + Duration::from_millis(more));
            policy.jitter = jitter;
            policy.validate().unwrap();
            let (this, after) = (policy.delay(retry, random), policy.delay(retry + 1, random));
            prop_assert!(this <= after && after <= base + Duration::from_millis(more));
        }

        #[test]
        fn jitter_only_takes_away(jitter in 0.0..=1.0_f64, random in 0.0..=1.0_f64) {
            let policy = RetryPolicy { jitter, ..RetryPolicy::default() };
            let delay = policy.delay(1, random);
            prop_assert!(delay <= secs(30));
            prop_assert!(delay.as_secs_f64() >= 30.0 * (1.0 - jitter) - 1e-6);
        }
    }
}
