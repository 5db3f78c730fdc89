//! The world of the model: the rows of the database, and what each node remembers.
//!
//! Enters: the bounds. Leaves: plain data that stateright hashes and compares. It never decides.

use ax_core::{CancelMark, State, Status};

use super::rule::Bounds;

/// Claims that one node can remember at a time: its credit.
pub(super) const SLOTS: usize = 2;

/// The database and all nodes at one instant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// The task rows, by task number.
    pub rows: Vec<Row>,
    /// The nodes, by node number; a number is one process start and never comes back.
    pub nodes: Vec<Node>,
    /// Crashes that may still happen.
    pub crashes: u8,
    /// Replies that may still be lost.
    pub lost_replies: u8,
    /// Cancel requests that may still come.
    pub cancels: u8,
}

/// The random token of a claim statement, written so that equal histories have equal tokens:
/// between two claims of a task that one node begins, at least one claim of that task takes effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    /// Claims of the task that had taken effect when it was drawn.
    pub after: u8,
    /// The node that drew it.
    pub node: usize,
}

/// One task: its row, its history and what the properties note about it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Row {
    /// State and cancel mark, as stored.
    pub status: Status,
    /// The token of the claim that runs; like the owner it says nothing unless the row is running.
    pub token: Option<Token>,
    /// The fence, as stored.
    pub fence: u8,
    /// The attempt, as stored: taken by a claim, given back by a release.
    pub attempt: u8,
    /// Workers that died with it, as stored.
    pub lost: u8,
    /// The node of the claim that runs.
    pub owner: Option<usize>,
    /// The history rows of this task. A third would only repeat the fault of the second.
    pub outcomes: [Option<Outcome>; 2],
    /// *Ghost*: claims that took effect, which is also the serial of the last one.
    pub claims: u8,
    /// *Ghost*: handlers started for it; counted up to 2.
    pub starts: u8,
    /// *Ghost*: a user was told that the task is canceled or will be.
    pub canceled: bool,
    /// *Ghost*: the nodes whose death was charged to it, one bit each.
    pub charged: u8,
    /// *Ghost*: a death was charged to it twice.
    pub overcharged: bool,
    /// *Ghost*: a claim that was not the last one wrote to it.
    pub stale_write: bool,
    /// *Ghost*: it was taken from an owner that was alive.
    pub robbed: bool,
}

/// One row of the history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Outcome {
    /// The final state.
    pub state: State,
    /// The token of the claim that wrote it; none if it was canceled while pending.
    pub token: Option<Token>,
    /// *Ghost*: the serial of that claim.
    pub claim: u8,
}

/// One node: its row, its process, and its statement under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// What its row in the database says.
    pub member: Member,
    /// What its process remembers; `None` once it has crashed.
    pub memory: Option<Memory>,
    /// A statement that was sent and has not landed yet. It outlives its sender.
    pub wire: Option<Statement>,
}

/// A node's row by the clock of the database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Member {
    /// Alive, lease running.
    Leased,
    /// Alive, lease over.
    Overdue,
    /// Declared dead, for ever.
    Dead,
}

/// What a process remembers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory {
    /// A claim that was begun and not answered.
    pub wanted: Option<Wanted>,
    /// Claims that it holds.
    pub held: [Option<Claim>; SLOTS],
    /// What its reaper has read and not yet acted on.
    pub seen: Option<Orphan>,
    /// The dead node whose orphans it must still look for ([`super::Sweeping::OncePerDeath`] only).
    pub duty: Option<usize>,
}

/// A claim that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wanted {
    /// The task.
    pub task: usize,
    /// The fresh token.
    pub token: Token,
}

/// A claim that was answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Claim {
    /// The task.
    pub task: usize,
    /// Its token.
    pub token: Token,
    /// The attempt that it took.
    pub attempt: u8,
    /// *Ghost*: its serial.
    pub serial: u8,
    /// How far it is.
    pub phase: Phase,
}

/// How far a held claim is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// The handler runs.
    Working,
    /// The end was sent, no reply came: it will be sent again.
    Sent(super::End),
    /// The task is ended and its outcome not yet recorded ([`super::Recording::Apart`] only).
    Owed(State),
}

/// A statement under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Statement {
    /// A claim whose snapshot was taken.
    Claim(Wanted),
    /// A settle that nobody waits for any more.
    Settle(Claim, super::End),
}

/// A running row as the reaper has read it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Orphan {
    /// The task.
    pub task: usize,
    /// The token that was read.
    pub token: Option<Token>,
    /// The fence that was read.
    pub fence: u8,
    /// The losses that were read.
    pub lost: u8,
    /// The cancel mark that was read.
    pub cancel: CancelMark,
    /// *Ghost*: the serial of the claim that was read.
    pub serial: u8,
}

impl World {
    /// All tasks pending, all nodes alive.
    pub fn new(bounds: &Bounds) -> World {
        World {
            rows: vec![Row::new(); bounds.tasks],
            nodes: vec![Node::new(); bounds.nodes],
            crashes: bounds.crashes,
            lost_replies: bounds.lost_replies,
            cancels: bounds.cancels,
        }
    }

    /// Whether the database takes the owner of this task's last claim for dead.
    pub fn owner_is_dead(&self, task: usize) -> bool {
        let owner = self.rows[task].owner;
        owner.is_some_and(|owner| self.nodes[owner].member == Member::Dead)
    }
}

impl Row {
    fn new() -> Row {
        Row {
            status: Status::unmarked(State::Pending),
            token: None,
            fence: 0,
            attempt: 0,
            lost: 0,
            owner: None,
            outcomes: [None; 2],
            claims: 0,
            starts: 0,
            canceled: false,
            charged: 0,
            overcharged: false,
            stale_write: false,
            robbed: false,
        }
    }

    /// Whether a claim of it runs.
    pub fn is_running(&self) -> bool {
        self.status.state == State::Running
    }

    /// Writes the state that follows running, with its history row if it is a final one.
    pub(super) fn leave_running(&mut self, state: State, token: Option<Token>, claim: u8) {
        self.status.state = state;
        self.token = None;
        self.owner = None;
        if state.is_final() {
            self.record(Outcome {
                state,
                token,
                claim,
            });
        }
    }

    /// Notes that a handler starts.
    pub(super) fn start(&mut self) {
        self.starts = (self.starts + 1).min(2);
    }

    /// Adds a history row.
    pub(super) fn record(&mut self, outcome: Outcome) {
        let free = usize::from(self.outcomes[0].is_some());
        self.outcomes[free] = Some(outcome);
    }
}

impl Node {
    /// A process that has just joined.
    pub(super) fn new() -> Node {
        Node {
            member: Member::Leased,
            memory: Some(Memory::default()),
            wire: None,
        }
    }

    /// Whether its process still waits for the statement that is under way.
    pub(super) fn waits_for_wire(&self) -> bool {
        match (self.wire, &self.memory) {
            (Some(Statement::Claim(sent)), Some(memory)) => memory.wanted == Some(sent),
            _ => false,
        }
    }
}

impl Memory {
    /// Whether it can take one more claim.
    pub fn has_credit(&self) -> bool {
        self.wanted.is_none() && self.held.iter().any(Option::is_none)
    }

    /// Whether it knows of this claim, answered or not.
    pub fn knows(&self, task: usize, token: Option<Token>) -> bool {
        let wanted = self
            .wanted
            .is_some_and(|w| w.task == task && Some(w.token) == token);
        wanted
            || self
                .held
                .iter()
                .flatten()
                .any(|c| c.task == task && Some(c.token) == token)
    }

    /// Keeps a claim, the slots in order so that equal memories compare as equal.
    pub(super) fn hold(&mut self, claim: Claim) {
        if let Some(slot) = self.held.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(claim);
        }
        self.sort_slots();
    }

    /// Puts the claims in order, free slots last.
    pub(super) fn sort_slots(&mut self) {
        self.held
            .sort_unstable_by_key(|slot| slot.map_or((usize::MAX, 0), |c| (c.task, c.serial)));
    }

    /// Lets go of the claim in a slot.
    pub(super) fn drop_claim(&mut self, slot: usize) {
        self.held[slot..].rotate_left(1);
        self.held[SLOTS - 1] = None;
    }
}
