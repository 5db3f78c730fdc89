//! Placeholder.

pub mod prelude;
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use ax_engine::job::{ExecutionId, FromJob, JobCall, JobContext, JobDef, State};
pub use ax_macros::{ax_job, ax_schedule};
