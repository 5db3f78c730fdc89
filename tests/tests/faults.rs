//! Faults of the field between an engine and its database, staged to the statement, by the number of their case.
//!
//! Every case runs on a real database; what goes wrong is staged by `ax_tests::faults`. Nothing sleeps to wait for
//! something: cases await outcomes, notes of handlers, gates, or rows. Only outages last for a time.

#[path = "faults/clocks.rs"]
mod clocks;
#[path = "faults/completion.rs"]
mod completion;
#[path = "faults/crash.rs"]
mod crash;
#[path = "faults/failover.rs"]
mod failover;
#[path = "faults/jobs.rs"]
mod jobs;
#[path = "faults/lost_answers.rs"]
mod lost_answers;
#[path = "faults/partition.rs"]
mod partition;
#[path = "faults/reaper.rs"]
mod reaper;
