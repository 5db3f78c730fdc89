//! Tasks whose latest start has passed become `expired`.

use ax_core::TaskId;

use crate::node::Node;

/// Expires those of the tasks that are still pending and past their deadline. A failure is left to the next reconcile;
/// who waits for the outcome reads it from the history.
pub async fn expire(node: &Node, ids: &[TaskId]) {
    if let Err(error) = node.store.expire(ids).await {
        tracing::debug!(%error, "overdue tasks expire at the next reconcile");
    }
}
