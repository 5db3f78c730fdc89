//! In and out: a node joins before it claims anything, and leaves in two steps.

use ax_core::{Error, ErrorKind, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};

use crate::clock::Clock;
use crate::config::Config;
use crate::job::Registry;
use crate::node::{Identity, Node, World};
use crate::shard::ShardSet;
use crate::store::{NodeRow, Store};
use crate::witness::Witness;

/// How often the database is asked for its now before the start: enough for one answer without delay.
const SAMPLES: usize = 8;
/// How often a step of leaving is tried.
const TRIES: u32 = 3;
/// The first wait between two tries; it doubles.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
/// The weight of a node whose share is 1; the database holds hundredths.
const USUAL_WEIGHT: f64 = 100.0;

/// A node that has joined.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    /// Who it is now.
    pub identity: Identity,
    /// When the join was sent, in microseconds of the engine's clock: the lease counts from here.
    sent: i64,
    /// The database's now minus the engine's clock, in microseconds: the best of a few samples.
    offset: i64,
}

impl Joined {
    /// Gives a node its lease and the database's now.
    pub fn tell(&self, node: &Node) {
        let now =
            Timestamp::from_millis(node.micros().saturating_add(self.offset).div_euclid(1_000));
        node.time.anchor(now);
        node.beaten(self.sent, now);
    }
}

/// Registers a node with a fresh identity. The join counts as its first heartbeat: the lease holds from here on.
///
/// # Errors
/// What the database said.
pub async fn join(
    store: &Store,
    config: &Config,
    registry: &Registry,
    world: &World,
    witness: &Witness,
) -> Result<Joined, Error> {
    let offset = offset(store, &*world.clock).await?;
    let now = Timestamp::from_millis(
        world
            .clock
            .micros()
            .saturating_add(offset)
            .div_euclid(1_000),
    );
    let row = row(config, registry, world.random.node_id(now));
    // The lock comes first: from the moment that others see the row it testifies.
    witness.attend(row.id);
    let sent = world.clock.micros();
    let inbox = store.join(&row).await?;
    let identity = Identity {
        node: row.id,
        inbox,
    };
    tracing::info!(node = %row.id, inbox, "joined the cluster");
    Ok(Joined {
        identity,
        sent,
        offset,
    })
}

/// The largest difference of a few answers is the one with the least delay.
async fn offset(store: &Store, clock: &dyn Clock) -> Result<i64, Error> {
    let mut best = None;
    for _ in 0..SAMPLES {
        let now = store.now().await?;
        best = best.max(Some(
            now.as_millis()
                .saturating_mul(1_000)
                .saturating_sub(clock.micros()),
        ));
    }
    best.ok_or_else(|| Error::new(ErrorKind::Unavailable, "ask the database for its time"))
}

fn row(config: &Config, registry: &Registry, id: ax_core::NodeId) -> NodeRow {
    let slots = if config.roles.execute {
        config.async_slots + config.blocking_slots
    } else {
        0
    };
    NodeRow {
        id,
        namespace: config.namespace.clone(),
        ttl: config.lease,
        host: host(),
        pid: i64::from(std::process::id()),
        app: config.app.clone(),
        version: config.version.clone(),
        zone: String::new(),
        weight: stored_weight(config.weight),
        labels: "{}".to_owned(),
        jobs: registry.names_and_aliases().map(str::to_owned).collect(),
        trigger_on: config.roles.trigger,
        execute_on: config.roles.execute,
        slots: i64::try_from(slots).unwrap_or(i64::MAX),
    }
}

/// A share as hundredths, at least one.
fn stored_weight(share: f64) -> i64 {
    let hundredths = (share * USUAL_WEIGHT)
        .round()
        .clamp(1.0, f64::from(u32::MAX));
    #[expect(clippy::cast_possible_truncation, reason = "clamped to 32 bits")]
    let stored = hundredths as i64;
    stored
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .or_else(|| std::env::var("HOSTNAME").ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Tells the others that this node claims nothing more, and gives its shards to them; what runs goes on.
pub async fn leaving(node: &Node) {
    node.leave();
    let id = node.identity().node;
    tried(node, "say that this node leaves", || {
        node.store.leaving(id).boxed()
    })
    .await;
    give_up_shards(node).await;
}

/// The last step: nothing runs here any more.
pub async fn leave(node: &Node, witness: &Witness) {
    node.leave();
    node.lease.end();
    give_up_shards(node).await;
    let id = node.identity().node;
    tried(node, "leave the cluster", || node.store.leave(id).boxed()).await;
    witness.leave();
}

async fn give_up_shards(node: &Node) {
    node.own(ShardSet::EMPTY);
    let id = node.identity().node;
    tried(node, "give up the shards", || {
        let released = node.store.release_shards(id, &ShardSet::ALL);
        released.map_ok(drop).boxed()
    })
    .await;
}

/// Tries a step a few times. A node that cannot say goodbye is buried by the others.
async fn tried<'a>(node: &Node, what: &str, step: impl Fn() -> BoxFuture<'a, Result<(), Error>>) {
    for tried in 0..TRIES {
        match step().await {
            Ok(()) => return,
            Err(error) => tracing::warn!(%error, "failed to {what}"),
        }
        node.world.clock.sleep(PAUSE * 2_u32.pow(tried)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_stored_in_hundredths() {
        assert_eq!(
            [1.0, 0.25, 0.001, 3.0, 1e12].map(stored_weight),
            [100, 25, 1, 300, i64::from(u32::MAX)]
        );
    }
}
