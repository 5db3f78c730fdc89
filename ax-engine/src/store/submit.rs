//! Puts new tasks into the table, and finds out what became of them when nobody answered.

use ax_core::{Error, ErrorKind, TaskId, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::render::piece;
use super::session::{Desk, Tx, again, pause_before_retry};
use super::text::Sql;
use super::{Born, KeyPlaced, Store, TaskRow};
use crate::db::{Connection, DbError, DbErrorKind, DbResult, Lane, Value};

/// What a submitted row became.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placed {
    /// It waits for its time. Also where it was to be born claimed and its node was no longer alive.
    Pending,
    /// It runs on the node it named, with fence 1.
    Claimed,
}

impl Store {
    /// Inserts rows without looking at their keys: one statement where that suffices, else one transaction.
    ///
    /// One answer per row, in order. A row that the database refuses fails alone. An error of kind `Unavailable` leaves
    /// it open whether the rows were placed; [`Store::submit_again`] finds out and completes.
    pub async fn submit(&self, rows: &[TaskRow]) -> Vec<Result<Placed, Error>> {
        if rows.is_empty() {
            return Vec::new();
        }
        let mut tries = 0;
        loop {
            let error = match self.submit_once(rows).await {
                Ok(placed) => return placed.into_iter().map(Ok).collect(),
                Err(error) => error,
            };
            match error.kind() {
                DbErrorKind::Lost | DbErrorKind::Unique => return self.submit_again(rows).await,
                _ if blames_a_row(&error) => return self.submit_halves(rows, error).await,
                _ => {}
            }
            let Some(pause) = pause_before_retry(&error, tries) else {
                return refused(rows.len(), &error.into());
            };
            self.db.pause(pause).await;
            tries += 1;
        }
    }

    /// Inserts those of the rows that are neither live nor finished: what a submit with an unknown outcome is
    /// completed with. Born rows that are already there answer [`Placed::Claimed`] only while they hold their token.
    pub async fn submit_again(&self, rows: &[TaskRow]) -> Vec<Result<Placed, Error>> {
        let present = match again!(self, self.present(rows)) {
            Ok(present) => present,
            Err(error) => return refused(rows.len(), &error),
        };
        let mut answers = Vec::with_capacity(rows.len());
        for (row, present) in rows.iter().zip(present) {
            answers.push(match present {
                Some(placed) => Ok(placed),
                None => again!(self, self.submit_missing(row)),
            });
        }
        answers
    }

    /// Inserts rows, with or without keys, inside the caller's own transaction; never born claimed.
    ///
    /// # Errors
    /// Any error of the database; the caller's transaction is then to be rolled back.
    pub async fn submit_on(
        &self,
        conn: &mut dyn Connection,
        rows: &[TaskRow],
    ) -> Result<Vec<KeyPlaced>, Error> {
        let placed = place_all(&mut self.desk(conn), rows).await;
        placed.map_err(|error| match error.kind() {
            DbErrorKind::Retry => in_the_callers_transaction(error),
            _ => error.into(),
        })
    }

    async fn submit_once(&self, rows: &[TaskRow]) -> DbResult<Vec<Placed>> {
        let born = rows.first().and_then(|row| row.born);
        let alike = rows.iter().all(|row| row.born == born);
        if alike && !rows.iter().any(has_extras) && piece(rows.len()) == rows.len() {
            let mut session = self.session(Lane::Write).await?;
            let placed = insert_alike(&mut session.desk(), rows, born).await?;
            return Ok(vec![placed; rows.len()]);
        }
        let mut tx = self.begin(Lane::Write).await?;
        let placed = insert_groups(&mut tx.desk(), rows).await;
        tx.end(placed).await
    }

    /// Inserts each half by itself, down to the row that is to blame.
    fn submit_halves<'a>(
        &'a self,
        rows: &'a [TaskRow],
        error: DbError,
    ) -> BoxFuture<'a, Vec<Result<Placed, Error>>> {
        async move {
            if rows.len() < 2 {
                return refused(rows.len(), &error.into());
            }
            let (left, right) = rows.split_at(rows.len() / 2);
            let mut answers = self.submit(left).await;
            answers.extend(self.submit(right).await);
            answers
        }
        .boxed()
    }

    /// What each row is already, if it is there. Live rows are looked at first: they only ever move to the finished ones.
    async fn present(&self, rows: &[TaskRow]) -> DbResult<Vec<Option<Placed>>> {
        let ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
        let mut session = self.session(Lane::Write).await?;
        let mut desk = session.desk();
        let mut tokens = std::collections::HashMap::new();
        for row in desk.read_list(Sql::Watch, &[], &ids).await? {
            tokens.insert(
                TaskId::from_bytes(row.id(0)?),
                row.id_opt(1)?.map(Token::from_bytes),
            );
        }
        let mut there = std::collections::HashSet::new();
        for sql in [Sql::Inspect, Sql::ReadEnds] {
            for row in desk.read_list(sql, &[], &ids).await? {
                there.insert(TaskId::from_bytes(row.id(0)?));
            }
        }
        let placed = |row: &TaskRow| {
            let held = tokens.get(&row.id).copied().flatten();
            let born = row.born.is_some_and(|born| Some(born.token) == held);
            let placed = if born {
                Placed::Claimed
            } else {
                Placed::Pending
            };
            (there.contains(&row.id) || held.is_some()).then_some(placed)
        };
        Ok(rows.iter().map(placed).collect())
    }

    async fn submit_missing(&self, row: &TaskRow) -> DbResult<Placed> {
        let mut tx = self.begin(Lane::Write).await?;
        let placed = insert_missing(&mut tx.desk(), row).await;
        end_unless_finished(tx, placed).await?;
        Ok(Placed::Pending)
    }
}

/// Commits a guarded insert, unless the row turned out to have finished meanwhile: the first sending, still under way on
/// a lost connection, may have been committed, run and moved between the guard's look and the insert.
async fn end_unless_finished(tx: Tx, inserted: DbResult<Inserted>) -> DbResult<()> {
    match inserted {
        Ok(Inserted::Finished) => tx.undo(()).await,
        // The first sending was committed while this one waited for it.
        Err(error) if error.kind() == DbErrorKind::Unique => tx.undo(()).await,
        other => tx.end(other.map(drop)).await,
    }
}

/// What a guarded insert found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// The row was missing and is there now.
    Yes,
    /// It is live or finished already; nothing was inserted.
    Present,
    /// It was inserted, but finished before: the transaction must not commit.
    Finished,
}

/// Inserts a pending row unless it is live or finished.
pub(super) async fn insert_missing(desk: &mut Desk<'_>, row: &TaskRow) -> DbResult<Inserted> {
    let mut values = Vec::with_capacity(27);
    row.write(&mut values);
    values.extend([Value::from(0), Value::from(0)]);
    values.extend([
        Value::Text(None),
        Value::Id(None),
        Value::Int(None),
        Value::Int(None),
    ]);
    if desk.run(Sql::InsertMissing, values).await? == 0 {
        return Ok(Inserted::Present);
    }
    if !desk
        .read_list(Sql::ReadEnds, &[], &[row.id])
        .await?
        .is_empty()
    {
        return Ok(Inserted::Finished);
    }
    insert_extras(desk, std::slice::from_ref(row)).await?;
    Ok(Inserted::Yes)
}

/// Inserts rows into the caller's transaction.
async fn place_all(desk: &mut Desk<'_>, rows: &[TaskRow]) -> DbResult<Vec<KeyPlaced>> {
    if rows.iter().all(|row| row.key.is_none()) {
        insert_pending(desk, rows).await?;
        return Ok(vec![KeyPlaced::New; rows.len()]);
    }
    super::keys::place(desk, rows, super::session::Sent::First).await
}

/// Inserts rows as pending, with their payloads and tags.
pub(super) async fn insert_pending(desk: &mut Desk<'_>, rows: &[TaskRow]) -> DbResult<()> {
    desk.run_rows(Sql::InsertTasks, &[], rows, TaskRow::write)
        .await?;
    insert_extras(desk, rows).await
}

async fn insert_groups(desk: &mut Desk<'_>, rows: &[TaskRow]) -> DbResult<Vec<Placed>> {
    let mut placed = Vec::with_capacity(rows.len());
    for group in rows.chunk_by(|a, b| a.born == b.born) {
        let one = insert_alike(desk, group, group.first().and_then(|row| row.born)).await?;
        placed.extend(std::iter::repeat_n(one, group.len()));
    }
    insert_extras(desk, rows).await?;
    Ok(placed)
}

/// Inserts rows that are all to be born with one claim, or all pending.
async fn insert_alike(
    desk: &mut Desk<'_>,
    rows: &[TaskRow],
    born: Option<Born>,
) -> DbResult<Placed> {
    if let Some(Born { node, token }) = born {
        let fixed = [Value::from(token.as_bytes()), Value::from(node.as_bytes())];
        let write = |row: &TaskRow, values: &mut Vec<Value>| {
            row.write(values);
            values.push(Value::from(row.created_at.max(row.ready_at)));
        };
        // The node is alive for all pieces or, as seen by the first, for none: a node that dies between two pieces leaves
        // rows that its reaper finds.
        let inserted = desk.run_rows(Sql::InsertBorn, &fixed, rows, write).await?;
        if inserted == rows.len() as u64 {
            return Ok(Placed::Claimed);
        }
        if inserted > 0 {
            return Err(DbError::new(
                DbErrorKind::Retry,
                "the node died while its tasks were inserted; try again",
            ));
        }
    }
    desk.run_rows(Sql::InsertTasks, &[], rows, TaskRow::write)
        .await?;
    Ok(Placed::Pending)
}

fn has_extras(row: &TaskRow) -> bool {
    row.payload_apart() || !row.tags.is_empty()
}

/// Inserts payloads kept apart, and tags.
pub(super) async fn insert_extras(desk: &mut Desk<'_>, rows: &[TaskRow]) -> DbResult<()> {
    let apart: Vec<&TaskRow> = rows.iter().filter(|row| row.payload_apart()).collect();
    // One by one: a statement of many large payloads would only be a larger one.
    for row in apart {
        desk.run(
            Sql::InsertPayloads,
            vec![Value::from(row.id.as_bytes()), Value::from(&row.payload)],
        )
        .await?;
    }
    let tags: Vec<(&str, TaskId)> = rows
        .iter()
        .flat_map(|row| row.tags.iter().map(|tag| (&**tag, row.id)))
        .collect();
    let write = |(tag, id): &(&str, TaskId), values: &mut Vec<Value>| {
        values.extend([Value::from(*tag), Value::from(id.as_bytes())]);
    };
    desk.run_rows(Sql::InsertTags, &[], &tags, write).await?;
    Ok(())
}

/// Whether an error may be the fault of one row among several.
pub(super) fn blames_a_row(error: &DbError) -> bool {
    matches!(error.kind(), DbErrorKind::Other | DbErrorKind::Invalid)
}

/// The same error for every row.
pub(super) fn refused<T>(rows: usize, error: &Error) -> Vec<Result<T, Error>> {
    (0..rows).map(|_| Err(error.clone())).collect()
}

fn in_the_callers_transaction(error: DbError) -> Error {
    let text = "another transaction was in the way of yours; roll it back and run it again (on SQLite, begin it with \
                `ax.begin()`, which takes the write lock at once: a transaction that begins by reading cannot wait for it)";
    Error::new(ErrorKind::Busy, text).with_source(error)
}
