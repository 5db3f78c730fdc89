//! What dead nodes left behind: running tasks, and rows in their inboxes.
//!
//! Every write repeats token, state and that the owner is gone, so it may happen on several nodes at once.

use ax_core::{Error, State};

use crate::node::{Node, count};
use crate::store::{LostLimit, Settled};
use crate::trigger::TriggerHandle;

/// The most rows of one statement.
const BATCH: u32 = 256;
/// The most statements of one round, so that a round ends.
const ROUNDS: usize = 64;

/// Takes back the running tasks of dead nodes; says how many.
///
/// # Errors
/// What the database said; what was taken back until then stays so.
pub async fn take_back(node: &Node, trigger: &TriggerHandle) -> Result<usize, Error> {
    let mut taken = 0;
    for _ in 0..ROUNDS {
        let orphans = node.store.orphans(BATCH).await?;
        if orphans.is_empty() {
            break;
        }
        let settled = node
            .store
            .lose(&orphans, LostLimit(node.config.lost_limit))
            .await?;
        let now = node.now();
        let before = taken;
        for (row, settled) in orphans.iter().zip(settled) {
            taken += usize::from(matches!(settled, Settled::Recorded(_)));
            if settled == Settled::Recorded(State::Pending) {
                trigger.offer_row(row, now);
            }
        }
        if taken == before || orphans.len() < BATCH as usize {
            break;
        }
    }
    if taken > 0 {
        count(&node.counters.recovered, taken);
        tracing::info!(n = taken, "took back the running tasks of dead nodes");
    }
    Ok(taken)
}

/// Moves what lies in the inboxes of dead nodes to a shard of this node; says how many rows.
///
/// # Errors
/// What the database said.
pub async fn adopt_inboxes(node: &Node, trigger: &TriggerHandle) -> Result<u64, Error> {
    let mut moved = 0;
    for _ in 0..ROUNDS {
        let now_moved = node.store.empty_inboxes(node.choose_shard(), BATCH).await?;
        moved += now_moved;
        if now_moved < u64::from(BATCH) {
            break;
        }
    }
    if moved > 0 {
        tracing::info!(n = moved, "moved tasks out of the inboxes of dead nodes");
        // They may have been due for long, where no peek looks.
        trigger.shards_changed();
    }
    Ok(moved)
}
