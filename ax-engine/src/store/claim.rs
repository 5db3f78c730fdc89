//! Claims: one guarded update for the whole batch, then one read by token.

use std::sync::Arc;

use ax_core::{Error, NodeId, TaskId, Token};

use super::rows::Record;
use super::session::{Desk, Sent, again};
use super::text::Sql;
use super::{Claimed, Store};
use crate::db::{DbResult, Lane, Value};

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
    /// What is not returned was not claimed. When the reply was lost, ask [`Store::claimed`] and take a fresh token for another
    /// claim: a late first copy would otherwise claim a row that was given back under the old one.
    ///
    /// # Errors
    /// Any error of the database. After `Unavailable` rows may be claimed all the same: ask [`Store::claimed`].
    pub async fn claim(&self, request: ClaimRequest<'_>) -> Result<Vec<Claimed>, Error> {
        again!(self, sent => self.claim_once(request, sent))
    }

    /// The rows that a claim holds: what a claim with an unknown outcome is asked with.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn claimed(&self, request: ClaimRequest<'_>) -> Result<Vec<Claimed>, Error> {
        again!(self, async {
            read_claimed(&mut self.session(Lane::Write).await?.desk(), request).await
        })
    }

    async fn claim_once(&self, request: ClaimRequest<'_>, sent: Sent) -> DbResult<Vec<Claimed>> {
        let mut session = self.session(Lane::Write).await?;
        let mut desk = session.desk();
        let fixed = [
            Value::from(request.token.as_bytes()),
            Value::from(request.node.as_bytes()),
        ];
        let claimed = desk.run_list(Sql::Claim, &fixed, request.ids).await?;
        if claimed == 0 && sent == Sent::First {
            return Ok(Vec::new());
        }
        read_claimed(&mut desk, request).await
    }
}

async fn read_claimed(desk: &mut Desk<'_>, request: ClaimRequest<'_>) -> DbResult<Vec<Claimed>> {
    let token = [Value::from(request.token.as_bytes())];
    let rows = desk
        .read_list(Sql::ReadClaimed, &token, request.ids)
        .await?;
    let mut claimed = Vec::with_capacity(rows.len());
    for row in &rows {
        claimed.push(Record::read(row)?.task);
    }
    fetch_payloads(desk, claimed.iter_mut()).await?;
    Ok(claimed)
}

/// Fills in the payloads that are kept apart.
pub(super) async fn fetch_payloads<'a>(
    desk: &mut Desk<'_>,
    tasks: impl Iterator<Item = &'a mut Claimed>,
) -> DbResult<()> {
    let mut apart: Vec<&mut Claimed> = tasks.filter(|task| task.payload_apart).collect();
    if apart.is_empty() {
        return Ok(());
    }
    let ids: Vec<TaskId> = apart.iter().map(|task| task.id).collect();
    let mut payloads = std::collections::HashMap::with_capacity(ids.len());
    for row in desk.read_list(Sql::ReadPayloads, &[], &ids).await? {
        payloads.insert(TaskId::from_bytes(row.id(0)?), Arc::clone(row.text(1)?));
    }
    for task in &mut apart {
        // Two rounds of one task share its payload.
        if let Some(payload) = payloads.get(&task.id) {
            task.payload = Arc::clone(payload);
        }
    }
    Ok(())
}
