//! The whole of ax in one small program: orders that close themselves, a clock tick, a retry, a dead letter, a cancel.
//!
//! ```text
//! cargo run -p ax-examples --example quickstart
//! ```
//!
//! It needs nothing, prints what happens as it happens, and ends by itself after a few seconds. The database is in memory
//! here; with a file (`sqlite://shop.db`) or a server (`postgres://…`) in its place the tasks outlive the program.

// ANCHOR: readme
use ax_sdk::prelude::*;
use ax_sdk::{Ax, secs};

#[ax_job(name = "order.close", retries = 3, backoff = "fixed 500ms")]
#[ax_schedule(delay = "2s")] // the time to pay
async fn close_order(order: u64, ctx: JobContext) -> JobResult<String> {
    println!("order {order}: attempt {}", ctx.attempt());
    match order {
        2 if ctx.attempt() == 1 => Err("the bank does not answer".into()), // tried again
        3 => Err(JobError::msg("no such order").terminal()),               // a dead letter
        _ => Ok(format!("order {order} is closed")),
    }
}

#[ax_job]
#[ax_schedule(cron = "* * * * * *", tz = "Europe/Berlin")] // every second
async fn tick(ctx: JobContext) -> JobResult<()> {
    println!("tick of {}", ctx.scheduled_at().ok_or("no tick")?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ax_sdk::Error> {
    let ax = Ax::builder("sqlite::memory:").start().await?; // or sqlite://shop.db, postgres://…
    let paid = ax.submit(close_order::task(4).delay(secs(60))).await?;
    println!("order 4 is paid, its task is {:?}", paid.cancel().await?);
    for order in ax.submit_many([1, 2, 3].map(close_order::task)).await {
        println!("{:?}", order?.outcome().await?);
    }
    ax.shutdown().await;
    Ok(())
}
// ANCHOR_END: readme
