//! Uniqueness of keyed tasks: one row per key, the unique index decides.

use ax_core::{Error, TaskId};

use super::{Store, TaskRow};

/// What a submitted row with a key became.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyPlaced {
    /// It is a new task (or had no key).
    New,
    /// The key is held by this task; nothing was inserted.
    Existing(TaskId),
    /// This waiting task took over payload, time and options of the row.
    Replaced(TaskId),
    /// The key is held by this task, and the mode was to reject.
    Rejected(TaskId),
}

impl Store {
    /// Inserts rows with keys in one transaction, sorted by key so that two callers never wait for each other.
    ///
    /// One answer per row, in order. Sent again with the same ids it answers [`KeyPlaced::New`] again.
    /// `Replace` of a task that runs or has ended answers [`KeyPlaced::Existing`].
    pub async fn submit_keyed(&self, rows: &[TaskRow]) -> Vec<Result<KeyPlaced, Error>> {
        let _ = rows;
        todo!()
    }

    /// Deletes keys that no longer hold anything, at most `limit`; returns how many went.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn purge_keys(&self, limit: u32) -> Result<u64, Error> {
        let _ = limit;
        todo!()
    }
}
