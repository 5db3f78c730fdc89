//! Schedules: definitions by name, and the one transaction that fires a tick.

use std::sync::Arc;

use ax_core::{
    Error, ErrorKind, JobName, Misfire, Namespace, OnLost, Overlap, Priority, TaskId, Timestamp,
    Trigger,
};

use super::cells::{job_of, namespace_of, on_lost_of, priority_of};
use super::session::{Desk, again};
use super::submit::insert_pending;
use super::text::Sql;
use super::{Store, TaskRow};
use crate::db::{DbError, DbErrorKind, DbResult, Lane, Row, Value};

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
    /// The lane of its tasks.
    pub priority: Priority,
    /// What becomes of its tasks when their worker dies.
    pub on_lost: OnLost,
    /// Whether it fires.
    pub state: ScheduleState,
    /// The next tick; [`Timestamp::MAX`] for none.
    pub next_at: Timestamp,
    /// The last tick that fired or was left out.
    pub last_at: Option<Timestamp>,
    /// The task of the last tick that made one.
    pub last_task: Option<TaskId>,
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
    /// The stored `next_at` that the step was decided from.
    pub tick: Timestamp,
    /// The tick that fires or is left out, recorded as `last_at` and in `ax_tick`: `tick`, or a later one when those
    /// before it are dropped.
    pub at: Timestamp,
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
        again!(self, self.upsert_schedule_once(row))
    }

    /// All schedules of a namespace by name.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn schedules(&self, namespace: &Namespace) -> Result<Vec<ScheduleRow>, Error> {
        self.read_schedules(Sql::Schedules, Value::from(namespace.as_str()))
            .await
    }

    /// Active schedules of all namespaces whose next tick is not after `until`, the earliest first.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn schedules_due(&self, until: Timestamp) -> Result<Vec<ScheduleRow>, Error> {
        self.read_schedules(Sql::SchedulesDue, Value::from(until))
            .await
    }

    /// Fires a tick: moves the schedule on, inserts the task and records the tick, in one transaction that begins with
    /// the check that the schedule is still the same and the tick is due by the database's clock.
    ///
    /// A tick that was fired before (its schedule was set back) makes no second task, but the schedule moves on.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn fire(&self, fire: &Fire) -> Result<Fired, Error> {
        again!(self, async {
            let mut tx = self.begin(Lane::Write).await?;
            let fired = fire_in(&mut tx.desk(), fire).await;
            tx.end(fired).await
        })
    }

    async fn read_schedules(&self, sql: Sql, value: Value) -> Result<Vec<ScheduleRow>, Error> {
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read(sql, vec![value.clone()])
                .await
        })?;
        // One schedule that cannot be read must not stop the others.
        let read = |row: &Row| {
            ScheduleRow::read(row)
                .inspect_err(|error| tracing::error!(%error, "a schedule is left out"))
                .ok()
        };
        Ok(rows.iter().filter_map(read).collect())
    }

    async fn upsert_schedule_once(&self, row: &ScheduleRow) -> DbResult<ScheduleRow> {
        let changed = || {
            DbError::new(
                DbErrorKind::Retry,
                "the schedule changed meanwhile; try again",
            )
        };
        let mut session = self.session(Lane::Write).await?;
        let mut desk = session.desk();
        let mut stored = read_schedule(&mut desk, row).await?;
        if stored.is_none() {
            desk.run(Sql::InsertSchedule, row.insert_values()?).await?;
            stored = read_schedule(&mut desk, row).await?;
        }
        let stored = ScheduleRow::read(&stored.ok_or_else(changed)?)?;
        let Some(wanted) = row.change_of(&stored)? else {
            return Ok(stored);
        };
        match desk
            .run(Sql::UpdateSchedule, wanted.update_values()?)
            .await?
        {
            1 => Ok(ScheduleRow {
                version: stored.version + 1,
                ..wanted
            }),
            _ => Err(changed()),
        }
    }
}

async fn read_schedule(desk: &mut Desk<'_>, row: &ScheduleRow) -> DbResult<Option<Row>> {
    desk.read_one(
        Sql::ReadSchedule,
        vec![Value::from(row.namespace.as_str()), Value::from(&row.name)],
    )
    .await
}

async fn fire_in(desk: &mut Desk<'_>, fire: &Fire) -> DbResult<Fired> {
    if desk
        .run(Sql::AdvanceSchedule, fire.advance_values())
        .await?
        == 0
    {
        return Ok(Fired::Lost);
    }
    let first = desk.run(Sql::InsertTick, fire.tick_values()).await? == 1;
    if let Some(row) = fire.row.as_ref().filter(|_| first) {
        insert_pending(desk, std::slice::from_ref(row)).await?;
    }
    Ok(Fired::Yes)
}

impl Fire {
    fn task(&self) -> Value {
        Value::from(self.row.as_ref().map(|row| row.id.as_bytes()))
    }

    fn advance_values(&self) -> Vec<Value> {
        let state = if self.ended {
            ScheduleState::Ended
        } else {
            ScheduleState::Active
        };
        vec![
            Value::from(state.code()),
            Value::from(self.next_at),
            Value::from(self.at),
            self.task(),
            Value::from(self.namespace.as_str()),
            Value::from(&self.name),
            Value::from(self.version),
            Value::from(self.tick),
        ]
    }

    fn tick_values(&self) -> Vec<Value> {
        let skipped = self.skipped.as_ref();
        let outcome = match (skipped, &self.row) {
            (Some(skipped), _) => skipped.outcome,
            (None, Some(_)) => TickOutcome::Fired,
            (None, None) => TickOutcome::Skipped,
        };
        vec![
            Value::from(self.namespace.as_str()),
            Value::from(&self.name),
            Value::from(self.at),
            Value::from(outcome.code()),
            Value::from(skipped.map(|skipped| &*skipped.reason)),
            self.task(),
            Value::from(skipped.map_or(0, |skipped| skipped.dropped)),
        ]
    }
}

impl ScheduleRow {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            namespace: namespace_of(row.text(0)?),
            name: Arc::clone(row.text(1)?),
            job: job_of(row.text(2)?),
            trigger: serde_json::from_str(row.text(3)?)
                .map_err(|error| row.corrupt(3, "a trigger").with_source(error))?,
            payload: Arc::clone(row.text(4)?),
            misfire: row.text(5)?.parse().unwrap_or_default(),
            overlap: row.text(6)?.parse().unwrap_or_default(),
            priority: priority_of(row.int(7)?),
            on_lost: on_lost_of(row.int(8)?),
            state: ScheduleState::from_code(row.int(9)?)
                .ok_or_else(|| row.corrupt(9, "the number of a schedule state"))?,
            next_at: row.time(10)?,
            last_at: row.time_opt(11)?,
            last_task: row.id_opt(12)?.map(TaskId::from_bytes),
            version: row.int(13)?,
            source: Arc::clone(row.text(14)?),
            updated_at: row.time(15)?,
        })
    }

    fn trigger_text(&self) -> Result<String, Error> {
        serde_json::to_string(&self.trigger).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the trigger cannot be written as JSON")
                .with_source(error)
        })
    }

    /// The columns that a definition decides, from the job to `next_at`.
    fn definition(&self) -> Result<[Value; 9], Error> {
        Ok([
            Value::from(self.job.as_str()),
            Value::from(&*self.trigger_text()?),
            Value::from(&self.payload),
            Value::from(&*self.misfire.to_string()),
            Value::from(&*self.overlap.to_string()),
            Value::from(i64::from(self.priority.get())),
            Value::from(i64::from(self.on_lost.code())),
            Value::from(self.state.code()),
            Value::from(self.next_at),
        ])
    }

    fn insert_values(&self) -> Result<Vec<Value>, Error> {
        let mut values = vec![
            Value::from(self.namespace.as_str()),
            Value::from(&self.name),
        ];
        values.extend(self.definition()?);
        values.push(Value::from(&self.source));
        Ok(values)
    }

    fn update_values(&self) -> Result<Vec<Value>, Error> {
        let mut values = Vec::from(self.definition()?);
        values.extend([
            Value::from(&self.source),
            Value::from(self.namespace.as_str()),
            Value::from(&self.name),
        ]);
        values.push(Value::from(self.version));
        Ok(values)
    }

    /// The stored row with this definition put over it; `None` where nothing differs.
    fn change_of(&self, stored: &Self) -> Result<Option<Self>, Error> {
        let retimed = self.trigger_text()? != stored.trigger_text()?;
        let mut wanted = Self {
            version: stored.version,
            last_at: stored.last_at,
            last_task: stored.last_task,
            updated_at: stored.updated_at,
            ..self.clone()
        };
        if !retimed {
            wanted.next_at = stored.next_at;
        }
        if !retimed || stored.state == ScheduleState::Paused {
            wanted.state = stored.state;
        }
        Ok((wanted != *stored).then_some(wanted))
    }
}
