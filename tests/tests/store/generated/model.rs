//! The reference model: what each verb must answer and leave behind, without a database, a lock or a clock.
//!
//! Time has two places only: what is due, and what comes an hour later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ax_core::{
    AttemptEnd, ErrorKind, Event, JobName, Key, KeyMode, Namespace, NodeId, OnLost, Priority,
    State, Status, Task, TaskId, Timestamp, Token, next,
};
use ax_engine::store::{
    CancelResult, Changed, Claimed, End, Execution, KeyPlaced, OutcomeRow, Placed, Settled,
    Settlement, TaskRow, Watched,
};

use super::HOUR;
use super::ops::{Deadline, Ends, Period, Spec, Time, priority};
use crate::rows;

/// Everything there is.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) base: Timestamp,
    pub(super) namespace: Namespace,
    pub(super) nodes: [NodeId; 2],
    gone: BTreeSet<NodeId>,
    /// Rows sent so far, whatever became of them.
    sent: Vec<TaskRow>,
    pub(super) tasks: BTreeMap<TaskId, Known>,
    pub(super) keys: BTreeMap<(String, String), Hold>,
    numbers: u64,
}

/// Who holds a key, and whether it is kept beyond its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    task: TaskId,
    kept: bool,
}

/// A task: its live row, if it has one, and its ended rounds.
#[derive(Clone, Debug)]
pub(super) struct Known {
    live: Option<Live>,
    ended: Vec<Ended>,
    pub(super) attempts: Vec<String>,
    /// Claims whose end their worker reported without ending the task.
    reported: BTreeSet<(i64, Token)>,
    held_by: BTreeSet<Token>,
}

/// A live row.
#[derive(Clone, Debug)]
struct Live {
    row: TaskRow,
    state: State,
    fence: i64,
    attempt: u32,
    lost: u32,
    round: i64,
    claim: Option<(Token, NodeId)>,
    mark: Option<Option<Arc<str>>>,
    error: Option<Arc<str>>,
}

/// An ended round: the row as it stood, and how it ended.
#[derive(Clone, Debug)]
struct Ended {
    live: Live,
    result: Option<Arc<str>>,
    /// The claim whose worker reported the end.
    reporter: Option<Token>,
    dead: bool,
}

fn job(number: usize) -> JobName {
    JobName::new(&format!("job{number}")).expect("a name")
}

impl Model {
    pub(super) fn new(base: Timestamp, namespace: Namespace, nodes: [NodeId; 2]) -> Model {
        Model {
            base,
            namespace,
            nodes,
            gone: BTreeSet::new(),
            sent: Vec::new(),
            tasks: BTreeMap::new(),
            keys: BTreeMap::new(),
            numbers: 0,
        }
    }

    pub(super) fn time(&self, time: Time) -> Timestamp {
        match time {
            Time::Due => self.base,
            Time::Later => self.base.plus(HOUR),
        }
    }

    /// Puts specs into rows: new ones, and old ones sent again; none twice.
    pub(super) fn rows(&mut self, specs: &[Spec]) -> Vec<TaskRow> {
        let mut rows: Vec<TaskRow> = Vec::new();
        for spec in specs {
            let row = match (spec.again, self.sent.len()) {
                (Some(pick), 1..) => self.sent[usize::from(pick) % self.sent.len()].clone(),
                _ => self.row(spec),
            };
            if rows.iter().all(|other| other.id != row.id) {
                rows.push(row);
            }
        }
        rows
    }

    fn row(&mut self, spec: &Spec) -> TaskRow {
        self.numbers += 1;
        let created_at = self.base.minus(Duration::from_secs(60));
        let period = |period| match period {
            Period::None => None,
            Period::Over => Some(Duration::from_secs(1)),
            Period::Long => Some(HOUR),
        };
        let payload = if spec.large {
            "x".repeat(5_000)
        } else {
            "x".to_owned()
        };
        TaskRow {
            namespace: self.namespace.clone(),
            job: job(spec.job),
            payload: Arc::from(format!("\"{}-{payload}\"", self.numbers)),
            priority: priority(spec.level),
            ready_at: self.time(spec.time),
            deadline: match spec.deadline {
                Deadline::None => Timestamp::MAX,
                Deadline::Passed => self.base.minus(Duration::from_secs(1)),
                Deadline::Far => self.base.plus(HOUR),
            },
            key: spec.key.map(|(key, mode, held)| Key {
                text: format!("key{key}"),
                mode,
                period: period(held),
            }),
            tags: (0..spec.tags)
                .map(|tag| format!("tag{tag}-{}", self.numbers % 3))
                .collect(),
            on_lost: if spec.lost_for_good {
                OnLost::Fail
            } else {
                OnLost::Retry
            },
            created_at,
            max_retries: (spec.level > 7).then_some(u32::from(spec.level)),
            ..rows::row(self.base)
        }
    }

    pub(super) fn was_sent(&self, id: TaskId) -> bool {
        self.sent.iter().any(|row| row.id == id)
    }

    fn remember(&mut self, row: &TaskRow) {
        if !self.was_sent(row.id) {
            self.sent.push(row.clone());
        }
    }

    /// The task that a number means; 255 means one that was never there.
    pub(super) fn pick(&self, pick: u8) -> TaskId {
        let all: Vec<TaskId> = self.tasks.keys().copied().collect();
        match all.len() {
            few @ 1.. if pick != 255 => all[usize::from(pick) % few],
            _ => TaskId::from_bytes([pick; 16]),
        }
    }

    pub(super) fn picked(&self, picks: &[u8]) -> Vec<TaskId> {
        picks.iter().map(|pick| self.pick(*pick)).collect()
    }

    fn live(&mut self, id: TaskId) -> Option<&mut Live> {
        self.tasks.get_mut(&id)?.live.as_mut()
    }

    /// Where it stands, live or ended.
    fn stands(&self, id: TaskId) -> Option<State> {
        let task = self.tasks.get(&id)?;
        let ended = || task.ended.last().map(|ended| ended.live.state);
        task.live.as_ref().map(|live| live.state).or_else(ended)
    }

    fn refused(&self, id: TaskId) -> Changed {
        self.stands(id).map_or(Changed::NotFound, Changed::Refused)
    }

    // --- submit

    fn insert(&mut self, row: &TaskRow, claim: Option<(Token, NodeId)>) {
        let started = u32::from(claim.is_some());
        let live = Live {
            row: row.clone(),
            state: if claim.is_some() {
                State::Running
            } else {
                State::Pending
            },
            fence: i64::from(started),
            attempt: started,
            lost: 0,
            round: 0,
            claim,
            mark: None,
            error: None,
        };
        let known = Known {
            live: Some(live),
            ended: Vec::new(),
            attempts: Vec::new(),
            reported: BTreeSet::new(),
            held_by: claim.map(|(token, _)| token).into_iter().collect(),
        };
        self.tasks.insert(row.id, known);
    }

    pub(super) fn submit(&mut self, rows: &[TaskRow]) -> Vec<Placed> {
        // Where rows were sent before, the missing ones are completed, and those wait.
        let again = rows.iter().any(|row| self.was_sent(row.id));
        let mut placed = Vec::new();
        for row in rows {
            self.remember(row);
            let born = row
                .born
                .filter(|born| !again && !self.gone.contains(&born.node));
            let claim = born.map(|born| (born.token, born.node));
            if !self.tasks.contains_key(&row.id) {
                self.insert(row, claim);
            }
            let token = row.born.map(|born| born.token);
            let held = self
                .live(row.id)
                .and_then(|live| live.claim)
                .map(|(token, _)| token);
            placed.push(if held.is_some() && held == token {
                Placed::Claimed
            } else {
                Placed::Pending
            });
        }
        placed
    }

    /// The claims that were just born.
    pub(super) fn born_now(&self, rows: &[TaskRow]) -> Vec<Claimed> {
        let runs = |row: &&TaskRow| {
            let live = self.tasks.get(&row.id).and_then(|task| task.live.as_ref());
            live.is_some_and(|live| {
                live.fence == 1
                    && live.claim.map(|(token, _)| token) == row.born.map(|born| born.token)
            })
        };
        rows.iter().filter(runs).filter_map(Claimed::born).collect()
    }

    pub(super) fn submit_keyed(&mut self, rows: &[TaskRow]) -> Vec<KeyPlaced> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| {
            rows[*at]
                .key
                .as_ref()
                .map(|key| (rows[*at].job.clone(), key.text.clone()))
        });
        let mut placed = vec![KeyPlaced::New; rows.len()];
        for at in order {
            placed[at] = self.place(&rows[at]);
        }
        placed
    }

    fn place(&mut self, row: &TaskRow) -> KeyPlaced {
        self.remember(row);
        if self.tasks.contains_key(&row.id) {
            return KeyPlaced::New;
        }
        let Some(key) = &row.key else {
            self.insert(row, None);
            return KeyPlaced::New;
        };
        let name = (row.job.to_string(), key.text.clone());
        let Some(holder) = self.keys.get(&name).map(|hold| hold.task) else {
            self.keys.insert(
                name,
                Hold {
                    task: row.id,
                    kept: key.period == Some(HOUR),
                },
            );
            self.insert(row, None);
            return KeyPlaced::New;
        };
        match (key.mode, self.live(holder)) {
            (KeyMode::Reject, _) => KeyPlaced::Rejected(holder),
            (KeyMode::Replace, Some(live)) if live.state == State::Pending => {
                let old = live.row.clone();
                live.row = TaskRow {
                    id: holder,
                    key: old.key,
                    shard: old.shard,
                    created_at: old.created_at,
                    ..row.clone()
                };
                KeyPlaced::Replaced(holder)
            }
            _ => KeyPlaced::Existing(holder),
        }
    }

    // --- claim and settle

    fn claimable(&self, id: TaskId) -> bool {
        let live = self.tasks.get(&id).and_then(|task| task.live.as_ref());
        live.is_some_and(|live| {
            live.state == State::Pending
                && live.row.ready_at <= self.base
                && live.row.deadline > self.base
        })
    }

    pub(super) fn would_reuse(&self, id: TaskId, token: Token) -> bool {
        self.claimable(id)
            && self
                .tasks
                .get(&id)
                .is_some_and(|task| task.held_by.contains(&token))
    }

    pub(super) fn claim(&mut self, node: NodeId, token: Token, ids: &[TaskId]) -> BTreeSet<String> {
        let mut claimed = 0;
        for id in ids {
            if self.gone.contains(&node) || !self.claimable(*id) {
                continue;
            }
            claimed += 1;
            if let Some(live) = self.live(*id) {
                live.state = State::Running;
                live.fence += 1;
                live.attempt += 1;
                live.claim = Some((token, node));
            }
            if let Some(task) = self.tasks.get_mut(id) {
                task.held_by.insert(token);
            }
        }
        if claimed == 0 {
            BTreeSet::new()
        } else {
            self.held(ids, token)
        }
    }

    pub(super) fn held(&self, ids: &[TaskId], token: Token) -> BTreeSet<String> {
        let live = ids
            .iter()
            .filter_map(|id| self.tasks.get(id)?.live.as_ref());
        live.filter(|live| live.claim.is_some_and(|(held, _)| held == token))
            .map(Live::claim_text)
            .collect()
    }

    pub(super) fn end(&mut self, ends: Ends) -> End {
        self.numbers += 1;
        let text: Arc<str> = Arc::from(format!("\"end {}\"", self.numbers));
        match ends {
            Ends::Succeeded => End::Succeeded { result: text },
            Ends::Failed => End::Failed { error: text },
            Ends::Canceled => End::Canceled { error: None },
            Ends::CanceledSaying => End::Canceled { error: Some(text) },
            Ends::Retry(at) => End::Retry {
                ready_at: self.time(at),
                error: text,
                reason: AttemptEnd::Retried,
            },
            Ends::TimedOut => End::Retry {
                ready_at: self.base,
                error: text,
                reason: AttemptEnd::TimedOut,
            },
            Ends::Snooze(at) => End::Snooze {
                ready_at: self.time(at),
            },
            Ends::Wait => End::Wait {
                ready_at: Timestamp::MAX,
            },
            Ends::Release => End::Release { reason: text },
        }
    }

    pub(super) fn settle(&mut self, settlement: &Settlement) -> Settled {
        let (claimed, end) = (&*settlement.claimed, &settlement.end);
        let held = self
            .live(claimed.id)
            .filter(|live| live.claim.is_some_and(|(token, _)| token == claimed.token));
        let Some(live) = held else {
            return self.already(claimed);
        };
        let event = match end {
            End::Succeeded { .. } => Event::Succeed,
            End::Failed { .. } => Event::Fail,
            End::Canceled { .. } => Event::Withdraw,
            End::Retry { .. } => Event::Retry,
            End::Snooze { .. } => Event::Snooze,
            End::Wait { .. } => Event::Wait,
            End::Release { .. } => Event::Release,
        };
        let state = next(live.status(), event)
            .expect("every end ends a running task")
            .state;
        if state.is_final() {
            let said = match end {
                End::Failed { error } | End::Retry { error, .. } => Some(Arc::clone(error)),
                End::Canceled { error } => error.clone(),
                _ => None,
            };
            let last = live.error.clone().filter(|_| state != State::Succeeded);
            live.error = said.or(last);
            // What was set while it ran is not in the worker's memory of it.
            live.row.priority = claimed.priority;
            let result = match end {
                End::Succeeded { result } if state == State::Succeeded => Some(Arc::clone(result)),
                _ => None,
            };
            self.finish(claimed.id, state, result, Some(claimed.token));
            return Settled::Recorded(state);
        }
        self.give_back(claimed, end);
        Settled::Recorded(state)
    }

    fn already(&self, claimed: &Claimed) -> Settled {
        let Some(task) = self.tasks.get(&claimed.id) else {
            return Settled::Stale;
        };
        let reported = task
            .ended
            .iter()
            .find(|ended| ended.reporter == Some(claimed.token));
        match reported {
            Some(ended) => Settled::AlreadyDone(ended.live.state),
            None if task.reported.contains(&(claimed.fence, claimed.token)) => {
                Settled::AlreadyDone(State::Pending)
            }
            None => Settled::Stale,
        }
    }

    fn give_back(&mut self, claimed: &Claimed, end: &End) {
        let base = self.base;
        let Some(task) = self.tasks.get_mut(&claimed.id) else {
            return;
        };
        let Some(live) = &mut task.live else { return };
        let (reason, ready_at, error) = match end {
            End::Retry {
                ready_at,
                error,
                reason,
            } => {
                live.error = Some(Arc::clone(error));
                (*reason, *ready_at, Some(error))
            }
            End::Snooze { ready_at } => (AttemptEnd::Snoozed, *ready_at, None),
            End::Wait { ready_at } => (AttemptEnd::Waited, *ready_at, None),
            End::Release { reason } => (AttemptEnd::Released, base, Some(reason)),
            _ => return,
        };
        task.attempts
            .push(live.attempt_text(reason, error.map(|error| &**error)));
        task.reported.insert((live.fence, claimed.token));
        live.row.ready_at = ready_at;
        if !matches!(end, End::Retry { .. }) {
            live.attempt -= 1;
        }
        (live.state, live.claim) = (State::Pending, None);
    }

    /// Moves the live row to the ended rounds, and lets its key go.
    fn finish(
        &mut self,
        id: TaskId,
        state: State,
        result: Option<Arc<str>>,
        reporter: Option<Token>,
    ) {
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        let Some(mut live) = task.live.take() else {
            return;
        };
        live.state = state;
        if let Some(key) = &live.row.key {
            let name = (live.row.job.to_string(), key.text.clone());
            if self
                .keys
                .get(&name)
                .is_some_and(|hold| hold.task == id && !hold.kept)
            {
                self.keys.remove(&name);
            }
        }
        task.ended.push(Ended {
            live,
            result,
            reporter,
            dead: state == State::Failed,
        });
    }

    pub(super) fn watch(&self, running: &[(TaskId, Token)]) -> Vec<(TaskId, Watched)> {
        let news = |(id, token): &(TaskId, Token)| {
            let live = self.tasks.get(id).and_then(|task| task.live.as_ref());
            match live.filter(|live| live.claim.is_some_and(|(held, _)| held == *token)) {
                None => Some((*id, Watched::Stale)),
                Some(live) => live
                    .mark
                    .clone()
                    .map(|reason| (*id, Watched::CancelRequested { reason })),
            }
        };
        running.iter().filter_map(news).collect()
    }

    // --- dead nodes

    pub(super) fn bury(&mut self, node: usize, successor: NodeId) {
        self.gone.insert(self.nodes[node]);
        self.nodes[node] = successor;
    }

    pub(super) fn orphans(&self) -> BTreeSet<TaskId> {
        let orphan = |task: &Known| {
            let claim = task.live.as_ref().and_then(|live| live.claim);
            claim.is_some_and(|(_, node)| self.gone.contains(&node))
        };
        self.tasks
            .iter()
            .filter(|(_, task)| orphan(task))
            .map(|(id, _)| *id)
            .collect()
    }

    pub(super) fn lose(&mut self, claimed: &Claimed, limit: u32) -> Settled {
        let (gone, base) = (self.gone.contains(&claimed.node), self.base);
        let Some(task) = self.tasks.get_mut(&claimed.id) else {
            return Settled::Stale;
        };
        let Some(live) = &mut task.live else {
            return Settled::Stale;
        };
        if !gone || live.claim != Some((claimed.token, claimed.node)) {
            return Settled::Stale;
        }
        let for_good = live.row.on_lost == OnLost::Fail || live.lost + 1 >= limit;
        let event = if for_good {
            Event::LoseForGood
        } else {
            Event::Lose
        };
        let state = next(live.status(), event)
            .expect("a running task can be lost")
            .state;
        let text: Arc<str> = Arc::from(format!(
            "worker lost: node {} stopped answering",
            claimed.node
        ));
        live.lost += 1;
        live.error = Some(Arc::clone(&text));
        if state.is_final() {
            self.finish(claimed.id, state, None, None);
        } else {
            task.attempts
                .push(live.attempt_text(AttemptEnd::Lost, Some(&text)));
            live.row.ready_at = base;
            (live.state, live.claim) = (State::Pending, None);
        }
        Settled::Recorded(state)
    }

    // --- operators

    pub(super) fn cancel(&mut self, id: TaskId, reason: Option<&str>) -> CancelResult {
        let Some(live) = self.live(id) else {
            return self
                .stands(id)
                .map_or(CancelResult::NotFound, CancelResult::AlreadyFinal);
        };
        live.mark = live.mark.take().or_else(|| Some(reason.map(Arc::from)));
        if live.state == State::Running {
            return CancelResult::Requested;
        }
        self.finish(id, State::Canceled, None, None);
        CancelResult::Canceled
    }

    pub(super) fn reschedule(&mut self, id: TaskId, at: Timestamp) -> Changed {
        match self.live(id) {
            Some(live) if live.state == State::Pending => {
                live.row.ready_at = at;
                Changed::Yes
            }
            _ => self.refused(id),
        }
    }

    pub(super) fn set_priority(&mut self, id: TaskId, priority: Priority) -> Changed {
        match self.live(id) {
            Some(live) => {
                live.row.priority = priority;
                Changed::Yes
            }
            None => self.refused(id),
        }
    }

    pub(super) fn rerun(
        &mut self,
        id: TaskId,
        at: Timestamp,
        shard: i64,
    ) -> Result<Changed, ErrorKind> {
        let Some(task) = self.tasks.get_mut(&id).filter(|task| task.live.is_none()) else {
            return Ok(self.refused(id));
        };
        let Some(last) = task.ended.last() else {
            return Ok(Changed::NotFound);
        };
        let mut live = last.live.clone();
        if let Some(key) = &live.row.key {
            let name = (live.row.job.to_string(), key.text.clone());
            let hold = self.keys.entry(name).or_insert(Hold {
                task: id,
                kept: false,
            });
            if hold.task != id {
                return Err(ErrorKind::Conflict);
            }
        }
        live.row = TaskRow {
            ready_at: at,
            shard,
            deadline: Timestamp::MAX,
            ..live.row
        };
        (live.state, live.claim, live.mark, live.error) = (State::Pending, None, None, None);
        (live.attempt, live.lost) = (0, 0);
        live.round += 1;
        task.ended.iter_mut().for_each(|ended| ended.dead = false);
        task.live = Some(live);
        Ok(Changed::Yes)
    }

    pub(super) fn expire(&mut self, ids: &[TaskId]) -> Vec<TaskId> {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        let base = self.base;
        sorted.retain(|id| {
            let live = self.live(*id);
            let over =
                live.is_some_and(|live| live.state == State::Pending && live.row.deadline <= base);
            if over {
                self.finish(*id, State::Expired, None, None);
            }
            over
        });
        sorted
    }

    pub(super) fn move_shard(&mut self, ids: &[TaskId], from: i64, to: i64) -> u64 {
        let mut moved = 0;
        for id in ids.iter().collect::<BTreeSet<_>>() {
            if let Some(live) = self
                .live(*id)
                .filter(|live| live.state == State::Pending && live.row.shard == from)
            {
                live.row.shard = to;
                moved += 1;
            }
        }
        moved
    }

    // --- what is left behind

    pub(super) fn all_seen(&self) -> Vec<String> {
        let mut all: Vec<String> = self.tasks.values().flat_map(Known::seen).collect();
        all.sort();
        all
    }

    pub(super) fn outcomes(&self) -> Vec<String> {
        let of = |(id, task): (&TaskId, &Known)| -> Vec<String> {
            let text = |ended: &Ended| {
                let Ended { live, result, .. } = ended;
                format!(
                    "{id} round {} {} {result:?} {:?}",
                    live.round, live.state, live.error
                )
            };
            task.ended.iter().map(text).collect()
        };
        self.tasks.iter().flat_map(of).collect()
    }

    /// Keys that are held by a task that lives, not kept for their period.
    pub(super) fn held_alive(&self) -> usize {
        let lives = |hold: &&Hold| {
            self.tasks
                .get(&hold.task)
                .is_some_and(|task| task.live.is_some())
        };
        self.keys.values().filter(lives).count()
    }

    pub(super) fn unresolved(&self) -> usize {
        let ended = self.tasks.values().flat_map(|task| &task.ended);
        ended.filter(|ended| ended.dead).count()
    }
}

impl Known {
    pub(super) fn never_ran(&self) -> bool {
        self.held_by.is_empty()
    }

    fn seen(&self) -> Vec<String> {
        let ended = self
            .ended
            .iter()
            .map(|ended| ended.live.seen(ended.result.as_ref()));
        ended
            .chain(self.live.iter().map(|live| live.seen(None)))
            .collect()
    }

    pub(super) fn latest_seen(&self) -> String {
        self.seen().pop().unwrap_or_default()
    }
}

impl Live {
    fn status(&self) -> Status {
        if self.mark.is_some() {
            Status::CANCELING
        } else {
            Status::unmarked(self.state)
        }
    }

    fn key(&self) -> Option<&str> {
        self.row.key.as_ref().map(|key| &*key.text)
    }

    fn claim_text(&self) -> String {
        let row = &self.row;
        let parts = (
            row.id,
            &*row.payload,
            row.priority,
            row.shard,
            self.key(),
            &row.tags,
        );
        let numbers = (
            self.attempt,
            self.lost,
            self.fence,
            self.round,
            row.max_retries,
            row.on_lost,
        );
        format!("{parts:?} {numbers:?} {:?} {:?}", self.claim, self.error)
    }

    fn attempt_text(&self, reason: AttemptEnd, error: Option<&str>) -> String {
        let numbers = (self.fence, self.round, self.attempt);
        format!(
            "{} {numbers:?} {:?} {reason:?} {error:?}",
            self.row.id, self.claim
        )
    }

    fn seen(&self, result: Option<&Arc<str>>) -> String {
        let row = &self.row;
        let later = if row.ready_at == Timestamp::MAX {
            "never"
        } else {
            "later"
        };
        let time = if row.ready_at <= row.created_at.plus(Duration::from_secs(60)) {
            "due"
        } else {
            later
        };
        let numbers = (self.round, self.fence, self.attempt, self.lost);
        let what = (self.key(), &row.tags, &*row.payload, row.priority, time);
        let deadline = (row.deadline != Timestamp::MAX).then_some(row.deadline);
        let end = (
            self.mark.is_some(),
            self.claim.map(|(_, node)| node),
            self.error.as_deref(),
            result.map(|text| &**text),
        );
        format!(
            "{} {} {} {numbers:?} {what:?} {deadline:?} {end:?}",
            row.id, row.job, self.state
        )
    }
}

/// A claim as the store gave it out.
pub(super) fn claimed_text(claimed: &Claimed) -> String {
    let parts = (
        claimed.id,
        &*claimed.payload,
        claimed.priority,
        claimed.shard,
        claimed.key.as_deref(),
        claimed.tag_list(),
    );
    let numbers = (
        claimed.attempt,
        claimed.lost,
        claimed.fence,
        claimed.round,
        claimed.max_retries,
        claimed.on_lost,
    );
    format!(
        "{parts:?} {numbers:?} {:?} {:?}",
        Some((claimed.token, claimed.node)),
        claimed.error
    )
}

/// An attempt as the store lists it.
pub(super) fn attempt_text(attempt: &Execution) -> String {
    let numbers = (attempt.fence, attempt.round, attempt.attempt);
    let claim = Some((attempt.token, attempt.node));
    format!(
        "{} {numbers:?} {claim:?} {:?} {:?}",
        attempt.task,
        attempt.reason,
        attempt.error.as_deref()
    )
}

/// An ended round as the store tells it to those who wait for it.
pub(super) fn outcome_text(row: &OutcomeRow) -> String {
    format!(
        "{} round {} {} {:?} {:?}",
        row.id, row.round, row.state, row.result, row.error
    )
}

/// A task as the store lists it.
pub(super) fn seen(task: &Task, base: Timestamp) -> String {
    let later = if task.ready_at == Timestamp::MAX {
        "never"
    } else {
        "later"
    };
    let time = if task.ready_at < base.plus(HOUR) {
        "due"
    } else {
        later
    };
    let numbers = (i64::from(task.round), task.fence, task.attempt, task.lost);
    let what = (
        task.key.as_deref(),
        &task.tags,
        &*task.payload,
        task.priority,
        time,
    );
    let marked = task.cancel_requested_at.is_some();
    let end = (
        marked,
        task.node,
        task.error.as_deref(),
        task.result.as_deref(),
    );
    format!(
        "{} {} {} {numbers:?} {what:?} {:?} {end:?}",
        task.id, task.job, task.state, task.deadline
    )
}
