//! Kills real processes at work and looks whether anything was lost, done twice, or started without a reason.
//!
//! What enters: a [`Plan`]. What leaves: a [`Verdict`] per database. Workers are processes that embed ax and run and
//! submit tasks; [`faults`] kills and pauses them and, through [`proxy`], cuts their connections to PostgreSQL; each
//! writes what it does to a [`ledger`] outside of ax, which [`verdict`] compares with the database at the end. Ends only
//! processes that it started, and takes its databases and files away, also when it is interrupted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ax_sdk::Ax;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use faults::Wanted;
use fleet::{Fleet, Launch};
use ground::Ground;
use ledger::Ledger;
use load::Submitter;
use proxy::Proxy;
use verdict::{Deeds, Frame, Verdict};

pub mod faults;
pub mod fleet;
pub mod ground;
pub mod ledger;
pub mod load;
pub mod proxy;
pub mod verdict;
pub mod wire;

/// Which database a run is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// A server.
    Postgres,
    /// One file that all processes open.
    Sqlite,
}

/// One run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The database.
    pub database: Database,
    /// Workers killed.
    pub kills: u32,
    /// Workers paused.
    pub pauses: u32,
    /// Connections cut between a commit and its reply (PostgreSQL).
    pub cuts: u32,
    /// Tasks in a second, from all submitters together.
    pub rate: f64,
    /// Worker processes at once.
    pub nodes: usize,
    /// Chooses faults and load.
    pub seed: u64,
    /// The program that is a worker when its first argument says so.
    pub program: PathBuf,
    /// Whether database, ledgers and logs stay for a person to look at.
    pub keep: bool,
}

/// The lease of the workers: short, so that takeovers happen in the middle of everything else.
pub const LEASE: Duration = Duration::from_secs(2);

/// How long tasks may take to come to rest after the last fault.
const REST: Duration = Duration::from_secs(120);

impl Plan {
    /// Long enough that a worker lives for about two leases between two kills.
    fn span(&self) -> Duration {
        let each = [(self.kills, 1.0), (self.pauses, 1.6), (self.cuts, 0.5)];
        let longest = each
            .map(|(n, seconds)| f64::from(n) * seconds)
            .into_iter()
            .fold(4.0, f64::max);
        Duration::from_secs_f64(longest)
    }

    fn wanted(&self) -> Wanted {
        let Plan {
            kills,
            pauses,
            cuts,
            ..
        } = *self;
        Wanted {
            kills,
            pauses,
            cuts,
            span: self.span(),
            lease: LEASE,
        }
    }
}

/// Makes one run.
///
/// # Errors
///
/// When the run cannot be made, or was interrupted. What went wrong inside of ax is in the verdict.
pub async fn run(plan: &Plan, stop: &CancellationToken) -> anyhow::Result<Verdict> {
    let folder = tempfile::Builder::new().prefix("ax-kill-").tempdir()?;
    let ground = match plan.database {
        Database::Postgres => Ground::postgres(plan.seed).await?,
        Database::Sqlite => Ground::sqlite(folder.path()),
    };
    let verdict = on_ground(plan, &ground, folder.path(), stop).await;
    if plan.keep {
        eprintln!(
            "{}: kept {} and {}",
            ground.name(),
            folder.keep().display(),
            ground.url(None)
        );
    } else {
        ground
            .remove()
            .await
            .context("the database of the run stays behind")?;
    }
    verdict
}

async fn on_ground(
    plan: &Plan,
    ground: &Ground,
    folder: &Path,
    stop: &CancellationToken,
) -> anyhow::Result<Verdict> {
    let begin = Instant::now();
    let proxy = match ground.server()? {
        Some(server) => Some(Proxy::start(server).await?),
        None => None,
    };
    let launch = Launch {
        program: plan.program.clone(),
        url: ground.url(proxy.as_ref().map(Proxy::address)),
        folder: folder.to_owned(),
        rate: plan.rate / (plan.nodes as f64 + 1.0),
        lease: LEASE,
        seed: plan.seed,
    };
    let mut fleet = Fleet::start(launch.clone(), plan.nodes)?;
    let run = Run {
        plan,
        ground,
        launch,
        proxy: proxy.as_ref(),
        stop,
    };
    let deeds = run.to_rest(&mut fleet).await;
    fleet.end().await;
    let (deeds, crashes) = (deeds?, fleet.crashes());
    crashes
        .iter()
        .for_each(|crash| eprintln!("{}: {crash}", ground.name()));
    let frame = Frame {
        database: ground.name().to_owned(),
        deeds: Deeds {
            crashes: crashes.len() as u64,
            ..deeds
        },
        seconds: begin.elapsed().as_secs(),
        seed: plan.seed,
    };
    Ok(verdict::judge(
        frame,
        &ledger::read_all(folder)?,
        &ground.facts().await?,
    ))
}

struct Run<'a> {
    plan: &'a Plan,
    ground: &'a Ground,
    launch: Launch,
    proxy: Option<&'a Proxy>,
    stop: &'a CancellationToken,
}

impl Run<'_> {
    /// All faults, then peace, then the end of every process in order.
    async fn to_rest(&self, fleet: &mut Fleet) -> anyhow::Result<Deeds> {
        let (ax, submits, quiet) = self.submit_here().await?;
        let wanted = self.plan.wanted();
        self.say(&format!(
            "{} workers, faults for {} s",
            self.plan.nodes,
            wanted.span.as_secs()
        ));
        let done = faults::run(&wanted, fleet, self.proxy, self.plan.seed, self.stop).await?;
        self.until("every cut has met a commit", || async {
            Ok(self.proxy.map_or(0, Proxy::waiting) == 0)
        })
        .await?;
        let (cuts, withheld) = self.proxy.map_or((0, 0), Proxy::tally);
        self.say(&format!(
            "{} kills, {} pauses, {cuts} cuts; waiting for rest",
            done.kills, done.pauses
        ));
        quiet.cancel();
        fleet.quiet().await?;
        submits.await?;
        let came = self
            .until("every task has come to rest", || async {
                Ok(self.ground.live().await? == 0)
            })
            .await;
        fleet.look_after()?;
        // Tasks that never come to rest are a verdict, not a failure of the run; an interruption is one.
        anyhow::ensure!(!self.stop.is_cancelled(), "the run was interrupted");
        came.unwrap_or_else(|error| self.say(&error.to_string()));
        fleet.shutdown().await?;
        ax.shutdown().await;
        Ok(Deeds {
            kills: done.kills,
            pauses: done.pauses,
            cuts,
            withheld,
            crashes: 0,
        })
    }

    /// A node of the harness itself that only submits.
    async fn submit_here(&self) -> anyhow::Result<(Ax, JoinHandle<()>, CancellationToken)> {
        let ledger = Ledger::create(&self.launch.folder.join("harness.ledger"))?;
        let ax = Ax::builder(self.launch.url.as_str())
            .only_given_jobs()
            .app("kill-harness", "")
            .configure(|config| {
                config.lease = LEASE;
                config.beat = LEASE / 4;
                config.roles.execute = false;
                config.roles.trigger = false;
            });
        let ax = ax
            .start()
            .await
            .context("the harness cannot join the cluster")?;
        let quiet = CancellationToken::new();
        let submitter = Submitter {
            ax: ax.clone(),
            ledger,
            name: "h".to_owned(),
            seed: self.plan.seed,
            rate: self.launch.rate,
        };
        Ok((ax, tokio::spawn(submitter.run(quiet.clone())), quiet))
    }

    async fn until<F>(&self, what: &str, mut holds: impl FnMut() -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<bool>>,
    {
        let begin = Instant::now();
        while !holds().await? {
            anyhow::ensure!(begin.elapsed() < REST, "it is still not so that {what}");
            let stopped = timeout(Duration::from_millis(200), self.stop.cancelled()).await;
            anyhow::ensure!(stopped.is_err(), "the run was interrupted");
        }
        Ok(())
    }

    fn say(&self, text: &str) {
        eprintln!("{}: {text}", self.ground.name());
    }
}
