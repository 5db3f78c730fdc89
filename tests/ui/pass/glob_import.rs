//! The prelude beside those of axum and clap: nothing clashes. Names are unambiguous when used.
#![deny(warnings)]

use ax_sdk::prelude::*;
use clap::*;

#[derive(Parser)]
struct Arguments {
    count: Option<u8>,
}

#[ax_job]
async fn count(count: u8) -> JobResult<u8> {
    Ok(count)
}

fn main() {
    let arguments = Arguments::parse();
    let _ = count::task(arguments.count.unwrap_or(1));
}
