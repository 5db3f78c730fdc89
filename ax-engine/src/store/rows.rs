//! A task's row on its way in ([`TaskRow`]) and after its claim ([`Claimed`]), and how both become columns.
//!
//! Reading forgives what hands can do to a row (an odd name, a number out of range): such a task still runs into the
//! dead letters with its text kept, and takes no batch down with it.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{
    CancelMark, Error, JobName, Key, Namespace, NodeId, OnLost, Priority, RunId, State, Status,
    TaskId, Tick, Timestamp, Token,
};

use super::cells::{
    count, duration, job_of, millis, namespace_of, on_lost_of, parse_tags, priority_of, state_of,
};
use crate::db::{Row, Value};

/// A task to insert, with every value decided.
#[derive(Clone, Debug)]
pub struct TaskRow {
    /// Made by the caller, so that a submit can be sent again.
    pub id: TaskId,
    /// Whose task it is.
    pub namespace: Namespace,
    /// Which job runs it.
    pub job: JobName,
    /// JSON text.
    pub payload: Arc<str>,
    /// The lane it runs in.
    pub priority: Priority,
    /// When it is due.
    pub ready_at: Timestamp,
    /// The slice of the cluster that triggers it; 1,024 and above are inboxes of nodes.
    pub shard: i64,
    /// When it expires if it has not started; [`Timestamp::MAX`] for never.
    pub deadline: Timestamp,
    /// Its key, if it is unique; only `submit_keyed` and `submit_on` look at it.
    pub key: Option<Key>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What keeps related tasks on one shard.
    pub route_key: Option<String>,
    /// Retries allowed; `None` means the job's policy on the node that runs it.
    pub max_retries: Option<u32>,
    /// The longest an attempt may take; `None` means the job's.
    pub timeout: Option<Duration>,
    /// What becomes of it when its worker dies.
    pub on_lost: OnLost,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// The schedule tick that made it.
    pub tick: Option<Tick>,
    /// W3C trace context of the submitter.
    pub trace: Option<String>,
    /// Set when it is to be inserted as running on a node that has a slot for it.
    pub born: Option<Born>,
}

/// The claim that a born-claimed task is inserted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born {
    /// The node that will run it.
    pub node: NodeId,
    /// The claim's token; fresh per batch.
    pub token: Token,
}

/// A task that a node holds: all that its execution and its history row need.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The task.
    pub id: TaskId,
    /// Whose task it is.
    pub namespace: Namespace,
    /// Which job runs it.
    pub job: JobName,
    /// JSON text, whole also where it is stored apart.
    pub payload: Arc<str>,
    /// Whether the payload is stored apart (`ax_payload`).
    pub payload_apart: bool,
    /// The lane it runs in.
    pub priority: Priority,
    /// When it was due.
    pub ready_at: Timestamp,
    /// Its slice or inbox.
    pub shard: i64,
    /// [`Timestamp::MAX`] for never.
    pub deadline: Timestamp,
    /// Its key, if it is unique.
    pub key: Option<Arc<str>>,
    /// Its tags as a JSON array; see [`Claimed::tag_list`].
    pub tags: Option<Arc<str>>,
    /// What keeps related tasks on one shard.
    pub route_key: Option<Arc<str>>,
    /// The cluster-wide limit it is under.
    pub limit_key: Option<Arc<str>>,
    /// Retries allowed; `None` means the job's policy.
    pub max_retries: Option<u32>,
    /// The longest an attempt may take; `None` means the job's.
    pub timeout: Option<Duration>,
    /// What becomes of it when its worker dies.
    pub on_lost: OnLost,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// The schedule tick that made it.
    pub tick: Option<Tick>,
    /// Number of this attempt, from 1. Lost workers are among them: retries used are `attempt - 1 - lost`.
    pub attempt: u32,
    /// How many workers died with it.
    pub lost: u32,
    /// Raised by one at every claim, never reset.
    pub fence: i64,
    /// Raised by one at every rerun.
    pub round: i64,
    /// The claim's token.
    pub token: Token,
    /// The claiming node.
    pub node: NodeId,
    /// When it was claimed, by the database's clock (born claimed: when it was submitted).
    pub claimed_at: Timestamp,
    /// The last attempt's error.
    pub error: Option<Arc<str>>,
    /// The last attempt's progress.
    pub progress: Option<Arc<str>>,
    /// W3C trace context of the submitter.
    pub trace: Option<Arc<str>>,
    /// The workflow run it is a step of.
    pub run: Option<RunId>,
    /// The step's index in the definition.
    pub step: Option<i32>,
    /// The item's index in a mapped step.
    pub map_index: Option<i32>,
}

impl Claimed {
    /// The tags as a list.
    #[must_use]
    pub fn tag_list(&self) -> Vec<String> {
        parse_tags(self.tags.as_deref())
    }

    /// What a born-claimed row is once [`Placed::Claimed`](super::Placed::Claimed) was answered; `None` when the row
    /// is not to be born claimed.
    #[must_use]
    pub fn born(row: &TaskRow) -> Option<Self> {
        let Born { node, token } = row.born?;
        Some(Self {
            id: row.id,
            namespace: row.namespace.clone(),
            job: row.job.clone(),
            payload: Arc::clone(&row.payload),
            payload_apart: row.payload_apart(),
            priority: row.priority,
            ready_at: row.ready_at,
            shard: row.shard,
            deadline: row.deadline,
            key: row.key.as_ref().map(|key| Arc::from(&*key.text)),
            tags: row.tags_text(),
            route_key: row.route_key.as_deref().map(Arc::from),
            limit_key: None,
            max_retries: row.max_retries,
            timeout: row.timeout,
            on_lost: row.on_lost,
            created_at: row.created_at,
            tick: row.tick.clone(),
            attempt: 1,
            lost: 0,
            fence: 1,
            round: 0,
            token,
            node,
            claimed_at: row.created_at.max(row.ready_at),
            error: None,
            progress: None,
            trace: row.trace.as_deref().map(Arc::from),
            run: None,
            step: None,
            map_index: None,
        })
    }
}

/// Payloads up to this many bytes stay in the task's row.
pub(super) const INLINE_PAYLOAD: usize = 4 * 1024;

impl TaskRow {
    /// Whether the payload goes to `ax_payload`.
    pub(super) fn payload_apart(&self) -> bool {
        self.payload.len() > INLINE_PAYLOAD
    }

    /// The tags as they are stored.
    pub(super) fn tags_text(&self) -> Option<Arc<str>> {
        if self.tags.is_empty() {
            return None;
        }
        serde_json::to_string(&self.tags).ok().map(Arc::from)
    }

    /// What the row's own column holds of the payload.
    pub(super) fn inline_payload(&self) -> Value {
        Value::Text((!self.payload_apart()).then(|| Arc::clone(&self.payload)))
    }

    /// Writes the 21 columns `NEW`.
    pub(super) fn write(&self, values: &mut Vec<Value>) {
        values.extend([
            Value::from(self.id.as_bytes()),
            Value::from(self.namespace.as_str()),
            Value::from(self.job.as_str()),
            Value::from(i64::from(self.priority.get())),
            Value::from(self.ready_at),
            Value::from(self.shard),
            Value::from(self.deadline),
            self.inline_payload(),
            Value::from(i64::from(self.payload_apart())),
            Value::from(self.key.as_ref().map(|key| &*key.text)),
            Value::Text(self.tags_text()),
            Value::from(self.route_key.as_deref()),
            Value::from(self.max_retries.map(i64::from)),
            Value::from(self.timeout.map(millis)),
            Value::from(i64::from(self.on_lost.code())),
            Value::from(self.created_at),
        ]);
        write_tick(self.tick.as_ref(), values);
        values.push(Value::from(self.trace.as_deref()));
    }
}

impl Claimed {
    /// What the row's own column holds of the payload.
    fn inline_payload(&self) -> Value {
        Value::Text((!self.payload_apart).then(|| Arc::clone(&self.payload)))
    }

    /// Writes the columns `NEW` and those of `InsertMissing` behind them, for the next round.
    pub(super) fn write_again(&self, ready_at: Timestamp, shard: i64, values: &mut Vec<Value>) {
        values.extend([
            Value::from(self.id.as_bytes()),
            Value::from(self.namespace.as_str()),
            Value::from(self.job.as_str()),
            Value::from(i64::from(self.priority.get())),
            Value::from(ready_at),
            Value::from(shard),
            // Whoever asks for another round wants it to run: the old deadline is not asked again.
            Value::from(Timestamp::MAX),
            self.inline_payload(),
            Value::from(i64::from(self.payload_apart)),
            Value::from(&self.key),
            Value::from(&self.tags),
            Value::from(&self.route_key),
            Value::from(self.max_retries.map(i64::from)),
            Value::from(self.timeout.map(millis)),
            Value::from(i64::from(self.on_lost.code())),
            Value::from(self.created_at),
        ]);
        write_tick(self.tick.as_ref(), values);
        values.extend([
            Value::from(&self.trace),
            Value::from(self.fence),
            Value::from(self.round + 1),
            Value::from(&self.limit_key),
            Value::from(self.run.as_ref().map(RunId::as_bytes)),
            Value::from(self.step.map(i64::from)),
            Value::from(self.map_index.map(i64::from)),
        ]);
    }
}

/// A live or finished row with everything that a claim does not need.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The row as a claim sees it; token, node and claim time are made up where there are none.
    pub(super) task: Claimed,
    pub(super) state: State,
    pub(super) token: Option<Token>,
    pub(super) node: Option<NodeId>,
    pub(super) claimed_at: Option<Timestamp>,
    /// When a cancel was asked.
    pub(super) cancel_at: Option<Timestamp>,
    pub(super) cancel_reason: Option<Arc<str>>,
}

/// The number of columns `TASK`.
pub(super) const TASK_COLUMNS: usize = 37;

impl Record {
    /// Reads the 37 columns `TASK`.
    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        let token = row.id_opt(26)?.map(Token::from_bytes);
        let node = row.id_opt(27)?.map(NodeId::from_bytes);
        let claimed_at = row.time_opt(28)?;
        let cancel_at = row.time(29)?;
        let task = Claimed {
            id: TaskId::from_bytes(row.id(0)?),
            namespace: namespace_of(row.text(1)?),
            job: job_of(row.text(2)?),
            payload: row.text_opt(8)?.map_or_else(|| Arc::from(""), Arc::clone),
            payload_apart: row.int(9)? != 0,
            priority: priority_of(row.int(4)?),
            ready_at: row.time(5)?,
            shard: row.int(6)?,
            deadline: row.time(7)?,
            key: row.text_opt(10)?.map(Arc::clone),
            tags: row.text_opt(11)?.map(Arc::clone),
            route_key: row.text_opt(12)?.map(Arc::clone),
            limit_key: row.text_opt(13)?.map(Arc::clone),
            max_retries: row.int_opt(14)?.map(count),
            timeout: row.int_opt(15)?.map(duration),
            on_lost: on_lost_of(row.int(16)?),
            created_at: row.time(17)?,
            tick: read_tick(row)?,
            attempt: count(row.int(22)?),
            lost: count(row.int(23)?),
            fence: row.int(24)?,
            round: row.int(25)?,
            token: token.unwrap_or(Token::from_bytes([0; 16])),
            node: node.unwrap_or(NodeId::from_bytes([0; 16])),
            claimed_at: claimed_at.unwrap_or(Timestamp::from_millis(0)),
            error: row.text_opt(31)?.map(Arc::clone),
            progress: row.text_opt(32)?.map(Arc::clone),
            trace: row.text_opt(33)?.map(Arc::clone),
            run: row.id_opt(34)?.map(RunId::from_bytes),
            step: row.int_opt(35)?.and_then(|step| i32::try_from(step).ok()),
            map_index: row.int_opt(36)?.and_then(|index| i32::try_from(index).ok()),
        };
        let state = state_of(row, 3)?;
        let cancel_at = (cancel_at != Timestamp::from_millis(0)).then_some(cancel_at);
        Ok(Self {
            task,
            state,
            token,
            node,
            claimed_at,
            cancel_at,
            cancel_reason: row.text_opt(30)?.map(Arc::clone),
        })
    }

    /// Where it stands, for the state machine.
    pub(super) const fn status(&self) -> Status {
        let cancel = if self.cancel_at.is_some() {
            CancelMark::Marked
        } else {
            CancelMark::None
        };
        Status {
            state: self.state,
            cancel,
        }
    }
}

/// How a round ended, beside what the task's own columns say.
pub(super) struct Ended<'a> {
    pub(super) task: &'a Claimed,
    pub(super) state: State,
    /// Token, node and claim time, where it was claimed.
    pub(super) claim: Option<(Token, NodeId, Timestamp)>,
    /// When and why a cancel was asked.
    pub(super) cancel: Option<(Timestamp, Option<Arc<str>>)>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Timestamp,
    pub(super) result: Option<Arc<str>>,
    pub(super) error: Option<Arc<str>>,
    /// Why it ended without having run, in words.
    pub(super) reason: Option<Arc<str>>,
}

impl Ended<'_> {
    /// Writes the 41 columns of `InsertHistory`.
    pub(super) fn write(&self, values: &mut Vec<Value>) {
        let Claimed {
            id,
            namespace,
            job,
            priority,
            ready_at,
            shard,
            deadline,
            on_lost,
            created_at,
            ..
        } = self.task;
        let task = self.task;
        values.extend([
            Value::from(id.as_bytes()),
            Value::from(namespace.as_str()),
            Value::from(job.as_str()),
            Value::from(i64::from(self.state.code())),
            Value::from(i64::from(priority.get())),
            Value::from(*ready_at),
            Value::from(*shard),
            Value::from(*deadline),
            task.inline_payload(),
            Value::from(i64::from(task.payload_apart)),
            Value::from(&task.key),
            Value::from(&task.tags),
            Value::from(&task.route_key),
            Value::from(&task.limit_key),
            Value::from(task.max_retries.map(i64::from)),
            Value::from(task.timeout.map(millis)),
            Value::from(i64::from(on_lost.code())),
            Value::from(*created_at),
        ]);
        write_tick(task.tick.as_ref(), values);
        let (cancel_at, cancel_reason) = self
            .cancel
            .clone()
            .unwrap_or((Timestamp::from_millis(0), None));
        values.extend([
            Value::from(i64::from(task.attempt)),
            Value::from(i64::from(task.lost)),
            Value::from(task.fence),
            Value::from(task.round),
            Value::from(self.claim.as_ref().map(|(token, ..)| token.as_bytes())),
            Value::from(self.claim.as_ref().map(|(_, node, _)| node.as_bytes())),
            Value::from(self.claim.map(|(.., at)| at)),
            Value::from(cancel_at),
            Value::Text(cancel_reason),
            Value::from(&self.error),
            Value::from(&task.progress),
            Value::from(&task.trace),
            Value::from(task.run.as_ref().map(RunId::as_bytes)),
            Value::from(task.step.map(i64::from)),
            Value::from(task.map_index.map(i64::from)),
            Value::from(self.started_at),
            Value::from(self.finished_at),
            Value::from(&self.result),
            Value::from(&self.reason),
        ]);
    }

    /// Writes the 10 columns of `InsertDead`.
    pub(super) fn write_dead(&self, values: &mut Vec<Value>) {
        let task = self.task;
        values.extend([
            Value::from(task.id.as_bytes()),
            Value::from(task.round),
            Value::from(task.namespace.as_str()),
            Value::from(task.job.as_str()),
            Value::from(&task.key),
            Value::from(&task.payload),
            Value::from(&self.error),
            Value::from(self.finished_at),
            Value::from(i64::from(task.attempt)),
            Value::from(i64::from(task.lost)),
        ]);
    }
}

fn write_tick(tick: Option<&Tick>, values: &mut Vec<Value>) {
    values.extend([
        Value::from(tick.map(|tick| &*tick.schedule)),
        Value::from(tick.map(|tick| tick.scheduled_at)),
        Value::from(tick.and_then(|tick| tick.interval_start)),
        Value::from(tick.and_then(|tick| tick.interval_end)),
    ]);
}

fn read_tick(row: &Row) -> Result<Option<Tick>, Error> {
    let Some(schedule) = row.text_opt(18)? else {
        return Ok(None);
    };
    Ok(Some(Tick {
        schedule: schedule.to_string(),
        scheduled_at: row.time_opt(19)?.unwrap_or(Timestamp::from_millis(0)),
        interval_start: row.time_opt(20)?,
        interval_end: row.time_opt(21)?,
    }))
}
