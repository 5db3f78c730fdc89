//! What callers may ask of an engine: submit, wait, look, steer.
//!
//! Enters: requests of the service that embeds ax. Leaves: answers of the database. Everything an operator does is a
//! row; the rooms of this node are told at once, those of other nodes see it within a poll.

use std::future::Future;
use std::sync::Arc;

use ax_core::{Error, ErrorKind, NewTask, Priority, Task, TaskId, Timestamp};

use tokio::sync::oneshot;

use crate::db::Connection;
use crate::node::Node;
use crate::outcomes::{RawOutcome, Round};
use crate::running::{Running, Signal};
use crate::store::{
    CancelResult, Changed, Count, Execution, KeyPlaced, Store, TaskFilter, TaskRow,
};
use crate::submit::{self, SubmitHandle, Submitted};
use crate::trigger::TriggerHandle;

/// A row and its place among those of the call.
type Placed = (usize, TaskRow);

/// A cheap handle to a running engine.
///
/// Its calls run on the engine's runtime, so that connections are opened there and a caller that goes away never drops
/// a database call half way.
#[derive(Clone)]
pub struct Client {
    node: Arc<Node>,
    submit: SubmitHandle,
    trigger: TriggerHandle,
    running: Arc<Running>,
}

impl Client {
    /// A handle to the rooms of one engine.
    pub(crate) fn new(
        node: Arc<Node>,
        submit: SubmitHandle,
        trigger: TriggerHandle,
        running: Arc<Running>,
    ) -> Client {
        Client {
            node,
            submit,
            trigger,
            running,
        }
    }

    /// The engine behind the handle.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Submits one task; durable when this returns.
    ///
    /// # Errors
    /// `Invalid` for a task that breaks a rule, `Conflict` for a key that is held (mode reject), else what the database
    /// said.
    pub async fn submit(&self, task: NewTask) -> Result<Submitted, Error> {
        let row = submit::row(&self.node, task)?;
        self.submit
            .submit(vec![row])
            .await
            .pop()
            .unwrap_or_else(|| Err(lost_answer()))
    }

    /// Submits many tasks at once; each is accepted or refused by itself, in the order given.
    pub async fn submit_many(&self, tasks: Vec<NewTask>) -> Vec<Result<Submitted, Error>> {
        let mut answers: Vec<Option<Result<Submitted, Error>>> = Vec::with_capacity(tasks.len());
        let mut plain: Vec<Placed> = Vec::new();
        let mut keyed: Vec<Placed> = Vec::new();
        for (place, task) in tasks.into_iter().enumerate() {
            match submit::row(&self.node, task) {
                Ok(row) => {
                    if row.key.is_some() {
                        &mut keyed
                    } else {
                        &mut plain
                    }
                    .push((place, row));
                    answers.push(None);
                }
                Err(error) => answers.push(Some(Err(error))),
            }
        }
        for lane in [plain, keyed] {
            let (places, rows): (Vec<usize>, Vec<TaskRow>) = lane.into_iter().unzip();
            if rows.is_empty() {
                continue;
            }
            for (place, answer) in places.into_iter().zip(self.submit.submit(rows).await) {
                answers[place] = Some(answer);
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|| Err(lost_answer())))
            .collect()
    }

    /// Submits tasks on a connection of the caller, inside the caller's transaction: they exist once it commits, and
    /// never existed when it rolls back.
    ///
    /// # Errors
    /// As [`Client::submit`]; the caller's transaction is then to be rolled back.
    pub async fn submit_on(
        &self,
        connection: &mut dyn Connection,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Submitted>, Error> {
        let rows = tasks
            .into_iter()
            .map(|task| submit::row(&self.node, task))
            .collect::<Result<Vec<_>, _>>()?;
        let placed = self.node.store.submit_on(connection, &rows).await?;
        // The rows show once the caller commits; polls that begin quick and slow down find them soon after that.
        self.trigger.hint();
        rows.iter()
            .zip(placed)
            .map(|(row, placed)| match placed {
                KeyPlaced::New => Ok(Submitted::New(row.id)),
                KeyPlaced::Existing(id) => Ok(Submitted::Existing(id)),
                KeyPlaced::Replaced(id) => Ok(Submitted::Replaced(id)),
                KeyPlaced::Rejected(id) => Err(submit::held_by(row, id)),
            })
            .collect()
    }

    /// Waits for the outcome of one round of a task.
    ///
    /// # Errors
    /// `Stopped` when this engine shuts down first.
    pub async fn outcome(&self, round: Round) -> Result<RawOutcome, Error> {
        self.node.outcomes.wait(round).await
    }

    /// Cancels a task in any state that is not final.
    ///
    /// # Errors
    /// What the database said.
    pub async fn cancel(&self, id: TaskId, reason: Option<&str>) -> Result<CancelResult, Error> {
        let reason =
            reason.map(|text| ax_core::clean_text(text, self.node.config.limits.error_bytes));
        let result = self
            .ask(move |store| async move { store.cancel(id, reason.as_deref()).await })
            .await?;
        match result {
            CancelResult::Canceled => self.trigger.forget(id),
            CancelResult::Requested => self.running.signal_task(id, Signal::Cancel),
            CancelResult::AlreadyFinal(_) | CancelResult::NotFound => {}
        }
        Ok(result)
    }

    /// Moves the start of a task that has not started.
    ///
    /// # Errors
    /// `Invalid` for an impossible instant, else what the database said.
    pub async fn reschedule(&self, id: TaskId, at: Timestamp) -> Result<Changed, Error> {
        if !at.is_valid() {
            return Err(Error::invalid(format!(
                "reschedule to {at}: give an instant from 1970 to 9999"
            )));
        }
        let at = at.max(self.node.now());
        let changed = self
            .ask(move |store| async move { store.reschedule(id, at).await })
            .await?;
        self.trigger.forget(id);
        self.trigger.hint();
        Ok(changed)
    }

    /// Changes the priority of a task that has not ended.
    ///
    /// # Errors
    /// What the database said.
    pub async fn set_priority(&self, id: TaskId, priority: Priority) -> Result<Changed, Error> {
        let changed = self
            .ask(move |store| async move { store.set_priority(id, priority).await })
            .await?;
        self.trigger.hint();
        Ok(changed)
    }

    /// Runs a finished task again, as a new round with the same id; what it did before stays in the history.
    ///
    /// # Errors
    /// `Conflict` when another task holds its key by now, else what the database said.
    pub async fn rerun(&self, id: TaskId) -> Result<Changed, Error> {
        let (now, shard) = (self.node.now(), self.node.choose_shard());
        let changed = self
            .ask(move |store| async move { store.rerun(id, now, shard).await })
            .await?;
        self.trigger.hint();
        Ok(changed)
    }

    /// A task as it stands now: live, or its last round in the history.
    ///
    /// # Errors
    /// What the database said.
    pub async fn find(&self, id: TaskId) -> Result<Option<Task>, Error> {
        self.ask(move |store| async move { store.find(id).await })
            .await
    }

    /// Tasks that match a filter, newest first.
    ///
    /// # Errors
    /// What the database said.
    pub async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, Error> {
        self.ask(move |store| async move { store.list(&filter).await })
            .await
    }

    /// How many tasks each job has in each state.
    ///
    /// # Errors
    /// What the database said.
    pub async fn counts(&self) -> Result<Vec<Count>, Error> {
        let namespace = self.node.config.namespace.clone();
        self.ask(move |store| async move { store.counts(&namespace).await })
            .await
    }

    /// The attempts of a task that did not end it.
    ///
    /// # Errors
    /// What the database said.
    pub async fn executions(&self, id: TaskId) -> Result<Vec<Execution>, Error> {
        self.ask(move |store| async move { store.executions(id).await })
            .await
    }

    /// Runs a call of the store on the engine's runtime.
    async fn ask<T, F>(&self, call: impl FnOnce(Store) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let call = call(self.node.store.clone());
        self.node.world.spawn.engine(Box::pin(async move {
            // A caller that went away does not stop the call.
            let _gone = tell.send(call.await);
        }));
        told.await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Stopped,
                "ask this engine: it was shut down; ask a running one",
            ))
        })
    }
}

fn lost_answer() -> Error {
    Error::new(
        ErrorKind::Stopped,
        "submit: the engine ended before it answered; ask for the task by its key, or submit again",
    )
}
