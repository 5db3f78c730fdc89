//! The simulated database server: statements on tables, one at a time, READ COMMITTED.
//!
//! A statement sees the rows that were committed when it began and what its own transaction wrote. A row that another open
//! transaction wrote makes a write wait; then the row is looked at anew and skipped if it no longer fits, as PostgreSQL does.
//! Parts of a condition that ask other tables keep what the statement saw at its begin. Waiting in a circle ends with
//! [`DbErrorKind::Retry`], waiting too long with [`DbErrorKind::Timeout`]; either ends the transaction.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ax_engine::db::{DbError, DbErrorKind, DbResult, Value};
use futures_util::future::{Either, select};

use super::columns::{self, Record, id, int};
use super::dice::Dice;
use super::executor::{Executor, Process};
use super::mutation::Mutation;
use super::tables::{IfThere, Locked, Pk, Table, Tables, Tx, Write};

/// Where the database's clock stands when a world begins.
pub(crate) const EPOCH_MS: i64 = 1_750_000_000_000;

/// The longest a statement may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// How many shards there are.
const SHARDS: i64 = 1_024;

/// Sees every commit at the instant it happens.
pub(crate) trait Witness: Send + Sync + 'static {
    /// A transaction of a process committed; `tables` hold the result, `now` is the database's.
    fn committed(&self, tables: &Tables, process: Process, writes: &[Write], now: i64);
}

/// Where time comes from.
pub(crate) enum Pace {
    /// From a simulated world.
    World(Executor),
    /// From the host: statements take no time of their own.
    Host,
}

/// See the module.
pub(crate) struct Server {
    pub(crate) pace: Pace,
    pub(crate) mutation: Option<Mutation>,
    tables: Mutex<Tables>,
    dice: Mutex<Dice>,
    jump_ms: AtomicI64,
    witness: Option<Arc<dyn Witness>>,
    /// What a careless reaper saw when it looked for orphans.
    old_looks: Mutex<BTreeMap<[u8; 16], Record>>,
}

impl Server {
    /// A server with an empty schema.
    pub(crate) fn new(
        pace: Pace,
        dice: Dice,
        mutation: Option<Mutation>,
        witness: Option<Arc<dyn Witness>>,
    ) -> Server {
        let mut tables = Tables::new();
        for shard in 0..SHARDS {
            tables.plant(
                Table::Shard,
                vec![
                    Value::from(shard),
                    Value::Id(None),
                    Value::Id(None),
                    Value::from(0),
                ],
            );
        }
        Server {
            pace,
            mutation,
            tables: Mutex::new(tables),
            dice: Mutex::new(dice),
            jump_ms: AtomicI64::new(0),
            witness,
            old_looks: Mutex::default(),
        }
    }

    /// The tables; for the moment of one look.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn dice(&self) -> MutexGuard<'_, Dice> {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a row as it was seen, for a seeded bug that acts on it later.
    pub(crate) fn remember(&self, row: &Record) {
        let mut looks = self
            .old_looks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        looks.insert(id(row, columns::task::ID), row.clone());
    }

    /// What was seen of a row, once.
    pub(crate) fn recall(&self, task: [u8; 16]) -> Option<Record> {
        self.old_looks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&task)
    }

    /// The database's now in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        let steady = match &self.pace {
            Pace::World(executor) => EPOCH_MS + executor.micros() / 1_000,
            Pace::Host => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
        };
        steady + self.jump_ms.load(Ordering::Relaxed)
    }

    /// The database's clock jumps.
    pub(crate) fn jump(&self, by_ms: i64) {
        self.jump_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self, process: Process) -> Tx {
        self.tables().begin(process)
    }

    /// Commits and shows the witness what was written; an error if the transaction was ended from outside.
    pub(crate) fn commit(&self, tx: Tx) -> DbResult<()> {
        let mut tables = self.tables();
        let Some((process, writes)) = tables.commit(tx) else {
            return Err(gone());
        };
        if let Some(witness) = self.witness.as_ref().filter(|_| !writes.is_empty()) {
            witness.committed(&tables, process, &writes, self.now());
        }
        Ok(())
    }

    pub(crate) fn abort(&self, tx: Tx) {
        self.tables().abort(tx);
    }

    /// The desk at which one statement of a transaction works.
    pub(crate) fn desk(&self, tx: Tx) -> Desk<'_> {
        Desk {
            server: self,
            tx,
            now: self.now(),
        }
    }
}

fn gone() -> DbError {
    DbError::new(DbErrorKind::Lost, "the connection was cut")
}

/// One statement at work.
pub(crate) struct Desk<'a> {
    pub(crate) server: &'a Server,
    pub(crate) tx: Tx,
    /// The database's now at the begin of the statement.
    pub(crate) now: i64,
}

impl Desk<'_> {
    /// Whether the server was told to get this wrong.
    pub(crate) fn bent(&self, mutation: Mutation) -> bool {
        self.server.mutation == Some(mutation)
    }

    /// A row, if it is there.
    pub(crate) fn get(&self, table: Table, pk: &Pk) -> Option<Record> {
        self.server.tables().get(self.tx, table, pk).cloned()
    }

    /// What a look at each row gives.
    pub(crate) fn pick<T>(&self, table: Table, look: impl FnMut(&Record) -> Option<T>) -> Vec<T> {
        let tables = self.server.tables();
        tables
            .scan(self.tx, table)
            .into_iter()
            .filter_map(look)
            .collect()
    }

    /// The rows of one task, in a table that has several of each.
    pub(crate) fn of_task(&self, table: Table, task: [u8; 16]) -> Vec<Record> {
        self.server
            .tables()
            .of_task(self.tx, table, task)
            .into_iter()
            .cloned()
            .collect()
    }

    /// The rows that fit.
    pub(crate) fn select(&self, table: Table, fits: impl Fn(&Record) -> bool) -> Vec<Record> {
        self.pick(table, |row| fits(row).then(|| row.clone()))
    }

    /// The keys of the rows that fit.
    pub(crate) fn keys(&self, table: Table, fits: impl Fn(&Record) -> bool) -> Vec<Pk> {
        self.pick(table, |row| fits(row).then(|| table.pk(row)))
    }

    /// Whether a node is alive: state 0 and its lease not over.
    pub(crate) fn alive(&self, node: [u8; 16]) -> bool {
        let tables = self.server.tables();
        let row = tables.get(self.tx, Table::Node, &Pk::Id(node));
        row.is_some_and(|row| {
            int(row, columns::node::STATE) == 0 && int(row, columns::node::LEASE_UNTIL) > self.now
        })
    }

    /// The nodes that are alive or leaving.
    pub(crate) fn present(&self) -> Vec<[u8; 16]> {
        let present = |row: &Record| int(row, columns::node::STATE) <= 1;
        self.pick(Table::Node, |row| {
            present(row).then(|| id(row, columns::node::ID))
        })
    }

    /// Takes the lock of a row; waits for whoever has it.
    pub(crate) async fn lock(&self, table: Table, pk: &Pk) -> DbResult<()> {
        let taken = poll_fn(|context| {
            match self
                .server
                .tables()
                .lock(self.tx, table, pk, context.waker())
            {
                Locked::Yes => Poll::Ready(Ok(())),
                Locked::Waits => Poll::Pending,
                Locked::Deadlock => {
                    Poll::Ready(Err(DbError::new(DbErrorKind::Retry, "deadlock detected")))
                }
                Locked::Gone => Poll::Ready(Err(gone())),
            }
        });
        let Pace::World(executor) = &self.server.pace else {
            return taken.await;
        };
        let limit = executor.sleep(STATEMENT_TIMEOUT);
        match select(std::pin::pin!(taken), limit).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(DbError::new(DbErrorKind::Timeout, "statement timeout")),
        }
    }

    /// Changes those of the rows that fit, each looked at again once its lock is held.
    pub(crate) async fn update(
        &self,
        table: Table,
        wanted: Vec<Pk>,
        fits: impl Fn(&Record) -> bool,
        change: impl Fn(&mut Record),
    ) -> DbResult<u64> {
        let write = |mut row: Record| {
            change(&mut row);
            Some(row)
        };
        self.touch(table, wanted, fits, write).await
    }

    /// Deletes those of the rows that fit, as [`Desk::update`].
    pub(crate) async fn delete(
        &self,
        table: Table,
        wanted: Vec<Pk>,
        fits: impl Fn(&Record) -> bool,
    ) -> DbResult<u64> {
        self.touch(table, wanted, fits, |_| None).await
    }

    async fn touch(
        &self,
        table: Table,
        wanted: Vec<Pk>,
        fits: impl Fn(&Record) -> bool,
        write: impl Fn(Record) -> Option<Record>,
    ) -> DbResult<u64> {
        let mut touched = 0;
        for pk in self.plan(table, wanted, &fits) {
            self.lock(table, &pk).await?;
            let mut tables = self.server.tables();
            let Some(row) = tables
                .get(self.tx, table, &pk)
                .filter(|row| fits(row))
                .cloned()
            else {
                continue;
            };
            tables.write(self.tx, table, pk, write(row));
            touched += 1;
        }
        Ok(touched)
    }

    /// The rows that fit at the begin of the statement, in the order of a plan: by key mostly, any order now and then.
    fn plan(&self, table: Table, mut wanted: Vec<Pk>, fits: &impl Fn(&Record) -> bool) -> Vec<Pk> {
        wanted.sort_unstable();
        wanted.dedup();
        let tables = self.server.tables();
        wanted.retain(|pk| tables.get(self.tx, table, pk).is_some_and(fits));
        drop(tables);
        if wanted.len() > 1 {
            let mut dice = self.server.dice();
            if dice.chance(0.1) {
                for at in 1..wanted.len() {
                    let other = dice.below(at + 1);
                    wanted.swap(at, other);
                }
            }
        }
        wanted
    }

    /// Inserts rows; waits for whoever writes a row of the same key.
    pub(crate) async fn insert(
        &self,
        table: Table,
        rows: Vec<Record>,
        if_there: IfThere,
    ) -> DbResult<u64> {
        let mut inserted = 0;
        for row in rows {
            let pk = table.pk(&row);
            self.lock(table, &pk).await?;
            let mut tables = self.server.tables();
            match (tables.get(self.tx, table, &pk).is_some(), if_there) {
                (true, IfThere::Skip) => {}
                (true, IfThere::Fail) => {
                    return Err(DbError::new(
                        DbErrorKind::Unique,
                        format!("a row of {table:?} is there already"),
                    ));
                }
                (false, _) => {
                    tables.write(self.tx, table, pk, Some(row));
                    inserted += 1;
                }
            }
        }
        Ok(inserted)
    }
}
