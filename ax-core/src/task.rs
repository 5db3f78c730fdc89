//! A task as it is asked for and as it is read back.
//!
//! In: what a caller wants ([`NewTask`], built by [`Submission`]). Out: checked values and instants for the
//! store, and [`Task`], every column of a row. Never writes a row, never asks what time it is.

mod new_task;
mod submission;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    CancelMark, Error, JobName, Namespace, NodeId, Priority, RunId, State, Status, TaskId,
    Timestamp,
};

pub use new_task::NewTask;
pub use submission::Submission;

/// When a task may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// This long after the submit.
    After(Duration),
    /// At this instant; one that has passed since 1970 means at once.
    At(Timestamp),
}

/// What a submit does when its key is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyMode {
    /// It is refused with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict).
    Reject,
    /// It gives the task that holds the key.
    #[default]
    ReturnExisting,
    /// It gives the task that holds the key, with payload and time replaced if it has not started.
    Replace,
}

impl KeyMode {
    /// The word used in attributes and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::ReturnExisting => "return_existing",
            Self::Replace => "replace",
        }
    }
}

impl fmt::Display for KeyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for KeyMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = [Self::Reject, Self::ReturnExisting, Self::Replace];
        all.into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| {
                let shown = crate::clean_text(text, 64);
                Error::invalid(format!(
                    "\"{shown}\" is not a key mode; use reject, return_existing or replace"
                ))
            })
    }
}

/// A business key: one task per (namespace, job, key) while that task is live.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key itself, compared byte by byte; at most 200 bytes.
    pub text: String,
    /// What to do when it is taken.
    pub mode: KeyMode,
    /// How long it stays taken from the submit on, also when the task ends sooner.
    pub period: Option<Duration>,
}

/// The tick of a schedule that made a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tick {
    /// The schedule's name.
    pub schedule: String,
    /// The instant the schedule named; the task may start later.
    pub scheduled_at: Timestamp,
    /// The start of the data interval that this tick stands for.
    pub interval_start: Option<Timestamp>,
    /// The end of that interval.
    pub interval_end: Option<Timestamp>,
}

/// One task with every column, live or finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Whose it is.
    pub namespace: Namespace,
    /// The job it runs.
    pub job: JobName,
    /// Where it stands.
    pub state: State,
    /// 0 at first, one more at every rerun.
    pub round: u32,
    /// How urgent it is.
    pub priority: Priority,
    /// The earliest start; [`Timestamp::MAX`] while it waits for something other than time.
    pub ready_at: Timestamp,
    /// The latest start.
    pub deadline: Option<Timestamp>,
    /// The arguments, as JSON text.
    pub payload: String,
    /// The business key.
    pub key: Option<String>,
    /// Words to search by.
    pub tags: Vec<String>,
    /// What keeps tasks of one kind on one shard.
    pub route_key: Option<String>,
    /// Retries after the first attempt.
    pub max_retries: u32,
    /// The longest run of one attempt; in JSON, milliseconds.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Option<Duration>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// Attempts spent so far, the running one among them.
    pub attempt: u32,
    /// Workers that died while they had it.
    pub lost: u32,
    /// One more at every claim, never reset; with the id it names an execution.
    pub fence: i64,
    /// The node that has it, or had it last.
    pub node: Option<NodeId>,
    /// When that node took it.
    pub claimed_at: Option<Timestamp>,
    /// When the handler was called.
    pub started_at: Option<Timestamp>,
    /// When the outcome was recorded.
    pub finished_at: Option<Timestamp>,
    /// The handler's result, as JSON text.
    pub result: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// When somebody asked to cancel it while it ran.
    pub cancel_requested_at: Option<Timestamp>,
    /// The tick that made it.
    pub schedule: Option<Tick>,
    /// The trace context of its submit (W3C `traceparent`).
    pub trace: Option<String>,
    /// The workflow run it is a step of.
    pub run: Option<RunId>,
    /// The index of that step in the workflow's definition.
    pub step: Option<i32>,
    /// The index of the item, for a mapped step.
    pub map_index: Option<i32>,
}

impl Task {
    /// The state with its cancel mark, as the state machine takes it.
    #[must_use]
    pub const fn status(&self) -> Status {
        let marked = matches!(self.state, State::Running) && self.cancel_requested_at.is_some();
        Status {
            state: self.state,
            cancel: if marked {
                CancelMark::Marked
            } else {
                CancelMark::None
            },
        }
    }
}

/// Optional durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
            .serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_task_reads_back_with_ids_as_text() {
        let id = TaskId::v7(Timestamp::from_millis(1), [7; 10]);
        let text = json!({
            "id": id.to_string(), "namespace": "default", "job": "j", "state": "running", "round": 0,
            "priority": 5, "ready_at": 1, "deadline": null, "payload": "{}", "key": null, "tags": ["a"],
            "route_key": null, "max_retries": 3, "timeout_ms": 1_500, "created_at": 1, "attempt": 1, "lost": 0,
            "fence": 2, "node": null, "claimed_at": 3, "started_at": 4, "finished_at": null, "result": null,
            "error": null, "cancel_requested_at": 5, "schedule": null, "trace": null, "run": null, "step": null,
            "map_index": null,
        });
        let task: Task = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(task.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(task.status(), Status::CANCELING);
        assert_eq!(serde_json::to_value(&task).unwrap(), text);
        let done = Task {
            state: State::Succeeded,
            ..task
        };
        assert_eq!(done.status(), Status::unmarked(State::Succeeded));
    }

    #[test]
    fn key_modes_read_back() {
        for mode in [KeyMode::Reject, KeyMode::ReturnExisting, KeyMode::Replace] {
            assert_eq!(mode.as_str().parse::<KeyMode>().unwrap(), mode);
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert!("ignore".parse::<KeyMode>().is_err());
    }
}
