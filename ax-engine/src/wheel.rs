//! The wheel room: tasks that are not due yet, in memory, until they are.
//!
//! Enters: a [`Due`] per task, and at each poll the present instant. Leaves: the entries whose instant has come, in order of
//! it. Six levels of 64 slots; a slot of level 0 is one millisecond wide, one of level 5 twelve days; what lies beyond the
//! present block of 2.18 years waits in an overflow list. It never reads a clock, allocates only when it grows, and knows
//! neither the database nor what a task does: a timer is 44 bytes and three more of index.
//!
//! # Ground rules
//!
//! 1. Time is only what `poll` is told. The *cursor* is the instant of the last poll (at first, the start).
//! 2. Where an entry belongs is a function of cursor and `ready_at` alone (`slot::home`). So all entries of one instant are
//!    in one list, and their order is the order in which they came.
//! 3. `ready_at ≤ cursor`: late list. Same block as the cursor: the level of the highest differing digit, in a slot after the
//!    cursor's own. Another block: overflow list.
//! 4. The occupied slots of a level lie wholly before those of the level above, and these before the overflow. The earliest
//!    entry is in the first occupied slot of the lowest occupied level.
//! 5. While time moves forward an entry goes only to a lower level, when the cursor reaches the start of its slot; at most
//!    six times. The overflow is looked through when the cursor reaches the block of its earliest entry.
//! 6. When time moves backward, levels below the highest changed digit and the late list are placed anew (rule 2 leaves all
//!    others where they are). So a step back of a millisecond costs next to nothing, and no step emits anything early.
//! 7. A bound kept for the late or the overflow list may be too early after a cancel, never too late: a poll too many is
//!    harmless, a poll too few is a late task.
//! 8. An id is in the wheel at most once; the index names its entry for as long as that is in a list.

mod chunks;
mod index;
mod lists;
mod slab;
mod slot;

use ax_core::{Priority, TaskId, Timestamp};

use index::Index;
use lists::Lists;
use slab::{NONE, Slab};
use slot::{Home, LEVELS};

/// What the engine keeps in memory about a task that waits for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The task.
    pub id: TaskId,
    /// Its earliest start.
    pub ready_at: Timestamp,
    /// Its job, as an index into the names that the engine has interned.
    pub job: u32,
    /// The shard or inbox that its row was read from.
    pub shard: u16,
    /// Its lane once it is due.
    pub priority: Priority,
}

/// What an insert did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The task was not held.
    Added,
    /// The task was held with this `ready_at`: its place is kept.
    Held,
    /// The task was held with other particulars: it has its new place, behind those that were there before.
    Replaced,
}

/// A hierarchical timing wheel without a clock; see the head of the file.
pub struct Wheel {
    /// Tick of the last poll.
    cursor: u64,
    slab: Slab,
    index: Index,
    lists: Lists,
    /// Lower bound of the late list, of no meaning while that is empty.
    first_late: u64,
    /// Lower bound of the overflow list, of no meaning while that is empty.
    first_overflow: u64,
}

impl Wheel {
    /// An empty wheel whose last poll counts as being at `start`.
    pub fn new(start: Timestamp) -> Wheel {
        Wheel {
            cursor: slot::tick_of(start),
            slab: Slab::new(),
            index: Index::new(),
            lists: Lists::new(),
            first_late: u64::MAX,
            first_overflow: u64::MAX,
        }
    }

    /// Holds a task until it is due. O(1). For a task held with the same `ready_at` only job, shard and priority are taken
    /// over; an instant that has passed is emitted by the next poll, one that never comes (`i64::MAX`) is held.
    pub fn insert(&mut self, due: Due) -> Inserted {
        if let Some(at) = self.index.find(&self.slab, &due.id) {
            return self.refresh(at, &due);
        }
        let at = self.slab.add(&due);
        self.index.add(&mut self.slab, at);
        self.link(at);
        Inserted::Added
    }

    /// Forgets a task; says whether it was held. O(1).
    pub fn cancel(&mut self, id: &TaskId) -> bool {
        let Some(at) = self.index.find(&self.slab, id) else {
            return false;
        };
        self.remove(at);
        true
    }

    /// What is held of a task.
    pub fn get(&self, id: &TaskId) -> Option<Due> {
        self.index
            .find(&self.slab, id)
            .map(|at| self.slab.get(at).due())
    }

    /// Moves every task with `ready_at ≤ now` to the end of `out`, in order of `ready_at`, and among equal ones in the order
    /// of their insertion. `now` may be any instant, also an earlier one than before.
    pub fn poll(&mut self, now: Timestamp, out: &mut Vec<Due>) {
        let now = slot::tick_of(now);
        if now < self.cursor {
            self.turn_back(now);
        }
        self.emit_late(out);
        while let Some(stop) = self.next_stop().filter(|stop| stop.start() <= now) {
            self.visit(stop, out);
        }
        self.cursor = now;
    }

    /// An instant before which no poll can emit anything, and the latest that can be told without looking at entries; `None`
    /// when the wheel is empty. It is past or present only if something late was inserted since the last poll.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        if !self.lists.is_empty(Home::LATE) {
            return Some(slot::instant_of(self.first_late));
        }
        self.next_stop().map(|stop| slot::instant_of(stop.start()))
    }

    /// Tasks held.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether no task is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything and gives the memory back; the cursor stays.
    pub fn clear(&mut self) {
        *self = Wheel::new(slot::instant_of(self.cursor));
    }

    /// Forgets every task that `lost` names (as when its shard has gone to another node) and says how many. O(held).
    pub fn remove_where(&mut self, mut lost: impl FnMut(&Due) -> bool) -> usize {
        let before = self.len();
        for at in self.slab.places() {
            let entry = self.slab.get(at);
            if entry.home != Home::FREE && lost(&entry.due()) {
                self.remove(at);
            }
        }
        before - self.len()
    }

    /// Memory taken, in bytes. What cancelled and emitted tasks took is kept for the next ones until [`clear`](Self::clear).
    pub fn memory_bytes(&self) -> usize {
        size_of::<Wheel>() + self.slab.bytes() + self.index.bytes() + self.lists.bytes()
    }

    fn refresh(&mut self, at: u32, due: &Due) -> Inserted {
        if self.slab.get(at).ready_at() == due.ready_at {
            self.slab.get_mut(at).describe(due);
            return Inserted::Held;
        }
        self.lists.unlink(&mut self.slab, at);
        self.slab.get_mut(at).describe(due);
        self.link(at);
        Inserted::Replaced
    }

    fn remove(&mut self, at: u32) {
        self.lists.unlink(&mut self.slab, at);
        self.forget(at);
    }

    /// Gives up an entry that is in no list any more.
    fn forget(&mut self, at: u32) {
        self.index.remove(&mut self.slab, at);
        self.slab.release(at);
    }

    /// Puts an entry where it belongs (rule 2).
    fn link(&mut self, at: u32) {
        let tick = self.slab.get(at).tick();
        let home = slot::home(self.cursor, tick);
        let bound = match home {
            Home::LATE => Some(&mut self.first_late),
            Home::OVERFLOW => Some(&mut self.first_overflow),
            _ => None,
        };
        if let Some(bound) = bound {
            *bound = if self.lists.is_empty(home) {
                tick
            } else {
                tick.min(*bound)
            };
        }
        self.lists.push(&mut self.slab, at, home);
    }

    /// Puts every entry of a list that was taken where it belongs, or into `out` if it is due at the cursor.
    fn place(&mut self, mut at: u32, out: &mut Vec<Due>) {
        while at != NONE {
            let entry = self.slab.get(at);
            let (next, due) = (entry.next, entry.due());
            if slot::tick_of(due.ready_at) <= self.cursor {
                out.push(due);
                self.forget(at);
            } else {
                self.link(at);
            }
            at = next;
        }
    }

    /// Emits the late list, all of which is due (rule 3). The only place that sorts: late rows come in any order.
    fn emit_late(&mut self, out: &mut Vec<Due>) {
        let first = out.len();
        let list = self.lists.take_other(Home::LATE);
        self.place(list, out);
        out[first..].sort_by_key(|due| due.ready_at);
    }

    /// The next place where the cursor has something to do, leaving aside the late list (rule 4).
    fn next_stop(&self) -> Option<Stop> {
        if let Some((level, slot)) = self.lists.first_slot() {
            return Some(Stop::Slot {
                level,
                slot,
                start: slot::slot_start(self.cursor, level, slot),
            });
        }
        let start = slot::block_start(self.first_overflow);
        (!self.lists.is_empty(Home::OVERFLOW)).then_some(Stop::Block { start })
    }

    /// Moves the cursor to a stop and empties it (rule 5).
    fn visit(&mut self, stop: Stop, out: &mut Vec<Due>) {
        self.cursor = stop.start();
        let list = match stop {
            Stop::Slot { level, slot, .. } => self.lists.take_slot(level, slot),
            Stop::Block { .. } => self.lists.take_other(Home::OVERFLOW),
        };
        self.place(list, out);
    }

    /// Moves the cursor back (rule 6).
    fn turn_back(&mut self, now: u64) {
        let changed = slot::highest_difference(self.cursor, now).unwrap_or(0);
        self.cursor = now;
        let late = self.lists.take_other(Home::LATE);
        for level in 0..changed.min(LEVELS) {
            while let Some(slot) = self.lists.first_in(level) {
                let list = self.lists.take_slot(level, slot);
                self.relink(list);
            }
        }
        self.relink(late);
    }

    /// Puts every entry of a list that was taken where it belongs, also those that are due.
    fn relink(&mut self, mut at: u32) {
        while at != NONE {
            let next = self.slab.get(at).next;
            self.link(at);
            at = next;
        }
    }
}

/// A place where the cursor has something to do.
#[derive(Clone, Copy)]
enum Stop {
    /// An occupied slot, with its first tick.
    Slot {
        level: usize,
        slot: usize,
        start: u64,
    },
    /// The block of the earliest entry of the overflow list, with its first tick.
    Block { start: u64 },
}

impl Stop {
    fn start(self) -> u64 {
        match self {
            Stop::Slot { start, .. } | Stop::Block { start } => start,
        }
    }
}

#[cfg(test)]
impl Due {
    /// A task with a number for its id.
    pub(crate) fn sample(number: u64, millis: i64) -> Due {
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        let ready_at = Timestamp::from_millis(millis);
        Due {
            id: TaskId::from_bytes(bytes),
            ready_at,
            job: 0,
            shard: 0,
            priority: Priority::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn poll(wheel: &mut Wheel, now: i64) -> Vec<Due> {
        let mut out = Vec::new();
        wheel.poll(at(now), &mut out);
        out
    }

    /// A wheel that started at `start` emits a task exactly at `ready_at`, not a millisecond before.
    fn check_exact(start: i64, ready_at: i64) {
        let mut wheel = Wheel::new(at(start));
        let due = Due::sample(1, ready_at);
        assert_eq!(wheel.insert(due), Inserted::Added);
        if ready_at > start {
            assert_eq!(
                poll(&mut wheel, ready_at - 1),
                [],
                "{ready_at} from {start} is early"
            );
            assert_eq!(
                wheel.next_expiry(),
                Some(at(ready_at)),
                "{ready_at} from {start}"
            );
        }
        assert_eq!(
            poll(&mut wheel, ready_at),
            [due],
            "{ready_at} from {start} is lost"
        );
        assert!(wheel.is_empty());
    }

    #[test]
    fn c30_every_level_boundary_is_exact() {
        for start in [0, 1, 63, 64, 1_700_000_000_123, -5] {
            for level in 0..=LEVELS as u32 {
                for nudge in -2..=2 {
                    check_exact(start, start + 64i64.pow(level) + nudge);
                    check_exact(
                        start,
                        (start >> (6 * level) << (6 * level)) + 64i64.pow(level) + nudge,
                    );
                }
            }
        }
    }

    #[test]
    fn c30_long_delays_neither_fire_early_nor_loop() {
        const DAY: i64 = 86_400_000;
        let start = 1_700_000_000_000;
        for delay in [
            1 << 31,
            (1 << 31) - 1,
            DAY * 248 / 10,
            25 * DAY,
            365 * DAY,
            36_500 * DAY,
        ] {
            check_exact(start, start + delay);
        }
        check_exact(start, i64::MAX);
        check_exact(start, i64::MAX - 1);
        check_exact(start, i64::MIN);
        check_exact(i64::MIN, i64::MAX);
        check_exact(i64::MAX, i64::MAX);
        check_exact(i64::MIN, i64::MIN + 1);
    }

    #[test]
    fn an_idle_engine_wakes_at_most_once_a_level() {
        let mut wheel = Wheel::new(at(1));
        let ready_at = 64i64.pow(6) * 3 - 1;
        wheel.insert(Due::sample(1, ready_at));
        let (mut wakes, mut out) = (0, Vec::new());
        while let Some(next) = wheel.next_expiry() {
            wheel.poll(next, &mut out);
            wakes += 1;
        }
        assert_eq!(out, [Due::sample(1, ready_at)]);
        assert!(wakes <= LEVELS + 1, "{wakes} wake-ups for one task");
    }

    #[test]
    fn a_pair_already_held_is_skipped_and_a_moved_one_replaced() {
        let mut wheel = Wheel::new(at(0));
        assert_eq!(wheel.insert(Due::sample(1, 100)), Inserted::Added);
        assert_eq!(
            wheel.insert(Due {
                shard: 7,
                ..Due::sample(1, 100)
            }),
            Inserted::Held
        );
        assert_eq!(
            wheel.get(&Due::sample(1, 0).id).map(|due| due.shard),
            Some(7)
        );
        assert_eq!(wheel.insert(Due::sample(1, 5_000)), Inserted::Replaced);
        assert_eq!(wheel.len(), 1);
        assert_eq!(poll(&mut wheel, 4_999), []);
        assert_eq!(wheel.insert(Due::sample(1, 4_999)), Inserted::Replaced);
        assert_eq!(poll(&mut wheel, 4_999), [Due::sample(1, 4_999)]);
    }

    #[test]
    fn equal_instants_keep_their_order_through_cascades() {
        let mut wheel = Wheel::new(at(0));
        let ready_at = 64i64.pow(6) + 4_242;
        let mut wanted = Vec::new();
        for (n, now) in [
            0,
            64i64.pow(6) - 1,
            64i64.pow(6) + 10,
            ready_at - 200,
            ready_at - 1,
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(poll(&mut wheel, now), []);
            for twin in 0..3 {
                wanted.push(Due::sample(n as u64 * 3 + twin, ready_at));
                wheel.insert(wanted[wanted.len() - 1]);
            }
        }
        assert_eq!(poll(&mut wheel, ready_at), wanted);
    }

    #[test]
    fn time_may_jump_backward() {
        let mut wheel = Wheel::new(at(0));
        wheel.insert(Due::sample(1, 3_600_050));
        assert_eq!(poll(&mut wheel, 3_600_000), []);
        wheel.insert(Due::sample(2, 3_600_000));
        wheel.insert(Due::sample(3, 40));
        assert_eq!(poll(&mut wheel, 39), []);
        assert_eq!(wheel.next_expiry(), Some(at(40)));
        assert_eq!(poll(&mut wheel, 40), [Due::sample(3, 40)]);
        assert_eq!(
            poll(&mut wheel, 3_600_050),
            [Due::sample(2, 3_600_000), Due::sample(1, 3_600_050)]
        );
    }

    #[test]
    fn lost_shards_take_their_tasks_along() {
        let mut wheel = Wheel::new(at(0));
        for n in 0..1_000 {
            wheel.insert(Due {
                shard: (n % 10) as u16,
                ..Due::sample(n, n as i64 * 777)
            });
        }
        assert_eq!(wheel.remove_where(|due| due.shard < 3), 300);
        assert_eq!(wheel.remove_where(|due| due.shard < 3), 0);
        let left = poll(&mut wheel, i64::MAX);
        assert_eq!(left.len(), 700);
        assert!(left.iter().all(|due| due.shard >= 3));
    }

    #[test]
    fn clear_forgets_everything_and_keeps_the_cursor() {
        let mut wheel = Wheel::new(at(0));
        (0..10_000).for_each(|n| _ = wheel.insert(Due::sample(n, 90 + n as i64)));
        assert_eq!(poll(&mut wheel, 100).len(), 11);
        wheel.clear();
        assert_eq!((wheel.len(), wheel.next_expiry()), (0, None));
        assert!(wheel.memory_bytes() < 100_000);
        wheel.insert(Due::sample(1, 100));
        assert_eq!(wheel.next_expiry(), Some(at(100)));
    }

    #[test]
    fn a_timer_takes_at_most_48_bytes() {
        let mut wheel = Wheel::new(at(0));
        for n in 0..400_000u64 {
            wheel.insert(Due::sample(n, (n * 7_919 % 300_000) as i64));
            if (n + 1) % 50_000 == 0 {
                assert!(
                    wheel.memory_bytes() <= 48 * wheel.len(),
                    "{} for {}",
                    wheel.memory_bytes(),
                    wheel.len()
                );
            }
        }
    }

    #[test]
    #[ignore = "half a gigabyte; run it in release to see figures"]
    fn ten_million_timers() {
        let mut wheel = Wheel::new(at(0));
        let mut worst = 0;
        for n in 0..10_000_000u64 {
            wheel.insert(Due::sample(n, (n * 7_919 % 300_000_000) as i64));
        }
        assert!(wheel.memory_bytes() <= 48 * wheel.len());
        let mut out = Vec::new();
        for now in (0..=300_000_000).step_by(100) {
            out.clear();
            wheel.poll(at(now), &mut out);
            worst = worst.max(out.len());
        }
        assert!(wheel.is_empty());
        println!("largest batch {worst}");
    }

    /// One call on wheel and model.
    #[derive(Clone, Debug)]
    enum Op {
        Insert { task: u64, ahead: i64 },
        Cancel { task: u64 },
        Poll { ahead: i64 },
        PollAtNextExpiry,
        LoseShard { shard: u16 },
    }

    fn ahead() -> impl Strategy<Value = i64> {
        let near_edge = (0..=7u32, -2..=2i64, prop_oneof![Just(1i64), Just(-1)])
            .prop_map(|(level, nudge, sign)| sign * 64i64.pow(level) + nudge);
        prop_oneof![4 => -3..200i64, 3 => near_edge, 2 => -10_000..1_000_000i64, 1 => 0..1i64 << 40, 1 => any::<i64>()]
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0..40u64, ahead()).prop_map(|(task, ahead)| Op::Insert { task, ahead }),
            1 => (0..40u64).prop_map(|task| Op::Cancel { task }),
            3 => ahead().prop_map(|ahead| Op::Poll { ahead: ahead >> 3 }),
            2 => Just(Op::PollAtNextExpiry),
            1 => (0..4u16).prop_map(|shard| Op::LoseShard { shard }),
        ]
    }

    /// What a wheel is meant to be: a map, looked through from end to end.
    #[derive(Default)]
    struct Model {
        held: BTreeMap<u64, (i64, usize)>,
        arrivals: usize,
    }

    impl Model {
        fn insert(&mut self, task: u64, ready_at: i64) -> Inserted {
            self.arrivals += 1;
            match self.held.get(&task) {
                Some(&(old, _)) if old == ready_at => return Inserted::Held,
                _ => {}
            }
            match self.held.insert(task, (ready_at, self.arrivals)) {
                Some(_) => Inserted::Replaced,
                None => Inserted::Added,
            }
        }

        fn poll(&mut self, now: i64) -> Vec<(u64, i64)> {
            let mut due: Vec<_> = self
                .held
                .iter()
                .filter(|(_, held)| held.0 <= now)
                .map(|(&task, &held)| (held, task))
                .collect();
            due.sort_unstable();
            due.iter().for_each(|(_, task)| _ = self.held.remove(task));
            due.into_iter()
                .map(|((ready_at, _), task)| (task, ready_at))
                .collect()
        }
    }

    fn number(due: &Due) -> (u64, i64) {
        let bytes = due.id.as_bytes();
        let task = bytes[8..]
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        (task, due.ready_at.as_millis())
    }

    fn step(wheel: &mut Wheel, model: &mut Model, now: &mut i64, op: Op) {
        match op {
            Op::Insert { task, ahead } => {
                let ready_at = now.saturating_add(ahead);
                let due = Due {
                    shard: task as u16 % 4,
                    ..Due::sample(task, ready_at)
                };
                assert_eq!(wheel.insert(due), model.insert(task, ready_at));
            }
            Op::Cancel { task } => {
                let held = model.held.remove(&task).is_some();
                assert_eq!(wheel.cancel(&Due::sample(task, 0).id), held);
            }
            Op::Poll { ahead } => {
                *now = now.saturating_add(ahead);
                compare_poll(wheel, model, *now);
            }
            Op::PollAtNextExpiry => {
                *now = wheel.next_expiry().map_or(*now, Timestamp::as_millis);
                compare_poll(wheel, model, *now);
            }
            Op::LoseShard { shard } => {
                let before = model.held.len();
                model.held.retain(|&task, _| task as u16 % 4 != shard);
                assert_eq!(
                    wheel.remove_where(|due| due.shard == shard),
                    before - model.held.len()
                );
            }
        }
    }

    fn compare_poll(wheel: &mut Wheel, model: &mut Model, now: i64) {
        let emitted: Vec<_> = poll(wheel, now).iter().map(number).collect();
        assert_eq!(emitted, model.poll(now), "poll at {now}");
        assert!(
            wheel.next_expiry().is_none_or(|next| next > at(now)),
            "a poll leaves nothing that is due"
        );
    }

    fn compare(wheel: &Wheel, model: &Model) {
        assert_eq!(wheel.len(), model.held.len());
        let earliest = model.held.values().map(|held| at(held.0)).min();
        assert_eq!(wheel.next_expiry().is_some(), earliest.is_some());
        assert!(
            wheel.next_expiry() <= earliest,
            "{:?} is later than {earliest:?}",
            wheel.next_expiry()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn behaves_like_a_map(start in prop_oneof![Just(0i64), Just(1_700_000_000_000), any::<i64>()], ops in prop::collection::vec(op(), 1..120)) {
            let (mut wheel, mut model, mut now) = (Wheel::new(at(start)), Model::default(), start);
            for op in ops {
                step(&mut wheel, &mut model, &mut now, op);
                compare(&wheel, &model);
            }
            compare_poll(&mut wheel, &mut model, i64::MAX);
            prop_assert!(wheel.is_empty());
        }
    }
}
