//! A schedule has one trigger, and options that go with it.

use ax_sdk::prelude::*;

#[ax_job]
#[ax_schedule(event = "shop.data_ready", at = "0 0 10 * * *")]
async fn by_event() -> JobResult<()> {
    Ok(())
}

#[ax_job]
#[ax_schedule]
async fn no_trigger() -> JobResult<()> {
    Ok(())
}

#[ax_job]
#[ax_schedule(every = "10s", cron = "0 0 2 * * *")]
async fn two_triggers() -> JobResult<()> {
    Ok(())
}

#[ax_job]
#[ax_schedule(delay = "10s", misfire = "skip")]
#[ax_schedule(every = "10s", tz = "UTC")]
async fn wrong_company() -> JobResult<()> {
    Ok(())
}

fn main() {}
