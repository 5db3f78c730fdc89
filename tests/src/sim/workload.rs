//! What callers do: submits of every kind, sent again after errors, cancels, reschedules, reruns, waits for outcomes.
//!
//! A caller lives in the process whose engine it asks, and dies with it.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{
    ErrorKind, JobName, Key, KeyMode, NewTask, OnLost, Outcome, Priority, State, TaskId, Timestamp,
    When,
};
use ax_engine::client::Client;
use ax_engine::db::Lane;
use ax_engine::submit::Submitted;
use tokio_util::sync::CancellationToken;

use super::book::{Book, FIRST_PROBE};
use super::dice::Dice;
use super::executor::{Place, Process};
use super::jobs::{Act, GRIND, Order, RARE, WORK};
use super::world::World;

/// Keys that tasks contend for.
const KEYS: [&str; 3] = ["red", "green", "blue"];
/// How often a caller sends a submit again.
const TRIES: i64 = 4;
/// What is added to the number of a submit that is sent again.
const AGAIN: i64 = 1_000_000;

/// Asks until told to stop.
pub(crate) async fn run(world: Arc<World>, mut dice: Dice, stop: CancellationToken) {
    let long = [0.05, 0.4][dice.below(2)];
    let busy = 150 + dice.between(0, 600);
    let mut n = 0;
    while !stop.is_cancelled() {
        world.executor.sleep(dice.millis(0, busy)).await;
        let seat = dice.below(world.plan.seats);
        let Some((process, client)) = world.client(seat) else {
            continue;
        };
        let caller = Caller {
            world: world.clone(),
            process,
            client,
        };
        if dice.chance(0.75) {
            n += 1;
            let task = task(&mut dice, n, long);
            let waits = dice.chance(0.1);
            if dice.chance(0.1) {
                let commits = dice.chance(0.6);
                world.executor.spawn(
                    Place::loops(process),
                    caller.submit_in_transaction(n, task, commits),
                );
            } else {
                world
                    .executor
                    .spawn(Place::loops(process), caller.submit(n, task, waits));
            }
        } else {
            meddle(&world, &mut dice, caller);
        }
    }
}

/// Submits that must be punctual, once all is well.
pub(crate) async fn probe(world: &Arc<World>, dice: &mut Dice) {
    for n in 0..12 {
        let seat = dice.below(world.plan.seats);
        let Some((process, client)) = world.client(seat) else {
            continue;
        };
        let caller = Caller {
            world: world.clone(),
            process,
            client,
        };
        let order = Order {
            n: FIRST_PROBE + n,
            act: Act::Succeed,
            ms: 50,
            ballast: String::new(),
        };
        let mut task = NewTask::new(
            name(WORK),
            serde_json::to_string(&order).expect("an order is JSON"),
        );
        task.when = When::After(dice.millis(0, 5_000));
        task.route_key = dice.chance(0.5).then(|| format!("route-{n}"));
        world
            .executor
            .spawn(Place::loops(process), caller.submit(order.n, task, true));
        world.executor.sleep(dice.millis(0, 500)).await;
    }
}

fn name(job: &str) -> JobName {
    JobName::new(job).expect("a name of the simulation")
}

/// One task of any kind; `long` is the share of those that take seconds.
fn task(dice: &mut Dice, n: i64, long: f64) -> NewTask {
    let act = match dice.below(20) {
        0..8 => Act::Succeed,
        8..11 => Act::Fail(1 + dice.below(4) as u32),
        11 => Act::Refuse,
        12 => Act::Panic(1),
        13 => Act::Snooze(dice.between(1, 5_000) as u64),
        14 => Act::Overrun,
        15..17 => Act::Obey,
        17 if dice.chance(0.3) => Act::Abort(1 + dice.below(3) as u32),
        _ => Act::Succeed,
    };
    let most = if dice.chance(long) { 3_900 } else { 300 };
    let ms = dice.between(0, most) as u64;
    let job = match dice.below(10) {
        0 if !matches!(act, Act::Abort(_)) => GRIND,
        1 => RARE,
        _ => WORK,
    };
    let ballast = if dice.chance(0.05) {
        "x".repeat(6_000)
    } else {
        String::new()
    };
    let order = Order {
        n,
        act,
        ms,
        ballast,
    };
    let mut task = NewTask::new(
        name(job),
        serde_json::to_string(&order).expect("an order is JSON"),
    );
    options(dice, &mut task);
    task
}

fn options(dice: &mut Dice, task: &mut NewTask) {
    task.when = match dice.below(4) {
        0 | 1 => When::Now,
        2 => When::After(dice.millis(0, 3_000)),
        _ => When::After(dice.millis(0, 20_000)),
    };
    task.priority = Priority::new(dice.below(10) as u8).unwrap_or_default();
    if dice.chance(0.25) {
        let mode = [KeyMode::Reject, KeyMode::ReturnExisting, KeyMode::Replace][dice.below(3)];
        let period = dice.chance(0.3).then(|| dice.millis(100, 5_000));
        task.key = Some(Key {
            text: KEYS[dice.below(KEYS.len())].to_owned(),
            mode,
            period,
        });
    }
    if dice.chance(0.15) {
        task.deadline = Some(When::After(dice.millis(50, 6_000)));
    }
    if dice.chance(0.15) {
        task.on_lost = OnLost::Fail;
    }
    if dice.chance(0.1) {
        task.tags = vec!["tagged".to_owned()];
    }
    if dice.chance(0.2) {
        task.max_retries = Some(dice.below(3) as u32);
    }
    if dice.chance(0.1) {
        task.timeout = Some(dice.millis(300, 2_000));
    }
    if dice.chance(0.1) {
        task.route_key = Some(format!("route-{}", dice.below(5)));
    }
}

/// Changes a task that exists.
fn meddle(world: &Arc<World>, dice: &mut Dice, caller: Caller) {
    let known = world.book.known_tasks();
    // Ids grow with time: the last ones are those that are still under way, mostly.
    let recent = &known[known.len().saturating_sub(12)..];
    let Some(task) = dice.pick(recent).map(|id| TaskId::from_bytes(*id)) else {
        return;
    };
    let place = Place::loops(caller.process);
    match dice.below(9) {
        8 => world.executor.spawn(place, caller.find(task)),
        0..4 => world.executor.spawn(place, caller.cancel(task)),
        4 | 5 => {
            let after = dice.millis(0, 5_000);
            world.executor.spawn(place, caller.reschedule(task, after));
        }
        6 => {
            let priority = Priority::new(dice.below(10) as u8).unwrap_or_default();
            world
                .executor
                .spawn(place, caller.set_priority(task, priority));
        }
        _ => world.executor.spawn(place, caller.rerun(task)),
    }
}

struct Caller {
    world: Arc<World>,
    process: Process,
    client: Client,
}

impl Caller {
    fn book(&self) -> &Book {
        &self.world.book
    }

    /// Submits, and again with the same key after an error. By then the first task may have come and gone, and let go of the
    /// key, so each sending has a number of its own.
    async fn submit(self, first: i64, mut task: NewTask, waits: bool) {
        let keyed = task.key.is_some();
        for sent in 0..TRIES {
            let n = first + sent * AGAIN;
            if sent > 0 {
                let (old, new) = (format!("\"n\":{}", n - AGAIN), format!("\"n\":{n}"));
                task.payload = task.payload.replace(&old, &new);
            }
            self.book().asks(self.process, "submit", n);
            match self.client.submit(task.clone()).await {
                Ok(submitted) => {
                    self.book()
                        .submitted(self.process, n, *submitted.id().as_bytes());
                    if let (Submitted::New(id), true) = (submitted, waits) {
                        self.wait(id).await;
                    }
                    return;
                }
                Err(error) => {
                    self.book().told(self.process, n, error.kind().to_string());
                    // Without a key nobody can tell whether it was made; sending it again may make another task.
                    let again =
                        keyed && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy);
                    if !again {
                        return;
                    }
                }
            }
            self.world.executor.sleep(Duration::from_millis(200)).await;
        }
    }

    /// Submits in a transaction of the caller's own.
    async fn submit_in_transaction(self, n: i64, task: NewTask, commits: bool) {
        self.book().asks(self.process, "submit in a transaction", n);
        let Ok(mut connection) = self.client.node().store.db().acquire(Lane::Write).await else {
            return;
        };
        if connection.begin().await.is_err() {
            return;
        }
        let submitted = self.client.submit_on(&mut *connection, vec![task]).await;
        match submitted {
            Ok(submitted) if commits => {
                if connection.commit().await.is_ok() {
                    submitted.iter().for_each(|one| {
                        self.book().submitted(self.process, n, *one.id().as_bytes())
                    });
                }
            }
            _ => {
                let _gone = connection.rollback().await;
                drop(connection);
                self.book().rolled_back(self.process, n);
            }
        }
    }

    async fn find(self, id: TaskId) {
        if let Ok(found) = self.client.find(id).await {
            self.book()
                .found(self.process, *id.as_bytes(), found.is_some());
        }
    }

    async fn wait(&self, id: TaskId) {
        let Ok(outcome) = self.client.outcome((id, 0)).await else {
            return;
        };
        let state = match outcome {
            Outcome::Succeeded(_) => State::Succeeded,
            Outcome::Failed { .. } => State::Failed,
            Outcome::Canceled => State::Canceled,
            Outcome::Expired => State::Expired,
            Outcome::Skipped => State::Skipped,
            Outcome::UpstreamFailed => State::UpstreamFailed,
        };
        self.book().outcome(self.process, *id.as_bytes(), state);
    }

    async fn cancel(self, id: TaskId) {
        self.book().asks(self.process, "cancel", 0);
        match self.client.cancel(id, Some("no longer wanted")).await {
            Ok(result) => self.book().canceled(self.process, *id.as_bytes(), result),
            Err(error) => self.book().told(self.process, 0, error.kind().to_string()),
        }
    }

    async fn reschedule(self, id: TaskId, after: Duration) {
        self.book().asks(self.process, "reschedule", 0);
        let at = Timestamp::from_millis(self.world.server.now()).plus(after);
        let changed = self.client.reschedule(id, at).await;
        self.book().told(
            self.process,
            0,
            format!("reschedule {:?}", changed.map_err(|e| e.kind())),
        );
    }

    async fn set_priority(self, id: TaskId, priority: Priority) {
        let changed = self.client.set_priority(id, priority).await;
        self.book().told(
            self.process,
            0,
            format!("priority {:?}", changed.map_err(|e| e.kind())),
        );
    }

    async fn rerun(self, id: TaskId) {
        self.book().asks(self.process, "rerun", 0);
        let changed = self.client.rerun(id).await;
        self.book().told(
            self.process,
            0,
            format!("rerun {:?}", changed.map_err(|e| e.kind())),
        );
    }
}
