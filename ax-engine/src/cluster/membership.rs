//! What the heartbeat, the cluster loop and the schedules tell each other. None of them waits for another.
//!
//! The death of an identity goes through both: whoever learns of it says so, the heartbeat signals the handlers, and only
//! then the cluster loop joins again. So no handler of the old identity is missed, and none of the new one is met.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ax_core::NodeId;
use tokio::sync::Notify;

/// How far the death of an identity has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The database says so.
    Known(NodeId),
    /// The handlers are signaled.
    Signaled(NodeId),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Membership {
    death: Mutex<Option<Death>>,
    stalled: AtomicBool,
    cluster: Notify,
    heart: Notify,
    schedule: Notify,
}

impl Membership {
    /// The database says that this identity is dead; the heartbeat is to signal the handlers.
    pub fn died(&self, node: NodeId) {
        let mut death = self.death.lock().unwrap_or_else(PoisonError::into_inner);
        if !death.is_some_and(|death| death.node() == node) {
            *death = Some(Death::Known(node));
            self.heart.notify_one();
        }
    }

    /// The handlers of this identity are signaled; the cluster loop is to join again.
    pub fn signaled(&self, node: NodeId) {
        *self.death.lock().unwrap_or_else(PoisonError::into_inner) = Some(Death::Signaled(node));
        self.cluster.notify_one();
    }

    /// Whether this identity is known to be dead.
    pub fn is_dead(&self, node: NodeId) -> bool {
        self.death().is_some_and(|death| death.node() == node)
    }

    /// Whether it is dead and its handlers are signaled.
    pub fn is_signaled(&self, node: NodeId) -> bool {
        self.death() == Some(Death::Signaled(node))
    }

    /// There is a new identity; its heartbeats begin.
    pub fn joined_again(&self) {
        self.heart.notify_one();
    }

    /// The engine's loops stand still: its shards are for others.
    pub fn stall(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// The engine's loops go on.
    pub fn revive(&self) {
        self.stalled.store(false, Ordering::Relaxed);
        self.cluster.notify_one();
    }

    /// Whether the engine's loops stand still.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// The cluster loop has a reason to look at once.
    pub fn wake_cluster(&self) {
        self.cluster.notify_one();
    }

    /// This node looks after other shards than before: other schedules are its own.
    pub fn shards_moved(&self) {
        self.schedule.notify_one();
    }

    /// Waits until this node looks after other shards than before.
    pub async fn moved(&self) {
        self.schedule.notified().await;
    }

    /// Waits for a reason to look at the cluster.
    pub async fn cluster_woken(&self) {
        self.cluster.notified().await;
    }

    /// Waits for a reason to beat.
    pub async fn heart_woken(&self) {
        self.heart.notified().await;
    }

    fn death(&self) -> Option<Death> {
        *self.death.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Death {
    fn node(self) -> NodeId {
        match self {
            Self::Known(node) | Self::Signaled(node) => node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_signaled_once_before_the_node_joins_again() {
        let (old, new) = (NodeId::from_bytes([1; 16]), NodeId::from_bytes([2; 16]));
        let membership = Membership::default();
        assert!(!membership.is_dead(old));
        membership.died(old);
        assert!(membership.is_dead(old) && !membership.is_signaled(old));
        membership.signaled(old);
        membership.died(old);
        assert!(
            membership.is_signaled(old),
            "late news of the same death change nothing"
        );
        assert!(!membership.is_dead(new));
    }
}
