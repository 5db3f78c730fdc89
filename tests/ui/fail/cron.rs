//! Cron texts are checked while compiling: the message names the field, the zone or why it never fires.

use ax_sdk::prelude::*;

#[ax_job]
#[ax_schedule(cron = "0 0 25 * * *")]
async fn bad_hour() -> JobResult<()> {
    Ok(())
}

#[ax_job]
#[ax_schedule(cron = "0 0 2 * * *", tz = "Asia/Shangai")]
async fn unknown_zone() -> JobResult<()> {
    Ok(())
}

#[ax_job]
#[ax_schedule(cron = "0 0 0 30 2 *")]
async fn never() -> JobResult<()> {
    Ok(())
}

#[ax_job]
#[ax_schedule(cron = "every day")]
async fn no_cron() -> JobResult<()> {
    Ok(())
}

fn main() {}
