//! Ownership of the 1,024 shards, and inboxes whose node is gone.

use std::collections::BTreeMap;

use ax_core::{Error, NodeId, TaskId, Token};

use super::Store;
use super::session::again;
use super::text::Sql;
use crate::db::{DbResult, Lane, Value};
use crate::shard::ShardSet;

impl Store {
    /// Takes those of the shards that no alive or leaving node owns, if this node is alive; returns how many.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn take_shards(
        &self,
        node: NodeId,
        token: Token,
        want: &ShardSet,
    ) -> Result<u64, Error> {
        let shards: Vec<i64> = want.iter().map(i64::from).collect();
        let fixed = [Value::from(node.as_bytes()), Value::from(token.as_bytes())];
        again!(self, async {
            self.session(Lane::Write)
                .await?
                .desk()
                .run_list(Sql::TakeShards, &fixed, &shards)
                .await
        })
    }

    /// Gives up those of the shards that the node owns; returns how many.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn release_shards(&self, node: NodeId, shards: &ShardSet) -> Result<u64, Error> {
        let shards: Vec<i64> = shards.iter().map(i64::from).collect();
        let fixed = [Value::from(node.as_bytes())];
        again!(self, async {
            self.session(Lane::Write)
                .await?
                .desk()
                .run_list(Sql::ReleaseShards, &fixed, &shards)
                .await
        })
    }

    /// Gives up all shards of the node, on the lane of heartbeats; returns how many.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn abandon_shards(&self, node: NodeId) -> Result<u64, Error> {
        again!(self, async {
            self.session(Lane::Beat)
                .await?
                .desk()
                .run(Sql::AbandonShards, vec![Value::from(node.as_bytes())])
                .await
        })
    }

    /// The shards that a node owns.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn owned_shards(&self, node: NodeId) -> Result<ShardSet, Error> {
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read(Sql::OwnedShards, vec![Value::from(node.as_bytes())])
                .await
        })?;
        let mut owned = ShardSet::EMPTY;
        for row in &rows {
            // Other numbers are inboxes, which nobody owns.
            owned.extend(u16::try_from(row.int(0)?).ok());
        }
        Ok(owned)
    }

    /// Moves pending rows, due within a minute, from inboxes that belong to no alive node to a shard, at most `limit`;
    /// returns how many went.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn empty_inboxes(&self, to_shard: i64, limit: u32) -> Result<u64, Error> {
        again!(self, self.empty_inboxes_once(to_shard, limit))
    }

    async fn empty_inboxes_once(&self, to: i64, limit: u32) -> DbResult<u64> {
        let mut session = self.session(Lane::Write).await?;
        let mut desk = session.desk();
        let rows = desk
            .read(Sql::StrandedRows, vec![Value::from(i64::from(limit))])
            .await?;
        let mut inboxes: BTreeMap<i64, Vec<TaskId>> = BTreeMap::new();
        for row in &rows {
            inboxes
                .entry(row.int(1)?)
                .or_default()
                .push(TaskId::from_bytes(row.id(0)?));
        }
        let mut moved = 0;
        for (inbox, ids) in inboxes {
            moved += desk
                .run_list(Sql::MoveShard, &[Value::from(to), Value::from(inbox)], &ids)
                .await?;
        }
        Ok(moved)
    }
}
