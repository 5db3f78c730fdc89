//! Takes running tasks back from dead nodes.

use ax_core::Error;

use super::{Claimed, Settled, Store};

/// How many workers may die with a task before it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLimit(
    /// The number; the default is 3.
    pub u32,
);

impl Default for LostLimit {
    fn default() -> Self {
        Self(3)
    }
}

impl Store {
    /// Running rows whose node is neither alive nor leaving, at most `limit`.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn orphans(&self, limit: u32) -> Result<Vec<Claimed>, Error> {
        let _ = limit;
        todo!()
    }

    /// Takes orphans back, each in its own transaction that repeats token, state and that the node is gone: back to
    /// pending, failed ("worker lost") at the limit or where the task forbids a second start, canceled where that was
    /// asked. One answer per row, in order.
    ///
    /// # Errors
    /// Any error of the database; may be sent again.
    pub async fn lose(&self, orphans: &[Claimed], limit: LostLimit) -> Result<Vec<Settled>, Error> {
        let _ = (orphans, limit);
        todo!()
    }
}
