//! Fresh databases for tests: an own SQLite file or an own PostgreSQL schema each, gone when the test ends.
//!
//! PostgreSQL is looked for at `AX_TEST_POSTGRES_URL`, else at 127.0.0.1:5432. Where none answers a test says so and ends,
//! unless `AX_REQUIRE_DATABASES=1`: then it fails.

use std::process;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ax_engine::clock::host_now;
use ax_engine::db::{self, Database, OpenOptions, Source};
use ax_engine::store::Store;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use crate::sim::Simulated;

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file in a temporary folder.
    Sqlite,
    /// One connection's memory.
    SqliteMemory,
    /// A schema of its own on a server.
    Postgres,
    /// The database of the simulation.
    Simulated,
}

/// A database of one test.
#[derive(Debug)]
pub struct TestDatabase {
    kind: Kind,
    url: String,
    _folder: Option<tempfile::TempDir>,
    _doomed: Option<Doomed>,
    simulated: Option<Simulated>,
}

/// A schema that is dropped at the end.
#[derive(Debug)]
struct Doomed {
    admin: PgConnectOptions,
    name: String,
}

/// An empty database; `None` when its server is not there and need not be.
pub async fn fresh(kind: Kind) -> Option<TestDatabase> {
    match kind {
        Kind::Sqlite => {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let url = format!("sqlite://{}", folder.path().join("ax.db").display());
            Some(TestDatabase {
                kind,
                url,
                _folder: Some(folder),
                _doomed: None,
                simulated: None,
            })
        }
        Kind::SqliteMemory => Some(TestDatabase {
            kind,
            url: "sqlite::memory:".to_owned(),
            _folder: None,
            _doomed: None,
            simulated: None,
        }),
        Kind::Postgres => fresh_postgres().await,
        Kind::Simulated => {
            let simulated = Some(Simulated::default());
            Some(TestDatabase {
                kind,
                url: String::new(),
                _folder: None,
                _doomed: None,
                simulated,
            })
        }
    }
}

impl TestDatabase {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connections to it, as one more process has them. In memory: another, empty database.
    pub async fn open(&self) -> Arc<dyn Database> {
        if let Some(simulated) = &self.simulated {
            return simulated.open();
        }
        db::open(Source::from(self.url()), OpenOptions::new(host_now))
            .await
            .expect("the fresh database opens")
    }

    /// A store over connections of its own, migrated.
    pub async fn store(&self) -> Store {
        let store = Store::new(self.open().await);
        store.migrate().await.expect("the fresh database migrates");
        store
    }

    /// Runs a statement outside ax.
    pub async fn run(&self, sql: &str) -> u64 {
        if let Some(simulated) = &self.simulated {
            return simulated.run(sql);
        }
        let sql = AssertSqlSafe(sql.to_owned());
        match self.kind {
            Kind::Postgres => {
                let mut conn = PgConnection::connect(&self.url)
                    .await
                    .expect("a connection");
                sqlx::query(sql)
                    .execute(&mut conn)
                    .await
                    .expect("the statement runs")
                    .rows_affected()
            }
            Kind::Sqlite | Kind::SqliteMemory | Kind::Simulated => {
                let mut conn = sqlx::SqliteConnection::connect(&self.url)
                    .await
                    .expect("a connection");
                sqlx::query(sql)
                    .execute(&mut conn)
                    .await
                    .expect("the statement runs")
                    .rows_affected()
            }
        }
    }

    /// Ends every connection to it from the server's side (PostgreSQL).
    pub async fn cut_connections(&self) {
        let mut conn = PgConnection::connect(&self.url)
            .await
            .expect("a connection");
        let sql = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE pid <> pg_backend_pid() AND application_name = $1";
        let _: i64 = sqlx::query_scalar(sql)
            .bind(self._doomed.as_ref().map(|doomed| &*doomed.name))
            .fetch_one(&mut conn)
            .await
            .expect("connections end");
    }

    /// Reads one number outside ax.
    pub async fn number(&self, sql: &str) -> i64 {
        if let Some(simulated) = &self.simulated {
            return simulated.number(sql);
        }
        let sql = AssertSqlSafe(sql.to_owned());
        match self.kind {
            Kind::Postgres => {
                let mut conn = PgConnection::connect(&self.url)
                    .await
                    .expect("a connection");
                sqlx::query_scalar(sql)
                    .fetch_one(&mut conn)
                    .await
                    .expect("a number")
            }
            Kind::Sqlite | Kind::SqliteMemory | Kind::Simulated => {
                let mut conn = sqlx::SqliteConnection::connect(&self.url)
                    .await
                    .expect("a connection");
                sqlx::query_scalar(sql)
                    .fetch_one(&mut conn)
                    .await
                    .expect("a number")
            }
        }
    }
}

/// Where the server for tests is.
pub fn postgres_server() -> PgConnectOptions {
    let url = std::env::var("AX_TEST_POSTGRES_URL");
    let url = url.unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/postgres".to_owned());
    PgConnectOptions::from_str(&url)
        .expect("AX_TEST_POSTGRES_URL is a URL of PostgreSQL")
        .disable_statement_logging()
}

/// The database that holds the schemas of all tests; made once, and empty between tests.
const SHARED: &str = "ax_test";

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A schema of its own: making and dropping a whole database takes a checkpoint each.
async fn fresh_postgres() -> Option<TestDatabase> {
    let mut conn = connect_postgres().await?;
    let first = NUMBER.fetch_add(1, Ordering::Relaxed);
    if first == 0 {
        drop_leftovers(&mut conn).await;
    }
    let name = format!("ax_test_{}_{}_{first}", seconds(), process::id());
    sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {name}")))
        .execute(&mut conn)
        .await
        .expect("a schema of its own");
    let admin = postgres_server().database(SHARED);
    let mut url = admin.to_url_lossy();
    url.query_pairs_mut()
        .append_pair("options", &format!("-c search_path={name}"))
        .append_pair("application_name", &name);
    let url = url.to_string();
    Some(TestDatabase {
        kind: Kind::Postgres,
        url,
        _folder: None,
        _doomed: Some(Doomed { admin, name }),
        simulated: None,
    })
}

/// A connection to the shared database, which is made if need be.
async fn connect_postgres() -> Option<PgConnection> {
    let server = postgres_server();
    let shared = server.clone().database(SHARED);
    for options in [&shared, &server] {
        let reason = match tokio::time::timeout(Duration::from_secs(5), options.connect()).await {
            Ok(Ok(conn)) if options.get_database() == Some(SHARED) => return Some(conn),
            Ok(Ok(mut conn)) => {
                // Another test may be making it too; then this one only has to connect.
                let _ = sqlx::query("CREATE DATABASE ax_test")
                    .execute(&mut conn)
                    .await;
                return Some(
                    shared
                        .connect()
                        .await
                        .expect("the database for tests opens"),
                );
            }
            Ok(Err(error))
                if error
                    .as_database_error()
                    .is_some_and(|found| found.code().as_deref() == Some("3D000")) =>
            {
                continue;
            }
            failed => format!("{:?}", failed.map(|found| found.err())),
        };
        let required = std::env::var("AX_REQUIRE_DATABASES").is_ok_and(|value| value == "1");
        assert!(!required, "PostgreSQL for tests does not answer: {reason}");
        eprintln!(
            "SKIPPED: PostgreSQL for tests does not answer ({reason}); set AX_TEST_POSTGRES_URL"
        );
        return None;
    }
    None
}

fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Drops what test runs of more than two hours ago, killed before their end, have left.
async fn drop_leftovers(conn: &mut PgConnection) {
    let sql = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'ax\\_test\\_%'";
    let names: Vec<String> = sqlx::query_scalar(sql)
        .fetch_all(&mut *conn)
        .await
        .unwrap_or_default();
    for name in names {
        let made = name
            .split('_')
            .nth(2)
            .and_then(|made| made.parse::<u64>().ok());
        if made.is_some_and(|made| made + 7_200 < seconds()) {
            // Another run may be doing the same.
            let _ = sqlx::query(AssertSqlSafe(format!(
                "DROP SCHEMA IF EXISTS {name} CASCADE"
            )))
            .execute(&mut *conn)
            .await;
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        let (admin, name) = (self.admin.clone(), self.name.clone());
        // On a thread of its own, because the test's runtime cannot be waited for here.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                if let Ok(mut conn) = admin.connect().await {
                    let sql = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
                    let _ = sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await;
                }
            });
        });
        let _ = dropping.join();
    }
}

/// Makes of each case, an `async fn(&TestDatabase)`, one test per database: `sqlite::case`, `postgres::case` and, for the
/// database that simulations run on, `simulated::case`.
#[macro_export]
macro_rules! store_cases {
    ($($case:ident),* $(,)?) => {
        $crate::store_cases!(@each sqlite Sqlite; $($case),*);
        $crate::store_cases!(@each postgres Postgres; $($case),*);
        $crate::store_cases!(@each simulated Simulated; $($case),*);
    };
    (@each $module:ident $kind:ident; $($case:ident),*) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $case() {
                    if let Some(database) = $crate::databases::fresh($crate::databases::Kind::$kind).await {
                        super::$case(&database).await;
                    }
                }
            )*
        }
    };
}
