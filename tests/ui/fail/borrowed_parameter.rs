//! Parameters that borrow: the message says what to own instead.

use ax_sdk::State;
use ax_sdk::prelude::*;

#[ax_job]
async fn text(name: &str, parts: &[u8]) -> JobResult<()> {
    let _ = (name, parts);
    Ok(())
}

#[ax_job]
async fn nested(names: Vec<&'static str>) -> JobResult<()> {
    let _ = names;
    Ok(())
}

#[ax_job]
async fn injected(ctx: &JobContext, count: &State<u8>) -> JobResult<()> {
    let _ = (ctx, count);
    Ok(())
}

fn main() {}
