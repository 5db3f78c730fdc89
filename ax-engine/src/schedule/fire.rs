//! From a step to a statement: what is written when a tick fires or is left out.

use std::time::Duration;

use ax_core::{Tick, Timestamp};

use super::decide::{Firing, Passing, Timing, Why};
use crate::node::Node;
use crate::store::{Fire, ScheduleRow, SkippedTick, TaskRow, TickOutcome};

/// The time between two tasks that make up for missed ticks, so that an outage does not end in a burst.
const SPREAD: Duration = Duration::from_millis(20);

/// How many tasks of one round made up for missed ticks so far.
#[derive(Debug, Default)]
pub(super) struct CatchUps(u32);

impl CatchUps {
    /// When the next one is due.
    fn due(&mut self, now: Timestamp) -> Timestamp {
        let due = now.plus(SPREAD * self.0);
        self.0 = self.0.saturating_add(1);
        due
    }
}

/// The statement of a tick that makes a task.
pub(super) fn firing(
    node: &Node,
    row: &ScheduleRow,
    firing: &Firing,
    catch_ups: &mut CatchUps,
) -> Fire {
    let ready_at = match firing.timing {
        Timing::InTime => firing.at,
        Timing::CatchUp => catch_ups.due(node.now()),
    };
    let recorded = firing.note.as_ref().map(|note| SkippedTick {
        outcome: TickOutcome::Fired,
        reason: note.clone(),
        dropped: firing.dropped,
    });
    Fire {
        row: Some(task(node, row, firing, ready_at)),
        ..moved(row, firing.at, firing.next_at, recorded)
    }
}

/// The statement of ticks that make no task.
pub(super) fn passing(row: &ScheduleRow, passing: &Passing) -> Fire {
    let outcome = match passing.why {
        Why::Overlap => TickOutcome::Skipped,
        Why::Misfire => TickOutcome::Misfired,
    };
    let recorded = SkippedTick {
        outcome,
        reason: passing.note.clone(),
        dropped: passing.further,
    };
    moved(row, passing.at, passing.next_at, Some(recorded))
}

fn moved(
    row: &ScheduleRow,
    at: Timestamp,
    next_at: Option<Timestamp>,
    recorded: Option<SkippedTick>,
) -> Fire {
    Fire {
        namespace: row.namespace.clone(),
        name: row.name.clone(),
        version: row.version,
        tick: row.next_at,
        at,
        next_at: next_at.unwrap_or(Timestamp::MAX),
        ended: next_at.is_none(),
        row: None,
        skipped: recorded,
    }
}

fn task(node: &Node, row: &ScheduleRow, firing: &Firing, ready_at: Timestamp) -> TaskRow {
    let now = node.now();
    TaskRow {
        id: node.world.random.task_id(now),
        namespace: row.namespace.clone(),
        job: row.job.clone(),
        payload: row.payload.clone(),
        priority: row.priority,
        ready_at,
        shard: node.choose_shard(),
        deadline: Timestamp::MAX,
        key: None,
        tags: Vec::new(),
        route_key: None,
        max_retries: None,
        timeout: None,
        on_lost: row.on_lost,
        created_at: now,
        tick: Some(Tick {
            schedule: row.name.to_string(),
            scheduled_at: firing.at,
            interval_start: firing.interval_start,
            interval_end: firing.interval_start.map(|_| firing.at),
        }),
        trace: None,
        born: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catching_up_is_spread_and_begins_at_once() {
        let (now, mut catch_ups) = (Timestamp::from_millis(5_000), CatchUps::default());
        let due: Vec<i64> = (0..3).map(|_| catch_ups.due(now).as_millis()).collect();
        assert_eq!(due, [5_000, 5_020, 5_040]);
    }
}
