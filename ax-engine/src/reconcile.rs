//! What nobody else does in time: expired deadlines, work of nodes that died long ago, keys and nodes to forget.
//!
//! One node does it: the one that looks after shard 0 (every node, where all look after everything). Each statement is
//! bounded and repeats what it expects, so that two at once do no harm; an error is left to the next round. What this
//! node itself holds without knowing is given back by every node.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, ErrorKind};

use crate::cluster::{adopt_inboxes, take_back};
use crate::node::Node;
use crate::running::Running;
use crate::service::Stop;
use crate::trigger::TriggerHandle;
use crate::{expire, strays};

/// The most rows of one statement.
const BATCH: u32 = 256;
/// The most statements of one kind in a round.
const ROUNDS: usize = 16;
/// How often all running rows are looked through for dead owners.
const FULL_SCAN: Duration = Duration::from_secs(60);
/// How long dead and left nodes stay visible.
const NODES_SHOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// What the loop works with.
pub struct Reconciler {
    /// The engine.
    pub node: Arc<Node>,
    /// What this node knows that it holds.
    pub running: Arc<Running>,
    /// Who takes tasks.
    pub trigger: TriggerHandle,
}

/// Reconciles every period until told to stop.
pub async fn run(reconciler: Arc<Reconciler>, stop: Stop) {
    let node = &reconciler.node;
    let mut next_full = node.micros();
    while !stop.is_cancelled() {
        let pause = node
            .config
            .beat
            .mul_f64(0.75 + node.world.random.fraction() / 2.0);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = node.world.clock.sleep(pause) => {}
        }
        if node.is_leaving() {
            continue;
        }
        reconciler.round(&mut next_full).await;
    }
}

impl Reconciler {
    /// One round. A database that is away ends it; the next round begins anew.
    async fn round(&self, next_full: &mut i64) {
        if let Err(error) = self.reconcile(next_full).await {
            tracing::warn!(%error, "reconciling goes on in the next round");
        }
    }

    async fn reconcile(&self, next_full: &mut i64) -> Result<(), Error> {
        let node = &self.node;
        go_on(
            "give back stray claims",
            strays::give_back(node, &self.running).await,
        )?;
        if !node.config.roles.trigger || !node.looks_after(0) {
            return Ok(());
        }
        go_on("expire overdue tasks", self.expire().await)?;
        go_on(
            "empty the inboxes of dead nodes",
            adopt_inboxes(node, &self.trigger).await,
        )?;
        go_on("forget keys that are over", self.purge_keys().await)?;
        let now = node.micros();
        if now >= *next_full {
            go_on(
                "take back the work of dead nodes",
                take_back(node, &self.trigger).await,
            )?;
            let forgotten = node.store.prune_nodes(node.now().minus(NODES_SHOWN)).await;
            go_on("forget dead nodes", forgotten)?;
            *next_full =
                now.saturating_add(i64::try_from(FULL_SCAN.as_micros()).unwrap_or(i64::MAX));
        }
        Ok(())
    }

    async fn expire(&self) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let overdue = self.node.store.overdue(BATCH).await?;
            expire::expire(&self.node, &overdue).await;
            overdue.iter().for_each(|id| self.trigger.forget(*id));
            if overdue.len() < BATCH as usize {
                break;
            }
        }
        Ok(())
    }

    async fn purge_keys(&self) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            if self.node.store.purge_keys(BATCH).await? < u64::from(BATCH) {
                break;
            }
        }
        Ok(())
    }
}

/// A step that fails by itself must not keep the others from being done.
fn go_on<T>(what: &str, done: Result<T, Error>) -> Result<(), Error> {
    match done {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Unavailable => Err(error.context(what)),
        Err(error) => {
            tracing::warn!(%error, "failed to {what}; it is tried again in the next round");
            Ok(())
        }
    }
}
