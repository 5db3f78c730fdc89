//! A task's row on its way in ([`TaskRow`]) and after its claim ([`Claimed`]).

use std::sync::Arc;
use std::time::Duration;

use ax_core::{JobName, Key, Namespace, NodeId, OnLost, Priority, RunId, TaskId, Tick, Timestamp, Token};

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
            claimed_at: row.created_at,
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
}

/// Reads a stored JSON array of tags; a damaged one counts as none, because tags decide nothing.
pub(super) fn parse_tags(text: Option<&str>) -> Vec<String> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
