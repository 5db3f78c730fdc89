//! The jobs of the fault cases. Each tells its stage what it does, with the number of its attempt.

use ax_engine::clock::host_now;
use ax_sdk::prelude::*;
use ax_sdk::{JobDef, State};

use ax_tests::faults::Stage;

/// Notes that it ran; gives its attempt.
#[ax_job(name = "faults.note")]
pub(crate) async fn note(text: String, ctx: JobContext, stage: State<Stage>) -> JobResult<u32> {
    stage.note(format!("{text} {}", ctx.attempt())).await;
    Ok(ctx.attempt())
}

/// Fails in its first attempt.
#[ax_job(name = "faults.flaky", retries = 3, backoff = "fixed 5ms")]
pub(crate) async fn flaky(text: String, ctx: JobContext, stage: State<Stage>) -> JobResult<u32> {
    stage.note(format!("{text} {}", ctx.attempt())).await;
    if ctx.attempt() == 1 {
        return Err(JobError::msg("fails at first"));
    }
    Ok(ctx.attempt())
}

/// Waits at the gate. When it is asked to end it notes at what time, and goes on waiting; gives its attempt.
#[ax_job(name = "faults.stubborn", timeout = "10m")]
pub(crate) async fn stubborn(text: String, ctx: JobContext, stage: State<Stage>) -> JobResult<u32> {
    stage
        .note(format!("{text} started {}", ctx.attempt()))
        .await;
    let passed = stage.pass();
    tokio::pin!(passed);
    tokio::select! {
        biased;
        () = ctx.canceled() => {
            stage.note(format!("{text} signaled {}", host_now().as_millis())).await;
            passed.await;
        }
        () = &mut passed => {}
    }
    Ok(ctx.attempt())
}

/// Ticks often, and notes for which instant.
#[ax_job(name = "faults.tick")]
#[ax_schedule(every = "50ms", overlap = "queue_all")]
pub(crate) async fn tick(ctx: JobContext, stage: State<Stage>) -> JobResult<()> {
    let at = ctx.scheduled_at().ok_or("not made by a schedule")?;
    stage.note(format!("tick {}", at.as_millis())).await;
    Ok(())
}

/// All jobs but the one that ticks by itself.
pub(crate) const JOBS: [JobDef; 3] = [note::JOB, flaky::JOB, stubborn::JOB];
