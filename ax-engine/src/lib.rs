//! The road of a task in ax, from submit to outcome.
//!
//! One module per room of the road, in order: [`submit`], [`trigger`] (with [`discover`], [`agenda`], [`wheel`],
//! [`lanes`]), [`claim`], [`execute`], [`verdict`], [`report`]. Beside the road stand the cluster, heartbeats,
//! schedules, reconciling and the watches; below it the [`store`] (the only room with SQL) and [`db`] (the only room
//! with drivers). [`engine`] puts them together. `ARCHITECTURE.md` draws the picture.

pub mod agenda;
pub mod claim;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod credit;
pub mod db;
pub mod discover;
pub mod engine;
pub mod execute;
pub mod expire;
pub mod heartbeat;
pub mod job;
pub mod lanes;
pub mod lease;
pub mod node;
pub mod observer;
pub mod outcomes;
pub mod random;
pub mod reconcile;
pub mod report;
pub mod routes;
pub mod running;
pub mod schedule;
pub mod service;
pub mod shard;
pub mod slots;
pub mod spawn;
pub mod store;
pub mod strays;
pub mod submit;
pub mod trigger;
pub mod verdict;
pub mod watch;
pub mod wheel;
pub mod witness;
