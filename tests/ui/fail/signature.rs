//! Functions that can be no job, each with its reason.

use ax_sdk::prelude::*;

#[ax_job]
async fn pattern((width, height): (u32, u32), _: u8) -> JobResult<()> {
    let _ = (width, height);
    Ok(())
}

#[ax_job]
async fn generic<T>(value: T) -> JobResult<()> {
    drop(value);
    Ok(())
}

#[ax_job]
async fn hidden_generic(value: impl Send) -> JobResult<()> {
    drop(value);
    Ok(())
}

#[ax_job]
fn hidden_future() -> impl Future<Output = JobResult<()>> {
    async { Ok(()) }
}

#[ax_job]
async unsafe fn dangerous() -> JobResult<()> {
    Ok(())
}

#[ax_job]
async fn same_name(#[ax(rename = "b")] a: u8, b: u8) -> JobResult<()> {
    let _ = (a, b);
    Ok(())
}

#[ax_job]
struct Order;

fn main() {}
