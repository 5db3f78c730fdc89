//! Placeholder.

pub mod job;
