//! Looks whether the tasks that run here were canceled or taken over, and signals their handlers.

use std::sync::Arc;

use ax_core::{TaskId, Token};

use crate::node::Node;
use crate::running::{Running, Signal};
use crate::service::Stop;
use crate::store::Watched;

/// The most running tasks looked at in one statement.
const BATCH: usize = 256;

/// Runs until told to stop.
pub async fn run(node: Arc<Node>, running: Arc<Running>, stop: Stop) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = node.world.clock.sleep(node.config.watch) => {}
        }
        for batch in running.held().chunks(BATCH) {
            match node.store.watch(batch).await {
                Ok(changed) => {
                    for (id, watched) in changed {
                        signal(&running, batch, id, &watched);
                    }
                }
                Err(error) => tracing::debug!(%error, "running tasks are looked at again soon"),
            }
        }
    }
}

fn signal(running: &Running, batch: &[(TaskId, Token)], id: TaskId, watched: &Watched) {
    let why = match watched {
        Watched::CancelRequested { .. } => Signal::Cancel,
        Watched::Stale => Signal::Stale,
    };
    for (_, token) in batch.iter().filter(|(task, _)| *task == id) {
        running.signal(id, *token, why);
    }
}
