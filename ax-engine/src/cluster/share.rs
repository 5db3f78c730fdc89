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

/// The share of this node, worked out anew only when the members are others than before.
#[derive(Debug, Default)]
pub(super) struct Share {
    of: Option<(NodeId, Vec<Member>)>,
    shards: ShardSet,
}

impl Share {
    /// Compares what this node owns with its share among the nodes that trigger time.
    pub(super) fn change(&mut self, me: NodeId, owned: &ShardSet, nodes: &[Peer]) -> Change {
        let mut members: Vec<Member> = nodes
            .iter()
            .filter(|peer| triggers(peer))
            .map(member)
            .collect();
        members.sort_unstable_by_key(|member| member.node);
        let of = Some((me, members));
        if self.of != of {
            self.shards = of
                .as_ref()
                .map_or(ShardSet::EMPTY, |(me, members)| desired(*me, members));
            self.of = of;
        }
        Change {
            release: owned.difference(&self.shards),
            take: self.shards.difference(owned),
        }
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
