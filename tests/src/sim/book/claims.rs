//! What must hold of every claim.

use super::{Book, Pages};
use crate::sim::check::Check;
use crate::sim::columns::{Record, id, int, int_opt, task};
use crate::sim::trace::short;

/// Retries of the simulation's jobs.
const JOB_RETRIES: i64 = 3;
/// The longest time between two polls, in milliseconds.
const POLL_MS: i64 = 1_000;
/// The time that statements and loops may take in all, in milliseconds.
const MARGIN_MS: i64 = 400;

impl Book {
    /// A row that runs now by a new claim.
    pub(super) fn claimed(&self, pages: &mut Pages, row: &Record, now: i64) {
        let (task, fence) = (id(row, task::ID), int(row, task::FENCE));
        let (node, token) = (id(row, task::NODE), id(row, task::TOKEN));
        let at = int(row, task::CLAIMED_AT);
        let story = pages.tasks.entry(task).or_default();
        let grows = fence > story.fence;
        story.fence = story.fence.max(fence);
        story.claims.insert(fence, (node, token));
        let name = short(&task);
        self.must(pages, Check::FenceGrows, grows, || {
            format!("{name} was claimed with fence {fence} once more")
        });
        let (spent, allowed) = retries(pages, row);
        let replaced = pages.tasks.get(&task).is_some_and(|story| story.replaced);
        self.must(
            pages,
            Check::RetriesHold,
            replaced || spent <= allowed,
            || format!("{name} was claimed after {spent} retries of {allowed}"),
        );
        let due = int(row, task::READY_AT);
        self.must(pages, Check::NeverEarly, due <= at, || {
            format!("{name} was claimed {} ms early", due - at)
        });
        let over = int(row, task::DEADLINE) <= at;
        self.must(pages, Check::DeadlineHolds, !over, || {
            format!("{name} was claimed after its deadline")
        });
        let marked = int(row, task::CANCEL_AT) != 0;
        self.must(pages, Check::CancelHolds, !marked, || {
            format!("{name} was claimed though it was to be canceled")
        });
        self.in_time(pages, row, now);
    }

    /// Once all is well, a row that was there two polls before its instant is claimed in time, another a poll later.
    fn in_time(&self, pages: &mut Pages, row: &Record, now: i64) {
        let (task, due) = (id(row, task::ID), int(row, task::READY_AT));
        let Some(story) = pages.tasks.get(&task).filter(|story| story.probe) else {
            return;
        };
        let from = due.max(story.waits_since);
        let known_early = due - story.waits_since > 2 * POLL_MS + MARGIN_MS;
        let limit = if known_early {
            MARGIN_MS
        } else {
            POLL_MS + MARGIN_MS
        };
        let late = now - from;
        self.must(
            pages,
            Check::Punctual,
            pages.well_since.is_none() || late <= limit,
            || {
                format!(
                    "{} was claimed {late} ms late, {limit} ms at most",
                    short(&task)
                )
            },
        );
    }

    /// A claim by a node whose lease was over by the database's clock.
    pub(super) fn lives(&self, pages: &mut Pages, row: &Record) {
        let (node, at) = (id(row, task::NODE), int(row, task::CLAIMED_AT));
        let lease = pages.leases.get(&node).copied().unwrap_or(i64::MIN);
        let name = short(&id(row, task::ID));
        self.must(pages, Check::LivingClaim, at < lease, || {
            format!(
                "{name} was claimed by {} {} ms after its lease",
                short(&node),
                at - lease
            )
        });
    }
}

/// The retries that a task has spent in its round, and those that it has.
pub(super) fn retries(pages: &Pages, row: &Record) -> (i64, i64) {
    let story = pages.tasks.get(&id(row, task::ID));
    let spent = story
        .and_then(|story| story.retried.get(&int(row, task::ROUND)).copied())
        .unwrap_or(0);
    (
        spent,
        int_opt(row, task::MAX_RETRIES).unwrap_or(JOB_RETRIES),
    )
}
