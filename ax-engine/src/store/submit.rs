//! Puts new tasks into the table, and finds out what became of them when nobody answered.

use ax_core::Error;

use super::{KeyPlaced, Store, TaskRow};
use crate::db::Connection;

/// What a submitted row became.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placed {
    /// It waits for its time. Also where it was to be born claimed and its node was no longer alive.
    Pending,
    /// It runs on the node it named, with fence 1.
    Claimed,
}

impl Store {
    /// Inserts rows without keys: one statement where that suffices, else one transaction.
    ///
    /// One answer per row, in order. A row that the database refuses fails alone. An error of kind `Unavailable` leaves
    /// it open whether the rows were placed; [`Store::submit_again`] finds out and completes.
    pub async fn submit(&self, rows: &[TaskRow]) -> Vec<Result<Placed, Error>> {
        let _ = rows;
        todo!()
    }

    /// Inserts those of the rows that are neither live nor finished: what a submit with an unknown outcome is
    /// completed with. Born rows that are already there answer [`Placed::Claimed`] only while they hold their token.
    pub async fn submit_again(&self, rows: &[TaskRow]) -> Vec<Result<Placed, Error>> {
        let _ = rows;
        todo!()
    }

    /// Inserts rows, with or without keys, inside the caller's own transaction; never born claimed.
    ///
    /// # Errors
    /// Any error of the database; the caller's transaction is then to be rolled back.
    pub async fn submit_on(&self, conn: &mut dyn Connection, rows: &[TaskRow]) -> Result<Vec<KeyPlaced>, Error> {
        let _ = (conn, rows);
        todo!()
    }
}
