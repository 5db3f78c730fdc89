//! Membership: who is alive, who is dead, and which shards this node looks after.
//!
//! Enters: looks at the table of nodes, the lock files beside a database file, what the heartbeat learned. Leaves: dead
//! nodes marked by compare-and-set, their work taken back, this node's share of the shards. It never claims or runs
//! anything, and ownership decides nothing about correctness: two owners of a shard cost wasted work only.
//!
//! Each round:
//! 1. a node that was told to be dead joins again with a new identity;
//! 2. look; mark dead whom the lock file or the two-witness rule condemns; take back what they held;
//! 3. release the shards that belong to others, take those that belong here and are free.

mod join;
mod membership;
mod recover;
mod share;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, NodeId};

use crate::config::{Config, Ownership};
use crate::node::Node;
use crate::observer::{LeaseByDatabase, MonotonicMs, Observer, ObserverRule, OwnLease, PeerBeat};
use crate::service::Stop;
use crate::shard::ShardSet;
use crate::store::{NodeState, Peer, PeersReply};
use crate::trigger::TriggerHandle;
use crate::witness::{Testimony, Witness};

pub use join::{Joined, join, leave, leaving};
pub use membership::Membership;
pub use recover::{adopt_inboxes, take_back};
use share::Share;

/// The longest time between two looks, also where heartbeats are rarer: shards change hands within about that time.
const LOOK: Duration = Duration::from_secs(1);
/// How soon shards that are still owned by others are asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// What the loop works with.
pub struct Cluster {
    /// The engine.
    pub node: Arc<Node>,
    /// Who takes tasks and is told of shards.
    pub trigger: TriggerHandle,
    /// News of the heartbeat.
    pub membership: Arc<Membership>,
    /// The lock files, where there are any.
    pub witness: Arc<Witness>,
}

/// Watches the cluster until told to stop.
pub async fn run(cluster: Arc<Cluster>, stop: Stop) {
    let config = &cluster.node.config;
    let mut watch = Watch {
        cluster: &cluster,
        observer: observer(config),
        recovered: HashSet::new(),
        owed: Owed::Nothing,
        contact: Contact::Good,
        share: Share::default(),
    };
    while !stop.is_cancelled() {
        let pause = watch.round().await;
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = cluster.membership.cluster_woken() => {}
            () = cluster.node.world.clock.sleep(pause) => {}
        }
    }
}

/// What one loop remembers from round to round.
struct Watch<'a> {
    cluster: &'a Cluster,
    observer: Observer,
    /// Dead nodes whose work was taken back.
    recovered: HashSet<NodeId>,
    owed: Owed,
    contact: Contact,
    share: Share,
}

/// Whether the last look succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contact {
    Good,
    Lost,
}

/// Whether the work of dead nodes is still to be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Nothing,
    AtOnce,
    /// Another node marked them dead and is at it; this one looks after it in the next round.
    NextRound,
}

/// How a dead node came to be known as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Lock,
    Rule,
}

impl Watch<'_> {
    /// One round; says how long until the next one.
    async fn round(&mut self) -> Duration {
        let config = &self.cluster.node.config;
        let usual = LOOK.min(config.beat);
        match self.look().await {
            Ok(settled) => {
                self.contact = Contact::Good;
                if settled == Settled::Fully {
                    usual
                } else {
                    ASK_AGAIN.min(usual)
                }
            }
            Err(error) => {
                // Once per outage is news enough.
                if std::mem::replace(&mut self.contact, Contact::Lost) == Contact::Good {
                    tracing::warn!(%error, "the look at the cluster failed and is tried again soon");
                } else {
                    tracing::debug!(%error, "the look at the cluster failed again");
                }
                let share = 0.5 + self.cluster.node.world.random.fraction() / 2.0;
                usual.mul_f64(share)
            }
        }
    }

    async fn look(&mut self) -> Result<Settled, Error> {
        let node = &*self.cluster.node;
        let mine = node.identity().node;
        if self.cluster.membership.is_signaled(mine) && !node.is_leaving() {
            self.join_again().await?;
        }
        let asked = node.micros();
        let reply = match node.store.peers().await {
            Ok(reply) => reply,
            Err(error) => {
                self.observer.lost_contact(monotonic(asked));
                return Err(error);
            }
        };
        let mine = node.identity().node;
        if !reply
            .nodes
            .iter()
            .any(|peer| peer.node == mine && is_present(peer))
            && !node.is_leaving()
        {
            node.lease.end();
            self.cluster.membership.died(mine);
            return Ok(Settled::InPart);
        }
        let mut nodes = reply.nodes.clone();
        self.bury_the_dead(asked, &reply, &mut nodes).await?;
        nodes.retain(is_present);
        let shares = nodes.clone();
        node.saw(nodes);
        self.take_back().await?;
        self.balance(&shares).await
    }

    async fn join_again(&mut self) -> Result<(), Error> {
        let Cluster {
            node,
            trigger,
            membership,
            witness,
        } = self.cluster;
        let joined = join(
            &node.store,
            &node.config,
            &node.registry,
            &node.world,
            witness,
        )
        .await?;
        node.rejoin(joined.identity);
        joined.tell(node);
        self.observer = observer(&node.config);
        self.owed = Owed::AtOnce;
        membership.joined_again();
        trigger.shards_changed();
        tracing::warn!(node = %joined.identity.node, "this node had been declared dead and joined again");
        Ok(())
    }

    /// Marks the dead in the database and in `nodes`.
    async fn bury_the_dead(
        &mut self,
        asked: i64,
        reply: &PeersReply,
        nodes: &mut [Peer],
    ) -> Result<(), Error> {
        let condemned = self.condemned(asked, reply);
        for peer in nodes.iter_mut() {
            let Some((_, proof)) = condemned.iter().find(|(node, _)| *node == peer.node) else {
                continue;
            };
            let store = &self.cluster.node.store;
            let marked = match proof {
                Proof::Lock => store.bury(peer.node, peer.beat).await?,
                Proof::Rule => store.mark_dead(peer.node, peer.beat).await?,
            };
            if marked {
                tracing::warn!(node = %peer.node, host = %peer.host, pid = peer.pid, ?proof, "a node is dead; its work is taken back");
                peer.state = NodeState::Dead;
                self.owed = Owed::AtOnce;
                self.recovered.insert(peer.node);
                self.cluster.witness.bury(peer.node);
            }
        }
        self.notice(nodes);
        Ok(())
    }

    /// Whom the lock files or the two-witness rule condemn, this node excepted.
    fn condemned(&mut self, asked: i64, reply: &PeersReply) -> Vec<(NodeId, Proof)> {
        let node = &self.cluster.node;
        let mine = node.identity().node;
        let mut condemned = Vec::new();
        let mut judged = Vec::new();
        for peer in reply
            .nodes
            .iter()
            .filter(|peer| peer.node != mine && is_present(peer))
        {
            match self.cluster.witness.testify(peer.node) {
                Testimony::Dead => condemned.push((peer.node, Proof::Lock)),
                Testimony::Alive => {}
                Testimony::Silent => judged.push(peer_beat(peer, reply)),
            }
        }
        let dead = self
            .observer
            .look(monotonic(asked), own_lease(node, asked), &judged);
        condemned.extend(dead.into_iter().map(|node| (node, Proof::Rule)));
        condemned
    }

    /// Takes in which dead nodes are new here: at the first look all of them, later those that another node marked.
    fn notice(&mut self, nodes: &[Peer]) {
        let dead: HashSet<NodeId> = nodes
            .iter()
            .filter(|peer| peer.state == NodeState::Dead)
            .map(|peer| peer.node)
            .collect();
        let new: Vec<NodeId> = dead.difference(&self.recovered).copied().collect();
        for node in &new {
            self.cluster.witness.bury(*node);
        }
        if !new.is_empty() && self.owed == Owed::Nothing {
            self.owed = Owed::NextRound;
        }
        self.recovered.retain(|node| dead.contains(node));
        self.recovered.extend(new);
    }

    async fn take_back(&mut self) -> Result<(), Error> {
        let Cluster { node, trigger, .. } = self.cluster;
        match self.owed {
            Owed::Nothing => {}
            Owed::NextRound => self.owed = Owed::AtOnce,
            Owed::AtOnce => {
                take_back(node, trigger).await?;
                adopt_inboxes(node, trigger).await?;
                self.owed = Owed::Nothing;
            }
        }
        Ok(())
    }

    async fn balance(&mut self, nodes: &[Peer]) -> Result<Settled, Error> {
        let Cluster {
            node,
            trigger,
            membership,
            ..
        } = self.cluster;
        let watches = node.config.ownership == Ownership::Sharded && node.config.roles.trigger;
        if !watches || node.is_leaving() || membership.is_stalled() {
            return Ok(Settled::Fully);
        }
        let mine = node.identity().node;
        let mut owned = node.store.owned_shards(mine).await?;
        let change = self.share.change(mine, &owned, nodes);
        if !change.release.is_empty() {
            owned = owned.difference(&change.release);
            self.own(owned);
            node.store.release_shards(mine, &change.release).await?;
        }
        if !change.take.is_empty() {
            node.store
                .take_shards(mine, node.world.random.token(), &change.take)
                .await?;
            owned = node.store.owned_shards(mine).await?;
        }
        if node.is_leaving() || membership.is_stalled() {
            node.store.release_shards(mine, &ShardSet::ALL).await?;
            return Ok(Settled::Fully);
        }
        if self.own(owned) == Changed::Yes {
            trigger.shards_changed();
            membership.shards_moved();
        }
        Ok(if change.take.difference(&owned).is_empty() {
            Settled::Fully
        } else {
            Settled::InPart
        })
    }

    fn own(&self, shards: ShardSet) -> Changed {
        let node = &self.cluster.node;
        if node.owned() == shards {
            return Changed::No;
        }
        tracing::debug!(n = shards.len(), "looks after other shards than before");
        node.own(shards);
        Changed::Yes
    }
}

/// Whether a round brought everything in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    Fully,
    InPart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    Yes,
    No,
}

fn observer(config: &Config) -> Observer {
    let usual = || ObserverRule::new(config.lease, config.beat);
    Observer::with_rule(config.observer.unwrap_or_else(usual))
}

fn is_present(peer: &Peer) -> bool {
    matches!(peer.state, NodeState::Alive | NodeState::Leaving)
}

fn monotonic(micros: i64) -> MonotonicMs {
    MonotonicMs(u64::try_from(micros / 1_000).unwrap_or(0))
}

fn peer_beat(peer: &Peer, reply: &PeersReply) -> PeerBeat {
    let lease = if peer.lease_until < reply.now {
        LeaseByDatabase::Over
    } else {
        LeaseByDatabase::Running
    };
    PeerBeat {
        node: peer.node,
        beat: peer.beat,
        lease,
    }
}

/// Whether this node's own heartbeats got through lately, the first witness of the database being there for others too.
fn own_lease(node: &Node, asked: i64) -> OwnLease {
    let fresh = Duration::from_micros(u64::try_from(asked - node.beat_sent()).unwrap_or(0))
        <= node.config.beat * 2;
    if fresh && node.lease.holds(asked) {
        OwnLease::Renewed
    } else {
        OwnLease::Doubtful
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_its_zero_counts_as_zero() {
        assert_eq!(monotonic(-5_000), MonotonicMs(0));
        assert_eq!(monotonic(1_999), MonotonicMs(1));
    }
}
