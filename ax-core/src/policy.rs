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
