//! Words of policies, with the near word.

use ax_sdk::prelude::*;

#[ax_job(on_lost = "retyr")]
#[ax_schedule(every = "10s", misfire = "fire_one", overlap = "allow")]
async fn close_order() -> JobResult<()> {
    Ok(())
}

#[ax_job]
#[ax_schedule(every = "10s", misfire = "whenever", overlap = "queue")]
async fn other() -> JobResult<()> {
    Ok(())
}

fn main() {}
