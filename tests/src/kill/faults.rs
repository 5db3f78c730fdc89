//! When what goes wrong, and makes it so.
//!
//! What enters: how many faults of each kind, a seed, the workers and the proxy. What leaves: workers killed and paused,
//! connections cut, and a count of what was done. The plan is drawn before the run, so a seed gives the same plan.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use super::proxy::{Cut, Proxy};

/// How many faults, over what time.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Workers killed.
    pub kills: u32,
    /// Workers paused: for a half, one and three leases in turn.
    pub pauses: u32,
    /// Connections cut after a commit was forwarded; half as many more are cut before.
    pub cuts: u32,
    /// The time in which all this happens.
    pub span: Duration,
    /// The lease of the workers.
    pub lease: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Kill,
    Pause(Duration),
    Resume(usize),
    Cut { cut: Cut, skip: u32 },
    LookAfter,
}

/// Kills and pauses that were done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Workers killed.
    pub kills: u64,
    /// Workers paused and let go on.
    pub pauses: u64,
}

/// How often workers are looked after, and how soon a fault is tried again that found no victim.
const AGAIN: Duration = Duration::from_millis(200);

fn draw_plan(wanted: &Wanted, chance: &mut Xoshiro256PlusPlus) -> Vec<(Duration, Fault)> {
    let mut plan = Vec::new();
    let mut spread =
        |n: u32,
         chance: &mut Xoshiro256PlusPlus,
         fault: &mut dyn FnMut(u32, &mut Xoshiro256PlusPlus) -> Fault| {
            for place in 0..n {
                let share = (f64::from(place) + chance.random::<f64>()) / f64::from(n);
                plan.push((wanted.span.mul_f64(share), fault(place, chance)));
            }
        };
    spread(wanted.kills, chance, &mut |_, _| Fault::Kill);
    spread(wanted.pauses, chance, &mut |place, _| {
        Fault::Pause(wanted.lease.mul_f64([0.5, 1.0, 3.0][place as usize % 3]))
    });
    spread(wanted.cuts, chance, &mut |_, chance| {
        let cut = if chance.random_bool(0.5) {
            Cut::AfterReply
        } else {
            Cut::AtOnce
        };
        Fault::Cut {
            cut,
            skip: chance.random_range(0..6),
        }
    });
    spread(wanted.cuts / 2, chance, &mut |_, chance| Fault::Cut {
        cut: Cut::Withheld,
        skip: chance.random_range(0..6),
    });
    plan
}

/// The faults still to come, by their time.
struct Agenda {
    faults: BTreeMap<(Instant, u64), Fault>,
    number: u64,
}

impl Agenda {
    fn add(&mut self, at: Instant, fault: Fault) {
        self.number += 1;
        self.faults.insert((at, self.number), fault);
    }
}

/// Does all that is wanted; every paused worker goes on before this returns.
///
/// # Errors
///
/// When a process cannot be signaled or started, or the run is to stop.
pub async fn run(
    wanted: &Wanted,
    fleet: &mut Fleet,
    proxy: Option<&Proxy>,
    seed: u64,
    stop: &CancellationToken,
) -> anyhow::Result<Done> {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let begin = Instant::now();
    let mut agenda = Agenda {
        faults: BTreeMap::new(),
        number: 0,
    };
    for (at, fault) in draw_plan(wanted, &mut chance) {
        agenda.add(begin + at, fault);
    }
    agenda.add(begin + AGAIN, Fault::LookAfter);
    let mut storm = Storm {
        fleet,
        proxy,
        chance,
        done: Done::default(),
        end: begin + wanted.span,
    };
    while let Some(((at, _), fault)) = agenda.faults.pop_first() {
        anyhow::ensure!(
            timeout_at(at, stop.cancelled()).await.is_err(),
            "the run was interrupted"
        );
        if let Some((at, fault)) = storm.strike(fault).await? {
            agenda.add(at, fault);
        }
    }
    Ok(storm.done)
}

struct Storm<'a> {
    fleet: &'a mut Fleet,
    proxy: Option<&'a Proxy>,
    chance: Xoshiro256PlusPlus,
    done: Done,
    end: Instant,
}

impl Storm<'_> {
    /// Does one thing; says what follows from it.
    async fn strike(&mut self, fault: Fault) -> anyhow::Result<Option<(Instant, Fault)>> {
        let now = Instant::now();
        match fault {
            Fault::LookAfter => {
                self.fleet.look_after()?;
                return Ok((now < self.end).then_some((now + AGAIN, Fault::LookAfter)));
            }
            Fault::Cut { cut, skip } => {
                if let Some(proxy) = self.proxy {
                    proxy.order(cut, skip);
                }
            }
            Fault::Resume(slot) => {
                self.fleet.resume(slot)?;
                self.done.pauses += 1;
            }
            Fault::Kill => match self.victim(1) {
                None => return Ok(Some((now + AGAIN, fault))),
                Some(slot) => {
                    self.fleet.kill(slot).await?;
                    self.done.kills += 1;
                }
            },
            Fault::Pause(span) => match self.victim(2) {
                None => return Ok(Some((now + AGAIN, fault))),
                Some(slot) => {
                    self.fleet.pause(slot)?;
                    return Ok(Some((now + span, Fault::Resume(slot))));
                }
            },
        }
        Ok(None)
    }

    /// A worker that is not paused, when at least `awake` are not.
    fn victim(&mut self, awake: usize) -> Option<usize> {
        let slots = self.fleet.awake();
        (slots.len() >= awake).then(|| slots[self.chance.random_range(0..slots.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Vec<(Duration, Fault)> {
        let lease = Duration::from_secs(2);
        let wanted = Wanted {
            kills: 10,
            pauses: 6,
            cuts: 20,
            span: Duration::from_secs(10),
            lease,
        };
        draw_plan(&wanted, &mut Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    #[test]
    fn a_seed_gives_one_plan_with_all_that_is_wanted() {
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
        let count = |matches: fn(&Fault) -> bool| {
            plan(7).iter().filter(|(_, fault)| matches(fault)).count()
        };
        assert_eq!(count(|fault| *fault == Fault::Kill), 10);
        for span in [1, 2, 6].map(Duration::from_secs) {
            assert_eq!(
                plan(7)
                    .iter()
                    .filter(|(_, fault)| *fault == Fault::Pause(span))
                    .count(),
                2
            );
        }
        assert_eq!(
            count(|fault| matches!(
                fault,
                Fault::Cut {
                    cut: Cut::Withheld,
                    ..
                }
            )),
            10
        );
        assert_eq!(count(|fault| matches!(fault, Fault::Cut { .. })), 30);
        assert!(plan(7).iter().all(|(at, _)| *at < Duration::from_secs(10)));
    }
}
