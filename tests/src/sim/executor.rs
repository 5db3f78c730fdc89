//! The one thread of a simulated world: futures of several processes, virtual time, and power over both.
//!
//! Enters: futures, each at a [`Place`] (a process, and its loops or its heartbeat). Leaves: their effects, in an order that
//! the seed draws. Among futures that could go on, chance picks the next; when none can, time jumps to the next timer. A
//! place can be frozen (its futures are not polled while time passes, as under SIGSTOP) and a process can be killed (its
//! futures are dropped at once, as under SIGKILL). Nothing here knows a database.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::dice::Dice;

/// A future that runs in the world.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A process of the world; each start has a number of its own. 0 is the world itself, which nobody freezes or kills.
pub(crate) type Process = u32;

/// The world: database server, workload, faults.
pub(crate) const WORLD: Process = 0;

/// Polls without any passing of time after which the world is taken to run in a circle.
const MOST_POLLS_AT_ONCE: u64 = 2_000_000;

/// Which threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Loops and handlers.
    Loops,
    /// The heartbeat's own thread.
    Heartbeat,
}

/// Where a future runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) process: Process,
    pub(crate) part: Part,
}

impl Place {
    pub(crate) const fn loops(process: Process) -> Place {
        Place {
            process,
            part: Part::Loops,
        }
    }

    pub(crate) const fn heartbeat(process: Process) -> Place {
        Place {
            process,
            part: Part::Heartbeat,
        }
    }
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Executor(Arc<Inner>);

struct Inner {
    micros: AtomicI64,
    halted: AtomicBool,
    ready: Arc<Mutex<Vec<Ready>>>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct Ready {
    slot: usize,
    generation: u64,
}

struct State {
    slots: Vec<Slot>,
    free: Vec<usize>,
    timers: BTreeMap<(i64, u64), Waker>,
    serial: u64,
    frozen: BTreeMap<Place, Vec<Ready>>,
    dead: Vec<Process>,
    kills: Vec<Process>,
    closed: bool,
    dice: Dice,
}

struct Slot {
    generation: u64,
    place: Place,
    future: Option<Work>,
    waker: Option<Arc<Bell>>,
}

/// Wakes one future; rung twice it counts once.
struct Bell {
    ready: Arc<Mutex<Vec<Ready>>>,
    whom: Ready,
    rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::Relaxed) {
            lock(&self.ready).push(self.whom);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    /// An empty world at time 0.
    pub(crate) fn new(dice: Dice) -> Executor {
        let state = State {
            slots: Vec::new(),
            free: Vec::new(),
            timers: BTreeMap::new(),
            serial: 0,
            frozen: BTreeMap::new(),
            dead: Vec::new(),
            kills: Vec::new(),
            closed: false,
            dice,
        };
        Executor(Arc::new(Inner {
            micros: AtomicI64::new(0),
            halted: AtomicBool::new(false),
            ready: Arc::default(),
            state: Mutex::new(state),
        }))
    }

    /// Microseconds since the world began.
    pub(crate) fn micros(&self) -> i64 {
        self.0.micros.load(Ordering::Relaxed)
    }

    /// Ends [`Executor::run`] before the next poll.
    pub(crate) fn halt(&self) {
        self.0.halted.store(true, Ordering::Relaxed);
    }

    /// Whether the world was told to end.
    pub(crate) fn is_halted(&self) -> bool {
        self.0.halted.load(Ordering::Relaxed)
    }

    /// Adds a future; of a killed process it is dropped at once.
    pub(crate) fn spawn(&self, place: Place, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(place, Box::pin(future));
    }

    /// As [`Executor::spawn`].
    pub(crate) fn spawn_boxed(&self, place: Place, future: Work) {
        let mut state = lock(&self.0.state);
        if state.closed
            || state.dead.contains(&place.process)
            || state.kills.contains(&place.process)
        {
            drop(state);
            drop(future);
            return;
        }
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot {
                generation: 0,
                place,
                future: None,
                waker: None,
            });
            state.slots.len() - 1
        });
        let entry = &mut state.slots[slot];
        let whom = Ready {
            slot,
            generation: entry.generation,
        };
        entry.place = place;
        entry.future = Some(future);
        entry.waker = Some(Arc::new(Bell {
            ready: self.0.ready.clone(),
            whom,
            rung: AtomicBool::new(true),
        }));
        drop(state);
        lock(&self.0.ready).push(whom);
    }

    /// Completes after `span` of virtual time.
    pub(crate) fn sleep(&self, span: Duration) -> Sleep {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        self.sleep_until(self.micros().saturating_add(micros))
    }

    /// Completes at an instant.
    pub(crate) fn sleep_until(&self, at: i64) -> Sleep {
        Sleep {
            world: self.clone(),
            at,
            timer: None,
        }
    }

    /// The futures of a place are not polled until [`Executor::thaw`].
    pub(crate) fn freeze(&self, place: Place) {
        lock(&self.0.state).frozen.entry(place).or_default();
    }

    /// The futures of a place go on.
    pub(crate) fn thaw(&self, place: Place) {
        let kept = lock(&self.0.state)
            .frozen
            .remove(&place)
            .unwrap_or_default();
        lock(&self.0.ready).extend(kept);
    }

    /// Drops every future of a process before the next poll. May be called from inside it.
    pub(crate) fn kill(&self, process: Process) {
        lock(&self.0.state).kills.push(process);
    }

    /// Whether a process is killed, or about to be.
    pub(crate) fn is_dead(&self, process: Process) -> bool {
        let state = lock(&self.0.state);
        state.dead.contains(&process) || state.kills.contains(&process)
    }

    /// Runs until halted, or until nothing can ever happen again.
    pub(crate) fn run(&self) {
        let mut polls = 0_u64;
        while !self.is_halted() {
            self.bury();
            match self.next() {
                Some((ready, future, waker)) => {
                    polls += 1;
                    assert!(
                        polls < MOST_POLLS_AT_ONCE,
                        "the world runs in a circle at {} us",
                        self.micros()
                    );
                    self.poll(ready, future, &waker);
                }
                None if self.advance() => polls = 0,
                None => return,
            }
        }
    }

    /// Drops all futures, and all that come after.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        let futures: Vec<_> = state
            .slots
            .iter_mut()
            .map(|slot| (slot.future.take(), slot.waker.take()))
            .collect();
        let timers = std::mem::take(&mut state.timers);
        drop(state);
        drop(futures);
        drop(timers);
    }

    /// The next future to poll, drawn from all that could go on.
    fn next(&self) -> Option<(Ready, Work, Arc<Bell>)> {
        loop {
            let mut state = lock(&self.0.state);
            let mut queue = lock(&self.0.ready);
            if queue.is_empty() {
                return None;
            }
            let at = state.dice.below(queue.len());
            let ready = queue.swap_remove(at);
            drop(queue);
            let slot = &state.slots[ready.slot];
            if slot.generation != ready.generation || slot.future.is_none() {
                continue;
            }
            let place = slot.place;
            if let Some(kept) = state.frozen.get_mut(&place) {
                kept.push(ready);
                continue;
            }
            let slot = &mut state.slots[ready.slot];
            if let (Some(future), Some(bell)) = (slot.future.take(), slot.waker.clone()) {
                bell.rung.store(false, Ordering::Relaxed);
                return Some((ready, future, bell));
            }
        }
    }

    fn poll(&self, ready: Ready, mut future: Work, bell: &Arc<Bell>) {
        let waker = Waker::from(bell.clone());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = lock(&self.0.state);
        if polled.is_pending() && !state.closed {
            state.slots[ready.slot].future = Some(future);
            return;
        }
        state.vacate(ready.slot);
        drop(state);
        drop(future);
    }

    /// Jumps to the next timer and rings all that are due then.
    fn advance(&self) -> bool {
        let mut state = lock(&self.0.state);
        let Some((&(at, _), _)) = state.timers.first_key_value() else {
            return false;
        };
        self.0.micros.fetch_max(at, Ordering::Relaxed);
        let later = state.timers.split_off(&(at, u64::MAX));
        let due = std::mem::replace(&mut state.timers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
        true
    }

    /// Drops the futures of killed processes.
    fn bury(&self) {
        loop {
            let mut state = lock(&self.0.state);
            let Some(process) = state.kills.pop() else {
                return;
            };
            state.dead.push(process);
            state.frozen.retain(|place, _| place.process != process);
            let mut dropped = Vec::new();
            for slot in 0..state.slots.len() {
                if state.slots[slot].place.process == process
                    && let Some(future) = state.slots[slot].future.take()
                {
                    dropped.push(future);
                    state.vacate(slot);
                }
            }
            drop(state);
            drop(dropped);
        }
    }
}

impl State {
    fn vacate(&mut self, slot: usize) {
        self.slots[slot].generation += 1;
        self.slots[slot].waker = None;
        self.free.push(slot);
    }
}

/// A span of virtual time; see [`Executor::sleep`].
pub(crate) struct Sleep {
    world: Executor,
    at: i64,
    timer: Option<(i64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.micros() >= self.at {
            return Poll::Ready(());
        }
        let world = self.world.clone();
        let mut state = lock(&world.0.state);
        let timer = self.timer.unwrap_or_else(|| {
            state.serial += 1;
            (self.at, state.serial)
        });
        state.timers.insert(timer, context.waker().clone());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let waker = lock(&self.world.0.state).timers.remove(&timer);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(seed: u64) -> Executor {
        Executor::new(Dice::new(seed, 0))
    }

    fn note(
        world: &Executor,
        place: Place,
        log: &Arc<Mutex<Vec<(i64, u32)>>>,
        after: u64,
        name: u32,
    ) {
        let (clock, log) = (world.clone(), log.clone());
        // The time is fixed here, also where the place is frozen before its first turn.
        let sleep = world.sleep(Duration::from_millis(after));
        world.spawn(place, async move {
            sleep.await;
            lock(&log).push((clock.micros() / 1_000, name));
        });
    }

    #[test]
    fn time_jumps_and_a_frozen_place_goes_on_late() {
        let (world, log) = (world(1), Arc::default());
        note(&world, Place::loops(1), &log, 10, 1);
        note(&world, Place::heartbeat(1), &log, 20, 2);
        world.freeze(Place::loops(1));
        let chaos = world.clone();
        world.spawn(Place::loops(WORLD), async move {
            chaos.sleep(Duration::from_secs(3_600)).await;
            chaos.thaw(Place::loops(1));
        });
        world.run();
        assert_eq!(*lock(&log), [(20, 2), (3_600_000, 1)]);
    }

    #[test]
    fn a_killed_process_ends_at_once_and_starts_nothing() {
        let (world, log) = (world(1), Arc::default());
        note(&world, Place::loops(7), &log, 10, 1);
        note(&world, Place::loops(8), &log, 10, 2);
        world.kill(7);
        note(&world, Place::loops(7), &log, 0, 3);
        world.run();
        assert_eq!(*lock(&log), [(10, 2)]);
    }

    #[test]
    fn the_seed_draws_the_order() {
        let order = |seed| {
            let (world, log) = (world(seed), Arc::default());
            (0..8).for_each(|name| note(&world, Place::loops(1), &log, 5, name));
            world.run();
            lock(&log).clone()
        };
        assert_eq!(order(1), order(1));
        assert!((2..9).any(|seed| order(seed) != order(1)));
    }
}
