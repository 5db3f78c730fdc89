//! Placeholder.

pub mod credit;
pub mod job;
pub mod lanes;
pub mod observer;
pub mod shard;
pub mod wheel;
pub mod db;
pub mod store;
