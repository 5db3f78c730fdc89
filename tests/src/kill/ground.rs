//! The database that a run is made on: made for it, read at its end, and taken away.
//!
//! What enters: which database. What leaves: its address, and its rows as [`Facts`], read by statements of the harness's
//! own over a connection that no fault touches.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::Context as _;
use ax_sdk::{AttemptEnd, TaskId, TaskState};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection,
    SqliteConnection,
};

use super::verdict::{Facts, Finished};

/// The PostgreSQL of the tests, unless `AX_TEST_POSTGRES_URL` names another.
const POSTGRES: &str = "postgres://postgres@127.0.0.1:5432/postgres";

/// A database of this run alone.
#[derive(Debug, Clone)]
pub enum Ground {
    /// A database on a server.
    Postgres {
        /// Where databases are created and dropped.
        admin: Box<PgConnectOptions>,
        /// Its name.
        name: String,
    },
    /// A file.
    Sqlite(PathBuf),
}

impl Ground {
    /// Creates a database on the PostgreSQL of the tests.
    ///
    /// # Errors
    ///
    /// When it does not answer, or does not let this user create databases.
    pub async fn postgres(seed: u64) -> anyhow::Result<Ground> {
        let url = std::env::var("AX_TEST_POSTGRES_URL").unwrap_or_else(|_| POSTGRES.to_owned());
        let admin =
            PgConnectOptions::from_str(&url).context("AX_TEST_POSTGRES_URL cannot be read")?;
        let name = format!("ax_kill_{}_{seed:x}", std::process::id());
        let ground = Ground::Postgres {
            admin: Box::new(admin),
            name,
        };
        ground
            .admin_says("CREATE DATABASE")
            .await
            .context("PostgreSQL gives no database for the run")?;
        Ok(ground)
    }

    /// A file in this folder; ax creates it.
    pub fn sqlite(folder: &Path) -> Ground {
        Ground::Sqlite(folder.join("shop.db"))
    }

    /// What kind it is.
    pub fn name(&self) -> &'static str {
        match self {
            Ground::Postgres { .. } => "postgres",
            Ground::Sqlite(_) => "sqlite",
        }
    }

    /// Where the server listens, for a proxy; a file has none.
    ///
    /// # Errors
    ///
    /// When the server is reached by a socket file.
    pub fn server(&self) -> anyhow::Result<Option<String>> {
        match self {
            Ground::Sqlite(_) => Ok(None),
            Ground::Postgres { admin, .. } => {
                let host = admin.get_host();
                let reachable = admin.get_socket().is_none() && !host.starts_with('/');
                anyhow::ensure!(
                    reachable,
                    "give AX_TEST_POSTGRES_URL a host and port: the proxy speaks TCP"
                );
                Ok(Some(format!("{host}:{}", admin.get_port())))
            }
        }
    }

    /// The URL for ax, through a proxy where there is one.
    pub fn url(&self, proxy: Option<std::net::SocketAddr>) -> String {
        match self {
            Ground::Sqlite(path) => format!("sqlite://{}", path.display()),
            Ground::Postgres { .. } => {
                let mut options = self.postgres_options().ssl_mode(PgSslMode::Disable);
                if let Some(address) = proxy {
                    options = options.host(&address.ip().to_string()).port(address.port());
                }
                options.to_url_lossy().to_string()
            }
        }
    }

    fn postgres_options(&self) -> PgConnectOptions {
        match self {
            Ground::Postgres { admin, name } => PgConnectOptions::clone(admin).database(name),
            Ground::Sqlite(_) => PgConnectOptions::new(),
        }
    }

    /// How many tasks have not come to rest.
    ///
    /// # Errors
    ///
    /// What the database said.
    pub async fn live(&self) -> anyhow::Result<i64> {
        const COUNT: &str = "SELECT count(*) FROM ax_task";
        Ok(match self.connect().await? {
            Hand::Postgres(mut conn) => sqlx::query_scalar(COUNT).fetch_one(&mut conn).await?,
            Hand::Sqlite(mut conn) => sqlx::query_scalar(COUNT).fetch_one(&mut conn).await?,
        })
    }

    /// All that the verdict asks of the database.
    ///
    /// # Errors
    ///
    /// What the database said, or a row that cannot be read.
    pub async fn facts(&self) -> anyhow::Result<Facts> {
        let (live, history, attempts) = match self.connect().await? {
            Hand::Postgres(mut conn) => (
                sqlx::query_as(LIVE).fetch_all(&mut conn).await?,
                sqlx::query_as(HISTORY).fetch_all(&mut conn).await?,
                sqlx::query_as(ATTEMPTS).fetch_all(&mut conn).await?,
            ),
            Hand::Sqlite(mut conn) => (
                sqlx::query_as(LIVE).fetch_all(&mut conn).await?,
                sqlx::query_as(HISTORY).fetch_all(&mut conn).await?,
                sqlx::query_as(ATTEMPTS).fetch_all(&mut conn).await?,
            ),
        };
        Ok(Facts {
            live: live
                .into_iter()
                .map(|(id,): (Vec<u8>,)| task_id(&id))
                .collect::<Result<_, _>>()?,
            history: history
                .into_iter()
                .map(finished)
                .collect::<Result<_, _>>()?,
            attempts: attempts
                .into_iter()
                .map(attempt)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Takes the database away. A file goes with its folder.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn remove(&self) -> anyhow::Result<()> {
        match self {
            Ground::Sqlite(_) => Ok(()),
            Ground::Postgres { .. } => self.admin_says("DROP DATABASE IF EXISTS").await,
        }
    }

    async fn admin_says(&self, verb: &str) -> anyhow::Result<()> {
        let Ground::Postgres { admin, name } = self else {
            return Ok(());
        };
        let force = if verb.starts_with("DROP") {
            " WITH (FORCE)"
        } else {
            ""
        };
        let mut conn = PgConnection::connect_with(admin).await?;
        // The name is made of digits and letters by `postgres` above.
        conn.execute(AssertSqlSafe(format!("{verb} {name}{force}")))
            .await?;
        conn.close().await?;
        Ok(())
    }

    async fn connect(&self) -> anyhow::Result<Hand> {
        Ok(match self {
            Ground::Postgres { .. } => Hand::Postgres(self.postgres_options().connect().await?),
            Ground::Sqlite(path) => {
                Hand::Sqlite(SqliteConnectOptions::new().filename(path).connect().await?)
            }
        })
    }
}

enum Hand {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

const LIVE: &str = "SELECT id FROM ax_task";
const HISTORY: &str = "SELECT id, CAST(state AS BIGINT), fence, payload, result FROM ax_history";
const ATTEMPTS: &str = "SELECT task, fence, CAST(reason AS BIGINT) FROM ax_execution";

fn finished(
    (id, state, fence, payload, output): (Vec<u8>, i64, i64, String, Option<String>),
) -> anyhow::Result<Finished> {
    let state = i16::try_from(state)
        .ok()
        .and_then(TaskState::from_code)
        .context("a state is unknown")?;
    let payload: serde_json::Value = serde_json::from_str(&payload)?;
    Ok(Finished {
        id: task_id(&id)?,
        state,
        fence,
        label: payload["label"]
            .as_str()
            .context("a payload has no label")?
            .to_owned(),
        output: output.map(|text| serde_json::from_str(&text)).transpose()?,
    })
}

fn attempt((task, fence, reason): (Vec<u8>, i64, i64)) -> anyhow::Result<(TaskId, i64, String)> {
    let reason = i16::try_from(reason)
        .ok()
        .and_then(AttemptEnd::from_code)
        .context("a reason is unknown")?;
    Ok((task_id(&task)?, fence, reason.as_str().to_owned()))
}

fn task_id(bytes: &[u8]) -> anyhow::Result<TaskId> {
    TaskId::from_slice(bytes).context("an id has not 16 bytes")
}
