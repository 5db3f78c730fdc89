//! What operators and the reconcile loop do to single tasks: cancel, reschedule, set priority, rerun, expire, move.

use ax_core::{Error, Priority, State, TaskId, Timestamp};

use super::Store;

/// What a cancel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelResult {
    /// It waited and is canceled now.
    Canceled,
    /// It runs and is marked: however it ends, it ends as canceled.
    Requested,
    /// It had ended before.
    AlreadyFinal(State),
    /// There is no such task.
    NotFound,
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Changed {
    /// Done.
    Yes,
    /// Not allowed in this state.
    Refused(State),
    /// There is no such task.
    NotFound,
}

impl Store {
    /// Cancels a waiting task, marks a running one.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn cancel(&self, id: TaskId, reason: Option<&str>) -> Result<CancelResult, Error> {
        let _ = (id, reason);
        todo!()
    }

    /// Gives a pending task another time.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn reschedule(&self, id: TaskId, ready_at: Timestamp) -> Result<Changed, Error> {
        let _ = (id, ready_at);
        todo!()
    }

    /// Gives a live task another priority.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn set_priority(&self, id: TaskId, priority: Priority) -> Result<Changed, Error> {
        let _ = (id, priority);
        todo!()
    }

    /// Runs an ended task again as its next round: the fence goes on, attempts and losses start anew, the dead letter is
    /// resolved, the history row stays.
    ///
    /// # Errors
    /// `Conflict` when its key is held by another task now; any error of the database.
    pub async fn rerun(&self, id: TaskId, ready_at: Timestamp, shard: i64) -> Result<Changed, Error> {
        let _ = (id, ready_at, shard);
        todo!()
    }

    /// Ends those of the tasks that are pending past their deadline; returns which.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn expire(&self, ids: &[TaskId]) -> Result<Vec<TaskId>, Error> {
        let _ = ids;
        todo!()
    }

    /// Gives pending rows of shard `from` to shard `to` (an inbox, mostly); returns how many went.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn move_shard(&self, ids: &[TaskId], from: i64, to: i64) -> Result<u64, Error> {
        let _ = (ids, from, to);
        todo!()
    }
}
