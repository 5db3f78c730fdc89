//! Newtypes for the 16-byte ids of tasks, runs and nodes, and for claim tokens.
//!
//! In: an instant and random bytes from the engine's own clock and generator. Out: ids that sort by
//! their birth (UUIDv7) and read as hyphenated text everywhere. Never reads a clock, never draws a number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::{Error, Timestamp};

macro_rules! id {
    ($name:ident, $what:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The id with exactly these bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The bytes as they are stored.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The id in a stored column; `None` unless the slice has 16 bytes.
            #[must_use]
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                <[u8; 16]>::try_from(bytes).ok().map(Self::from_bytes)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.0.as_hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    concat!(stringify!($name), "({})"),
                    self.0.as_hyphenated()
                )
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Uuid::try_parse(text).map(Self).map_err(|error| {
                    let shown = crate::clean_text(text, 64);
                    Error::invalid(format!("\"{shown}\" is not a {} id: {error}", $what))
                })
            }
        }
    };
}

macro_rules! born {
    ($name:ident) => {
        impl $name {
            /// A UUIDv7 made of an instant (clamped to its 48 bits of milliseconds) and random bytes.
            #[must_use]
            pub fn v7(at: Timestamp, random: [u8; 10]) -> Self {
                let millis = at.as_millis().clamp(0, (1 << 48) - 1).unsigned_abs();
                Self(Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
            }
        }
    };
}

id!(
    TaskId,
    "task",
    "One request to run a job; the stable idempotency key of its effects."
);
id!(RunId, "run", "One instance of a workflow.");
id!(
    NodeId,
    "node",
    "One process start; a restarted process is another node."
);
id!(
    Token,
    "claim token",
    "The secret of one claim statement; every later write of the worker carries it."
);

born!(TaskId);
born!(RunId);
born!(NodeId);

impl Token {
    /// A token made of random bytes (UUIDv4 layout, 122 bits of chance).
    #[must_use]
    pub const fn random(random: [u8; 16]) -> Self {
        Self(Builder::from_random_bytes(random).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_sort_by_birth_and_read_back() {
        let early = TaskId::v7(Timestamp::from_millis(1_000), [0xff; 10]);
        let late = TaskId::v7(Timestamp::from_millis(1_001), [0; 10]);
        assert!(early < late);
        assert_eq!(early.to_string().parse::<TaskId>().unwrap(), early);
        assert_eq!(TaskId::from_slice(early.as_bytes()), Some(early));
        assert_eq!(TaskId::from_slice(&[0; 15]), None);
        assert_eq!(
            serde_json::to_string(&early).unwrap(),
            format!("\"{early}\"")
        );
        assert_eq!(format!("{early:?}"), format!("TaskId({early})"));
    }

    #[test]
    fn a_wrong_text_is_named() {
        let error = "not-an-id".parse::<RunId>().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("\"not-an-id\" is not a run id"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn any_instant_makes_an_id(at: i64, random: [u8; 10]) {
            let id = NodeId::v7(Timestamp::from_millis(at), random);
            prop_assert_eq!(id.to_string().parse::<NodeId>().unwrap(), id);
        }

        #[test]
        fn tokens_keep_their_chance(a: [u8; 16]) {
            let mut b = a;
            b[0] ^= 1;
            prop_assert_ne!(Token::random(a), Token::random(b));
        }
    }
}
