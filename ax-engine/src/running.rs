//! The attempts this node holds, from their claim until their outcome is written, and the signals that reach them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use ax_core::{TaskId, Token};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::job::JobKind;
use crate::store::Claimed;

/// Why a handler is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It ran longer than it may.
    Timeout,
    /// An operator canceled the task.
    Cancel,
    /// Its claim is no longer its own: another node has the task.
    Stale,
    /// This node could not renew its lease.
    LeaseLost,
    /// This node shuts down.
    Shutdown,
}

/// One claimed task on its way through this node.
pub struct Attempt {
    /// The row as it was claimed.
    pub claimed: Arc<Claimed>,
    /// The slots it uses.
    pub kind: JobKind,
    token: CancellationToken,
    abandon: CancellationToken,
    why: Mutex<Option<Signal>>,
}

impl Attempt {
    /// An attempt that has not been signaled.
    pub fn new(claimed: Arc<Claimed>, kind: JobKind) -> Attempt {
        Attempt {
            claimed,
            kind,
            token: CancellationToken::new(),
            abandon: CancellationToken::new(),
            why: Mutex::new(None),
        }
    }

    /// The token that the handler watches.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.token
    }

    /// Asks the handler to end. The first reason stays, unless the claim turns out to be stale.
    pub fn signal(&self, why: Signal) {
        let mut reason = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if reason.is_none() || why == Signal::Stale {
            *reason = Some(why);
        }
        drop(reason);
        self.token.cancel();
    }

    /// Ends the wait for the handler: it is dropped, or abandoned when it blocks, and the task is handed back.
    pub fn abandon(&self) {
        self.abandon.cancel();
    }

    /// Completes once the handler is no longer waited for.
    pub async fn abandoned(&self) {
        self.abandon.cancelled().await;
    }

    /// Why it was asked to end, if it was.
    pub fn why(&self) -> Option<Signal> {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module. Keyed by claim, because a node may hold a stale attempt of a task that it claimed again.
#[derive(Default)]
pub struct Running {
    attempts: Mutex<HashMap<(TaskId, Token), Arc<Attempt>>>,
    claiming: Mutex<HashSet<Token>>,
    quieted: Notify,
}

impl Running {
    /// A claim with this token is under way: rows that carry it are not strays.
    pub fn claim_begins(&self, token: Token) {
        self.claiming
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token);
    }

    /// The claim is answered and its rows are held, or nobody knows what became of it.
    pub fn claim_ends(&self, token: Token) {
        self.claiming
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&token);
        self.tell_if_quiet();
    }

    /// Whether a row that the database shows as running here is known here. Ask only after the row was read.
    pub fn knows(&self, id: TaskId, token: Token) -> bool {
        let claiming = self
            .claiming
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&token);
        claiming || self.with(|all| all.contains_key(&(id, token)))
    }

    /// Takes a claimed attempt.
    pub fn add(&self, attempt: Arc<Attempt>) {
        self.with(|all| all.insert(key(&attempt), attempt));
    }

    /// Its outcome is written, or known to count no more.
    pub fn remove(&self, attempt: &Attempt) {
        self.with(|all| all.remove(&key(attempt)));
        self.tell_if_quiet();
    }

    /// Waits until nothing is held and no claim is under way.
    pub async fn quiet(&self) {
        loop {
            // Armed before the look, so that an end in between is not missed.
            let mut quieted = std::pin::pin!(self.quieted.notified());
            quieted.as_mut().enable();
            if self.is_quiet() {
                return;
            }
            quieted.await;
        }
    }

    fn is_quiet(&self) -> bool {
        self.is_empty()
            && self
                .claiming
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_empty()
    }

    fn tell_if_quiet(&self) {
        if self.is_quiet() {
            self.quieted.notify_waiters();
        }
    }

    /// Signals one attempt.
    pub fn signal(&self, id: TaskId, token: Token, why: Signal) {
        if let Some(attempt) = self.with(|all| all.get(&(id, token)).cloned()) {
            attempt.signal(why);
        }
    }

    /// Signals the attempt of a task that runs here, whichever claim it is.
    pub fn signal_task(&self, id: TaskId, why: Signal) {
        for attempt in self.all().iter().filter(|a| a.claimed.id == id) {
            attempt.signal(why);
        }
    }

    /// Signals every attempt.
    pub fn signal_all(&self, why: Signal) {
        for attempt in self.all() {
            attempt.signal(why);
        }
    }

    /// Waits no longer for any handler.
    pub fn abandon_all(&self) {
        for attempt in self.all() {
            attempt.abandon();
        }
    }

    /// The claims held here.
    pub fn held(&self) -> Vec<(TaskId, Token)> {
        let mut held: Vec<_> = self.with(|all| all.keys().copied().collect());
        held.sort_unstable();
        held
    }

    /// How many claims are held here.
    pub fn len(&self) -> usize {
        self.with(|all| all.len())
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every attempt, in the order of ids so that a simulated run repeats itself.
    fn all(&self) -> Vec<Arc<Attempt>> {
        let mut all: Vec<_> = self.with(|all| all.values().cloned().collect());
        all.sort_unstable_by_key(|a| key(a));
        all
    }

    fn with<T>(&self, f: impl FnOnce(&mut HashMap<(TaskId, Token), Arc<Attempt>>) -> T) -> T {
        f(&mut self.attempts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn key(attempt: &Attempt) -> (TaskId, Token) {
    (attempt.claimed.id, attempt.claimed.token)
}
