//! Test harness of ax: what the suites in `tests/` stand on.

pub mod databases;
pub mod faults;
pub mod kill;
pub mod model;
pub mod sim;
pub mod tidy;
