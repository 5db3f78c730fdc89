//! The handlers of a simulated service: each does what its payload says and tells the book.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{JobError, JobResult, OnLost, ResultExt as _};
use ax_engine::job::{
    FromJob as _, Handler, HandlerFuture, JobCall, JobContext, JobDef, Registry, ScheduleDef,
    State, TriggerDef,
};
use serde::{Deserialize, Serialize};

use super::book::Book;
use super::executor::{Executor, Process};

/// What a handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// Works and returns.
    Succeed,
    /// Fails so many times, then returns.
    Fail(u32),
    /// Fails for good.
    Refuse,
    /// Panics so many times, then returns.
    Panic(u32),
    /// Asks for a later time once, then returns.
    Snooze(u64),
    /// Runs far longer than it may, once.
    Overrun,
    /// Works until it is asked to end, then says that it was canceled.
    Obey,
    /// Kills its process while less than so many workers have died with it.
    Abort(u32),
}

/// What a task carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The number of the submit.
    pub(crate) n: i64,
    /// What to do.
    pub(crate) act: Act,
    /// How long the work takes.
    pub(crate) ms: u64,
    /// Ballast that makes some payloads large.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) ballast: String,
}

/// How a handler reaches the world it runs in.
#[derive(Clone)]
pub(crate) struct Probe {
    pub(crate) process: Process,
    pub(crate) executor: Executor,
    pub(crate) book: Arc<Book>,
}

/// Job that any node runs.
pub(crate) const WORK: &str = "work";
/// Job that blocks its thread.
pub(crate) const GRIND: &str = "grind";
/// Job that only some nodes know.
pub(crate) const RARE: &str = "rare";
/// Job of the schedule with a fixed rate.
pub(crate) const PULSE: &str = "pulse";

/// The jobs of a node.
pub(crate) fn registry(knows_rare: bool) -> Registry {
    let mut registry = Registry::new();
    let blocking = JobDef {
        handler: Handler::Blocking(grind),
        ..job(GRIND)
    };
    let pulse = JobDef {
        handler: Handler::Async(pulse),
        schedules: SCHEDULES,
        ..job(PULSE)
    };
    let rare = knows_rare.then(|| job(RARE));
    for job in [job(WORK), blocking, pulse].into_iter().chain(rare) {
        registry
            .add(job)
            .expect("the jobs of the simulation are in order");
    }
    registry
}

const SCHEDULES: &[ScheduleDef] = &[
    ScheduleDef {
        name: Some("pulse-every-1700"),
        trigger: TriggerDef::Every { ms: 1_700 },
        misfire: "fire_once",
        overlap: "queue_one",
    },
    ScheduleDef {
        name: Some("pulse-every-2300"),
        trigger: TriggerDef::Every { ms: 2_300 },
        misfire: "fire_all(5)",
        overlap: "skip",
    },
];

fn job(name: &'static str) -> JobDef {
    JobDef {
        name,
        aliases: &[],
        max_retries: Some(3),
        backoff: Some("list 200ms, 1s, 2s"),
        timeout_ms: None,
        priority: 5,
        on_lost: OnLost::Retry,
        delay_ms: None,
        schedules: &[],
        check: State::<Probe>::check,
        handler: Handler::Async(work),
        file: file!(),
        line: line!(),
    }
}

/// One attempt; tells the book when it ends, also when it is dropped.
struct Attempt {
    probe: Probe,
    task: [u8; 16],
    fence: i64,
    told: bool,
}

impl Attempt {
    fn begin(call: &JobCall) -> JobResult<Attempt> {
        let State(probe) = State::<Probe>::from_job(call)?;
        let (task, fence) = (*call.context.task_id().as_bytes(), call.context.fence());
        probe.book.started(probe.process, task, fence);
        Ok(Attempt {
            probe,
            task,
            fence,
            told: false,
        })
    }

    fn end(&mut self, how: &'static str) {
        self.told = true;
        self.probe
            .book
            .ended(self.probe.process, self.task, self.fence, how);
    }

    async fn sleep(&self, ms: u64) {
        self.probe.executor.sleep(Duration::from_millis(ms)).await;
    }

    /// What comes after the work.
    fn conclude(&mut self, order: &Order, context: &JobContext) -> JobResult<String> {
        match order.act {
            Act::Fail(times) if context.attempt() <= times => {
                self.end("failed");
                Err(JobError::msg("it failed"))
            }
            Act::Refuse => {
                self.end("refused");
                Err("it refused").or_terminal()
            }
            Act::Panic(times) if context.attempt() <= times => {
                self.end("panicked");
                resume_unwind(Box::new("it panicked"))
            }
            Act::Snooze(ms) if context.fence() == 1 => {
                self.end("snoozed");
                Err(JobError::snooze(Duration::from_millis(ms)))
            }
            _ => {
                self.end("ok");
                Ok(self.fence.to_string())
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.told {
            self.end("dropped");
        }
    }
}

fn work(call: JobCall) -> HandlerFuture {
    Box::pin(async move {
        let order: Order = serde_json::from_str(&call.payload).or_terminal()?;
        let mut attempt = Attempt::begin(&call)?;
        let context = &call.context;
        match order.act {
            Act::Overrun if context.attempt() == 1 => attempt.sleep(60_000).await,
            Act::Obey => {
                let limit = attempt
                    .probe
                    .executor
                    .sleep(Duration::from_millis(order.ms + 4_000));
                tokio::select! {
                    biased;
                    () = context.canceled() => {
                        attempt.end("obeyed");
                        return Err(JobError::canceled());
                    }
                    () = limit => {}
                }
            }
            Act::Abort(deaths) if context.lost() < deaths => {
                attempt.sleep(order.ms).await;
                attempt.probe.book.process_ends(attempt.probe.process);
                attempt.probe.executor.kill(attempt.probe.process);
                attempt.sleep(60_000).await;
            }
            _ => attempt.sleep(order.ms).await,
        }
        attempt.conclude(&order, context)
    })
}

fn grind(call: JobCall) -> JobResult<String> {
    let order: Order = serde_json::from_str(&call.payload).or_terminal()?;
    let mut attempt = Attempt::begin(&call)?;
    attempt.conclude(&order, &call.context)
}

fn pulse(call: JobCall) -> HandlerFuture {
    Box::pin(async move {
        let mut attempt = Attempt::begin(&call)?;
        attempt.sleep(300).await;
        attempt.end("ok");
        Ok(attempt.fence.to_string())
    })
}
