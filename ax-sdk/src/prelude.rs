//! What a module with jobs needs; no name in here is one of axum or clap.

pub use ax_core::{JobError, JobResult, ResultExt};
pub use ax_engine::job::JobContext;
pub use ax_macros::{ax_job, ax_schedule};
