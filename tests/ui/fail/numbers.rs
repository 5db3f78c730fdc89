//! Numbers are whole, in range, and without quotes.

use ax_sdk::prelude::*;

#[ax_job(retries = -1, priority = 10)]
async fn out_of_range() -> JobResult<()> {
    Ok(())
}

#[ax_job(retries = "3", priority = high, name = order)]
async fn not_numbers() -> JobResult<()> {
    Ok(())
}

fn main() {}
