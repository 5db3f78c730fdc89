//! What the heartbeat and the cluster loop tell each other. They run on different threads, and neither waits for the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ax_core::NodeId;
use tokio::sync::Notify;

/// See the module.
#[derive(Debug, Default)]
pub struct Membership {
    dead: Mutex<Option<NodeId>>,
    stalled: AtomicBool,
    cluster: Notify,
    heart: Notify,
}

impl Membership {
    /// The database says that this identity is dead; the cluster loop is to join again.
    pub fn died(&self, node: NodeId) {
        *self.dead.lock().unwrap_or_else(PoisonError::into_inner) = Some(node);
        self.cluster.notify_one();
    }

    /// Whether this identity is known to be dead.
    pub fn is_dead(&self, node: NodeId) -> bool {
        *self.dead.lock().unwrap_or_else(PoisonError::into_inner) == Some(node)
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

    /// Waits for a reason to look at the cluster.
    pub async fn cluster_woken(&self) {
        self.cluster.notified().await;
    }

    /// Waits for a reason to beat.
    pub async fn heart_woken(&self) {
        self.heart.notified().await;
    }
}
