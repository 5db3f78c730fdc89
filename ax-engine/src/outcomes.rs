//! Who waits for which outcome.
//!
//! An outcome written by this node wakes its waiters at once. For the others a loop asks the history in batches: at once
//! for who has just come, since what is waited for may have ended before, and then again and again for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ax_core::{Error, ErrorKind, Outcome, State, TaskId};
use tokio::sync::{Notify, oneshot};

use crate::node::Node;
use crate::service::Stop;
use crate::store::End;

/// An outcome with the result as JSON text.
pub type RawOutcome = Outcome<Arc<str>>;

/// One round of one task: what an outcome belongs to.
pub type Round = (TaskId, i64);

/// How often the history is asked about outcomes of other nodes.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// The most tasks asked about in one statement.
const ASK_BATCH: usize = 256;

/// See the module.
#[derive(Default)]
pub struct Outcomes {
    waiters: Mutex<HashMap<Round, Vec<oneshot::Sender<RawOutcome>>>>,
    fresh: Mutex<Vec<Round>>,
    arrived: Notify,
}

impl Outcomes {
    /// Waits for the outcome of a round.
    ///
    /// # Errors
    /// `Stopped` when the engine shuts down first.
    pub async fn wait(&self, round: Round) -> Result<RawOutcome, Error> {
        let (tell, told) = oneshot::channel();
        self.with(|w| w.entry(round).or_default().push(tell));
        self.fresh().push(round);
        self.arrived.notify_one();
        told.await.map_err(|_| {
            Error::new(
                ErrorKind::Stopped,
                "wait for the outcome: this engine was shut down; ask again from a running one",
            )
        })
    }

    /// An outcome was written.
    pub fn publish(&self, round: Round, outcome: impl FnOnce() -> RawOutcome) {
        let Some(waiters) = self.with(|w| w.remove(&round)) else {
            return;
        };
        let outcome = outcome();
        for waiter in waiters {
            // A waiter that went away no longer wants to know.
            let _gone = waiter.send(outcome.clone());
        }
    }

    /// Lets every waiter go.
    pub fn close(&self) {
        self.with(HashMap::clear);
    }

    fn somebody_waits(&self) -> bool {
        self.with(|w| !w.is_empty())
    }

    fn awaited(&self) -> Vec<Round> {
        self.with(|w| {
            w.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.is_closed());
                !waiters.is_empty()
            });
            let mut rounds: Vec<Round> = w.keys().copied().collect();
            rounds.sort_unstable();
            rounds
        })
    }

    fn fresh(&self) -> MutexGuard<'_, Vec<Round>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        f: impl FnOnce(&mut HashMap<Round, Vec<oneshot::Sender<RawOutcome>>>) -> T,
    ) -> T {
        f(&mut self.waiters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Asks the history about outcomes that other nodes write, or that were written before anybody waited.
pub async fn run(node: Arc<Node>, stop: Stop) {
    let outcomes = &node.outcomes;
    let clock = &node.world.clock;
    let mut ask_all_at = clock.micros();
    while !stop.is_cancelled() {
        let left = u64::try_from(ask_all_at - clock.micros()).unwrap_or(0);
        let awaited = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = outcomes.arrived.notified() => std::mem::take(&mut *outcomes.fresh()),
            () = clock.sleep(Duration::from_micros(left)), if outcomes.somebody_waits() => {
                ask_all_at = clock.micros() + ASK_EVERY.as_micros() as i64;
                outcomes.awaited()
            }
        };
        for batch in awaited.chunks(ASK_BATCH) {
            ask(&node, batch).await;
        }
    }
}

async fn ask(node: &Node, batch: &[Round]) {
    let ids: Vec<TaskId> = batch.iter().map(|(id, _)| *id).collect();
    match node.store.outcomes(&ids).await {
        Ok(known) => {
            for row in known {
                node.outcomes.publish((row.id, row.round), || {
                    raw_outcome(row.state, row.result, row.error)
                });
            }
        }
        Err(error) => tracing::debug!(%error, "outcomes are asked for again soon"),
    }
}

/// The outcome that a final state with its texts stands for.
pub fn raw_outcome(state: State, result: Option<Arc<str>>, error: Option<Arc<str>>) -> RawOutcome {
    match state {
        State::Succeeded => Outcome::Succeeded(result.unwrap_or_else(|| Arc::from("null"))),
        State::Canceled => Outcome::Canceled,
        State::Expired => Outcome::Expired,
        State::Skipped => Outcome::Skipped,
        State::UpstreamFailed => Outcome::UpstreamFailed,
        _ => Outcome::Failed {
            error: error.map_or_else(String::new, |e| e.to_string()),
        },
    }
}

/// The outcome that was written for `end`, given the state the row ended in.
pub fn written_outcome(state: State, end: &End) -> RawOutcome {
    match end {
        End::Succeeded { result } => raw_outcome(state, Some(result.clone()), None),
        End::Failed { error } => raw_outcome(state, None, Some(error.clone())),
        _ => raw_outcome(state, None, None),
    }
}
