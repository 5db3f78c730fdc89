//! The one place that reads clocks.
//!
//! What enters: the machine's boot clock and, at each heartbeat, a sample of the database's now. What leaves: the
//! engine's estimate of the database's now, and sleeps. The node's wall clock is never used to decide anything; the
//! only reader of it is [`host_now`], which stands in for the database's clock where the database is a file (SQLite).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ax_core::Timestamp;
use futures_util::future::BoxFuture;

/// A clock that only goes forward, and sleeps measured by it.
///
/// The system's clock counts the time since boot, suspension included; a simulator brings its own.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since an arbitrary start, monotonic.
    fn micros(&self) -> i64;

    /// Completes after `duration` on this clock.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The machine's boot clock with tokio's timer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn micros(&self) -> i64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the clock that all others are told to use"
        )]
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The host's wall clock: the database's now where the database is a file on this host.
pub fn host_now() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Timestamp::from_millis(now.tv_sec * 1_000 + now.tv_nsec / 1_000_000)
}

/// How many samples the anchor keeps: enough to find one of small round trip, few enough to follow drift.
const SAMPLES: usize = 16;

/// A difference to the anchor above which the database's clock is taken to have jumped.
const JUMP_MICROS: i64 = 1_000_000;

/// The engine's estimate of the database's now: the boot clock plus an offset that each heartbeat refines.
///
/// A reply that says "now is r" and arrives at boot time b proves that the database's now is at least r at b. The
/// largest r − b of the last samples is therefore a lower bound that the sample of least round trip makes tight: the
/// engine is never ahead of the database, so a claim by this clock is not refused as early.
pub struct DatabaseClock {
    clock: Arc<dyn Clock>,
    offset: AtomicI64,
    samples: Mutex<VecDeque<i64>>,
}

/// What an anchor sample showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchored {
    /// The sample agrees with the former ones.
    Steady,
    /// The database's clock moved by this many microseconds against the boot clock; the anchor was made anew.
    Jumped(i64),
}

impl DatabaseClock {
    /// A clock that has not been anchored yet; the first sample sets it.
    pub fn new(clock: Arc<dyn Clock>) -> DatabaseClock {
        DatabaseClock {
            clock,
            offset: AtomicI64::new(0),
            samples: Mutex::new(VecDeque::new()),
        }
    }

    /// The database's now, as well as this node knows.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(
            (self.clock.micros() + self.offset.load(Ordering::Relaxed)).div_euclid(1_000),
        )
    }

    /// How long until `at` on the database's clock; zero when it has come.
    pub fn until(&self, at: Timestamp) -> Duration {
        let now = self.clock.micros() + self.offset.load(Ordering::Relaxed);
        let left = at.as_millis().saturating_mul(1_000).saturating_sub(now);
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Takes a reply of the database that arrived just now.
    pub fn anchor(&self, replied: Timestamp) -> Anchored {
        let sample = replied
            .as_millis()
            .saturating_mul(1_000)
            .saturating_sub(self.clock.micros());
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.offset.load(Ordering::Relaxed);
        let jumped = !samples.is_empty() && (sample - before).abs() > JUMP_MICROS;
        if jumped {
            samples.clear();
        }
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
        let best = samples.iter().copied().max().unwrap_or(sample);
        self.offset.store(best, Ordering::Relaxed);
        if jumped {
            Anchored::Jumped(sample - before)
        } else {
            Anchored::Steady
        }
    }

    /// The clock below.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(AtomicI64);

    impl Clock for Fixed {
        fn micros(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    fn at(clock: &Fixed, micros: i64) {
        clock.0.store(micros, Ordering::Relaxed);
    }

    #[test]
    fn the_tightest_sample_wins_and_the_engine_is_never_ahead() {
        let fixed = Arc::new(Fixed(AtomicI64::new(0)));
        let clock = DatabaseClock::new(fixed.clone());
        at(&fixed, 40_000);
        clock.anchor(Timestamp::from_millis(1_000));
        assert_eq!(clock.now(), Timestamp::from_millis(1_000));
        at(&fixed, 50_500);
        clock.anchor(Timestamp::from_millis(1_050));
        assert_eq!(
            clock.now(),
            Timestamp::from_millis(1_050),
            "a reply with less delay moves the clock forward"
        );
        at(&fixed, 60_500);
        clock.anchor(Timestamp::from_millis(1_030));
        assert_eq!(
            clock.now(),
            Timestamp::from_millis(1_060),
            "a slow reply changes nothing"
        );
    }

    #[test]
    fn a_jump_of_the_database_is_reported_and_followed() {
        let fixed = Arc::new(Fixed(AtomicI64::new(0)));
        let clock = DatabaseClock::new(fixed.clone());
        assert_eq!(
            clock.anchor(Timestamp::from_millis(10_000)),
            Anchored::Steady
        );
        assert_eq!(
            clock.anchor(Timestamp::from_millis(4_000)),
            Anchored::Jumped(-6_000_000)
        );
        assert_eq!(clock.now(), Timestamp::from_millis(4_000));
        assert_eq!(
            clock.until(Timestamp::from_millis(4_250)),
            Duration::from_millis(250)
        );
        assert_eq!(
            clock.until(Timestamp::MAX),
            Duration::from_micros(u64::try_from(i64::MAX - 4_000_000).unwrap_or(0))
        );
    }
}
