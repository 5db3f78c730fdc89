//! Membership: nodes join, beat, see each other, and are declared dead by compare-and-set.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, Namespace, NodeId, Timestamp};

use super::Store;

/// A node as it joins.
#[derive(Clone, Debug)]
pub struct NodeRow {
    /// Fresh per process start.
    pub id: NodeId,
    /// Whose tasks it runs.
    pub namespace: Namespace,
    /// How long a heartbeat keeps it alive.
    pub ttl: Duration,
    /// The host's name.
    pub host: String,
    /// The process's number.
    pub pid: i64,
    /// The embedding application.
    pub app: String,
    /// Its version.
    pub version: String,
    /// Where it stands.
    pub zone: String,
    /// Its share of the shards, 1 for usual.
    pub weight: i64,
    /// Labels as a JSON object.
    pub labels: String,
    /// Registered jobs.
    pub jobs: Vec<String>,
    /// Whether it triggers time.
    pub trigger_on: bool,
    /// Whether it executes.
    pub execute_on: bool,
    /// Its slots.
    pub slots: i64,
}

/// Whether a node counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// It claims while its lease lasts.
    Alive,
    /// It stops: claims nothing, still finishes.
    Leaving,
    /// Declared dead; its running tasks go back.
    Dead,
    /// It left in order.
    Left,
}

impl NodeState {
    /// The stored number.
    #[must_use]
    pub const fn code(self) -> i64 {
        match self {
            Self::Alive => 0,
            Self::Leaving => 1,
            Self::Dead => 2,
            Self::Left => 3,
        }
    }

    /// The state of a stored number.
    #[must_use]
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::Alive),
            1 => Some(Self::Leaving),
            2 => Some(Self::Dead),
            3 => Some(Self::Left),
            _ => None,
        }
    }
}

/// One heartbeat.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// Who.
    pub node: NodeId,
    /// Tasks it runs.
    pub running: i64,
    /// Tasks it holds but has not started.
    pub queued: i64,
    /// Its slots.
    pub slots: i64,
    /// How long this beat keeps it alive.
    pub ttl: Duration,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatReply {
    /// The database's now.
    pub now: Timestamp,
    /// Until when the node is alive, by the database's clock.
    pub lease_until: Timestamp,
    /// The number of this heartbeat.
    pub beat: i64,
}

/// A node as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who.
    pub node: NodeId,
    /// Whose tasks it runs.
    pub namespace: Arc<str>,
    /// Whether it counts.
    pub state: NodeState,
    /// The number of its last heartbeat.
    pub beat: i64,
    /// Until when it is alive, by the database's clock.
    pub lease_until: Timestamp,
    /// The number of its inbox shard.
    pub inbox: i64,
    /// When it joined.
    pub started_at: Timestamp,
    /// Its share of the shards.
    pub weight: i64,
    /// The host's name.
    pub host: Arc<str>,
    /// The process's number.
    pub pid: i64,
    /// The embedding application.
    pub app: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// Where it stands.
    pub zone: Arc<str>,
    /// Registered jobs.
    pub jobs: Vec<String>,
    /// Whether it triggers time.
    pub trigger_on: bool,
    /// Whether it executes.
    pub execute_on: bool,
    /// Tasks it runs.
    pub running: i64,
    /// Tasks it holds but has not started.
    pub queued: i64,
    /// Its slots.
    pub slots: i64,
}

/// All nodes at one instant of the database's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersReply {
    /// The database's now.
    pub now: Timestamp,
    /// Every row of `ax_node`, dead ones included.
    pub nodes: Vec<Peer>,
}

impl Store {
    /// The database's now.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        todo!()
    }

    /// Registers a node and gives it the number of its inbox. May be sent again.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn join(&self, node: &NodeRow) -> Result<i64, Error> {
        let _ = node;
        todo!()
    }

    /// Renews a node's lease; `None` when it has been declared dead or has left.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn beat(&self, beat: &Beat) -> Result<Option<BeatReply>, Error> {
        let _ = beat;
        todo!()
    }

    /// All nodes.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn peers(&self) -> Result<PeersReply, Error> {
        todo!()
    }

    /// Declares a node dead if it still has this heartbeat number and its lease is over; whether that was so.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn mark_dead(&self, node: NodeId, beat: i64) -> Result<bool, Error> {
        let _ = (node, beat);
        todo!()
    }

    /// The node stops claiming.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn leaving(&self, node: NodeId) -> Result<(), Error> {
        let _ = node;
        todo!()
    }

    /// The node has left.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn leave(&self, node: NodeId) -> Result<(), Error> {
        let _ = node;
        todo!()
    }

    /// Forgets dead and left nodes last seen before an instant; returns how many.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn prune_nodes(&self, before: Timestamp) -> Result<u64, Error> {
        let _ = before;
        todo!()
    }
}
