//! Outcomes: what became of claimed tasks, with their history, retries, dead letters and keys, in one transaction.

use std::sync::Arc;

use ax_core::{AttemptEnd, Error, Event, State, Status, TaskId, Timestamp, Token, next};

use super::cells::state_of;
use super::rows::{Ended, Record};
use super::session::{Desk, again};
use super::text::Sql;
use super::{Claimed, Store};
use crate::db::{DbResult, Lane, Value};

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
        again!(self, self.settle_batch(batch))
    }

    /// Which of the running tasks are to be canceled or are lost to this worker; those without news are left out.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn watch(
        &self,
        running: &[(TaskId, Token)],
    ) -> Result<Vec<(TaskId, Watched)>, Error> {
        let ids: Vec<TaskId> = running.iter().map(|(id, _)| *id).collect();
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read_list(Sql::Watch, &[], &ids)
                .await
        })?;
        let mut found = std::collections::HashMap::with_capacity(rows.len());
        for row in &rows {
            let reason = row.text_opt(3)?.map(Arc::clone);
            let requested = (row.int(2)? != 0).then_some(reason);
            found.insert(
                TaskId::from_bytes(row.id(0)?),
                (row.id_opt(1)?.map(Token::from_bytes), requested),
            );
        }
        let news = |(id, token): &(TaskId, Token)| match found.remove(id) {
            Some((Some(held), None)) if held == *token => None,
            Some((Some(held), Some(reason))) if held == *token => {
                Some((*id, Watched::CancelRequested { reason }))
            }
            _ => Some((*id, Watched::Stale)),
        };
        Ok(running.iter().filter_map(news).collect())
    }

    /// All that is as expected in one transaction; what is not, each by itself.
    async fn settle_batch(&self, batch: &[Settlement]) -> DbResult<Vec<Settled>> {
        let mut answers = vec![Settled::Stale; batch.len()];
        let mut together: Vec<usize> = (0..batch.len()).collect();
        together.sort_by_key(|at| (batch[*at].claimed.token, batch[*at].claimed.id));
        let mut alone = Vec::new();
        while !together.is_empty() {
            let mut tx = self.begin(Lane::Settle).await?;
            let group = match settle_together(&mut tx.desk(), batch, &together).await {
                Ok(Together::All(odd)) => {
                    tx.end(Ok(())).await?;
                    for at in together.drain(..) {
                        answers[at] = Settled::Recorded(batch[at].event_state());
                    }
                    alone.extend(odd);
                    break;
                }
                Ok(Together::Odd(group)) => tx.undo(group).await?,
                Err(error) => return tx.end(Err(error)).await,
            };
            together.retain(|at| !group.contains(at));
            alone.extend(group);
        }
        for at in alone {
            answers[at] = self.settle_alone(&batch[at]).await?;
        }
        Ok(answers)
    }

    /// Locks the row, looks at it, and lets the state machine decide.
    async fn settle_alone(&self, settlement: &Settlement) -> DbResult<Settled> {
        let mut tx = self.begin(Lane::Settle).await?;
        let settled = settle_locked(&mut tx.desk(), settlement).await;
        tx.end(settled).await
    }
}

/// What became of a batch in one transaction.
enum Together {
    /// Everything is done but these, whose rows were not as expected and which changed nothing.
    All(Vec<usize>),
    /// These rows, of one claim, are not all as expected: the transaction is void.
    Odd(Vec<usize>),
}

async fn settle_together(
    desk: &mut Desk<'_>,
    batch: &[Settlement],
    order: &[usize],
) -> DbResult<Together> {
    let finals: Vec<usize> = order
        .iter()
        .copied()
        .filter(|at| batch[*at].is_final())
        .collect();
    for group in finals.chunk_by(|a, b| batch[*a].claimed.token == batch[*b].claimed.token) {
        let ids: Vec<TaskId> = group.iter().map(|at| batch[*at].claimed.id).collect();
        let token = [Value::from(batch[group[0]].claimed.token.as_bytes())];
        if desk.run_list(Sql::DeleteSettled, &token, &ids).await? != ids.len() as u64 {
            return Ok(Together::Odd(group.to_vec()));
        }
    }
    let ended: Vec<Ended<'_>> = finals
        .iter()
        .map(|at| batch[*at].ended(batch[*at].event_state(), None))
        .collect();
    record_ended(desk, &ended).await?;
    let mut odd = Vec::new();
    let mut requeued = Vec::new();
    for at in order.iter().copied().filter(|at| !batch[*at].is_final()) {
        match requeue(desk, &batch[at]).await? {
            1 => requeued.push(&batch[at]),
            _ => odd.push(at),
        }
    }
    insert_executions(desk, &requeued).await?;
    Ok(Together::All(odd))
}

/// Writes history, dead letters and keys of rows that were just deleted.
pub(super) async fn record_ended(desk: &mut Desk<'_>, ended: &[Ended<'_>]) -> DbResult<()> {
    desk.run_rows(Sql::InsertHistory, &[], ended, Ended::write)
        .await?;
    let dead: Vec<&Ended<'_>> = ended
        .iter()
        .filter(|ended| ended.state == State::Failed)
        .collect();
    desk.run_rows(Sql::InsertDead, &[], &dead, |ended, values| {
        ended.write_dead(values)
    })
    .await?;
    super::keys::release(desk, ended.iter().map(|ended| ended.task)).await
}

async fn settle_locked(desk: &mut Desk<'_>, settlement: &Settlement) -> DbResult<Settled> {
    let claimed = &settlement.claimed;
    let row = desk
        .read_one(Sql::LockTask, vec![Value::from(claimed.id.as_bytes())])
        .await?;
    let record = row.as_ref().map(Record::read).transpose()?;
    let held = record
        .filter(|record| record.state == State::Running && record.token == Some(claimed.token));
    let Some(record) = held else {
        return already_done(desk, settlement).await;
    };
    let Some(Status { state, .. }) = next(record.status(), settlement.end.event()) else {
        return Ok(Settled::Stale);
    };
    let touched = if state.is_final() {
        let values = vec![
            Value::from(claimed.id.as_bytes()),
            Value::from(i64::from(State::Running.code())),
            Value::from(claimed.fence),
        ];
        let touched = desk.run(Sql::DeleteTask, values).await?;
        if touched == 1 {
            record_ended(desk, &[settlement.ended(state, Some(&record))]).await?;
        }
        touched
    } else {
        let touched = requeue(desk, settlement).await?;
        if touched == 1 {
            insert_executions(desk, &[settlement]).await?;
        }
        touched
    };
    Ok(if touched == 1 {
        Settled::Recorded(state)
    } else {
        Settled::Stale
    })
}

/// Tells an outcome that is already there from a claim that was lost.
async fn already_done(desk: &mut Desk<'_>, settlement: &Settlement) -> DbResult<Settled> {
    let Claimed {
        id, token, fence, ..
    } = &*settlement.claimed;
    for row in desk.read_list(Sql::ReadEnds, &[], &[*id]).await? {
        if row.id_opt(1)? == Some(*token.as_bytes()) && row.text_opt(3)?.is_none() {
            return Ok(Settled::AlreadyDone(state_of(&row, 2)?));
        }
    }
    let values = vec![
        Value::from(id.as_bytes()),
        Value::from(*fence),
        Value::from(token.as_bytes()),
    ];
    let attempt = desk.read_one(Sql::ReadAttempt, values).await?;
    Ok(if attempt.is_some() {
        Settled::AlreadyDone(State::Pending)
    } else {
        Settled::Stale
    })
}

async fn requeue(desk: &mut Desk<'_>, settlement: &Settlement) -> DbResult<u64> {
    let Some((ready_at, attempt, error)) = settlement.requeued() else {
        return Ok(0);
    };
    let claimed = &settlement.claimed;
    let values = vec![
        Value::from(ready_at),
        Value::from(i64::from(attempt)),
        Value::Text(error),
        Value::from(claimed.id.as_bytes()),
        Value::from(claimed.token.as_bytes()),
    ];
    desk.run(Sql::Requeue, values).await
}

async fn insert_executions(desk: &mut Desk<'_>, settlements: &[&Settlement]) -> DbResult<()> {
    desk.run_rows(
        Sql::InsertExecutions,
        &[],
        settlements,
        |settlement, values| {
            write_execution(&settlement.claimed, settlement.attempt_end(), values);
        },
    )
    .await?;
    Ok(())
}

/// How an attempt ended that did not end its task.
pub(super) struct Ending<'a> {
    pub(super) reason: AttemptEnd,
    pub(super) error: Option<&'a Arc<str>>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Timestamp,
}

/// Writes the 11 columns of `InsertExecutions`.
pub(super) fn write_execution(claimed: &Claimed, ending: Ending<'_>, values: &mut Vec<Value>) {
    values.extend([
        Value::from(claimed.id.as_bytes()),
        Value::from(claimed.fence),
        Value::from(claimed.round),
        Value::from(claimed.token.as_bytes()),
        Value::from(claimed.node.as_bytes()),
        Value::from(i64::from(claimed.attempt)),
        Value::from(i64::from(ending.reason.code())),
        Value::Text(ending.error.map(Arc::clone)),
        Value::from(claimed.claimed_at),
        Value::from(ending.started_at),
        Value::from(ending.finished_at),
    ]);
}

impl End {
    /// What happened, for the state machine.
    const fn event(&self) -> Event {
        match self {
            Self::Succeeded { .. } => Event::Succeed,
            Self::Failed { .. } => Event::Fail,
            Self::Canceled { .. } => Event::Withdraw,
            Self::Retry { .. } => Event::Retry,
            Self::Snooze { .. } => Event::Snooze,
            Self::Wait { .. } => Event::Wait,
            Self::Release { .. } => Event::Release,
        }
    }

    /// What it said, if anything.
    const fn error(&self) -> Option<&Arc<str>> {
        match self {
            Self::Failed { error } | Self::Retry { error, .. } => Some(error),
            Self::Canceled { error } => error.as_ref(),
            Self::Release { reason } => Some(reason),
            Self::Succeeded { .. } | Self::Snooze { .. } | Self::Wait { .. } => None,
        }
    }
}

impl Settlement {
    /// The state it leads to from running without a cancel mark.
    fn event_state(&self) -> State {
        next(Status::unmarked(State::Running), self.end.event())
            .map_or(State::Running, |status| status.state)
    }

    fn is_final(&self) -> bool {
        self.event_state().is_final()
    }

    /// The history of this end; `locked` is the row where it may have been marked.
    fn ended(&self, state: State, locked: Option<&Record>) -> Ended<'_> {
        let claimed = &*self.claimed;
        let result = match &self.end {
            End::Succeeded { result } if state == State::Succeeded => Some(Arc::clone(result)),
            _ => None,
        };
        let error = self
            .end
            .error()
            .filter(|_| !matches!(self.end, End::Release { .. }));
        let error = error
            .cloned()
            .or_else(|| claimed.error.clone().filter(|_| state != State::Succeeded));
        Ended {
            task: claimed,
            state,
            claim: Some((claimed.token, claimed.node, claimed.claimed_at)),
            cancel: locked
                .and_then(|record| Some((record.cancel_at?, record.cancel_reason.clone()))),
            started_at: self.started_at,
            finished_at: self.finished_at,
            result,
            error,
            reason: None,
        }
    }

    /// When it runs again, with which number of attempts and which last error; `None` for an end.
    fn requeued(&self) -> Option<(Timestamp, u32, Option<Arc<str>>)> {
        let claimed = &self.claimed;
        let given_back = claimed.attempt.saturating_sub(1);
        match &self.end {
            End::Retry {
                ready_at, error, ..
            } => Some((*ready_at, claimed.attempt, Some(Arc::clone(error)))),
            End::Snooze { ready_at } | End::Wait { ready_at } => {
                Some((*ready_at, given_back, claimed.error.clone()))
            }
            // Due from now on, so that the nodes that look at what became due lately find it at once.
            End::Release { .. } => {
                let ready_at = self.finished_at.max(claimed.ready_at);
                Some((ready_at, given_back, claimed.error.clone()))
            }
            End::Succeeded { .. } | End::Failed { .. } | End::Canceled { .. } => None,
        }
    }

    fn attempt_end(&self) -> Ending<'_> {
        let reason = match &self.end {
            End::Retry { reason, .. } => *reason,
            End::Snooze { .. } => AttemptEnd::Snoozed,
            End::Wait { .. } => AttemptEnd::Waited,
            End::Succeeded { .. }
            | End::Failed { .. }
            | End::Canceled { .. }
            | End::Release { .. } => AttemptEnd::Released,
        };
        Ending {
            reason,
            error: self.end.error(),
            started_at: self.started_at,
            finished_at: self.finished_at,
        }
    }
}
