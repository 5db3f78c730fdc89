//! Claims: one guarded update for the whole batch, then one read by token.

use ax_core::{Error, NodeId, TaskId, Token};

use super::{Claimed, Store};

/// A claim of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest<'a> {
    /// Who claims; must be alive with its lease over the database's now.
    pub node: NodeId,
    /// Fresh and random per claim.
    pub token: Token,
    /// The rows wanted.
    pub ids: &'a [TaskId],
}

impl Store {
    /// Claims those of the rows that are pending, due, within their deadline and not canceled, if the node is alive.
    ///
    /// What is not returned was not claimed. May be sent again with the same token.
    ///
    /// # Errors
    /// Any error of the database. After `Unavailable` rows may be claimed all the same: ask [`Store::claimed`].
    pub async fn claim(&self, request: ClaimRequest<'_>) -> Result<Vec<Claimed>, Error> {
        let _ = request;
        todo!()
    }

    /// The rows that a claim holds: what a claim with an unknown outcome is asked with.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn claimed(&self, request: ClaimRequest<'_>) -> Result<Vec<Claimed>, Error> {
        let _ = request;
        todo!()
    }
}
