//! Collects what an engine needs, and starts it.
//!
//! Enters: the database, values for handlers, jobs, settings. Leaves: a running [`Ax`], or the first thing that was
//! wrong. Nothing is opened before [`AxBuilder::start`].

use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, ErrorKind, Namespace};
use ax_engine::clock::{SystemClock, host_now};
use ax_engine::config::Config;
use ax_engine::db::{OpenOptions, Source, Transactions, open};
use ax_engine::engine::{Engine, EngineParts, Migrate};
use ax_engine::job::{JobDef, Registry, States};
use ax_engine::node::World;
use ax_engine::random::Random;
use ax_engine::spawn::{Spawn as _, Threads};
use tokio::sync::oneshot;

use crate::Ax;

/// See [`Ax::builder`].
#[must_use = "a builder does nothing until it is started"]
pub struct AxBuilder {
    source: Source,
    config: Config,
    states: States,
    jobs: Vec<JobDef>,
    linked: Linked,
    migrate: Migrate,
    fault: Option<Error>,
}

/// Whether jobs that are linked into the program register by themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Linked {
    Registered,
    Ignored,
}

impl AxBuilder {
    pub(crate) fn new(source: Source) -> AxBuilder {
        AxBuilder {
            source,
            config: Config::default(),
            states: States::default(),
            jobs: Vec::new(),
            linked: Linked::Registered,
            migrate: Migrate::Auto,
            fault: None,
        }
    }

    /// Gives handlers a value: jobs with a parameter `State<T>` get a clone of it.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Registers a job by name, beside those that register themselves.
    pub fn job(mut self, job: JobDef) -> Self {
        self.jobs.push(job);
        self
    }

    /// Runs only the jobs given by [`AxBuilder::job`], not all that are linked into the program.
    pub fn only_given_jobs(mut self) -> Self {
        self.linked = Linked::Ignored;
        self
    }

    /// Whose tasks this node submits and runs (`default`).
    pub fn namespace(mut self, name: &str) -> Self {
        match Namespace::new(name) {
            Ok(namespace) => self.config.namespace = namespace,
            Err(error) => self.keep(error),
        }
        self
    }

    /// How many async handlers run at once (64).
    pub fn async_slots(mut self, slots: usize) -> Self {
        self.config.async_slots = slots;
        self
    }

    /// How many blocking handlers run at once (2 × cores).
    pub fn blocking_slots(mut self, slots: usize) -> Self {
        self.config.blocking_slots = slots;
        self
    }

    /// How long [`Ax::shutdown`] waits for running handlers (30 s).
    pub fn shutdown_after(mut self, limit: Duration) -> Self {
        self.config.shutdown = limit;
        self
    }

    /// The application's name and version, for people who look at nodes.
    pub fn app(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.config.app = name.into();
        self.config.version = version.into();
        self
    }

    /// Changes any other setting.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Whether the start brings the schema up to date (true); with `false` a missing migration is an error.
    pub fn auto_migrate(mut self, auto: bool) -> Self {
        self.migrate = if auto { Migrate::Auto } else { Migrate::Check };
        self
    }

    /// Opens the database, migrates, joins the cluster and starts the node. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// `Invalid` for settings, jobs or states that cannot work, `Schema` for missing migrations, `Unavailable` when the
    /// database does not answer. Each says what to do.
    pub async fn start(mut self) -> Result<Ax, Error> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let registry = self.registry()?;
        let threads = Arc::new(Threads::new()?);
        let transactions = Transactions::new(&self.source);
        let world = World {
            clock: Arc::new(SystemClock),
            random: Arc::new(Random::from_system()),
            spawn: threads.clone(),
        };
        let starting = async move {
            let file = self.source.file();
            let database = open(self.source, OpenOptions::new(host_now)).await?;
            Engine::start(EngineParts {
                config: self.config,
                database,
                registry,
                states: self.states,
                world,
                migrate: self.migrate,
                file,
            })
            .await
        };
        let (tell, told) = oneshot::channel();
        threads.engine(Box::pin(async move {
            // Without its caller an engine that just started has no owner; it is dropped here and ends.
            let _gone = tell.send(starting.await);
        }));
        let engine = told.await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Stopped,
                "start: the engine's threads ended before it was up",
            ))
        })?;
        Ok(Ax::new(engine, threads, transactions))
    }

    fn registry(&mut self) -> Result<Registry, Error> {
        let mut registry = match self.linked {
            Linked::Registered => Registry::discovered()?,
            Linked::Ignored => Registry::default(),
        };
        for job in self.jobs.drain(..) {
            registry.add(job)?;
        }
        Ok(registry)
    }

    fn keep(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }
}
