//! A set of shards as 1,024 bits.
//!
//! Enters: shard numbers, or the bytes of a set. Leaves: the same, and the two forms by which a statement tests membership:
//! bits for PostgreSQL, a byte a shard for the others. It never holds an inbox.

use std::fmt;

use super::SHARDS;

/// Bits of one word.
const WORD: usize = u64::BITS as usize;
/// Words of a set.
const WORDS: usize = SHARDS as usize / WORD;

/// Any of the 1,024 shards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ShardSet {
    /// Shard `n` is bit `n % 64` of word `n / 64`.
    words: [u64; WORDS],
}

impl ShardSet {
    /// No shard.
    pub const EMPTY: ShardSet = ShardSet { words: [0; WORDS] };
    /// Every shard.
    pub const ALL: ShardSet = ShardSet {
        words: [u64::MAX; WORDS],
    };
    /// Length of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = SHARDS as usize / 8;

    /// Adds a shard; says whether it is new. A number that is no shard (an inbox) is never in a set.
    pub fn insert(&mut self, shard: u16) -> bool {
        let new = shard < SHARDS && !self.contains(shard);
        if new {
            self.words[usize::from(shard) / WORD] |= bit(shard);
        }
        new
    }

    /// Takes a shard out; says whether it was in.
    pub fn remove(&mut self, shard: u16) -> bool {
        let held = self.contains(shard);
        if held {
            self.words[usize::from(shard) / WORD] &= !bit(shard);
        }
        held
    }

    /// Whether a shard is in.
    pub fn contains(&self, shard: u16) -> bool {
        self.words
            .get(usize::from(shard) / WORD)
            .is_some_and(|word| word & bit(shard) != 0)
    }

    /// The shards, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..SHARDS).filter(|&shard| self.contains(shard))
    }

    /// How many shards are in.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether no shard is in.
    pub fn is_empty(&self) -> bool {
        *self == ShardSet::EMPTY
    }

    /// The shards of either set.
    pub fn union(&self, other: &ShardSet) -> ShardSet {
        ShardSet {
            words: std::array::from_fn(|n| self.words[n] | other.words[n]),
        }
    }

    /// The shards of both sets.
    pub fn intersection(&self, other: &ShardSet) -> ShardSet {
        ShardSet {
            words: std::array::from_fn(|n| self.words[n] & other.words[n]),
        }
    }

    /// The shards of this set that are not in the other.
    pub fn difference(&self, other: &ShardSet) -> ShardSet {
        ShardSet {
            words: std::array::from_fn(|n| self.words[n] & !other.words[n]),
        }
    }

    /// 128 bytes in the order of PostgreSQL's `get_bit(bytea, n)`: shard `n` is bit `n % 8` of byte `n / 8`, counted from the
    /// least significant.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        std::array::from_fn(|n| self.words[n / 8].to_le_bytes()[n % 8])
    }

    /// The set of these bytes.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> ShardSet {
        (0..SHARDS)
            .filter(|&shard| bytes[usize::from(shard) / 8] >> (shard % 8) & 1 == 1)
            .collect()
    }

    /// 1,024 bytes, one a shard, 1 for those that are in and 0 for the others: `substr(map, shard + 1, 1)` finds it.
    pub fn to_bytemap(&self) -> Vec<u8> {
        (0..SHARDS)
            .map(|shard| u8::from(self.contains(shard)))
            .collect()
    }
}

impl FromIterator<u16> for ShardSet {
    fn from_iter<I: IntoIterator<Item = u16>>(shards: I) -> ShardSet {
        let mut set = ShardSet::EMPTY;
        set.extend(shards);
        set
    }
}

impl Extend<u16> for ShardSet {
    fn extend<I: IntoIterator<Item = u16>>(&mut self, shards: I) {
        for shard in shards {
            self.insert(shard);
        }
    }
}

impl fmt::Debug for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

fn bit(shard: u16) -> u64 {
    1 << (usize::from(shard) % WORD)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_in_the_order_of_get_bit() {
        let set: ShardSet = [0, 9, 1023].into_iter().collect();
        let bytes = set.to_bytes();
        assert_eq!((bytes[0], bytes[1], bytes[127]), (0b1, 0b10, 0b1000_0000));
        assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 3);
        let map = set.to_bytemap();
        assert_eq!(
            (map.len(), map[0], map[1], map[9], map[1023]),
            (1024, 1, 0, 1, 1)
        );
    }

    #[test]
    fn an_inbox_is_in_no_set() {
        let mut set = ShardSet::EMPTY;
        assert!(!set.insert(1024) && !set.insert(u16::MAX));
        assert!(set.is_empty() && !set.remove(1024));
        assert!(!ShardSet::ALL.contains(1024) && !ShardSet::ALL.contains(u16::MAX));
        assert_eq!(ShardSet::ALL.len(), 1024);
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(one in prop::collection::btree_set(0..1100u16, 0..200), other in prop::collection::btree_set(0..1100u16, 0..200)) {
            let real = |set: &BTreeSet<u16>| set.iter().copied().filter(|&shard| shard < SHARDS).collect::<BTreeSet<_>>();
            let (a, b): (ShardSet, ShardSet) = (one.iter().copied().collect(), other.iter().copied().collect());
            let (one, other) = (real(&one), real(&other));
            prop_assert_eq!(a.len(), one.len());
            prop_assert!(a.iter().eq(one.iter().copied()));
            prop_assert!(a.union(&b).iter().eq(one.union(&other).copied()));
            prop_assert!(a.intersection(&b).iter().eq(one.intersection(&other).copied()));
            prop_assert!(a.difference(&b).iter().eq(one.difference(&other).copied()));
            prop_assert_eq!(ShardSet::from_bytes(&a.to_bytes()), a);
            let mut left = a;
            for shard in one { prop_assert!(left.remove(shard)); }
            prop_assert!(left.is_empty());
        }
    }
}
