//! What to do about one schedule at one instant.
//!
//! Enters: the schedule, the database's now, what is known of its former task. Leaves: one [`Step`]. Pure, and it needs
//! no memory: whoever looks, after whatever crash, decides the same from the same rows.
//!
//! Rules:
//! 1. A tick is a misfire when it is later than the threshold. A tick that waited for its former task (`queue_one`,
//!    `queue_all`) is as late as the time since that task ended.
//! 2. The ticks that a step leaves out are counted in the step; nothing is dropped silently.
//! 3. Of more missed ticks than `fire_all` may fire the oldest are dropped, and the rest fires from the oldest on. So
//!    the number is kept also when the node dies halfway.
//! 4. While `fire_all` or `fire_last_n` catches up under the overlap rule `skip`, a tick waits for the task of the one
//!    before instead of being skipped: to skip them would undo the catching up.
//! 5. A fixed delay runs from the end of the former task; its stored next tick is only the earliest possible one.
//! 6. The next tick is always strictly after the one that fired.

use std::time::Duration;

use ax_core::{Misfire, Overlap, TaskId, Timestamp, Trigger};

use super::ticks::{self, Dropped};

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    /// When it fires.
    pub(super) trigger: &'a Trigger,
    /// What becomes of missed ticks.
    pub(super) misfire: Misfire,
    /// What happens while the former task is not finished.
    pub(super) overlap: Overlap,
    /// The stored next tick.
    pub(super) next_at: Timestamp,
    /// The tick before it, as far as it was stored.
    pub(super) last_at: Option<Timestamp>,
    /// The task of the tick that fired last.
    pub(super) former: Former,
    /// The database's now.
    pub(super) now: Timestamp,
    /// A tick later than this is a misfire.
    pub(super) misfire_after: Duration,
}

/// The task of the tick that fired last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Former {
    /// There is none, or it is no longer known.
    Gone,
    /// It is not finished.
    Live(TaskId),
    /// It ended at this instant.
    Ended(Timestamp),
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The tick is still to come.
    Wait {
        /// When to look again.
        until: Timestamp,
    },
    /// The tick has come and waits for the former task.
    Hold,
    /// It makes a task.
    Fire(Firing),
    /// It makes none.
    Pass(Passing),
}

/// A tick that makes a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Firing {
    /// The tick.
    pub(super) at: Timestamp,
    /// Start of the data interval; its end is the tick.
    pub(super) interval_start: Option<Timestamp>,
    /// The tick after it; `None` when it was the last one.
    pub(super) next_at: Option<Timestamp>,
    /// Whether it was in time.
    pub(super) timing: Timing,
    /// Ticks that were left out before it.
    pub(super) dropped: i64,
    /// What to record beside it.
    pub(super) note: Option<String>,
    /// A former task to cancel first.
    pub(super) cancel: Option<TaskId>,
}

/// Whether a tick fires in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// It does.
    InTime,
    /// It was missed, and its task makes up for it.
    CatchUp,
}

/// Ticks that make no task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passing {
    /// The first of them.
    pub(super) at: Timestamp,
    /// The first tick after them; `None` when there is none.
    pub(super) next_at: Option<Timestamp>,
    /// Why.
    pub(super) why: Why,
    /// How many more than the first.
    pub(super) further: i64,
    /// In words.
    pub(super) note: String,
}

/// Why ticks make no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The former task is not finished.
    Overlap,
    /// They came while nobody could fire them.
    Misfire,
}

/// Decides; see the module.
pub(super) fn decide(case: &Case<'_>) -> Step {
    if case.next_at > case.now {
        return Step::Wait {
            until: case.next_at,
        };
    }
    if let Trigger::FixedDelay(delay) = case.trigger {
        return after_pause(case, *delay);
    }
    match (case.former, case.overlap) {
        (Former::Live(former), Overlap::Skip) if !catches_up_one_by_one(case) => {
            skip_overlapping(case, former)
        }
        (Former::Live(former), Overlap::CancelRunning) => fire_due(case, Some(former)),
        (Former::Live(_), _) => Step::Hold,
        (Former::Ended(end), Overlap::QueueOne) if end >= case.next_at && !is_late(case) => {
            queued_one(case, end)
        }
        (Former::Ended(_) | Former::Gone, _) => fire_due(case, None),
    }
}

/// Rule 5.
fn after_pause(case: &Case<'_>, delay: Duration) -> Step {
    let at = match case.former {
        Former::Live(_) => return Step::Hold,
        Former::Ended(end) => case.next_at.max(end.plus(delay)),
        Former::Gone => case.next_at,
    };
    if at > case.now {
        return Step::Wait { until: at };
    }
    if case.misfire == Misfire::Skip && case.now.since(at) > case.misfire_after {
        let note = format!("misfire: {} late, left out", late(case, at));
        let next_at = ticks::next(case.trigger, case.now);
        return Step::Pass(Passing {
            at,
            next_at,
            why: Why::Misfire,
            further: 0,
            note,
        });
    }
    let timing = if case.now.since(at) > case.misfire_after {
        Timing::CatchUp
    } else {
        Timing::InTime
    };
    Step::Fire(Firing {
        at,
        interval_start: case.last_at,
        next_at: ticks::next(case.trigger, at),
        timing,
        dropped: 0,
        note: (timing == Timing::CatchUp).then(|| format!("misfire: {} late", late(case, at))),
        cancel: None,
    })
}

/// Rule 4.
fn catches_up_one_by_one(case: &Case<'_>) -> bool {
    matches!(
        case.misfire,
        Misfire::FireAll { .. } | Misfire::FireLast { .. }
    ) && is_late(case)
}

/// Rule 1.
fn is_late(case: &Case<'_>) -> bool {
    case.now.since(due_since(case)) > case.misfire_after
}

fn due_since(case: &Case<'_>) -> Timestamp {
    match (case.overlap, case.former) {
        (Overlap::QueueOne | Overlap::QueueAll | Overlap::Allow(_), Former::Ended(end)) => {
            case.next_at.max(end)
        }
        _ => case.next_at,
    }
}

/// Every tick up to now meets the former task.
fn skip_overlapping(case: &Case<'_>, former: TaskId) -> Step {
    let all = ticks::youngest(case.trigger, case.next_at, case.now, 1);
    Step::Pass(Passing {
        at: case.next_at,
        next_at: after_all(case, all.first, case.now),
        why: Why::Overlap,
        further: all.dropped.count(),
        note: format!("overlap: task {former} of an earlier tick is not finished"),
    })
}

/// One tick waited for the former task; those that came after it and before its end make none.
fn queued_one(case: &Case<'_>, end: Timestamp) -> Step {
    let others = ticks::youngest(case.trigger, case.next_at, end, 1);
    let dropped = others.dropped.count();
    let note = (dropped > 0).then(|| {
        format!(
            "overlap: {} came while this one waited",
            plenty(others.dropped)
        )
    });
    let next_at = after_all(case, others.first, end);
    Step::Fire(Firing {
        next_at,
        dropped,
        note,
        ..firing(case, case.next_at, Timing::InTime)
    })
}

/// Nothing stands in the way of the tick.
fn fire_due(case: &Case<'_>, cancel: Option<TaskId>) -> Step {
    let keep = match case.misfire {
        _ if !is_late(case) => {
            return Step::Fire(Firing {
                cancel,
                ..firing(case, case.next_at, Timing::InTime)
            });
        }
        Misfire::Skip => return leave_out(case),
        Misfire::FireOnce => 1,
        Misfire::FireAll { cap: n } | Misfire::FireLast { n } => n,
    };
    let kept = ticks::youngest(case.trigger, case.next_at, case.now, keep);
    let note = match kept.dropped.count() {
        0 => format!("misfire: {} late", late(case, kept.first)),
        _ => format!(
            "misfire: {} late, {} dropped",
            late(case, kept.first),
            plenty(kept.dropped)
        ),
    };
    let next_at = match keep {
        1 => after_all(case, kept.first, case.now),
        _ => ticks::next(case.trigger, kept.first),
    };
    let dropped = kept.dropped.count();
    Step::Fire(Firing {
        next_at,
        dropped,
        note: Some(note),
        cancel,
        ..firing(case, kept.first, Timing::CatchUp)
    })
}

/// Leaves out what is late and goes on with what is not.
fn leave_out(case: &Case<'_>) -> Step {
    let edge = case
        .now
        .minus(case.misfire_after)
        .minus(Duration::from_millis(1));
    let all = ticks::count(case.trigger, case.next_at, edge);
    let further = (all.count() - 1).max(0);
    let next_at = match ticks::next(case.trigger, case.next_at) {
        Some(second) if second <= edge => ticks::next(case.trigger, edge),
        other => other,
    };
    let note = format!("misfire: {} late, left out", late(case, case.next_at));
    Step::Pass(Passing {
        at: case.next_at,
        next_at,
        why: Why::Misfire,
        further,
        note,
    })
}

/// The first tick after `until`, given one that is not after it.
fn after_all(case: &Case<'_>, tick: Timestamp, until: Timestamp) -> Option<Timestamp> {
    ticks::next(case.trigger, tick)?;
    ticks::next(case.trigger, tick.max(until))
}

fn firing(case: &Case<'_>, at: Timestamp, timing: Timing) -> Firing {
    let next_at = ticks::next(case.trigger, at);
    Firing {
        at,
        interval_start: interval_start(case.trigger, at),
        next_at,
        timing,
        dropped: 0,
        note: None,
        cancel: None,
    }
}

/// The tick before; before the first tick of a grid the grid is thought on.
fn interval_start(trigger: &Trigger, at: Timestamp) -> Option<Timestamp> {
    match trigger {
        Trigger::Every { interval, .. } => Some(at.minus(*interval)),
        Trigger::Once(_) | Trigger::Delay(_) | Trigger::FixedDelay(_) => None,
        Trigger::Cron(_) => ticks::previous(trigger, at),
    }
}

fn late(case: &Case<'_>, at: Timestamp) -> String {
    ax_core::format_duration(Duration::from_secs(case.now.since(at).as_secs()))
}

fn plenty(dropped: Dropped) -> String {
    match dropped {
        Dropped::Exactly(1) => "1 tick".to_owned(),
        Dropped::Exactly(n) => format!("{n} ticks"),
        Dropped::AtLeast(n) => format!("at least {n} ticks"),
    }
}

#[cfg(test)]
mod tests {
    use ax_core::Cron;
    use proptest::prelude::*;

    use super::*;

    const MINUTE: i64 = 60_000;
    const TASK: TaskId = TaskId::from_bytes([7; 16]);

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_millis(minutes * MINUTE)
    }

    fn every(minutes: u64) -> Trigger {
        Trigger::Every {
            interval: Duration::from_secs(60 * minutes),
            phase_from: at(0),
        }
    }

    /// A tick each 5 minutes, the next one at minute 100.
    fn case(trigger: &Trigger, misfire: Misfire, overlap: Overlap, now: Timestamp) -> Case<'_> {
        let misfire_after = Duration::from_secs(60);
        Case {
            trigger,
            misfire,
            overlap,
            next_at: at(100),
            last_at: None,
            former: Former::Gone,
            now,
            misfire_after,
        }
    }

    fn fired(step: Step) -> Firing {
        match step {
            Step::Fire(firing) => firing,
            other => panic!("expected a fire, got {other:?}"),
        }
    }

    fn passed(step: Step) -> Passing {
        match step {
            Step::Pass(passing) => passing,
            other => panic!("expected a pass, got {other:?}"),
        }
    }

    #[test]
    fn a_tick_in_time_fires_with_its_interval() {
        let five = every(5);
        let early = case(
            &five,
            Misfire::FireOnce,
            Overlap::Skip,
            Timestamp::from_millis(100 * MINUTE - 1),
        );
        assert_eq!(decide(&early), Step::Wait { until: at(100) });
        let now = at(100).plus(Duration::from_secs(60));
        let firing = fired(decide(&Case { now, ..early }));
        assert_eq!(
            (firing.at, firing.interval_start, firing.next_at),
            (at(100), Some(at(95)), Some(at(105)))
        );
        assert_eq!(
            (firing.timing, firing.dropped, firing.note),
            (Timing::InTime, 0, None)
        );
    }

    #[test]
    fn six_hours_of_outage_fire_once_with_the_count() {
        let five = every(5);
        let firing = fired(decide(&case(
            &five,
            Misfire::FireOnce,
            Overlap::Skip,
            at(462),
        )));
        assert_eq!(
            (firing.at, firing.interval_start, firing.next_at),
            (at(460), Some(at(455)), Some(at(465)))
        );
        assert_eq!((firing.timing, firing.dropped), (Timing::CatchUp, 72));
        assert_eq!(
            firing.note.as_deref(),
            Some("misfire: 2m late, 72 ticks dropped")
        );
    }

    #[test]
    fn skip_leaves_out_what_is_late_and_no_more() {
        let five = every(5);
        let late = passed(decide(&case(&five, Misfire::Skip, Overlap::Skip, at(462))));
        assert_eq!(
            (late.at, late.next_at, late.why, late.further),
            (at(100), Some(at(465)), Why::Misfire, 72)
        );
        let now = at(460).plus(Duration::from_secs(30));
        let in_part = passed(decide(&case(&five, Misfire::Skip, Overlap::Skip, now)));
        assert_eq!(
            (in_part.next_at, in_part.further),
            (Some(at(460)), 71),
            "the tick of 30 s ago is no misfire"
        );
    }

    #[test]
    fn fire_all_keeps_the_youngest_and_fires_them_in_order() {
        let five = every(5);
        let mut now = case(&five, Misfire::FireAll { cap: 3 }, Overlap::Skip, at(462));
        let first = fired(decide(&now));
        assert_eq!(
            (first.at, first.dropped, first.next_at),
            (at(450), 70, Some(at(455)))
        );
        now.next_at = at(455);
        now.former = Former::Live(TASK);
        assert_eq!(decide(&now), Step::Hold, "catching up goes one by one");
        now.former = Former::Ended(at(462));
        let second = fired(decide(&now));
        assert_eq!((second.at, second.dropped), (at(455), 0));
    }

    #[test]
    fn overlap_rules_meet_a_live_task() {
        let five = every(5);
        let live = |overlap, now| Case {
            former: Former::Live(TASK),
            ..case(&five, Misfire::FireOnce, overlap, now)
        };
        let skipped = passed(decide(&live(Overlap::Skip, at(100))));
        assert_eq!(
            (skipped.at, skipped.next_at, skipped.why, skipped.further),
            (at(100), Some(at(105)), Why::Overlap, 0)
        );
        assert_eq!(passed(decide(&live(Overlap::Skip, at(111)))).further, 2);
        assert_eq!(decide(&live(Overlap::QueueOne, at(100))), Step::Hold);
        assert_eq!(decide(&live(Overlap::QueueAll, at(300))), Step::Hold);
        assert_eq!(
            fired(decide(&live(Overlap::CancelRunning, at(100)))).cancel,
            Some(TASK)
        );
    }

    #[test]
    fn queued_ticks_are_late_from_the_end_of_the_former_task() {
        let five = every(5);
        let ended = |overlap, now| Case {
            former: Former::Ended(at(122)),
            ..case(&five, Misfire::FireOnce, overlap, now)
        };
        let one = fired(decide(&ended(Overlap::QueueOne, at(122))));
        assert_eq!(
            (one.at, one.dropped, one.next_at, one.timing),
            (at(100), 4, Some(at(125)), Timing::InTime)
        );
        let all = fired(decide(&ended(Overlap::QueueAll, at(122))));
        assert_eq!(
            (all.at, all.dropped, all.next_at, all.timing),
            (at(100), 0, Some(at(105)), Timing::InTime)
        );
        let down = fired(decide(&ended(Overlap::QueueAll, at(131))));
        assert_eq!(
            (down.at, down.dropped, down.timing),
            (at(130), 6, Timing::CatchUp)
        );
    }

    #[test]
    fn a_fixed_delay_runs_from_the_end_of_the_former_task() {
        let pause = Trigger::FixedDelay(Duration::from_secs(600));
        let now = case(&pause, Misfire::FireOnce, Overlap::Skip, at(103));
        assert_eq!(
            decide(&Case {
                former: Former::Live(TASK),
                ..now
            }),
            Step::Hold
        );
        let ended = Case {
            former: Former::Ended(at(95)),
            ..now
        };
        assert_eq!(decide(&ended), Step::Wait { until: at(105) });
        let firing = fired(decide(&Case {
            now: at(105),
            last_at: Some(at(80)),
            ..ended
        }));
        assert_eq!(
            (firing.at, firing.interval_start, firing.next_at),
            (at(105), Some(at(80)), Some(at(115)))
        );
        assert_eq!(
            passed(decide(&Case {
                now: at(110),
                misfire: Misfire::Skip,
                ..ended
            }))
            .next_at,
            Some(at(120))
        );
    }

    #[test]
    fn the_last_tick_ends_the_schedule() {
        let once = Trigger::Once(at(100));
        let firing = fired(decide(&case(
            &once,
            Misfire::FireOnce,
            Overlap::Skip,
            at(200),
        )));
        assert_eq!(
            (firing.at, firing.next_at, firing.dropped),
            (at(100), None, 0)
        );
        assert_eq!(
            passed(decide(&case(&once, Misfire::Skip, Overlap::Skip, at(200)))).next_at,
            None
        );
    }

    fn rules() -> impl Strategy<Value = (Trigger, Misfire, Overlap)> {
        let cron = |text: &str, zone: &str| Trigger::Cron(Cron::parse(text, zone).unwrap());
        let triggers = vec![
            every(1),
            every(7),
            cron("0 */3 * * * *", "UTC"),
            cron("0 30 2 * * *", "Europe/Berlin"),
        ];
        let misfires = vec![
            Misfire::FireOnce,
            Misfire::Skip,
            Misfire::FireAll { cap: 4 },
            Misfire::FireLast { n: 2 },
        ];
        let overlaps = vec![
            Overlap::Skip,
            Overlap::QueueOne,
            Overlap::QueueAll,
            Overlap::CancelRunning,
        ];
        (
            prop::sample::select(triggers),
            prop::sample::select(misfires),
            prop::sample::select(overlaps),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Over any history of looks and tasks: every tick is fired or counted exactly once, in order, none early.
        #[test]
        fn no_tick_is_lost_or_fired_twice((trigger, misfire, overlap) in rules(), looks in prop::collection::vec((1i64..400 * MINUTE, 0i64..90 * MINUTE), 1..60)) {
            let first = trigger.next_after(at(1)).unwrap();
            let (mut next_at, mut now, mut ends) = (first, at(0), None::<Timestamp>);
            let mut accounted = 0;
            for (pause, run) in looks {
                now = now.plus(Duration::from_millis(pause.unsigned_abs()));
                for _ in 0..400 {
                    let former = match ends {
                        None => Former::Gone,
                        Some(end) if end > now => Former::Live(TASK),
                        Some(end) => Former::Ended(end),
                    };
                    let misfire_after = Duration::from_secs(60);
                    let case = Case { trigger: &trigger, misfire, overlap, next_at, last_at: None, former, now, misfire_after };
                    let after = match decide(&case) {
                        Step::Wait { .. } | Step::Hold => break,
                        Step::Fire(firing) => {
                            prop_assert!(firing.at >= next_at && firing.at <= now);
                            prop_assert!(firing.interval_start.is_none_or(|start| start < firing.at));
                            if let Former::Live(_) = former {
                                prop_assert_eq!(overlap, Overlap::CancelRunning);
                            }
                            ends = Some(now.plus(Duration::from_millis(run.unsigned_abs())));
                            accounted += 1 + firing.dropped;
                            firing.next_at.unwrap()
                        }
                        Step::Pass(passing) => {
                            prop_assert_eq!(passing.at, next_at);
                            accounted += 1 + passing.further;
                            passing.next_at.unwrap()
                        }
                    };
                    prop_assert!(after > next_at);
                    next_at = after;
                }
            }
            let seen = ticks::count(&trigger, first, next_at.minus(Duration::from_millis(1)));
            if let Dropped::Exactly(all) = seen {
                prop_assert_eq!(accounted, all);
            }
        }
    }
}
