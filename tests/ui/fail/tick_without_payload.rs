//! A tick has no payload, so every parameter needs a value without one.

use ax_sdk::prelude::*;

#[ax_job]
#[ax_schedule(cron = "0 0 2 * * *")]
async fn report(shop: u64, #[ax(default)] days: u8, note: Option<String>) -> JobResult<()> {
    let _ = (shop, days, note);
    Ok(())
}

fn main() {}
