//! The words of ax: ids, tasks, the state machine, policies and triggers.
//!
//! Every other crate speaks in these types. In: values from callers, attributes and rows. Out: checked values and
//! pure decisions. Nothing here does I/O, reads a clock, draws a random number or knows a database.
//!
//! | module | for |
//! |---|---|
//! | `id`, `name`, `priority`, `time` | the small words |
//! | `state` | the one state machine |
//! | `task`, `text` | a task as asked for and as read back, and the checks of its texts |
//! | `outcome`, `policy` | how attempts end and what follows |
//! | `trigger`, `cron` | when schedules fire |
//! | `error` | the one error type |

mod cron;
mod error;
mod id;
mod name;
mod outcome;
mod policy;
mod priority;
mod state;
mod task;
mod text;
mod time;
mod trigger;

pub use cron::Cron;
pub use error::{Error, ErrorKind};
pub use id::{NodeId, RunId, TaskId, Token};
pub use name::{JobName, MAX_NAME_BYTES, Namespace, check_name};
pub use outcome::{AttemptEnd, JobError, JobErrorKind, JobResult, Outcome, ResultExt};
pub use policy::{Backoff, Misfire, OnLost, Overlap, RetryPolicy};
pub use priority::Priority;
pub use state::{CancelMark, Event, State, Status, next, state_machine_markdown};
pub use task::{Key, KeyMode, NewTask, Submission, Task, Tick, When};
pub use text::{Limits, check_json, clean_text};
pub use time::{MAX_DELAY, Timestamp, days, format_duration, hours, mins, parse_duration, secs};
pub use trigger::Trigger;
