//! An option is given once, and a name is a name.

use ax_sdk::prelude::*;

#[ax_job(name = "a", retries = 1, name = "b")]
#[ax_schedule(delay = "1m")]
#[ax_schedule(delay = "2m")]
async fn twice() -> JobResult<()> {
    Ok(())
}

#[ax_job(name = "")]
async fn nameless() -> JobResult<()> {
    Ok(())
}

fn main() {}
