//! The way out of any trouble: what happens once nothing more goes wrong.
//!
//! Enters: any world. Leaves: whether every task gets an outcome when the faults stop, a fresh node
//! joins and every loop of every living process runs in turn. The crashed do not come back and no
//! further reply is lost. It never sees the bounds.
//!
//! The order of the turns follows the numbers of the nodes. That is one schedule among many: it
//! proves that a way out exists, and renumbered worlds have renumbered ways out.

use super::Model;
use super::action::{Action, End};
use super::world::{Node, Phase, SLOTS, World};

/// Turns of all loops after which a task that has no outcome is called stuck.
const TURNS: usize = 6;

impl Model {
    /// Whether every task gets an outcome from here on.
    pub(super) fn heals(&self, world: &World) -> bool {
        if is_settled(world) {
            return true;
        }
        let mut world = world.clone();
        world.nodes.push(Node::new());
        (0..TURNS).any(|_| {
            self.turn(&mut world);
            is_settled(&world)
        })
    }

    /// Every loop of every node once.
    fn turn(&self, world: &mut World) {
        let fresh = world.nodes.len() - 1;
        for node in 0..world.nodes.len() {
            self.keep_membership(world, node, fresh);
            self.report(world, node);
            self.attempt(world, Action::Land { node });
            self.attempt(world, Action::Ask { node });
            self.attempt(world, Action::Reap { node });
            for task in 0..world.rows.len() {
                self.attempt(world, Action::Reconcile { node, task });
                self.attempt(world, Action::Look { node, task });
                self.attempt(world, Action::Reap { node });
            }
        }
        for task in 0..world.rows.len() {
            self.attempt(world, Action::Begin { node: fresh, task });
            self.attempt(world, Action::Land { node: fresh });
            self.report(world, fresh);
        }
    }

    fn keep_membership(&self, world: &mut World, node: usize, fresh: usize) {
        if world.nodes[node].memory.is_some() {
            self.attempt(world, Action::Renew { node });
        } else {
            self.attempt(world, Action::Expire { node });
            self.attempt(
                world,
                Action::Bury {
                    node: fresh,
                    dead: node,
                },
            );
        }
    }

    /// A worker finishes what it holds.
    fn report(&self, world: &mut World, node: usize) {
        for slot in (0..SLOTS).rev() {
            let phase = world.nodes[node]
                .memory
                .as_ref()
                .and_then(|m| m.held[slot])
                .map(|claim| claim.phase);
            match phase {
                Some(Phase::Working) => self.attempt(
                    world,
                    Action::Settle {
                        node,
                        slot,
                        end: End::Succeed,
                    },
                ),
                Some(Phase::Sent(end)) => self.attempt(world, Action::Settle { node, slot, end }),
                Some(Phase::Owed(_)) | None => {}
            }
            self.attempt(world, Action::Record { node, slot });
        }
    }

    fn attempt(&self, world: &mut World, action: Action) {
        if self.allows(world, action) {
            self.step(world, action);
        }
    }
}

fn is_settled(world: &World) -> bool {
    world
        .rows
        .iter()
        .all(|row| row.status.state.is_final() && row.outcomes[0].is_some())
}
