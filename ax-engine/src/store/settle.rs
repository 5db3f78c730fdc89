//! Outcomes: what became of claimed tasks, with their history, retries, dead letters and keys, in one transaction.

use std::sync::Arc;

use ax_core::{AttemptEnd, Error, State, TaskId, Timestamp, Token};

use super::{Claimed, Store};

/// The end of one attempt, to be recorded.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The task as it was claimed.
    pub claimed: Arc<Claimed>,
    /// What happened.
    pub end: End,
    /// When the handler started, if it did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// How an attempt ended. Every end of a task that was asked to cancel is recorded as canceled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The handler returned.
    Succeeded {
        /// JSON text.
        result: Arc<str>,
    },
    /// It failed for good.
    Failed {
        /// The dead letter's text.
        error: Arc<str>,
    },
    /// It ended as canceled.
    Canceled {
        /// What the handler said, if anything.
        error: Option<Arc<str>>,
    },
    /// It failed and runs again; the attempt is spent.
    Retry {
        /// When.
        ready_at: Timestamp,
        /// Why.
        error: Arc<str>,
        /// [`AttemptEnd::Retried`] or [`AttemptEnd::TimedOut`].
        reason: AttemptEnd,
    },
    /// It runs later; the attempt is given back.
    Snooze {
        /// When.
        ready_at: Timestamp,
    },
    /// It sleeps or waits; the attempt is given back.
    Wait {
        /// When at the latest; [`Timestamp::MAX`] when something else wakes it.
        ready_at: Timestamp,
    },
    /// It is handed back unstarted or cut off by a shutdown; due at once, the attempt is given back.
    Release {
        /// Why, for the record.
        reason: Arc<str>,
    },
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// Recorded; the task is in this state now (canceled, where that was asked).
    Recorded(State),
    /// It was recorded before, by this very claim; the task came into this state then.
    AlreadyDone(State),
    /// The claim is no longer this worker's: the result is dropped.
    Stale,
}

/// News about a running task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Somebody asked to cancel it.
    CancelRequested {
        /// Why, if that was said.
        reason: Option<Arc<str>>,
    },
    /// It is no longer this worker's.
    Stale,
}

impl Store {
    /// Records a batch of outcomes; never two of one task in one batch. One answer per settlement, in order.
    ///
    /// # Errors
    /// Any error of the database; the whole batch may be sent again.
    pub async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>, Error> {
        let _ = batch;
        todo!()
    }

    /// Which of the running tasks are to be canceled or are lost to this worker; those without news are left out.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn watch(&self, running: &[(TaskId, Token)]) -> Result<Vec<(TaskId, Watched)>, Error> {
        let _ = running;
        todo!()
    }
}
