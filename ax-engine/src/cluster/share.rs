//! Who should own which shards, and what that asks of this node. Pure.

use ax_core::NodeId;

use crate::shard::{Member, ShardSet, desired};
use crate::store::{NodeState, Peer};

/// What this node does about its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Those that belong to others.
    pub(super) release: ShardSet,
    /// Those that belong here.
    pub(super) take: ShardSet,
}

/// Compares what this node owns with its share among the nodes that trigger time.
pub(super) fn change(me: NodeId, owned: &ShardSet, nodes: &[Peer]) -> Change {
    let members: Vec<Member> = nodes
        .iter()
        .filter(|peer| triggers(peer))
        .map(member)
        .collect();
    let share = desired(me, &members);
    Change {
        release: owned.difference(&share),
        take: share.difference(owned),
    }
}

fn triggers(peer: &Peer) -> bool {
    peer.state == NodeState::Alive && peer.trigger_on
}

fn member(peer: &Peer) -> Member {
    Member {
        node: peer.node,
        weight: u32::try_from(peer.weight).unwrap_or(u32::MAX),
    }
}
