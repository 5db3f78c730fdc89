//! Single values of a row, read and written.
//!
//! Reading forgives what hands can do to a row: an odd name is made readable, a number out of range counts as the usual
//! or the careful one. Only a state that does not exist is an error, because nothing right can be done with such a row.

use std::time::Duration;

use ax_core::{Error, JobName, MAX_NAME_BYTES, Namespace, OnLost, Priority, State};

use crate::db::Row;

/// Reads a state's number.
pub(super) fn state_of(row: &Row, column: usize) -> Result<State, Error> {
    let code = row.int(column)?;
    i16::try_from(code)
        .ok()
        .and_then(State::from_code)
        .ok_or_else(|| row.corrupt(column, "the number of a state"))
}

/// A priority as it stands in a row; a number out of range counts as the usual one.
pub(super) fn priority_of(level: i64) -> Priority {
    u8::try_from(level)
        .ok()
        .and_then(|level| Priority::new(level).ok())
        .unwrap_or_default()
}

/// What a row says about lost workers; an unknown number counts as the careful one.
pub(super) fn on_lost_of(code: i64) -> OnLost {
    i16::try_from(code)
        .ok()
        .and_then(OnLost::from_code)
        .unwrap_or(OnLost::Fail)
}

/// A job's name as it stands in a row; one that could not have been submitted is made readable.
pub(super) fn job_of(text: &str) -> JobName {
    JobName::new(text)
        .or_else(|_| JobName::new(&readable(text)))
        .unwrap_or_else(|_| unreachable_name())
}

/// A namespace as it stands in a row; one that could not have been submitted is made readable.
pub(super) fn namespace_of(text: &str) -> Namespace {
    Namespace::new(text)
        .or_else(|_| Namespace::new(&readable(text)))
        .unwrap_or_default()
}

#[expect(
    clippy::expect_used,
    reason = "the text is a constant that fits the rules of names"
)]
fn unreachable_name() -> JobName {
    JobName::new("?").expect("a question mark is a name")
}

/// The text without control characters, cut to the length of a name, never empty.
fn readable(text: &str) -> String {
    let mut clean: String = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    while clean.len() > MAX_NAME_BYTES {
        clean.pop();
    }
    if clean.is_empty() {
        "?".to_owned()
    } else {
        clean
    }
}

/// Reads a stored JSON array of tags; a damaged one counts as none, because tags decide nothing.
pub(super) fn parse_tags(text: Option<&str>) -> Vec<String> {
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// A span as milliseconds of a row.
pub(super) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds of a row as a span; a negative number counts as none.
pub(super) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// A count of a row; a negative number counts as none.
pub(super) fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}
