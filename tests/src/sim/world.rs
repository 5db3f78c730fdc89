//! A whole world: nodes on one database, made from a seed, lived through, healed, and judged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ax_engine::client::Client;
use ax_engine::config::{Config, Ownership};
use ax_engine::engine::{Engine, EngineParts, Migrate};
use ax_engine::job::States;
use ax_engine::node::World as Outside;
use ax_engine::observer::ObserverRule;
use ax_engine::random::Random;
use tokio_util::sync::CancellationToken;

use super::book::{Book, Finale};
use super::chaos;
use super::check::{Check, Violation};
use super::database::SimDatabase;
use super::dice::Dice;
use super::executor::{Executor, Place, Process, WORLD};
use super::jobs::{Probe, registry};
use super::mutation::Mutation;
use super::network::Network;
use super::outside::{SimClock, SimSpawn};
use super::server::{Pace, Server};
use super::trace::Trace;
use super::weather::Weather;
use super::workload;

/// The time that nodes have to settle after all faults are over: death and takeover of whoever was lost.
const SETTLING: Duration = Duration::from_secs(12);
/// The time by which everything must have ended after that.
const ENDING: Duration = Duration::from_secs(150);

/// Which world to live through.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What everything is drawn from.
    pub seed: u64,
    /// A fault to put in.
    pub mutation: Option<Mutation>,
    /// How many of the last events the report tells.
    pub events: usize,
}

/// What became of a world.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// One number for everything that happened.
    pub hash: u64,
    /// How many events happened.
    pub events: u64,
    /// How many tasks there were.
    pub tasks: usize,
    /// How many handlers started.
    pub starts: usize,
    /// Virtual time lived through.
    pub lived: Duration,
    /// How often each kind of thing happened: statements that touched rows, errors, faults, ends of handlers.
    pub seen: BTreeMap<String, u64>,
    /// The last events, one a line.
    pub trace: String,
}

/// What the parts of a world share.
pub(crate) struct World {
    pub(crate) executor: Executor,
    pub(crate) network: Arc<Network>,
    pub(crate) server: Arc<Server>,
    pub(crate) book: Arc<Book>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) plan: Plan,
    seats: Mutex<Vec<Seat>>,
    processes: Mutex<Process>,
    dice: Mutex<Dice>,
}

/// What a seed decides at the begin.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seats: usize,
    pub(crate) config: Config,
    pub(crate) weather: Weather,
    pub(crate) trouble: Duration,
    pub(crate) drift: bool,
}

/// A place in the cluster: at most one process at a time.
#[derive(Clone, Default)]
struct Seat {
    process: Process,
    client: Option<Client>,
    stop: CancellationToken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plan {
    fn drawn(dice: &mut Dice, mutation: Option<Mutation>) -> Plan {
        let seats = 2 + dice.below(2);
        let mut config = Config {
            lease: Duration::from_secs(4),
            beat: Duration::from_secs(1),
            async_slots: 2 + dice.below(6),
            blocking_slots: 1 + dice.below(2),
            read_ahead: dice.below(4),
            batch: [1, 3, 16, 256][dice.below(4)],
            poll_min: Duration::from_millis([10, 100][dice.below(2)]),
            preload: Duration::from_secs([5, 300][dice.below(2)]),
            recheck: Duration::from_secs([3, 10][dice.below(2)]),
            timeout: Duration::from_secs(4),
            grace: Duration::from_millis(500),
            shutdown: Duration::from_secs(3),
            misfire_after: Duration::from_secs(5),
            ..Config::default()
        };
        if dice.chance(0.2) {
            config.ownership = Ownership::Everyone;
        }
        if mutation == Some(Mutation::ObserverKillsAfterOutage) {
            let rule = ObserverRule {
                same_beat_for: Duration::ZERO,
                quiet_after_outage: Duration::ZERO,
                longest_gap: Duration::MAX,
            };
            config.observer = Some(rule);
        }
        let weather = Weather::drawn(dice);
        let trouble = Duration::from_secs(12 + dice.below(24) as u64);
        Plan {
            seats,
            config,
            weather,
            trouble,
            drift: dice.chance(0.5),
        }
    }
}

/// Lives through a world.
pub fn run(options: Options) -> Report {
    let Options {
        seed,
        mutation,
        events,
    } = options;
    let executor = Executor::new(Dice::new(seed, 1));
    let trace = Arc::new(Trace::new(events));
    let plan = Plan::drawn(&mut Dice::new(seed, 2), mutation);
    let lease = i64::try_from(plan.config.lease.as_millis()).unwrap_or(0);
    let book = Book::new(executor.clone(), trace.clone(), lease);
    let pace = Pace::World(executor.clone());
    let server = Arc::new(Server::new(
        pace,
        Dice::new(seed, 3),
        mutation,
        Some(book.clone()),
    ));
    let network = Network::new(server.clone(), trace.clone(), Some(book.clone()));
    let seats = Mutex::new(vec![Seat::default(); plan.seats]);
    let dice = Mutex::new(Dice::new(seed, 4));
    let world = Arc::new(World {
        executor: executor.clone(),
        network,
        server,
        book: book.clone(),
        trace: trace.clone(),
        plan,
        seats,
        processes: Mutex::new(WORLD),
        dice,
    });
    executor.spawn(Place::loops(WORLD), live(world.clone(), seed));
    executor.run();
    executor.close();
    lock(&world.seats).clear();
    let (tasks, starts) = book.count();
    Report {
        seed,
        violation: book.violation(),
        hash: trace.hash(),
        events: trace.count(),
        tasks,
        starts,
        lived: Duration::from_micros(u64::try_from(executor.micros()).unwrap_or(0)),
        seen: trace.seen(),
        trace: trace.lines(),
    }
}

/// The life of a world: trouble, then calm, then the last look.
async fn live(world: Arc<World>, seed: u64) {
    for seat in 0..world.plan.seats {
        world.start(seat);
    }
    world.executor.sleep(Duration::from_millis(500)).await;
    world.network.set_weather(world.plan.weather.clone());
    let trouble = CancellationToken::new();
    let loops = Place::loops(WORLD);
    world.executor.spawn(
        loops,
        chaos::run(world.clone(), Dice::new(seed, 5), trouble.clone()),
    );
    world.executor.spawn(
        loops,
        workload::run(world.clone(), Dice::new(seed, 6), trouble.clone()),
    );
    world.executor.sleep(world.plan.trouble).await;
    trouble.cancel();
    world.heal();
    world.executor.spawn(loops, keep_up(world.clone()));
    world.executor.sleep(SETTLING).await;
    if ended(&world).await {
        world.book.all_is_well(world.server.now());
        workload::probe(&world, &mut Dice::new(seed, 7)).await;
        ended(&world).await;
    }
    world
        .book
        .finale(&world.server.tables(), world.server.now());
    world.executor.halt();
}

/// Starts anew what a handler has killed.
async fn keep_up(world: Arc<World>) {
    loop {
        world.executor.sleep(Duration::from_millis(700)).await;
        for seat in (0..world.plan.seats).filter(|seat| world.process(*seat).is_none()) {
            world.start(seat);
        }
    }
}

/// Waits until no task is live; whether that came in time.
async fn ended(world: &World) -> bool {
    let end = world.executor.micros() + i64::try_from(ENDING.as_micros()).unwrap_or(0);
    while Finale::of(&world.server.tables(), world.server.now()).live > 0 {
        if world.executor.micros() > end {
            return false;
        }
        world.executor.sleep(Duration::from_millis(500)).await;
    }
    true
}

impl World {
    /// The process at a seat, if one runs.
    pub(crate) fn process(&self, seat: usize) -> Option<Process> {
        let process = lock(&self.seats)[seat].process;
        (process != WORLD && !self.executor.is_dead(process)).then_some(process)
    }

    /// A way into the engine at a seat, with its process.
    pub(crate) fn client(&self, seat: usize) -> Option<(Process, Client)> {
        let process = self.process(seat)?;
        let client = lock(&self.seats)[seat].client.clone()?;
        Some((process, client))
    }

    /// Starts a process at a free seat.
    pub(crate) fn start(self: &Arc<Self>, seat: usize) {
        let process = {
            let mut processes = lock(&self.processes);
            *processes += 1;
            *processes
        };
        let stop = CancellationToken::new();
        lock(&self.seats)[seat] = Seat {
            process,
            client: None,
            stop: stop.clone(),
        };
        self.book.process_starts(process);
        self.executor.spawn(
            Place::loops(process),
            serve(self.clone(), seat, process, stop),
        );
    }

    /// Kills the process at a seat.
    pub(crate) fn kill(&self, seat: usize) {
        if let Some(process) = self.process(seat) {
            self.book.process_ends(process);
            self.executor.kill(process);
        }
        lock(&self.seats)[seat] = Seat::default();
    }

    /// Asks the engine at a seat to shut down.
    pub(crate) fn stop(&self, seat: usize) {
        let Seat { process, stop, .. } = lock(&self.seats)[seat].clone();
        self.book.process_leaves(process);
        stop.cancel();
    }

    /// All faults end.
    fn heal(self: &Arc<Self>) {
        self.network.set_weather(Weather::calm());
        self.network.up();
        for seat in 0..self.plan.seats {
            match self.process(seat) {
                Some(process) => chaos::thaw(self, process),
                None => self.start(seat),
            }
        }
    }

    fn parts(&self, seat: usize, process: Process) -> EngineParts {
        let (seed, began, drift) = {
            let mut dice = lock(&self.dice);
            let drift = if self.plan.drift {
                dice.between(-150, 150)
            } else {
                0
            };
            (dice.number(), dice.between(1, 1_000_000_000_000), drift)
        };
        let mut states = States::new();
        let probe = Probe {
            process,
            executor: self.executor.clone(),
            book: self.book.clone(),
        };
        states.insert(probe);
        EngineParts {
            config: self.plan.config.clone(),
            database: Arc::new(SimDatabase {
                network: self.network.clone(),
                process,
            }),
            registry: registry(seat == 0),
            states,
            world: Outside {
                clock: Arc::new(SimClock {
                    executor: self.executor.clone(),
                    began,
                    drift,
                }),
                random: Arc::new(Random::from_seed(seed)),
                spawn: Arc::new(SimSpawn {
                    executor: self.executor.clone(),
                    process,
                }),
            },
            migrate: Migrate::Auto,
            file: None,
        }
    }
}

/// The main function of a process.
async fn serve(world: Arc<World>, seat: usize, process: Process, stop: CancellationToken) {
    let engine = loop {
        let error = match Engine::start(world.parts(seat, process)).await {
            Ok(engine) => break engine,
            Err(error) => error,
        };
        if matches!(
            error.kind(),
            ax_core::ErrorKind::Invalid | ax_core::ErrorKind::Schema
        ) {
            let mut pages = world.book.pages();
            return world.book.broken(
                &mut pages,
                Check::Ends,
                format!("p{process} cannot start: {error}"),
            );
        }
        world
            .book
            .told(process, 0, format!("start failed: {error}"));
        world.executor.sleep(Duration::from_millis(500)).await;
        if stop.is_cancelled() {
            return world.kill(seat);
        }
    };
    world.book.process_is_steady(process);
    lock(&world.seats)[seat].client = Some(engine.client().clone());
    stop.cancelled().await;
    engine.shutdown().await;
    world.kill(seat);
}
