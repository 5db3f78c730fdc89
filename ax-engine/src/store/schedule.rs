//! Schedules: definitions by name, and the one transaction that fires a tick.

use std::sync::Arc;

use ax_core::{Error, JobName, Misfire, Namespace, Overlap, TaskId, Timestamp, Trigger};

use super::{Store, TaskRow};

/// Whether a schedule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleState {
    /// It fires.
    Active,
    /// An operator paused it.
    Paused,
    /// Its trigger can never fire.
    NeverFires,
    /// Its last tick has fired.
    Ended,
}

impl ScheduleState {
    /// The stored number.
    #[must_use]
    pub const fn code(self) -> i64 {
        match self {
            Self::Active => 0,
            Self::Paused => 1,
            Self::NeverFires => 2,
            Self::Ended => 3,
        }
    }

    /// The state of a stored number.
    #[must_use]
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::Active),
            1 => Some(Self::Paused),
            2 => Some(Self::NeverFires),
            3 => Some(Self::Ended),
            _ => None,
        }
    }
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleRow {
    /// Whose schedule it is.
    pub namespace: Namespace,
    /// Its name, unique within the namespace.
    pub name: Arc<str>,
    /// The job it makes tasks of.
    pub job: JobName,
    /// When it fires.
    pub trigger: Trigger,
    /// The payload of its tasks, JSON text.
    pub payload: Arc<str>,
    /// What becomes of missed ticks.
    pub misfire: Misfire,
    /// What happens while an earlier task is not finished.
    pub overlap: Overlap,
    /// Whether it fires.
    pub state: ScheduleState,
    /// The next tick; [`Timestamp::MAX`] for none.
    pub next_at: Timestamp,
    /// The last tick that fired.
    pub last_at: Option<Timestamp>,
    /// Raised at every change of the definition; fences ticks that are already in memory.
    pub version: i64,
    /// Who wrote it: `code`, or the name of an operator.
    pub source: Arc<str>,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What became of a tick that made no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TickOutcome {
    /// It made a task.
    Fired,
    /// It was left out by a rule.
    Skipped,
    /// Its time passed while nobody could fire it.
    Misfired,
}

impl TickOutcome {
    /// The stored number.
    #[must_use]
    pub const fn code(self) -> i64 {
        match self {
            Self::Fired => 0,
            Self::Skipped => 1,
            Self::Misfired => 2,
        }
    }
}

/// Why a tick made no task, or what went with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedTick {
    /// What became of it; with a task: [`TickOutcome::Fired`].
    pub outcome: TickOutcome,
    /// In words.
    pub reason: String,
    /// How many further ticks were dropped with it.
    pub dropped: i64,
}

/// One tick to fire.
#[derive(Clone, Debug)]
pub struct Fire {
    /// Whose schedule it is.
    pub namespace: Namespace,
    /// Its name.
    pub name: Arc<str>,
    /// The version of the definition that the tick was computed from.
    pub version: i64,
    /// The tick: the schedule's `next_at`.
    pub tick: Timestamp,
    /// The tick after it; [`Timestamp::MAX`] for none.
    pub next_at: Timestamp,
    /// Whether the schedule can never fire again.
    pub ended: bool,
    /// The task to make, if any.
    pub row: Option<TaskRow>,
    /// What to record beside it.
    pub skipped: Option<SkippedTick>,
}

/// What a fire did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fired {
    /// The schedule moved on and the tick is recorded.
    Yes,
    /// Another node was first, or the schedule changed.
    Lost,
}

impl Store {
    /// Writes a definition by name: inserts it, or changes what differs. `next_at` and `state` of a stored schedule are
    /// replaced only where its trigger changed; a pause by an operator stays. Returns the schedule as stored.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn upsert_schedule(&self, row: &ScheduleRow) -> Result<ScheduleRow, Error> {
        let _ = row;
        todo!()
    }

    /// All schedules of a namespace by name.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn schedules(&self, namespace: &Namespace) -> Result<Vec<ScheduleRow>, Error> {
        let _ = namespace;
        todo!()
    }

    /// Active schedules of all namespaces whose next tick is not after `until`, the earliest first.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn schedules_due(&self, until: Timestamp) -> Result<Vec<ScheduleRow>, Error> {
        let _ = until;
        todo!()
    }

    /// Fires a tick: moves the schedule on, inserts the task and records the tick, in one transaction that begins with
    /// the check that the schedule is still the same and the tick is due by the database's clock.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn fire(&self, fire: &Fire) -> Result<Fired, Error> {
        let _: (&Fire, Option<TaskId>) = (fire, None);
        todo!()
    }
}
