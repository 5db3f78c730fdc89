//! The ledger outside ax: what was asked, what ran, what was written; and the rules that hold at every step.
//!
//! Enters: every commit of the database, every start and end of a handler, every answer to a caller. Leaves: the first
//! [`Violation`], which ends the world. It believes nothing that ax says about itself.

mod answers;
mod claims;
mod finale;
mod handlers;
mod membership;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::check::{Check, Violation};
use super::executor::{Executor, Process};
use super::network::Excuses;
use super::server::Witness;
use super::tables::{Tables, Write};
use super::trace::Trace;

pub(crate) use answers::{Asked, FIRST_PROBE};
pub(crate) use finale::Finale;

/// The bytes of an id.
pub(crate) type Id = [u8; 16];

/// Namespace, job and key.
type KeyName = (Arc<str>, Arc<str>, Arc<str>);

/// See the module.
pub(crate) struct Book {
    pub(crate) executor: Executor,
    pub(crate) trace: Arc<Trace>,
    /// How long a lease lasts, in microseconds.
    lease: i64,
    pages: Mutex<Pages>,
}

/// What the book knows.
#[derive(Default)]
pub(crate) struct Pages {
    violation: Option<Violation>,
    tasks: BTreeMap<Id, Story>,
    keys: BTreeMap<KeyName, Id>,
    /// Until when a key was promised to a task.
    periods: BTreeMap<KeyName, (Id, i64)>,
    ticks: BTreeMap<(Arc<str>, Arc<str>, i64), Id>,
    /// The first tick of each schedule.
    first_ticks: BTreeMap<Arc<str>, i64>,
    nodes: BTreeMap<Id, Process>,
    /// The node that a process joined as last.
    joined: BTreeMap<Process, Id>,
    processes: BTreeMap<Process, Health>,
    /// Until when each node has had its lease at most, by the database's clock, which may jump back.
    leases: BTreeMap<Id, i64>,
    /// Nodes that are alive or leaving.
    present: BTreeSet<Id>,
    asked: BTreeMap<i64, Asked>,
    /// The latest instant that the database's clock has shown.
    latest: i64,
    /// Set once all is well: from then on what becomes due must be claimed soon.
    well_since: Option<i64>,
}

/// What is known of a task.
#[derive(Default)]
pub(crate) struct Story {
    /// The claims by fence.
    claims: BTreeMap<i64, (Id, Id)>,
    /// The highest fence so far.
    fence: i64,
    /// Which handlers started, by fence.
    starts: BTreeMap<i64, Process>,
    /// How handlers ended, by fence.
    ends: BTreeMap<i64, &'static str>,
    /// Fences whose end is recorded.
    explained: BTreeSet<i64>,
    /// Fences that were recorded as lost.
    lost: BTreeSet<i64>,
    /// Whether another submit replaced its contents.
    replaced: bool,
    /// Retries that were spent, by round.
    retried: BTreeMap<i64, i64>,
    /// Outcomes by round.
    outcomes: BTreeMap<i64, i64>,
    /// Rounds that must end as canceled.
    to_cancel: BTreeSet<i64>,
    /// Whether it must not start again after a loss.
    at_most_once: bool,
    /// Whether its row is live.
    live: bool,
    /// The round of the live row.
    round: i64,
    /// Since when it waits, by the database's clock.
    waits_since: i64,
    /// Whether a claim of it must come on time, once all is well.
    probe: bool,
}

/// How a process is.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    /// Its engine has started.
    steady: bool,
    leaving: bool,
    dead: bool,
    frozen: bool,
    /// Until when its heartbeats may be late, in microseconds of the world.
    excused_until: i64,
}

impl Book {
    pub(crate) fn new(executor: Executor, trace: Arc<Trace>, lease_ms: i64) -> Arc<Book> {
        Arc::new(Book {
            executor,
            trace,
            lease: lease_ms * 1_000,
            pages: Mutex::default(),
        })
    }

    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first rule that was broken.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.pages().violation.clone()
    }

    /// How many tasks there were, and how many handlers started.
    pub(crate) fn count(&self) -> (usize, usize) {
        let pages = self.pages();
        (
            pages.tasks.len(),
            pages.tasks.values().map(|story| story.starts.len()).sum(),
        )
    }

    /// Takes down that a rule is broken and ends the world.
    pub(super) fn broken(&self, pages: &mut Pages, check: Check, text: String) {
        if pages.violation.is_none() {
            pages.violation = Some(Violation {
                check,
                text,
                micros: self.executor.micros(),
            });
            self.executor.halt();
        }
    }

    /// Takes down that a rule is broken unless it holds.
    pub(super) fn must(
        &self,
        pages: &mut Pages,
        check: Check,
        holds: bool,
        text: impl FnOnce() -> String,
    ) {
        if !holds {
            let text = text();
            self.broken(pages, check, text);
        }
    }
}

impl Witness for Book {
    fn committed(&self, _tables: &Tables, process: Process, writes: &[Write], now: i64) {
        let mut pages = self.pages();
        pages.latest = pages.latest.max(now);
        self.see_writes(&mut pages, process, writes, now);
    }
}

impl Excuses for Book {
    fn beat_troubled(&self, process: Process) {
        self.excuse(process);
    }
}
