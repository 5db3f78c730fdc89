//! Discovery: which rows become due, page by page and lane by lane.

use std::sync::Arc;

use ax_core::{Error, State, TaskId, Timestamp};

use super::{ShardSet, Store};

/// One page of discovery over all ten lanes.
#[derive(Clone, Debug)]
pub struct DueScan {
    /// The last `ready_at` of interest (inclusive).
    pub to: Timestamp,
    /// Where each lane goes on; the index is the priority.
    pub lanes: [LaneScan; 10],
    /// Whose rows.
    pub owned: Owned,
}

/// Where one lane goes on and how many rows it may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneScan {
    /// The first `ready_at` of interest.
    pub from_at: Timestamp,
    /// The first shard of interest among rows of exactly `from_at` (0 for all).
    pub from_shard: i64,
    /// At most this many rows; 0 skips the lane.
    pub cap: u32,
}

/// Which shards a scan looks at.
#[derive(Clone, Debug)]
pub enum Owned {
    /// All of them, inboxes included: ownership switched off.
    All,
    /// A node's shards and its inbox.
    Some {
        /// The node's shards.
        shards: ShardSet,
        /// The number of its inbox.
        inbox: i64,
    },
}

/// What the wheel needs to know of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRow {
    /// The task.
    pub id: TaskId,
    /// Its lane.
    pub priority: u8,
    /// When it is due.
    pub ready_at: Timestamp,
    /// Its slice or inbox.
    pub shard: i64,
    /// Whose task it is.
    pub namespace: Arc<str>,
    /// Its job.
    pub job: Arc<str>,
}

/// A live row as it stands, for finding out why it was not claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The row as discovery sees it.
    pub due: DueRow,
    /// Where it stands.
    pub state: State,
    /// [`Timestamp::MAX`] for never.
    pub deadline: Timestamp,
    /// Whether a cancel was asked.
    pub cancel_requested: bool,
}

impl Store {
    /// The pending rows of one page, each lane in the order of (`ready_at`, `shard`).
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn due(&self, scan: &DueScan) -> Result<Vec<DueRow>, Error> {
        let _ = scan;
        todo!()
    }

    /// Live rows by id, in no order; ids that are not live are left out.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn inspect(&self, ids: &[TaskId]) -> Result<Vec<Inspected>, Error> {
        let _ = ids;
        todo!()
    }

    /// Pending rows that were due and whose deadline has passed, at most `limit`.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn overdue(&self, limit: u32) -> Result<Vec<TaskId>, Error> {
        let _ = limit;
        todo!()
    }
}
