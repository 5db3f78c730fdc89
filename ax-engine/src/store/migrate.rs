//! Brings the schema to the version of this program, one process at a time.
//!
//! The lock is a row with a lease, so that it works behind a pooler and dies with its holder; every statement of a
//! migration can be run twice, so that a cut-off migration is simply run again.

use std::time::Duration;

use ax_core::{Error, ErrorKind, clean_text};
use ax_migrations::Migration;

use super::Store;
use super::session::{Desk, Session, again};
use super::text::Sql;
use crate::db::{DbError, DbErrorKind, DbResult, Lane, Row, Statement, Value};

/// How long to wait for another process that migrates before its lease is looked at again.
const WAIT: Duration = Duration::from_millis(100);
/// How often to wait: longer than a lease of a minute.
const WAITS: usize = 900;

impl Store {
    /// Applies what is missing. A second process that comes meanwhile waits for the first.
    ///
    /// # Errors
    /// `Schema` when the database is newer than this program or an applied migration differs; any error of the database.
    pub async fn migrate(&self) -> Result<(), Error> {
        if self.check_schema().await.is_ok() {
            return Ok(());
        }
        again!(self, self.prepare_lock())?;
        let holder = holder(self);
        self.lock_schema(&holder).await?;
        let applied = again!(self, self.apply(&holder));
        let freed = again!(self, async {
            self.session(Lane::Write)
                .await?
                .desk()
                .run(Sql::FreeMigrationLock, vec![Value::from(&*holder)])
                .await
        });
        applied?;
        freed?;
        self.check_schema().await
    }

    /// Checks that the schema is exactly what this program needs.
    ///
    /// # Errors
    /// `Schema`, with what to run.
    pub async fn check_schema(&self) -> Result<(), Error> {
        let applied = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read(Sql::ReadMigrations, Vec::new())
                .await
        });
        let applied = match applied {
            Err(error) if error.kind() == ErrorKind::Schema => {
                return Err(missing().with_source(error));
            }
            other => other?,
        };
        check(self.migrations(), &applied)?;
        if applied.len() < self.migrations().len() {
            Err(missing())
        } else {
            Ok(())
        }
    }

    fn migrations(&self) -> &'static [Migration] {
        self.db.dialect().migrations
    }

    /// Makes the two tables that migrating itself needs.
    async fn prepare_lock(&self) -> DbResult<()> {
        let mut session = self.session(Lane::Write).await?;
        let mut desk = session.desk();
        for sql in [
            Sql::CreateMigrationTable,
            Sql::CreateMigrationLock,
            Sql::InsertMigrationLock,
        ] {
            desk.run(sql, Vec::new())
                .await
                .map_err(|error| match error.kind() {
                    // Two processes that make a table at once: PostgreSQL refuses one of them in its own catalogue.
                    DbErrorKind::Unique | DbErrorKind::Other => error.as_kind(DbErrorKind::Retry),
                    _ => error,
                })?;
        }
        Ok(())
    }

    async fn lock_schema(&self, holder: &str) -> Result<(), Error> {
        for _ in 0..WAITS {
            let taken = again!(self, async {
                self.session(Lane::Write)
                    .await?
                    .desk()
                    .run(Sql::TakeMigrationLock, vec![Value::from(holder)])
                    .await
            })?;
            if taken == 1 {
                return Ok(());
            }
            self.db.pause(WAIT).await;
        }
        let text =
            "another process has been migrating for more than a minute; look at ax_migration_lock";
        Err(Error::new(ErrorKind::Busy, text))
    }

    async fn apply(&self, holder: &str) -> DbResult<()> {
        let mut session = self.session(Lane::Write).await?;
        let applied = session.desk().read(Sql::ReadMigrations, Vec::new()).await?;
        check(self.migrations(), &applied)?;
        for migration in self.migrations().iter().skip(applied.len()) {
            tracing::info!(
                version = migration.version,
                name = migration.name,
                "migrates the schema"
            );
            apply_one(&mut session, migration, holder).await?;
        }
        Ok(())
    }
}

/// Runs the statements one by one, holding on to the lock before each.
async fn apply_one(session: &mut Session, migration: &Migration, holder: &str) -> DbResult<()> {
    for text in migration.statements() {
        let mut desk = session.desk();
        if desk
            .run(Sql::TakeMigrationLock, vec![Value::from(holder)])
            .await?
            == 0
        {
            return Err(DbError::new(
                DbErrorKind::Retry,
                "another process took over the migration; try again",
            ));
        }
        let statement = Statement {
            sql: Sql::Migration,
            rows: 1,
            text,
            takes_now: false,
            order: &[],
            list_at: None,
        };
        desk.run_statement(&statement, Vec::new()).await?;
    }
    record(&mut session.desk(), migration).await
}

async fn record(desk: &mut Desk<'_>, migration: &Migration) -> DbResult<()> {
    let values = vec![
        Value::from(migration.version),
        Value::from(migration.name),
        Value::from(&*migration.checksum()),
    ];
    match desk.run(Sql::InsertMigration, values).await {
        // Recorded before its answer was lost.
        Err(error) if error.kind() == DbErrorKind::Unique => Ok(()),
        other => other.map(drop),
    }
}

/// Compares what was applied with what this program holds.
fn check(known: &[Migration], applied: &[Row]) -> Result<(), Error> {
    for (place, row) in applied.iter().enumerate() {
        let (version, name, checksum) = (row.int(0)?, row.text(1)?, row.text(2)?);
        let Some(migration) = known
            .get(place)
            .filter(|migration| migration.version == version)
        else {
            let name = clean_text(name, 100);
            let text = format!(
                "the schema has migration {version} \"{name}\", which this program does not know; use a newer version of ax"
            );
            return Err(Error::new(ErrorKind::Schema, text));
        };
        if migration.checksum() != **checksum {
            let text = format!(
                "migration {version} \"{}\" was applied with another text than this program holds; use the version of ax that applied it",
                migration.name
            );
            return Err(Error::new(ErrorKind::Schema, text));
        }
    }
    Ok(())
}

fn missing() -> Error {
    let text = "the tables of ax are missing or older than this program; start once with auto_migrate(true), or run \
                the files of ax-migrations in order";
    Error::new(ErrorKind::Schema, text)
}

/// Tells this call from every other that may migrate: the process and the store in it.
fn holder(store: &Store) -> String {
    format!(
        "{}-{:p}",
        std::process::id(),
        std::sync::Arc::as_ptr(&store.db)
    )
}
