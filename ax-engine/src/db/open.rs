//! Opens a database from a URL or from the user's pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ax_core::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Database, DbError, DbErrorKind, DbResult};

/// Where the database is.
#[derive(Clone)]
pub enum Source {
    /// `sqlite://file.db`, `sqlite::memory:`, `postgres://user@host/name`.
    Url(String),
    /// The options of the user's SQLite pool; connections are the engine's own.
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
    /// The options of the user's PostgreSQL pool; connections are the engine's own.
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
}

impl Source {
    /// The database's file, where it is one; nothing for servers and for databases in memory.
    #[must_use]
    pub fn file(&self) -> Option<std::path::PathBuf> {
        #[cfg(feature = "sqlite")]
        {
            let options = match self {
                Self::Url(url) if scheme(url) == "sqlite" => url.parse().ok(),
                Self::Sqlite(pool) => Some(pool.connect_options().as_ref().clone()),
                _ => None,
            }?;
            super::sqlite::file(&options)
        }
        #[cfg(not(feature = "sqlite"))]
        None
    }
}

impl fmt::Debug for Source {
    /// Never shows the URL: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url(url) => scheme(url),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => "sqlite pool",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres pool",
        })
    }
}

impl From<&str> for Source {
    fn from(url: &str) -> Self {
        Self::Url(url.to_owned())
    }
}

impl From<String> for Source {
    fn from(url: String) -> Self {
        Self::Url(url)
    }
}

#[cfg(feature = "sqlite")]
impl From<sqlx::SqlitePool> for Source {
    fn from(pool: sqlx::SqlitePool) -> Self {
        Self::Sqlite(pool)
    }
}

#[cfg(feature = "postgres")]
impl From<sqlx::PgPool> for Source {
    fn from(pool: sqlx::PgPool) -> Self {
        Self::Postgres(pool)
    }
}

/// How many connections, and what time it is where the database cannot say.
#[derive(Clone)]
pub struct OpenOptions {
    /// Connections for submits and claims (PostgreSQL).
    pub write: usize,
    /// Connections for submits with keys (PostgreSQL).
    pub keyed: usize,
    /// Connections for outcomes (PostgreSQL).
    pub settle: usize,
    /// Connections that only read.
    pub read: usize,
    /// Connections for heartbeats and membership (PostgreSQL; SQLite has one).
    pub beat: usize,
    /// The host's now: the database's now where the database is a file.
    pub host_now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl OpenOptions {
    /// Few connections, as one engine needs them.
    #[must_use]
    pub fn new(host_now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            write: 6,
            keyed: 2,
            settle: 3,
            read: 3,
            beat: 2,
            host_now: Arc::new(host_now),
        }
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("write", &self.write)
            .field("keyed", &self.keyed)
            .field("settle", &self.settle)
            .field("read", &self.read)
            .field("beat", &self.beat)
            .finish_non_exhaustive()
    }
}

/// Opens a database and makes one connection to see that it answers. Connections live on the calling runtime.
///
/// # Errors
/// `Invalid` for a URL that cannot be read, `Unsupported` for a database that is not in this build, `Unreachable`
/// when nobody answers. No text shows the URL.
pub async fn open(source: Source, options: OpenOptions) -> DbResult<Arc<dyn Database>> {
    match source {
        Source::Url(url) => open_url(&url, options).await,
        #[cfg(feature = "sqlite")]
        Source::Sqlite(pool) => {
            super::sqlite::open(pool.connect_options().as_ref().clone(), options).await
        }
        #[cfg(feature = "postgres")]
        Source::Postgres(pool) => {
            super::postgres::open(pool.connect_options().as_ref().clone(), options).await
        }
    }
}

fn scheme(url: &str) -> &str {
    url.split_once(':').map_or("", |(scheme, _)| scheme)
}

async fn open_url(url: &str, options: OpenOptions) -> DbResult<Arc<dyn Database>> {
    match scheme(url) {
        #[cfg(feature = "sqlite")]
        "sqlite" => super::sqlite::open_url(url, options).await,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => super::postgres::open_url(url, options).await,
        other => Err(refuse(other)),
    }
}

fn refuse(scheme: &str) -> DbError {
    match scheme {
        "sqlite" | "postgres" | "postgresql" => {
            let feature = if scheme == "sqlite" {
                "sqlite"
            } else {
                "postgres"
            };
            let text = format!(
                "databases of scheme \"{scheme}\" need the cargo feature \"{feature}\" of ax; switch it on"
            );
            DbError::new(DbErrorKind::Unsupported, text)
        }
        "mysql" | "mariadb" => {
            let text =
                "MySQL and MariaDB are not available in this build; use sqlite: or postgres:";
            DbError::new(DbErrorKind::Unsupported, text)
        }
        "" => DbError::new(
            DbErrorKind::Invalid,
            "the database URL has no scheme; write it like sqlite://shop.db or postgres://user@host/name",
        ),
        _ => {
            // Only the scheme is told: the rest may hold a password.
            let shown = ax_core::clean_text(scheme, 32);
            let text = format!(
                "database URLs of scheme \"{shown}\" are unknown; use sqlite: or postgres:"
            );
            DbError::new(DbErrorKind::Invalid, text)
        }
    }
}

/// The wait of a driver before a transaction is tried again.
pub(super) fn pause(span: Duration) -> BoxFuture<'static, ()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the simulated database brings its own pause; this is the real one's"
    )]
    tokio::time::sleep(span).boxed()
}
