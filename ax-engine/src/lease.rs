//! How long this node may act, counted on its own clock.
//!
//! The holder counts from the moment it *sent* the heartbeat that was answered, and leaves a part of the lease unused. So
//! its own end comes before the end that the database knows, by enough for handlers to hear of it until then: timers wake
//! late, threads wait for a core, and two clocks do not run alike. At the end it stops claiming and signals its handlers;
//! outcomes stay acceptable by token until the database says otherwise.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The part of a lease that its holder leaves unused: one in this many (0.94 s of 15 s, 0.25 s of 4 s).
const UNUSED: u32 = 16;

/// The end of this node's lease, in microseconds of the engine's clock.
#[derive(Debug, Default)]
pub struct Lease {
    ends: AtomicI64,
}

impl Lease {
    /// Renewed by a heartbeat that was sent at `sent` (µs) and answered; the database counts `ttl` from its own now.
    pub fn renew(&self, sent: i64, ttl: Duration) {
        let used = ttl - ttl / UNUSED;
        let ends = sent.saturating_add(i64::try_from(used.as_micros()).unwrap_or(i64::MAX));
        self.ends.fetch_max(ends, Ordering::Relaxed);
    }

    /// Ended: the database said that this node is dead, or it leaves.
    pub fn end(&self) {
        self.ends.store(0, Ordering::Relaxed);
    }

    /// Whether the node may still claim at `now` (µs).
    pub fn holds(&self, now: i64) -> bool {
        now < self.ends.load(Ordering::Relaxed)
    }

    /// How long it still holds.
    pub fn left(&self, now: i64) -> Duration {
        Duration::from_micros(u64::try_from(self.ends.load(Ordering::Relaxed) - now).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_sending_and_never_shrinks() {
        let lease = Lease::default();
        assert!(!lease.holds(0));
        lease.renew(1_000_000, Duration::from_secs(4));
        assert!(lease.holds(4_749_999));
        assert!(!lease.holds(4_750_000), "a sixteenth is left unused");
        lease.renew(500_000, Duration::from_secs(4));
        assert!(
            lease.holds(4_749_999),
            "an answer that comes late does not shorten it"
        );
        lease.end();
        assert!(!lease.holds(1_000_001));
    }
}
