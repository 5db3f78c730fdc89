//! Questions of people and callers; none of them is on the road of a task.

use std::sync::Arc;

use ax_core::{
    AttemptEnd, Error, JobName, Namespace, NodeId, RetryPolicy, State, Task, TaskId, Timestamp,
    Token,
};

use super::Store;
use super::cells::{count, job_of, state_of};
use super::claim::fetch_payloads;
use super::rows::{Record, TASK_COLUMNS};
use super::session::{Desk, again};
use super::text::Sql;
use crate::db::{DbResult, Lane, Row, Value};

/// Which tasks to list.
#[derive(Clone, Debug)]
pub struct TaskFilter {
    /// Whose tasks.
    pub namespace: Namespace,
    /// Only this job.
    pub job: Option<JobName>,
    /// Only these states; empty for all.
    pub states: Vec<State>,
    /// Only this key.
    pub key: Option<String>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only tasks submitted before this one: the last of the page before.
    pub after: Option<TaskId>,
    /// At most this many tasks.
    pub limit: u32,
}

impl TaskFilter {
    /// Every task of a namespace, 100 a page.
    #[must_use]
    pub const fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            job: None,
            states: Vec::new(),
            key: None,
            tag: None,
            after: None,
            limit: 100,
        }
    }
}

/// How many tasks of a job are in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The job.
    pub job: JobName,
    /// The state.
    pub state: State,
    /// Pending and due: shown as `ready`.
    pub ready: bool,
    /// How many.
    pub count: u64,
}

/// An attempt that did not end its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The task.
    pub task: TaskId,
    /// The claim's number.
    pub fence: i64,
    /// The round it belongs to.
    pub round: i64,
    /// The claim's token.
    pub token: Token,
    /// Who ran it.
    pub node: NodeId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Why it ended.
    pub reason: AttemptEnd,
    /// Its error, if any.
    pub error: Option<Arc<str>>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When the handler started, if it did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// How one round of a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeRow {
    /// The task.
    pub id: TaskId,
    /// The round that ended.
    pub round: i64,
    /// How.
    pub state: State,
    /// JSON text, when it succeeded.
    pub result: Option<Arc<str>>,
    /// The last error.
    pub error: Option<Arc<str>>,
}

impl Store {
    /// A task by id: the live row, else its latest round.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn find(&self, id: TaskId) -> Result<Option<Task>, Error> {
        again!(self, async {
            let mut session = self.session(Lane::Read).await?;
            let mut desk = session.desk();
            let key = || vec![Value::from(id.as_bytes())];
            let mut row = desk.read_one(Sql::ReadTask, key()).await?;
            if row.is_none() {
                row = desk.read_one(Sql::ReadHistory, key()).await?;
            }
            let rows: Vec<Row> = row.into_iter().collect();
            DbResult::Ok(tasks(&mut desk, &rows).await?.pop())
        })
    }

    /// Tasks, live and ended, the youngest submit first; one entry per round.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn list(&self, filter: &TaskFilter) -> Result<Vec<Task>, Error> {
        again!(self, async {
            let mut session = self.session(Lane::Read).await?;
            let mut desk = session.desk();
            let mut rows = Vec::new();
            if filter.wants(|state| !state.is_final()) {
                rows.extend(desk.read(Sql::ListTasks, filter.values()).await?);
            }
            if filter.wants(State::is_final) {
                rows.extend(filter.ended(&mut desk).await?);
            }
            let mut tasks = tasks(&mut desk, &rows).await?;
            tasks.sort_by_key(|task| std::cmp::Reverse((task.id, task.round)));
            tasks.truncate(filter.limit as usize);
            DbResult::Ok(tasks)
        })
    }

    /// How many tasks of each job are in each state.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn counts(&self, namespace: &Namespace) -> Result<Vec<Count>, Error> {
        again!(self, async {
            let mut session = self.session(Lane::Read).await?;
            let mut desk = session.desk();
            let key = || vec![Value::from(namespace.as_str())];
            let mut counts = Vec::new();
            for row in desk.read(Sql::CountTasks, key()).await? {
                let (ready, count) = (row.int(2)? != 0, row.int(3)?.unsigned_abs());
                counts.push(Count {
                    job: job_of(row.text(0)?),
                    state: state_of(&row, 1)?,
                    ready,
                    count,
                });
            }
            for row in desk.read(Sql::CountHistory, key()).await? {
                let count = row.int(2)?.unsigned_abs();
                counts.push(Count {
                    job: job_of(row.text(0)?),
                    state: state_of(&row, 1)?,
                    ready: false,
                    count,
                });
            }
            DbResult::Ok(counts)
        })
    }

    /// The attempts of a task that did not end it, in order.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn executions(&self, id: TaskId) -> Result<Vec<Execution>, Error> {
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read(Sql::Executions, vec![Value::from(id.as_bytes())])
                .await
        })?;
        rows.iter().map(Execution::read).collect()
    }

    /// How those of the tasks ended that have ended: every round that the history has, by task and round.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn outcomes(&self, ids: &[TaskId]) -> Result<Vec<OutcomeRow>, Error> {
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read_list(Sql::Outcomes, &[], ids)
                .await
        })?;
        rows.iter().map(OutcomeRow::read).collect()
    }
}

/// Reads rows of `TASK` columns, with or without the four of the history, and fetches payloads kept apart.
async fn tasks(desk: &mut Desk<'_>, rows: &[Row]) -> DbResult<Vec<Task>> {
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        records.push(Record::read(row)?);
    }
    fetch_payloads(desk, records.iter_mut().map(|record| &mut record.task)).await?;
    let tasks: Result<Vec<Task>, Error> = records
        .into_iter()
        .zip(rows)
        .map(|(record, row)| task(record, row))
        .collect();
    Ok(tasks?)
}

fn task(record: Record, row: &Row) -> Result<Task, Error> {
    let ended = row.values().len() > TASK_COLUMNS;
    let time = |column| {
        if ended {
            row.time_opt(column)
        } else {
            Ok(None)
        }
    };
    let result = if ended {
        row.text_opt(TASK_COLUMNS + 2)?
    } else {
        None
    };
    let claimed = record.task;
    let owned = |text: Option<Arc<str>>| text.as_deref().map(str::to_owned);
    Ok(Task {
        state: record.state,
        node: record.node,
        claimed_at: record.claimed_at,
        cancel_requested_at: record.cancel_at,
        started_at: time(TASK_COLUMNS)?,
        finished_at: time(TASK_COLUMNS + 1)?,
        result: result.map(ToString::to_string),
        id: claimed.id,
        round: count(claimed.round),
        priority: claimed.priority,
        ready_at: claimed.ready_at,
        deadline: (claimed.deadline != Timestamp::MAX).then_some(claimed.deadline),
        payload: claimed.payload.to_string(),
        tags: claimed.tag_list(),
        key: owned(claimed.key),
        route_key: owned(claimed.route_key),
        max_retries: claimed
            .max_retries
            .unwrap_or(RetryPolicy::default().max_retries),
        timeout: claimed.timeout,
        created_at: claimed.created_at,
        attempt: claimed.attempt,
        lost: claimed.lost,
        fence: claimed.fence,
        error: owned(claimed.error),
        schedule: claimed.tick,
        trace: owned(claimed.trace),
        run: claimed.run,
        step: claimed.step,
        map_index: claimed.map_index,
        namespace: claimed.namespace,
        job: claimed.job,
    })
}

impl TaskFilter {
    fn wants(&self, which: impl Fn(State) -> bool) -> bool {
        self.states.is_empty() || self.states.iter().any(|state| which(*state))
    }

    /// The last id of the page before, or one above all.
    fn before(&self) -> Value {
        Value::from(self.after.as_ref().map_or(&[0xff; 16], TaskId::as_bytes))
    }

    fn values(&self) -> Vec<Value> {
        let mut values = vec![
            Value::from(self.namespace.as_str()),
            self.before(),
            Value::from(self.job.as_ref().map(JobName::as_str)),
            Value::from(self.key.as_deref()),
            Value::from(self.tag.as_deref()),
        ];
        let states: &[State] = if self.states.is_empty() {
            &State::ALL
        } else {
            &self.states
        };
        let code = |place: usize| {
            states
                .get(place)
                .or(states.first())
                .map(|state| i64::from(state.code()))
        };
        values.extend((0..State::ALL.len()).map(|place| Value::from(code(place))));
        values.push(Value::from(i64::from(self.limit)));
        values
    }

    /// The finished rounds of the filter; by the key's own index where job and key are all that is asked.
    async fn ended(&self, desk: &mut Desk<'_>) -> DbResult<Vec<Row>> {
        let (Some(job), Some(key), None, true) =
            (&self.job, &self.key, &self.tag, self.states.is_empty())
        else {
            return desk.read(Sql::ListHistory, self.values()).await;
        };
        let values = vec![
            Value::from(self.namespace.as_str()),
            Value::from(job.as_str()),
            Value::from(&**key),
            self.before(),
            Value::from(i64::from(self.limit)),
        ];
        desk.read(Sql::ListHistoryByKey, values).await
    }
}

impl Execution {
    fn read(row: &Row) -> Result<Self, Error> {
        let reason = i16::try_from(row.int(6)?)
            .ok()
            .and_then(AttemptEnd::from_code);
        Ok(Self {
            task: TaskId::from_bytes(row.id(0)?),
            fence: row.int(1)?,
            round: row.int(2)?,
            token: Token::from_bytes(row.id(3)?),
            node: NodeId::from_bytes(row.id(4)?),
            attempt: count(row.int(5)?),
            reason: reason.ok_or_else(|| row.corrupt(6, "the number of an attempt's end"))?,
            error: row.text_opt(7)?.map(Arc::clone),
            claimed_at: row.time(8)?,
            started_at: row.time_opt(9)?,
            finished_at: row.time(10)?,
        })
    }
}

impl OutcomeRow {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            id: TaskId::from_bytes(row.id(0)?),
            round: row.int(1)?,
            state: state_of(row, 2)?,
            result: row.text_opt(3)?.map(Arc::clone),
            error: row.text_opt(4)?.map(Arc::clone),
        })
    }
}
