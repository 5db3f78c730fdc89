//! ax: a task scheduler and workflow engine that lives inside a Rust service.
//!
//! Annotate functions with [`ax_job`](macro@ax_job), build an [`Ax`] on the database that the service already has, and
//! submit tasks for now, for later, or let a schedule do it. Every process that does so is a node; nodes meet only in the
//! database. This crate is all that a service depends on; what it re-exports is the whole interface.
//!
//! ```
//! use ax_sdk::prelude::*;
//! use ax_sdk::{Ax, secs};
//!
//! /// Closes an order that was not paid in time.
//! #[ax_job(name = "order.close", retries = 3, timeout = "30s")]
//! async fn close_order(order_id: u64) -> JobResult<String> {
//!     Ok(format!("order {order_id} is closed"))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), ax_sdk::Error> {
//! let ax = Ax::builder("sqlite::memory:").start().await?;
//! let now = ax.submit(close_order::task(42)).await?;
//! let later = ax.submit(close_order::task(43).delay(secs(3600)).key("order-43")).await?;
//! println!("{:?}", now.outcome().await?);
//! ax.cancel(later.id()).await?;
//! ax.shutdown().await;
//! # Ok(())
//! # }
//! ```

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod ax;
mod builder;
mod handle;
pub mod prelude;

pub use ax::{Ax, Transaction};
pub use ax_core::{
    AttemptEnd, Backoff, Cron, Error, ErrorKind, JobError, JobErrorKind, JobName, JobResult, Key,
    KeyMode, Limits, Misfire, Namespace, NewTask, NodeId, OnLost, Outcome, Overlap, Priority,
    ResultExt, RetryPolicy, State as TaskState, Submission, Task, TaskId, Tick, Timestamp, Trigger,
    When, days, hours, mins, secs,
};
pub use ax_engine::config::{Config, Ownership, Roles};
pub use ax_engine::db::{CallerConnection, Source};
pub use ax_engine::engine::Stats;
pub use ax_engine::job::{
    Argument, ExecutionId, FromJob, JobCall, JobContext, JobDef, JobFailure, JobReturn, State,
};
pub use ax_engine::store::{CancelResult, Changed, Count, Execution, Peer, TaskFilter};
pub use ax_macros::{ax_job, ax_schedule};
pub use builder::AxBuilder;
pub use handle::Handle;

/// Links the jobs of a crate that nothing else in the program names.
///
/// A library that `main` never mentions is not linked at all, and its jobs would silently be missing.
#[macro_export]
macro_rules! link_jobs {
    ($($name:ident),+ $(,)?) => {
        $(use $name as _;)+
    };
}
