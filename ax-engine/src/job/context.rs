//! What a handler may know of the attempt it runs in.
//!
//! Enters: the parts the executor read from the claimed row. Leaves: a cheap handle, cloned into the handler. It is a
//! snapshot: only the cancellation token changes while the handler runs.

use std::fmt;
use std::sync::Arc;

use ax_core::{JobName, Namespace, TaskId, Tick, Timestamp};
use tokio_util::sync::CancellationToken;

use super::States;

/// The attempt a handler runs in; take it as a parameter of the job.
#[derive(Clone)]
pub struct JobContext {
    parts: Arc<ContextParts>,
}

/// All that makes a [`JobContext`]; the executor fills it from the claimed row.
#[derive(Clone, Debug)]
pub struct ContextParts {
    /// The task.
    pub task: TaskId,
    /// How often the task was claimed so far, this claim included.
    pub fence: i64,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// How many workers died while they ran this task.
    pub lost: u32,
    /// What the attempt before this one failed with.
    pub last_error: Option<String>,
    /// The schedule tick that made the task.
    pub tick: Option<Tick>,
    /// The business key of the task.
    pub key: Option<String>,
    /// The tags of the task.
    pub tags: Vec<String>,
    /// The name the task carries (which may be an alias of the job).
    pub job: JobName,
    /// Whose task it is.
    pub namespace: Namespace,
    /// The values given to the builder, for `State<T>` parameters.
    pub states: Arc<States>,
    /// Fires when the attempt should end: cancel, timeout, shutdown or a lost lease.
    pub cancellation: CancellationToken,
}

impl JobContext {
    /// The context of one attempt.
    pub fn new(parts: ContextParts) -> Self {
        Self {
            parts: Arc::new(parts),
        }
    }

    /// The task: the same in every attempt, so the idempotency key for effects outside.
    pub fn task_id(&self) -> TaskId {
        self.parts.task
    }

    /// This attempt and no other.
    pub fn execution_id(&self) -> ExecutionId {
        ExecutionId {
            task: self.parts.task,
            fence: self.parts.fence,
        }
    }

    /// The fencing token: greater in every later claim of the task, never reset.
    pub fn fence(&self) -> i64 {
        self.parts.fence
    }

    /// Number of this attempt, from 1; hand-backs and snoozes do not count.
    pub fn attempt(&self) -> u32 {
        self.parts.attempt
    }

    /// How many workers died while they ran this task.
    pub fn lost(&self) -> u32 {
        self.parts.lost
    }

    /// What the attempt before this one failed with.
    pub fn last_error(&self) -> Option<&str> {
        self.parts.last_error.as_deref()
    }

    /// The instant of the schedule tick that made the task; `None` when it was submitted.
    pub fn scheduled_at(&self) -> Option<Timestamp> {
        self.parts.tick.as_ref().map(|tick| tick.scheduled_at)
    }

    /// The stretch of time a scheduled task stands for, from the former tick to its own.
    pub fn data_interval(&self) -> Option<(Timestamp, Timestamp)> {
        let tick = self.parts.tick.as_ref()?;
        Some((tick.interval_start?, tick.interval_end?))
    }

    /// The business key of the task.
    pub fn key(&self) -> Option<&str> {
        self.parts.key.as_deref()
    }

    /// The tags of the task.
    pub fn tags(&self) -> &[String] {
        &self.parts.tags
    }

    /// The name the task carries, which may be an alias of the job.
    pub fn job(&self) -> &JobName {
        &self.parts.job
    }

    /// Whose task it is.
    pub fn namespace(&self) -> &Namespace {
        &self.parts.namespace
    }

    /// The token that fires when the attempt should end; hand clones of it to what the handler starts.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.parts.cancellation
    }

    /// Whether the attempt should end.
    pub fn is_canceled(&self) -> bool {
        self.parts.cancellation.is_cancelled()
    }

    /// Waits until the attempt should end; use it in `select!`.
    pub async fn canceled(&self) {
        self.parts.cancellation.cancelled().await;
    }

    /// The values given to the builder.
    pub fn states(&self) -> &States {
        &self.parts.states
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("job", &self.parts.job)
            .field("execution_id", &self.execution_id())
            .field("attempt", &self.parts.attempt)
            .finish_non_exhaustive()
    }
}

/// One attempt of one task; prints as `uuid:fence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId {
    /// The task.
    pub task: TaskId,
    /// Which claim of it.
    pub fence: i64,
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.task, self.fence)
    }
}
