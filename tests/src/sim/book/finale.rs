//! What must hold once all is well and everything due has had its time.

use super::{Book, Pages};
use crate::sim::check::Check;
use crate::sim::columns::{
    Record, id, id_opt, int, int_opt, key, node, schedule, shard, task, text,
};
use crate::sim::tables::{Pk, Table, Tables};
use crate::sim::trace::short;

/// The most that a schedule may be behind.
const SCHEDULE_LATE_MS: i64 = 8_000;

/// What is still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finale {
    /// Live rows, those that a schedule has just made excepted.
    pub(crate) live: usize,
}

/// How long a task of a schedule may live, in milliseconds: schedules never stop making new ones.
const SCHEDULED_MS: i64 = 5_000;

fn must_end(row: &Record, now: i64) -> bool {
    row[task::SCHEDULE].is_null() || now - int(row, task::CREATED_AT) > SCHEDULED_MS
}

impl Finale {
    /// Counts what is live.
    pub(crate) fn of(tables: &Tables, now: i64) -> Finale {
        let live = tables.committed(Table::Task).values();
        Finale {
            live: live.filter(|row| must_end(row, now)).count(),
        }
    }
}

impl Book {
    /// From now on what becomes due must be claimed soon.
    pub(crate) fn all_is_well(&self, now: i64) {
        self.pages().well_since = Some(now);
    }

    /// The last look: nothing is left over.
    pub(crate) fn finale(&self, tables: &Tables, now: i64) {
        let mut pages = self.pages();
        self.rows_ended(&mut pages, tables, now);
        self.keys_are_free(&mut pages, tables);
        self.shards_are_owned(&mut pages, tables);
        self.schedules_went_on(&mut pages, tables, now);
        self.tasks_have_outcomes(&mut pages);
    }

    fn rows_ended(&self, pages: &mut Pages, tables: &Tables, now: i64) {
        for row in tables
            .committed(Table::Task)
            .values()
            .filter(|row| must_end(row, now))
        {
            let due = now - int(row, task::READY_AT);
            let owner = id_opt(row, task::NODE);
            let owner_state =
                owner.and_then(|node| tables.committed(Table::Node).get(&Pk::Id(node)));
            let owner_state = owner_state.map(|row| int(row, node::STATE));
            let text = format!(
                "{} ({}) is still in state {}, due since {due} ms, shard {}, node {:?} in state {owner_state:?}, fence {}",
                short(&id(row, task::ID)),
                text(row, task::JOB),
                int(row, task::STATE),
                int(row, task::SHARD),
                owner.as_ref().map(short),
                int(row, task::FENCE),
            );
            self.broken(pages, Check::Ends, text);
        }
    }

    fn keys_are_free(&self, pages: &mut Pages, tables: &Tables) {
        for row in tables.committed(Table::Key).values() {
            let holder = id(row, key::TASK);
            let live = tables.committed(Table::Task).contains_key(&Pk::Id(holder));
            let held = int(row, key::UNTIL) == i64::MAX && !live;
            self.must(pages, Check::Ends, !held, || {
                format!(
                    "the key {:?} is held for ever by {}, which has ended",
                    text(row, key::TASK_KEY),
                    short(&holder)
                )
            });
        }
    }

    fn shards_are_owned(&self, pages: &mut Pages, tables: &Tables) {
        for row in tables.committed(Table::Shard).values() {
            let owner = id_opt(row, shard::OWNER);
            let stuck = owner.is_some_and(|owner| !pages.present.contains(&owner));
            let number = int(row, shard::SHARD);
            self.must(pages, Check::Ends, !stuck, || {
                format!(
                    "shard {number} belongs to {:?}, which is gone",
                    owner.as_ref().map(short)
                )
            });
        }
    }

    fn schedules_went_on(&self, pages: &mut Pages, tables: &Tables, now: i64) {
        for row in tables.committed(Table::Schedule).values() {
            let late = now - int(row, schedule::NEXT_AT);
            let behind = int(row, schedule::STATE) == 0 && late > SCHEDULE_LATE_MS;
            let name = text(row, schedule::NAME);
            self.must(pages, Check::Ends, !behind, || {
                format!("the schedule {name} is {late} ms behind")
            });
        }
        for row in tables.committed(Table::Schedule).values() {
            let name = text(row, schedule::NAME);
            let (Some(first), Some(step)) = (pages.first_ticks.get(&name).copied(), every(&name))
            else {
                continue;
            };
            let ticks = tables
                .committed(Table::Tick)
                .values()
                .filter(|tick| text(tick, 1) == name);
            let told: i64 = ticks.map(|tick| 1 + int_opt(tick, 6).unwrap_or(0)).sum();
            let passed = (int(row, schedule::NEXT_AT) - first) / step;
            let text = || format!("{passed} ticks of {name} are over and {told} are told of");
            self.must(pages, Check::OneTaskPerTick, told == passed, text);
        }
    }

    fn tasks_have_outcomes(&self, pages: &mut Pages) {
        let open = pages
            .tasks
            .iter()
            .find(|(_, story)| !story.live && story.outcomes.is_empty() && story.fence > 0);
        if let Some(task) = open.map(|(task, _)| *task) {
            self.broken(
                pages,
                Check::NothingLost,
                format!("{} is gone without an outcome", short(&task)),
            );
        }
    }
}

/// The step of a fixed rate, in milliseconds, as the name of its schedule tells it.
fn every(name: &str) -> Option<i64> {
    name.rsplit_once("every-")?.1.parse().ok()
}
