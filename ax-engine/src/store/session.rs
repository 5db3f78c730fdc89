//! The store's way of running statements: a connection with its dialect, and transactions that always end.

use std::time::Duration;

use ax_core::TaskId;

use super::Store;
use super::dialect::Dialect;
use super::render::{MAX_ROWS, ladder, piece};
use super::text::Sql;
use crate::db::{Connection, DbError, DbErrorKind, DbResult, Lane, Row, Statement, Value};

/// A connection of a lane, outside a transaction.
pub(super) struct Session {
    conn: Box<dyn Connection>,
    dialect: &'static Dialect,
}

/// Statements on a connection, whoever owns it.
pub(super) struct Desk<'a> {
    conn: &'a mut dyn Connection,
    dialect: &'static Dialect,
}

/// An open transaction; end it with [`Tx::end`].
pub(super) struct Tx(Session);

impl Store {
    pub(super) async fn session(&self, lane: Lane) -> DbResult<Session> {
        Ok(Session {
            conn: self.db.acquire(lane).await?,
            dialect: self.db.dialect(),
        })
    }

    pub(super) async fn begin(&self, lane: Lane) -> DbResult<Tx> {
        let mut session = self.session(lane).await?;
        // A connection that broke while it lay idle shows here, where nothing can have happened yet.
        session
            .conn
            .begin()
            .await
            .map_err(|error| match error.kind() {
                DbErrorKind::Lost => error.as_kind(DbErrorKind::Retry),
                _ => error,
            })?;
        Ok(Tx(session))
    }

    pub(super) fn desk<'a>(&self, conn: &'a mut dyn Connection) -> Desk<'a> {
        Desk {
            conn,
            dialect: self.db.dialect(),
        }
    }
}

impl Session {
    pub(super) fn desk(&mut self) -> Desk<'_> {
        Desk {
            conn: &mut *self.conn,
            dialect: self.dialect,
        }
    }
}

impl Tx {
    pub(super) fn desk(&mut self) -> Desk<'_> {
        self.0.desk()
    }

    /// Commits what went well, rolls back what did not, and hands on the result.
    pub(super) async fn end<T>(mut self, result: DbResult<T>) -> DbResult<T> {
        match result {
            Ok(value) => {
                self.0.conn.commit().await?;
                Ok(value)
            }
            Err(error) => {
                // The connection closes itself when it cannot roll back; the first error is the one to tell.
                let _ = self.0.conn.rollback().await;
                Err(error)
            }
        }
    }

    /// Rolls back and hands on the value.
    pub(super) async fn undo<T>(mut self, value: T) -> DbResult<T> {
        self.0.conn.rollback().await?;
        Ok(value)
    }
}

impl Desk<'_> {
    /// Runs a statement that has no repeated part.
    pub(super) async fn run(&mut self, sql: Sql, values: Vec<Value>) -> DbResult<u64> {
        self.conn
            .execute(self.dialect.statement(sql, 1), values)
            .await
    }

    /// Runs a statement that stands in no list.
    pub(super) async fn run_statement(
        &mut self,
        statement: &Statement,
        values: Vec<Value>,
    ) -> DbResult<u64> {
        self.conn.execute(statement, values).await
    }

    /// Reads with a statement that has no repeated part.
    pub(super) async fn read(&mut self, sql: Sql, values: Vec<Value>) -> DbResult<Vec<Row>> {
        self.conn
            .fetch(self.dialect.statement(sql, 1), values)
            .await
    }

    /// Reads at most one row.
    pub(super) async fn read_one(&mut self, sql: Sql, values: Vec<Value>) -> DbResult<Option<Row>> {
        Ok(self.read(sql, values).await?.into_iter().next())
    }

    /// Runs a statement with a list behind its fixed parameters, in pieces; returns the rows touched in all.
    pub(super) async fn run_list<T: ListItem>(
        &mut self,
        sql: Sql,
        fixed: &[Value],
        list: &[T],
    ) -> DbResult<u64> {
        let mut touched = 0;
        for list in list.chunks(MAX_ROWS) {
            let statement = self
                .dialect
                .statement(sql, ladder(self.dialect, list.len()));
            touched += self
                .conn
                .execute(statement, with_list(self.dialect, fixed, list))
                .await?;
        }
        Ok(touched)
    }

    /// Reads with a list behind the fixed parameters, in pieces.
    pub(super) async fn read_list<T: ListItem>(
        &mut self,
        sql: Sql,
        fixed: &[Value],
        list: &[T],
    ) -> DbResult<Vec<Row>> {
        let mut rows = Vec::new();
        for list in list.chunks(MAX_ROWS) {
            let statement = self
                .dialect
                .statement(sql, ladder(self.dialect, list.len()));
            let mut page = self
                .conn
                .fetch(statement, with_list(self.dialect, fixed, list))
                .await?;
            if rows.is_empty() {
                rows = page;
            } else {
                rows.append(&mut page);
            }
        }
        Ok(rows)
    }

    /// Runs a statement once per piece of `items`, each written as one repetition of its repeated part.
    pub(super) async fn run_rows<T>(
        &mut self,
        sql: Sql,
        fixed: &[Value],
        items: &[T],
        write: impl Fn(&T, &mut Vec<Value>),
    ) -> DbResult<u64> {
        let mut touched = 0;
        let mut left = items;
        while !left.is_empty() {
            let (now, later) = left.split_at(piece(left.len()));
            left = later;
            let mut values = Vec::with_capacity(fixed.len() + now.len() * ROOM);
            values.extend_from_slice(fixed);
            now.iter().for_each(|item| write(item, &mut values));
            let statement = self.dialect.fitting(sql, now.len(), &values);
            touched += self.conn.execute(statement, values).await?;
        }
        Ok(touched)
    }
}

/// Values reserved per repeated row: about the widest one.
const ROOM: usize = 41;

/// What a list parameter holds.
pub(super) trait ListItem {
    fn value(&self) -> Value;
}

impl ListItem for TaskId {
    fn value(&self) -> Value {
        Value::from(self.as_bytes())
    }
}

impl ListItem for i64 {
    fn value(&self) -> Value {
        Value::from(*self)
    }
}

/// The fixed values and the list, padded by repeating its last item.
fn with_list<T: ListItem>(dialect: &Dialect, fixed: &[Value], list: &[T]) -> Vec<Value> {
    let size = ladder(dialect, list.len());
    let mut values = Vec::with_capacity(fixed.len() + size);
    values.extend_from_slice(fixed);
    values.extend(list.iter().map(ListItem::value));
    if let Some(last) = list.last() {
        values.resize(fixed.len() + size, last.value());
    }
    values
}

/// Waits before a transaction is tried again; past the last of them the error stands.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(2),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(800),
];

/// The wait before the next try, if there is to be one. What was lost is asked again but twice: then its database is
/// gone for longer than a verb should wait.
pub(super) fn pause_before_retry(error: &DbError, tries: usize) -> Option<Duration> {
    let limit = match error.kind() {
        DbErrorKind::Retry => PAUSES.len(),
        DbErrorKind::Lost => 2,
        _ => 0,
    };
    PAUSES.get(tries).copied().filter(|_| tries < limit)
}

/// Whether something is sent for the first time, or after an answer that was lost or told to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    First,
    Again,
}

/// Runs a transaction, again while it fails for reasons that pass. Only for what may be sent twice.
macro_rules! again {
    ($store:expr, $attempt:expr) => {
        $crate::store::session::again!($store, _sent => $attempt)
    };
    ($store:expr, $sent:ident => $attempt:expr) => {{
        let mut tries = 0;
        loop {
            let $sent = if tries == 0 { $crate::store::session::Sent::First } else { $crate::store::session::Sent::Again };
            match $attempt.await {
                Err(error) => match $crate::store::session::pause_before_retry(&error, tries) {
                    Some(pause) => {
                        tracing::debug!(%error, tries, "database asks to try again");
                        $store.db.pause(pause).await;
                        tries += 1;
                    }
                    None => break Err(::ax_core::Error::from(error)),
                },
                Ok(value) => break Ok(value),
            }
        }
    }};
}

pub(super) use again;
