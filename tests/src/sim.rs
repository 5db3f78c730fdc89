//! Deterministic simulation: whole clusters of engines on a simulated database, in virtual time, from one seed.
//!
//! The engine and the store run unchanged; what is replaced is what they stand on: the database ([`Database`]), the clock and
//! the spawning of futures. One thread polls every future of every node in an order that the seed draws, so a run can be
//! repeated exactly. Enters: a seed and, for seeded bugs, a [`Mutation`]. Leaves: a [`Report`] with the first rule
//! ([`Check`]) that was broken, if any.
//!
//! [`Database`]: ax_engine::db::Database

mod book;
mod chaos;
mod check;
mod columns;
mod database;
mod dice;
mod executor;
mod hand;
mod jobs;
mod mutation;
mod network;
mod outside;
mod server;
mod statements;
mod tables;
mod trace;
mod weather;
mod workload;
mod world;

pub use check::{Check, Violation};
pub use hand::Simulated;
pub use mutation::Mutation;
pub use world::{Options, Report, run};
