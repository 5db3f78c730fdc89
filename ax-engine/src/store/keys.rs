//! Uniqueness of keyed tasks: one row per key, the unique index decides.
//!
//! A submit inserts its key if it is absent, which waits for whoever is inserting the same one; so the answer is always
//! either "new" or somebody else's task, never neither. A key that is over is taken by compare-and-set.

use std::sync::Arc;

use ax_core::{Error, KeyMode, TaskId, Timestamp};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join};

use super::cells::millis;
use super::rows::Claimed;
use super::session::{Desk, Sent, again, pause_before_retry};
use super::submit::{
    Inserted, blames_a_row, insert_extras, insert_missing, insert_pending, refused,
};
use super::text::Sql;
use super::{Store, TaskRow};
use crate::db::{DbError, DbErrorKind, DbResult, Lane, Row, Value};

/// What a submitted row with a key became.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyPlaced {
    /// It is a new task (or had no key).
    New,
    /// The key is held by this task; nothing was inserted.
    Existing(TaskId),
    /// This waiting task took over payload, time and options of the row.
    Replaced(TaskId),
    /// The key is held by this task, and the mode was to reject.
    Rejected(TaskId),
}

/// How many keys one OR list names: planning it costs more than it saves beyond.
const KEYS_AT_ONCE: usize = 32;

/// How often a key may change hands while it is looked at, before the transaction begins anew.
const HANDS: usize = 8;

impl Store {
    /// Inserts rows with keys in one transaction, sorted by key so that two callers never wait for each other.
    ///
    /// One answer per row, in order. Sent again with the same ids it answers [`KeyPlaced::New`] again.
    /// `Replace` of a task that runs or has ended answers [`KeyPlaced::Existing`].
    pub async fn submit_keyed(&self, rows: &[TaskRow]) -> Vec<Result<KeyPlaced, Error>> {
        if rows.is_empty() {
            return Vec::new();
        }
        let mut tries = 0;
        loop {
            let sent = if tries == 0 { Sent::First } else { Sent::Again };
            let error = match self.submit_keyed_once(rows, sent).await {
                Ok(placed) => return placed.into_iter().map(Ok).collect(),
                Err(error) => error,
            };
            if rows.len() > 1
                && (blames_a_row(&error) || (tries > 0 && error.kind() == DbErrorKind::Retry))
            {
                return self.submit_keyed_halves(rows).await;
            }
            let Some(pause) = pause_before_retry(&error, tries) else {
                return refused(rows.len(), &error.into());
            };
            self.db.pause(pause).await;
            tries += 1;
        }
    }

    /// Deletes keys that no longer hold anything, at most `limit`; returns how many went.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn purge_keys(&self, limit: u32) -> Result<u64, Error> {
        again!(self, self.purge_keys_once(limit))
    }

    async fn submit_keyed_once(&self, rows: &[TaskRow], sent: Sent) -> DbResult<Vec<KeyPlaced>> {
        let mut tx = self.begin(Lane::Keyed).await?;
        let placed = place(&mut tx.desk(), rows, sent).await;
        // The first sending was committed while this one waited for it, or one id stands twice in the batch.
        let placed = placed.map_err(|error| match error.kind() {
            DbErrorKind::Unique if sent == Sent::First => error.as_kind(DbErrorKind::Retry),
            _ => error,
        });
        tx.end(placed).await
    }

    /// Inserts each half by itself, down to the row that is to blame, or whose key somebody holds in an open transaction:
    /// side by side, so that one waits for its key and the others do not.
    fn submit_keyed_halves<'a>(
        &'a self,
        rows: &'a [TaskRow],
    ) -> BoxFuture<'a, Vec<Result<KeyPlaced, Error>>> {
        async move {
            let (left, right) = rows.split_at(rows.len() / 2);
            let (mut answers, more) = join(self.submit_keyed(left), self.submit_keyed(right)).await;
            answers.extend(more);
            answers
        }
        .boxed()
    }

    async fn purge_keys_once(&self, limit: u32) -> DbResult<u64> {
        let mut session = self.session(Lane::Write).await?;
        let mut desk = session.desk();
        let over = desk
            .read(Sql::OverKeys, vec![Value::from(i64::from(limit))])
            .await?;
        let mut gone = 0;
        for some in over.chunks(KEYS_AT_ONCE) {
            let write = |row: &Row, values: &mut Vec<Value>| values.extend_from_slice(row.values());
            gone += desk.run_rows(Sql::DropKeys, &[], some, write).await?;
        }
        Ok(gone)
    }
}

/// A row's key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KeyName<'a> {
    namespace: &'a str,
    job: &'a str,
    key: &'a str,
}

impl KeyName<'_> {
    fn write(&self, values: &mut Vec<Value>) {
        values.extend([
            Value::from(self.namespace),
            Value::from(self.job),
            Value::from(self.key),
        ]);
    }
}

fn name(row: &TaskRow) -> Option<KeyName<'_>> {
    let key = row.key.as_ref()?;
    Some(KeyName {
        namespace: row.namespace.as_str(),
        job: row.job.as_str(),
        key: &key.text,
    })
}

/// Until when the key holds at least, 0 when only the task's life counts.
fn period_end(row: &TaskRow) -> Timestamp {
    let period = row.key.as_ref().and_then(|key| key.period);
    period.map_or(Timestamp::from_millis(0), |period| {
        row.created_at.plus(period)
    })
}

/// Places rows in the transaction of `desk`; answers in the order of `rows`.
pub(super) async fn place(
    desk: &mut Desk<'_>,
    rows: &[TaskRow],
    sent: Sent,
) -> DbResult<Vec<KeyPlaced>> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| name(&rows[*at]));
    let keyed: Vec<&TaskRow> = order
        .iter()
        .map(|at| &rows[*at])
        .filter(|row| row.key.is_some())
        .collect();
    let write = |row: &&TaskRow, values: &mut Vec<Value>| write_key(row, values);
    let fresh = desk.run_rows(Sql::InsertKeys, &[], &keyed, write).await?;
    if sent == Sent::First && fresh == keyed.len() as u64 && none_finished(desk, rows).await? {
        insert_pending(desk, rows).await?;
        return Ok(vec![KeyPlaced::New; rows.len()]);
    }
    let mut placed = vec![KeyPlaced::New; rows.len()];
    for at in order {
        placed[at] = place_one(desk, &rows[at]).await?;
    }
    Ok(placed)
}

fn write_key(row: &TaskRow, values: &mut Vec<Value>) {
    if let Some(name) = name(row) {
        name.write(values);
        values.extend([Value::from(row.id.as_bytes()), Value::from(period_end(row))]);
    }
}

/// Whether this is not a second sending of rows that have run meanwhile.
async fn none_finished(desk: &mut Desk<'_>, rows: &[TaskRow]) -> DbResult<bool> {
    let ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
    nothing_ended(desk, &ids).await
}

/// Whether none of the tasks has an ended round.
async fn nothing_ended(desk: &mut Desk<'_>, ids: &[TaskId]) -> DbResult<bool> {
    Ok(desk.read_list(Sql::ReadEnds, &[], ids).await?.is_empty())
}

/// Places a row whose key was inserted if it was absent.
async fn place_one(desk: &mut Desk<'_>, row: &TaskRow) -> DbResult<KeyPlaced> {
    let Some(name) = name(row) else {
        return insert_mine(desk, row).await;
    };
    for _ in 0..HANDS {
        let mut values = Vec::with_capacity(3);
        name.write(&mut values);
        let Some(found) = desk.read_one(Sql::ReadKeys, values).await? else {
            // Its holder ended between the insert, which waited for it, and the look.
            let mut values = Vec::with_capacity(5);
            write_key(row, &mut values);
            desk.run(Sql::InsertKeys, values).await?;
            continue;
        };
        let holder = TaskId::from_bytes(found.id(3)?);
        if holder == row.id {
            return insert_mine(desk, row).await;
        }
        if found.int(4)? == 0 {
            if !none_finished(desk, std::slice::from_ref(row)).await? {
                // Sent before, and run meanwhile: whoever holds the key now came after it.
                return Ok(KeyPlaced::New);
            }
            return yield_to(desk, row, holder).await;
        }
        if take_key(desk, name, (holder, row.id), period_end(row)).await? {
            return insert_mine(desk, row).await;
        }
    }
    Err(DbError::new(
        DbErrorKind::Retry,
        "the key changed hands again and again; try again",
    ))
}

/// Takes a key from a task that no longer needs it; whether it was still that task's.
async fn take_key(
    desk: &mut Desk<'_>,
    name: KeyName<'_>,
    (from, to): (TaskId, TaskId),
    until: Timestamp,
) -> DbResult<bool> {
    let mut values = vec![Value::from(to.as_bytes()), Value::from(until)];
    name.write(&mut values);
    values.push(Value::from(from.as_bytes()));
    Ok(desk.run(Sql::TakeKey, values).await? == 1)
}

/// Inserts the task of a key that is its own.
async fn insert_mine(desk: &mut Desk<'_>, row: &TaskRow) -> DbResult<KeyPlaced> {
    match insert_missing(desk, row).await? {
        Inserted::Yes => {}
        // Sent before: live, or finished; a finished one needs no key beyond its period.
        Inserted::Present if is_live(desk, row.id).await? => {}
        Inserted::Present => {
            let held: Vec<_> = name(row).map(|name| (name, row.id)).into_iter().collect();
            release_names(desk, &held).await?;
        }
        Inserted::Finished => {
            return Err(DbError::new(
                DbErrorKind::Retry,
                "the task of a lost submit has run meanwhile; try again",
            ));
        }
    }
    Ok(KeyPlaced::New)
}

async fn is_live(desk: &mut Desk<'_>, id: TaskId) -> DbResult<bool> {
    Ok(!desk.read_list(Sql::Inspect, &[], &[id]).await?.is_empty())
}

/// What a row becomes whose key a living task holds, or one whose period is not over.
async fn yield_to(desk: &mut Desk<'_>, row: &TaskRow, holder: TaskId) -> DbResult<KeyPlaced> {
    Ok(match row.key.as_ref().map(|key| key.mode) {
        Some(KeyMode::Reject) => KeyPlaced::Rejected(holder),
        Some(KeyMode::Replace) if replace(desk, row, holder).await? => KeyPlaced::Replaced(holder),
        _ => KeyPlaced::Existing(holder),
    })
}

/// Gives a waiting task the row's contents; whether it was still waiting.
async fn replace(desk: &mut Desk<'_>, row: &TaskRow, holder: TaskId) -> DbResult<bool> {
    let values = vec![
        // In the row whatever its size: the payload kept apart may belong to an earlier round's history.
        Value::from(&row.payload),
        Value::from(0),
        Value::from(i64::from(row.priority.get())),
        Value::from(row.ready_at),
        Value::from(row.deadline),
        Value::Text(row.tags_text()),
        Value::from(row.route_key.as_deref()),
        Value::from(row.max_retries.map(i64::from)),
        Value::from(row.timeout.map(millis)),
        Value::from(i64::from(row.on_lost.code())),
        Value::from(row.trace.as_deref()),
        Value::from(holder.as_bytes()),
    ];
    if desk.run(Sql::ReplaceTask, values).await? == 0 {
        return Ok(false);
    }
    desk.run(Sql::DeleteTags, vec![Value::from(holder.as_bytes())])
        .await?;
    if nothing_ended(desk, &[holder]).await? {
        desk.run(Sql::DeletePayload, vec![Value::from(holder.as_bytes())])
            .await?;
    }
    let extras = TaskRow {
        id: holder,
        payload: Arc::from(""),
        ..row.clone()
    };
    insert_extras(desk, &[extras]).await?;
    Ok(true)
}

/// Takes the key of a finished task back for its next round.
///
/// Gives the task that holds it now, if it is another one.
pub(super) async fn take_back(desk: &mut Desk<'_>, task: &Claimed) -> DbResult<Option<TaskId>> {
    let Some(key) = task.key.as_deref() else {
        return Ok(None);
    };
    let name = KeyName {
        namespace: task.namespace.as_str(),
        job: task.job.as_str(),
        key,
    };
    for _ in 0..HANDS {
        let mut values = Vec::with_capacity(5);
        name.write(&mut values);
        values.extend([Value::from(task.id.as_bytes()), Value::from(0)]);
        if desk.run(Sql::InsertKeys, values).await? == 1 {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(3);
        name.write(&mut values);
        let Some(found) = desk.read_one(Sql::ReadKeys, values).await? else {
            continue;
        };
        let holder = TaskId::from_bytes(found.id(3)?);
        if holder != task.id && found.int(4)? == 0 {
            return Ok(Some(holder));
        }
        let until = if holder == task.id {
            found.time(5)?
        } else {
            Timestamp::from_millis(0)
        };
        if take_key(desk, name, (holder, task.id), until).await? {
            return Ok(None);
        }
    }
    Err(DbError::new(
        DbErrorKind::Retry,
        "the key changed hands again and again; try again",
    ))
}

/// Gives up the keys of tasks that have ended: gone at once, or kept until their period is over.
pub(super) async fn release<'a>(
    desk: &mut Desk<'_>,
    tasks: impl Iterator<Item = &'a Claimed>,
) -> DbResult<()> {
    let held: Vec<(KeyName<'_>, TaskId)> = tasks
        .filter_map(|task| {
            let key = task.key.as_deref()?;
            Some((
                KeyName {
                    namespace: task.namespace.as_str(),
                    job: task.job.as_str(),
                    key,
                },
                task.id,
            ))
        })
        .collect();
    release_names(desk, &held).await
}

async fn release_names(desk: &mut Desk<'_>, held: &[(KeyName<'_>, TaskId)]) -> DbResult<()> {
    let write = |(name, task): &(KeyName<'_>, TaskId), values: &mut Vec<Value>| {
        name.write(values);
        values.push(Value::from(task.as_bytes()));
    };
    for some in held.chunks(KEYS_AT_ONCE) {
        let gone = desk.run_rows(Sql::ReleaseKeys, &[], some, write).await?;
        if gone < some.len() as u64 {
            desk.run_rows(Sql::KeepKeys, &[], some, write).await?;
        }
    }
    Ok(())
}
