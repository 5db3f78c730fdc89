//! What may become of rows, commit by commit.

use std::collections::BTreeMap;

use ax_core::{AttemptEnd, OnLost, State};

use super::claims::retries;
use super::{Book, Id, Pages};
use crate::sim::check::Check;
use crate::sim::columns::{
    Record, execution, history, id, id_opt, int, int_opt, key, node, schedule, task, text, text_opt,
};
use crate::sim::executor::Process;
use crate::sim::tables::{Table, Write};
use crate::sim::trace::short;

const PENDING: i64 = State::Pending.code() as i64;
const RUNNING: i64 = State::Running.code() as i64;
const SUCCEEDED: i64 = State::Succeeded.code() as i64;
const FAILED: i64 = State::Failed.code() as i64;
const CANCELED: i64 = State::Canceled.code() as i64;
const EXPIRED: i64 = State::Expired.code() as i64;
const LOST: i64 = AttemptEnd::Lost.code() as i64;
const RETRIED: i64 = AttemptEnd::Retried.code() as i64;
const TIMED_OUT: i64 = AttemptEnd::TimedOut.code() as i64;
/// What only another submit changes.
const CONTENTS: [usize; 6] = [
    task::PAYLOAD,
    task::DEADLINE,
    task::TAGS,
    task::MAX_RETRIES,
    task::TIMEOUT_MS,
    task::ON_LOST,
];
/// Workers that may die with a task.
const LOST_LIMIT: i64 = 3;
const ON_LOST_FAIL: i64 = OnLost::Fail.code() as i64;

/// The parts of a commit that belong together.
#[derive(Default)]
struct Bundle<'a> {
    ended: BTreeMap<Id, &'a Record>,
    attempts: BTreeMap<(Id, i64), &'a Record>,
    dead: BTreeMap<Id, &'a Record>,
    tasks: BTreeMap<Id, &'a Write>,
}

impl<'a> Bundle<'a> {
    fn of(writes: &'a [Write]) -> Bundle<'a> {
        let mut bundle = Bundle::default();
        for write in writes {
            match (write.table, &write.old, &write.new) {
                (Table::Task, _, _) => {
                    let row = write.new.as_ref().or(write.old.as_ref());
                    row.map(|row| bundle.tasks.insert(id(row, task::ID), write));
                }
                (Table::History, None, Some(row)) => {
                    bundle.ended.insert(id(row, task::ID), row);
                }
                (Table::Execution, None, Some(row)) => {
                    bundle
                        .attempts
                        .insert((id(row, execution::TASK), int(row, execution::FENCE)), row);
                }
                (Table::Dead, None, Some(row)) => {
                    bundle.dead.insert(id(row, 0), row);
                }
                _ => {}
            }
        }
        bundle
    }
}

impl Book {
    /// Looks at all that a transaction wrote.
    pub(super) fn see_writes(
        &self,
        pages: &mut Pages,
        process: Process,
        writes: &[Write],
        now: i64,
    ) {
        let bundle = Bundle::of(writes);
        for write in writes {
            match (write.table, &write.old, &write.new) {
                (Table::Task, None, Some(new)) => self.born(pages, new, now),
                (Table::Task, Some(old), Some(new)) => self.changed(pages, &bundle, old, new),
                (Table::Task, Some(old), None) => self.gone(pages, &bundle, old),
                (Table::History, None, Some(row)) => self.ended_row(pages, &bundle, row),
                (Table::History, Some(row), _) => {
                    let text = format!("the history of {} was written over", short(&id(row, 0)));
                    self.broken(pages, Check::OneOutcome, text);
                }
                (Table::Key, _, Some(row)) => self.key_row(pages, row),
                (Table::Execution, None, Some(row)) => self.attempt_row(pages, &bundle, row),
                (Table::Node, old, new) => {
                    self.node_row(pages, process, old.as_ref(), new.as_ref())
                }
                (Table::Shard, Some(old), Some(new)) => self.shard_row(pages, old, new),
                (Table::Schedule, None, Some(new)) => {
                    let (name, first) = (text(new, schedule::NAME), int(new, schedule::NEXT_AT));
                    pages.first_ticks.insert(name, first);
                }
                (Table::Schedule, Some(old), Some(new)) => self.schedule_row(pages, old, new),
                _ => {}
            }
        }
    }

    fn born(&self, pages: &mut Pages, row: &Record, now: i64) {
        let (task, round, fence) = (
            id(row, task::ID),
            int(row, task::ROUND),
            int(row, task::FENCE),
        );
        let story = pages.tasks.entry(task).or_default();
        let back = story
            .outcomes
            .keys()
            .next_back()
            .is_some_and(|ended| *ended >= round);
        let reset = round > 0 && fence < story.fence;
        story.live = true;
        story.round = round;
        story.waits_since = now;
        story.at_most_once = int(row, task::ON_LOST) == ON_LOST_FAIL;
        self.must(pages, Check::OneOutcome, !back, || {
            format!("{} came back after its end", short(&task))
        });
        self.must(pages, Check::FenceGrows, !reset, || {
            format!("{} came back with fence {fence}", short(&task))
        });
        self.take_key(pages, row);
        self.take_tick(pages, row);
        self.answer_to_submit(pages, row);
        if int(row, task::STATE) == RUNNING {
            self.claimed(pages, row, now);
        }
    }

    fn take_key(&self, pages: &mut Pages, row: &Record) {
        let Some(key) = text_opt(row, task::TASK_KEY) else {
            return;
        };
        let task = id(row, task::ID);
        let name = (text(row, task::NAMESPACE), text(row, task::JOB), key);
        let former = pages
            .keys
            .insert(name.clone(), task)
            .filter(|former| *former != task);
        let text = || {
            format!(
                "{} and {} live with one key {:?}",
                short(&former.unwrap_or_default()),
                short(&task),
                name.2
            )
        };
        self.must(pages, Check::UniqueKey, former.is_none(), text);
        let promised = pages
            .periods
            .get(&name)
            .copied()
            .filter(|(holder, until)| *holder != task && *until > pages.latest);
        let text = || {
            format!(
                "{} got the key {:?} that is promised to {promised:?}",
                short(&task),
                name.2
            )
        };
        self.must(pages, Check::UniqueKey, promised.is_none(), text);
    }

    fn key_row(&self, pages: &mut Pages, row: &Record) {
        let name = (
            text(row, key::NAMESPACE),
            text(row, key::JOB),
            text(row, key::TASK_KEY),
        );
        pages
            .periods
            .insert(name, (id(row, key::TASK), int(row, key::PERIOD_END)));
    }

    fn take_tick(&self, pages: &mut Pages, row: &Record) {
        let (Some(name), Some(at)) = (
            text_opt(row, task::SCHEDULE),
            int_opt(row, task::SCHEDULED_AT),
        ) else {
            return;
        };
        let task = id(row, task::ID);
        let former = pages
            .ticks
            .insert((text(row, task::NAMESPACE), name.clone(), at), task)
            .filter(|former| *former != task);
        let text = || {
            format!(
                "the tick {at} of {name} made {} and {}",
                short(&former.unwrap_or_default()),
                short(&task)
            )
        };
        self.must(pages, Check::OneTaskPerTick, former.is_none(), text);
    }

    fn changed(&self, pages: &mut Pages, bundle: &Bundle<'_>, old: &Record, new: &Record) {
        let task = id(old, task::ID);
        let name = short(&task);
        let (before, after) = (int(old, task::STATE), int(new, task::STATE));
        let (from, to) = (int(old, task::FENCE), int(new, task::FENCE));
        self.must(pages, Check::FenceGrows, to >= from, || {
            format!("the fence of {name} fell from {from} to {to}")
        });
        let same_claim = old[task::TOKEN] == new[task::TOKEN];
        match (before, after) {
            (PENDING, RUNNING) => {
                self.must(pages, Check::FenceGrows, to == from + 1, || {
                    format!("a claim of {name} took {from} to {to}")
                });
                let now = pages.latest;
                self.claimed(pages, new, now);
                self.lives(pages, new);
            }
            (RUNNING, RUNNING) => {
                self.must(pages, Check::LastClaim, same_claim, || {
                    format!("{name} was claimed while it ran")
                });
            }
            (RUNNING, PENDING) => self.freed(pages, bundle, old, new),
            (PENDING, PENDING) => {
                let lost = int(new, task::LOST) > int(old, task::LOST);
                self.must(pages, Check::LastClaim, !lost, || {
                    format!("{name} was lost while nobody ran it")
                });
                if CONTENTS.iter().any(|at| old[*at] != new[*at]) {
                    // Another submit replaced it: what was lost before is no longer its past.
                    let story = pages.tasks.entry(task).or_default();
                    story.at_most_once = int(new, task::ON_LOST) == ON_LOST_FAIL;
                    story.lost.clear();
                    story.replaced = true;
                }
                if old[task::READY_AT] != new[task::READY_AT] {
                    let now = pages.latest;
                    pages.tasks.entry(task).or_default().waits_since = now;
                }
            }
            _ => self.broken(
                pages,
                Check::Together,
                format!("{name} went from state {before} to {after}"),
            ),
        }
        if before == RUNNING && int(new, task::CANCEL_AT) != 0 {
            let round = int(new, task::ROUND);
            pages.tasks.entry(task).or_default().to_cancel.insert(round);
        }
    }

    /// A running row that waits again.
    fn freed(&self, pages: &mut Pages, bundle: &Bundle<'_>, old: &Record, new: &Record) {
        let (task, fence) = (id(old, task::ID), int(old, task::FENCE));
        let name = short(&task);
        let marked = int(old, task::CANCEL_AT) != 0 || int(new, task::CANCEL_AT) != 0;
        self.must(pages, Check::CancelHolds, !marked, || {
            format!("{name} waits again though it was to be canceled")
        });
        let now = pages.latest;
        pages.tasks.entry(task).or_default().waits_since = now;
        let lost = int(new, task::LOST);
        self.must(pages, Check::RetriesHold, lost < LOST_LIMIT, || {
            format!("{name} waits again after {lost} lost workers")
        });
        let recorded = bundle.attempts.contains_key(&(task, fence));
        self.must(pages, Check::Together, recorded, || {
            format!("{name}:{fence} ended without a record")
        });
    }

    /// A row that is no longer live.
    fn gone(&self, pages: &mut Pages, bundle: &Bundle<'_>, old: &Record) {
        let task = id(old, task::ID);
        let name = short(&task);
        pages.tasks.entry(task).or_default().live = false;
        if let Some(key) = text_opt(old, task::TASK_KEY) {
            let key = (text(old, task::NAMESPACE), text(old, task::JOB), key);
            if pages.keys.get(&key) == Some(&task) {
                pages.keys.remove(&key);
            }
        }
        let Some(end) = bundle.ended.get(&task) else {
            return self.broken(pages, Check::NothingLost, format!("{name} vanished"));
        };
        let state = int(end, task::STATE);
        if int(old, task::CANCEL_AT) != 0 {
            self.must(pages, Check::CancelHolds, state == CANCELED, || {
                format!("{name} was to be canceled and ended in state {state}")
            });
        }
        if int(old, task::STATE) == RUNNING {
            let last = end[task::TOKEN] == old[task::TOKEN] && end[task::FENCE] == old[task::FENCE];
            self.must(pages, Check::LastClaim, last, || {
                format!(
                    "{name} ended by fence {:?} while {:?} held it",
                    end[task::FENCE],
                    old[task::FENCE]
                )
            });
        } else {
            let waits = [CANCELED, EXPIRED].contains(&state);
            self.must(pages, Check::LastClaim, waits, || {
                format!("{name} ended in state {state} while it waited")
            });
        }
        let latest = pages.latest;
        let expired = state != EXPIRED || int(old, task::DEADLINE) <= latest;
        self.must(pages, Check::DeadlineHolds, expired, || {
            format!("{name} expired before its deadline")
        });
    }

    /// A finished round.
    fn ended_row(&self, pages: &mut Pages, bundle: &Bundle<'_>, row: &Record) {
        let (task, round, fence) = (
            id(row, task::ID),
            int(row, task::ROUND),
            int(row, task::FENCE),
        );
        let name = short(&task);
        let state = int(row, task::STATE);
        let alone = bundle
            .tasks
            .get(&task)
            .is_none_or(|write| write.new.is_some());
        self.must(pages, Check::LastClaim, !alone, || {
            format!("{name} has an outcome and its row is still there")
        });
        let story = pages.tasks.entry(task).or_default();
        let first = story.outcomes.insert(round, state).is_none();
        story.explained.insert(fence);
        let canceled = state == CANCELED || !story.to_cancel.contains(&round);
        let how = story.ends.get(&fence).copied().unwrap_or("never ran");
        let returned = state != SUCCEEDED || how == "ok";
        self.must(pages, Check::OneOutcome, first, || {
            format!("round {round} of {name} ended twice")
        });
        self.must(pages, Check::CancelHolds, canceled, || {
            format!("{name} was to be canceled and ended in state {state}")
        });
        self.must(pages, Check::LastClaim, returned, || {
            format!("{name}:{fence} succeeded though its handler did not")
        });
        let (spent, allowed) = retries(pages, row);
        let replaced = pages.tasks.get(&task).is_some_and(|story| story.replaced);
        let tried = !replaced
            && ["failed", "panicked", "dropped"].contains(&how)
            && row[history::REASON].is_null();
        self.must(
            pages,
            Check::RetriesHold,
            state != FAILED || !tried || spent >= allowed,
            || {
                format!(
                    "{name}:{fence} {how} and failed for good after {spent} retries of {allowed}"
                )
            },
        );
        let dead = bundle.dead.contains_key(&task);
        self.must(pages, Check::Together, dead == (state == FAILED), || {
            format!("{name} in state {state}: dead letter {dead}")
        });
    }

    /// The end of an attempt that did not end its task.
    fn attempt_row(&self, pages: &mut Pages, bundle: &Bundle<'_>, row: &Record) {
        let (task, fence) = (id(row, execution::TASK), int(row, execution::FENCE));
        let name = short(&task);
        let story = pages.tasks.entry(task).or_default();
        story.explained.insert(fence);
        match int(row, execution::REASON) {
            LOST => {
                story.lost.insert(fence);
            }
            RETRIED | TIMED_OUT => {
                *story.retried.entry(int(row, execution::ROUND)).or_default() += 1
            }
            _ => {}
        }
        let freed = bundle
            .tasks
            .get(&task)
            .and_then(|write| write.old.as_ref())
            .is_some_and(|old| {
                int(old, task::FENCE) == fence
                    && id_opt(old, task::TOKEN) == id_opt(row, execution::TOKEN)
            });
        self.must(pages, Check::LastClaim, freed, || {
            format!("{name}:{fence} ended as an attempt while it was not the last claim")
        });
    }

    fn shard_row(&self, pages: &mut Pages, old: &Record, new: &Record) {
        use crate::sim::columns::shard;
        let (before, after) = (id_opt(old, shard::OWNER), id_opt(new, shard::OWNER));
        let (Some(before), Some(after)) = (before, after) else {
            return;
        };
        let stolen = before != after && pages.present.contains(&before);
        self.must(pages, Check::RightDeath, !stolen, || {
            format!(
                "a shard of {} was taken by {}",
                short(&before),
                short(&after)
            )
        });
    }

    fn schedule_row(&self, pages: &mut Pages, old: &Record, new: &Record) {
        let same = old[schedule::VERSION] == new[schedule::VERSION];
        let (was, is) = (int(old, schedule::NEXT_AT), int(new, schedule::NEXT_AT));
        let back = same && is < was;
        let name = text(old, schedule::NAME);
        self.must(pages, Check::OneTaskPerTick, !back, || {
            format!("{name} went back from {was} to {is}")
        });
    }
}

/// The columns that decide whether a node counts.
pub(super) fn lease_and_state(row: &Record) -> (i64, i64) {
    (int(row, node::LEASE_UNTIL), int(row, node::STATE))
}
