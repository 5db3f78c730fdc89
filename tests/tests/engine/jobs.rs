//! The jobs of the suite, and what they tell the cases.

use std::sync::Arc;
use std::time::Duration;

use ax_sdk::prelude::*;
use ax_sdk::{Ax, AxBuilder, Config, Handle, Outcome, State, Task, TaskState};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Notify, Semaphore};

/// The longest that any case waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What handlers tell a case, and how a case holds them back.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    inner: Arc<Inner>,
}

struct Inner {
    log: Mutex<Vec<String>>,
    changed: Notify,
    gate: Semaphore,
}

impl Default for Inner {
    fn default() -> Self {
        Inner {
            log: Mutex::default(),
            changed: Notify::new(),
            gate: Semaphore::new(0),
        }
    }
}

impl Stage {
    /// A handler notes something.
    pub(crate) async fn note(&self, text: impl Into<String>) {
        self.inner.log.lock().await.push(text.into());
        self.inner.changed.notify_waiters();
    }

    /// Waits until `n` notes begin with `prefix`.
    pub(crate) async fn noted(&self, prefix: &str, n: usize) -> Vec<String> {
        let wait = async {
            loop {
                let changed = self.inner.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let found = self.all(prefix).await;
                if found.len() >= n {
                    return found;
                }
                changed.await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(_) => panic!(
                "{n} notes {prefix:?} did not come; there are {:?}",
                self.all("").await
            ),
        }
    }

    /// The notes so far that begin with `prefix`.
    pub(crate) async fn all(&self, prefix: &str) -> Vec<String> {
        self.inner
            .log
            .lock()
            .await
            .iter()
            .filter(|note| note.starts_with(prefix))
            .cloned()
            .collect()
    }

    /// Lets `n` handlers that wait at the gate go on.
    pub(crate) fn open(&self, n: usize) {
        self.inner.gate.add_permits(n);
    }

    async fn pass(&self) {
        if let Ok(permit) = self.inner.gate.acquire().await {
            permit.forget();
        }
    }
}

/// Gives back what it is given.
#[ax_job(name = "suite.echo")]
pub(crate) async fn echo(text: String) -> JobResult<String> {
    Ok(text)
}

/// Notes that it runs, and its attempt.
#[ax_job(name = "suite.note")]
pub(crate) async fn note(text: String, ctx: JobContext, stage: State<Stage>) -> JobResult<u32> {
    stage.note(format!("{text} {}", ctx.attempt())).await;
    Ok(ctx.attempt())
}

/// Notes that it runs, waits at the gate, and ends when it is asked to.
#[ax_job(name = "suite.gated")]
pub(crate) async fn gated(text: String, ctx: JobContext, stage: State<Stage>) -> JobResult<String> {
    stage
        .note(format!("{text} started {}", ctx.attempt()))
        .await;
    tokio::select! {
        () = stage.pass() => Ok(text),
        () = ctx.canceled() => {
            stage.note(format!("{text} signaled")).await;
            Err(JobError::msg("asked to end"))
        }
    }
}

/// Fails `times` times, then succeeds.
#[ax_job(name = "suite.flaky", retries = 3, backoff = "fixed 5ms")]
pub(crate) async fn flaky(times: u32, ctx: JobContext) -> JobResult<String> {
    if ctx.attempt() <= times {
        return Err(JobError::msg(format!("failure {}", ctx.attempt())));
    }
    Ok(ctx.last_error().unwrap_or_default().to_owned())
}

/// Ends in the way it is told.
#[ax_job(name = "suite.end", retries = 2, backoff = "fixed 5ms")]
pub(crate) async fn end(how: String, ctx: JobContext, stage: State<Stage>) -> JobResult<String> {
    stage.note(format!("{how} {}", ctx.attempt())).await;
    match how.as_str() {
        "terminal" => Err(JobError::msg("never again").terminal()),
        "cancel" => Err(JobError::canceled()),
        "panic" => panic!("all is lost"),
        "panic string" => panic!("all is lost {}", 2),
        "panic value" => std::panic::panic_any(7_u8),
        "snooze" if ctx.fence() < 4 => Err(JobError::snooze(Duration::from_millis(5))),
        "later" if ctx.attempt() < 2 => {
            Err(JobError::msg("busy").retry_after(Duration::from_millis(1)))
        }
        "nul" => Err(JobError::msg("a\0b").terminal()),
        "long" => Err(JobError::msg("é".repeat(10 << 20)).terminal()),
        "wide" => Ok("x".repeat(2 << 20)),
        "nul result" => Ok("a\0b".to_owned()),
        _ => Ok(how),
    }
}

/// Sleeps past its timeout, ignoring every signal.
#[ax_job(
    name = "suite.slow",
    retries = 1,
    backoff = "fixed 5ms",
    timeout = "50ms"
)]
pub(crate) async fn slow(polite: bool, ctx: JobContext, stage: State<Stage>) -> JobResult<()> {
    stage.note(format!("slow {}", ctx.attempt())).await;
    if polite {
        ctx.canceled().await;
        stage.note("slow saw the signal").await;
        return Err(JobError::msg("stopped early"));
    }
    std::future::pending::<()>().await;
    Ok(())
}

/// Blocks a thread.
#[ax_job(name = "suite.blocking")]
pub(crate) fn blocking(millis: u64) -> JobResult<u64> {
    #[expect(clippy::disallowed_methods, reason = "it stands for code that blocks")]
    std::thread::sleep(Duration::from_millis(millis));
    Ok(millis)
}

/// A node with every job of the suite, a quick heartbeat and little grace.
pub(crate) fn node(url: &str, stage: &Stage) -> AxBuilder {
    Ax::builder(url)
        .only_given_jobs()
        .job(echo::JOB)
        .job(note::JOB)
        .job(gated::JOB)
        .job(flaky::JOB)
        .job(end::JOB)
        .job(slow::JOB)
        .job(blocking::JOB)
        .state(stage.clone())
        .configure(quick)
}

/// Settings that keep cases short.
pub(crate) fn quick(config: &mut Config) {
    config.lease = Duration::from_secs(4);
    config.beat = Duration::from_secs(1);
    config.grace = Duration::from_millis(100);
    config.watch = Duration::from_millis(50);
    config.poll_max = Duration::from_millis(200);
}

/// The outcome of a task, waited for with patience.
pub(crate) async fn outcome<T: DeserializeOwned>(handle: &Handle<T>) -> Outcome<T> {
    match tokio::time::timeout(PATIENCE, handle.outcome()).await {
        Ok(outcome) => outcome.expect("the engine runs"),
        Err(_) => panic!("no outcome of {:?}", handle.task().await),
    }
}

/// The task once it is in this state.
pub(crate) async fn in_state(ax: &Ax, id: ax_sdk::TaskId, state: TaskState) -> Task {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let task = ax.find(id).await.expect("the database answers");
        match task {
            Some(task) if task.state == state => return task,
            other if tokio::time::Instant::now() > end => panic!("not {state}: {other:?}"),
            _ => tokio::task::yield_now().await,
        }
    }
}
