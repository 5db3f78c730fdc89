//! The rules under test: what each statement of the engine repeats, and the weaker forms that must
//! fail.
//!
//! Enters: nothing. Leaves: plain values; [`Rules::AX`] is what ax does, every other value is a
//! mistake that real schedulers have made. It never acts.

use super::action::End;

/// What a settle repeats besides the task's id and `state = 'running'`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// The random token of the claim statement.
    Token,
    /// Nothing more.
    StateOnly,
    /// The attempt number, which repeats once an attempt was given back.
    Attempt,
    /// The attempt number and the owner, which repeat once the same node claims again.
    AttemptAndOwner,
}

/// What a claim checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claiming {
    /// State and cancel mark when it writes, the node's life and lease in its snapshot.
    Guarded,
    /// State and cancel mark, but not that the node is alive with its lease running.
    AnyNode,
    /// Everything in an earlier read, nothing in the write.
    ById,
}

/// What the write of the reaper repeats of the row that its read has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaping {
    /// Token, `state = 'running'`, and that the owner is not alive.
    Guarded,
    /// Token and `state = 'running'`, but old age, not the owner's death, made it an orphan.
    ByAge,
    /// The id only.
    ById,
    /// The id only, and the whole row is saved as it was read.
    WholeRow,
}

/// When orphans are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweeping {
    /// Again and again, whoever died and whenever.
    Always,
    /// Once, by the node that declared the owner dead.
    OncePerDeath,
}

/// What a node does about a claim whose reply it did not get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asking {
    /// It reads by token, and hands back whatever it is later found to own without knowing it.
    AskAndReconcile,
    /// It reads by token, once: a statement that lands after the read is not seen.
    AskOnce,
    /// It takes the claim for failed.
    Forget,
}

/// Where the cancel mark is looked at by a write that takes a row out of running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marking {
    /// In the statement that writes.
    AtWrite,
    /// In an earlier read.
    AtRead,
}

/// How the outcome comes into the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recording {
    /// In the transaction that ends the task.
    SameTransaction,
    /// In a second transaction of the same node.
    Apart,
}

/// Where the row of an ended task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// Gone from the live table: a plain task.
    Moved,
    /// Still there, in its final state: a step of an unfinished run.
    Kept,
}

/// One choice of each rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The guard of settles.
    pub guard: Guard,
    /// The guard of claims.
    pub claiming: Claiming,
    /// The guard of the reaper's write.
    pub reaping: Reaping,
    /// When the reaper reads.
    pub sweeping: Sweeping,
    /// What follows a lost reply to a claim.
    pub asking: Asking,
    /// Where the cancel mark is read.
    pub marking: Marking,
    /// Where the outcome is recorded.
    pub recording: Recording,
    /// Where the row of an ended task is.
    pub rows: Rows,
}

impl Rules {
    /// What ax does.
    pub const AX: Rules = Rules {
        guard: Guard::Token,
        claiming: Claiming::Guarded,
        reaping: Reaping::Guarded,
        sweeping: Sweeping::Always,
        asking: Asking::AskAndReconcile,
        marking: Marking::AtWrite,
        recording: Recording::SameTransaction,
        rows: Rows::Moved,
    };
}

/// How large the searched world is. Each number is an upper bound over a whole history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Tasks, all pending at first.
    pub tasks: usize,
    /// Nodes, all alive at first.
    pub nodes: usize,
    /// Claims begun per task.
    pub claims: u8,
    /// Node crashes.
    pub crashes: u8,
    /// Replies lost and connections given up.
    pub lost_replies: u8,
    /// Cancel requests.
    pub cancels: u8,
    /// Losses after which a task fails for good.
    pub losses: u8,
    /// How workers may let go of a claim.
    pub ends: &'static [End],
}

impl Bounds {
    /// Faults enough to break every weaker rule: one task, two nodes, one crash, one lost reply.
    pub const SMALL: Bounds = Bounds {
        tasks: 1,
        nodes: 2,
        claims: 3,
        crashes: 1,
        lost_replies: 1,
        cancels: 0,
        losses: 2,
        ends: &End::ALL,
    };

    /// Whether nothing but a loss may end an attempt without ending the task, and a loss is final:
    /// `on_lost = "fail"`.
    pub fn one_start(&self) -> bool {
        self.losses == 1 && self.ends == [End::Succeed]
    }
}
