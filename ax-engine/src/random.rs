//! The one source of randomness: ids, tokens, jitter, the choice of a shard.
//!
//! Production seeds it from the operating system; a simulator seeds it with a number and gets the same run again.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use ax_core::{NodeId, TaskId, Timestamp, Token};
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded generator shared by the rooms of one engine.
pub struct Random(Mutex<Xoshiro256PlusPlus>);

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    /// Seeded by the operating system.
    pub fn from_system() -> Random {
        let mut seed = [0; 32];
        // Without a source of randomness the ids still differ between processes by their start.
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the generator that all others are told to use"
        )]
        let seeded = getrandom::fill(&mut seed);
        if seeded.is_err() {
            let salt = i64::from(std::process::id()) ^ crate::clock::host_now().as_millis();
            seed[..8].copy_from_slice(&salt.to_le_bytes());
        }
        Random(Mutex::new(Xoshiro256PlusPlus::from_seed(seed)))
    }

    /// Seeded by a number: the same number gives the same sequence.
    pub fn from_seed(seed: u64) -> Random {
        Random(Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed)))
    }

    /// `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill_bytes(&mut bytes);
        bytes
    }

    /// A fraction in 0 ≤ x < 1.
    pub fn fraction(&self) -> f64 {
        let bits = u64::from_le_bytes(self.bytes()) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }

    /// An index below `len`; 0 when `len` is 0.
    pub fn below(&self, len: usize) -> usize {
        let wide = u128::from(u64::from_le_bytes(self.bytes())) * len as u128;
        (wide >> 64) as usize
    }

    /// A fresh task id.
    pub fn task_id(&self, at: Timestamp) -> TaskId {
        TaskId::v7(at, self.bytes())
    }

    /// A fresh node id.
    pub fn node_id(&self, at: Timestamp) -> NodeId {
        NodeId::v7(at, self.bytes())
    }

    /// A fresh claim token.
    pub fn token(&self) -> Token {
        Token::random(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_again() {
        let (a, b) = (Random::from_seed(7), Random::from_seed(7));
        assert_eq!(a.bytes::<16>(), b.bytes::<16>());
        assert_eq!(a.token(), b.token());
        assert_ne!(
            Random::from_seed(8).bytes::<16>(),
            Random::from_seed(7).bytes::<16>()
        );
    }

    #[test]
    fn fractions_and_indices_stay_in_range() {
        let random = Random::from_seed(1);
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&random.fraction()));
            assert!(random.below(3) < 3);
        }
        assert_eq!(random.below(0), 0);
    }
}
