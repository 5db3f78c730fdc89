//! What each action does: the statements of the store, in the smallest form that keeps their
//! guards.
//!
//! Enters: a world and an action that is possible in it. Leaves: the world after it. It never looks
//! at the bounds, and asks [`ax_core::next`] for every transition.

use ax_core::{CancelMark, Event, State, Status, next};

use super::Model;
use super::action::{Action, End};
use super::rule::{Asking, Claiming, Guard, Marking, Reaping, Recording, Rows, Sweeping};
use super::world::{Claim, Member, Orphan, Outcome, Phase, Row, Statement, Token, Wanted, World};

/// What a settle did.
enum Settled {
    /// It changed nothing.
    Nothing,
    /// It changed the row, and the history with it.
    Done,
    /// It ended the task; the outcome is not recorded yet.
    Owed(State),
}

impl Model {
    /// Does one action.
    pub(super) fn step(&self, world: &mut World, action: Action) {
        match action {
            Action::Begin { node, task } => begin(world, node, task),
            Action::Land { node } => self.land(world, node),
            Action::LandUnanswered { node } => self.land_unanswered(world, node),
            Action::Ask { node } => self.ask(world, node),
            Action::Settle { node, slot, end } => self.settle(world, node, slot, end),
            Action::Send { node, slot, end } => send(world, node, slot, end),
            Action::Record { node, slot } => record(world, node, slot),
            Action::Reconcile { task, .. } => self.reconcile(&mut world.rows[task]),
            Action::Look { node, task } => self.look(world, node, task),
            Action::Reap { node } => self.reap(world, node),
            Action::Crash { node } => {
                world.crashes = world.crashes.saturating_sub(1);
                world.nodes[node].memory = None;
            }
            Action::Expire { node } => world.nodes[node].member = Member::Overdue,
            Action::Renew { node } => world.nodes[node].member = Member::Leased,
            Action::Bury { node, dead } => self.bury(world, node, dead),
            Action::Cancel { task } => cancel(world, task),
        }
    }

    fn land(&self, world: &mut World, node: usize) {
        let Some(statement) = world.nodes[node].wire.take() else {
            return;
        };
        match statement {
            Statement::Settle(claim, end) => {
                self.write_end(world, node, claim, end);
            }
            Statement::Claim(wanted) => {
                let claim = self.write_claim(world, node, wanted);
                let Some(memory) = &mut world.nodes[node].memory else {
                    return;
                };
                if memory.wanted != Some(wanted) {
                    return;
                }
                memory.wanted = None;
                if let Some(claim) = claim {
                    memory.hold(claim);
                    world.rows[claim.task].start();
                }
            }
        }
    }

    fn land_unanswered(&self, world: &mut World, node: usize) {
        world.lost_replies = world.lost_replies.saturating_sub(1);
        if let Some(Statement::Claim(wanted)) = world.nodes[node].wire.take() {
            self.write_claim(world, node, wanted);
        }
    }

    /// The claim: one guarded update. The row that it writes is checked again, what else it has
    /// read is not.
    fn write_claim(&self, world: &mut World, node: usize, wanted: Wanted) -> Option<Claim> {
        let alive = !world.owner_is_dead(wanted.task);
        let row = &mut world.rows[wanted.task];
        let state = match self.rules.claiming {
            Claiming::Guarded | Claiming::AnyNode => next(row.status, Event::Claim)?.state,
            Claiming::ById if self.is_gone(row) => return None,
            Claiming::ById => State::Running,
        };
        row.robbed |= row.is_running() && alive;
        row.status.state = state;
        row.token = Some(wanted.token);
        row.owner = Some(node);
        row.fence += 1;
        row.attempt += 1;
        row.claims += 1;
        let phase = Phase::Working;
        Some(Claim {
            task: wanted.task,
            token: wanted.token,
            attempt: row.attempt,
            serial: row.claims,
            phase,
        })
    }

    fn ask(&self, world: &mut World, node: usize) {
        if world.nodes[node].waits_for_wire() {
            world.lost_replies = world.lost_replies.saturating_sub(1);
        }
        let Some(memory) = &mut world.nodes[node].memory else {
            return;
        };
        let Some(wanted) = memory.wanted.take() else {
            return;
        };
        let row = &mut world.rows[wanted.task];
        if self.rules.asking != Asking::Forget
            && row.is_running()
            && row.token == Some(wanted.token)
        {
            let Wanted { task, token } = wanted;
            memory.hold(Claim {
                task,
                token,
                attempt: row.attempt,
                serial: row.claims,
                phase: Phase::Working,
            });
            row.start();
        }
    }

    fn settle(&self, world: &mut World, node: usize, slot: usize, end: End) {
        let Some(claim) = world.nodes[node].memory.as_ref().and_then(|m| m.held[slot]) else {
            return;
        };
        let settled = self.write_end(world, node, claim, end);
        let Some(memory) = &mut world.nodes[node].memory else {
            return;
        };
        match settled {
            Settled::Owed(state) => {
                memory.held[slot] = Some(Claim {
                    phase: Phase::Owed(state),
                    ..claim
                })
            }
            // No row: already done or stale, and either way there is nothing left to do.
            Settled::Done | Settled::Nothing => memory.drop_claim(slot),
        }
    }

    /// The settle: one transaction of a guarded update (or delete) and the history row.
    fn write_end(&self, world: &mut World, node: usize, claim: Claim, end: End) -> Settled {
        let row = &mut world.rows[claim.task];
        let repeated = match self.rules.guard {
            Guard::Token => row.token == Some(claim.token),
            Guard::StateOnly => true,
            Guard::Attempt => row.attempt == claim.attempt,
            Guard::AttemptAndOwner => row.attempt == claim.attempt && row.owner == Some(node),
        };
        let Some(new) = next(self.read_status(row, CancelMark::None), end.event()) else {
            return Settled::Nothing;
        };
        if !repeated {
            return Settled::Nothing;
        }
        row.stale_write |= row.claims != claim.serial;
        if new.state.is_final() && self.rules.recording == Recording::Apart {
            row.status.state = new.state;
            return Settled::Owed(new.state);
        }
        row.leave_running(new.state, Some(claim.token), claim.serial);
        row.attempt -= u8::from(end == End::Release && !new.state.is_final());
        Settled::Done
    }

    /// The status from which a way out of running is computed.
    fn read_status(&self, row: &Row, earlier: CancelMark) -> Status {
        match self.rules.marking {
            Marking::AtWrite => row.status,
            Marking::AtRead => Status {
                state: row.status.state,
                cancel: earlier,
            },
        }
    }

    fn is_gone(&self, row: &Row) -> bool {
        row.status.state.is_final() && self.rules.rows == Rows::Moved
    }

    /// The hand-back of a row that its owner does not know: it never started, so the attempt is
    /// given back.
    fn reconcile(&self, row: &mut Row) {
        let Some(new) = next(self.read_status(row, row.status.cancel), Event::Release) else {
            return;
        };
        row.leave_running(new.state, row.token, row.claims);
        row.attempt -= u8::from(!new.state.is_final());
    }

    fn bury(&self, world: &mut World, node: usize, dead: usize) {
        world.nodes[dead].member = Member::Dead;
        if let (Sweeping::OncePerDeath, Some(memory)) =
            (self.rules.sweeping, &mut world.nodes[node].memory)
        {
            memory.duty = Some(dead);
        }
    }

    fn look(&self, world: &mut World, node: usize, task: usize) {
        let dead = world.owner_is_dead(task);
        let row = &world.rows[task];
        let Some(memory) = &mut world.nodes[node].memory else {
            return;
        };
        memory.duty = None;
        memory.seen = (row.is_running() && (dead || self.rules.reaping == Reaping::ByAge))
            .then_some(Orphan {
                task,
                token: row.token,
                fence: row.fence,
                lost: row.lost,
                cancel: row.status.cancel,
                serial: row.claims,
            });
    }

    /// The write of the reaper.
    fn reap(&self, world: &mut World, node: usize) {
        let Some(seen) = world.nodes[node]
            .memory
            .as_mut()
            .and_then(|m| m.seen.take())
        else {
            return;
        };
        let dead = world.owner_is_dead(seen.task);
        let row = &mut world.rows[seen.task];
        let same = row.is_running() && row.token == seen.token;
        match self.rules.reaping {
            Reaping::Guarded if same && dead => self.lose(row, seen, row.lost + 1),
            Reaping::ByAge if same => {
                row.robbed |= !dead;
                self.lose(row, seen, row.lost + 1);
            }
            Reaping::ById | Reaping::WholeRow => {
                row.robbed |= row.is_running() && !dead;
                self.lose_by_id(row, seen);
            }
            Reaping::Guarded | Reaping::ByAge => {}
        }
    }

    fn lose_by_id(&self, row: &mut Row, seen: Orphan) {
        let before = row.clone();
        row.status = Status {
            state: State::Running,
            cancel: row.status.cancel,
        };
        self.lose(row, seen, seen.lost + 1);
        if self.is_gone(&before) {
            // The update finds no row; the history row of a task that was lost for good is written
            // all the same.
            *row = Row {
                outcomes: row.outcomes,
                ..before
            };
        } else if self.rules.reaping == Reaping::WholeRow {
            row.fence = seen.fence;
        }
    }

    fn lose(&self, row: &mut Row, seen: Orphan, lost: u8) {
        let event = if lost >= self.bounds.losses {
            Event::LoseForGood
        } else {
            Event::Lose
        };
        let Some(new) = next(self.read_status(row, seen.cancel), event) else {
            return;
        };
        let bit = row.owner.map_or(0, |owner| 1 << owner);
        row.overcharged |= row.charged & bit != 0;
        row.charged |= bit;
        row.lost = lost;
        row.leave_running(new.state, seen.token, seen.serial);
    }
}

fn begin(world: &mut World, node: usize, task: usize) {
    let wanted = Wanted {
        task,
        token: Token {
            after: world.rows[task].claims,
            node,
        },
    };
    world.nodes[node].wire = Some(Statement::Claim(wanted));
    if let Some(memory) = &mut world.nodes[node].memory {
        memory.wanted = Some(wanted);
    }
}

fn send(world: &mut World, node: usize, slot: usize, end: End) {
    world.lost_replies = world.lost_replies.saturating_sub(1);
    let node = &mut world.nodes[node];
    let Some(claim) = node
        .memory
        .as_mut()
        .and_then(|memory| memory.held[slot].as_mut())
    else {
        return;
    };
    node.wire = Some(Statement::Settle(*claim, end));
    claim.phase = Phase::Sent(end);
}

fn record(world: &mut World, node: usize, slot: usize) {
    let Some(memory) = &mut world.nodes[node].memory else {
        return;
    };
    let Some(claim) = memory.held[slot] else {
        return;
    };
    if let Phase::Owed(state) = claim.phase {
        world.rows[claim.task].record(Outcome {
            state,
            token: Some(claim.token),
            claim: claim.serial,
        });
    }
    memory.drop_claim(slot);
}

fn cancel(world: &mut World, task: usize) {
    world.cancels = world.cancels.saturating_sub(1);
    let row = &mut world.rows[task];
    let Some(new) = next(row.status, Event::Cancel) else {
        return;
    };
    row.canceled = true;
    row.status = new;
    if new.state.is_final() {
        row.record(Outcome {
            state: new.state,
            token: None,
            claim: row.claims,
        });
    }
}
