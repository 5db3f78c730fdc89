//! What is due here, and when: the wheel, the lanes, and the memory of what is on its way.
//!
//! Enters: due entries found in the database or submitted here, the database's now, free credit. Leaves: batches to
//! claim, in lane order. It is a cache of rows: losing it loses nothing, and holding an entry too much only costs a
//! claim that finds the row changed. It reads no clock and calls no database.
//!
//! Ground rules:
//! 1. An entry is in one place: the wheel (not due), a lane (due, waiting for credit) or a claim (on its way).
//! 2. A scan shows the past. What was claimed while a scan was under way is remembered until its result is in, so that
//!    the scan cannot bring it back.
//! 3. Time never leaves an entry behind: whatever is offered with an instant in the past is due at once.

use std::collections::{HashMap, HashSet};

use ax_core::{Priority, TaskId, Timestamp};

use crate::job::JobKind;
use crate::lanes::Lanes;
use crate::routes::Route;
use crate::wheel::{Due, Inserted, Wheel};

/// The shard number of this node's inbox inside the agenda, whatever its number in the database.
pub const INBOX: u16 = 1_024;

/// What an offered entry met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It is new here.
    New,
    /// It was here already, or is on its way.
    Known,
    /// The agenda is full; the row stays in the database for a later scan.
    Full,
}

/// See the module.
pub struct Agenda {
    wheel: Wheel,
    lanes: [Lanes; 2],
    elsewhere: Vec<Due>,
    waiting: HashMap<TaskId, Timestamp>,
    claiming: HashSet<TaskId>,
    shadow: HashSet<TaskId>,
    scans: usize,
    capacity: usize,
    ripe: Vec<Due>,
}

impl Agenda {
    /// An empty agenda that starts at `now` and holds at most `capacity` entries.
    pub fn new(now: Timestamp, capacity: usize) -> Agenda {
        Agenda {
            wheel: Wheel::new(now),
            lanes: [Lanes::new(), Lanes::new()],
            elsewhere: Vec::new(),
            waiting: HashMap::new(),
            claiming: HashSet::new(),
            shadow: HashSet::new(),
            scans: 0,
            capacity,
            ripe: Vec::new(),
        }
    }

    /// Takes an entry that a submit, a retry or a scan found.
    pub fn offer(&mut self, due: Due) -> Offered {
        if self.claiming.contains(&due.id) || self.waiting.contains_key(&due.id) {
            return Offered::Known;
        }
        if self.len() >= self.capacity {
            return Offered::Full;
        }
        match self.wheel.insert(due) {
            Inserted::Held => Offered::Known,
            Inserted::Added | Inserted::Replaced => Offered::New,
        }
    }

    /// Takes an entry of a scan that began before now; see ground rule 2.
    pub fn offer_scanned(&mut self, due: Due) -> Offered {
        if self.shadow.contains(&due.id) {
            Offered::Known
        } else {
            self.offer(due)
        }
    }

    /// A scan begins.
    pub fn scan_begins(&mut self) {
        self.scans += 1;
    }

    /// The result of a scan is in.
    pub fn scan_ends(&mut self) {
        self.scans = self.scans.saturating_sub(1);
        if self.scans == 0 {
            self.shadow.clear();
        }
    }

    /// Moves what is due at `now` from the wheel into the lanes.
    pub fn advance(&mut self, now: Timestamp, route: impl Fn(u32) -> Route) {
        let mut ripe = std::mem::take(&mut self.ripe);
        self.wheel.poll(now, &mut ripe);
        for due in ripe.drain(..) {
            self.waiting.insert(due.id, due.ready_at);
            match route(due.job) {
                Route::Run(kind) => self.lanes[index(kind)].push(due),
                Route::Elsewhere => self.elsewhere.push(due),
            }
        }
        self.ripe = ripe;
    }

    /// Takes up to `n` due entries for the slots of one kind; they are on their way until [`Agenda::claimed`].
    pub fn take(&mut self, kind: JobKind, n: usize, now: Timestamp) -> Vec<Due> {
        let mut batch = Vec::new();
        self.lanes[index(kind)].take(n, now, &mut batch);
        for due in &batch {
            self.waiting.remove(&due.id);
            self.claiming.insert(due.id);
        }
        batch
    }

    /// Takes the due entries that belong to other nodes; they are forgotten here.
    pub fn take_elsewhere(&mut self) -> Vec<Due> {
        let batch = std::mem::take(&mut self.elsewhere);
        for due in &batch {
            self.waiting.remove(&due.id);
        }
        batch
    }

    /// A claim of these entries has ended, whatever it found.
    pub fn claimed(&mut self, ids: impl IntoIterator<Item = TaskId>) {
        for id in ids {
            self.claiming.remove(&id);
            if self.scans > 0 {
                self.shadow.insert(id);
            }
        }
    }

    /// A claim of these entries found that they are still to come, at their new instants.
    pub fn unclaimed(&mut self, again: impl IntoIterator<Item = Due>) {
        for due in again {
            self.claiming.remove(&due.id);
            self.wheel.insert(due);
        }
    }

    /// Forgets an entry, because its row has ended or moved.
    pub fn forget(&mut self, id: &TaskId) {
        self.wheel.cancel(id);
        if self.waiting.remove(id).is_some() {
            for lanes in &mut self.lanes {
                lanes.remove(id);
            }
            self.elsewhere.retain(|due| due.id != *id);
        }
    }

    /// Forgets the entries of shards that this node no longer looks after.
    pub fn keep_shards(&mut self, keep: impl Fn(u16) -> bool) {
        self.wheel.remove_where(|due| !keep(due.shard));
        let waiting = &mut self.waiting;
        for lanes in &mut self.lanes {
            lanes.remove_where(|due| {
                let lost = !keep(due.shard);
                if lost {
                    waiting.remove(&due.id);
                }
                lost
            });
        }
    }

    /// When the wheel may next have something due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.wheel.next_expiry()
    }

    /// Due entries that wait for slots of this kind.
    pub fn waiting(&self, kind: JobKind) -> usize {
        self.lanes[index(kind)].len()
    }

    /// Due entries of one lane, over all slots.
    pub fn waiting_in(&self, priority: Priority) -> usize {
        self.lanes.iter().map(|lanes| lanes.len_of(priority)).sum()
    }

    /// All entries held, those on their way included.
    pub fn len(&self) -> usize {
        self.wheel.len() + self.waiting.len() + self.claiming.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn index(kind: JobKind) -> usize {
    match kind {
        JobKind::Async => 0,
        JobKind::Blocking => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(n: u8, ready_at: i64) -> Due {
        Due {
            id: TaskId::from_bytes([n; 16]),
            ready_at: Timestamp::from_millis(ready_at),
            job: 0,
            shard: 7,
            priority: Priority::default(),
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn run(_: u32) -> Route {
        Route::Run(JobKind::Async)
    }

    #[test]
    fn an_entry_goes_from_wheel_to_lane_to_claim_and_is_known_all_the_way() {
        let mut agenda = Agenda::new(at(1_000), 100);
        assert_eq!(agenda.offer(due(1, 2_000)), Offered::New);
        assert_eq!(agenda.offer(due(1, 2_000)), Offered::Known);
        agenda.advance(at(1_999), run);
        assert_eq!(agenda.waiting(JobKind::Async), 0, "never early");
        agenda.advance(at(2_000), run);
        assert_eq!(agenda.offer(due(1, 2_000)), Offered::Known);
        assert_eq!(agenda.take(JobKind::Async, 10, at(2_000)).len(), 1);
        assert_eq!(agenda.offer(due(1, 2_000)), Offered::Known, "on its way");
        agenda.claimed([due(1, 0).id]);
        assert_eq!(
            agenda.offer(due(1, 9_000)),
            Offered::New,
            "a retry is new again"
        );
    }

    #[test]
    fn a_scan_does_not_bring_back_what_was_claimed_meanwhile() {
        let mut agenda = Agenda::new(at(0), 100);
        agenda.offer(due(1, 10));
        agenda.advance(at(10), run);
        agenda.scan_begins();
        agenda.take(JobKind::Async, 1, at(10));
        agenda.claimed([due(1, 10).id]);
        assert_eq!(agenda.offer_scanned(due(1, 10)), Offered::Known);
        agenda.scan_ends();
        agenda.scan_begins();
        assert_eq!(
            agenda.offer_scanned(due(1, 10)),
            Offered::New,
            "a later scan tells the truth"
        );
    }

    #[test]
    fn a_full_agenda_leaves_rows_in_the_database() {
        let mut agenda = Agenda::new(at(0), 2);
        assert_eq!(agenda.offer(due(1, 10)), Offered::New);
        assert_eq!(agenda.offer(due(2, 10)), Offered::New);
        assert_eq!(agenda.offer(due(3, 10)), Offered::Full);
    }

    #[test]
    fn what_is_forgotten_is_new_when_it_comes_back() {
        let mut agenda = Agenda::new(at(0), 10);
        for n in 1..=3 {
            agenda.offer(due(n, 10));
        }
        agenda.offer(due(4, 99));
        agenda.advance(at(10), run);
        agenda.forget(&due(1, 0).id);
        assert_eq!(agenda.offer(due(1, 20)), Offered::New);
        agenda.keep_shards(|_| false);
        assert!(agenda.is_empty(), "lanes and wheel");
        assert_eq!(agenda.offer(due(2, 10)), Offered::New);
    }

    #[test]
    fn jobs_of_other_nodes_are_handed_on_once() {
        let mut agenda = Agenda::new(at(0), 10);
        agenda.offer(due(1, 10));
        agenda.advance(at(10), |_| Route::Elsewhere);
        assert_eq!(agenda.take_elsewhere().len(), 1);
        assert!(agenda.is_empty());
    }
}
