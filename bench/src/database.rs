//! A database of its own for each run, removed at the end.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, postgres::PgConnectOptions,
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A fresh database.
pub(crate) struct Database {
    /// Its URL.
    pub url: String,
    keep: Keep,
}

enum Keep {
    Folder(
        #[expect(dead_code, reason = "the folder is removed when this is dropped")]
        tempfile::TempDir,
    ),
    Postgres {
        server: Box<PgConnectOptions>,
        name: String,
    },
}

impl Database {
    /// A SQLite file in a temporary folder, or a new database on the given PostgreSQL server.
    pub(crate) async fn fresh(url: Option<&str>) -> anyhow::Result<Database> {
        match url {
            None => {
                let folder = tempfile::tempdir()?;
                let url = format!("sqlite://{}", folder.path().join("bench.db").display());
                Ok(Database {
                    url,
                    keep: Keep::Folder(folder),
                })
            }
            Some(url) if url.starts_with("postgres") => Database::on_postgres(url).await,
            Some(url) => anyhow::bail!(
                "{} is not a PostgreSQL URL; leave --database out to run on a fresh SQLite file",
                url.split(':').next().unwrap_or_default()
            ),
        }
    }

    async fn on_postgres(url: &str) -> anyhow::Result<Database> {
        let server: PgConnectOptions = url.parse().context("read the URL")?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ax_bench_{}_{number}", std::process::id());
        let mut connection = server.connect().await.context("connect to PostgreSQL")?;
        connection
            .execute(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .await
            .context("make a database for the run")?;
        connection.close().await?;
        let url = server.clone().database(&name).to_url_lossy().to_string();
        Ok(Database {
            url,
            keep: Keep::Postgres {
                server: Box::new(server),
                name,
            },
        })
    }

    /// Removes it.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        if let Keep::Postgres { server, name } = self.keep {
            let mut connection = server.connect().await?;
            connection
                .execute(AssertSqlSafe(format!(
                    "DROP DATABASE IF EXISTS {name} WITH (FORCE)"
                )))
                .await?;
        }
        Ok(())
    }
}
