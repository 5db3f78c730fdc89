//! Which part of the due range to look at next.
//!
//! Enters: the database's now, what the agenda holds. Leaves: one [`Scan`] at a time. Three kinds take turns:
//! - a **peek** at each poll: what became due in the last seconds or does so before the poll after next. A row that
//!   is committed two polls before it is due is therefore held in time, any other is at most one poll late;
//! - a **sweep**: pages through everything due up to the preload horizon, per lane with its own cursor, so that a
//!   backlog in one lane hides no other;
//! - a **recheck** without a lower bound, for rows that were committed long after their instant.
//!
//! Pure: it calls no database and reads no clock.

use std::time::Duration;

use ax_core::{Priority, Timestamp};

use crate::config::Config;
use crate::store::{DueRow, LaneScan};

/// How far back a peek looks.
const LOOK_BACK: Duration = Duration::from_secs(10);
/// The most rows of a lane that a peek or a recheck reads.
const PEEK_CAP: u32 = 512;
/// The most rows of a lane that a page of a sweep reads.
const PAGE: u32 = 2_048;
/// A lane with at least this many due entries in memory is not paged further.
const LOW_WATER: usize = 1_024;
/// Lanes, one per priority.
const LANES: usize = 10;

/// Why a scan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What is due about now.
    Peek,
    /// The next page up to the horizon.
    Sweep,
    /// What was left behind.
    Recheck,
}

/// One look at the due range.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Why it is made.
    pub purpose: Purpose,
    /// Upper bound of ready_at, inclusive.
    pub to: Timestamp,
    /// Where each lane begins and how many rows it gives.
    pub lanes: [LaneScan; LANES],
}

/// What the caller knows when it asks for the next scan.
pub struct Situation<'a> {
    /// The database's now.
    pub now: Timestamp,
    /// The engine's clock.
    pub micros: i64,
    /// Due entries in memory, per lane.
    pub waiting: &'a dyn Fn(Priority) -> usize,
    /// Entries that memory still has room for.
    pub room: usize,
}

#[derive(Debug, Clone, Copy)]
struct Cursor {
    at: Timestamp,
    shard: i64,
    cap: u32,
    done: bool,
}

const START: Cursor = Cursor {
    at: Timestamp::MIN_VALID,
    shard: 0,
    cap: PAGE,
    done: false,
};

/// See the module.
pub struct Discovery {
    poll_min: Duration,
    poll_max: Duration,
    preload: Duration,
    recheck: Duration,
    poll: Duration,
    next_poll: i64,
    next_recheck: i64,
    horizon: Timestamp,
    cursors: [Cursor; LANES],
}

impl Discovery {
    /// Begins with a sweep of everything.
    pub fn new(config: &Config) -> Discovery {
        Discovery {
            poll_min: config.poll_min,
            poll_max: config.poll_max,
            preload: config.preload.max(config.poll_max * 2),
            recheck: config.recheck,
            poll: config.poll_min,
            next_poll: 0,
            next_recheck: 0,
            horizon: Timestamp::MIN_VALID,
            cursors: [START; LANES],
        }
    }

    /// Looks at everything again, because shards came here.
    pub fn restart(&mut self) {
        self.cursors = [START; LANES];
        self.horizon = Timestamp::MIN_VALID;
        self.hurry();
    }

    /// Polls at once.
    pub fn hurry(&mut self) {
        self.next_poll = 0;
        self.poll = self.poll_min;
    }

    /// When the next poll is wanted, on the engine's clock.
    pub fn next_poll(&self) -> i64 {
        self.next_poll
    }

    /// The time between two polls at present.
    pub fn poll(&self) -> Duration {
        self.poll
    }

    /// The upper bound of what a local submit need not wait for a scan to be held.
    pub fn horizon(&self, now: Timestamp) -> Timestamp {
        now.plus(self.preload)
    }

    /// The next scan, or nothing to look at for now.
    pub fn next(&mut self, s: &Situation<'_>) -> Option<Scan> {
        if s.micros >= self.next_poll {
            return Some(self.peek(s));
        }
        if s.micros >= self.next_recheck {
            return Some(self.recheck_scan(s));
        }
        self.sweep(s)
    }

    /// Takes what a scan found; `new` of the rows were not held before.
    pub fn found(&mut self, scan: &Scan, rows: &[DueRow], new: usize, micros: i64) {
        match scan.purpose {
            Purpose::Peek => {
                self.pace(new);
                self.next_poll = micros.saturating_add(as_micros(self.poll));
                self.resume_full_lanes(scan, rows);
            }
            Purpose::Recheck => {
                self.next_recheck = micros.saturating_add(as_micros(self.recheck));
                self.resume_full_lanes(scan, rows);
            }
            Purpose::Sweep => self.turn_page(scan, rows),
        }
    }

    /// A scan failed; the next one waits a poll.
    pub fn failed(&mut self, micros: i64) {
        self.poll = (self.poll * 2).clamp(self.poll_min, self.poll_max);
        self.next_poll = micros.saturating_add(as_micros(self.poll));
    }

    fn pace(&mut self, new: usize) {
        self.poll = if new > 0 {
            self.poll / 2
        } else {
            self.poll * 2
        }
        .clamp(self.poll_min, self.poll_max);
    }

    fn peek(&self, s: &Situation<'_>) -> Scan {
        let from = Timestamp::from_millis(s.now.as_millis().saturating_sub(as_millis(LOOK_BACK)));
        let to = s.now.plus(self.poll_max * 2);
        Scan {
            purpose: Purpose::Peek,
            to,
            lanes: even_lanes(from),
        }
    }

    fn recheck_scan(&self, s: &Situation<'_>) -> Scan {
        let to = Timestamp::from_millis(s.now.as_millis().saturating_sub(as_millis(LOOK_BACK)));
        Scan {
            purpose: Purpose::Recheck,
            to,
            lanes: even_lanes(Timestamp::MIN_VALID),
        }
    }

    fn sweep(&mut self, s: &Situation<'_>) -> Option<Scan> {
        self.extend_horizon(s.now);
        if s.room < LANES * PAGE as usize {
            return None;
        }
        let mut lanes = [LaneScan {
            from_at: Timestamp::MIN_VALID,
            from_shard: 0,
            cap: 0,
        }; LANES];
        let mut wanted = false;
        for priority in Priority::ALL {
            let cursor = self.cursors[lane(priority)];
            if !cursor.done && (s.waiting)(priority) < LOW_WATER {
                lanes[lane(priority)] = LaneScan {
                    from_at: cursor.at,
                    from_shard: cursor.shard,
                    cap: cursor.cap,
                };
                wanted = true;
            }
        }
        let scan = Scan {
            purpose: Purpose::Sweep,
            to: self.horizon,
            lanes,
        };
        wanted.then_some(scan)
    }

    /// Once every lane has been read up to the horizon, the next stretch begins a quarter of the preload later.
    fn extend_horizon(&mut self, now: Timestamp) {
        let far = now.plus(self.preload);
        let due = now.plus(self.preload / 4 * 3);
        let all_done = self.cursors.iter().all(|c| c.done);
        if self.horizon == Timestamp::MIN_VALID {
            self.horizon = far;
        } else if all_done && due >= self.horizon {
            for cursor in &mut self.cursors {
                *cursor = Cursor {
                    at: self.horizon,
                    shard: 0,
                    cap: PAGE,
                    done: false,
                };
            }
            self.horizon = far;
        }
    }

    fn turn_page(&mut self, scan: &Scan, rows: &[DueRow]) {
        for priority in Priority::ALL {
            let asked = scan.lanes[lane(priority)];
            if asked.cap == 0 {
                continue;
            }
            let cursor = &mut self.cursors[lane(priority)];
            match last_of_full(priority, asked.cap, rows) {
                None => cursor.done = true,
                Some(last) if (last.ready_at, last.shard) == (asked.from_at, asked.from_shard) => {
                    // More rows share one instant and shard than a page holds: only a longer page gets past them.
                    cursor.cap = cursor.cap.saturating_mul(2);
                }
                Some(last) => {
                    *cursor = Cursor {
                        at: last.ready_at,
                        shard: last.shard,
                        cap: PAGE,
                        done: false,
                    }
                }
            }
        }
    }

    /// A lane that gave all the rows it was asked for has more behind them: the sweep goes on from there.
    fn resume_full_lanes(&mut self, scan: &Scan, rows: &[DueRow]) {
        for priority in Priority::ALL {
            let cursor = &mut self.cursors[lane(priority)];
            if !cursor.done {
                continue;
            }
            if let Some(last) = last_of_full(priority, scan.lanes[lane(priority)].cap, rows) {
                *cursor = Cursor {
                    at: last.ready_at,
                    shard: last.shard,
                    cap: PAGE,
                    done: false,
                };
            }
        }
    }
}

fn even_lanes(from_at: Timestamp) -> [LaneScan; LANES] {
    [LaneScan {
        from_at,
        from_shard: 0,
        cap: PEEK_CAP,
    }; LANES]
}

/// The last row of a lane that filled its cap.
fn last_of_full(priority: Priority, cap: u32, rows: &[DueRow]) -> Option<&DueRow> {
    let of_lane = || rows.iter().filter(|row| row.priority == priority.get());
    if cap > 0 && of_lane().count() >= cap as usize {
        of_lane().next_back()
    } else {
        None
    }
}

fn lane(priority: Priority) -> usize {
    usize::from(priority.get())
}

fn as_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn as_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::TaskId;
    use std::sync::Arc;

    fn row(n: u32, priority: Priority, ready_at: i64, shard: i64) -> DueRow {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_be_bytes());
        DueRow {
            id: TaskId::from_bytes(id),
            priority: priority.get(),
            ready_at: Timestamp::from_millis(ready_at),
            shard,
            namespace: Arc::from("default"),
            job: Arc::from("job"),
        }
    }

    fn situation<'a>(
        now: i64,
        micros: i64,
        waiting: &'a dyn Fn(Priority) -> usize,
    ) -> Situation<'a> {
        Situation {
            now: Timestamp::from_millis(now),
            micros,
            waiting,
            room: 1_000_000,
        }
    }

    const NOW: i64 = 1_000_000_000;

    fn idle(discovery: &mut Discovery) {
        for _ in 0..3 {
            if let Some(scan) = discovery.next(&situation(NOW, 1, &|_| 0)) {
                discovery.found(&scan, &[], 0, 1);
            }
        }
    }

    #[test]
    fn it_peeks_then_rechecks_then_sweeps_and_then_rests() {
        let mut discovery = Discovery::new(&Config::default());
        let mut purposes = Vec::new();
        while let Some(scan) = discovery.next(&situation(NOW, 1, &|_| 0)) {
            purposes.push(scan.purpose);
            discovery.found(&scan, &[], 0, 1);
        }
        assert_eq!(purposes, [Purpose::Peek, Purpose::Recheck, Purpose::Sweep]);
    }

    #[test]
    fn a_peek_holds_a_row_two_polls_before_it_is_due() {
        let config = Config::default();
        let mut discovery = Discovery::new(&config);
        let scan = discovery.next(&situation(NOW, 1, &|_| 0)).unwrap();
        assert!(scan.to >= Timestamp::from_millis(NOW).plus(config.poll_max * 2));
        assert!(scan.lanes[5].from_at <= Timestamp::from_millis(NOW - 10_000));
    }

    #[test]
    fn a_full_page_is_turned_and_ties_lengthen_it() {
        let mut discovery = Discovery::new(&Config::default());
        discovery.next_poll = i64::MAX;
        discovery.next_recheck = i64::MAX;
        let p5 = Priority::default();
        let scan = discovery.next(&situation(NOW, 1, &|_| 0)).unwrap();
        let rows: Vec<DueRow> = (0..PAGE).map(|n| row(n, p5, 77, 3)).collect();
        discovery.found(&scan, &rows, rows.len(), 1);
        let scan = discovery.next(&situation(NOW, 1, &|_| 0)).unwrap();
        assert_eq!(scan.lanes[5].from_at, Timestamp::from_millis(77));
        assert_eq!(
            scan.lanes[9].cap, 0,
            "a lane that gave less than its cap is done"
        );
        discovery.found(&scan, &rows, 0, 1);
        let scan = discovery.next(&situation(NOW, 1, &|_| 0)).unwrap();
        assert_eq!(scan.lanes[5].cap, PAGE * 2);
    }

    #[test]
    fn a_lane_with_enough_in_memory_is_not_paged() {
        let mut discovery = Discovery::new(&Config::default());
        discovery.next_poll = i64::MAX;
        discovery.next_recheck = i64::MAX;
        let scan = discovery
            .next(&situation(NOW, 1, &|p| {
                if p.get() == 5 { LOW_WATER } else { 0 }
            }))
            .unwrap();
        assert_eq!(scan.lanes[5].cap, 0);
        assert_eq!(scan.lanes[4].cap, PAGE);
    }

    #[test]
    fn polls_slow_down_when_nothing_is_new_and_hurry_when_told() {
        let config = Config::default();
        let mut discovery = Discovery::new(&config);
        let mut micros = 1;
        for _ in 0..20 {
            micros = micros.max(discovery.next_poll());
            let scan = discovery.peek(&situation(NOW, micros, &|_| 0));
            discovery.found(&scan, &[], 0, micros);
        }
        assert_eq!(discovery.poll(), config.poll_max);
        discovery.hurry();
        assert_eq!(discovery.poll(), config.poll_min);
        assert_eq!(discovery.next_poll(), 0);
    }

    #[test]
    fn a_peek_that_fills_a_lane_resumes_its_sweep() {
        let mut discovery = Discovery::new(&Config::default());
        idle(&mut discovery);
        let scan = discovery.peek(&situation(NOW, 5, &|_| 0));
        let p5 = Priority::default();
        let rows: Vec<DueRow> = (0..PEEK_CAP)
            .map(|n| row(n, p5, NOW, i64::from(n)))
            .collect();
        discovery.found(&scan, &rows, rows.len(), 5);
        let scan = discovery.next(&situation(NOW, 5, &|_| 0)).unwrap();
        assert_eq!(scan.purpose, Purpose::Sweep);
        assert_eq!(scan.lanes[5].from_shard, i64::from(PEEK_CAP) - 1);
    }
}
