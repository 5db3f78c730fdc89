//! Submits tasks of all kinds in all ways, and writes down what it asked and what it was told.
//!
//! What enters: a running engine and a rate. What leaves: tasks in the database and lines in the ledger. Runs in every
//! worker and in the harness itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ax_sdk::{Ax, Error, Handle, JobName, NewTask, Submission, hours};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::ledger::{Ledger, Line};

/// The jobs of the workers, and how often each comes.
const JOBS: &[(&str, u32)] = &[
    ("kill.noop", 47),
    ("kill.nap", 15),
    ("kill.deaf", 8),
    ("kill.flaky", 10),
    ("kill.snooze", 8),
    ("kill.panic", 5),
    ("kill.block", 5),
    ("kill.hopeless", 2),
];

/// The ways to submit, and how often each comes.
const WAYS: &[(Way, u32)] = &[
    (Way::Single, 68),
    (Way::Many, 10),
    (Way::Committed, 10),
    (Way::RolledBack, 3),
    (Way::Shared, 9),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Single,
    Many,
    /// In a transaction of the submitter's own.
    Committed,
    RolledBack,
    /// Under a key that other processes use at the same time.
    Shared,
}

/// Submits under way at most; more would only wait for each other.
const UNDER_WAY: usize = 64;

/// Who submits.
#[derive(Debug, Clone)]
pub struct Submitter {
    /// The engine.
    pub ax: Ax,
    /// Where it writes down what it did.
    pub ledger: Ledger,
    /// Names this process in labels.
    pub name: String,
    /// Chooses jobs and ways.
    pub seed: u64,
    /// Tasks in a second.
    pub rate: f64,
}

impl Submitter {
    /// Submits until told to stop; returns when every submit under way has its answer.
    pub async fn run(self, stop: CancellationToken) {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut under_way = JoinSet::new();
        let mut beat = interval(Duration::from_secs_f64(1.0 / self.rate.max(0.01)));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number = 0;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = beat.tick() => {}
            }
            while under_way.try_join_next().is_some() {}
            if under_way.len() < UNDER_WAY {
                number += 1;
                let order = Order::draw(&mut chance, format!("{}-{number}", self.name));
                under_way.spawn(order.submit(self.ax.clone(), self.ledger.clone()));
            }
        }
        while under_way.join_next().await.is_some() {}
    }
}

/// One submit.
#[derive(Debug)]
struct Order {
    way: Way,
    label: String,
    tasks: Vec<Submission<String>>,
    /// Whether the submitter waits for the outcome.
    listens: bool,
}

impl Order {
    fn draw(chance: &mut Xoshiro256PlusPlus, label: String) -> Order {
        let way = draw(chance, WAYS);
        let label = if way == Way::Shared {
            shared_label()
        } else {
            label
        };
        let n = if way == Way::Many {
            chance.random_range(2..=8)
        } else {
            1
        };
        let tasks = (0..n)
            .map(|place| draw_task(chance, &of(&label, place), way))
            .collect();
        Order {
            way,
            label,
            tasks,
            listens: chance.random_bool(0.1),
        }
    }

    async fn submit(self, ax: Ax, ledger: Ledger) {
        let labels: Vec<String> = (0..self.tasks.len())
            .map(|place| of(&self.label, place))
            .collect();
        for label in &labels {
            ledger.write(&Line::Intent {
                label: label.clone(),
            });
        }
        let mut answers = match self.way {
            Way::Committed | Way::RolledBack => vec![self.transaction(&ax, &ledger).await],
            Way::Many => ax
                .submit_many(self.tasks.clone())
                .await
                .into_iter()
                .map(|answer| answer.map(Some))
                .collect(),
            Way::Single | Way::Shared => vec![ax.submit(self.tasks[0].clone()).await.map(Some)],
        };
        for (label, answer) in labels.into_iter().zip(&answers) {
            match answer {
                Ok(Some(handle)) => ledger.write(&Line::Submitted {
                    label,
                    id: handle.id(),
                }),
                Ok(None) => {}
                Err(error) => ledger.write(&Line::Doubtful {
                    label,
                    error: error.to_string(),
                }),
            }
        }
        if let (true, Some(Ok(Some(handle)))) = (self.listens, answers.pop()) {
            listen(handle, &ledger).await;
        }
    }

    /// Submits in a transaction; nothing is given when it was rolled back on purpose.
    async fn transaction(&self, ax: &Ax, ledger: &Ledger) -> Result<Option<Handle<String>>, Error> {
        let mut transaction = ax.begin().await?;
        let handle = ax
            .submit_in(&mut transaction, self.tasks[0].clone())
            .await?;
        if self.way == Way::Committed {
            transaction.commit().await?;
            return Ok(Some(handle));
        }
        // Whatever comes of the rollback, nobody committed.
        let _gone = transaction.rollback().await;
        ledger.write(&Line::RolledBack {
            label: of(&self.label, 0),
        });
        Ok(None)
    }
}

/// Waits a while for an outcome, and writes down what it is.
async fn listen(handle: Handle<String>, ledger: &Ledger) {
    if let Ok(Ok(outcome)) = timeout(Duration::from_secs(20), handle.outcome()).await {
        ledger.write(&Line::Told {
            id: handle.id(),
            output: outcome.ok(),
        });
    }
}

fn of(label: &str, place: usize) -> String {
    if place == 0 {
        label.to_owned()
    } else {
        format!("{label}.{place}")
    }
}

/// The same in every process for a moment.
fn shared_label() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("shared-{}", now.as_millis() / 100)
}

fn draw_task(chance: &mut Xoshiro256PlusPlus, label: &str, way: Way) -> Submission<String> {
    // Callers of one key must ask for the same thing.
    let job = if way == Way::Shared {
        JOBS[0].0
    } else {
        draw(chance, JOBS)
    };
    // A run longer than a lease is still under way here when its second start is under way elsewhere.
    let longest = match job {
        "kill.deaf" => 8_000,
        "kill.nap" if chance.random_bool(0.2) => 8_000,
        _ => 400,
    };
    let span_ms: u64 = chance.random_range(0..longest);
    let payload = serde_json::json!({ "label": label, "span_ms": span_ms }).to_string();
    let name = JobName::new(job).expect("the name of a job is valid");
    let mut task =
        Submission::new(NewTask::new(name, payload)).priority(chance.random_range(0..=9));
    if chance.random_bool(0.5) {
        task = task.delay(Duration::from_millis(chance.random_range(0..3_000)));
    }
    if way == Way::Shared || chance.random_bool(0.15) {
        task = task.key(label).unique_for(hours(1));
    }
    task
}

/// One of the choices, each as often as its weight says.
fn draw<T: Copy>(chance: &mut Xoshiro256PlusPlus, choices: &[(T, u32)]) -> T {
    let mut left = chance.random_range(0..choices.iter().map(|(_, weight)| weight).sum());
    for (choice, weight) in choices {
        if left < *weight {
            return *choice;
        }
        left -= weight;
    }
    choices[0].0
}
