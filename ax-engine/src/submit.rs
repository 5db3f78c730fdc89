//! From `NewTask` to a row: one insert for all submits that gather while another is under way.
//!
//! Enters: rows of tasks. Leaves: what became of each. Keyed submits have a lane of their own, because they may wait
//! for another writer's key. A task that is due now, on a node with a free slot and nothing waiting, is born claimed:
//! it is inserted as running and starts without a claim.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, ErrorKind, NewTask, TaskId, Timestamp, Token};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::execute::Executor;
use crate::job::JobKind;
use crate::node::Node;
use crate::routes::Route;
use crate::running::Running;
use crate::service::Stop;
use crate::slots::{Reserved, Slots};
use crate::store::{Born, Claimed, KeyPlaced, Placed, TaskRow};
use crate::trigger::TriggerHandle;

/// What became of a submitted task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// It is a new task.
    New(TaskId),
    /// Its key is held by this task, which the caller gets instead.
    Existing(TaskId),
    /// Its payload and time replaced those of this task, which had not started.
    Replaced(TaskId),
}

impl Submitted {
    /// The task that the caller has now.
    pub fn id(self) -> TaskId {
        match self {
            Submitted::New(id) | Submitted::Existing(id) | Submitted::Replaced(id) => id,
        }
    }
}

type Answer = Result<Submitted, Error>;

struct Request {
    rows: Vec<TaskRow>,
    answer: oneshot::Sender<Vec<Answer>>,
}

/// The way into this room.
#[derive(Clone)]
pub struct SubmitHandle {
    plain: mpsc::UnboundedSender<Request>,
    keyed: mpsc::UnboundedSender<Request>,
}

/// One lane of submits.
pub struct Lane(Mutex<mpsc::UnboundedReceiver<Request>>);

/// The way in, the plain lane and the keyed lane.
pub fn channel() -> (SubmitHandle, Lane, Lane) {
    let (plain, plain_lane) = mpsc::unbounded_channel();
    let (keyed, keyed_lane) = mpsc::unbounded_channel();
    (
        SubmitHandle { plain, keyed },
        Lane(Mutex::new(plain_lane)),
        Lane(Mutex::new(keyed_lane)),
    )
}

impl SubmitHandle {
    /// Submits rows, all with a key or all without, and waits until they are durable.
    pub async fn submit(&self, rows: Vec<TaskRow>) -> Vec<Answer> {
        let n = rows.len();
        let lane = if rows.first().is_some_and(|row| row.key.is_some()) {
            &self.keyed
        } else {
            &self.plain
        };
        let (answer, answered) = oneshot::channel();
        let sent = lane.send(Request { rows, answer });
        match (sent, answered.await) {
            (Ok(()), Ok(answers)) => answers,
            _ => (0..n).map(|_| Err(stopped())).collect(),
        }
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Stopped,
        "submit: this engine was shut down; submit through a running one",
    )
}

/// What the room works with.
pub struct Submitter {
    /// The engine.
    pub node: Arc<Node>,
    /// Free slots, for tasks that are born claimed.
    pub slots: Arc<Slots>,
    /// Who runs them.
    pub executor: Arc<Executor>,
    /// Who takes the others.
    pub trigger: TriggerHandle,
    /// What is held here, claims under way included.
    pub running: Arc<Running>,
}

/// Inserts what gathers in the plain lane.
pub async fn run_plain(submitter: Arc<Submitter>, lane: Arc<Lane>, stop: Stop) {
    while let Some(requests) = gather(&submitter, &lane, &stop).await {
        let mut rows: Vec<TaskRow> = requests
            .iter()
            .flat_map(|r| r.rows.iter().cloned())
            .collect();
        let token = submitter.node.world.random.token();
        let births = submitter.births(&mut rows, token);
        if births.iter().any(Option::is_some) {
            submitter.running.claim_begins(token);
        }
        let mut placed = submitter.node.store.submit(&rows).await;
        submitter.resolve(&rows, &mut placed, &stop).await;
        let answers = submitter.place(&rows, &births, placed);
        submitter.running.claim_ends(token);
        answer(requests, answers);
    }
}

/// Inserts what gathers in the keyed lane.
pub async fn run_keyed(submitter: Arc<Submitter>, lane: Arc<Lane>, stop: Stop) {
    while let Some(requests) = gather(&submitter, &lane, &stop).await {
        let rows: Vec<TaskRow> = requests
            .iter()
            .flat_map(|r| r.rows.iter().cloned())
            .collect();
        let mut placed = submitter.node.store.submit_keyed(&rows).await;
        submitter.resolve_keyed(&rows, &mut placed, &stop).await;
        let answers = rows
            .iter()
            .zip(placed)
            .map(|(row, placed)| submitter.place_keyed(row, placed))
            .collect();
        answer(requests, answers);
    }
}

/// Waits for a request and takes all that came with it.
async fn gather(submitter: &Submitter, lane: &Lane, stop: &Stop) -> Option<Vec<Request>> {
    let mut requests = Vec::new();
    let received = async {
        let mut lane = lane.0.lock().await;
        lane.recv_many(&mut requests, submitter.node.config.batch)
            .await
    };
    let n = tokio::select! { biased; n = received => n, () = stop.cancelled() => 0 };
    (n > 0).then_some(requests)
}

fn answer(requests: Vec<Request>, answers: Vec<Answer>) {
    let mut answers = answers.into_iter();
    for request in requests {
        let own = answers.by_ref().take(request.rows.len()).collect();
        // A caller that went away left its task behind, which is durable all the same.
        let _gone = request.answer.send(own);
    }
}

impl Submitter {
    /// Marks the rows that may be born claimed and reserves a slot for each. Only the first rows may be: an order of
    /// equals is kept, and as soon as one waits the others wait behind it.
    fn births(&self, rows: &mut [TaskRow], token: Token) -> Vec<Option<JobKind>> {
        let mut births = vec![None; rows.len()];
        if !self.node.may_claim() || !self.node.config.roles.execute {
            return births;
        }
        let now = self.node.now();
        for (row, birth) in rows.iter_mut().zip(&mut births) {
            let Some(kind) = self.may_be_born(row, now) else {
                continue;
            };
            if self.slots.reserve_free(kind) == Reserved::No {
                break;
            }
            row.born = Some(Born {
                node: self.node.identity().node,
                token,
            });
            *birth = Some(kind);
        }
        births
    }

    fn may_be_born(&self, row: &TaskRow, now: Timestamp) -> Option<JobKind> {
        if row.ready_at > now || row.deadline <= now {
            return None;
        }
        let number = self
            .trigger
            .number(row.namespace.as_str(), row.job.as_str());
        match self.trigger.route(number) {
            Route::Run(kind) if self.trigger.backlog(kind) == 0 => Some(kind),
            _ => None,
        }
    }

    /// Asks what became of rows whose answer was lost, and inserts those that are nowhere, until the database answers or
    /// patience ends.
    async fn resolve(&self, rows: &[TaskRow], placed: &mut [Result<Placed, Error>], stop: &Stop) {
        let mut patience = Patience::new();
        while let Some(open) = patience.next(&self.node, open(placed), stop).await {
            let again: Vec<TaskRow> = open.iter().map(|place| rows[*place].clone()).collect();
            for (place, answer) in open
                .into_iter()
                .zip(self.node.store.submit_again(&again).await)
            {
                placed[place] = answer;
            }
        }
    }

    async fn resolve_keyed(
        &self,
        rows: &[TaskRow],
        placed: &mut [Result<KeyPlaced, Error>],
        stop: &Stop,
    ) {
        let mut patience = Patience::new();
        while let Some(open) = patience.next(&self.node, open(placed), stop).await {
            let again: Vec<TaskRow> = open.iter().map(|place| rows[*place].clone()).collect();
            for (place, answer) in open
                .into_iter()
                .zip(self.node.store.submit_keyed(&again).await)
            {
                placed[place] = answer;
            }
        }
    }

    fn place(
        &self,
        rows: &[TaskRow],
        births: &[Option<JobKind>],
        placed: Vec<Result<Placed, Error>>,
    ) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(rows.len());
        let mut nursery = [
            (JobKind::Async, 0, Vec::new()),
            (JobKind::Blocking, 0, Vec::new()),
        ];
        for ((row, birth), placed) in rows.iter().zip(births).zip(placed) {
            let mut cradle = birth.map(|kind| &mut nursery[usize::from(kind == JobKind::Blocking)]);
            if let Some(cradle) = &mut cradle {
                cradle.1 += 1;
            }
            answers.push(placed.map(|placed| {
                match (placed, cradle, Claimed::born(row)) {
                    (Placed::Claimed, Some(cradle), Some(claimed)) => cradle.2.push(claimed),
                    _ => self.trigger.offer_new(row),
                }
                Submitted::New(row.id)
            }));
        }
        for (kind, asked, born) in nursery {
            if asked > 0 {
                self.executor.accept(kind, asked, born);
            }
        }
        answers
    }

    fn place_keyed(&self, row: &TaskRow, placed: Result<KeyPlaced, Error>) -> Answer {
        match placed? {
            KeyPlaced::New => {
                self.trigger.offer_new(row);
                Ok(Submitted::New(row.id))
            }
            KeyPlaced::Existing(id) => Ok(Submitted::Existing(id)),
            KeyPlaced::Replaced(id) => {
                self.trigger.hint();
                Ok(Submitted::Replaced(id))
            }
            KeyPlaced::Rejected(id) => Err(held_by(row, id)),
        }
    }
}

/// The places whose answer was lost.
fn open<T>(placed: &[Result<T, Error>]) -> Vec<usize> {
    let lost = |answer: &Result<T, Error>| {
        answer
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Unavailable)
    };
    (0..placed.len())
        .filter(|place| lost(&placed[*place]))
        .collect()
}

/// How long lost answers are asked for: 30 s, with growing pauses.
struct Patience {
    pause: Duration,
    left: Duration,
}

impl Patience {
    fn new() -> Patience {
        Patience {
            pause: Duration::from_millis(10),
            left: Duration::from_secs(30),
        }
    }

    /// Waits before the next question; nothing when all is answered, or patience or the engine ends.
    async fn next(&mut self, node: &Node, open: Vec<usize>, stop: &Stop) -> Option<Vec<usize>> {
        if open.is_empty() || self.left.is_zero() || stop.is_cancelled() {
            return None;
        }
        node.world.clock.sleep(self.pause).await;
        self.left = self.left.saturating_sub(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(500));
        Some(open)
    }
}

/// The refusal of a submit whose key is taken.
pub fn held_by(row: &TaskRow, holder: TaskId) -> Error {
    let key = row.key.as_ref().map_or("", |key| key.text.as_str());
    Error::new(
        ErrorKind::Conflict,
        format!(
            "submit {:?} with the key {key:?}: task {holder} holds the key; wait for it, or use another key mode",
            row.job.as_str()
        ),
    )
}

/// A row for a new task.
///
/// # Errors
/// When the task is not valid; the text says what to do.
pub fn row(node: &Node, task: NewTask) -> Result<TaskRow, Error> {
    task.validate(&node.config.limits)?;
    let now = node.now();
    let (ready_at, deadline) = task.timing(now)?;
    let shard = match &task.route_key {
        Some(key) => i64::from(crate::shard::shard_of(key)),
        None => node.choose_shard(),
    };
    Ok(TaskRow {
        id: node.world.random.task_id(now),
        namespace: node.config.namespace.clone(),
        job: task.job,
        payload: task.payload.into(),
        priority: task.priority,
        ready_at,
        shard,
        deadline: deadline.unwrap_or(Timestamp::MAX),
        key: task.key,
        tags: task.tags,
        route_key: task.route_key,
        max_retries: task.max_retries,
        timeout: task.timeout,
        on_lost: task.on_lost,
        created_at: now,
        tick: task.schedule,
        trace: task.trace,
        born: None,
    })
}
