//! Unknown options: the near word, or the place where the option belongs.

use ax_sdk::prelude::*;

#[ax_job(retires = 3, cron = "0 0 2 * * *", rename = "x", colour = "red")]
#[ax_schedule(evry = "10s")]
async fn close_order(#[ax(defualt)] order_id: u64) -> JobResult<()> {
    let _ = order_id;
    Ok(())
}

fn main() {}
