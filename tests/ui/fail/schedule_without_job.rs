//! A schedule needs a job.

use ax_sdk::prelude::*;

#[ax_schedule(every = "10s")]
async fn close_order() -> JobResult<()> {
    Ok(())
}

fn main() {}
