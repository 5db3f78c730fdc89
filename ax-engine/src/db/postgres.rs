//! PostgreSQL: own connections per lane, READ COMMITTED, a statement timeout on the server.
//!
//! Every call also has a limit on this side, longer than the server's: a server that went away without a word (a cut
//! cable) counts as a lost connection, which is then closed and never used again.

#[cfg(target_os = "linux")]
mod nodelay;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::{Arguments, Column, ConnectOptions, Connection as _, PgConnection, Row as _, ValueRef};

use super::pool::{Abandoned, Loan, Pool, Transaction};
use super::{
    Connection, Database, DbError, DbErrorKind, DbResult, Lane, OpenOptions, Row, Statement, Value,
};
use crate::store::{Dialect, POSTGRES};

/// Statements are few but exist in several sizes; all of them stay prepared.
const PREPARED: usize = 1_000;
/// The longest that opening a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The server ends a statement after this time (30 s).
const SETTINGS: &str = "SET statement_timeout = 30000; SET idle_in_transaction_session_timeout = 60000; \
     SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE";
/// What a submit with keys waits for somebody else's open transaction (half a second) before it tries again.
const SETTINGS_OF_KEYED: &str = "SET lock_timeout = 500";
/// The longest wait for an answer: a little more than the server gives itself.
const ANSWER: Duration = Duration::from_secs(35);
/// The longest wait for an answer to a heartbeat: a lease must not run out behind a dead connection.
const ANSWER_TO_BEAT: Duration = Duration::from_secs(5);

struct Postgres {
    options: PgConnectOptions,
    lanes: Arc<Lanes>,
}

/// The connections of each lane.
struct Lanes {
    write: Arc<Pool<PgConnection>>,
    keyed: Arc<Pool<PgConnection>>,
    settle: Arc<Pool<PgConnection>>,
    read: Arc<Pool<PgConnection>>,
    beat: Arc<Pool<PgConnection>>,
}

pub(super) async fn open_url(url: &str, options: OpenOptions) -> DbResult<Arc<dyn Database>> {
    let parsed = PgConnectOptions::from_str(url).map_err(|_| {
        // The driver's message may repeat parts of the URL, and so a password.
        let text = "the postgres: URL cannot be read; write it like postgres://user:password@host:5432/name";
        DbError::new(DbErrorKind::Invalid, text)
    })?;
    open(parsed, options).await
}

pub(super) async fn open(
    given: PgConnectOptions,
    options: OpenOptions,
) -> DbResult<Arc<dyn Database>> {
    let named = if given.get_application_name().is_some() {
        given
    } else {
        given.application_name("ax")
    };
    let pool = |size| Pool::new(size, Abandoned::Close);
    let lanes = Lanes {
        write: pool(options.write),
        keyed: pool(options.keyed),
        settle: pool(options.settle),
        read: pool(options.read),
        beat: pool(options.beat),
    };
    let db = Postgres {
        options: named
            .statement_cache_capacity(PREPARED)
            .disable_statement_logging(),
        lanes: Arc::new(lanes),
    };
    drop(db.borrow(Lane::Read).await?);
    Ok(Arc::new(db))
}

impl Lanes {
    const fn pool(&self, lane: Lane) -> &Arc<Pool<PgConnection>> {
        match lane {
            Lane::Write => &self.write,
            Lane::Keyed => &self.keyed,
            Lane::Settle => &self.settle,
            Lane::Read => &self.read,
            Lane::Beat => &self.beat,
        }
    }

    /// Closes the idle connections: whoever lost one connection has probably lost those of every lane, and each of them
    /// may take the whole wait for an answer to say so.
    fn drain(&self) {
        for lane in Lane::ALL {
            self.pool(lane).drain();
        }
    }
}

impl Postgres {
    async fn borrow(&self, lane: Lane) -> DbResult<Box<dyn Connection>> {
        let mut loan = self.lanes.pool(lane).borrow().await?;
        if loan.is_empty() {
            loan.fill(self.connect(lane).await?);
        }
        let limit = if lane == Lane::Beat {
            ANSWER_TO_BEAT
        } else {
            ANSWER
        };
        let lanes = Arc::clone(&self.lanes);
        Ok(Box::new(Lent { loan, limit, lanes }))
    }

    async fn connect(&self, lane: Lane) -> DbResult<PgConnection> {
        let opening = async {
            let mut conn = self.options.connect().await?;
            sqlx::raw_sql(SETTINGS).execute(&mut conn).await?;
            if lane == Lane::Keyed {
                sqlx::raw_sql(SETTINGS_OF_KEYED).execute(&mut conn).await?;
            }
            #[cfg(target_os = "linux")]
            nodelay::switch_on(&mut conn, self.options.get_port()).await?;
            Ok(conn)
        };
        let (kind, source) = match tokio::time::timeout(CONNECT, opening).await {
            Ok(Ok(conn)) => return Ok(conn),
            Ok(Err(found)) => (connect_kind(&found), Some(found)),
            Err(_) => (DbErrorKind::Unreachable, None),
        };
        let (host, port) = (self.options.get_host(), self.options.get_port());
        let text = format!(
            "PostgreSQL at {host}:{port} does not take the connection; check host, port, user and database"
        );
        let failed = DbError::new(kind, text);
        Err(match source {
            Some(source) => failed.with_source(source),
            None => failed,
        })
    }
}

/// Wrong credentials and missing databases stay wrong; everything else may pass.
fn connect_kind(error: &sqlx::Error) -> DbErrorKind {
    let code = error.as_database_error().and_then(|found| found.code());
    match code.as_deref() {
        Some("28000" | "28P01" | "3D000" | "42501") => DbErrorKind::Invalid,
        _ => DbErrorKind::Unreachable,
    }
}

impl Database for Postgres {
    fn dialect(&self) -> &'static Dialect {
        &POSTGRES
    }

    fn acquire(&self, lane: Lane) -> BoxFuture<'_, DbResult<Box<dyn Connection>>> {
        self.borrow(lane).boxed()
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        super::open::pause(span)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            for lane in Lane::ALL {
                for conn in self.lanes.pool(lane).close() {
                    // Nothing is open on an idle connection; one that cannot say goodbye is gone all the same.
                    let _ = tokio::time::timeout(CONNECT, conn.close()).await;
                }
            }
        }
        .boxed()
    }
}

struct Lent {
    loan: Loan<PgConnection>,
    limit: Duration,
    lanes: Arc<Lanes>,
}

impl Lent {
    /// Ends a call; one that lost its connection takes the idle ones with it.
    fn exit<T>(&mut self, transaction: Transaction, result: DbResult<T>) -> DbResult<T> {
        if matches!(&result, Err(error) if error.kind() == DbErrorKind::Lost) {
            self.lanes.drain();
        }
        self.loan.exit(transaction, result)
    }

    async fn turn(&mut self, text: &'static str, then: Transaction) -> DbResult<()> {
        self.loan.enter();
        let limit = self.limit;
        let call = sqlx::query(text).execute(self.loan.conn()?);
        let result = in_time(limit, async { call.await.map(drop).map_err(error) }).await;
        self.exit(then.after(&result), result)
    }
}

/// Gives up waiting after the limit. The call is dropped, and with the error its connection is closed.
async fn in_time<T>(limit: Duration, call: impl Future<Output = DbResult<T>>) -> DbResult<T> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        Err(DbError::new(
            DbErrorKind::Lost,
            "PostgreSQL did not answer in time; check the network to it",
        ))
    })
}

impl Connection for Lent {
    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<u64>> {
        async move {
            let open = self.loan.enter();
            let result = in_time(self.limit, execute(self.loan.conn()?, statement, values)).await;
            self.exit(open, result)
        }
        .boxed()
    }

    fn fetch<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<Vec<Row>>> {
        async move {
            let open = self.loan.enter();
            let result = in_time(self.limit, fetch(self.loan.conn()?, statement, values)).await;
            self.exit(open, result)
        }
        .boxed()
    }

    fn begin(&mut self) -> BoxFuture<'_, DbResult<()>> {
        self.turn(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
            Transaction::Open,
        )
        .boxed()
    }

    fn commit(&mut self) -> BoxFuture<'_, DbResult<()>> {
        self.turn("COMMIT", Transaction::Closed).boxed()
    }

    fn rollback(&mut self) -> BoxFuture<'_, DbResult<()>> {
        self.turn("ROLLBACK", Transaction::Closed).boxed()
    }
}

pub(super) async fn execute(
    conn: &mut PgConnection,
    statement: &Statement,
    values: Vec<Value>,
) -> DbResult<u64> {
    let arguments = arguments(statement, values)?;
    let done = sqlx::query_with(statement.text, arguments)
        .execute(conn)
        .await
        .map_err(error)?;
    Ok(done.rows_affected())
}

pub(super) async fn fetch(
    conn: &mut PgConnection,
    statement: &Statement,
    values: Vec<Value>,
) -> DbResult<Vec<Row>> {
    let arguments = arguments(statement, values)?;
    let rows = sqlx::query_with(statement.text, arguments)
        .fetch_all(conn)
        .await
        .map_err(error)?;
    rows.iter().map(|row| read(row, statement)).collect()
}

fn arguments(statement: &Statement, values: Vec<Value>) -> DbResult<PgArguments> {
    let (values, list) =
        values.split_at(statement.list_at.unwrap_or(values.len()).min(values.len()));
    let mut arguments = PgArguments::default();
    arguments.reserve(values.len() + 1, (values.len() + list.len()) * 16);
    if statement.order.is_empty() {
        values
            .iter()
            .try_for_each(|value| add(&mut arguments, value))?;
    }
    for place in statement.order {
        add(
            &mut arguments,
            values.get(usize::from(*place)).unwrap_or(&Value::Int(None)),
        )?;
    }
    if statement.list_at.is_some() {
        add_list(&mut arguments, list)?;
    }
    Ok(arguments)
}

fn add(arguments: &mut PgArguments, value: &Value) -> DbResult<()> {
    let added = match value {
        Value::Int(value) => arguments.add(*value),
        Value::Text(value) => arguments.add(value.as_deref()),
        Value::Id(value) => arguments.add(value.as_ref().map(<[u8; 16]>::as_slice)),
        Value::Bytes(value) => arguments.add(&**value),
    };
    added.map_err(unsendable)
}

/// Adds a list of ids or of integers as one array.
fn add_list(arguments: &mut PgArguments, list: &[Value]) -> DbResult<()> {
    let ids: Vec<&[u8]> = list
        .iter()
        .filter_map(|value| match value {
            Value::Id(id) => id.as_ref().map(<[u8; 16]>::as_slice),
            _ => None,
        })
        .collect();
    let added = if ids.is_empty() {
        let numbers: Vec<i64> = list
            .iter()
            .filter_map(|value| match value {
                Value::Int(number) => *number,
                _ => None,
            })
            .collect();
        arguments.add(numbers)
    } else {
        arguments.add(ids)
    };
    added.map_err(unsendable)
}

fn unsendable(error: sqlx::error::BoxDynError) -> DbError {
    DbError::new(DbErrorKind::Invalid, "a value cannot be sent to PostgreSQL").with_source(error)
}

const INT8: Oid = Oid(20);
const INT4: Oid = Oid(23);
const BYTEA: Oid = Oid(17);

fn read(row: &PgRow, statement: &Statement) -> DbResult<Row> {
    let values: Result<Vec<Value>, sqlx::Error> = (0..row.len())
        .map(|column| column_value(row, column))
        .collect();
    Ok(Row::new(statement.sql, values.map_err(error)?))
}

fn column_value(row: &PgRow, column: usize) -> Result<Value, sqlx::Error> {
    let raw = row.try_get_raw(column)?;
    if raw.is_null() {
        return Ok(Value::Int(None));
    }
    Ok(match row.column(column).type_info().oid() {
        Some(INT8) => Value::Int(Some(row.try_get_unchecked(column)?)),
        Some(INT4) => Value::Int(Some(i64::from(row.try_get_unchecked::<i32, _>(column)?))),
        Some(BYTEA) => bytes(row.try_get_unchecked::<&[u8], _>(column)?),
        _ => Value::Text(Some(Arc::from(row.try_get_unchecked::<&str, _>(column)?))),
    })
}

fn bytes(found: &[u8]) -> Value {
    <[u8; 16]>::try_from(found)
        .map_or_else(|_| Value::Bytes(Arc::from(found)), |id| Value::Id(Some(id)))
}

/// The kind of a driver's error. Codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
pub(super) fn error(error: sqlx::Error) -> DbError {
    let (kind, text) = match &error {
        sqlx::Error::Database(found) => database_error(found.code().as_deref().unwrap_or_default()),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => (
            DbErrorKind::Lost,
            "the connection to PostgreSQL broke; the statement may or may not have run",
        ),
        _ => (DbErrorKind::Other, "PostgreSQL failed"),
    };
    DbError::new(kind, text).with_source(error)
}

fn database_error(code: &str) -> (DbErrorKind, &'static str) {
    match code {
        "23505" => (DbErrorKind::Unique, "a row with this key exists already"),
        "40001" | "40P01" | "55P03" => (
            DbErrorKind::Retry,
            "another transaction was in the way; try again",
        ),
        // A plan or prepared statement that a migration or a pooler took away.
        "0A000" | "26000" => (
            DbErrorKind::Retry,
            "a prepared statement went stale; try again",
        ),
        "57014" => (
            DbErrorKind::Timeout,
            "PostgreSQL ended the statement after its timeout; look for locks and missing indexes",
        ),
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => (
            DbErrorKind::Lost,
            "PostgreSQL closed the connection; the statement may or may not have run",
        ),
        "25006" => (
            DbErrorKind::ReadOnly,
            "PostgreSQL takes no writes now; a fail-over may be under way",
        ),
        "42501" => (
            DbErrorKind::Schema,
            "the database user may not do this; grant it the rights on the tables of ax",
        ),
        "42P01" | "42703" | "3F000" => (
            DbErrorKind::Schema,
            "a table or column of ax is missing; run the migrations",
        ),
        "53100" => (
            DbErrorKind::Full,
            "PostgreSQL's disk is full; free some space",
        ),
        "53300" => (
            DbErrorKind::Unreachable,
            "PostgreSQL has no connection left; raise max_connections or lower the pool sizes",
        ),
        _ if code.starts_with("08") => (
            DbErrorKind::Lost,
            "the connection to PostgreSQL broke; the statement may or may not have run",
        ),
        _ => (DbErrorKind::Other, "PostgreSQL refused the statement"),
    }
}
