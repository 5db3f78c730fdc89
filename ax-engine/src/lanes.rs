//! The lanes: tasks that are due and wait for this node to claim them, one queue per priority.
//!
//! Enters: due entries from wheel or scan. Leaves: the next `n` to claim, in a mix of priorities that starves nobody. All in
//! memory, and gone with the process: the rows stay. It never claims, never reads a clock, and holds a task at most once.
//!
//! # Rules
//!
//! 1. Inside a lane: first come, first served. A task whose instant or priority changed comes anew.
//! 2. Between lanes: smooth weighted round robin (the algorithm of nginx) with [`WEIGHTS`]. A lane that is empty takes no
//!    part, so its turns go to the others, and it saves nothing up.
//! 3. A lane that was passed over [`LONGEST_PASS`] times in a row goes first, whatever the others do in between. So **a lane
//!    with something in it is served within [`MOST_PASSES`] + 1 takes.** (With all lanes full the round robin alone serves
//!    the lowest within 53.)
//! 4. Every [`AGED_TURN`]th take goes to the task that came first of all, if that has been due for [`AGED_AFTER`]. So **a
//!    task that came at least that long ago, behind `k` others still here, is taken within `AGED_TURN × (k + 1)` takes**, plus
//!    the few of rule 3. The other nine tenths keep the weights exactly.
//! 5. With a [`Reserve`], the lanes below it get only the room that is not kept from them; a lane without room is not passed
//!    over, for it is no turn that it lacks.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ax_core::{Priority, TaskId, Timestamp};

use crate::wheel::Due;

/// Number of lanes, one a priority.
pub const LANES: usize = 10;
/// Share of each lane while all have work; 9 to 5 is 3 to 1.
pub const WEIGHTS: [i64; LANES] = [2, 3, 4, 5, 6, 8, 11, 14, 18, 24];
/// Takes after which a lane that was passed over in each goes first: one full round of the weights.
pub const LONGEST_PASS: u32 = 95;
/// The most takes in a row that can pass over a lane with work: those, and one for every other lane in the same position.
pub const MOST_PASSES: u32 = LONGEST_PASS + LANES as u32 - 1;
/// One take in so many is for the task that waits longest.
pub const AGED_TURN: u32 = 10;
/// How long a task must have been due before that counts.
pub const AGED_AFTER: Duration = Duration::from_secs(60);

/// Slots kept for high lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The lowest priority that may use them.
    pub from: Priority,
    /// How many of the slots, in percent and rounded up; 100 and more are all.
    pub percent: u8,
}

impl Reserve {
    /// How many of `slots` the lanes below may not hold.
    pub fn kept(self, slots: usize) -> usize {
        let percent = usize::from(self.percent.min(100));
        slots.saturating_mul(percent).div_ceil(100)
    }
}

/// How many tasks a take may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// In all.
    pub any: usize,
    /// Of these, from lanes below the reserve.
    pub low: usize,
}

impl From<usize> for Room {
    fn from(any: usize) -> Room {
        Room { any, low: any }
    }
}

/// Ten queues; see the head of the file.
pub struct Lanes {
    lanes: [Lane; LANES],
    /// Where each task is. What a queue holds beyond this was removed.
    places: HashMap<TaskId, Place>,
    /// Pushes so far.
    arrivals: u64,
    /// Takes so far, modulo [`AGED_TURN`].
    turn: u32,
    reserve: Option<Reserve>,
}

/// One priority.
#[derive(Default)]
struct Lane {
    /// In order of arrival. The first one was not removed; others may have been.
    queue: VecDeque<Waiting>,
    /// Those in the queue that were not removed.
    len: usize,
    /// Credit of the round robin.
    credit: i64,
    /// Takes in a row that chose another lane while this one had work and room.
    passed: u32,
}

/// One task in its queue.
struct Waiting {
    due: Due,
    arrival: u64,
}

/// Where a task is.
#[derive(Clone, Copy)]
struct Place {
    ready_at: Timestamp,
    arrival: u64,
    priority: Priority,
}

impl Lanes {
    /// Empty lanes that share every slot.
    pub fn new() -> Lanes {
        Lanes::keeping(None)
    }

    /// Empty lanes with slots kept for the high ones; [`room`](Self::room) tells what a take may then give.
    pub fn with_reserve(reserve: Reserve) -> Lanes {
        Lanes::keeping(Some(reserve))
    }

    /// Puts a due task at the end of its lane. A task held with the same instant and priority keeps its place.
    pub fn push(&mut self, due: Due) {
        let held = self.places.get(&due.id).copied();
        if held
            .is_some_and(|place| place.ready_at == due.ready_at && place.priority == due.priority)
        {
            return;
        }
        self.remove(&due.id);
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.places.insert(
            due.id,
            Place {
                ready_at: due.ready_at,
                arrival,
                priority: due.priority,
            },
        );
        let lane = &mut self.lanes[lane_of(due.priority)];
        lane.queue.push_back(Waiting { due, arrival });
        lane.len += 1;
    }

    /// Moves up to `room` tasks to the end of `out`, in the order in which they should run, and says how many. `now` decides
    /// only which have waited long (rule 4).
    pub fn take(&mut self, room: impl Into<Room>, now: Timestamp, out: &mut Vec<Due>) -> usize {
        let (mut room, before) = (room.into(), out.len());
        while room.any > 0
            && let Some(lane) = self.choose(room, now)
            && let Some(due) = self.pop(lane)
        {
            room.any -= 1;
            room.low -= usize::from(self.is_low(lane));
            out.push(due);
        }
        out.len() - before
    }

    /// The room when `credit` tasks may be claimed and the lanes below the reserve hold `low_held` of `slots` already.
    pub fn room(&self, credit: usize, slots: usize, low_held: usize) -> Room {
        let Some(reserve) = self.reserve else {
            return credit.into();
        };
        let low = slots
            .saturating_sub(reserve.kept(slots))
            .saturating_sub(low_held);
        Room {
            any: credit,
            low: low.min(credit),
        }
    }

    /// Forgets a task; says whether it was held. O(1), apart from a clean-up now and then.
    pub fn remove(&mut self, id: &TaskId) -> bool {
        let Some(place) = self.places.remove(id) else {
            return false;
        };
        let lane = lane_of(place.priority);
        self.lanes[lane].len -= 1;
        self.tidy(lane);
        true
    }

    /// Forgets every task that `lost` names and says how many. O(held).
    pub fn remove_where(&mut self, mut lost: impl FnMut(&Due) -> bool) -> usize {
        let before = self.len();
        for lane in &mut self.lanes {
            lane.queue.retain(|waiting| {
                let stays = is_here(&self.places, waiting);
                if stays && lost(&waiting.due) {
                    self.places.remove(&waiting.due.id);
                    lane.len -= 1;
                    return false;
                }
                stays
            });
            lane.rest_if_empty();
        }
        before - self.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Lanes::keeping(self.reserve);
    }

    /// Whether a task is held.
    pub fn contains(&self, id: &TaskId) -> bool {
        self.places.contains_key(id)
    }

    /// Tasks held.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no task is held.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Tasks held in one lane.
    pub fn len_of(&self, priority: Priority) -> usize {
        self.lanes[lane_of(priority)].len
    }

    fn keeping(reserve: Option<Reserve>) -> Lanes {
        Lanes {
            lanes: Default::default(),
            places: HashMap::new(),
            arrivals: 0,
            turn: 0,
            reserve,
        }
    }

    /// The lane of the next take, and the books kept about it.
    fn choose(&mut self, room: Room, now: Timestamp) -> Option<usize> {
        let open: [bool; LANES] = std::array::from_fn(|lane| {
            self.lanes[lane].len > 0 && (room.low > 0 || !self.is_low(lane))
        });
        let open = || (0..LANES).filter(|&lane| open[lane]);
        let chosen = self
            .passed_over(open())
            .or_else(|| self.aged(open(), now))
            .or_else(|| self.next_in_round(open()))?;
        for lane in open() {
            self.lanes[lane].passed += 1;
        }
        self.lanes[chosen].passed = 0;
        self.turn = (self.turn + 1) % AGED_TURN;
        Some(chosen)
    }

    /// Rule 3.
    fn passed_over(&self, open: impl Iterator<Item = usize>) -> Option<usize> {
        let most = open.max_by_key(|&lane| self.lanes[lane].passed)?;
        (self.lanes[most].passed >= LONGEST_PASS).then_some(most)
    }

    /// Rule 4.
    fn aged(&self, open: impl Iterator<Item = usize>, now: Timestamp) -> Option<usize> {
        if self.turn + 1 < AGED_TURN {
            return None;
        }
        let first = |lane: usize| self.lanes[lane].queue.front();
        let oldest = open.min_by_key(|&lane| first(lane).map(|waiting| waiting.arrival))?;
        let waited = now.since(first(oldest)?.due.ready_at);
        (waited >= AGED_AFTER).then_some(oldest)
    }

    /// Rule 2.
    fn next_in_round(&mut self, open: impl Iterator<Item = usize> + Clone) -> Option<usize> {
        let mut total = 0;
        for lane in open.clone() {
            self.lanes[lane].credit += WEIGHTS[lane];
            total += WEIGHTS[lane];
        }
        let chosen = open.max_by_key(|&lane| self.lanes[lane].credit)?;
        self.lanes[chosen].credit -= total;
        Some(chosen)
    }

    fn pop(&mut self, lane: usize) -> Option<Due> {
        let Waiting { due, .. } = self.lanes[lane].queue.pop_front()?;
        self.places.remove(&due.id);
        self.lanes[lane].len -= 1;
        self.tidy(lane);
        Some(due)
    }

    /// Drops removed tasks from the front of a queue, and all of them once they are the larger part.
    fn tidy(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        while lane
            .queue
            .front()
            .is_some_and(|first| !is_here(&self.places, first))
        {
            lane.queue.pop_front();
        }
        if lane.queue.len() > 2 * lane.len + 64 {
            lane.queue.retain(|waiting| is_here(&self.places, waiting));
        }
        lane.rest_if_empty();
    }

    fn is_low(&self, lane: usize) -> bool {
        self.reserve
            .is_some_and(|reserve| lane < lane_of(reserve.from))
    }
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes::new()
    }
}

impl Lane {
    /// Rule 2: an empty lane saves nothing up.
    fn rest_if_empty(&mut self) {
        if self.len == 0 {
            (self.credit, self.passed) = (0, 0);
        }
    }
}

fn is_here(places: &HashMap<TaskId, Place>, waiting: &Waiting) -> bool {
    places
        .get(&waiting.due.id)
        .is_some_and(|place| place.arrival == waiting.arrival)
}

fn lane_of(priority: Priority) -> usize {
    usize::from(priority.get())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn priority(level: u8) -> Priority {
        Priority::new(level).unwrap()
    }

    fn task(number: u64, level: u8) -> Due {
        Due {
            priority: priority(level),
            ..Due::sample(number, NOW.as_millis())
        }
    }

    fn take(lanes: &mut Lanes, room: impl Into<Room>) -> Vec<Due> {
        let mut out = Vec::new();
        lanes.take(room, NOW, &mut out);
        out
    }

    /// Levels of the next `n` takes.
    fn levels(lanes: &mut Lanes, n: usize) -> Vec<u8> {
        take(lanes, n)
            .iter()
            .map(|due| due.priority.get())
            .collect()
    }

    fn fill(lanes: &mut Lanes, level: u8, n: u64) {
        let first = u64::from(level) * 1_000_000;
        (first..first + n).for_each(|number| lanes.push(task(number, level)));
    }

    #[test]
    fn full_lanes_share_by_weight() {
        let mut lanes = Lanes::new();
        (0..10).for_each(|level| fill(&mut lanes, level, 1_000));
        let taken = levels(&mut lanes, 950);
        for (level, weight) in WEIGHTS.iter().enumerate() {
            let share = taken
                .iter()
                .filter(|&&taken| usize::from(taken) == level)
                .count();
            assert_eq!(share as i64, weight * 10, "lane {level}");
        }
        assert_eq!(WEIGHTS.iter().sum::<i64>(), i64::from(LONGEST_PASS));
    }

    #[test]
    fn nine_to_five_is_three_to_one_and_smooth() {
        let mut lanes = Lanes::new();
        fill(&mut lanes, 9, 100);
        fill(&mut lanes, 5, 100);
        assert_eq!(levels(&mut lanes, 8), [9, 9, 5, 9, 9, 9, 5, 9]);
    }

    #[test]
    fn empty_lanes_give_their_turn_away() {
        let mut lanes = Lanes::new();
        fill(&mut lanes, 0, 500);
        assert_eq!(levels(&mut lanes, 500), [0; 500]);
        fill(&mut lanes, 0, 500);
        fill(&mut lanes, 9, 13 * 24);
        let taken = levels(&mut lanes, 13 * 26);
        assert_eq!(
            taken.iter().filter(|&&level| level == 0).count(),
            26,
            "time alone earned lane 0 no debt"
        );
    }

    #[test]
    fn a_lane_that_was_empty_starts_anew() {
        let mut lanes = Lanes::new();
        fill(&mut lanes, 9, 1_000);
        lanes.push(task(1, 4));
        lanes.push(task(2, 3));
        assert_eq!(levels(&mut lanes, 2), [9, 9]);
        lanes.remove(&task(1, 4).id);
        assert_eq!(lanes.lanes[4].credit, 0);
        assert_eq!(lanes.remove_where(|due| due.priority == priority(3)), 1);
        assert_eq!(lanes.lanes[3].credit, 0);
    }

    #[test]
    fn cancelled_tasks_leave_no_lasting_debt() {
        let mut lanes = Lanes::new();
        fill(&mut lanes, 9, 10_000);
        for number in 0..2_000 {
            lanes.push(task(number, 6));
            levels(&mut lanes, 1);
            lanes.remove(&task(number, 6).id);
        }
        fill(&mut lanes, 5, 1_000);
        let high = levels(&mut lanes, 100)
            .iter()
            .filter(|&&level| level == 9)
            .count();
        assert!((70..=80).contains(&high), "{high} of 100 where 75 are due");
    }

    #[test]
    fn the_bound_holds_whatever_the_books_say() {
        let mut lanes = Lanes::new();
        (0..10).for_each(|level| fill(&mut lanes, level, 1_000));
        lanes.lanes[9].credit = 1_000_000;
        let taken = levels(&mut lanes, 2 * MOST_PASSES as usize);
        for level in 0..10 {
            let first = taken.iter().position(|&taken| taken == level);
            assert!(
                first <= Some(MOST_PASSES as usize),
                "lane {level} after {first:?}"
            );
            assert!(first.is_some(), "lane {level} is never served");
        }
    }

    #[test]
    fn inside_a_lane_first_come_first_served() {
        let mut lanes = Lanes::new();
        let tasks: Vec<_> = [5, 3, 9, 1].map(|number| task(number, 4)).to_vec();
        tasks.iter().for_each(|&due| lanes.push(due));
        assert_eq!(take(&mut lanes, 10), tasks);
        assert_eq!(take(&mut lanes, 10), []);
    }

    #[test]
    fn a_task_is_held_once() {
        let mut lanes = Lanes::new();
        lanes.push(task(1, 4));
        lanes.push(task(2, 4));
        lanes.push(task(1, 4));
        assert_eq!((lanes.len(), lanes.len_of(priority(4))), (2, 2));
        lanes.push(task(1, 7));
        assert_eq!(
            (
                lanes.len(),
                lanes.len_of(priority(4)),
                lanes.len_of(priority(7))
            ),
            (2, 1, 1)
        );
        assert_eq!(take(&mut lanes, 10), [task(1, 7), task(2, 4)]);
    }

    #[test]
    fn removed_tasks_are_not_given() {
        let mut lanes = Lanes::new();
        fill(&mut lanes, 3, 1_000);
        for number in (3_000_000..3_001_000).filter(|number| number % 10 != 7) {
            assert!(lanes.remove(&task(number, 3).id));
        }
        assert!(!lanes.remove(&task(3_000_000, 3).id));
        assert!(
            lanes.lanes[3].queue.len() <= 2 * lanes.len() + 64,
            "what was removed is dropped in time"
        );
        let taken = take(&mut lanes, 1_000);
        let wanted: Vec<_> = (3_000_000..3_001_000)
            .filter(|number| number % 10 == 7)
            .map(|number| task(number, 3))
            .collect();
        assert_eq!(taken, wanted);
    }

    #[test]
    fn a_removed_task_that_returns_is_given_once() {
        let mut lanes = Lanes::new();
        lanes.push(task(1, 3));
        lanes.push(task(2, 3));
        lanes.remove(&task(2, 3).id);
        lanes.push(task(2, 3));
        assert_eq!(lanes.len(), 2);
        assert_eq!(take(&mut lanes, 5), [task(1, 3), task(2, 3)]);
    }

    #[test]
    fn lost_shards_take_their_tasks_along() {
        let mut lanes = Lanes::new();
        (0..100).for_each(|n| {
            lanes.push(Due {
                shard: n as u16 % 4,
                ..task(n, n as u8 % 10)
            })
        });
        assert_eq!(lanes.remove_where(|due| due.shard == 2), 25);
        assert_eq!(lanes.len(), 75);
        assert!(take(&mut lanes, 100).iter().all(|due| due.shard != 2));
        assert!(
            lanes.is_empty()
                && lanes
                    .lanes
                    .iter()
                    .all(|lane| lane.len == 0 && lane.queue.is_empty())
        );
    }

    /// Low tasks among 130 takes when all of them have been due for `waited` milliseconds.
    fn low_share(waited: i64) -> usize {
        let mut lanes = Lanes::new();
        let ready_at = Timestamp::from_millis(NOW.as_millis() - waited);
        (0..100).for_each(|number| {
            lanes.push(Due {
                ready_at,
                ..task(number, 0)
            })
        });
        fill(&mut lanes, 9, 1_000);
        levels(&mut lanes, 130)
            .iter()
            .filter(|&&level| level == 0)
            .count()
    }

    #[test]
    fn the_longest_waiting_has_one_take_in_ten() {
        assert_eq!(low_share(59_999), 10, "its weight, 2 of 26");
        assert_eq!(
            low_share(60_000),
            13 + 9,
            "every tenth, and its weight of the rest"
        );
    }

    #[test]
    fn with_all_lanes_full_the_lowest_is_served_within_53() {
        let mut lanes = Lanes::new();
        (0..10).for_each(|level| fill(&mut lanes, level, 1_000));
        let taken = levels(&mut lanes, 950);
        let served: Vec<_> = (0..950).filter(|&at| taken[at] == 0).collect();
        let longest = served.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(
            longest <= Some(53) && served[0] <= 53,
            "{longest:?} takes from one to the next"
        );
    }

    #[test]
    fn aged_tasks_go_in_order_of_arrival_within_the_bound() {
        let mut lanes = Lanes::new();
        let old = NOW.as_millis() - 3_600_000;
        for number in 0..50 {
            lanes.push(Due {
                ready_at: Timestamp::from_millis(old),
                ..task(number, [1, 0][number as usize % 2])
            });
        }
        (1..=500u64).for_each(|round| {
            (0..10).for_each(|level| lanes.push(task(1_000 + round * 10 + level, level as u8)));
        });
        let taken = take(&mut lanes, 2_000);
        for number in 0..50usize {
            let at = taken
                .iter()
                .position(|due| due.id == task(number as u64, 0).id)
                .unwrap();
            assert!(
                at < AGED_TURN as usize * (number + 1),
                "task {number} was taken as number {at}"
            );
        }
    }

    #[test]
    fn c37_low_priority_gets_its_share_under_an_endless_flood() {
        let mut lanes = Lanes::new();
        fill(&mut lanes, 0, 100);
        let (mut next, mut low, mut taken) = (9_500_000, 0, 0);
        while low < 100 {
            while lanes.len_of(priority(9)) < 10 {
                next += 1;
                lanes.push(task(next, 9));
            }
            low += levels(&mut lanes, 10)
                .iter()
                .filter(|&&level| level == 0)
                .count();
            taken += 10;
            assert!(
                taken <= 1_310,
                "{low} of 100 low tasks after {taken} takes, where every 13th is theirs"
            );
        }
    }

    #[test]
    fn c37_a_reserve_keeps_slots_for_high_lanes() {
        let mut lanes = Lanes::with_reserve(Reserve {
            from: priority(7),
            percent: 10,
        });
        fill(&mut lanes, 0, 10);
        fill(&mut lanes, 6, 10);
        let room = [
            lanes.room(10, 10, 0),
            lanes.room(1, 10, 9),
            lanes.room(0, 10, 9),
        ];
        assert_eq!(
            take(&mut lanes, room[0]).len(),
            9,
            "ten slots, one of them kept"
        );
        assert_eq!(take(&mut lanes, room[1]), []);
        lanes.push(task(1, 9));
        lanes.push(task(2, 7));
        assert_eq!(take(&mut lanes, room[1]), [task(1, 9)]);
        assert_eq!(take(&mut lanes, room[2]), []);
    }

    #[test]
    fn a_reserve_rounds_up_and_never_takes_more_than_all() {
        let reserve = |percent| Reserve {
            from: priority(7),
            percent,
        };
        assert_eq!(reserve(10).kept(64), 7);
        assert_eq!(reserve(0).kept(64), 0);
        assert_eq!(reserve(255).kept(64), 64);
        assert_eq!(reserve(1).kept(1), 1);
        assert_eq!(Lanes::new().room(5, 10, 10), Room { any: 5, low: 5 });
        assert_eq!(
            Lanes::with_reserve(reserve(10)).room(5, 10, 100),
            Room { any: 5, low: 0 }
        );
    }

    /// Tasks pushed before one take: how many into which lane.
    fn floods() -> impl Strategy<Value = Vec<[u8; LANES]>> {
        let one = prop_oneof![Just(0u8), Just(0), Just(1), Just(3)];
        prop::collection::vec(prop::array::uniform10(one), 200..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Whatever comes and goes beside it, a lane with work is served within the stated bound.
        #[test]
        fn no_lane_waits_longer_than_the_bound(floods in floods(), start in 0i64..120_000) {
            let (mut lanes, mut number, mut passed) = (Lanes::new(), 0, [0u32; LANES]);
            for (tick, flood) in floods.iter().enumerate() {
                for (level, &n) in flood.iter().enumerate() {
                    (0..n).for_each(|_| { number += 1; lanes.push(task(number, level as u8)); });
                }
                let now = NOW.plus(Duration::from_millis(start as u64 + tick as u64 * 100));
                let had: [bool; LANES] = std::array::from_fn(|lane| lanes.lanes[lane].len > 0);
                let mut out = Vec::new();
                prop_assert_eq!(lanes.take(1, now, &mut out) == 1, had.contains(&true));
                for lane in 0..LANES {
                    let served = out.first().is_some_and(|due| lane_of(due.priority) == lane);
                    passed[lane] = if had[lane] && !served { passed[lane] + 1 } else { 0 };
                    prop_assert!(passed[lane] <= MOST_PASSES, "lane {} was passed over {} times", lane, passed[lane]);
                }
            }
        }

        /// Nothing is lost, nothing doubled, and a lane keeps its order.
        #[test]
        fn gives_each_task_once(ops in prop::collection::vec((0..60u64, 0..10u8, 0..4u8), 1..300)) {
            let (mut lanes, mut model) = (Lanes::new(), Vec::<Due>::new());
            for (number, level, op) in ops {
                match op {
                    0 | 1 => {
                        let due = task(number, level);
                        if !model.contains(&due) {
                            model.retain(|held| held.id != due.id);
                            model.push(due);
                        }
                        lanes.push(due);
                    }
                    2 => {
                        let held = model.iter().any(|held| held.id == task(number, 0).id);
                        model.retain(|held| held.id != task(number, 0).id);
                        prop_assert_eq!(lanes.remove(&task(number, 0).id), held);
                    }
                    _ => for due in take(&mut lanes, usize::from(level)) {
                        let first = model.iter().position(|held| held.priority == due.priority);
                        prop_assert_eq!(first.map(|at| model.remove(at)), Some(due));
                    }
                }
                prop_assert_eq!(lanes.len(), model.len());
            }
        }
    }
}
