//! Rows that run here by the database but not in this process: the claim's answer never came, or came too late.
//!
//! Nobody else may take them while this node lives, so this node gives them back itself. The rows are read first and
//! compared with what is held after that; a row that is settled in between is protected by its token.

use std::sync::Arc;

use ax_core::Error;

use crate::node::{Node, count};
use crate::running::Running;
use crate::store::{Claimed, End, Settlement};

/// The most rows given back in one round.
const BATCH: u32 = 256;

/// Gives back what this node does not know it holds; says how many rows.
///
/// # Errors
/// What the database said; the next round tries again.
pub async fn give_back(node: &Node, running: &Running) -> Result<usize, Error> {
    let rows = node.store.running_of(node.identity().node, BATCH).await?;
    let strays: Vec<Claimed> = rows
        .into_iter()
        .filter(|row| !running.knows(row.id, row.token))
        .collect();
    if strays.is_empty() {
        return Ok(0);
    }
    let now = node.now();
    let reason: Arc<str> = "handed back: the answer to its claim was lost".into();
    let settlements: Vec<Settlement> = strays
        .into_iter()
        .map(|row| Settlement {
            claimed: Arc::new(row),
            end: End::Release {
                reason: reason.clone(),
            },
            started_at: None,
            finished_at: now,
        })
        .collect();
    node.store.settle(&settlements).await?;
    count(&node.counters.recovered, settlements.len());
    Ok(settlements.len())
}
