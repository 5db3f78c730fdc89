//! The settings of one engine, with their defaults.

use std::time::Duration;

use ax_core::{Error, ErrorKind, Limits, Namespace};

use crate::observer::ObserverRule;

/// Which parts of the work a node does; both by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Triggers time: owns shards, fires schedules, finds due tasks.
    pub trigger: bool,
    /// Runs the jobs it has registered.
    pub execute: bool,
}

/// How nodes share the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// Each shard is looked after by one node: little wasted work.
    Sharded,
    /// Every node looks after everything: right as well, and wasteful; for tests of exactly that.
    Everyone,
}

/// The settings of one engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Whose tasks this engine submits, triggers and runs.
    pub namespace: Namespace,
    /// What this node does.
    pub roles: Roles,
    /// How the nodes share the tasks.
    pub ownership: Ownership,
    /// Limits of payloads and outputs.
    pub limits: Limits,
    /// Handlers of async jobs that may run at once (64).
    pub async_slots: usize,
    /// Handlers of blocking jobs that may run at once (2 × cores).
    pub blocking_slots: usize,
    /// Tasks claimed beyond the slots, so that a free slot never waits for the database (30).
    pub read_ahead: usize,
    /// The most rows of one claim or settle statement (256).
    pub batch: usize,
    /// Due entries that the node holds in memory at most (1 million).
    pub held_entries: usize,
    /// How far ahead due rows are loaded (5 min).
    pub preload: Duration,
    /// The shortest time between two polls (10 ms).
    pub poll_min: Duration,
    /// The longest time between two polls (1 s).
    pub poll_max: Duration,
    /// How often due rows are looked for without a lower bound (30 s).
    pub recheck: Duration,
    /// How often running tasks are looked at for cancels and lost claims (500 ms).
    pub watch: Duration,
    /// How long a node lives without a heartbeat, by the database's clock (15 s).
    pub lease: Duration,
    /// Time between heartbeats, looks at the other nodes, and reconciling (5 s).
    pub beat: Duration,
    /// The spans by which other nodes are judged; nothing derives them from `lease` and `beat`.
    pub observer: Option<ObserverRule>,
    /// Timeout of a handler that has none of its own (300 s).
    pub timeout: Duration,
    /// How long a handler may go on after the signal of its timeout (5 s).
    pub grace: Duration,
    /// How long a shutdown waits for running handlers (30 s).
    pub shutdown: Duration,
    /// Workers that may die with a task before it is failed (3).
    pub lost_limit: u32,
    /// A tick later than this is a misfire (60 s).
    pub misfire_after: Duration,
    /// The share of this node in the cluster's shards (1).
    pub weight: f64,
    /// The application's name, for people.
    pub app: String,
    /// The application's version, for people.
    pub version: String,
}

impl Default for Config {
    fn default() -> Config {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Config {
            namespace: Namespace::default(),
            roles: Roles {
                trigger: true,
                execute: true,
            },
            ownership: Ownership::Sharded,
            limits: Limits::default(),
            async_slots: 64,
            blocking_slots: 2 * cores,
            read_ahead: 30,
            batch: 256,
            held_entries: 1_000_000,
            preload: Duration::from_secs(300),
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_secs(1),
            recheck: Duration::from_secs(30),
            watch: Duration::from_millis(500),
            lease: Duration::from_secs(15),
            beat: Duration::from_secs(5),
            observer: None,
            timeout: Duration::from_secs(300),
            grace: Duration::from_secs(5),
            shutdown: Duration::from_secs(30),
            lost_limit: 3,
            misfire_after: Duration::from_secs(60),
            weight: 1.0,
            app: String::new(),
            version: String::new(),
        }
    }
}

impl Config {
    /// A lease of 4 s with a heartbeat each second: the work of a dead node restarts within 5 s instead of 20 s, at
    /// the price of five times the heartbeats.
    #[must_use]
    pub fn fast(mut self) -> Config {
        self.lease = Duration::from_secs(4);
        self.beat = Duration::from_secs(1);
        self
    }

    /// Refuses settings that cannot work together.
    ///
    /// # Errors
    /// Names the setting and its bound.
    pub fn validate(&self) -> Result<(), Error> {
        let refuse = |text: &str| Err(Error::new(ErrorKind::Invalid, text));
        if self.beat.is_zero() || self.lease < self.beat * 2 {
            return refuse(
                "use these settings: the lease must last at least two heartbeats, or one slow beat ends the node",
            );
        }
        if self.poll_min.is_zero() || self.poll_max < self.poll_min {
            return refuse("use these settings: poll_min must be above zero and at most poll_max");
        }
        if self.batch == 0 || self.batch > 256 {
            return refuse("use these settings: batch must be 1 to 256 rows");
        }
        if self.roles.execute && self.async_slots + self.blocking_slots == 0 {
            return refuse("use these settings: a node that executes needs at least one slot");
        }
        if self.held_entries < 32_768 {
            return refuse(
                "use these settings: held_entries must be at least 32768: a page of every lane must find room",
            );
        }
        if !(self.weight.is_finite() && self.weight > 0.0) {
            return refuse("use these settings: weight must be a number above zero");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_the_fast_profile_are_valid() {
        assert!(Config::default().validate().is_ok());
        assert!(Config::default().fast().validate().is_ok());
    }

    #[test]
    fn a_lease_shorter_than_two_beats_is_refused() {
        let config = Config {
            lease: Duration::from_secs(8),
            ..Config::default()
        };
        assert_eq!(
            config.validate().map_err(|e| e.kind()),
            Err(ErrorKind::Invalid)
        );
    }
}
