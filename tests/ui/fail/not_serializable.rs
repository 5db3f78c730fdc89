//! Parameters that cannot be stored as JSON, or have no default.

use ax_sdk::prelude::*;

struct Order {
    id: u64,
}

#[derive(serde::Serialize)]
struct OneWay;

#[ax_job]
async fn close_order(order: Order) -> JobResult<()> {
    let _ = order.id;
    Ok(())
}

#[ax_job]
async fn one_way(one_way: Option<OneWay>) -> JobResult<()> {
    let _ = one_way;
    Ok(())
}

#[ax_job]
async fn no_default(#[ax(default)] when: std::time::SystemTime) -> JobResult<()> {
    let _ = when;
    Ok(())
}

fn main() {}
