//! The start and stop contract of every loop.
//!
//! A loop is started by [`Services::start`], which returns at once; it ends itself soon after its [`Stop`] is told to.
//! [`Services::stop`] is idempotent and waits until every loop has ended. A loop that panics is reported and started
//! anew after a pause: no loop ends because of an error.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::spawn::Spawn;

/// How long a loop that panicked waits before it starts anew.
const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// Tells a loop to end.
pub type Stop = CancellationToken;

/// The last sign of life of a loop, in microseconds of the engine's clock.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<AtomicI64>);

impl Pulse {
    /// Says that the loop is alive.
    pub fn beat(&self, clock: &dyn Clock) {
        self.0.store(clock.micros(), Ordering::Relaxed);
    }

    /// How long ago the last sign was; zero before the first one.
    pub fn silence(&self, clock: &dyn Clock) -> Duration {
        let last = self.0.load(Ordering::Relaxed);
        if last == 0 {
            return Duration::ZERO;
        }
        Duration::from_micros(u64::try_from(clock.micros() - last).unwrap_or(0))
    }
}

/// The loops of one engine.
pub struct Services {
    spawn: Arc<dyn Spawn>,
    clock: Arc<dyn Clock>,
    stop: Stop,
    tracker: TaskTracker,
}

impl Services {
    /// No loop yet.
    pub fn new(spawn: Arc<dyn Spawn>, clock: Arc<dyn Clock>) -> Services {
        Services {
            spawn,
            clock,
            stop: Stop::new(),
            tracker: TaskTracker::new(),
        }
    }

    /// Starts a loop on the engine's runtime; `make` is called again when the loop panics.
    pub fn start<F>(&self, name: &'static str, make: impl Fn(Stop) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, clock) = (self.stop.clone(), self.clock.clone());
        let supervised = self
            .tracker
            .track_future(supervise(name, make, stop, clock));
        self.spawn.engine(Box::pin(supervised));
    }

    /// Starts the heartbeat on its own thread.
    pub fn start_heartbeat(
        &self,
        make: impl FnOnce(Stop) -> BoxFuture<'static, ()> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        let tracker = self.tracker.clone();
        let token = tracker.token();
        self.spawn.heartbeat(Box::new(move || {
            let beating = make(stop);
            Box::pin(async move {
                beating.await;
                drop(token);
            })
        }));
    }

    /// Tells every loop to end, without waiting.
    pub fn abandon(&self) {
        self.stop.cancel();
    }

    /// Tells every loop to end and waits for it.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

async fn supervise<F>(
    name: &'static str,
    make: impl Fn(Stop) -> F,
    stop: Stop,
    clock: Arc<dyn Clock>,
) where
    F: Future<Output = ()>,
{
    while AssertUnwindSafe(make(stop.clone()))
        .catch_unwind()
        .await
        .is_err()
    {
        tracing::error!(
            service = name,
            "a loop of the engine panicked and is started anew"
        );
        if stop.is_cancelled() {
            return;
        }
        clock.sleep(RESTART_PAUSE).await;
    }
}
