//! The outside world of a simulated engine: its clock, and where its futures run.

use std::time::Duration;

use ax_engine::clock::Clock;
use ax_engine::spawn::{MakeWork, Spawn, Work};
use futures_util::future::BoxFuture;

use super::executor::{Executor, Place, Process};

/// The boot clock of one machine: it began at some instant of its own and runs a little fast or slow.
pub(crate) struct SimClock {
    pub(crate) executor: Executor,
    /// Microseconds it showed when the world began.
    pub(crate) began: i64,
    /// How much faster it runs, in parts per million.
    pub(crate) drift: i64,
}

const MILLION: i128 = 1_000_000;

impl SimClock {
    fn local(&self, world: i64) -> i64 {
        let drift = i128::from(world) * i128::from(self.drift) / MILLION;
        self.began + world + i64::try_from(drift).unwrap_or(0)
    }
}

impl Clock for SimClock {
    fn micros(&self) -> i64 {
        self.local(self.executor.micros())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let local = i128::try_from(duration.as_micros()).unwrap_or(i128::MAX / MILLION / 4);
        let world =
            local * MILLION / (MILLION + i128::from(self.drift)) + i128::from(self.drift != 0);
        let at = i128::from(self.executor.micros()) + world;
        Box::pin(
            self.executor
                .sleep_until(i64::try_from(at).unwrap_or(i64::MAX)),
        )
    }
}

/// Runs the futures of one process in the world.
pub(crate) struct SimSpawn {
    pub(crate) executor: Executor,
    pub(crate) process: Process,
}

impl Spawn for SimSpawn {
    fn engine(&self, work: Work) {
        self.executor.spawn_boxed(Place::loops(self.process), work);
    }

    fn handler(&self, work: Work) {
        self.executor.spawn_boxed(Place::loops(self.process), work);
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.executor
            .spawn(Place::loops(self.process), async move { work() });
    }

    fn heartbeat(&self, make: MakeWork) {
        self.executor
            .spawn(Place::heartbeat(self.process), async move { make().await });
    }

    fn close(&self) {}
}
