//! Durations and back-offs are texts with units.

use ax_sdk::prelude::*;

#[ax_job(timeout = "30 parsecs")]
async fn unknown_unit() -> JobResult<()> {
    Ok(())
}

#[ax_job(timeout = 30)]
#[ax_schedule(every = "0s")]
async fn without_unit() -> JobResult<()> {
    Ok(())
}

#[ax_job(backoff = "linear 3s")]
#[ax_schedule(delay = "-5m")]
async fn unknown_backoff() -> JobResult<()> {
    Ok(())
}

fn main() {}
