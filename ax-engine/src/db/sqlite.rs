//! SQLite: one writer, one connection for heartbeats, a few readers; in memory one connection for all.
//!
//! Writers begin IMMEDIATE, so that two of them wait for each other (busy timeout) instead of failing halfway.
//! The database's now is the host's, bound as the last parameter of statements that ask for it.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ax_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{
    Arguments, ConnectOptions, Connection as _, Row as _, SqliteConnection, TypeInfo, ValueRef,
};

use super::pool::{Abandoned, Loan, Pool, Transaction};
use super::{
    Connection, Database, DbError, DbErrorKind, DbResult, Lane, OpenOptions, Row, Statement, Value,
};
use crate::store::{Dialect, SQLITE};

/// Statements are few but exist in several sizes; all of them stay prepared.
const PREPARED: usize = 1_000;

/// Rows that may wait between the database's thread and the reader.
const ROWS_AHEAD: usize = 512;

/// How often a locked file is tried when it is opened, and how long to wait in between.
const OPEN_TRIES: usize = 250;
const OPEN_PAUSE: Duration = Duration::from_millis(20);

pub(super) type HostNow = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A SQLite file or memory.
struct Sqlite {
    options: SqliteConnectOptions,
    writer: Arc<Pool<SqliteConnection>>,
    beat: Arc<Pool<SqliteConnection>>,
    readers: Arc<Pool<SqliteConnection>>,
    host_now: HostNow,
}

pub(super) async fn open_url(url: &str, options: OpenOptions) -> DbResult<Arc<dyn Database>> {
    let parsed = SqliteConnectOptions::from_str(url).map_err(|error| {
        let text =
            "the sqlite: URL cannot be read; write it like sqlite://shop.db or sqlite::memory:";
        DbError::new(DbErrorKind::Invalid, text).with_source(error)
    })?;
    // A file that is missing is made, unless the URL says how to open it.
    let parsed = if url.contains("mode=") {
        parsed
    } else {
        parsed.create_if_missing(true)
    };
    open(parsed, options).await
}

pub(super) async fn open(
    given: SqliteConnectOptions,
    options: OpenOptions,
) -> DbResult<Arc<dyn Database>> {
    let memory = is_memory(&given);
    let prepared = given
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(5))
        .foreign_keys(false)
        .statement_cache_capacity(PREPARED)
        .row_buffer_size(ROWS_AHEAD)
        .disable_statement_logging();
    let prepared = if memory {
        prepared
    } else {
        prepared.journal_mode(SqliteJournalMode::Wal)
    };
    let abandoned = if memory {
        Abandoned::Keep
    } else {
        Abandoned::Close
    };
    let writer = Pool::new(1, abandoned);
    let own = |size| {
        if memory {
            Arc::clone(&writer)
        } else {
            Pool::new(size, abandoned)
        }
    };
    let db = Sqlite {
        options: prepared,
        beat: own(1),
        readers: own(options.read),
        writer,
        host_now: options.host_now,
    };
    drop(db.borrow(Lane::Write).await?);
    Ok(Arc::new(db))
}

/// The file of a database that is not in memory.
pub(super) fn file(options: &SqliteConnectOptions) -> Option<std::path::PathBuf> {
    (!is_memory(options)).then(|| options.get_filename().to_path_buf())
}

fn is_memory(options: &SqliteConnectOptions) -> bool {
    let name = options.get_filename().to_string_lossy();
    name == ":memory:"
        || name.is_empty()
        || name.starts_with("file:sqlx-in-memory")
        || name.contains("mode=memory")
}

impl Sqlite {
    async fn borrow(&self, lane: Lane) -> DbResult<Box<dyn Connection>> {
        let pool = match lane {
            Lane::Write | Lane::Keyed | Lane::Settle => &self.writer,
            Lane::Beat => &self.beat,
            Lane::Read => &self.readers,
        };
        let mut loan = pool.borrow().await?;
        if loan.is_empty() {
            loan.fill(self.connect().await?);
        }
        let leftover = loan.is_dirty();
        let mut lent = Lent {
            loan,
            host_now: Arc::clone(&self.host_now),
        };
        if leftover {
            lent.rollback_leftover().await?;
        }
        Ok(Box::new(lent))
    }

    /// Opens a connection. Turning the write-ahead log on cannot wait for a lock by itself, so it is tried again.
    async fn connect(&self) -> DbResult<SqliteConnection> {
        let mut tries = 0;
        loop {
            let failed = match self.options.connect().await {
                Ok(conn) => return Ok(conn),
                Err(failed) => failed,
            };
            tries += 1;
            if error_kind(&failed) != DbErrorKind::Retry || tries > OPEN_TRIES {
                return Err(self.cannot_open().with_source(failed));
            }
            self.pause(OPEN_PAUSE).await;
        }
    }

    fn cannot_open(&self) -> DbError {
        let file = self.options.get_filename().display();
        let text = format!(
            "the SQLite file {file} cannot be opened; check that its folder exists and may be written"
        );
        DbError::new(DbErrorKind::Unreachable, text)
    }
}

impl Database for Sqlite {
    fn dialect(&self) -> &'static Dialect {
        &SQLITE
    }

    fn acquire(&self, lane: Lane) -> BoxFuture<'_, DbResult<Box<dyn Connection>>> {
        self.borrow(lane).boxed()
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        super::open::pause(span)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            for pool in [&self.writer, &self.beat, &self.readers] {
                for conn in pool.close() {
                    // Nothing is open on an idle connection; one that cannot say goodbye is gone all the same.
                    let _ = conn.close().await;
                }
            }
        }
        .boxed()
    }
}

struct Lent {
    loan: Loan<SqliteConnection>,
    host_now: HostNow,
}

impl Lent {
    async fn rollback_leftover(&mut self) -> DbResult<()> {
        // Fails when no transaction was open; either way none is open now.
        self.loan.enter();
        let _ = plain(self.loan.conn()?, "ROLLBACK").await;
        self.loan.exit(Transaction::Closed, Ok(()))
    }

    async fn turn(&mut self, text: &'static str, then: Transaction) -> DbResult<()> {
        self.loan.enter();
        let result = plain(self.loan.conn()?, text).await;
        self.loan.exit(then.after(&result), result)
    }
}

impl Connection for Lent {
    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<u64>> {
        async move {
            let now = statement.takes_now.then(|| (self.host_now)());
            let open = self.loan.enter();
            let result = execute(self.loan.conn()?, statement, values, now).await;
            self.loan.exit(open, result)
        }
        .boxed()
    }

    fn fetch<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<Vec<Row>>> {
        async move {
            let now = statement.takes_now.then(|| (self.host_now)());
            let open = self.loan.enter();
            let result = fetch(self.loan.conn()?, statement, values, now).await;
            self.loan.exit(open, result)
        }
        .boxed()
    }

    fn begin(&mut self) -> BoxFuture<'_, DbResult<()>> {
        self.turn("BEGIN IMMEDIATE", Transaction::Open).boxed()
    }

    fn commit(&mut self) -> BoxFuture<'_, DbResult<()>> {
        self.turn("COMMIT", Transaction::Closed).boxed()
    }

    fn rollback(&mut self) -> BoxFuture<'_, DbResult<()>> {
        self.turn("ROLLBACK", Transaction::Closed).boxed()
    }
}

/// Runs a statement without parameters.
async fn plain(conn: &mut SqliteConnection, text: &'static str) -> DbResult<()> {
    sqlx::query(text)
        .execute(conn)
        .await
        .map(drop)
        .map_err(error)
}

pub(super) async fn execute(
    conn: &mut SqliteConnection,
    statement: &Statement,
    values: Vec<Value>,
    now: Option<Timestamp>,
) -> DbResult<u64> {
    let arguments = arguments(statement, values, now)?;
    let done = sqlx::query_with(statement.text, arguments)
        .execute(conn)
        .await
        .map_err(error)?;
    Ok(done.rows_affected())
}

pub(super) async fn fetch(
    conn: &mut SqliteConnection,
    statement: &Statement,
    values: Vec<Value>,
    now: Option<Timestamp>,
) -> DbResult<Vec<Row>> {
    let arguments = arguments(statement, values, now)?;
    let rows = sqlx::query_with(statement.text, arguments)
        .fetch_all(conn)
        .await
        .map_err(error)?;
    rows.iter().map(|row| read(row, statement)).collect()
}

fn arguments(
    statement: &Statement,
    mut values: Vec<Value>,
    now: Option<Timestamp>,
) -> DbResult<SqliteArguments> {
    values.extend(now.map(Value::from));
    let mut arguments = SqliteArguments::default();
    arguments.reserve(statement.order.len().max(values.len()), 0);
    if statement.order.is_empty() {
        values
            .into_iter()
            .try_for_each(|value| add(&mut arguments, value))?;
        return Ok(arguments);
    }
    for place in statement.order {
        let value = values.get(usize::from(*place)).cloned();
        add(&mut arguments, value.unwrap_or(Value::Int(None)))?;
    }
    Ok(arguments)
}

fn add(arguments: &mut SqliteArguments, value: Value) -> DbResult<()> {
    let added = match value {
        Value::Int(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        Value::Id(value) => arguments.add(value.map(|id| id.to_vec())),
        Value::Bytes(value) => arguments.add(value.to_vec()),
    };
    added.map_err(|error| {
        DbError::new(DbErrorKind::Invalid, "a value cannot be sent to SQLite").with_source(error)
    })
}

fn read(row: &SqliteRow, statement: &Statement) -> DbResult<Row> {
    let values: Result<Vec<Value>, sqlx::Error> = (0..row.len())
        .map(|column| column_value(row, column))
        .collect();
    Ok(Row::new(statement.sql, values.map_err(error)?))
}

fn column_value(row: &SqliteRow, column: usize) -> Result<Value, sqlx::Error> {
    let raw = row.try_get_raw(column)?;
    if raw.is_null() {
        return Ok(Value::Int(None));
    }
    let kind = raw.type_info();
    Ok(match kind.name() {
        "TEXT" => Value::Text(Some(Arc::from(row.try_get_unchecked::<&str, _>(column)?))),
        "BLOB" => bytes(row.try_get_unchecked::<&[u8], _>(column)?),
        _ => Value::Int(Some(row.try_get_unchecked::<i64, _>(column)?)),
    })
}

fn bytes(found: &[u8]) -> Value {
    <[u8; 16]>::try_from(found)
        .map_or_else(|_| Value::Bytes(Arc::from(found)), |id| Value::Id(Some(id)))
}

/// The kind of a driver's error. Result codes: <https://www.sqlite.org/rescode.html>.
pub(super) fn error(error: sqlx::Error) -> DbError {
    let (kind, text) = match &error {
        sqlx::Error::Database(found) => database_error(&**found),
        sqlx::Error::WorkerCrashed => (
            DbErrorKind::Lost,
            "the SQLite thread ended; the statement may or may not have run",
        ),
        _ => (DbErrorKind::Other, "SQLite failed"),
    };
    DbError::new(kind, text).with_source(error)
}

fn error_kind(error: &sqlx::Error) -> DbErrorKind {
    error
        .as_database_error()
        .map_or(DbErrorKind::Other, |found| database_error(found).0)
}

fn database_error(found: &dyn sqlx::error::DatabaseError) -> (DbErrorKind, &'static str) {
    let code: i64 = found.code().and_then(|code| code.parse().ok()).unwrap_or(0);
    let message = found.message();
    match (code, code & 0xff) {
        (1_555 | 2_067, _) => (DbErrorKind::Unique, "a row with this key exists already"),
        (_, 5 | 6) => (
            DbErrorKind::Retry,
            "the SQLite file is locked by another writer; end that transaction or try again",
        ),
        (_, 8) => (
            DbErrorKind::ReadOnly,
            "the SQLite file is read-only; make it and its folder writable",
        ),
        (_, 13) => (
            DbErrorKind::Full,
            "the disk of the SQLite file is full; free some space",
        ),
        (_, 14) => (
            DbErrorKind::Unreachable,
            "the SQLite file cannot be opened; check its path and permissions",
        ),
        (_, 1) if message.starts_with("no such table") || message.starts_with("no such column") => {
            (
                DbErrorKind::Schema,
                "a table or column of ax is missing; run the migrations",
            )
        }
        _ => (DbErrorKind::Other, "SQLite refused the statement"),
    }
}
