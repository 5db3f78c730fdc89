//! Chance that a seed repeats.
//!
//! Enters: a seed. Leaves: numbers, choices, spans. Each part of a simulated world draws from dice of its own, so that a
//! change in one part does not reshuffle all the others.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded source of choices.
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Dice of a seed and the part of the world that throws them.
    pub(crate) fn new(seed: u64, part: u64) -> Dice {
        let mixed = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(part.wrapping_mul(0xd1b5_4a32_d192_ed03));
        Dice(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// A number to seed something else with.
    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// An index below `n`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// Whether something of this probability happens.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        let bits = self.0.next_u64() >> 11;
        (bits as f64) < probability * (1_u64 << 53) as f64
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(usize::try_from(high - low + 1).unwrap_or(0)) as i64
    }

    /// A span of `low` to `high` milliseconds.
    pub(crate) fn millis(&mut self, low: i64, high: i64) -> Duration {
        let micros = self.between(low * 1_000, high * 1_000);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// One of the items.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_parts_differ() {
        let mut a = Dice::new(1, 2);
        assert_eq!(a.number(), Dice::new(1, 2).number());
        assert_ne!(Dice::new(1, 2).number(), Dice::new(1, 3).number());
        assert!((0..1_000).all(|_| (3..=5).contains(&a.between(3, 5))));
        assert!(!a.chance(0.0) && a.chance(1.0));
    }
}
