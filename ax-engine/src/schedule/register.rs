//! The schedules that jobs bring along, written to the database when a node starts.
//!
//! Enters: registered jobs. Leaves: rows, by name. A schedule that is stored with the same trigger keeps its next tick,
//! however often nodes start; one that can never fire is stored as such and shown.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{Cron, Error, ErrorKind, Misfire, Overlap, Priority, Timestamp, Trigger};

use super::ticks;
use crate::job::{RegisteredJob, ScheduleDef, TriggerDef};
use crate::node::Node;
use crate::store::{ScheduleRow, ScheduleState};

/// Who wrote a definition that stands in code.
const SOURCE: &str = "code";
/// The payload of a task that a schedule makes: no parameters.
const NO_PARAMETERS: &str = "{}";

/// Writes the schedules of every registered job.
///
/// # Errors
/// `Invalid` for a rule that this version does not have, else what the database said.
pub async fn register(node: &Node) -> Result<(), Error> {
    let wanted: Vec<(&RegisteredJob, String, &ScheduleDef)> = node
        .registry
        .jobs()
        .flat_map(|job| {
            job.def
                .named_schedules()
                .map(move |(name, def)| (job, name, def))
        })
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let namespace = &node.config.namespace;
    let stored = node.store.schedules(namespace).await?;
    let stored: HashMap<&str, &ScheduleRow> = stored.iter().map(|row| (&*row.name, row)).collect();
    for (job, name, def) in wanted {
        let row =
            row(node, job, &name, def, stored.get(name.as_str()).copied()).map_err(|error| {
                error.context(format!("register schedule `{name}` of job `{}`", job.name))
            })?;
        let now_stored = node.store.upsert_schedule(&row).await?;
        if now_stored.state == ScheduleState::NeverFires {
            tracing::warn!(schedule = name, trigger = %row.trigger, "this schedule can never fire");
        }
    }
    Ok(())
}

fn row(
    node: &Node,
    job: &RegisteredJob,
    name: &str,
    def: &ScheduleDef,
    stored: Option<&ScheduleRow>,
) -> Result<ScheduleRow, Error> {
    let now = node.now();
    let trigger = trigger(def.trigger, now, stored.map(|row| &row.trigger))?;
    trigger.validate()?;
    let (misfire, overlap) = (def.misfire.parse()?, def.overlap.parse()?);
    check_rules(misfire, overlap)?;
    let next_at = trigger.next_after(now);
    Ok(ScheduleRow {
        namespace: node.config.namespace.clone(),
        name: Arc::from(name),
        job: job.name.clone(),
        trigger,
        payload: Arc::from(NO_PARAMETERS),
        misfire,
        overlap,
        priority: Priority::new(job.def.priority)?,
        on_lost: job.def.on_lost,
        state: if next_at.is_some() {
            ScheduleState::Active
        } else {
            ScheduleState::NeverFires
        },
        next_at: next_at.unwrap_or(Timestamp::MAX),
        last_at: None,
        last_task: None,
        version: 1,
        source: Arc::from(SOURCE),
        updated_at: now,
    })
}

/// The trigger of a definition. A fixed rate first fires one interval after it was first registered; one that is stored
/// with the same interval keeps its grid.
fn trigger(def: TriggerDef, now: Timestamp, stored: Option<&Trigger>) -> Result<Trigger, Error> {
    match (def, stored) {
        (TriggerDef::Every { ms }, Some(Trigger::Every { interval, .. }))
            if *interval == Duration::from_millis(ms) =>
        {
            Ok(stored.cloned().unwrap_or_else(|| every(ms, now)))
        }
        (TriggerDef::Every { ms }, _) => Ok(every(ms, now)),
        (TriggerDef::FixedDelay { ms }, _) => Ok(Trigger::FixedDelay(Duration::from_millis(ms))),
        (TriggerDef::Cron { text, zone }, _) => Cron::parse(text, zone).map(Trigger::Cron),
    }
}

fn every(ms: u64, now: Timestamp) -> Trigger {
    let interval = Duration::from_millis(ms);
    Trigger::Every {
        interval,
        phase_from: now.plus(interval),
    }
}

/// Refuses what would otherwise be ignored in silence.
fn check_rules(misfire: Misfire, overlap: Overlap) -> Result<(), Error> {
    if let Misfire::FireAll { cap: n } | Misfire::FireLast { n } = misfire
        && n > ticks::MOST_KEPT
    {
        let most = ticks::MOST_KEPT;
        let text = format!(
            "misfire = \"{misfire}\" fires too many missed ticks; use a number up to {most}"
        );
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    if let Overlap::Allow(n) = overlap
        && n > 1
    {
        let text = format!(
            "overlap = \"{overlap}\" comes with a later version of ax; use \"queue_all\" (one after the other), \
             \"queue_one\", \"cancel_running\" or \"skip\" until then"
        );
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_rate_keeps_its_grid_over_restarts() {
        let (now, later) = (
            Timestamp::from_millis(1_000_000),
            Timestamp::from_millis(1_234_567),
        );
        let first = trigger(TriggerDef::Every { ms: 60_000 }, now, None).unwrap();
        assert_eq!(
            first.next_after(now),
            Some(Timestamp::from_millis(1_060_000))
        );
        assert_eq!(
            trigger(TriggerDef::Every { ms: 60_000 }, later, Some(&first)).unwrap(),
            first
        );
        let changed = trigger(TriggerDef::Every { ms: 30_000 }, later, Some(&first)).unwrap();
        assert_eq!(
            changed.next_after(later),
            Some(Timestamp::from_millis(1_264_567))
        );
    }

    #[test]
    fn rules_that_are_not_there_yet_are_refused() {
        assert!(check_rules(Misfire::FireAll { cap: 1_000 }, Overlap::Allow(1)).is_ok());
        let error = check_rules(Misfire::FireOnce, Overlap::Allow(2)).unwrap_err();
        assert!(
            error.to_string().contains("allow(2)") && error.to_string().contains("later version"),
            "{error}"
        );
        assert!(check_rules(Misfire::FireLast { n: 1_001 }, Overlap::Skip).is_err());
    }
}
