//! Puts the rooms of one node together, starts them, and takes them down in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ax_core::Error;

use crate::client::Client;
use crate::cluster::{self, Cluster, Membership};
use crate::config::Config;
use crate::db::Database;
use crate::execute::Executor;
use crate::heartbeat::{self, Heart};
use crate::job::{Registry, States};
use crate::node::{Node, NodeParts, World};
use crate::reconcile::{self, Reconciler};
use crate::report::{self, Reporter};
use crate::routes::{Executing, Routes};
use crate::running::{Running, Signal};
use crate::schedule::{self, Scheduler};
use crate::service::Services;
use crate::slots::Slots;
use crate::store::Store;
use crate::submit::{self, Submitter};
use crate::trigger::{self, Trigger, TriggerHandle};
use crate::witness::Witness;
use crate::{outcomes, strays, watch};

/// How long the last outcomes of a shutdown may take to be written.
const LAST_SETTLE: Duration = Duration::from_secs(5);

/// Whether the engine brings the schema up to date by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrate {
    /// It runs the missing migrations at the start.
    Auto,
    /// It only checks, and refuses to start when some are missing.
    Check,
}

/// What an engine is made of.
pub struct EngineParts {
    /// Settings.
    pub config: Config,
    /// The database, opened on the engine's runtime.
    pub database: Arc<dyn Database>,
    /// Jobs this node can run.
    pub registry: Registry,
    /// Values that handlers ask for.
    pub states: States,
    /// Clock, randomness, and where futures run.
    pub world: World,
    /// What happens to missing migrations.
    pub migrate: Migrate,
    /// The database's file, where it is one: lock files beside it tell at once which nodes are dead.
    pub file: Option<PathBuf>,
}

/// What a node has done since it started, and what it holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Tasks claimed; tasks that were born claimed are not among them.
    pub claimed: u64,
    /// Outcomes recorded.
    pub settled: u64,
    /// Due entries whose claim found the row changed or taken.
    pub conflicts: u64,
    /// Outcomes that came too late to count.
    pub stale: u64,
    /// Claims of dead nodes, and claims of this node whose answer was lost, that were taken back.
    pub recovered: u64,
    /// Due tasks moved to a node that runs their job.
    pub handed_on: u64,
    /// Looks at the due range that succeeded.
    pub polls: u64,
    /// Handlers that run.
    pub running: u32,
    /// Claimed tasks that wait for a slot.
    pub queued: u32,
    /// Slots there are.
    pub slots: u32,
}

/// A running node.
pub struct Engine {
    node: Arc<Node>,
    services: Services,
    executor: Arc<Executor>,
    running: Arc<Running>,
    slots: Arc<Slots>,
    client: Client,
    witness: Arc<Witness>,
}

impl Engine {
    /// Checks the jobs, migrates, joins the cluster and starts every loop. Must run where database calls may run.
    ///
    /// # Errors
    /// `Invalid` for settings or jobs that cannot work, `Schema` for missing migrations, else what the database said.
    pub async fn start(parts: EngineParts) -> Result<Engine, Error> {
        parts.config.validate()?;
        parts.registry.check(&parts.states)?;
        let store = Store::new(parts.database);
        match parts.migrate {
            Migrate::Auto => store.migrate().await?,
            Migrate::Check => store.check_schema().await?,
        }
        let witness = Arc::new(Witness::new(parts.file));
        let joined = cluster::join(
            &store,
            &parts.config,
            &parts.registry,
            &parts.world,
            &witness,
        )
        .await?;
        let node = Arc::new(Node::new(NodeParts {
            config: parts.config,
            store,
            registry: parts.registry,
            states: parts.states,
            world: parts.world,
            identity: joined.identity,
        }));
        joined.tell(&node);
        schedule::register(&node).await?;
        Ok(Engine::assemble(node, witness))
    }

    fn assemble(node: Arc<Node>, witness: Arc<Witness>) -> Engine {
        let config = &node.config;
        let services = Services::new(node.world.spawn.clone(), node.world.clock.clone());
        let slots = Arc::new(Slots::new(
            config.async_slots,
            config.blocking_slots,
            config.read_ahead,
        ));
        let running = Arc::new(Running::default());
        let executing = if config.roles.execute {
            Executing::Registered
        } else {
            Executing::Nothing
        };
        let routes = Routes::new(config.namespace.clone(), &node.registry, executing);
        let (trigger, notes) = trigger::channel(node.clone(), routes);
        let (report, finished) = report::channel();
        let (submit, plain, keyed) = submit::channel();
        let executor = Arc::new(Executor::new(
            node.clone(),
            slots.clone(),
            running.clone(),
            report,
        ));
        let rooms = Rooms {
            node: node.clone(),
            slots: slots.clone(),
            running: running.clone(),
            executor: executor.clone(),
            trigger: trigger.clone(),
        };
        rooms.start_road(&services, notes, finished, plain, keyed);
        rooms.start_beside(&services, &witness);
        let client = Client::new(node.clone(), submit, trigger, running.clone());
        Engine {
            node,
            services,
            executor,
            running,
            slots,
            client,
            witness,
        }
    }

    /// A handle for callers.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What the rooms share.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// What this node has done and holds.
    pub fn stats(&self) -> Stats {
        let (counters, load) = (&self.node.counters, self.slots.load());
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            claimed: read(&counters.claimed),
            settled: read(&counters.settled),
            conflicts: read(&counters.conflicts),
            stale: read(&counters.stale),
            recovered: read(&counters.recovered),
            handed_on: read(&counters.handed_on),
            polls: read(&counters.polls),
            running: load.running,
            queued: load.queued,
            slots: load.slots,
        }
    }

    /// Claims nothing more, hands back what has not started, waits for what runs, writes the last outcomes, and leaves
    /// the cluster. Handlers that outlast `Config::shutdown` are signaled, and handed back when they outlast the grace.
    pub async fn shutdown(&self) {
        self.node.leave();
        cluster::leaving(&self.node).await;
        self.executor.hand_back_queued();
        if !self.idle_within(self.node.config.shutdown).await {
            self.running.signal_all(Signal::Shutdown);
            if !self.idle_within(self.node.config.grace).await {
                self.running.abandon_all();
                self.idle_within(LAST_SETTLE).await;
            }
        }
        self.services.stop().await;
        // What is held here by a claim whose answer was lost goes back too, or it would count as lost with this node.
        if let Err(error) = strays::give_back(&self.node, &self.running).await {
            tracing::warn!(%error, "failed to give back stray claims; the others find them later");
        }
        cluster::leave(&self.node, &self.witness).await;
        self.node.outcomes.close();
        self.node.store.db().close().await;
    }

    /// Ends every loop where it stands, as a crash would.
    pub fn abandon(&self) {
        self.services.abandon();
    }

    async fn idle_within(&self, limit: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.running.quiet() => true,
            () = self.node.world.clock.sleep(limit) => false,
        }
    }
}

/// The rooms while they are being started.
struct Rooms {
    node: Arc<Node>,
    slots: Arc<Slots>,
    running: Arc<Running>,
    executor: Arc<Executor>,
    trigger: TriggerHandle,
}

impl Rooms {
    /// The road itself: submit, trigger, report.
    fn start_road(
        &self,
        services: &Services,
        notes: trigger::TriggerQueue,
        finished: report::ReportQueue,
        plain: submit::Lane,
        keyed: submit::Lane,
    ) {
        let submitter = Arc::new(Submitter {
            node: self.node.clone(),
            slots: self.slots.clone(),
            executor: self.executor.clone(),
            trigger: self.trigger.clone(),
            running: self.running.clone(),
        });
        let (plain, keyed) = (Arc::new(plain), Arc::new(keyed));
        let writers = self.node.store.db().dialect().writers();
        for _ in 0..writers {
            let (submitter, plain) = (submitter.clone(), plain.clone());
            services.start("submit", move |stop| {
                submit::run_plain(submitter.clone(), plain.clone(), stop)
            });
        }
        services.start("submit keyed", move |stop| {
            submit::run_keyed(submitter.clone(), keyed.clone(), stop)
        });

        let reporter = Arc::new(Reporter {
            node: self.node.clone(),
            queue: finished,
            slots: self.slots.clone(),
            running: self.running.clone(),
            trigger: self.trigger.clone(),
        });
        for _ in 0..writers {
            let reporter = reporter.clone();
            services.start("report", move |stop| report::run(reporter.clone(), stop));
        }

        let room = Arc::new(Trigger {
            node: self.node.clone(),
            handle: self.trigger.clone(),
            slots: self.slots.clone(),
            executor: self.executor.clone(),
            running: self.running.clone(),
        });
        let notes = Arc::new(notes);
        services.start("trigger", move |stop| {
            trigger::run(room.clone(), notes.clone(), stop)
        });
    }

    /// What stands beside the road: heartbeat, cluster, reconcile, schedules, watches.
    fn start_beside(&self, services: &Services, witness: &Arc<Witness>) {
        let membership = Arc::new(Membership::default());
        let heart = Arc::new(Heart {
            node: self.node.clone(),
            running: self.running.clone(),
            slots: self.slots.clone(),
            membership: membership.clone(),
        });
        services.start_heartbeat(move |stop| Box::pin(heartbeat::run(heart, stop)));
        let cluster = Arc::new(Cluster {
            node: self.node.clone(),
            trigger: self.trigger.clone(),
            membership: membership.clone(),
            witness: witness.clone(),
        });
        services.start("cluster", move |stop| cluster::run(cluster.clone(), stop));
        let reconciler = Arc::new(Reconciler {
            node: self.node.clone(),
            running: self.running.clone(),
            trigger: self.trigger.clone(),
        });
        services.start("reconcile", move |stop| {
            reconcile::run(reconciler.clone(), stop)
        });
        let scheduler = Arc::new(Scheduler {
            node: self.node.clone(),
            trigger: self.trigger.clone(),
            membership,
        });
        services.start("schedule", move |stop| {
            schedule::run(scheduler.clone(), stop)
        });
        let (node, running) = (self.node.clone(), self.running.clone());
        services.start("watch", move |stop| {
            watch::run(node.clone(), running.clone(), stop)
        });
        let node = self.node.clone();
        services.start("outcomes", move |stop| outcomes::run(node.clone(), stop));
    }
}
