//! Placeholder.
use super::Sql;
use std::borrow::Cow;
pub(super) fn template(_sql: Sql) -> Option<Cow<'static, str>> { None }
