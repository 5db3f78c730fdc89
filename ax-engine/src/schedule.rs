//! Schedules: rows that make tasks at their ticks.
//!
//! Enters: schedules whose next tick is near, of the shards that this node looks after. Leaves: tasks, and a record of
//! every tick that made none. Nothing is kept in memory between two rounds: at its instant a tick is read again, so that
//! a paused or changed schedule does not fire, and the one transaction that fires repeats the version and the tick.
//! What to do about a tick is decided in `decide`, which is pure.

mod decide;
mod fire;
mod register;
mod ticks;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, TaskId, Timestamp};

use crate::cluster::Membership;
use crate::config::Config;
use crate::node::Node;
use crate::service::Stop;
use crate::shard::shard_of;
use crate::store::{Fire, Fired, ScheduleRow, ScheduleState, TickOutcome};
use crate::trigger::TriggerHandle;
use decide::{Case, Firing, Former, Step};
use fire::CatchUps;

pub use register::register;

/// How soon a tick that waits for its former task is looked at again.
const HOLD: Duration = Duration::from_millis(200);
/// How soon a tick that another node fired, or the database thinks to be early, is looked at again.
const AFTER_LOSS: Duration = Duration::from_millis(20);
/// How soon the next round comes after an error of the database.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// The most ticks of one schedule in one round, so that one does not hold up the others.
const STEPS: usize = 64;

/// What the loop works with.
pub struct Scheduler {
    /// The engine.
    pub node: Arc<Node>,
    /// Who takes the tasks.
    pub trigger: TriggerHandle,
    /// Who tells that shards came here.
    pub membership: Arc<Membership>,
}

/// Whether the last look succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contact {
    Good,
    Lost,
}

/// Fires ticks until told to stop.
pub async fn run(scheduler: Arc<Scheduler>, stop: Stop) {
    let node = &scheduler.node;
    if !node.config.roles.trigger {
        return stop.cancelled().await;
    }
    let mut contact = Contact::Good;
    while !stop.is_cancelled() {
        let pause = if node.is_leaving() {
            node.config.poll_max
        } else {
            round(&scheduler, &mut contact).await
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = scheduler.membership.moved() => {}
            () = node.world.clock.sleep(pause) => {}
        }
    }
}

/// One round over the schedules whose ticks are near; says how long until the next one.
async fn round(scheduler: &Scheduler, contact: &mut Contact) -> Duration {
    let node = &scheduler.node;
    let window = node.config.poll_max;
    let until = node.now().plus(window);
    let (rows, live) = match near(node, until).await {
        Ok(near) => {
            *contact = Contact::Good;
            near
        }
        Err(error) => {
            // Once per outage is news enough.
            if std::mem::replace(contact, Contact::Lost) == Contact::Good {
                tracing::warn!(%error, "the look at the schedules failed and is tried again soon");
            }
            return AFTER_FAILURE.min(window);
        }
    };
    let mut next = until;
    let mut catch_ups = CatchUps::default();
    for row in rows {
        let name = row.name.clone();
        let again = match work(scheduler, row, &live, &mut catch_ups).await {
            Ok(again) => again,
            Err(error) => {
                tracing::warn!(%error, schedule = %name, "a tick is tried again soon");
                node.now().plus(AFTER_FAILURE)
            }
        };
        next = next.min(again);
    }
    node.time.until(next).min(window)
}

/// The schedules of this node whose ticks are near, and which of their former tasks are live.
async fn near(node: &Node, until: Timestamp) -> Result<(Vec<ScheduleRow>, HashSet<TaskId>), Error> {
    let mut rows = node.store.schedules_due(until).await?;
    rows.retain(|row| is_mine(node, row));
    let live = live_formers(node, &rows).await?;
    Ok((rows, live))
}

/// Whether this node fires the schedule: the one that looks after the shard of its name.
fn is_mine(node: &Node, row: &ScheduleRow) -> bool {
    let name = format!("{}/{}", row.namespace.as_str(), row.name);
    node.looks_after(i64::from(shard_of(&name)))
}

/// Fires what is due of one schedule; says when to look at it again.
async fn work(
    scheduler: &Scheduler,
    mut row: ScheduleRow,
    live: &HashSet<TaskId>,
    catch_ups: &mut CatchUps,
) -> Result<Timestamp, Error> {
    let node = &scheduler.node;
    for _ in 0..STEPS {
        if row.next_at > node.now() {
            return Ok(row.next_at);
        }
        let former = former(node, row.last_task, live).await?;
        let now = node.now();
        let step = decide::decide(&case(&row, former, now, &node.config));
        let statement = match &step {
            Step::Wait { until } => return Ok(*until),
            Step::Hold => return Ok(now.plus(HOLD)),
            Step::Fire(firing) => {
                cancel_former(node, firing).await?;
                fire::firing(node, &row, firing, catch_ups)
            }
            Step::Pass(passing) => fire::passing(&row, passing),
        };
        if node.store.fire(&statement).await? == Fired::Lost {
            return Ok(node.now().plus(AFTER_LOSS));
        }
        fired(scheduler, &statement);
        if statement.ended {
            return Ok(Timestamp::MAX);
        }
        advance(&mut row, &statement);
    }
    Ok(node.now())
}

fn case<'a>(row: &'a ScheduleRow, former: Former, now: Timestamp, config: &Config) -> Case<'a> {
    Case {
        trigger: &row.trigger,
        misfire: row.misfire,
        overlap: row.overlap,
        next_at: row.next_at,
        last_at: row.last_at,
        former,
        now,
        misfire_after: config.misfire_after,
    }
}

/// Which former tasks of the schedules that are due are live, in one statement: ticks that wait for a long task are looked
/// at often.
async fn live_formers(node: &Node, rows: &[ScheduleRow]) -> Result<HashSet<TaskId>, Error> {
    let now = node.now();
    let due = rows.iter().filter(|row| row.next_at <= now);
    let ids: Vec<TaskId> = due.filter_map(|row| row.last_task).collect();
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let found = node.store.inspect(&ids).await?;
    Ok(found
        .into_iter()
        .filter(|row| !row.state.is_final())
        .map(|row| row.due.id)
        .collect())
}

/// What the database knows of the task that the last tick made.
async fn former(
    node: &Node,
    last: Option<TaskId>,
    live: &HashSet<TaskId>,
) -> Result<Former, Error> {
    let Some(id) = last else {
        return Ok(Former::Gone);
    };
    if live.contains(&id) {
        return Ok(Former::Live(id));
    }
    Ok(match node.store.find(id).await? {
        None => Former::Gone,
        Some(task) if !task.state.is_final() => Former::Live(id),
        Some(task) => task.finished_at.map_or(Former::Gone, Former::Ended),
    })
}

/// The former task is canceled before its successor is made: a crash in between costs a look, not an overlap that nobody
/// remembers.
async fn cancel_former(node: &Node, firing: &Firing) -> Result<(), Error> {
    if let Some(former) = firing.cancel {
        node.store
            .cancel(
                former,
                Some("the next tick of its schedule came (overlap = cancel_running)"),
            )
            .await?;
    }
    Ok(())
}

fn fired(scheduler: &Scheduler, fire: &Fire) {
    if let Some(task) = &fire.row {
        scheduler.trigger.offer_new(task);
    }
    let Some(left_out) = &fire.skipped else {
        return;
    };
    // An overlap is the rule at work; a misfire is news.
    if left_out.outcome == TickOutcome::Skipped {
        tracing::debug!(schedule = %fire.name, tick = %fire.at, dropped = left_out.dropped, "{}", left_out.reason);
    } else {
        tracing::warn!(schedule = %fire.name, tick = %fire.at, dropped = left_out.dropped, "{}", left_out.reason);
    }
}

fn advance(row: &mut ScheduleRow, fire: &Fire) {
    row.next_at = fire.next_at;
    row.last_at = Some(fire.at);
    row.state = if fire.ended {
        ScheduleState::Ended
    } else {
        row.state
    };
    if let Some(task) = &fire.row {
        row.last_task = Some(task.id);
    }
}
