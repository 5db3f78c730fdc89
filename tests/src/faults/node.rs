//! An engine on a faulty database, put together as the SDK does it.
//!
//! What enters: a database's URL, jobs, settings. What leaves: a running node whose database obeys the rules of its
//! [`Faults`]. On a SQLite file it has no lock file beside it, as if it ran on another host: its life shows by its
//! heartbeat alone.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{NewTask, Submission, Task, TaskId};
use ax_engine::clock::{SystemClock, host_now};
use ax_engine::config::Config;
use ax_engine::db::{self, OpenOptions, Source};
use ax_engine::engine::{Engine, EngineParts, Migrate, Stats};
use ax_engine::job::{JobDef, Registry, States};
use ax_engine::node::World;
use ax_engine::outcomes::RawOutcome;
use ax_engine::random::Random;
use ax_engine::spawn::{Spawn as _, Threads};
use tokio::sync::oneshot;

use super::{Faults, FaultyDatabase, PATIENCE, Stage, until};
use crate::databases::TestDatabase;

/// What a node is started with.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Where its tasks are.
    pub database: &'a TestDatabase,
    /// Where its handlers tell what they do.
    pub stage: &'a Stage,
    /// What it runs.
    pub jobs: &'a [JobDef],
    /// Its settings.
    pub config: Config,
}

/// A running node. Dropped without a shutdown it ends as in a crash.
pub struct FaultyNode {
    inner: Arc<Inner>,
    faults: Faults,
}

struct Inner {
    engine: Engine,
    threads: Arc<Threads>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.engine.abandon();
        self.threads.close();
    }
}

impl<'a> Setup<'a> {
    /// The settings of most cases: a short lease, short pauses, little grace.
    pub fn new(database: &'a TestDatabase, stage: &'a Stage, jobs: &'a [JobDef]) -> Setup<'a> {
        let config = Config {
            lease: Duration::from_secs(2),
            beat: Duration::from_millis(500),
            grace: Duration::from_millis(100),
            watch: Duration::from_millis(50),
            poll_max: Duration::from_millis(200),
            shutdown: Duration::from_secs(5),
            ..Config::default()
        };
        Setup {
            database,
            stage,
            jobs,
            config,
        }
    }

    /// With other settings.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Setup<'a> {
        change(&mut self.config);
        self
    }

    /// Starts the node, in fair weather and without rules.
    ///
    /// # Panics
    /// When the engine refuses.
    pub async fn start(self) -> FaultyNode {
        self.start_with(Faults::default()).await
    }

    /// Starts the node with rules that hold from the begin.
    ///
    /// # Panics
    /// When the engine refuses.
    pub async fn start_with(self, faults: Faults) -> FaultyNode {
        let threads = Arc::new(Threads::new().expect("the case runs in a tokio runtime"));
        let world = World {
            clock: Arc::new(SystemClock),
            random: Arc::new(Random::from_system()),
            spawn: threads.clone(),
        };
        let mut registry = Registry::default();
        for job in self.jobs {
            registry.add(*job).expect("each job once");
        }
        let mut states = States::default();
        states.insert(self.stage.clone());
        let source = Source::from(self.database.url());
        let (config, rules) = (self.config, faults.clone());
        let starting = async move {
            let real = db::open(source, OpenOptions::new(host_now)).await?;
            let database = Arc::new(FaultyDatabase::new(real, rules));
            let migrate = Migrate::Auto;
            Engine::start(EngineParts {
                config,
                database,
                registry,
                states,
                world,
                migrate,
                file: None,
            })
            .await
        };
        let engine = on(&threads, starting).await.expect("the node starts");
        FaultyNode {
            inner: Arc::new(Inner { engine, threads }),
            faults,
        }
    }
}

/// Runs something on the engine's threads.
async fn on<T: Send + 'static>(
    threads: &Threads,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let (tell, told) = oneshot::channel();
    threads.engine(Box::pin(async move {
        // A case that has failed no longer listens.
        let _gone = tell.send(work.await);
    }));
    told.await.expect("the engine's threads live")
}

impl FaultyNode {
    /// What goes wrong between this node and its database.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// What it has done.
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// Submits a task.
    ///
    /// # Panics
    /// When the submit fails.
    pub async fn submit<T>(&self, task: Submission<T>) -> TaskId {
        self.submit_untyped(task.into_new_task()).await
    }

    /// Submits a task of a job that this program does not have.
    ///
    /// # Panics
    /// When the submit fails.
    pub async fn submit_untyped(&self, task: NewTask) -> TaskId {
        self.engine()
            .client()
            .submit(task)
            .await
            .expect("the submit succeeds")
            .id()
    }

    /// The outcome of the first round of a task, as somebody hears it who waits on this node.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn outcome(&self, id: TaskId) -> RawOutcome {
        let told = tokio::time::timeout(PATIENCE, self.engine().client().outcome((id, 0))).await;
        match told {
            Ok(outcome) => outcome.expect("the engine runs"),
            Err(_) => panic!("no outcome of {:?}", self.find(id).await),
        }
    }

    /// A task as it stands.
    ///
    /// # Panics
    /// When the database does not answer, or there is no such task.
    pub async fn find(&self, id: TaskId) -> Task {
        let found = self
            .engine()
            .client()
            .find(id)
            .await
            .expect("the database answers");
        found.expect("the task exists")
    }

    /// A task once it is as wanted.
    ///
    /// # Panics
    /// When it does not come to that.
    pub async fn found(&self, id: TaskId, wanted: impl Fn(&Task) -> bool) -> Task {
        until("the wanted state of the task", async || {
            Some(self.find(id).await).filter(&wanted)
        })
        .await
    }

    /// Ends the node in order: when this returns, everything it did is written and counted.
    pub async fn shutdown(&self) {
        let inner = self.inner.clone();
        on(
            &self.inner.threads,
            async move { inner.engine.shutdown().await },
        )
        .await;
        self.inner.threads.close();
    }
}
