//! Test harness of ax: what the suites in `tests/` stand on.

pub mod model;
pub mod tidy;
