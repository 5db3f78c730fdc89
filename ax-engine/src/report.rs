//! From ended attempts to written outcomes.
//!
//! Enters: finished attempts. Leaves: what the database recorded, told to those who wait and to the trigger. While one
//! settle is under way the next ones gather: batches form by themselves and there is no timer. An outcome that cannot
//! be written is tried until the database takes it or says that it is stale; the handler is not run again for that.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{State, Timestamp};
use tokio::sync::{Mutex, mpsc};

use crate::node::{Node, count};
use crate::outcomes::written_outcome;
use crate::running::{Attempt, Running, Signal};
use crate::service::Stop;
use crate::slots::Slots;
use crate::store::{End, Settled, Settlement};
use crate::trigger::TriggerHandle;

/// An attempt that ended, with what is to be written.
pub struct Finished {
    /// The attempt.
    pub attempt: Arc<Attempt>,
    /// What to write.
    pub end: End,
    /// When its handler started; nothing when it never did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// The way into this room.
#[derive(Clone)]
pub struct ReportHandle(mpsc::UnboundedSender<Finished>);

/// The queue of finished attempts; its length is bounded by the credit.
pub struct ReportQueue(Mutex<mpsc::UnboundedReceiver<Finished>>);

/// A way in and the queue behind it.
pub fn channel() -> (ReportHandle, ReportQueue) {
    let (tx, rx) = mpsc::unbounded_channel();
    (ReportHandle(tx), ReportQueue(Mutex::new(rx)))
}

impl ReportHandle {
    /// Sends an ended attempt to be written.
    pub fn send(&self, finished: Finished) {
        // The queue outlives every attempt: it ends with the engine itself.
        let _ended = self.0.send(finished);
    }
}

/// What the room works with.
pub struct Reporter {
    /// The engine.
    pub node: Arc<Node>,
    /// Where finished attempts come from.
    pub queue: ReportQueue,
    /// Credit to give back.
    pub slots: Arc<Slots>,
    /// Attempts to forget.
    pub running: Arc<Running>,
    /// Who takes retries.
    pub trigger: TriggerHandle,
}

/// First and longest pause between two tries to write the same batch.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Writes outcomes until told to stop; the queue is empty by then, because a shutdown waits for idleness first.
pub async fn run(reporter: Arc<Reporter>, stop: Stop) {
    loop {
        let mut batch = Vec::new();
        let received = async {
            let mut queue = reporter.queue.0.lock().await;
            queue
                .recv_many(&mut batch, reporter.node.config.batch)
                .await
        };
        let n = tokio::select! { biased; n = received => n, () = stop.cancelled() => return };
        if n == 0 {
            return;
        }
        for round in apart(batch) {
            settle(&reporter, round, &stop).await;
        }
    }
}

/// Never two outcomes of one task in a batch: a stale attempt and its successor go apart.
fn apart(batch: Vec<Finished>) -> Vec<Vec<Finished>> {
    let mut rounds: Vec<(HashSet<ax_core::TaskId>, Vec<Finished>)> = Vec::with_capacity(1);
    for finished in batch {
        let id = finished.attempt.claimed.id;
        let place = rounds
            .iter()
            .position(|(seen, _)| !seen.contains(&id))
            .unwrap_or(rounds.len());
        if place == rounds.len() {
            rounds.push((HashSet::new(), Vec::new()));
        }
        rounds[place].0.insert(id);
        rounds[place].1.push(finished);
    }
    rounds.into_iter().map(|(_, finished)| finished).collect()
}

async fn settle(reporter: &Reporter, batch: Vec<Finished>, stop: &Stop) {
    let settlements: Vec<Settlement> = batch.iter().map(settlement).collect();
    let mut pause = PAUSES.0;
    let settled = loop {
        match reporter.node.store.settle(&settlements).await {
            Ok(settled) => break settled,
            Err(error) if stop.is_cancelled() => {
                tracing::warn!(%error, n = batch.len(), "outcomes were not written before the end; their tasks run again");
                return;
            }
            Err(error) => tracing::warn!(%error, n = batch.len(), "outcomes wait for the database"),
        }
        reporter.node.world.clock.sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    };
    for (finished, settled) in batch.into_iter().zip(settled) {
        conclude(reporter, &finished, settled);
    }
}

fn settlement(finished: &Finished) -> Settlement {
    Settlement {
        claimed: finished.attempt.claimed.clone(),
        end: finished.end.clone(),
        started_at: finished.started_at,
        finished_at: finished.finished_at,
    }
}

fn conclude(reporter: &Reporter, finished: &Finished, settled: Settled) {
    let attempt = &finished.attempt;
    reporter.running.remove(attempt);
    reporter.slots.settled(attempt.kind, 1);
    match settled {
        Settled::Recorded(state) | Settled::AlreadyDone(state) if state.is_final() => {
            count(&reporter.node.counters.settled, 1);
            let round = (attempt.claimed.id, attempt.claimed.round);
            reporter
                .node
                .outcomes
                .publish(round, || written_outcome(state, &finished.end));
        }
        Settled::Recorded(State::Pending) => offer_again(reporter, finished),
        Settled::Stale => {
            count(&reporter.node.counters.stale, 1);
            attempt.signal(Signal::Stale);
            tracing::debug!(task = %attempt.claimed.id, "an outcome came after the task was taken over; it does not count");
        }
        Settled::Recorded(_) | Settled::AlreadyDone(_) => {}
    }
}

/// A task that goes back to pending is due here again, if this node still looks after its shard.
fn offer_again(reporter: &Reporter, finished: &Finished) {
    let row = &finished.attempt.claimed;
    let ready_at = match finished.end {
        End::Retry { ready_at, .. } | End::Snooze { ready_at } | End::Wait { ready_at } => ready_at,
        _ => reporter.node.now(),
    };
    reporter.trigger.offer_row(row, ready_at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;
    use crate::store::{Born, Claimed, TaskRow};
    use ax_core::{JobName, Namespace, NodeId, OnLost, Priority, TaskId, Token};

    fn row(id: [u8; 16], token: [u8; 16]) -> TaskRow {
        TaskRow {
            id: TaskId::from_bytes(id),
            namespace: Namespace::default(),
            job: JobName::new("a").unwrap(),
            payload: "{}".into(),
            priority: Priority::default(),
            ready_at: Timestamp::from_millis(0),
            shard: 0,
            deadline: Timestamp::MAX,
            key: None,
            tags: Vec::new(),
            route_key: None,
            max_retries: None,
            timeout: None,
            on_lost: OnLost::Retry,
            created_at: Timestamp::from_millis(0),
            tick: None,
            trace: None,
            born: Some(Born {
                node: NodeId::from_bytes([9; 16]),
                token: Token::from_bytes(token),
            }),
        }
    }

    fn finished(id: u8, token: u8) -> Finished {
        let claimed = Claimed::born(&row([id; 16], [token; 16])).unwrap();
        Finished {
            attempt: Arc::new(Attempt::new(Arc::new(claimed), JobKind::Async)),
            end: End::Succeeded {
                result: "null".into(),
            },
            started_at: None,
            finished_at: Timestamp::from_millis(1),
        }
    }

    #[test]
    fn two_outcomes_of_one_task_never_share_a_batch() {
        let rounds = apart(vec![
            finished(1, 1),
            finished(2, 1),
            finished(1, 2),
            finished(3, 1),
        ]);
        let ids: Vec<Vec<u8>> = rounds
            .iter()
            .map(|r| {
                r.iter()
                    .map(|f| f.attempt.claimed.id.as_bytes()[0])
                    .collect()
            })
            .collect();
        assert_eq!(ids, [vec![1, 2, 3], vec![1]]);
    }
}
