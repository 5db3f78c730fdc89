//! From a task's id to its entry.
//!
//! Enters: an id. Leaves: the place of its entry. Linear hashing with chains through the entries: the table grows by one
//! bucket at a time, so that no insert ever pays for a rehash of millions, and a timer costs four bytes times three quarters
//! at every size (a table that doubles costs between 5 and 12, and stands still while it does). It never owns an entry.
//!
//! Source: W. Litwin, "Linear hashing: a new tool for file and table addressing", 1980.

use ax_core::TaskId;

use super::chunks::Chunks;
use super::slab::{NONE, Slab};

/// Buckets of an empty index.
const FIRST: usize = 64;

/// See the head of the file.
pub(super) struct Index {
    /// First entry of each bucket's chain.
    heads: Chunks<u32>,
}

impl Index {
    /// An empty index.
    pub(super) fn new() -> Index {
        let mut heads = Chunks::new();
        (0..FIRST).for_each(|_| heads.push(NONE));
        Index { heads }
    }

    /// The place of a task's entry.
    pub(super) fn find(&self, slab: &Slab, id: &TaskId) -> Option<u32> {
        let mut at = self.heads[bucket(hash(id), self.heads.len())];
        while at != NONE && slab.get(at).id != *id {
            at = slab.get(at).chain;
        }
        (at != NONE).then_some(at)
    }

    /// Adds an entry whose id is not in the index.
    pub(super) fn add(&mut self, slab: &mut Slab, at: u32) {
        self.chain(slab, at);
        if self.heads.len() * 4 < slab.len() * 3 {
            self.split(slab);
        }
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, slab: &mut Slab, at: u32) {
        let bucket = bucket(hash(&slab.get(at).id), self.heads.len());
        let after = slab.get(at).chain;
        if self.heads[bucket] == at {
            self.heads[bucket] = after;
            return;
        }
        let mut before = self.heads[bucket];
        while before != NONE && slab.get(before).chain != at {
            before = slab.get(before).chain;
        }
        if before != NONE {
            slab.get_mut(before).chain = after;
        }
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.heads.bytes()
    }

    fn chain(&mut self, slab: &mut Slab, at: u32) {
        let bucket = bucket(hash(&slab.get(at).id), self.heads.len());
        slab.get_mut(at).chain = self.heads[bucket];
        self.heads[bucket] = at;
    }

    /// Adds one bucket and spreads the chain of the bucket it comes from over both.
    fn split(&mut self, slab: &mut Slab) {
        let new = self.heads.len();
        let old = new ^ (1 << new.ilog2());
        self.heads.push(NONE);
        let mut at = std::mem::replace(&mut self.heads[old], NONE);
        while at != NONE {
            let next = slab.get(at).chain;
            self.chain(slab, at);
            at = next;
        }
    }
}

/// The bucket of a hash among `count` buckets: its low bits, one bit less for the buckets that are not there yet.
fn bucket(hash: u64, count: usize) -> usize {
    let wide = count.next_power_of_two();
    let spot = hash as usize & (wide - 1);
    if spot < count {
        spot
    } else {
        spot & (wide / 2 - 1)
    }
}

/// Mixes all bits of an id (finaliser of splitmix64 over both halves): the time bits of a UUIDv7 alone would fill few buckets.
fn hash(id: &TaskId) -> u64 {
    let number = u128::from_le_bytes(*id.as_bytes());
    let mut mixed = (number as u64) ^ ((number >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::Due;

    #[test]
    fn buckets_are_split_one_by_one() {
        for count in 1..=200usize {
            let wide = count.next_power_of_two();
            for hash in 0..wide as u64 {
                let before = bucket(hash, count);
                let after = bucket(hash, count + 1);
                assert!(before < count);
                let from = count ^ (1 << count.ilog2());
                assert!(
                    after == before || (before == from && after == count),
                    "{hash} of {count}: {before} -> {after}"
                );
            }
        }
    }

    #[test]
    fn finds_what_it_holds_and_nothing_else() {
        let (mut slab, mut index) = (Slab::new(), Index::new());
        let places: Vec<u32> = (0..5_000).map(|n| slab.add(&Due::sample(n, 0))).collect();
        for &at in &places {
            index.add(&mut slab, at);
        }
        for (n, &at) in places.iter().enumerate().filter(|(n, _)| n % 3 == 0) {
            index.remove(&mut slab, at);
            assert_eq!(index.find(&slab, &Due::sample(n as u64, 0).id), None);
        }
        for n in 0..6_000 {
            let found = index.find(&slab, &Due::sample(n, 0).id);
            let wanted = places.get(n as usize).copied().filter(|_| n % 3 != 0);
            assert_eq!(found, wanted, "task {n}");
        }
    }

    #[test]
    fn chains_stay_short() {
        let (mut slab, mut index) = (Slab::new(), Index::new());
        for n in 0..100_000 {
            let at = slab.add(&Due::sample(n, 0));
            index.add(&mut slab, at);
        }
        let longest = (0..index.heads.len())
            .map(|bucket| length(&slab, index.heads[bucket]))
            .max();
        assert!(
            longest.is_some_and(|steps| steps <= 16),
            "longest chain {longest:?}"
        );
    }

    fn length(slab: &Slab, mut at: u32) -> usize {
        let mut steps = 0;
        while at != NONE {
            at = slab.get(at).chain;
            steps += 1;
        }
        steps
    }
}
