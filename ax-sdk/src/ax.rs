//! The engine in the service's hand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, Priority, Submission, Task, TaskId, Timestamp};
use ax_engine::client::Client;
use ax_engine::db::{CallerConnection, Source, Transactions};
use ax_engine::engine::{Engine, Stats};
use ax_engine::spawn::{Spawn as _, Threads};
use ax_engine::store::{CancelResult, Changed, Count, Execution, Peer, TaskFilter};

use crate::{AxBuilder, Handle};

pub use ax_engine::db::Transaction;

/// A running node. Cheap to clone; all clones are the same node.
///
/// Dropping the last clone without [`Ax::shutdown`] is like a crash: nothing is lost, but tasks that were running start
/// again elsewhere only after the lease.
#[derive(Clone)]
pub struct Ax {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    threads: Arc<Threads>,
    transactions: Transactions,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Its loops hold what they need; without its owner the node ends as if it had crashed.
        self.engine.abandon();
        self.threads.close();
    }
}

impl fmt::Debug for Ax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ax")
            .field("node", &self.inner.engine.node().identity().node)
            .finish_non_exhaustive()
    }
}

impl Ax {
    /// Begins to build a node on a database: a URL (`sqlite://shop.db`, `sqlite::memory:`, `postgres://…`) or the pool
    /// that the service has. Of a pool only the options are taken; the engine opens connections of its own.
    pub fn builder(database: impl Into<Source>) -> AxBuilder {
        AxBuilder::new(database.into())
    }

    pub(crate) fn new(engine: Engine, threads: Arc<Threads>, transactions: Transactions) -> Ax {
        Ax {
            inner: Arc::new(Inner {
                engine,
                threads,
                transactions,
            }),
        }
    }

    fn client(&self) -> &Client {
        self.inner.engine.client()
    }

    /// Submits a task; it is durable when this returns.
    ///
    /// # Errors
    /// `Invalid` for a task that breaks a rule, `Conflict` for a key that is held (mode reject), `Unavailable` when the
    /// database does not answer for 30 s: then it is open whether the task exists.
    pub async fn submit<T>(&self, task: Submission<T>) -> Result<Handle<T>, Error> {
        let submitted = self.client().submit(task.into_new_task()).await?;
        Ok(Handle::new(self.client().clone(), submitted))
    }

    /// Submits many tasks in few statements. Each is accepted or refused by itself, in the order given.
    pub async fn submit_many<T>(
        &self,
        tasks: impl IntoIterator<Item = Submission<T>>,
    ) -> Vec<Result<Handle<T>, Error>> {
        let tasks = tasks.into_iter().map(Submission::into_new_task).collect();
        let submitted = self.client().submit_many(tasks).await;
        submitted
            .into_iter()
            .map(|answer| answer.map(|s| Handle::new(self.client().clone(), s)))
            .collect()
    }

    /// Submits a task in a transaction of the caller: it exists once that commits, and never existed when it rolls back.
    ///
    /// Takes `&mut` of a sqlx transaction or connection, or of a [`Transaction`]. On SQLite the transaction must have
    /// begun with `BEGIN IMMEDIATE`; [`Ax::begin`] makes one.
    ///
    /// # Errors
    /// As [`Ax::submit`]; roll the transaction back then.
    pub async fn submit_in<'c, T>(
        &self,
        transaction: impl Into<CallerConnection<'c>>,
        task: Submission<T>,
    ) -> Result<Handle<T>, Error> {
        let mut connection = transaction.into();
        let mut submitted = self
            .client()
            .submit_on(&mut connection, vec![task.into_new_task()])
            .await?;
        match submitted.pop() {
            Some(submitted) => Ok(Handle::new(self.client().clone(), submitted)),
            None => Err(Error::new(
                ax_core::ErrorKind::Corrupt,
                "submit in the transaction: the store gave no answer",
            )),
        }
    }

    /// Begins a transaction on the engine's database that may write (on SQLite: `BEGIN IMMEDIATE`), for statements of the
    /// service together with [`Ax::submit_in`].
    ///
    /// # Errors
    /// What the database said.
    pub async fn begin(&self) -> Result<Transaction, Error> {
        self.inner.transactions.begin().await
    }

    /// The task as it stands now: live, or the last round that the history has.
    ///
    /// # Errors
    /// What the database said.
    pub async fn find(&self, id: TaskId) -> Result<Option<Task>, Error> {
        self.client().find(id).await
    }

    /// Tasks that match a filter, the youngest first.
    ///
    /// # Errors
    /// What the database said.
    pub async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, Error> {
        self.client().list(filter).await
    }

    /// A filter that matches every task of this node's namespace.
    pub fn filter(&self) -> TaskFilter {
        TaskFilter::new(self.client().node().config.namespace.clone())
    }

    /// How many tasks of each job are in each state.
    ///
    /// # Errors
    /// What the database said.
    pub async fn counts(&self) -> Result<Vec<Count>, Error> {
        self.client().counts().await
    }

    /// The attempts of a task that did not end it: retries, hand-backs, lost workers.
    ///
    /// # Errors
    /// What the database said.
    pub async fn executions(&self, id: TaskId) -> Result<Vec<Execution>, Error> {
        self.client().executions(id).await
    }

    /// Cancels a task: at once while it waits, by a signal to its handler while it runs.
    ///
    /// # Errors
    /// What the database said.
    pub async fn cancel(&self, id: TaskId) -> Result<CancelResult, Error> {
        self.client().cancel(id, None).await
    }

    /// Cancels a task and says why.
    ///
    /// # Errors
    /// What the database said.
    pub async fn cancel_because(&self, id: TaskId, reason: &str) -> Result<CancelResult, Error> {
        self.client().cancel(id, Some(reason)).await
    }

    /// Runs a finished task again: a new round of the same task, with its history kept.
    ///
    /// # Errors
    /// `Conflict` when another task holds its key by now; else what the database said.
    pub async fn rerun(&self, id: TaskId) -> Result<Changed, Error> {
        self.client().rerun(id).await
    }

    /// Moves the start of a task that has not started.
    ///
    /// # Errors
    /// `Invalid` for an impossible instant; else what the database said.
    pub async fn reschedule(&self, id: TaskId, at: impl Into<Timestamp>) -> Result<Changed, Error> {
        self.client().reschedule(id, at.into()).await
    }

    /// Moves the start of a task that has not started to a delay from now.
    ///
    /// # Errors
    /// As [`Ax::reschedule`].
    pub async fn reschedule_after(&self, id: TaskId, delay: Duration) -> Result<Changed, Error> {
        self.client().reschedule(id, self.now().plus(delay)).await
    }

    /// Lets a task that has not started start now.
    ///
    /// # Errors
    /// What the database said.
    pub async fn run_now(&self, id: TaskId) -> Result<Changed, Error> {
        self.client().reschedule(id, self.now()).await
    }

    /// Changes the priority of a task that has not ended: 0 (last) to 9 (first).
    ///
    /// # Errors
    /// `Invalid` above 9; else what the database said.
    pub async fn set_priority(&self, id: TaskId, priority: u8) -> Result<Changed, Error> {
        self.client()
            .set_priority(id, Priority::new(priority)?)
            .await
    }

    /// The nodes of the cluster as this one saw them last.
    pub fn nodes(&self) -> Arc<Vec<Peer>> {
        self.inner.engine.node().peers()
    }

    /// What this node has done since it started, and what it holds now.
    pub fn stats(&self) -> Stats {
        self.inner.engine.stats()
    }

    /// The names of the jobs that this node runs.
    pub fn jobs(&self) -> Vec<&'static str> {
        self.inner.engine.node().registry.names().collect()
    }

    /// The database's now, as well as this node knows.
    pub fn now(&self) -> Timestamp {
        self.inner.engine.node().now()
    }

    /// Ends this node in order: claims nothing more, hands back what has not started, waits for what runs (30 s unless set
    /// otherwise), writes the last outcomes, and leaves the cluster. Attempts that are cut off are not spent.
    pub async fn shutdown(&self) {
        let (tell, told) = tokio::sync::oneshot::channel();
        let inner = self.inner.clone();
        self.inner.threads.engine(Box::pin(async move {
            inner.engine.shutdown().await;
            // The caller may have gone; the shutdown ends all the same.
            let _gone = tell.send(());
        }));
        // An error means that the runtime is gone, and with it the engine.
        let _ended = told.await;
        self.inner.threads.close();
    }
}
