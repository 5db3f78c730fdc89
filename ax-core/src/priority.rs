//! The ten priorities of a task. In: a number. Out: a [`Priority`] that is never out of range.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;

/// How urgent a task is: 0 to 9, 9 first, 5 unless stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// All priorities, lowest first.
    pub const ALL: [Self; 10] = {
        let mut all = [Self(0); 10];
        let mut level = 0;
        while level < 10 {
            all[level as usize] = Self(level);
            level += 1;
        }
        all
    };

    /// Checks a priority.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) above 9.
    pub fn new(level: u8) -> Result<Self, Error> {
        if level > 9 {
            return Err(Error::invalid(format!(
                "priority {level} is out of range; use 0 (last) to 9 (first)"
            )));
        }
        Ok(Self(level))
    }

    /// The number, 0 to 9.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(5)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TryFrom<u8> for Priority {
    type Error = Error;

    fn try_from(level: u8) -> Result<Self, Error> {
        Self::new(level)
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_to_nine_pass() {
        for level in 0..=u8::MAX {
            assert_eq!(Priority::new(level).is_ok(), level <= 9, "{level}");
        }
        assert_eq!(
            Priority::ALL.map(Priority::get),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        );
        assert_eq!(Priority::default().get(), 5);
        assert!(serde_json::from_str::<Priority>("10").is_err());
    }
}
