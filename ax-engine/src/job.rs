//! What a job is to the engine: its definition, its handler, and how parameters reach it.
//!
//! Enters: definitions made by `#[ax_job]` (or by hand) and the call of one attempt. Leaves: a [`Registry`] that resolves
//! names and policies, and the JSON text a handler gave. This room never touches the database and never starts anything;
//! it knows no task row, only what a handler may see of it.

mod context;
mod inject;
mod payload;
mod registry;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, JobName, JobResult, NewTask, OnLost, Priority, Submission, When};

pub use context::{ContextParts, ExecutionId, JobContext};
pub use inject::{FromJob, State, States};
pub use payload::{Argument, Arguments, ArgumentsWriter, JobFailure, JobReturn, decode, encode};
pub use registry::{JobKind, RegisteredJob, Registry};

/// A registered function: everything the engine must know before the first task of it arrives.
///
/// `#[ax_job]` makes one as a constant (`close_order::JOB`); all texts in it were checked while compiling. A definition
/// written by hand is checked when it is added to a [`Registry`].
#[derive(Clone, Copy, Debug)]
pub struct JobDef {
    /// The name that stands in task rows, such as `order.close`.
    pub name: &'static str,
    /// Former names; tasks that carry one are run by this job.
    pub aliases: &'static [&'static str],
    /// How many retries follow the first attempt; `None` takes the default of the engine.
    pub max_retries: Option<u32>,
    /// The waits between attempts in the text form of a back-off, such as `exponential 1s x2 max 10m`.
    pub backoff: Option<&'static str>,
    /// Longest time of one attempt, in milliseconds; `None` takes the default of the engine (300 s).
    pub timeout_ms: Option<u64>,
    /// Lane of the tasks made by `task(…)`, 0 to 9, 9 first.
    pub priority: u8,
    /// What happens to a task whose worker died.
    pub on_lost: OnLost,
    /// Preset delay of the tasks made by `task(…)`, in milliseconds.
    pub delay_ms: Option<u64>,
    /// The schedules that make tasks of this job by themselves.
    pub schedules: &'static [ScheduleDef],
    /// Tells whether the states the handler asks for are there; the text names the missing type.
    pub check: fn(&States) -> Result<(), String>,
    /// The function itself, behind one of two signatures.
    pub handler: Handler,
    /// Source file of the function, for messages.
    pub file: &'static str,
    /// Line in [`file`](Self::file).
    pub line: u32,
}

impl JobDef {
    /// A task of this job with its presets; what is wrong with the arguments is reported when it is submitted.
    pub fn submission<T>(&self, arguments: ArgumentsWriter) -> Submission<T> {
        let (payload, mut fault) = match arguments.finish() {
            Ok(payload) => (payload, None),
            Err(text) => (
                String::new(),
                Some(Error::invalid(format!("job `{}`: {text}", self.name))),
            ),
        };
        let name = JobName::new(self.name).unwrap_or_else(|error| {
            fault.get_or_insert(error);
            nameless()
        });
        let mut task = NewTask::new(name, payload);
        match Priority::new(self.priority) {
            Ok(priority) => task.priority = priority,
            Err(error) => task.keep_fault(error),
        }
        task.on_lost = self.on_lost;
        if let Some(delay) = self.delay_ms {
            task.when = When::After(Duration::from_millis(delay));
        }
        task.fault = fault.or(task.fault);
        Submission::new(task)
    }

    /// The schedules with their names: the given one, or the name of the job, with `#2`, `#3` … from the second on.
    pub fn named_schedules(&self) -> impl Iterator<Item = (String, &'static ScheduleDef)> {
        let job = self.name;
        self.schedules
            .iter()
            .enumerate()
            .map(move |(index, schedule)| {
                let name = match (schedule.name, index) {
                    (Some(given), _) => given.to_owned(),
                    (None, 0) => job.to_owned(),
                    (None, later) => format!("{job}#{}", later + 1),
                };
                (name, schedule)
            })
    }
}

/// Stands in a task that carries a fault and is never stored.
fn nameless() -> JobName {
    #[expect(
        clippy::expect_used,
        reason = "a short text without control characters is a name"
    )]
    JobName::new("nameless").expect("a name")
}

/// How the function of a job is called.
#[derive(Clone, Copy)]
pub enum Handler {
    /// An `async fn`; polled by the runtime of the host.
    Async(fn(JobCall) -> HandlerFuture),
    /// A plain `fn`; runs on the pool of blocking threads.
    Blocking(fn(JobCall) -> JobResult<String>),
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
        })
    }
}

/// The running attempt of an async job; its value is the result as JSON text.
pub type HandlerFuture = Pin<Box<dyn Future<Output = JobResult<String>> + Send>>;

/// One schedule of a job, as written in `#[ax_schedule(…)]`.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleDef {
    /// Name of the schedule; [`JobDef::named_schedules`] fills in the default.
    pub name: Option<&'static str>,
    /// When it fires.
    pub trigger: TriggerDef,
    /// What happens to ticks that were missed, in text form (`fire_once`, `skip`, `fire_all(100)`, `fire_last_n(3)`).
    pub misfire: &'static str,
    /// What happens when the task of the former tick is still there, in text form (`skip`, `queue_one`, `allow(2)` …).
    pub overlap: &'static str,
}

/// When a schedule fires; the parts of an `ax_core::Trigger` that can stand in a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerDef {
    /// At a fixed rate.
    Every {
        /// Milliseconds from one tick to the next.
        ms: u64,
    },
    /// A pause after the end of the former task.
    FixedDelay {
        /// Milliseconds of the pause.
        ms: u64,
    },
    /// At the instants of a cron text.
    Cron {
        /// The cron text, five to seven fields or a nickname.
        text: &'static str,
        /// IANA name of the zone the text is read in.
        zone: &'static str,
    },
}

/// What one attempt hands to a handler.
#[derive(Clone, Debug)]
pub struct JobCall {
    /// The payload as JSON text: an object with one field per parameter.
    pub payload: Arc<str>,
    /// The attempt itself.
    pub context: JobContext,
}

/// One entry of the list of jobs that a program links in; `#[ax_job]` submits it.
#[derive(Clone, Copy, Debug)]
pub struct JobEntry(pub JobDef);

inventory::collect!(JobEntry);
