//! The model of claim, settle, reap and fail-over that stateright searches exhaustively.
//!
//! What this room is for: the road of a task through crashes, lost replies and late statements, in
//! every order. Enters: a [`Model`] (the rules under test and the bounds). Leaves: nothing;
//! stateright walks it and the suite `tests/model.rs` asks which properties held. It never touches
//! a database and knows no clock: the end of a lease is an event that may happen at any moment.
//!
//! Ground rules:
//! 1. One action is one atomic statement (or one transaction whose first write takes the row's
//!    lock). Between two actions every other node may act: READ COMMITTED.
//! 2. A claim is two actions, [`Action::Begin`] (its snapshot: what it reads of the node's row and
//!    of the task's row) and [`Action::Land`] (its write, which checks again only the row that it
//!    writes). So is a reap.
//! 3. A statement that was sent may land after its sender gave up, crashed or was declared dead.
//! 4. A node need not act. A pause, a stall and a lost network are therefore orders of actions, not
//!    actions: the lease of a silent node ends, others go on, and it comes back with all that it
//!    remembered.
//! 5. Every transition is asked of [`ax_core::next`], so it is the engine's own state machine that
//!    is searched.
//! 6. Fields marked *ghost* are seen by the properties only, never by a rule.

mod action;
mod heal;
mod property;
mod rule;
mod step;
mod symmetry;
mod world;

pub use action::{Action, End};
pub use property::name;
pub use rule::{
    Asking, Bounds, Claiming, Guard, Marking, Reaping, Recording, Rows, Rules, Sweeping,
};
pub use world::{
    Claim, Member, Memory, Node, Orphan, Outcome, Phase, Row, Statement, Token, Wanted, World,
};

/// What is searched: the rules of the statements and how much may go wrong.
#[derive(Clone, Debug)]
pub struct Model {
    /// What each statement repeats of what it has read.
    pub rules: Rules,
    /// How many tasks, nodes, claims and faults there are.
    pub bounds: Bounds,
}

impl stateright::Model for Model {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.collect_actions(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<stateright::Property<Model>> {
        property::all(&self.bounds)
    }
}
