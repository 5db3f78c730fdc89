//! From claimed tasks to ended attempts: slots, timeout with signal and grace, panics.
//!
//! Enters: claimed rows whose credit is reserved. Leaves: finished attempts, to the report room. User code runs on the
//! host's runtime; whatever it does, it ends as a value here.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ax_core::{JobResult, RetryPolicy, Timestamp};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::job::{ContextParts, Handler, JobCall, JobContext, JobKind, RegisteredJob};
use crate::node::Node;
use crate::report::{Finished, ReportHandle};
use crate::running::{Attempt, Running, Signal};
use crate::slots::{Reserved, Slots};
use crate::store::Claimed;
use crate::verdict::{Case, Ended, decide};

/// Runs claimed tasks in the order they come, as many at once as there are slots.
pub struct Executor {
    node: Arc<Node>,
    slots: Arc<Slots>,
    running: Arc<Running>,
    report: ReportHandle,
    queues: [Mutex<VecDeque<Arc<Attempt>>>; 2],
}

impl Executor {
    /// An executor with nothing to do.
    pub fn new(
        node: Arc<Node>,
        slots: Arc<Slots>,
        running: Arc<Running>,
        report: ReportHandle,
    ) -> Executor {
        Executor {
            node,
            slots,
            running,
            report,
            queues: Default::default(),
        }
    }

    /// Takes claimed tasks, of `asked` for which credit was reserved.
    pub fn accept(self: &Arc<Self>, kind: JobKind, asked: usize, claimed: Vec<Claimed>) {
        let got = claimed.len();
        {
            let mut queue = self.queue(kind);
            for row in claimed {
                let attempt = Arc::new(Attempt::new(Arc::new(row), kind));
                self.running.add(attempt.clone());
                queue.push_back(attempt);
            }
        }
        self.slots.claimed(kind, asked, got);
        if self.node.is_leaving() {
            // A claim that was under way when the shutdown began.
            self.hand_back_queued();
        } else {
            self.start_queued(kind);
        }
    }

    /// Hands back what was claimed and has not started; for a shutdown.
    pub fn hand_back_queued(&self) {
        for kind in [JobKind::Async, JobKind::Blocking] {
            let queued = std::mem::take(&mut *self.queue(kind));
            for attempt in queued {
                self.slots.unqueue(kind);
                self.finish(attempt, Ended::HandedBack, None);
            }
        }
    }

    fn queue(&self, kind: JobKind) -> std::sync::MutexGuard<'_, VecDeque<Arc<Attempt>>> {
        let index = usize::from(kind == JobKind::Blocking);
        self.queues[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn start_queued(self: &Arc<Self>, kind: JobKind) {
        while self.slots.start(kind) == Reserved::Yes {
            let Some(attempt) = self.queue(kind).pop_front() else {
                // A shutdown emptied the queue between the two steps; the count follows.
                self.slots.finished(kind);
                self.slots.settled(kind, 1);
                return;
            };
            self.start(attempt);
        }
    }

    fn start(self: &Arc<Self>, attempt: Arc<Attempt>) {
        let this = self.clone();
        self.node.world.spawn.handler(Box::pin(async move {
            let started_at = this.node.now();
            let ended = this.run(&attempt).await;
            let kind = attempt.kind;
            this.slots.finished(kind);
            this.finish(attempt, ended, Some(started_at));
            this.start_queued(kind);
        }));
    }

    async fn run(&self, attempt: &Arc<Attempt>) -> Ended {
        if matches!(
            attempt.why(),
            Some(Signal::Shutdown | Signal::Stale | Signal::LeaseLost)
        ) {
            return Ended::HandedBack;
        }
        let Some(job) = self.node.registry.get(attempt.claimed.job.as_str()) else {
            return Ended::HandedBack;
        };
        let call = self.call(attempt);
        let limit = attempt
            .claimed
            .timeout
            .or(job.timeout)
            .unwrap_or(self.node.config.timeout);
        match job.def.handler {
            Handler::Async(handler) => {
                let work = AssertUnwindSafe(async move { handler(call).await }).catch_unwind();
                let work = Box::pin(async move { ended(work.await) });
                self.within(attempt, limit, work).await
            }
            Handler::Blocking(handler) => {
                let (tell, told) = oneshot::channel();
                self.node.world.spawn.blocking(Box::new(move || {
                    let result = std::panic::catch_unwind(AssertUnwindSafe(|| handler(call)));
                    // Nobody waits any more when it was abandoned.
                    let _abandoned = tell.send(ended(result));
                }));
                let work = Box::pin(async move { told.await.unwrap_or(Ended::HandedBack) });
                self.within(attempt, limit, work).await
            }
        }
    }

    /// Waits for the handler at most `limit`, then signals it, then waits for the grace. A handler that returns well
    /// within the grace has its say: what it did is done.
    async fn within(
        &self,
        attempt: &Attempt,
        limit: Duration,
        mut work: BoxFuture<'static, Ended>,
    ) -> Ended {
        let clock = &self.node.world.clock;
        let ended = tokio::select! {
            biased;
            ended = &mut work => return ended,
            () = attempt.abandoned() => Ended::HandedBack,
            () = clock.sleep(limit) => {
                attempt.signal(Signal::Timeout);
                tokio::select! {
                    biased;
                    ended = &mut work => in_grace(ended, limit),
                    () = attempt.abandoned() => Ended::HandedBack,
                    () = clock.sleep(self.node.config.grace) => Ended::TimedOut(limit),
                }
            }
        };
        // A handler that panics while it is dropped must not take the slot with it.
        match std::panic::catch_unwind(AssertUnwindSafe(|| drop(work))) {
            Ok(()) => ended,
            Err(panic) => Ended::Panicked(panic_text(panic)),
        }
    }

    fn call(&self, attempt: &Attempt) -> JobCall {
        let row = &attempt.claimed;
        JobCall {
            payload: row.payload.clone(),
            context: JobContext::new(ContextParts {
                task: row.id,
                fence: row.fence,
                attempt: row.attempt,
                lost: row.lost,
                last_error: row.error.as_deref().map(str::to_owned),
                tick: row.tick.clone(),
                key: row.key.as_deref().map(str::to_owned),
                tags: row.tag_list(),
                job: row.job.clone(),
                namespace: row.namespace.clone(),
                states: self.node.states.clone(),
                cancellation: attempt.cancellation().clone(),
            }),
        }
    }

    fn finish(&self, attempt: Arc<Attempt>, ended: Ended, started_at: Option<Timestamp>) {
        let finished_at = self.node.now();
        let fallback = RetryPolicy::default();
        let retry = self
            .node
            .registry
            .get(attempt.claimed.job.as_str())
            .map_or(&fallback, |job: &RegisteredJob| &job.retry);
        let end = decide(
            ended,
            &Case {
                attempt: attempt.claimed.attempt,
                lost: attempt.claimed.lost,
                max_retries: attempt.claimed.max_retries,
                retry,
                why: attempt.why(),
                limits: &self.node.config.limits,
                now: finished_at,
                random: self.node.world.random.fraction(),
            },
        );
        self.report.send(Finished {
            attempt,
            end,
            started_at,
            finished_at,
        });
    }
}

/// A handler that ended within the grace counts as timed out, unless it succeeded.
fn in_grace(ended: Ended, limit: Duration) -> Ended {
    match ended {
        Ended::Returned(Ok(_)) => ended,
        _ => Ended::TimedOut(limit),
    }
}

fn ended(result: Result<JobResult<String>, Box<dyn Any + Send>>) -> Ended {
    match result {
        Ok(returned) => Ended::Returned(returned),
        Err(panic) => Ended::Panicked(panic_text(panic)),
    }
}

/// The message of a panic; dropping the payload may panic again, so it is leaked in that case.
fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "with a value that is not text".to_owned());
    let _dropped = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}
