//! Which worlds are the same but for the numbers of nodes and tasks.
//!
//! Enters: a world. Leaves: a world that differs from it by renumbering only, and is the same for
//! most worlds that do. No rule and no property looks at a number except to compare it with
//! another, so searching one of them is searching all. It never merges two worlds that are not
//! renumberings of each other.

use stateright::Representative;

use super::world::{Claim, Memory, Node, Row, Statement, Token, Wanted, World};

/// The new number of each node and of each task.
struct Renumbering {
    nodes: Vec<usize>,
    tasks: Vec<usize>,
}

impl Representative for World {
    fn representative(&self) -> World {
        let by_node = order(&self.nodes, node_key);
        let by_task = order(&self.rows, task_key);
        let new = Renumbering {
            nodes: inverse(&by_node),
            tasks: inverse(&by_task),
        };
        World {
            rows: by_task
                .iter()
                .map(|&task| new.row(&self.rows[task]))
                .collect(),
            nodes: by_node
                .iter()
                .map(|&node| new.node(&self.nodes[node]))
                .collect(),
            ..*self
        }
    }
}

/// The old numbers in their new order.
fn order<T, K: Ord>(of: &[T], key: fn(&T) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..of.len()).collect();
    order.sort_by_cached_key(|&number| key(&of[number]));
    order
}

fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        inverse[old] = new;
    }
    inverse
}

/// What can be told of a node without naming a node or a task.
fn node_key(node: &Node) -> impl Ord + use<> {
    let memory = node.memory.as_ref();
    let wire = node.wire.map(|statement| match statement {
        Statement::Claim(wanted) => (wanted.token.after, None),
        Statement::Settle(claim, end) => (claim.serial, Some(end)),
    });
    let held = memory.map(|m| {
        m.held
            .map(|slot| slot.map(|claim| (claim.serial, claim.phase)))
    });
    let seen = memory
        .and_then(|m| m.seen)
        .map(|orphan| (orphan.serial, orphan.cancel));
    (
        node.member,
        wire,
        memory.map(|m| m.wanted.map(|w| w.token.after)),
        held,
        seen,
    )
}

/// What can be told of a task without naming a node.
fn task_key(row: &Row) -> impl Ord + use<> {
    (
        row.status,
        row.claims,
        row.attempt,
        row.lost,
        row.canceled,
        row.outcomes.map(|o| o.map(|o| (o.state, o.claim))),
    )
}

impl Renumbering {
    fn token(&self, token: Token) -> Token {
        Token {
            node: self.nodes[token.node],
            ..token
        }
    }

    fn row(&self, row: &Row) -> Row {
        let charged = (0..self.nodes.len()).filter(|node| row.charged & (1 << node) != 0);
        Row {
            token: row.token.map(|token| self.token(token)),
            owner: row.owner.map(|owner| self.nodes[owner]),
            outcomes: row.outcomes.map(|outcome| {
                outcome.map(|mut outcome| {
                    outcome.token = outcome.token.map(|token| self.token(token));
                    outcome
                })
            }),
            charged: charged.map(|node| 1 << self.nodes[node]).sum(),
            ..*row
        }
    }

    fn node(&self, node: &Node) -> Node {
        let wire = node.wire.map(|statement| match statement {
            Statement::Claim(wanted) => Statement::Claim(self.wanted(wanted)),
            Statement::Settle(claim, end) => Statement::Settle(self.claim(claim), end),
        });
        Node {
            member: node.member,
            wire,
            memory: node.memory.as_ref().map(|memory| self.memory(memory)),
        }
    }

    fn memory(&self, memory: &Memory) -> Memory {
        let mut new = Memory {
            wanted: memory.wanted.map(|wanted| self.wanted(wanted)),
            held: memory.held.map(|slot| slot.map(|claim| self.claim(claim))),
            seen: memory.seen,
            duty: memory.duty.map(|node| self.nodes[node]),
        };
        if let Some(orphan) = &mut new.seen {
            orphan.task = self.tasks[orphan.task];
            orphan.token = orphan.token.map(|token| self.token(token));
        }
        new.sort_slots();
        new
    }

    fn wanted(&self, wanted: Wanted) -> Wanted {
        Wanted {
            task: self.tasks[wanted.task],
            token: self.token(wanted.token),
        }
    }

    fn claim(&self, claim: Claim) -> Claim {
        Claim {
            task: self.tasks[claim.task],
            token: self.token(claim.token),
            ..claim
        }
    }
}
