//! Names of jobs and namespaces: checked once, then cheap to clone and compared byte by byte.
//!
//! In: text from code, configuration or a row. Out: [`JobName`] and [`Namespace`], which are never empty,
//! never longer than [`MAX_NAME_BYTES`] and hold no control character.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The longest name of a job, namespace, key, tag or route key, in bytes.
pub const MAX_NAME_BYTES: usize = 200;

macro_rules! name {
    ($name:ident, $what:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and keeps a name.
            ///
            /// # Errors
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is empty, longer than
            /// [`MAX_NAME_BYTES`], or holds a control character.
            pub fn new(text: &str) -> Result<Self, Error> {
                check_name($what, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        // `Hash`, `Eq` and `Ord` of the newtype are those of its text, as `Borrow` demands.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                Self::from(&*name.0)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    };
}

name!(JobName, "job name", "The name of a registered function.");
name!(
    Namespace,
    "namespace",
    "Whose tasks these are; names and keys of two namespaces never meet."
);

impl Default for Namespace {
    /// The namespace `default`.
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

/// Checks a name in one pass; also used at compile time by the attribute macros.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with `what` in the text.
pub fn check_name(what: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::invalid(format!(
            "{what} is empty; give it at least one character"
        )));
    }
    if text.len() > MAX_NAME_BYTES {
        let length = text.len();
        return Err(Error::invalid(format!(
            "{what} has {length} bytes; at most {MAX_NAME_BYTES} are allowed"
        )));
    }
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(found) => Err(Error::invalid(format!(
            "{what} holds the control character U+{:04X}; remove it",
            u32::from(found)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn good_names_pass_and_compare_byte_by_byte() {
        let name = JobName::new("order.close").unwrap();
        assert_eq!(name, "order.close");
        assert_ne!(name, JobName::new("order.Close").unwrap());
        assert_ne!(name, JobName::new("order.close ").unwrap());
        assert!(JobName::new("订单.关闭").is_ok());
        assert_eq!(Namespace::default(), Namespace::new("default").unwrap());
    }

    #[test]
    fn case_c24_a_name_with_nul_is_refused() {
        for bad in ["", "a\0b", "a\nb", "\u{7f}", &"x".repeat(201)] {
            assert!(JobName::new(bad).is_err(), "{bad:?}");
            assert!(
                serde_json::from_value::<Namespace>(bad.into()).is_err(),
                "{bad:?}"
            );
        }
        let error = JobName::new("a\0b").unwrap_err().to_string();
        assert_eq!(
            error,
            "job name holds the control character U+0000; remove it"
        );
        assert!(JobName::new(&"x".repeat(200)).is_ok());
    }

    #[test]
    fn a_set_is_asked_by_plain_text() {
        let set = HashSet::from([JobName::new("a").unwrap()]);
        assert!(set.contains("a"));
        assert_eq!(serde_json::to_string(&set).unwrap(), "[\"a\"]");
    }
}
