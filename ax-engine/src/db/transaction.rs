//! Transactions for the service itself, on the engine's database: its own statements and its submits become one.
//!
//! The connections are not the engine's: a service that keeps a transaction open blocks no room of the road.

use std::fmt;

use ax_core::{Error, ErrorKind};

use super::{CallerConnection, Source};

/// Makes transactions; see [`Transaction`].
#[derive(Clone, Debug)]
pub struct Transactions(Pool);

#[derive(Clone, Debug)]
enum Pool {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
    /// A database in the engine's memory, which no other connection can see.
    Hidden,
}

impl Transactions {
    /// From where the engine's database is. Opens nothing yet. A source that cannot be read was refused by the engine's
    /// own start before this is asked.
    pub fn new(source: &Source) -> Transactions {
        Transactions(match source {
            #[cfg(feature = "sqlite")]
            Source::Sqlite(pool) => Pool::Sqlite(pool.clone()),
            #[cfg(feature = "postgres")]
            Source::Postgres(pool) => Pool::Postgres(pool.clone()),
            Source::Url(url) => of_url(url),
        })
    }

    /// Begins a transaction that may write; on SQLite the write lock is taken at once, because a lock that is taken at the
    /// first write fails when another writer was faster.
    ///
    /// # Errors
    /// `Invalid` for a database in memory opened by URL, else what the database said.
    pub async fn begin(&self) -> Result<Transaction, Error> {
        match &self.0 {
            #[cfg(feature = "sqlite")]
            Pool::Sqlite(pool) => {
                let begun = pool.begin_with("BEGIN IMMEDIATE").await;
                begun
                    .map(|tx| Transaction(Begun::Sqlite(tx)))
                    .map_err(|e| sqlite_failed("begin a transaction", e))
            }
            #[cfg(feature = "postgres")]
            Pool::Postgres(pool) => {
                let begun = pool.begin().await;
                begun
                    .map(|tx| Transaction(Begun::Postgres(tx)))
                    .map_err(|e| postgres_failed("begin a transaction", e))
            }
            Pool::Hidden => Err(Error::new(
                ErrorKind::Invalid,
                "begin a transaction: a database in memory is seen by the engine alone; use a file, or give the builder your pool",
            )),
        }
    }
}

fn of_url(url: &str) -> Pool {
    #[cfg(feature = "sqlite")]
    if url.starts_with("sqlite:") && !url.contains(":memory:") && !url.contains("mode=memory") {
        let options = url.parse::<sqlx::sqlite::SqliteConnectOptions>();
        return options.map_or(Pool::Hidden, |options| {
            Pool::Sqlite(sqlx::SqlitePool::connect_lazy_with(
                options.busy_timeout(std::time::Duration::from_secs(5)),
            ))
        });
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres") {
        let options = url.parse::<sqlx::postgres::PgConnectOptions>();
        return options.map_or(Pool::Hidden, |options| {
            Pool::Postgres(sqlx::PgPool::connect_lazy_with(options))
        });
    }
    Pool::Hidden
}

#[cfg(feature = "sqlite")]
fn sqlite_failed(doing: &str, error: sqlx::Error) -> Error {
    Error::from(super::sqlite::error(error)).context(doing)
}

#[cfg(feature = "postgres")]
fn postgres_failed(doing: &str, error: sqlx::Error) -> Error {
    Error::from(super::postgres::error(error)).context(doing)
}

/// An open transaction of the service. Dropped without a commit, it is rolled back.
pub struct Transaction(Begun);

enum Begun {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transaction")
    }
}

impl Transaction {
    /// The connection inside, for statements of the service; `None` when the database is another one.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(&mut self) -> Option<&mut sqlx::SqliteConnection> {
        match &mut self.0 {
            Begun::Sqlite(transaction) => Some(transaction),
            #[cfg(feature = "postgres")]
            Begun::Postgres(_) => None,
        }
    }

    /// The connection inside, for statements of the service; `None` when the database is another one.
    #[cfg(feature = "postgres")]
    pub fn postgres(&mut self) -> Option<&mut sqlx::PgConnection> {
        match &mut self.0 {
            Begun::Postgres(transaction) => Some(transaction),
            #[cfg(feature = "sqlite")]
            Begun::Sqlite(_) => None,
        }
    }

    /// Makes everything in it durable.
    ///
    /// # Errors
    /// What the database said; when the connection was lost it is open whether the transaction was committed.
    pub async fn commit(self) -> Result<(), Error> {
        match self.0 {
            #[cfg(feature = "sqlite")]
            Begun::Sqlite(transaction) => transaction
                .commit()
                .await
                .map_err(|e| sqlite_failed("commit", e)),
            #[cfg(feature = "postgres")]
            Begun::Postgres(transaction) => transaction
                .commit()
                .await
                .map_err(|e| postgres_failed("commit", e)),
        }
    }

    /// Undoes everything in it.
    ///
    /// # Errors
    /// What the database said.
    pub async fn rollback(self) -> Result<(), Error> {
        match self.0 {
            #[cfg(feature = "sqlite")]
            Begun::Sqlite(transaction) => transaction
                .rollback()
                .await
                .map_err(|e| sqlite_failed("roll back", e)),
            #[cfg(feature = "postgres")]
            Begun::Postgres(transaction) => transaction
                .rollback()
                .await
                .map_err(|e| postgres_failed("roll back", e)),
        }
    }
}

impl<'c> From<&'c mut Transaction> for CallerConnection<'c> {
    fn from(transaction: &'c mut Transaction) -> Self {
        match &mut transaction.0 {
            #[cfg(feature = "sqlite")]
            Begun::Sqlite(transaction) => CallerConnection::Sqlite(transaction),
            #[cfg(feature = "postgres")]
            Begun::Postgres(transaction) => CallerConnection::Postgres(transaction),
        }
    }
}
