//! Who waits for which outcome.
//!
//! An outcome written by this node wakes its waiters at once; for the others a loop asks the history in batches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
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

    fn with<T>(
        &self,
        f: impl FnOnce(&mut HashMap<Round, Vec<oneshot::Sender<RawOutcome>>>) -> T,
    ) -> T {
        f(&mut self.waiters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Asks the history about outcomes that other nodes write.
pub async fn run(node: Arc<Node>, stop: Stop) {
    let outcomes = &node.outcomes;
    while !stop.is_cancelled() {
        let awaited = outcomes.awaited();
        let pause = async {
            if awaited.is_empty() {
                outcomes.arrived.notified().await;
            } else {
                node.world.clock.sleep(ASK_EVERY).await;
            }
        };
        for batch in awaited.chunks(ASK_BATCH) {
            ask(&node, batch).await;
        }
        tokio::select! { biased; () = stop.cancelled() => {}, () = pause => {} }
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
