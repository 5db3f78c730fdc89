//! What a job returns: one error each, on the return type.

use ax_sdk::prelude::*;

struct Closed;

#[ax_job]
async fn bare_value() -> u64 {
    7
}

#[ax_job]
async fn no_json() -> JobResult<Closed> {
    Ok(Closed)
}

#[ax_job]
async fn no_error() -> Result<u64, Closed> {
    Err(Closed)
}

fn main() {}
