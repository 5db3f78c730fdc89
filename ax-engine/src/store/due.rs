//! Discovery: which rows become due, page by page and lane by lane.

use std::sync::Arc;

use ax_core::{Error, State, TaskId, Timestamp};

use super::Store;
use super::cells::state_of;
use super::session::again;
use super::text::Sql;
use crate::db::{Lane, Row, Value};
use crate::shard::ShardSet;

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
        let rows = again!(self, async {
            let sql = if matches!(scan.owned, Owned::All) {
                Sql::DueAll
            } else {
                Sql::Due
            };
            self.session(Lane::Read)
                .await?
                .desk()
                .read(sql, scan.values())
                .await
        })?;
        rows.iter().map(DueRow::read).collect()
    }

    /// Live rows by id, in no order; ids that are not live are left out.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn inspect(&self, ids: &[TaskId]) -> Result<Vec<Inspected>, Error> {
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read_list(Sql::Inspect, &[], ids)
                .await
        })?;
        rows.iter().map(Inspected::read).collect()
    }

    /// Pending rows that were due and whose deadline has passed, at most `limit`.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn overdue(&self, limit: u32) -> Result<Vec<TaskId>, Error> {
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read(Sql::Overdue, vec![Value::from(i64::from(limit))])
                .await
        })?;
        rows.iter()
            .map(|row| row.id(0).map(TaskId::from_bytes))
            .collect()
    }
}

impl DueScan {
    fn values(&self) -> Vec<Value> {
        let mut values = Vec::with_capacity(33);
        values.push(Value::from(self.to));
        if let Owned::Some { shards, inbox } = &self.owned {
            values.extend([
                Value::Bytes(shards.to_bytemap().into()),
                Value::from(*inbox),
            ]);
        }
        for lane in self.lanes {
            values.extend([
                Value::from(lane.from_at),
                Value::from(lane.from_shard),
                Value::from(i64::from(lane.cap)),
            ]);
        }
        values
    }
}

impl DueRow {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            id: TaskId::from_bytes(row.id(0)?),
            priority: u8::try_from(row.int(1)?).unwrap_or_default(),
            ready_at: row.time(2)?,
            shard: row.int(3)?,
            namespace: Arc::clone(row.text(4)?),
            job: Arc::clone(row.text(5)?),
        })
    }
}

impl Inspected {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            due: DueRow::read(row)?,
            state: state_of(row, 6)?,
            deadline: row.time(7)?,
            cancel_requested: row.int(8)? != 0,
        })
    }
}
