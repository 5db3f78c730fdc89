//! The engine through its public interface, every case on every database.
//!
//! A case takes a fresh database and asserts what a user of ax would see. Nothing sleeps to wait for something: cases
//! await outcomes, signals of handlers, or rows.

#[path = "engine/bad_input.rs"]
mod bad_input;
#[path = "engine/cases.rs"]
mod cases;
#[path = "engine/cluster.rs"]
mod cluster;
#[path = "engine/jobs.rs"]
mod jobs;
#[path = "engine/lifecycle.rs"]
mod lifecycle;
#[path = "engine/operate.rs"]
mod operate;
#[path = "engine/schedules.rs"]
mod schedules;
#[path = "engine/submits.rs"]
mod submits;
