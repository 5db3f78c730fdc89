//! Ownership of the 1,024 shards, and inboxes whose node is gone.

use std::fmt;

use ax_core::{Error, NodeId, Token};

use super::Store;

/// How many shards there are: 0 to 1,023.
pub const SHARDS: i64 = 1_024;
/// Inboxes of nodes have the numbers from here on.
pub const INBOX_START: i64 = SHARDS;

/// A set of shards.
#[derive(Clone, PartialEq, Eq)]
pub struct ShardSet([u64; 16]);

impl ShardSet {
    /// No shard.
    pub const EMPTY: Self = Self([0; 16]);
    /// Every shard.
    pub const ALL: Self = Self([u64::MAX; 16]);

    /// Puts a shard in; numbers outside 0 to 1,023 are ignored.
    pub fn insert(&mut self, shard: i64) {
        if let Some((word, bit)) = place(shard) {
            self.0[word] |= bit;
        }
    }

    /// Takes a shard out.
    pub fn remove(&mut self, shard: i64) {
        if let Some((word, bit)) = place(shard) {
            self.0[word] &= !bit;
        }
    }

    /// Whether a shard is in it.
    #[must_use]
    pub fn contains(&self, shard: i64) -> bool {
        place(shard).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }

    /// How many shards are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether none is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The shards in order.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        (0..SHARDS).filter(|shard| self.contains(*shard))
    }

    /// The shards of this set that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for (word, theirs) in left.0.iter_mut().zip(other.0) {
            *word &= !theirs;
        }
        left
    }
}

/// The word and the bit of a shard, if there is such a shard.
fn place(shard: i64) -> Option<(usize, u64)> {
    let shard = usize::try_from(shard).ok().filter(|shard| *shard < 1_024)?;
    Some((shard / 64, 1 << (shard % 64)))
}

impl FromIterator<i64> for ShardSet {
    fn from_iter<I: IntoIterator<Item = i64>>(shards: I) -> Self {
        let mut set = Self::EMPTY;
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

impl Default for ShardSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardSet({} of {SHARDS})", self.len())
    }
}

impl Store {
    /// Takes those of the shards that no alive or leaving node owns, if this node is alive; returns how many.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn take_shards(&self, node: NodeId, token: Token, want: &ShardSet) -> Result<u64, Error> {
        let _ = (node, token, want);
        todo!()
    }

    /// Gives up those of the shards that the node owns; returns how many.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn release_shards(&self, node: NodeId, shards: &ShardSet) -> Result<u64, Error> {
        let _ = (node, shards);
        todo!()
    }

    /// The shards that a node owns.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn owned_shards(&self, node: NodeId) -> Result<ShardSet, Error> {
        let _ = node;
        todo!()
    }

    /// Moves pending rows, due within a minute, from inboxes that belong to no alive node to a shard, at most `limit`;
    /// returns how many went.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn empty_inboxes(&self, to_shard: i64, limit: u32) -> Result<u64, Error> {
        let _ = (to_shard, limit);
        todo!()
    }
}
