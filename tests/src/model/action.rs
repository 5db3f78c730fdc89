//! Everything that can happen next.
//!
//! Enters: a world. Leaves: the list of actions that are possible in it and within the bounds. It
//! never changes the world.

use ax_core::{Event, next};

use super::Model;
use super::rule::{Asking, Claiming, Reaping, Sweeping};
use super::world::{Member, Memory, Phase, World};

/// How a worker lets go of a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// The task is done.
    Succeed,
    /// The handler failed and the policy tries again: the attempt is spent.
    Retry,
    /// Shutdown, snooze or wait: the attempt is given back.
    Release,
}

impl End {
    /// All ends.
    pub const ALL: [End; 3] = [End::Succeed, End::Retry, End::Release];

    /// The event of the state machine.
    pub fn event(self) -> Event {
        match self {
            End::Succeed => Event::Succeed,
            End::Retry => Event::Retry,
            End::Release => Event::Release,
        }
    }
}

/// One atomic step of one party.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "a variant's sentence says what its fields are")]
pub enum Action {
    /// A node sends a claim; the statement takes its snapshot.
    Begin { node: usize, task: usize },
    /// The statement under way takes effect, and its sender, if it still waits, reads the reply.
    Land { node: usize },
    /// The claim under way takes effect, and its reply is lost.
    LandUnanswered { node: usize },
    /// A node that got no reply to its claim reads by token what became of it.
    Ask { node: usize },
    /// A worker lets go of a claim and reads the reply.
    Settle { node: usize, slot: usize, end: End },
    /// A worker lets go of a claim and gives up waiting; the statement is still under way.
    Send { node: usize, slot: usize, end: End },
    /// A worker records the outcome of a task that it has ended.
    Record { node: usize, slot: usize },
    /// A node hands back a row that it owns and does not know.
    Reconcile { node: usize, task: usize },
    /// A node looks for orphans and finds this one.
    Look { node: usize, task: usize },
    /// A node writes what it decided about the orphan that it has seen.
    Reap { node: usize },
    /// A process ends without a word; its memory is gone.
    Crash { node: usize },
    /// A lease ends by the clock of the database.
    Expire { node: usize },
    /// A heartbeat arrives.
    Renew { node: usize },
    /// A node with a lease declares another dead.
    Bury { node: usize, dead: usize },
    /// A user cancels a task.
    Cancel { task: usize },
}

impl Model {
    /// The actions that are possible and within the bounds, in a fixed order.
    pub(super) fn collect_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let mut offer = |action| {
            if self.affords(world, action) && self.allows(world, action) {
                actions.push(action);
            }
        };
        for node in 0..world.nodes.len() {
            for action in [
                Action::Land { node },
                Action::LandUnanswered { node },
                Action::Ask { node },
                Action::Reap { node },
            ] {
                offer(action);
            }
            for action in [
                Action::Crash { node },
                Action::Expire { node },
                Action::Renew { node },
            ] {
                offer(action);
            }
            self.offer_ends(world, node, &mut offer);
            for task in 0..world.rows.len() {
                offer(Action::Begin { node, task });
                offer(Action::Reconcile { node, task });
                offer(Action::Look { node, task });
            }
            for dead in 0..world.nodes.len() {
                offer(Action::Bury { node, dead });
            }
        }
        for task in 0..world.rows.len() {
            offer(Action::Cancel { task });
        }
    }

    fn offer_ends(&self, world: &World, node: usize, offer: &mut impl FnMut(Action)) {
        let Some(memory) = &world.nodes[node].memory else {
            return;
        };
        for (slot, _) in memory
            .held
            .iter()
            .enumerate()
            .filter(|(_, claim)| claim.is_some())
        {
            offer(Action::Record { node, slot });
            for &end in self.bounds.ends {
                offer(Action::Settle { node, slot, end });
                offer(Action::Send { node, slot, end });
            }
        }
    }

    /// Whether the bounds leave room for an action. Healing does not ask this.
    fn affords(&self, world: &World, action: Action) -> bool {
        match action {
            Action::Begin { task, .. } => world.rows[task].claims < self.bounds.claims,
            Action::LandUnanswered { .. } | Action::Send { .. } => world.lost_replies > 0,
            // Asking while the statement is under way means that the connection was lost.
            Action::Ask { node } => world.lost_replies > 0 || !world.nodes[node].waits_for_wire(),
            Action::Crash { .. } => world.crashes > 0,
            Action::Cancel { .. } => world.cancels > 0,
            _ => true,
        }
    }

    /// Whether an action is possible.
    pub(super) fn allows(&self, world: &World, action: Action) -> bool {
        match action {
            Action::Begin { node, task } => self.can_begin(world, node, task),
            Action::Land { node } => world.nodes[node].wire.is_some(),
            Action::LandUnanswered { node } => world.nodes[node].waits_for_wire(),
            Action::Ask { node } => remembers(world, node, |m| m.wanted.is_some()),
            Action::Settle { node, slot, end } => can_settle(world, node, slot, end),
            Action::Send { node, slot, end } => {
                world.nodes[node].wire.is_none() && can_settle(world, node, slot, end)
            }
            Action::Record { node, slot } => remembers(world, node, |m| {
                m.held[slot].is_some_and(|c| matches!(c.phase, Phase::Owed(_)))
            }),
            Action::Reconcile { node, task } => self.can_reconcile(world, node, task),
            Action::Look { node, task } => self.can_look(world, node, task),
            Action::Reap { node } => remembers(world, node, |m| m.seen.is_some()),
            Action::Crash { node } => world.nodes[node].memory.is_some(),
            Action::Expire { node } => world.nodes[node].member == Member::Leased,
            Action::Renew { node } => {
                world.nodes[node].memory.is_some() && world.nodes[node].member == Member::Overdue
            }
            Action::Bury { node, dead } => can_bury(world, node, dead),
            Action::Cancel { task } => {
                let status = world.rows[task].status;
                next(status, Event::Cancel).is_some_and(|new| new != status)
            }
        }
    }

    fn can_begin(&self, world: &World, node: usize, task: usize) -> bool {
        let lives =
            world.nodes[node].member == Member::Leased || self.rules.claiming == Claiming::AnyNode;
        lives
            && world.nodes[node].wire.is_none()
            && next(world.rows[task].status, Event::Claim).is_some()
            && remembers(world, node, Memory::has_credit)
    }

    fn can_reconcile(&self, world: &World, node: usize, task: usize) -> bool {
        let row = &world.rows[task];
        self.rules.asking == Asking::AskAndReconcile
            && row.is_running()
            && row.owner == Some(node)
            && remembers(world, node, |m| !m.knows(task, row.token))
    }

    fn can_look(&self, world: &World, node: usize, task: usize) -> bool {
        if self.rules.sweeping == Sweeping::OncePerDeath {
            return remembers(world, node, |m| m.duty.is_some());
        }
        let row = &world.rows[task];
        row.is_running()
            && (world.owner_is_dead(task) || self.rules.reaping == Reaping::ByAge)
            && remembers(world, node, |m| {
                m.seen.is_none_or(|o| {
                    o.task != task || o.token != row.token || o.cancel != row.status.cancel
                })
            })
    }
}

fn remembers(world: &World, node: usize, test: impl FnOnce(&Memory) -> bool) -> bool {
    world.nodes[node].memory.as_ref().is_some_and(test)
}

fn can_settle(world: &World, node: usize, slot: usize, end: End) -> bool {
    remembers(world, node, |m| {
        match m.held[slot].map(|claim| claim.phase) {
            Some(Phase::Working) => true,
            Some(Phase::Sent(sent)) => sent == end,
            Some(Phase::Owed(_)) | None => false,
        }
    })
}

fn can_bury(world: &World, node: usize, dead: usize) -> bool {
    node != dead
        && world.nodes[node].memory.is_some()
        && world.nodes[node].member == Member::Leased
        && world.nodes[dead].member == Member::Overdue
}
