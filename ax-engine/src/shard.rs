//! Shards: 1,024 virtual slices of all work, and who should own which.
//!
//! Enters: the live nodes with their weights; route keys. Leaves: the desired owner of each shard, sets of shards in the forms
//! that databases filter by, the shard of a key. Pure: every node computes the same from the same members, and nobody asks
//! anybody. It never says who *does* own a shard; that is a row.
//!
//! Weighted rendezvous hashing: each member draws one number per shard from a hash of both, and the highest score owns. So a
//! member that joins takes shards only for itself, and those of one that leaves go to the others in proportion. Source of the
//! score `-weight / ln(h)`: J. Resch, "New hashing algorithms for data storage", SNIA 2015.

mod set;

use ax_core::NodeId;

pub use set::ShardSet;

/// Number of shards. Inboxes of nodes have the numbers from here on and are in no set.
pub const SHARDS: u16 = 1024;

/// A live node that may own shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Its share against the others; 0 owns nothing.
    pub weight: u32,
}

/// The node that should own a shard; `None` if nobody has a weight. The order of `members` does not matter.
pub fn desired_owner(shard: u16, members: &[Member]) -> Option<NodeId> {
    let able = members.iter().filter(|member| member.weight > 0);
    let best = able.max_by(|a, b| {
        score(shard, a)
            .total_cmp(&score(shard, b))
            .then(a.node.cmp(&b.node))
    })?;
    Some(best.node)
}

/// The shards that a node should own.
pub fn desired(node: NodeId, members: &[Member]) -> ShardSet {
    (0..SHARDS)
        .filter(|&shard| desired_owner(shard, members) == Some(node))
        .collect()
}

/// The shard of a route key (or of the scope of a limit): the same on every node, in every version.
pub fn shard_of(key: &str) -> u16 {
    let (words, rest) = key.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let seed = mix(key.len() as u64);
    let hash = words
        .iter()
        .chain([&last])
        .fold(seed, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    (hash % u64::from(SHARDS)) as u16
}

/// What a member bids for a shard. Above 0, and higher for a higher draw or weight. The logarithm may differ in its last bit
/// between machines; two nodes then disagree about one shard in 10¹³, which costs wasted looks and no more.
fn score(shard: u16, member: &Member) -> f64 {
    f64::from(member.weight) / -draw(member.node, shard).ln()
}

/// A number between 0 and 1, both excluded.
fn draw(node: NodeId, shard: u16) -> f64 {
    let number = u128::from_le_bytes(*node.as_bytes());
    let hash = mix(mix(mix(number as u64) ^ (number >> 64) as u64) ^ u64::from(shard));
    ((hash >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// Stafford's variant 13 of the 64-bit finaliser, as in splitmix64. Stored numbers depend on it: it must never change.
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(number: u64, weight: u32) -> Member {
        let mut bytes = [0x5a; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Member {
            node: NodeId::from_bytes(bytes),
            weight,
        }
    }

    fn equal(numbers: std::ops::Range<u64>) -> Vec<Member> {
        numbers.map(|number| member(number, 100)).collect()
    }

    fn owners(members: &[Member]) -> Vec<Option<NodeId>> {
        (0..SHARDS)
            .map(|shard| desired_owner(shard, members))
            .collect()
    }

    /// Every member's shards are within `percent` of its share by weight.
    fn check_balance(members: &[Member], percent: f64) {
        let total: u32 = members.iter().map(|member| member.weight).sum();
        for member in members {
            let owned = desired(member.node, members).len() as f64;
            let fair = f64::from(SHARDS) * f64::from(member.weight) / f64::from(total);
            assert!(
                (owned - fair).abs() <= fair * percent / 100.0,
                "{owned} of {fair} among {}",
                members.len()
            );
        }
    }

    #[test]
    fn shares_are_within_20_percent() {
        for count in 1..=6 {
            check_balance(&equal(0..count), 20.0);
        }
        check_balance(&[member(0, 100), member(1, 200), member(2, 100)], 20.0);
        check_balance(&[member(0, 300), member(1, 100)], 20.0);
    }

    #[test]
    fn shares_are_fair_over_many_memberships() {
        let owned: usize = (0..50)
            .map(|n| desired(member(n, 300).node, &[member(n, 300), member(n + 100, 100)]).len())
            .sum();
        let mean = owned as f64 / 50.0;
        assert!(
            (mean - 768.0).abs() < 8.0,
            "weight 3 of 4 owns {mean} of 1,024"
        );
    }

    #[test]
    fn a_member_without_weight_owns_nothing() {
        assert_eq!(desired_owner(1, &[]), None);
        assert_eq!(desired_owner(1, &[member(1, 0)]), None);
        assert_eq!(
            desired(member(1, 0).node, &[member(1, 0), member(2, 1)]),
            ShardSet::EMPTY
        );
        assert_eq!(
            desired(member(2, 1).node, &[member(1, 0), member(2, 1)]),
            ShardSet::ALL
        );
    }

    #[test]
    fn keys_have_the_shards_they_have_always_had() {
        let shards = [
            "",
            "a",
            "order-43",
            "order-44",
            "customer/0000000017",
            "订单",
            "\0",
        ]
        .map(shard_of);
        assert_eq!(shards, [623, 830, 246, 98, 237, 665, 286]);
    }

    #[test]
    fn owners_are_those_they_have_always_been() {
        let members = equal(0..3);
        let number = |shard| {
            members
                .iter()
                .position(|member| Some(member.node) == desired_owner(shard, &members))
        };
        let first: Vec<_> = (0..16).map(|shard| number(shard).unwrap()).collect();
        assert_eq!(first, [2, 1, 1, 2, 1, 2, 0, 1, 1, 2, 1, 2, 2, 2, 1, 1]);
    }

    #[test]
    fn keys_spread_over_all_shards() {
        let mut count = [0u32; SHARDS as usize];
        (0..102_400).for_each(|n| count[usize::from(shard_of(&format!("customer-{n}")))] += 1);
        assert!(
            count.iter().all(|&keys| (50..=160).contains(&keys)),
            "{:?}",
            count.iter().minmax()
        );
    }

    trait MinMax {
        fn minmax(self) -> (Option<u32>, Option<u32>);
    }

    impl<'a, I: Iterator<Item = &'a u32> + Clone> MinMax for I {
        fn minmax(self) -> (Option<u32>, Option<u32>) {
            (self.clone().min().copied(), self.max().copied())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn a_newcomer_only_takes(count in 1u64..12, newcomer in 100u64..1_000, weight in 1u32..400) {
            let mut members = equal(0..count);
            let before = owners(&members);
            members.insert(count as usize / 2, member(newcomer, weight));
            for (old, new) in before.iter().zip(owners(&members)) {
                prop_assert!(new == *old || new == Some(member(newcomer, 0).node));
            }
        }

        #[test]
        fn one_that_leaves_moves_only_its_own(count in 2u64..12, leaver in any::<prop::sample::Index>()) {
            let mut members = equal(0..count);
            let before = owners(&members);
            let gone = members.remove(leaver.index(count as usize));
            for (old, new) in before.iter().zip(owners(&members)) {
                prop_assert!(new == *old || *old == Some(gone.node));
            }
        }

        #[test]
        fn more_weight_never_loses_a_shard(count in 2u64..8, more in 101u32..1_000) {
            let mut members = equal(0..count);
            let before = desired(members[0].node, &members);
            members[0].weight = more;
            prop_assert_eq!(before.difference(&desired(members[0].node, &members)), ShardSet::EMPTY);
        }

        #[test]
        fn each_shard_has_one_owner_whatever_the_order(count in 1u64..10, by in 0usize..10) {
            let members = equal(0..count);
            let mut turned = members.clone();
            turned.rotate_left(by % members.len());
            let sets: Vec<_> = members.iter().map(|member| desired(member.node, &turned)).collect();
            prop_assert_eq!(sets.iter().map(ShardSet::len).sum::<usize>(), usize::from(SHARDS));
            prop_assert_eq!(sets.iter().fold(ShardSet::EMPTY, |all, set| all.union(set)), ShardSet::ALL);
            prop_assert_eq!(owners(&members), owners(&turned));
        }
    }
}
