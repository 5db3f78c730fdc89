//! What operators and the reconcile loop do to single tasks: cancel, reschedule, set priority, rerun, expire, move.

use std::sync::Arc;

use ax_core::{Error, ErrorKind, Event, Priority, State, Status, TaskId, Timestamp, next};

use super::Store;
use super::cells::state_of;
use super::keys::take_back;
use super::rows::{Ended, Record, TASK_COLUMNS};
use super::session::{Desk, Sent, again};
use super::settle::record_ended;
use super::text::Sql;
use crate::db::{DbError, DbErrorKind, DbResult, Lane, Value};

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
        again!(self, async {
            let mut tx = self.begin(Lane::Write).await?;
            let canceled = cancel_in(&mut tx.desk(), id, reason).await;
            tx.end(canceled).await
        })
    }

    /// Gives a pending task another time.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn reschedule(&self, id: TaskId, ready_at: Timestamp) -> Result<Changed, Error> {
        self.change(Sql::Reschedule, Value::from(ready_at), id)
            .await
    }

    /// Gives a live task another priority.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn set_priority(&self, id: TaskId, priority: Priority) -> Result<Changed, Error> {
        self.change(Sql::SetPriority, Value::from(i64::from(priority.get())), id)
            .await
    }

    /// Runs an ended task again as its next round: the fence goes on, attempts, losses and the deadline are forgotten, the
    /// dead letter is resolved, the history row stays.
    ///
    /// # Errors
    /// `Conflict` when its key is held by another task now; any error of the database.
    pub async fn rerun(
        &self,
        id: TaskId,
        ready_at: Timestamp,
        shard: i64,
    ) -> Result<Changed, Error> {
        let done = again!(self, sent => self.rerun_once((id, ready_at, shard), sent))?;
        match done {
            Rerun::Changed(changed) => Ok(changed),
            Rerun::KeyTaken(holder) => {
                let text = format!(
                    "the key of task {id} is held by task {holder} now; cancel that one or wait for its end"
                );
                Err(Error::new(ErrorKind::Conflict, text))
            }
        }
    }

    /// Ends those of the tasks that are pending past their deadline; returns which.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn expire(&self, ids: &[TaskId]) -> Result<Vec<TaskId>, Error> {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        let mut expired = Vec::new();
        for some in sorted.chunks(EXPIRED_AT_ONCE) {
            expired.extend(again!(self, async {
                let mut tx = self.begin(Lane::Write).await?;
                let expired = expire_in(&mut tx.desk(), some).await;
                tx.end(expired).await
            })?);
        }
        Ok(expired)
    }

    /// Gives pending rows of shard `from` to shard `to` (an inbox, mostly); returns how many went.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn move_shard(&self, ids: &[TaskId], from: i64, to: i64) -> Result<u64, Error> {
        let fixed = [Value::from(to), Value::from(from)];
        again!(self, async {
            self.session(Lane::Write)
                .await?
                .desk()
                .run_list(Sql::MoveShard, &fixed, ids)
                .await
        })
    }

    /// Runs a guarded change of one column; where it applies to nothing, says why.
    async fn change(&self, sql: Sql, to: Value, id: TaskId) -> Result<Changed, Error> {
        again!(self, async {
            let mut session = self.session(Lane::Write).await?;
            let mut desk = session.desk();
            let changed = desk
                .run(sql, vec![to.clone(), Value::from(id.as_bytes())])
                .await?
                == 1;
            let changed = if changed {
                Some(Changed::Yes)
            } else {
                stands(&mut desk, id).await?.map(Changed::Refused)
            };
            DbResult::Ok(changed.unwrap_or(Changed::NotFound))
        })
    }

    async fn rerun_once(&self, wanted: (TaskId, Timestamp, i64), sent: Sent) -> DbResult<Rerun> {
        let mut tx = self.begin(Lane::Write).await?;
        match rerun_in(&mut tx.desk(), wanted, sent).await {
            Ok(taken @ Rerun::KeyTaken(_)) => tx.undo(taken).await,
            // Two asked at once and the other was first.
            Err(error) if error.kind() == DbErrorKind::Unique => {
                tx.undo(Rerun::Changed(Changed::Refused(State::Pending)))
                    .await
            }
            other => tx.end(other).await,
        }
    }
}

/// How many tasks expire in one transaction.
const EXPIRED_AT_ONCE: usize = 64;

/// What a rerun came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rerun {
    Changed(Changed),
    KeyTaken(TaskId),
}

/// Where a task stands, live or ended; `None` when there is none.
async fn stands(desk: &mut Desk<'_>, id: TaskId) -> DbResult<Option<State>> {
    let key = || vec![Value::from(id.as_bytes())];
    if let Some(row) = desk.read_one(Sql::ReadTask, key()).await? {
        return Ok(Some(state_of(&row, 3)?));
    }
    match desk.read_one(Sql::ReadHistory, key()).await? {
        Some(row) => Ok(Some(state_of(&row, 3)?)),
        None => Ok(None),
    }
}

/// A live row, locked, with the database's now.
async fn lock(desk: &mut Desk<'_>, id: TaskId) -> DbResult<Option<(Record, Timestamp)>> {
    let Some(row) = desk
        .read_one(Sql::LockTask, vec![Value::from(id.as_bytes())])
        .await?
    else {
        return Ok(None);
    };
    Ok(Some((Record::read(&row)?, row.time(TASK_COLUMNS)?)))
}

/// Deletes a row that was locked, expecting what was seen.
async fn delete(desk: &mut Desk<'_>, record: &Record) -> DbResult<bool> {
    let task = &record.task;
    let values = vec![
        Value::from(task.id.as_bytes()),
        Value::from(i64::from(record.state.code())),
        Value::from(task.fence),
    ];
    Ok(desk.run(Sql::DeleteTask, values).await? == 1)
}

async fn cancel_in(
    desk: &mut Desk<'_>,
    id: TaskId,
    reason: Option<&str>,
) -> DbResult<CancelResult> {
    let Some((record, now)) = lock(desk, id).await? else {
        return match stands(desk, id).await? {
            None => Ok(CancelResult::NotFound),
            Some(state) if state.is_final() => Ok(CancelResult::AlreadyFinal(state)),
            // A rerun came between the two looks.
            Some(_) => Err(DbError::new(
                DbErrorKind::Retry,
                "the task runs again; look again",
            )),
        };
    };
    let reason: Option<Arc<str>> = reason.map(Arc::from);
    match next(record.status(), Event::Cancel) {
        Some(Status {
            state: State::Canceled,
            ..
        }) if delete(desk, &record).await? => {
            let ended = unstarted(&record, (State::Canceled, now), reason);
            record_ended(desk, &[ended]).await?;
            Ok(CancelResult::Canceled)
        }
        Some(Status {
            state: State::Running,
            ..
        }) => {
            if record.cancel_at.is_none() {
                desk.run(
                    Sql::MarkCancel,
                    vec![Value::Text(reason), Value::from(id.as_bytes())],
                )
                .await?;
            }
            Ok(CancelResult::Requested)
        }
        _ => Ok(CancelResult::AlreadyFinal(record.state)),
    }
}

/// The history of a task that ends without running once more.
fn unstarted(
    record: &Record,
    (state, at): (State, Timestamp),
    reason: Option<Arc<str>>,
) -> Ended<'_> {
    Ended {
        task: &record.task,
        state,
        claim: None,
        cancel: (state == State::Canceled).then(|| (at, reason.clone())),
        started_at: None,
        finished_at: at,
        result: None,
        error: record.task.error.clone(),
        reason,
    }
}

async fn expire_in(desk: &mut Desk<'_>, ids: &[TaskId]) -> DbResult<Vec<TaskId>> {
    let mut expired = Vec::new();
    for id in ids {
        let Some((record, now)) = lock(desk, *id).await? else {
            continue;
        };
        let expires = next(record.status(), Event::Expire).is_some() && record.task.deadline <= now;
        if expires && delete(desk, &record).await? {
            expired.push((record, now));
        }
    }
    let reason: Arc<str> = Arc::from("its deadline passed before it started");
    let ended: Vec<Ended<'_>> = expired
        .iter()
        .map(|(record, now)| unstarted(record, (State::Expired, *now), Some(Arc::clone(&reason))))
        .collect();
    record_ended(desk, &ended).await?;
    Ok(expired.iter().map(|(record, _)| record.task.id).collect())
}

async fn rerun_in(
    desk: &mut Desk<'_>,
    (id, ready_at, shard): (TaskId, Timestamp, i64),
    sent: Sent,
) -> DbResult<Rerun> {
    if let Some((record, _)) = lock(desk, id).await? {
        let ours = sent == Sent::Again
            && record.state == State::Pending
            && record.task.ready_at == ready_at;
        return Ok(Rerun::Changed(if ours {
            Changed::Yes
        } else {
            Changed::Refused(record.state)
        }));
    }
    let Some(row) = desk
        .read_one(Sql::ReadHistory, vec![Value::from(id.as_bytes())])
        .await?
    else {
        return Ok(Rerun::Changed(Changed::NotFound));
    };
    let record = Record::read(&row)?;
    if next(Status::unmarked(record.state), Event::Rerun).is_none() {
        return Ok(Rerun::Changed(Changed::Refused(record.state)));
    }
    if let Some(holder) = take_back(desk, &record.task).await? {
        return Ok(Rerun::KeyTaken(holder));
    }
    let mut values = Vec::with_capacity(27);
    record.task.write_again(ready_at, shard, &mut values);
    if desk.run(Sql::InsertMissing, values).await? == 0 {
        // Another rerun was first. What was done here, the key above all, must not stay.
        return Err(DbError::new(
            DbErrorKind::Retry,
            "the task was run again meanwhile; look again",
        ));
    }
    desk.run(
        Sql::ResolveDead,
        vec![Value::from("rerun"), Value::from(id.as_bytes())],
    )
    .await?;
    Ok(Rerun::Changed(Changed::Yes))
}
