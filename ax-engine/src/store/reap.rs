//! Takes running tasks back from dead nodes.

use std::sync::Arc;

use ax_core::{AttemptEnd, Error, Event, NodeId, OnLost, State, Status, Timestamp, next};

use super::claim::fetch_payloads;
use super::rows::{Ended, Record, TASK_COLUMNS};
use super::session::{Desk, again};
use super::settle::{Ending, record_ended, write_execution};
use super::text::Sql;
use super::{Claimed, Settled, Store};
use crate::db::{DbResult, Lane, Value};

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
        let limit = Value::from(i64::from(limit));
        again!(self, self.running_rows(Sql::Orphans, vec![limit.clone()]))
    }

    /// Running rows of a node, at most `limit`.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn running_of(&self, node: NodeId, limit: u32) -> Result<Vec<Claimed>, Error> {
        let limit = Value::from(i64::from(limit));
        again!(
            self,
            self.running_rows(
                Sql::RunningOf,
                vec![Value::from(node.as_bytes()), limit.clone()]
            )
        )
    }

    async fn running_rows(&self, sql: Sql, values: Vec<Value>) -> DbResult<Vec<Claimed>> {
        let mut session = self.session(Lane::Read).await?;
        let mut desk = session.desk();
        let mut claimed = Vec::new();
        for row in &desk.read(sql, values).await? {
            claimed.push(Record::read(row)?.task);
        }
        fetch_payloads(&mut desk, claimed.iter_mut()).await?;
        Ok(claimed)
    }

    /// Takes orphans back, each in its own transaction that repeats token, state and that the node is gone: back to
    /// pending, failed ("worker lost") at the limit or where the task forbids a second start, canceled where that was
    /// asked. One answer per row, in order.
    ///
    /// # Errors
    /// Any error of the database; may be sent again.
    pub async fn lose(&self, orphans: &[Claimed], limit: LostLimit) -> Result<Vec<Settled>, Error> {
        let mut answers = Vec::with_capacity(orphans.len());
        for orphan in orphans {
            answers.push(again!(self, self.lose_once(orphan, limit))?);
        }
        Ok(answers)
    }

    async fn lose_once(&self, orphan: &Claimed, limit: LostLimit) -> DbResult<Settled> {
        let mut tx = self.begin(Lane::Settle).await?;
        let settled = lose_in(&mut tx.desk(), orphan, limit).await;
        tx.end(settled).await
    }
}

async fn lose_in(desk: &mut Desk<'_>, orphan: &Claimed, limit: LostLimit) -> DbResult<Settled> {
    let Some(row) = desk
        .read_one(Sql::LockTask, vec![Value::from(orphan.id.as_bytes())])
        .await?
    else {
        return Ok(Settled::Stale);
    };
    let (record, now) = (Record::read(&row)?, row.time(TASK_COLUMNS)?);
    if record.state != State::Running || record.token != Some(orphan.token) {
        return Ok(Settled::Stale);
    }
    let for_good =
        record.task.on_lost == OnLost::Fail || record.task.lost.saturating_add(1) >= limit.0;
    let event = if for_good {
        Event::LoseForGood
    } else {
        Event::Lose
    };
    let Some(Status { state, .. }) = next(record.status(), event) else {
        return Ok(Settled::Stale);
    };
    let taken = if state.is_final() {
        end(desk, &record, (state, now)).await?
    } else {
        give_back(desk, &record, now).await?
    };
    Ok(if taken {
        Settled::Recorded(state)
    } else {
        Settled::Stale
    })
}

fn lost_text(record: &Record) -> Arc<str> {
    Arc::from(format!(
        "worker lost: node {} stopped answering",
        record.task.node
    ))
}

/// Back to pending; whether the node was still gone.
async fn give_back(desk: &mut Desk<'_>, record: &Record, now: Timestamp) -> DbResult<bool> {
    let (task, error) = (&record.task, lost_text(record));
    let values = vec![
        Value::from(&error),
        Value::from(task.id.as_bytes()),
        Value::from(task.token.as_bytes()),
        Value::from(task.node.as_bytes()),
    ];
    if desk.run(Sql::RequeueLost, values).await? == 0 {
        return Ok(false);
    }
    let ending = Ending {
        reason: AttemptEnd::Lost,
        error: Some(&error),
        started_at: None,
        finished_at: now,
    };
    let mut values = Vec::with_capacity(11);
    write_execution(task, ending, &mut values);
    desk.run(Sql::InsertExecutions, values).await?;
    Ok(true)
}

/// Failed or canceled; whether the node was still gone.
async fn end(
    desk: &mut Desk<'_>,
    record: &Record,
    (state, now): (State, Timestamp),
) -> DbResult<bool> {
    let mut task = record.task.clone();
    let keys = vec![
        Value::from(task.id.as_bytes()),
        Value::from(task.token.as_bytes()),
        Value::from(task.node.as_bytes()),
    ];
    if desk.run(Sql::DeleteLost, keys).await? == 0 {
        return Ok(false);
    }
    task.lost = task.lost.saturating_add(1);
    fetch_payloads(desk, std::iter::once(&mut task)).await?;
    let ended = Ended {
        claim: Some((task.token, task.node, task.claimed_at)),
        task: &task,
        state,
        cancel: record
            .cancel_at
            .map(|at| (at, record.cancel_reason.clone())),
        started_at: None,
        finished_at: now,
        result: None,
        error: Some(lost_text(record)),
        reason: Some(Arc::from("worker lost")),
    };
    record_ended(desk, &[ended]).await?;
    Ok(true)
}
