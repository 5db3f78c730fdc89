//! Faults between an engine and its database, staged to the statement.
//!
//! What enters: a real database, and rules such as "the answer to the next claim is lost" or "hold the commit of the next
//! outcome until the test says go". What leaves: an engine that works on that database and meets exactly those faults.
//! Where the simulator draws faults by chance on a simulated store, here one fault at a time happens on a real one.
//!
//! - [`FaultyDatabase`] decorates a database, [`Faults`] are the rules it obeys, [`Gate`]s are what held calls wait at.
//! - [`FaultyNode`] is an engine on such a database, put together as the SDK does it.
//! - [`Line`] carries the bytes between a node and a PostgreSQL server, and can fall silent or go down.
//! - [`Stage`] is where handlers tell what they do; [`Worker`] is a process with jobs that kill it.

mod database;
mod line;
mod node;
mod rules;
mod stage;
mod worker;

use std::time::Duration;

use ax_engine::clock::{Clock as _, SystemClock};

pub use database::FaultyDatabase;
pub use line::{Line, Speech};
pub use node::{FaultyNode, Setup};
pub use rules::{Fault, Faults, Gate, Point, Weather};
pub use stage::Stage;
pub use worker::{DATABASE, LEASE_MS, Worker};

/// The longest that a case waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Lets an outage last. Not for waiting until something has happened: that is awaited.
pub async fn lasts(span: Duration) {
    SystemClock.sleep(span).await;
}

/// Looks again and again until there is what was looked for.
///
/// # Panics
/// When it does not come.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let seen = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            SystemClock.sleep(Duration::from_millis(10)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    seen.unwrap_or_else(|_| panic!("{what} did not come"))
}

/// Makes of each case, an `async fn(&TestDatabase)`, one test per real database: `sqlite::case` and `postgres::case`.
#[macro_export]
macro_rules! fault_cases {
    ($($case:ident),* $(,)?) => {
        $crate::store_cases!(@each sqlite Sqlite; $($case),*);
        $crate::store_cases!(@each postgres Postgres; $($case),*);
    };
}
