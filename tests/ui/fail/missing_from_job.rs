//! An injected type without `FromJob`.

use ax_sdk::prelude::*;

struct Mailer;

#[ax_job]
async fn send(#[ax(inject)] mailer: Mailer) -> JobResult<()> {
    let _ = mailer;
    Ok(())
}

fn main() {}
