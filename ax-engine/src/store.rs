//! All that ax asks of its database, as verbs of the domain. The only room that holds SQL.
//!
//! What enters: rows to submit, claims, outcomes, requests of operators, facts about nodes and schedules. What
//! leaves: what the database made of them. A lost race is a value; an error means that the database could not answer
//! (`Unavailable`, `Busy`: ask again, every verb may be sent twice) or that a row or the schema is broken.
//!
//! **Crash contract.** Every verb is one statement or one transaction. Each write of a state repeats the state it
//! expects. Ids and tokens are made by the caller, so a verb whose reply was lost can be sent again: a submit looks at
//! live and finished rows before it inserts anew, a claim is read back by its token, an outcome that is already there
//! answers [`Settled::AlreadyDone`].
//!
//! The engine's clock never decides here; "now" in a statement is the database's.

mod cancel;
mod cells;
mod claim;
mod dialect;
mod due;
mod keys;
mod migrate;
mod node;
mod query;
mod reap;
mod render;
mod rows;
mod schedule;
mod session;
mod settle;
mod shard;
mod submit;
mod text;

use std::fmt;
use std::sync::Arc;

use crate::db::Database;

pub use cancel::{CancelResult, Changed};
pub use claim::ClaimRequest;
pub use dialect::{Dialect, POSTGRES, SQLITE};
pub use due::{DueRow, DueScan, Inspected, LaneScan, Owned};
pub use keys::KeyPlaced;
pub use node::{Beat, BeatReply, NodeRow, NodeState, Peer, PeersReply};
pub use query::{Count, Execution, OutcomeRow, TaskFilter};
pub use reap::LostLimit;
pub use rows::{Born, Claimed, TaskRow};
pub use schedule::{Fire, Fired, ScheduleRow, ScheduleState, SkippedTick, TickOutcome};
pub use settle::{End, Settled, Settlement, Watched};
pub use submit::Placed;
pub use text::Sql;

/// The store: verbs over one database. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    db: Arc<dyn Database>,
}

impl Store {
    /// A store over this database.
    #[must_use]
    pub fn new(db: Arc<dyn Database>) -> Self {
        Self { db }
    }

    /// The database below.
    #[must_use]
    pub fn db(&self) -> &Arc<dyn Database> {
        &self.db
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("dialect", &self.db.dialect().name())
            .finish()
    }
}
