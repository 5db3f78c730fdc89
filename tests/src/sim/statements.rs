//! What each statement of the store does on the simulated tables.
//!
//! Enters: a statement and its values, as the variants of [`Sql`] document them. Leaves: the number of rows touched and
//! the rows read. The seeded bugs are bent meanings of single statements and stand where the right meaning stands.

mod cluster;
mod keys;
mod look;
mod questions;
mod schedules;
mod settle;
mod submit;

use ax_engine::db::{DbResult, Row, Statement, Value};
use ax_engine::store::Sql;

use super::columns::Record;
use super::server::Desk;
use super::tables::Pk;

/// What a statement did.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) touched: u64,
    pub(crate) rows: Vec<Record>,
}

impl Answer {
    /// The rows as the store reads them.
    pub(crate) fn into_rows(self, sql: Sql) -> Vec<Row> {
        self.rows
            .into_iter()
            .map(|row| Row::new(sql, row))
            .collect()
    }
}

/// Runs one statement.
pub(crate) async fn run(
    desk: &Desk<'_>,
    statement: &Statement,
    values: &[Value],
) -> DbResult<Answer> {
    let sql = statement.sql;
    if let Some(rows) = read(desk, sql, values) {
        return Ok(Answer {
            touched: rows.len() as u64,
            rows,
        });
    }
    if sql == Sql::LockTask {
        let rows = settle::lock_task(desk, values).await?;
        return Ok(Answer {
            touched: rows.len() as u64,
            rows,
        });
    }
    Ok(Answer {
        touched: write(desk, sql, values).await?,
        rows: Vec::new(),
    })
}

/// The statements that only read.
fn read(desk: &Desk<'_>, sql: Sql, values: &[Value]) -> Option<Vec<Record>> {
    look::read(desk, sql, values)
        .or_else(|| keys::read(desk, sql, values))
        .or_else(|| cluster::read(desk, sql, values))
        .or_else(|| schedules::read(desk, sql, values))
        .or_else(|| questions::read(desk, sql, values))
}

/// The statements that write.
async fn write(desk: &Desk<'_>, sql: Sql, values: &[Value]) -> DbResult<u64> {
    match sql {
        Sql::InsertTasks => submit::insert_tasks(desk, values).await,
        Sql::InsertBorn => submit::insert_born(desk, values).await,
        Sql::InsertMissing => submit::insert_missing(desk, values).await,
        Sql::InsertPayloads => submit::insert_payloads(desk, values).await,
        Sql::DeletePayload => submit::delete_payload(desk, values).await,
        Sql::InsertTags => submit::insert_tags(desk, values).await,
        Sql::DeleteTags => submit::delete_tags(desk, values).await,
        Sql::ReplaceTask => submit::replace_task(desk, values).await,
        Sql::InsertKeys => keys::insert(desk, values).await,
        Sql::TakeKey => keys::take(desk, values).await,
        Sql::ReleaseKeys => keys::release(desk, values).await,
        Sql::KeepKeys => keys::keep(desk, values).await,
        Sql::DropKeys => keys::drop_over(desk, values).await,
        Sql::Claim => settle::claim(desk, values).await,
        Sql::DeleteSettled => settle::delete_settled(desk, values).await,
        Sql::InsertHistory => settle::insert_history(desk, values).await,
        Sql::InsertDead => settle::insert_dead(desk, values).await,
        Sql::Requeue => settle::requeue(desk, values).await,
        Sql::InsertExecutions => settle::insert_executions(desk, values).await,
        Sql::DeleteTask => settle::delete_task(desk, values).await,
        Sql::RequeueLost => settle::requeue_lost(desk, values).await,
        Sql::DeleteLost => settle::delete_lost(desk, values).await,
        Sql::MarkCancel => settle::mark_cancel(desk, values).await,
        Sql::Reschedule => settle::reschedule(desk, values).await,
        Sql::SetPriority => settle::set_priority(desk, values).await,
        Sql::ResolveDead => settle::resolve_dead(desk, values).await,
        Sql::MoveShard => settle::move_shard(desk, values).await,
        Sql::JoinNode => cluster::join(desk, values).await,
        Sql::Beat => cluster::beat(desk, values).await,
        Sql::MarkDead => cluster::mark_dead(desk, values).await,
        Sql::SetNodeState => cluster::set_state(desk, values).await,
        Sql::PruneNodes => cluster::prune(desk, values).await,
        Sql::TakeShards => cluster::take_shards(desk, values).await,
        Sql::BuryNode => cluster::bury(desk, values).await,
        Sql::AbandonShards => cluster::abandon_shards(desk, values).await,
        Sql::ReleaseShards => cluster::release_shards(desk, values).await,
        Sql::InsertSchedule => schedules::insert(desk, values).await,
        Sql::UpdateSchedule => schedules::update(desk, values).await,
        Sql::AdvanceSchedule => schedules::advance(desk, values).await,
        Sql::InsertTick => schedules::insert_tick(desk, values).await,
        Sql::Migration | Sql::CreateMigrationTable | Sql::CreateMigrationLock => Ok(0),
        Sql::InsertMigrationLock => questions::insert_migration_lock(desk).await,
        Sql::TakeMigrationLock => questions::take_migration_lock(desk, values).await,
        Sql::FreeMigrationLock => questions::free_migration_lock(desk, values).await,
        Sql::InsertMigration => questions::insert_migration(desk, values).await,
        other => panic!("{other:?} is not a statement that writes"),
    }
}

/// The keys of a list of ids.
fn ids(values: &[Value]) -> Vec<Pk> {
    (0..values.len())
        .map(|at| Pk::Id(super::columns::id(values, at)))
        .collect()
}
