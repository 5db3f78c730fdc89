//! The jobs of a worker: each way in which a handler can end.
//!
//! What enters: a span to work for. What leaves: a line in the ledger at the start and one at the end of every execution.

use std::time::Duration;

use ax_sdk::State;
use ax_sdk::prelude::*;
use ax_tests::kill::ledger::Ledger;
use tokio::time::timeout;

const ON_PURPOSE: &str = "panics on purpose";

/// Succeeds at once.
#[ax_job(name = "kill.noop", retries = 50, backoff = "fixed 200ms")]
async fn noop(ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    ledger.start(&ctx).succeed()
}

/// Takes its time, and notices when it should end.
#[ax_job(name = "kill.nap", retries = 50, backoff = "fixed 200ms")]
async fn nap(span_ms: u64, ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    let run = ledger.start(&ctx);
    if timeout(Duration::from_millis(span_ms), ctx.canceled())
        .await
        .is_ok()
    {
        run.give_up();
        return Err("was asked to end".into());
    }
    run.succeed()
}

/// Takes its time, and never notices that it should end: after a pause its outcome comes when others have taken over.
#[ax_job(name = "kill.deaf", retries = 50, backoff = "fixed 200ms")]
async fn deaf(span_ms: u64, ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    let run = ledger.start(&ctx);
    let _over = timeout(Duration::from_millis(span_ms), std::future::pending::<()>()).await;
    run.succeed()
}

/// Fails at first.
#[ax_job(
    name = "kill.flaky",
    retries = 50,
    backoff = "exponential 50ms x2 max 1s"
)]
async fn flaky(ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    let run = ledger.start(&ctx);
    if ctx.attempt() <= 2 {
        run.give_up();
        return Err(format!("fails at attempt {}", ctx.attempt()).into());
    }
    run.succeed()
}

/// Puts itself off at first.
#[ax_job(name = "kill.snooze", retries = 50, backoff = "fixed 200ms")]
async fn snooze(span_ms: u64, ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    let run = ledger.start(&ctx);
    if ctx.fence() == 1 {
        run.give_up();
        return Err(JobError::snooze(Duration::from_millis(span_ms)));
    }
    run.succeed()
}

/// Panics at first.
#[ax_job(name = "kill.panic", retries = 50, backoff = "fixed 50ms")]
async fn panic_first(ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    let run = ledger.start(&ctx);
    if ctx.attempt() == 1 {
        run.give_up();
        panic!("{ON_PURPOSE}");
    }
    run.succeed()
}

/// Holds a thread.
#[ax_job(name = "kill.block", retries = 50, backoff = "fixed 200ms")]
fn block(span_ms: u64, ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    let run = ledger.start(&ctx);
    std::thread::park_timeout(Duration::from_millis(span_ms));
    run.succeed()
}

/// Fails for good.
#[ax_job(name = "kill.hopeless")]
async fn hopeless(ctx: JobContext, ledger: State<Ledger>) -> JobResult<String> {
    ledger.start(&ctx).give_up();
    Err(JobError::msg("fails for good").terminal())
}

/// Keeps panics that are meant out of the log, so that others are seen in it.
pub(crate) fn panic_in_silence() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(ON_PURPOSE) {
            usual(panic);
        }
    }));
}
