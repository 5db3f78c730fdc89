//! A future that cannot move between threads, and a wrong argument: both on the user's own line.

use std::rc::Rc;

use ax_sdk::prelude::*;

async fn pause() {}

#[ax_job]
async fn close_order(order_id: u64) -> JobResult<()> {
    let shared = Rc::new(order_id);
    pause().await;
    drop(shared);
    Ok(())
}

#[ax_job]
async fn wrong_argument(order_id: u64) -> JobResult<()> {
    let _ = order_id;
    Ok(())
}

fn main() {
    let _ = wrong_argument::task("42");
}
