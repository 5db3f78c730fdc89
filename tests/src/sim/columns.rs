//! Where each column stands in a row of the simulated tables, and how rows are read and written.
//!
//! The order is that of the lists `TASK`, `NEW` and `SCHEDULE` at the head of the store's statements.

use std::sync::Arc;

use ax_engine::db::Value;

/// A stored row.
pub(crate) type Record = Vec<Value>;

/// Columns of `ax_task`, and the first ones of `ax_history`.
pub(crate) mod task {
    pub(crate) const ID: usize = 0;
    pub(crate) const NAMESPACE: usize = 1;
    pub(crate) const JOB: usize = 2;
    pub(crate) const STATE: usize = 3;
    pub(crate) const PRIORITY: usize = 4;
    pub(crate) const READY_AT: usize = 5;
    pub(crate) const SHARD: usize = 6;
    pub(crate) const DEADLINE: usize = 7;
    pub(crate) const PAYLOAD: usize = 8;
    pub(crate) const PAYLOAD_AT: usize = 9;
    pub(crate) const TASK_KEY: usize = 10;
    pub(crate) const TAGS: usize = 11;
    pub(crate) const ROUTE_KEY: usize = 12;
    pub(crate) const LIMIT_KEY: usize = 13;
    pub(crate) const MAX_RETRIES: usize = 14;
    pub(crate) const TIMEOUT_MS: usize = 15;
    pub(crate) const ON_LOST: usize = 16;
    pub(crate) const CREATED_AT: usize = 17;
    pub(crate) const SCHEDULE: usize = 18;
    pub(crate) const SCHEDULED_AT: usize = 19;
    pub(crate) const ATTEMPT: usize = 22;
    pub(crate) const LOST: usize = 23;
    pub(crate) const FENCE: usize = 24;
    pub(crate) const ROUND: usize = 25;
    pub(crate) const TOKEN: usize = 26;
    pub(crate) const NODE: usize = 27;
    pub(crate) const CLAIMED_AT: usize = 28;
    pub(crate) const CANCEL_AT: usize = 29;
    pub(crate) const CANCEL_REASON: usize = 30;
    pub(crate) const ERROR: usize = 31;
    pub(crate) const TRACE: usize = 33;
    pub(crate) const RUN_ID: usize = 34;
    pub(crate) const STEP: usize = 35;
    pub(crate) const MAP_INDEX: usize = 36;
    pub(crate) const WIDTH: usize = 37;
    /// Where the values of a new task go.
    pub(crate) const NEW: [usize; 21] = [
        ID,
        NAMESPACE,
        JOB,
        PRIORITY,
        READY_AT,
        SHARD,
        DEADLINE,
        PAYLOAD,
        PAYLOAD_AT,
        TASK_KEY,
        TAGS,
        ROUTE_KEY,
        MAX_RETRIES,
        TIMEOUT_MS,
        ON_LOST,
        17,
        SCHEDULE,
        SCHEDULED_AT,
        20,
        21,
        TRACE,
    ];
}

/// Columns of `ax_history` behind those of the task.
pub(crate) mod history {
    pub(crate) const RESULT: usize = 39;
    pub(crate) const REASON: usize = 40;
    pub(crate) const WIDTH: usize = 41;
}

/// Columns of `ax_key`.
pub(crate) mod key {
    pub(crate) const NAMESPACE: usize = 0;
    pub(crate) const JOB: usize = 1;
    pub(crate) const TASK_KEY: usize = 2;
    pub(crate) const TASK: usize = 3;
    pub(crate) const UNTIL: usize = 4;
    pub(crate) const PERIOD_END: usize = 5;
}

/// Columns of `ax_execution`.
pub(crate) mod execution {
    pub(crate) const TASK: usize = 0;
    pub(crate) const FENCE: usize = 1;
    pub(crate) const ROUND: usize = 2;
    pub(crate) const TOKEN: usize = 3;
    pub(crate) const REASON: usize = 6;
    pub(crate) const WIDTH: usize = 11;
}

/// Columns of `ax_node`: those that the statement about peers returns, then the two that it does not.
pub(crate) mod node {
    pub(crate) const ID: usize = 0;
    pub(crate) const NAMESPACE: usize = 1;
    pub(crate) const INBOX: usize = 2;
    pub(crate) const STATE: usize = 3;
    pub(crate) const BEAT: usize = 4;
    pub(crate) const LEASE_UNTIL: usize = 5;
    pub(crate) const STARTED_AT: usize = 6;
    pub(crate) const HOST: usize = 7;
    pub(crate) const RUNNING: usize = 16;
    pub(crate) const QUEUED: usize = 17;
    pub(crate) const SLOTS: usize = 18;
    pub(crate) const SEEN_AT: usize = 19;
    pub(crate) const LABELS: usize = 20;
}

/// Columns of `ax_shard`.
pub(crate) mod shard {
    pub(crate) const SHARD: usize = 0;
    pub(crate) const OWNER: usize = 1;
    pub(crate) const TOKEN: usize = 2;
    pub(crate) const TAKEN_AT: usize = 3;
}

/// Columns of `ax_schedule`.
pub(crate) mod schedule {
    pub(crate) const NAMESPACE: usize = 0;
    pub(crate) const NAME: usize = 1;
    pub(crate) const JOB: usize = 2;
    pub(crate) const STATE: usize = 9;
    pub(crate) const NEXT_AT: usize = 10;
    pub(crate) const LAST_AT: usize = 11;
    pub(crate) const LAST_TASK: usize = 12;
    pub(crate) const VERSION: usize = 13;
    pub(crate) const SOURCE: usize = 14;
    pub(crate) const UPDATED_AT: usize = 15;
}

/// An integer of a row; a missing one is a fault of the harness or of the statement's parameters.
pub(crate) fn int(row: &[Value], column: usize) -> i64 {
    int_opt(row, column).unwrap_or_else(|| panic!("column {column} is null in {row:?}"))
}

/// An integer of a row, or null.
pub(crate) fn int_opt(row: &[Value], column: usize) -> Option<i64> {
    match &row[column] {
        Value::Int(value) => *value,
        other if other.is_null() => None,
        other => panic!("column {column} holds {other:?} instead of an integer"),
    }
}

/// An id of a row; as [`int`].
pub(crate) fn id(row: &[Value], column: usize) -> [u8; 16] {
    id_opt(row, column).unwrap_or_else(|| panic!("column {column} is null in {row:?}"))
}

/// An id of a row, or null.
pub(crate) fn id_opt(row: &[Value], column: usize) -> Option<[u8; 16]> {
    match &row[column] {
        Value::Id(value) => *value,
        other if other.is_null() => None,
        other => panic!("column {column} holds {other:?} instead of an id"),
    }
}

/// A text of a row; as [`int`].
pub(crate) fn text(row: &[Value], column: usize) -> Arc<str> {
    text_opt(row, column).unwrap_or_else(|| panic!("column {column} is null in {row:?}"))
}

/// A text of a row, or null.
pub(crate) fn text_opt(row: &[Value], column: usize) -> Option<Arc<str>> {
    match &row[column] {
        Value::Text(value) => value.clone(),
        other if other.is_null() => None,
        other => panic!("column {column} holds {other:?} instead of a text"),
    }
}
