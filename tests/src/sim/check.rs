//! What must hold in every world, by name.

use std::fmt;

/// A rule that a world can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A task that was there is live or in the history.
    NothingLost,
    /// At most one outcome per task and round; what has ended does not come back by itself.
    OneOutcome,
    /// The outcome is that of the last claim.
    LastClaim,
    /// No handler starts without a claim that is its own, and none twice by one claim.
    OwnClaim,
    /// Every further start is explained by a recorded end of each one before.
    ExplainedStart,
    /// Nothing is claimed before its instant by the database's clock.
    NeverEarly,
    /// What was asked to cancel ends as canceled.
    CancelHolds,
    /// Nothing starts after its deadline, and nothing expires before it.
    DeadlineHolds,
    /// No two live tasks share a key.
    UniqueKey,
    /// A tick of a schedule makes at most one task, and none is passed over in silence.
    OneTaskPerTick,
    /// The fence grows with every claim.
    FenceGrows,
    /// Only a node that lives claims.
    LivingClaim,
    /// No node in order is declared dead, and none that is dead comes back.
    RightDeath,
    /// A task is tried again as often as it may, and no more often; lost workers are counted apart.
    RetriesHold,
    /// A task whose worker died is not started again where that is forbidden.
    AtMostOnce,
    /// A state and what belongs to it are written together.
    Together,
    /// Once all is well, everything due reaches an outcome in bounded time, and no row is left over.
    Ends,
    /// Once all is well, what becomes due is claimed soon.
    Punctual,
    /// An answer given to a caller is true.
    TrueAnswer,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How a world broke a rule.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub check: Check,
    /// What happened.
    pub text: String,
    /// When, in microseconds since the world began.
    pub micros: i64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {:.6} s: {}",
            self.check,
            self.micros as f64 / 1e6,
            self.text
        )
    }
}
