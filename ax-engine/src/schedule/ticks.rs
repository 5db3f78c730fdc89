//! The ticks of a trigger: the next, the one before, and the youngest of those that were missed.
//!
//! Enters: a trigger and instants. Leaves: instants and counts. Pure; every search is bounded, also over years of
//! missed seconds.

use std::time::Duration;

use ax_core::{Timestamp, Trigger};

/// The most ticks that are walked one by one; beyond it they are found by bisection, and their number is a lower bound.
const WALK: i64 = 10_000;
/// The most ticks that a search from behind steps over.
pub(super) const MOST_KEPT: u32 = 1_000;
/// The first look back for the tick before.
const FIRST_SPAN: Duration = Duration::from_secs(1);

/// The tick after `tick`; `None` when it was the last one.
pub(super) fn next(trigger: &Trigger, tick: Timestamp) -> Option<Timestamp> {
    match trigger {
        Trigger::Once(_) | Trigger::Delay(_) => None,
        Trigger::Every { .. } | Trigger::FixedDelay(_) | Trigger::Cron(_) => {
            trigger.next_after(tick)
        }
    }
}

/// The last tick before `before`; `None` when there is none, or none can be told from the trigger alone.
pub(super) fn previous(trigger: &Trigger, before: Timestamp) -> Option<Timestamp> {
    match trigger {
        Trigger::Once(at) => Some(*at).filter(|at| *at < before),
        Trigger::Delay(_) | Trigger::FixedDelay(_) => None,
        Trigger::Every {
            interval,
            phase_from,
        } => {
            let step = i64::try_from(interval.as_millis())
                .ok()
                .filter(|step| *step > 0)?;
            let past = before
                .as_millis()
                .checked_sub(phase_from.as_millis())?
                .checked_sub(1)?;
            (past >= 0).then(|| Timestamp::from_millis(before.as_millis() - 1 - past % step))
        }
        Trigger::Cron(_) => bisect(trigger, before),
    }
}

/// Looks back in doubling spans until one holds a tick, then halves it down to the last one.
fn bisect(trigger: &Trigger, before: Timestamp) -> Option<Timestamp> {
    let earlier = |from: Timestamp| trigger.next_after(from).filter(|tick| *tick < before);
    let mut span = FIRST_SPAN;
    let (mut low, mut last) = loop {
        let from = before.minus(span).max(Timestamp::from_millis(-1));
        if let Some(tick) = earlier(from) {
            break (tick, tick);
        }
        if from < Timestamp::MIN_VALID {
            return None;
        }
        span *= 2;
    };
    let mut high = before;
    while let Some(later) = earlier(last) {
        let middle =
            Timestamp::from_millis(low.as_millis() + (high.as_millis() - low.as_millis()) / 2);
        match earlier(middle) {
            Some(tick) => (low, last) = (middle.max(tick), tick),
            None => (low, high, last) = (later, middle, later),
        }
    }
    Some(last)
}

/// The youngest of some missed ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Youngest {
    /// The first of those that are kept.
    pub(super) first: Timestamp,
    /// How many come before it.
    pub(super) dropped: Dropped,
}

/// How many ticks were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    /// Exactly so many.
    Exactly(i64),
    /// So many and more; counting them all would take too long.
    AtLeast(i64),
}

impl Dropped {
    /// The number to record.
    pub(super) fn count(self) -> i64 {
        match self {
            Self::Exactly(n) | Self::AtLeast(n) => n,
        }
    }
}

/// Of the ticks from the tick `from` to `until`, both included, the first of the youngest `keep` (at least 1).
pub(super) fn youngest(
    trigger: &Trigger,
    from: Timestamp,
    until: Timestamp,
    keep: u32,
) -> Youngest {
    let keep = keep.clamp(1, MOST_KEPT);
    if let Trigger::Every { interval, .. } = trigger {
        return youngest_on_grid(*interval, from, until, keep);
    }
    let total = count(trigger, from, until);
    let Dropped::Exactly(total) = total else {
        let mut first = until.plus(Duration::from_millis(1));
        for _ in 0..keep {
            first = previous(trigger, first).unwrap_or(from).max(from);
        }
        return Youngest {
            first,
            dropped: total,
        };
    };
    let dropped = (total - i64::from(keep)).max(0);
    let mut first = from;
    for _ in 0..dropped {
        first = next(trigger, first).unwrap_or(first);
    }
    Youngest {
        first,
        dropped: Dropped::Exactly(dropped),
    }
}

fn youngest_on_grid(interval: Duration, from: Timestamp, until: Timestamp, keep: u32) -> Youngest {
    let step = i64::try_from(interval.as_millis())
        .unwrap_or(i64::MAX)
        .max(1);
    let later = until.as_millis().saturating_sub(from.as_millis()).max(0) / step;
    let dropped = (later + 1 - i64::from(keep)).max(0);
    let first = Timestamp::from_millis(from.as_millis() + dropped * step);
    Youngest {
        first,
        dropped: Dropped::Exactly(dropped),
    }
}

/// The number of ticks from the tick `from` to `until`, both included.
pub(super) fn count(trigger: &Trigger, from: Timestamp, until: Timestamp) -> Dropped {
    if let Trigger::Every { interval, .. } = trigger {
        let all = youngest_on_grid(*interval, from, until, 1).dropped.count();
        return Dropped::Exactly(if from <= until { all + 1 } else { 0 });
    }
    let (mut n, mut tick) = (0, Some(from));
    while let Some(at) = tick.filter(|at| *at <= until) {
        if n == WALK {
            return Dropped::AtLeast(n);
        }
        n += 1;
        tick = next(trigger, at);
    }
    Dropped::Exactly(n)
}

#[cfg(test)]
mod tests {
    use ax_core::Cron;
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(text: &str, zone: &str) -> Trigger {
        Trigger::Cron(Cron::parse(text, zone).unwrap())
    }

    fn every(ms: u64, phase: i64) -> Trigger {
        Trigger::Every {
            interval: Duration::from_millis(ms),
            phase_from: Timestamp::from_millis(phase),
        }
    }

    #[test]
    fn the_tick_before_is_found_over_gaps_of_years() {
        let leap = cron("0 0 0 29 2 *", "UTC");
        assert_eq!(
            previous(&leap, at("2027-05-01T00:00:00Z")),
            Some(at("2024-02-29T00:00:00Z"))
        );
        assert_eq!(
            previous(&leap, at("2024-02-29T00:00:00Z")),
            Some(at("2020-02-29T00:00:00Z"))
        );
        let burst = cron("* * 3 1 1 *", "UTC");
        assert_eq!(
            previous(&burst, at("2026-12-31T00:00:00Z")),
            Some(at("2026-01-01T03:59:59Z"))
        );
        assert_eq!(
            previous(&cron("0 0 0 1 1 * 2030", "UTC"), at("2029-01-01T00:00:00Z")),
            None
        );
        assert_eq!(
            previous(&every(1_000, 5_000), Timestamp::from_millis(5_000)),
            None
        );
        assert_eq!(
            previous(&every(1_000, 5_000), Timestamp::from_millis(5_001)),
            Some(Timestamp::from_millis(5_000))
        );
    }

    #[test]
    fn years_of_missed_seconds_are_answered_at_once() {
        let (from, until) = (at("2020-01-01T00:00:00Z"), at("2026-01-01T00:00:00.500Z"));
        let seconds = youngest(&cron("* * * * * *", "UTC"), from, until, 3);
        assert_eq!(seconds.first, at("2025-12-31T23:59:58Z"));
        assert_eq!(seconds.dropped, Dropped::AtLeast(WALK));
        let grid = youngest(&every(1_000, from.as_millis()), from, until, 3);
        assert_eq!(
            (grid.first, grid.dropped),
            (seconds.first, Dropped::Exactly(189_388_798))
        );
    }

    fn triggers() -> impl Strategy<Value = Trigger> {
        let texts = vec![
            "*/7 * * * * *",
            "0 */5 * * * *",
            "0 0 2 * * *",
            "0 30 2,3 * * Sun",
            "* * 3 1 1,3 *",
            "0 0 0 31 * *",
        ];
        let zones = vec![
            "UTC",
            "Europe/Berlin",
            "America/New_York",
            "Asia/Shanghai",
            "Australia/Lord_Howe",
        ];
        prop_oneof![
            (1..5_000_000u64, 0..1_000_000_000i64).prop_map(|(ms, phase)| every(ms, phase)),
            (prop::sample::select(texts), prop::sample::select(zones))
                .prop_map(|(text, zone)| cron(text, zone)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn before_and_after_agree(trigger in triggers(), from in 1_500_000_000_000i64..2_000_000_000_000) {
            let tick = trigger.next_after(Timestamp::from_millis(from)).unwrap();
            let after = next(&trigger, tick).unwrap();
            prop_assert_eq!(previous(&trigger, after), Some(tick));
            prop_assert_eq!(previous(&trigger, tick.plus(Duration::from_millis(1))), Some(tick));
        }

        #[test]
        fn the_youngest_are_counted_from_the_end(trigger in triggers(), from in 1_500_000_000_000i64..2_000_000_000_000, n in 1usize..200, keep in 1u32..50) {
            let mut ticks = vec![trigger.next_after(Timestamp::from_millis(from)).unwrap()];
            while ticks.len() < n {
                ticks.push(next(&trigger, ticks[ticks.len() - 1]).unwrap());
            }
            let found = youngest(&trigger, ticks[0], ticks[n - 1], keep);
            let dropped = n.saturating_sub(keep as usize);
            prop_assert_eq!(found, Youngest { first: ticks[dropped], dropped: Dropped::Exactly(dropped as i64) });
            prop_assert_eq!(count(&trigger, ticks[0], ticks[n - 1]), Dropped::Exactly(n as i64));
        }
    }
}
