//! The seeded bugs: each changes what one statement, or one rule, means. They exist in the harness only.

use ax_engine::store::Sql;

/// One fault, put in on purpose. `docs/verification.md` says which check finds each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// Settle deletes whatever runs, whoever claimed it.
    SettleByStateOnly,
    /// Settle deletes by token but believes that every row was there.
    SettleWithoutCount,
    /// Settle ends a task that was asked to cancel as if it had not been.
    SettleIgnoresCancel,
    /// A retry goes back to pending although a cancel was asked.
    RequeueIgnoresCancel,
    /// The reaper acts on what it read before, by id alone.
    ReaperActsById,
    /// Taking back from a dead node repeats neither token nor node.
    LoseIgnoresToken,
    /// Taking back from a dead node sets the fence to zero.
    FenceReset,
    /// A claim does not look at `ready_at` again.
    ClaimIgnoresReadyAt,
    /// A claim does not look at the deadline.
    ClaimIgnoresDeadline,
    /// A claim does not look at the state.
    ClaimIgnoresState,
    /// A claim does not ask whether its node lives, and nobody looks for its rows again.
    DeadNodeClaims,
    /// A submit with an unknown outcome is sent again without a look at the history.
    SubmitAgainBlind,
    /// The observer keeps what it saw before its own outage, and kills at once after it.
    ObserverKillsAfterOutage,
    /// Declaring dead repeats neither the heartbeat's number nor the lease.
    DeathWithoutCompare,
    /// A heartbeat brings a dead node back.
    BeatRevives,
    /// Discovery looks from now on only.
    NoLookBack,
    /// Discovery looks up to now only, and never far behind.
    NoLookAhead,
    /// A schedule moves on whatever its version and tick are.
    FireWithoutVersion,
    /// An insert of a key that is held counts as done.
    KeyConflictIgnored,
    /// A key is let go although its period is not over.
    KeyReleasedEarly,
    /// Cancel reads without a lock and deletes in whatever state.
    CancelOverwritesRunning,
    /// A row is marked for cancel by overwriting its state.
    CancelFreesRunning,
}

impl Mutation {
    /// A statement that the fault makes dangerous, and how much longer than usual it may be on its way, in milliseconds. To
    /// right code the delay means nothing.
    pub(crate) const fn drags(self) -> Option<(Sql, i64)> {
        match self {
            Self::ReaperActsById | Self::LoseIgnoresToken => Some((Sql::RequeueLost, 6_000)),
            Self::DeathWithoutCompare => Some((Sql::MarkDead, 4_000)),
            Self::SubmitAgainBlind => Some((Sql::InsertMissing, 3_000)),
            Self::CancelOverwritesRunning => Some((Sql::DeleteTask, 300)),
            _ => None,
        }
    }
}
