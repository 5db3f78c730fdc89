//! The caller's own open connection or transaction, lent for one submit.
//!
//! Begin, commit and rollback are the caller's business and do nothing here.

use std::fmt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Connection, DbResult, Row, Statement, Value};

/// A connection that belongs to the caller, in the caller's transaction.
pub enum CallerConnection<'c> {
    /// A SQLite connection.
    #[cfg(feature = "sqlite")]
    Sqlite(&'c mut sqlx::SqliteConnection),
    /// A PostgreSQL connection.
    #[cfg(feature = "postgres")]
    Postgres(&'c mut sqlx::PgConnection),
}

impl CallerConnection<'_> {
    /// The name of its database, as [`Dialect::name`](crate::store::Dialect::name) gives it.
    #[must_use]
    pub const fn dialect_name(&self) -> &'static str {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => "sqlite",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres",
        }
    }
}

impl fmt::Debug for CallerConnection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallerConnection({})", self.dialect_name())
    }
}

#[cfg(feature = "sqlite")]
impl<'c> From<&'c mut sqlx::SqliteConnection> for CallerConnection<'c> {
    fn from(conn: &'c mut sqlx::SqliteConnection) -> Self {
        Self::Sqlite(conn)
    }
}

#[cfg(feature = "sqlite")]
impl<'c> From<&'c mut sqlx::Transaction<'_, sqlx::Sqlite>> for CallerConnection<'c> {
    fn from(transaction: &'c mut sqlx::Transaction<'_, sqlx::Sqlite>) -> Self {
        Self::Sqlite(&mut *transaction)
    }
}

#[cfg(feature = "postgres")]
impl<'c> From<&'c mut sqlx::PgConnection> for CallerConnection<'c> {
    fn from(conn: &'c mut sqlx::PgConnection) -> Self {
        Self::Postgres(conn)
    }
}

#[cfg(feature = "postgres")]
impl<'c> From<&'c mut sqlx::Transaction<'_, sqlx::Postgres>> for CallerConnection<'c> {
    fn from(transaction: &'c mut sqlx::Transaction<'_, sqlx::Postgres>) -> Self {
        Self::Postgres(&mut *transaction)
    }
}

impl Connection for CallerConnection<'_> {
    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<u64>> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(conn) => {
                let now = statement.takes_now.then(crate::clock::host_now);
                super::sqlite::execute(conn, statement, values, now).boxed()
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(conn) => super::postgres::execute(conn, statement, values).boxed(),
        }
    }

    fn fetch<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<Vec<Row>>> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(conn) => {
                let now = statement.takes_now.then(crate::clock::host_now);
                super::sqlite::fetch(conn, statement, values, now).boxed()
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(conn) => super::postgres::fetch(conn, statement, values).boxed(),
        }
    }

    fn begin(&mut self) -> BoxFuture<'_, DbResult<()>> {
        std::future::ready(Ok(())).boxed()
    }

    fn commit(&mut self) -> BoxFuture<'_, DbResult<()>> {
        std::future::ready(Ok(())).boxed()
    }

    fn rollback(&mut self) -> BoxFuture<'_, DbResult<()>> {
        std::future::ready(Ok(())).boxed()
    }
}
