//! What must hold in every reachable world, and what must be seen in at least one.
//!
//! Enters: a world. Leaves: a verdict. It never changes anything. The *sometimes* properties prove
//! that the search did meet the troubles that the *always* properties claim to survive.

use ax_core::{CancelMark, State};
use stateright::Property;

use super::Model;
use super::rule::{Asking, Bounds, Sweeping};
use super::world::{Claim, Member, Memory, Node, Phase, Row, Statement, World};

/// The names of the properties, as discoveries are looked up by.
pub mod name {
    /// Always: never two rows of history for one task.
    pub const ONE_OUTCOME: &str = "a task has at most one outcome";
    /// Always: no claim took effect after the one that wrote the outcome.
    pub const LAST_CLAIM: &str = "an outcome is the last claim's";
    /// Always: a claim that is not the last one changes nothing.
    pub const NO_STALE_WRITE: &str = "a stale claim writes nothing";
    /// Always: who was told that a task is canceled never sees another outcome.
    pub const CANCELED: &str = "a canceled task ends canceled";
    /// Always: each claim has a greater fence than all before it.
    pub const FENCE: &str = "the fence grows with every claim";
    /// Always: nobody takes a task from a node that is not dead.
    pub const NO_ROBBERY: &str = "a living owner keeps its claim";
    /// Always: one death counts once against a task.
    pub const ONE_LOSS: &str = "one death costs a task at most one loss";
    /// Always: a pending row can be claimed, and a running row has somebody who will see to it.
    pub const NO_LIMBO: &str = "no row is in limbo";
    /// Always: once nothing more goes wrong every task gets an outcome.
    pub const HEALS: &str = "healing ends every task";
    /// Always, where a loss is final and the handler never asks for another try: it starts at most
    /// once.
    pub const ONE_START: &str = "a handler starts at most once";
    /// Sometimes: all tasks have an outcome.
    pub const ENDS: &str = "every task ends";
    /// Sometimes: a node that was declared dead works on while another runs its task.
    pub const ZOMBIE: &str = "a dead node works on while another has its task";
    /// Sometimes: an outcome is recorded and its sender does not know.
    pub const UNHEARD: &str = "an outcome is recorded and its sender does not know";
    /// Sometimes: a reaper is about to act on a row that has changed since it was read.
    pub const OUTDATED: &str = "a reaper acts on an outdated row";
    /// Sometimes: a node owns a running row that it does not know.
    pub const UNKNOWN: &str = "a claim lands after its node gave up";
    /// Sometimes: a claim is under way when its node is declared dead.
    pub const LATE: &str = "a claim is under way when its node is declared dead";
    /// Sometimes: a task fails because too many of its workers died.
    pub const LOST: &str = "a task fails for its lost workers";
    /// Sometimes: a marked task still runs.
    pub const MARKED: &str = "a marked task runs";
}

/// All properties, without those that the bounds put out of reach.
pub(super) fn all(bounds: &Bounds) -> Vec<Property<Model>> {
    let mut all = always();
    let mut add = |within: bool, property| all.extend(within.then_some(property));
    let several = bounds.claims > 1 && !bounds.one_start();
    add(
        bounds.one_start(),
        Property::always(name::ONE_START, |_, w: &World| {
            w.rows.iter().all(|row| row.starts < 2)
        }),
    );
    add(
        true,
        Property::sometimes(name::ENDS, |_, w: &World| {
            w.rows.iter().all(|row| row.outcomes[0].is_some())
        }),
    );
    add(
        true,
        Property::sometimes(name::LATE, |_, w: &World| w.nodes.iter().any(is_late)),
    );
    add(
        several,
        Property::sometimes(name::ZOMBIE, |_, w: &World| works(w, is_zombie)),
    );
    add(
        several,
        Property::sometimes(name::OUTDATED, |_, w: &World| {
            memories(w).any(|memory| is_outdated(w, memory))
        }),
    );
    let losable = usize::from(bounds.losses) < bounds.nodes;
    add(
        losable,
        Property::sometimes(name::LOST, |_, w: &World| has_state(w, State::Failed)),
    );
    let silent = bounds.lost_replies > 0;
    add(
        silent,
        Property::sometimes(name::UNHEARD, |_, w: &World| works(w, is_unheard)),
    );
    add(
        silent,
        Property::sometimes(name::UNKNOWN, |_, w: &World| {
            w.rows
                .iter()
                .enumerate()
                .any(|(task, row)| is_unknown(w, task, row))
        }),
    );
    add(
        bounds.cancels > 0,
        Property::sometimes(name::MARKED, |_, w: &World| {
            w.rows.iter().any(|row| row.is_running() && is_marked(row))
        }),
    );
    all
}

fn always() -> Vec<Property<Model>> {
    vec![
        Property::always(name::ONE_OUTCOME, |_, w: &World| {
            w.rows.iter().all(|row| row.outcomes[1].is_none())
        }),
        Property::always(name::LAST_CLAIM, |_, w: &World| {
            w.rows.iter().all(is_last_claims)
        }),
        Property::always(name::NO_STALE_WRITE, |_, w: &World| {
            !w.rows.iter().any(|row| row.stale_write)
        }),
        Property::always(name::CANCELED, |_, w: &World| {
            w.rows.iter().all(|row| !row.canceled || ends_canceled(row))
        }),
        Property::always(name::FENCE, |_, w: &World| {
            w.rows.iter().all(|row| row.fence == row.claims)
        }),
        Property::always(name::NO_ROBBERY, |_, w: &World| {
            !w.rows.iter().any(|row| row.robbed)
        }),
        Property::always(name::ONE_LOSS, |_, w: &World| {
            !w.rows.iter().any(|row| row.overcharged)
        }),
        Property::always(name::NO_LIMBO, |model, w: &World| {
            (0..w.rows.len()).all(|task| model.is_seen_to(w, task))
        }),
        Property::always(name::HEALS, |model, w: &World| model.heals(w)),
    ]
}

impl Model {
    /// Whether somebody will see to this row.
    fn is_seen_to(&self, world: &World, task: usize) -> bool {
        let row = &world.rows[task];
        if !row.is_running() {
            return row.status.state.is_final() || !is_marked(row);
        }
        let Some(owner) = row.owner.map(|owner| &world.nodes[owner]) else {
            return false;
        };
        match &owner.memory {
            Some(memory)
                if memory.knows(task, row.token)
                    || self.rules.asking == Asking::AskAndReconcile =>
            {
                true
            }
            Some(_) if owner.member != Member::Dead => false,
            None if owner.member != Member::Dead => true,
            _ => {
                self.rules.sweeping == Sweeping::Always
                    || memories(world).any(|m| is_looked_for(m, row))
            }
        }
    }
}

fn is_looked_for(memory: &Memory, row: &Row) -> bool {
    memory.duty == row.owner || memory.seen.is_some_and(|orphan| orphan.token == row.token)
}

fn is_last_claims(row: &Row) -> bool {
    row.outcomes
        .iter()
        .flatten()
        .all(|outcome| outcome.claim == row.claims)
}

fn ends_canceled(row: &Row) -> bool {
    (row.is_running() || row.status.state == State::Canceled)
        && row
            .outcomes
            .iter()
            .flatten()
            .all(|outcome| outcome.state == State::Canceled)
}

fn is_marked(row: &Row) -> bool {
    row.status.cancel == CancelMark::Marked
}

fn is_late(node: &Node) -> bool {
    node.member == Member::Dead && matches!(node.wire, Some(Statement::Claim(_)))
}

fn is_zombie(row: &Row, claim: Claim, member: Member) -> bool {
    member == Member::Dead && row.is_running() && row.token != Some(claim.token)
}

fn is_outdated(world: &World, memory: &Memory) -> bool {
    memory
        .seen
        .is_some_and(|orphan| orphan.serial < world.rows[orphan.task].claims)
}

fn is_unheard(row: &Row, claim: Claim, _: Member) -> bool {
    matches!(claim.phase, Phase::Sent(_))
        && row
            .outcomes
            .iter()
            .flatten()
            .any(|outcome| outcome.token == Some(claim.token))
}

fn is_unknown(world: &World, task: usize, row: &Row) -> bool {
    let owner = row
        .owner
        .and_then(|owner| world.nodes[owner].memory.as_ref());
    row.is_running() && owner.is_some_and(|memory| !memory.knows(task, row.token))
}

fn has_state(world: &World, state: State) -> bool {
    world.rows.iter().any(|row| row.status.state == state)
}

fn memories(world: &World) -> impl Iterator<Item = &Memory> {
    world.nodes.iter().filter_map(|node| node.memory.as_ref())
}

/// Whether some held claim passes a test, given its row and what its node's row says.
fn works(world: &World, test: fn(&Row, Claim, Member) -> bool) -> bool {
    world.nodes.iter().any(|node| {
        let held = node
            .memory
            .iter()
            .flat_map(|memory| memory.held.iter().flatten());
        held.into_iter()
            .any(|claim| test(&world.rows[claim.task], *claim, node.member))
    })
}
