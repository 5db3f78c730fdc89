//! A library with public jobs whose author denies every lint that the generated code could touch.
#![deny(
    warnings,
    missing_docs,
    unused,
    nonstandard_style,
    unreachable_pub,
    dead_code,
    private_interfaces
)]
#![deny(
    missing_debug_implementations,
    unused_qualifications,
    unsafe_code,
    missing_copy_implementations
)]
#![deny(
    let_underscore_drop,
    single_use_lifetimes,
    trivial_casts,
    unused_results,
    elided_lifetimes_in_paths
)]

/// Jobs around orders.
pub mod orders {
    use ax_sdk::prelude::*;

    /// An order as callers send it.
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    #[non_exhaustive]
    pub struct Order {
        id: u64,
    }

    /// Closes an order.
    ///
    /// Twice is once.
    #[ax_job(name = "order.close")]
    #[ax_schedule(delay = "30m")]
    pub async fn close_order(order: Order, _reason: Option<String>) -> JobResult<Order> {
        Ok(order)
    }

    /// Left out.
    #[ax_job]
    #[cfg(any())]
    pub async fn left_out() -> JobResult<()> {
        Ok(())
    }

    /// Old.
    #[ax_job]
    #[deprecated]
    pub fn old_job(mut count: u8) -> JobResult<u8> {
        count += 1;
        Ok(count)
    }
}

fn main() {
    let _ = orders::close_order::JOB;
}
