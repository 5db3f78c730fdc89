//! A method is no job; the message says where its `self` goes.

use ax_sdk::prelude::*;

struct Shop;

impl Shop {
    #[ax_job]
    async fn close_order(&self, order_id: u64) -> JobResult<()> {
        let _ = order_id;
        Ok(())
    }
}

fn main() {}
