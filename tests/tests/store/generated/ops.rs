//! What a sequence asks, before it is known of which task: verbs with numbers that pick.

use ax_core::{KeyMode, Priority};

/// Small and the same everywhere (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize]
    }

    /// Picks one; 255 is what was never there.
    fn pick(&mut self) -> u8 {
        if self.chance(3) {
            255
        } else {
            self.below(200) as u8
        }
    }

    fn picks(&mut self, most: u64) -> Vec<u8> {
        (0..=self.below(most)).map(|_| self.pick()).collect()
    }
}

/// When something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    Due,
    Later,
}

/// How long a task may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    None,
    Passed,
    Far,
}

/// How long a key holds beyond its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    None,
    Over,
    Long,
}

/// A row to submit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) job: usize,
    pub(super) key: Option<(usize, KeyMode, Period)>,
    pub(super) time: Time,
    pub(super) deadline: Deadline,
    pub(super) large: bool,
    pub(super) tags: u8,
    pub(super) level: u8,
    pub(super) lost_for_good: bool,
    /// Not a new row, but one that was sent before.
    pub(super) again: Option<u8>,
}

/// Who sends rows with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Verb,
    Committed,
    RolledBack,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Succeeded,
    Failed,
    Canceled,
    CanceledSaying,
    Retry(Time),
    TimedOut,
    Snooze(Time),
    Wait,
    Release,
}

/// One verb.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Submit(Vec<Spec>, Option<usize>),
    Keyed(Vec<Spec>, Via),
    Claim(usize, Vec<u8>),
    ClaimAgain(u8),
    Claimed(u8),
    Settle(Vec<(u8, Ends)>),
    Watch(Vec<u8>),
    Lose(Vec<u8>),
    Bury(usize),
    Cancel(u8, bool),
    Reschedule(u8, Time),
    SetPriority(u8, u8),
    Rerun(u8, Time),
    Expire(Vec<u8>),
    MoveShard(Vec<u8>, i64, i64),
}

pub(super) fn priority(level: u8) -> Priority {
    Priority::new(level).expect("a level from 0 to 9")
}

pub(super) fn sequence(seed: u64, steps: usize) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    (0..steps).map(|_| op(&mut rng)).collect()
}

fn op(rng: &mut Rng) -> Op {
    match rng.below(100) {
        0..10 => {
            let born = rng.chance(40).then(|| rng.below(2) as usize);
            Op::Submit(specs(rng), born)
        }
        10..28 => {
            let via = rng.of(&[
                Via::Verb,
                Via::Verb,
                Via::Verb,
                Via::Committed,
                Via::RolledBack,
            ]);
            Op::Keyed(specs(rng), via)
        }
        28..46 => Op::Claim(rng.below(2) as usize, rng.picks(6)),
        46..48 => Op::ClaimAgain(rng.pick()),
        48..50 => Op::Claimed(rng.pick()),
        50..66 => {
            let picks = (0..=rng.below(4))
                .map(|_| (rng.pick(), ends(rng)))
                .collect();
            Op::Settle(picks)
        }
        66..68 => Op::Watch(rng.picks(6)),
        68..73 => Op::Lose(rng.picks(6)),
        73..77 => Op::Bury(rng.below(2) as usize),
        77..84 => Op::Cancel(rng.pick(), rng.chance(50)),
        84..87 => Op::Reschedule(rng.pick(), time(rng)),
        87..89 => Op::SetPriority(rng.pick(), rng.below(10) as u8),
        89..95 => Op::Rerun(rng.pick(), time(rng)),
        95..98 => Op::Expire(rng.picks(8)),
        _ => Op::MoveShard(rng.picks(6), rng.of(&[3, 7, 1_030]), rng.of(&[3, 7, 1_030])),
    }
}

fn time(rng: &mut Rng) -> Time {
    if rng.chance(75) {
        Time::Due
    } else {
        Time::Later
    }
}

fn ends(rng: &mut Rng) -> Ends {
    let later = time(rng);
    rng.of(&[
        Ends::Succeeded,
        Ends::Succeeded,
        Ends::Failed,
        Ends::Failed,
        Ends::Canceled,
        Ends::CanceledSaying,
        Ends::Retry(later),
        Ends::Retry(later),
        Ends::TimedOut,
        Ends::Snooze(later),
        Ends::Wait,
        Ends::Release,
    ])
}

fn specs(rng: &mut Rng) -> Vec<Spec> {
    (0..=rng.below(4)).map(|_| spec(rng)).collect()
}

fn spec(rng: &mut Rng) -> Spec {
    let modes = [
        KeyMode::Reject,
        KeyMode::ReturnExisting,
        KeyMode::Replace,
        KeyMode::Replace,
    ];
    let periods = [Period::None, Period::None, Period::Over, Period::Long];
    let key = (rng.below(4) as usize, rng.of(&modes), rng.of(&periods));
    Spec {
        job: rng.below(3) as usize,
        key: rng.chance(80).then_some(key),
        time: time(rng),
        deadline: rng.of(&[
            Deadline::None,
            Deadline::None,
            Deadline::None,
            Deadline::Far,
            Deadline::Passed,
        ]),
        large: rng.chance(10),
        tags: rng.below(3) as u8,
        level: rng.below(10) as u8,
        lost_for_good: rng.chance(15),
        again: rng.chance(20).then(|| rng.pick()),
    }
}
