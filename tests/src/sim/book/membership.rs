//! Who is alive by the ledger, and whom the nodes may declare dead.

use super::rows::lease_and_state;
use super::{Book, Health, Pages};
use crate::sim::check::Check;
use crate::sim::columns::{Record, id, node};
use crate::sim::executor::Process;
use crate::sim::trace::short;

const LEAVING: i64 = 1;
const DEAD: i64 = 2;
const LEFT: i64 = 3;

/// For how many leases a process may be late with its heartbeat after trouble of its own.
const EXCUSED_LEASES: i64 = 3;

impl Book {
    /// A process begins.
    pub(crate) fn process_starts(&self, process: Process) {
        self.pages().processes.insert(process, Health::default());
    }

    /// Its engine runs.
    pub(crate) fn process_is_steady(&self, process: Process) {
        // Between its join and its first heartbeat it has registered its schedules, which may have taken long.
        self.excuse(process);
        self.health(process, |health| health.steady = true);
    }

    /// It was asked to leave: if its goodbye is late, the others may bury it.
    pub(crate) fn process_leaves(&self, process: Process) {
        self.health(process, |health| health.leaving = true);
    }

    /// It has left, or was killed.
    pub(crate) fn process_ends(&self, process: Process) {
        self.health(process, |health| health.dead = true);
    }

    /// Its heartbeat is frozen.
    pub(crate) fn process_freezes(&self, process: Process) {
        self.health(process, |health| health.frozen = true);
    }

    /// Its heartbeat goes on.
    pub(crate) fn process_thaws(&self, process: Process) {
        self.health(process, |health| health.frozen = false);
        self.excuse(process);
    }

    /// Its heartbeat has trouble of its own.
    pub(crate) fn excuse(&self, process: Process) {
        let until = self.executor.micros() + EXCUSED_LEASES * self.lease;
        self.health(process, |health| {
            health.excused_until = health.excused_until.max(until)
        });
    }

    fn health(&self, process: Process, change: impl FnOnce(&mut Health)) {
        change(self.pages().processes.entry(process).or_default());
    }

    /// A row of a node changed.
    pub(super) fn node_row(
        &self,
        pages: &mut Pages,
        process: Process,
        old: Option<&Record>,
        new: Option<&Record>,
    ) {
        let Some(row) = new.or(old) else { return };
        let node = id(row, node::ID);
        let Some(new) = new else {
            pages.present.remove(&node);
            return;
        };
        let (lease, state) = lease_and_state(new);
        let longest = pages.leases.entry(node).or_insert(lease);
        *longest = lease.max(*longest);
        let Some(old) = old else {
            pages.nodes.insert(node, process);
            pages.joined.insert(process, node);
            pages.present.insert(node);
            return;
        };
        let (_, before) = lease_and_state(old);
        self.must(pages, Check::RightDeath, before <= state, || {
            format!("{} came back from state {before}", short(&node))
        });
        if state >= DEAD {
            pages.present.remove(&node);
        }
        if before <= LEAVING && state == DEAD {
            let (latest, name) = (pages.latest, short(&node));
            self.must(pages, Check::RightDeath, lease < latest, || {
                format!("{name} was declared dead before its lease was over")
            });
            self.died(pages, node, process);
        }
        let itself = pages.nodes.get(&node) == Some(&process);
        let left = before <= LEAVING && state == LEFT;
        self.must(pages, Check::RightDeath, !left || itself, || {
            format!("{} was made to leave", short(&node))
        });
    }

    /// A node was declared dead: right if its process is gone or had trouble of its own.
    fn died(&self, pages: &mut Pages, node: [u8; 16], by: Process) {
        let Some(process) = pages.nodes.get(&node).copied() else {
            return;
        };
        let health = pages.processes.get(&process).copied().unwrap_or_default();
        let former = pages.joined.get(&process) != Some(&node);
        let excused = self.executor.micros() < health.excused_until;
        let right =
            former || !health.steady || health.leaving || health.dead || health.frozen || excused;
        let text = || {
            format!(
                "p{process} ({}) is in order and was declared dead by p{by}",
                short(&node)
            )
        };
        self.must(pages, Check::RightDeath, right, text);
    }
}
