//! The loop that turns time into claims: it looks at the due range, waits in the wheel, and claims what is due as far
//! as there is credit.
//!
//! Enters: notes from the other rooms (new rows, ended claims and scans, changed shards). Leaves: batches to claim,
//! entries to hand to other nodes. Every database call runs beside the loop, never in it: a slow database makes entries
//! late, but never stops the loop.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ax_core::{Priority, TaskId, Timestamp};
use tokio::sync::mpsc;

use crate::agenda::{Agenda, INBOX, Offered};
use crate::claim;
use crate::config::Ownership;
use crate::discover::{Discovery, Scan, Situation};
use crate::execute::Executor;
use crate::job::JobKind;
use crate::node::{Node, count};
use crate::routes::{Route, Routes};
use crate::running::Running;
use crate::service::Stop;
use crate::shard::SHARDS;
use crate::slots::Slots;
use crate::store::{Claimed, DueRow, DueScan, Owned, TaskRow};
use crate::wheel::Due;

/// The longest sleep of the loop; also how late a forgotten wake-up could be noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Claim statements under way at once, per kind of slot.
const CLAIMS_AT_ONCE: usize = 2;
/// How long the claim of an entry that found its row not yet due waits before the next try.
pub const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// What other rooms tell the loop.
pub(crate) enum Note {
    Offer(Vec<Due>),
    Scanned {
        scan: Box<Scan>,
        found: Result<Vec<DueRow>, ax_core::Error>,
    },
    Claimed {
        kind: JobKind,
        ids: Vec<TaskId>,
        again: Vec<Due>,
    },
    ShardsChanged,
    Hint,
    Forget(TaskId),
}

/// The way into this room.
#[derive(Clone)]
pub struct TriggerHandle {
    notes: mpsc::UnboundedSender<Note>,
    shared: Arc<Shared>,
}

struct Shared {
    node: Arc<Node>,
    routes: Routes,
    backlog: [AtomicUsize; 2],
    horizon: Mutex<Timestamp>,
}

/// The notes that wait for the loop.
pub struct TriggerQueue(tokio::sync::Mutex<mpsc::UnboundedReceiver<Note>>);

/// A way in and the queue behind it.
pub fn channel(node: Arc<Node>, routes: Routes) -> (TriggerHandle, TriggerQueue) {
    let (notes, queue) = mpsc::unbounded_channel();
    let horizon = Mutex::new(Timestamp::MAX);
    let shared = Arc::new(Shared {
        node,
        routes,
        backlog: Default::default(),
        horizon,
    });
    (
        TriggerHandle { notes, shared },
        TriggerQueue(tokio::sync::Mutex::new(queue)),
    )
}

impl TriggerHandle {
    /// Offers entries that are due here, now or later.
    pub fn offer(&self, due: Vec<Due>) {
        if !due.is_empty() {
            self.tell(Note::Offer(due));
        }
    }

    /// Offers the row of a new task, unless another node looks after it or it is due far from now.
    pub fn offer_new(&self, row: &TaskRow) {
        self.offer_parts(
            row.id,
            row.ready_at,
            row.shard,
            row.priority,
            row.namespace.as_str(),
            row.job.as_str(),
        );
    }

    /// Offers a row that went back to pending.
    pub fn offer_row(&self, row: &Claimed, ready_at: Timestamp) {
        self.offer_parts(
            row.id,
            ready_at,
            row.shard,
            row.priority,
            row.namespace.as_str(),
            row.job.as_str(),
        );
    }

    fn offer_parts(
        &self,
        id: TaskId,
        ready_at: Timestamp,
        shard: i64,
        priority: Priority,
        namespace: &str,
        job: &str,
    ) {
        let far = *self
            .shared
            .horizon
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if ready_at > far || !self.shared.node.looks_after(shard) {
            return;
        }
        let job = self.number(namespace, job);
        self.tell(Note::Offer(vec![Due {
            id,
            ready_at,
            job,
            shard: local(shard),
            priority,
        }]));
    }

    /// The set of shards changed.
    pub fn shards_changed(&self) {
        self.tell(Note::ShardsChanged);
    }

    /// There may be something due that nobody offered: poll at once.
    pub fn hint(&self) {
        self.tell(Note::Hint);
    }

    /// The row of this entry has ended, or is due at another instant.
    pub fn forget(&self, id: TaskId) {
        self.tell(Note::Forget(id));
    }

    /// Due entries that wait for slots of this kind.
    pub fn backlog(&self, kind: JobKind) -> usize {
        self.shared.backlog[usize::from(kind == JobKind::Blocking)].load(Ordering::Relaxed)
    }

    /// The number of a job's name.
    pub fn number(&self, namespace: &str, job: &str) -> u32 {
        self.shared.routes.number(namespace, job)
    }

    /// Where tasks of a job go.
    pub fn route(&self, number: u32) -> Route {
        self.shared.routes.route(number)
    }

    /// The namespace and name behind a number.
    pub fn name(&self, number: u32) -> Option<(Arc<str>, Arc<str>)> {
        self.shared.routes.name(number)
    }

    pub(crate) fn tell(&self, note: Note) {
        // After the end of the loop nobody needs to know.
        let _ended = self.notes.send(note);
    }
}

/// The shard of a row as the agenda knows it.
fn local(shard: i64) -> u16 {
    u16::try_from(shard)
        .ok()
        .filter(|s| *s < SHARDS)
        .unwrap_or(INBOX)
}

/// What the room works with.
pub struct Trigger {
    /// The engine.
    pub node: Arc<Node>,
    /// The way back into this room, for the calls beside the loop.
    pub handle: TriggerHandle,
    /// Credit.
    pub slots: Arc<Slots>,
    /// Who runs what is claimed.
    pub executor: Arc<Executor>,
    /// What is held here, claims under way included.
    pub running: Arc<Running>,
}

/// Runs until told to stop.
pub async fn run(trigger: Arc<Trigger>, queue: Arc<TriggerQueue>, stop: Stop) {
    let mut state = Loop::new(trigger);
    let mut queue = queue.0.lock().await;
    let mut notes = Vec::new();
    while !stop.is_cancelled() {
        let sleep = state.turn();
        let node = state.trigger.node.clone();
        let slots = state.trigger.slots.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = queue.recv_many(&mut notes, 4_096) => {}
            () = slots.freed() => {}
            () = node.world.clock.sleep(sleep) => {}
        }
        for note in notes.drain(..) {
            state.take_in(note);
        }
    }
}

struct Loop {
    trigger: Arc<Trigger>,
    agenda: Agenda,
    discovery: Discovery,
    scanning: bool,
    claims: [usize; 2],
}

impl Loop {
    fn new(trigger: Arc<Trigger>) -> Loop {
        let node = &trigger.node;
        let agenda = Agenda::new(node.now(), node.config.held_entries);
        let discovery = Discovery::new(&node.config);
        Loop {
            agenda,
            discovery,
            scanning: false,
            claims: [0; 2],
            trigger,
        }
    }

    /// One turn: move what is due, claim, look. Says how long the loop may sleep.
    fn turn(&mut self) -> Duration {
        let node = self.trigger.node.clone();
        let now = node.now();
        let handle = &self.trigger.handle;
        self.agenda.advance(now, |job| handle.route(job));
        for kind in [JobKind::Async, JobKind::Blocking] {
            self.claim(kind, now);
            let backlog = self.agenda.waiting(kind);
            handle_backlog(&self.trigger.handle, kind, backlog);
        }
        self.hand_on();
        self.scan(now);
        self.sleep(now)
    }

    fn sleep(&self, now: Timestamp) -> Duration {
        let node = &self.trigger.node;
        let mut sleep = LONGEST_SLEEP;
        if let Some(next) = self.agenda.next_due() {
            sleep = sleep.min(node.time.until(next.max(now)));
        }
        if !self.scanning && looks(node) {
            let left = self.discovery.next_poll() - node.micros();
            sleep = sleep.min(Duration::from_micros(u64::try_from(left).unwrap_or(0)));
        }
        sleep
    }

    fn claim(&mut self, kind: JobKind, now: Timestamp) {
        let node = &self.trigger.node;
        let index = usize::from(kind == JobKind::Blocking);
        while self.claims[index] < CLAIMS_AT_ONCE && node.may_claim() {
            let waiting = self.agenda.waiting(kind).min(node.config.batch);
            let granted = self.trigger.slots.reserve(kind, waiting);
            if granted == 0 {
                return;
            }
            let batch = self.agenda.take(kind, granted, now);
            if batch.len() < granted {
                self.trigger.slots.claimed(kind, granted - batch.len(), 0);
            }
            if batch.is_empty() {
                return;
            }
            self.claims[index] += 1;
            let trigger = self.trigger.clone();
            node.world.spawn.engine(Box::pin(
                async move { claim::run(&trigger, kind, batch).await },
            ));
        }
    }

    fn hand_on(&mut self) {
        let strangers = self.agenda.take_elsewhere();
        if !strangers.is_empty() {
            let trigger = self.trigger.clone();
            let spawn = &self.trigger.node.world.spawn;
            spawn.engine(Box::pin(async move {
                claim::hand_on(&trigger, strangers).await
            }));
        }
    }

    fn scan(&mut self, now: Timestamp) {
        let node = &self.trigger.node;
        *self
            .trigger
            .handle
            .shared
            .horizon
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = self.discovery.horizon(now);
        if self.scanning || !looks(node) {
            return;
        }
        let agenda = &self.agenda;
        let situation = Situation {
            now,
            micros: node.micros(),
            waiting: &|priority| agenda.waiting_in(priority),
            room: node.config.held_entries.saturating_sub(agenda.len()),
        };
        let Some(scan) = self.discovery.next(&situation) else {
            return;
        };
        self.scanning = true;
        self.agenda.scan_begins();
        let trigger = self.trigger.clone();
        node.world.spawn.engine(Box::pin(async move {
            let request = DueScan {
                to: scan.to,
                lanes: scan.lanes,
                owned: owned(&trigger.node),
            };
            let found = trigger.node.store.due(&request).await;
            trigger.handle.tell(Note::Scanned {
                scan: Box::new(scan),
                found,
            });
        }));
    }

    fn take_in(&mut self, note: Note) {
        match note {
            Note::Offer(entries) => entries.into_iter().for_each(|due| {
                self.agenda.offer(due);
            }),
            Note::Scanned { scan, found } => self.scanned(&scan, found),
            Note::Claimed { kind, ids, again } => {
                self.claims[usize::from(kind == JobKind::Blocking)] -= 1;
                let again_ids: HashSet<TaskId> = again.iter().map(|due| due.id).collect();
                self.agenda
                    .claimed(ids.into_iter().filter(|id| !again_ids.contains(id)));
                self.agenda.unclaimed(again);
            }
            Note::ShardsChanged => self.reshard(),
            Note::Hint => self.discovery.hurry(),
            Note::Forget(id) => self.agenda.forget(&id),
        }
    }

    fn scanned(&mut self, scan: &Scan, found: Result<Vec<DueRow>, ax_core::Error>) {
        self.scanning = false;
        let node = self.trigger.node.clone();
        match found {
            Ok(rows) => {
                count(&node.counters.polls, 1);
                node.polled.beat(&*node.world.clock);
                let new = rows
                    .iter()
                    .filter(|row| self.offer_row(row) == Offered::New)
                    .count();
                self.discovery.found(scan, &rows, new, node.micros());
            }
            Err(error) => {
                tracing::warn!(%error, "looking for due tasks is tried again soon");
                self.discovery.failed(node.micros());
            }
        }
        self.agenda.scan_ends();
    }

    fn offer_row(&mut self, row: &DueRow) -> Offered {
        let job = self.trigger.handle.number(&row.namespace, &row.job);
        let priority = Priority::new(row.priority).unwrap_or_default();
        let due = Due {
            id: row.id,
            ready_at: row.ready_at,
            job,
            shard: local(row.shard),
            priority,
        };
        self.agenda.offer_scanned(due)
    }

    fn reshard(&mut self) {
        let node = self.trigger.node.clone();
        if node.config.ownership == Ownership::Sharded {
            let owned = node.owned();
            self.agenda
                .keep_shards(|shard| shard == INBOX || owned.contains(shard));
        }
        self.discovery.restart();
    }
}

/// Whether this node looks for due rows: in its shards when it triggers, in its inbox when it executes.
fn looks(node: &Node) -> bool {
    node.config.roles.trigger || node.config.roles.execute
}

fn handle_backlog(handle: &TriggerHandle, kind: JobKind, backlog: usize) {
    handle.shared.backlog[usize::from(kind == JobKind::Blocking)].store(backlog, Ordering::Relaxed);
}

/// Which shards a scan of this node covers.
fn owned(node: &Node) -> Owned {
    match node.config.ownership {
        Ownership::Everyone => Owned::All,
        Ownership::Sharded => Owned::Some {
            shards: node.owned(),
            inbox: node.identity().inbox,
        },
    }
}
