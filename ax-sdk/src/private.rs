//! What the code of `#[ax_job]` names. Not part of the interface: it changes without notice.

pub use ax_core::{JobResult, OnLost, Submission};
pub use ax_engine::job::{
    Argument, Arguments, ArgumentsWriter, FromJob, Handler, HandlerFuture, JobCall, JobDef,
    JobEntry, JobReturn, ScheduleDef, States, TriggerDef,
};
pub use inventory;

/// What `task(…)` of a function gives that returns `R`.
pub type TaskOf<R> = Submission<<R as JobReturn>::Output>;
