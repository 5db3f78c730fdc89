//! The only room that talks to a database driver.
//!
//! What enters: a URL or the options of the user's pool, then prepared [`Statement`]s with [`Value`]s. What leaves:
//! affected-row counts, [`Row`]s, and [`DbError`]s of few kinds. It holds no SQL besides what opens, begins and ends
//! (statements live in `store/`), and it never drops a call that is under way: a connection whose call was given up,
//! or whose transaction was left open, is closed or rolled back before anyone uses it again.

mod caller;
mod error;
mod open;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod transaction;
mod value;

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::store::{Dialect, Sql};

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
compile_error!("ax needs a database: switch on the cargo feature \"sqlite\" or \"postgres\"");

pub use caller::CallerConnection;
pub use error::{DbError, DbErrorKind, DbResult};
pub use open::{OpenOptions, Source, open};
pub use transaction::{Transaction, Transactions};
pub use value::{Row, Value};

/// Which connections a call may take. Calls of two lanes never wait for each other's pool.
///
/// On SQLite `Write`, `Keyed` and `Settle` share the one writer; in memory all lanes share the one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Submits, claims and operators' changes.
    Write,
    /// Submits with keys, which may have to wait for somebody else's open transaction: they wait only for each other, and
    /// not long.
    Keyed,
    /// Outcomes.
    Settle,
    /// Discovery and everything that only reads.
    Read,
    /// Heartbeats and membership.
    Beat,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Self; 5] = [
        Self::Write,
        Self::Keyed,
        Self::Settle,
        Self::Read,
        Self::Beat,
    ];
}

/// One statement, rendered once per dialect, variant and number of rows, and kept for the life of the process.
///
/// A test decorator may hand on a copy with another `text`.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// Which statement of `store/text.rs`.
    pub sql: Sql,
    /// How often its repeated part stands in the text (1 where it has none).
    pub rows: usize,
    /// The text with this dialect's placeholders.
    pub text: &'static str,
    /// Whether the driver appends the host's now as the last parameter (SQLite).
    pub takes_now: bool,
    /// Which of the given values each placeholder stands for, from 0, where that is not simply each in its place; else empty.
    /// The number of values itself stands for the host's now.
    pub order: &'static [u16],
    /// From which value on all values are one list, which the driver sends as one array (PostgreSQL).
    pub list_at: Option<usize>,
}

/// A database: connections by lane, one dialect.
pub trait Database: Send + Sync + 'static {
    /// How this database writes the few things that differ.
    fn dialect(&self) -> &'static Dialect;

    /// A connection of the lane, opened if need be.
    fn acquire(&self, lane: Lane) -> BoxFuture<'_, DbResult<Box<dyn Connection>>>;

    /// Completes after `span`: the wait before a transaction is tried again. A simulator brings its own time.
    fn pause(&self, span: Duration) -> BoxFuture<'_, ()>;

    /// Closes every idle connection; nothing is opened afterwards.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// One connection, outside or inside a transaction. Dropped inside one, it is rolled back or closed.
pub trait Connection: Send {
    /// Runs a statement and returns how many rows it touched.
    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<u64>>;

    /// Runs a statement and returns its rows.
    fn fetch<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<Vec<Row>>>;

    /// Begins a transaction that may write: READ COMMITTED, on SQLite with the write lock taken.
    fn begin(&mut self) -> BoxFuture<'_, DbResult<()>>;

    /// Commits; an error of kind [`DbErrorKind::Lost`] leaves the outcome unknown.
    fn commit(&mut self) -> BoxFuture<'_, DbResult<()>>;

    /// Rolls back.
    fn rollback(&mut self) -> BoxFuture<'_, DbResult<()>>;
}
