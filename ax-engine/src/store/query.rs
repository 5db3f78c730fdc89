//! Questions of people and callers; none of them is on the road of a task.

use std::sync::Arc;

use ax_core::{AttemptEnd, Error, JobName, Namespace, NodeId, State, Task, TaskId, Timestamp, Token};

use super::Store;

/// Which tasks to list.
#[derive(Clone, Debug)]
pub struct TaskFilter {
    /// Whose tasks.
    pub namespace: Namespace,
    /// Only this job.
    pub job: Option<JobName>,
    /// Only these states; empty for all.
    pub states: Vec<State>,
    /// Only this key.
    pub key: Option<String>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only tasks submitted before this one: the last of the page before.
    pub after: Option<TaskId>,
    /// At most this many tasks.
    pub limit: u32,
}

impl TaskFilter {
    /// Every task of a namespace, 100 a page.
    #[must_use]
    pub const fn new(namespace: Namespace) -> Self {
        Self { namespace, job: None, states: Vec::new(), key: None, tag: None, after: None, limit: 100 }
    }
}

/// How many tasks of a job are in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The job.
    pub job: JobName,
    /// The state.
    pub state: State,
    /// Pending and due: shown as `ready`.
    pub ready: bool,
    /// How many.
    pub count: u64,
}

/// An attempt that did not end its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The task.
    pub task: TaskId,
    /// The claim's number.
    pub fence: i64,
    /// The round it belongs to.
    pub round: i64,
    /// The claim's token.
    pub token: Token,
    /// Who ran it.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Why it ended.
    pub reason: AttemptEnd,
    /// Its error, if any.
    pub error: Option<Arc<str>>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When the handler started, if it did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// How a task ended, the latest round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeRow {
    /// The task.
    pub id: TaskId,
    /// The round that ended.
    pub round: i64,
    /// How.
    pub state: State,
    /// JSON text, when it succeeded.
    pub result: Option<Arc<str>>,
    /// The last error.
    pub error: Option<Arc<str>>,
}

impl Store {
    /// A task by id: the live row, else its latest round.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn find(&self, id: TaskId) -> Result<Option<Task>, Error> {
        let _ = id;
        todo!()
    }

    /// Tasks, live and ended, the youngest submit first; one entry per round.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn list(&self, filter: &TaskFilter) -> Result<Vec<Task>, Error> {
        let _ = filter;
        todo!()
    }

    /// How many tasks of each job are in each state.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn counts(&self, namespace: &Namespace) -> Result<Vec<Count>, Error> {
        let _ = namespace;
        todo!()
    }

    /// The attempts of a task that did not end it, in order.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn executions(&self, id: TaskId) -> Result<Vec<Execution>, Error> {
        let _ = id;
        todo!()
    }

    /// How those of the tasks ended that have ended; in no order.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn outcomes(&self, ids: &[TaskId]) -> Result<Vec<OutcomeRow>, Error> {
        let _ = ids;
        todo!()
    }
}
