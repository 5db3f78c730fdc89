//! Replays recorded arrivals as delayed tasks, and measures how late each starts beside a bare timer for the same instant.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ax_sdk::{Ax, Outcome, TaskId, Timestamp};
use serde::Serialize;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::ReplayArguments;
use crate::database::Database;
use crate::figures::{Percentiles, percentiles};
use crate::ledger::{self, Ledger, Start};
use crate::node::{self, arrival, wall_micros};

/// Time between the submit and the first arrival, for submitting all of them and for the workers to start.
const LEAD: Duration = Duration::from_secs(5);
/// How long outcomes may take after the last arrival: more than a takeover of a takeover.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Serialize)]
struct Report {
    submitted: usize,
    executed: usize,
    lost: usize,
    duplicated: usize,
    unexplained_starts: usize,
    kills: usize,
    lateness_ms: Percentiles,
    timer_ms: Percentiles,
}

/// Runs a replay and prints its figures.
pub(crate) async fn run(arguments: ReplayArguments) -> anyhow::Result<()> {
    let arrivals = crate::arrivals::read(&arguments.file, arguments.speed)?;
    let database = Database::fresh(arguments.database.as_deref()).await?;
    let folder = tempfile::tempdir()?;
    let report = replay(&arguments, &arrivals, &database.url, folder.path()).await;
    database.remove().await?;
    print(&arguments, &report?)
}

async fn replay(
    arguments: &ReplayArguments,
    arrivals: &[Duration],
    url: &str,
    folder: &Path,
) -> anyhow::Result<Report> {
    let ax = submitter(arguments, url, folder).await?;
    let workers = Workers::start(arguments, url, folder).await?;
    let begin = wall_micros() / 1_000 * 1_000 + micros(LEAD);
    let timers = tokio::spawn(bare_timers(arrivals.to_vec(), begin));
    let handles = submit(&ax, arrivals, begin).await?;
    let end = arrivals.last().copied().unwrap_or_default();
    let killing = workers.kill_some(arguments, end);
    let (kills, outcomes) = tokio::join!(killing, outcomes(&handles, LEAD + end + PATIENCE));
    let timer_ms = percentiles(timers.await?);
    workers.stop().await?;
    let starts = ledger::read(folder)?;
    let unexplained_starts = unexplained(&ax, &starts).await?;
    ax.shutdown().await;
    let executed = outcomes.iter().filter(|ended| **ended).count();
    let first = |list: &Vec<Start>| list.first().map(|start| start.late);
    Ok(Report {
        submitted: handles.len(),
        executed,
        lost: handles.len() - executed,
        duplicated: starts.values().map(|list| doubles(list)).sum(),
        unexplained_starts,
        kills: kills?,
        lateness_ms: percentiles(starts.values().filter_map(first)),
        timer_ms,
    })
}

/// With one node this process runs the tasks; with several it only submits, and worker processes run them.
async fn submitter(arguments: &ReplayArguments, url: &str, folder: &Path) -> anyhow::Result<Ax> {
    if arguments.nodes <= 1 {
        return Ok(node::start(url, Ledger::open(&folder.join("0"))?).await?);
    }
    let submit_only = |config: &mut ax_sdk::Config| {
        config.roles = ax_sdk::Roles {
            trigger: false,
            execute: false,
        }
    };
    Ok(Ax::builder(url)
        .only_given_jobs()
        .configure(submit_only)
        .start()
        .await?)
}

async fn submit(
    ax: &Ax,
    arrivals: &[Duration],
    begin: i64,
) -> anyhow::Result<Vec<ax_sdk::Handle<()>>> {
    let tasks = arrivals.iter().map(|after| {
        let due = begin + micros(*after) / 1_000 * 1_000;
        arrival::task(due)
            .at(Timestamp::from_millis(due / 1_000))
            .retries(0)
    });
    let submitted = ax.submit_many(tasks).await;
    submitted
        .into_iter()
        .collect::<Result<_, _>>()
        .context("submit the arrivals")
}

async fn bare_timers(arrivals: Vec<Duration>, begin: i64) -> Vec<i64> {
    let late: Arc<Mutex<Vec<i64>>> = Arc::default();
    let mut timers = tokio::task::JoinSet::new();
    for after in arrivals {
        let (due, late) = (begin + micros(after) / 1_000 * 1_000, late.clone());
        timers.spawn(async move {
            let left = Duration::from_micros(u64::try_from(due - wall_micros()).unwrap_or(0));
            tokio::time::sleep(left).await;
            late.lock().await.push(wall_micros() - due);
        });
    }
    timers.join_all().await;
    let late = late.lock().await;
    late.clone()
}

async fn outcomes(handles: &[ax_sdk::Handle<()>], limit: Duration) -> Vec<bool> {
    let end = tokio::time::Instant::now() + limit;
    let waits = handles.iter().map(|handle| async move {
        let outcome = tokio::time::timeout_at(end, handle.outcome()).await;
        matches!(outcome, Ok(Ok(Outcome::Succeeded(()))))
    });
    futures_util::future::join_all(waits).await
}

/// Starts with one number of claim are the same execution begun twice: that must never be.
fn doubles(starts: &[Start]) -> usize {
    starts
        .windows(2)
        .filter(|pair| pair[0].fence == pair[1].fence)
        .count()
}

/// Starts of a task that already had one, without a record that says how the earlier attempt ended.
async fn unexplained(ax: &Ax, starts: &BTreeMap<TaskId, Vec<Start>>) -> anyhow::Result<usize> {
    let mut unexplained = 0;
    for (task, list) in starts.iter().filter(|(_, list)| list.len() > 1) {
        let ended: Vec<i64> = ax
            .executions(*task)
            .await?
            .into_iter()
            .map(|e| e.fence)
            .collect();
        unexplained += list[..list.len() - 1]
            .iter()
            .filter(|start| !ended.contains(&start.fence))
            .count();
    }
    Ok(unexplained)
}

/// The worker processes of a run with several nodes.
struct Workers {
    children: Mutex<Vec<Child>>,
    url: String,
    folder: std::path::PathBuf,
    started: std::sync::atomic::AtomicUsize,
}

impl Workers {
    async fn start(
        arguments: &ReplayArguments,
        url: &str,
        folder: &Path,
    ) -> anyhow::Result<Workers> {
        let workers = Workers {
            children: Mutex::default(),
            url: url.to_owned(),
            folder: folder.to_owned(),
            started: 1.into(),
        };
        let n = if arguments.nodes > 1 {
            arguments.nodes
        } else {
            0
        };
        for _ in 0..n {
            let child = workers.spawn()?;
            workers.children.lock().await.push(child);
        }
        Ok(workers)
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let number = self
            .started
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Command::new(std::env::current_exe()?)
            .args(["node", "--database", &self.url, "--ledger"])
            .arg(self.folder.join(number.to_string()))
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start a worker process")
    }

    /// Kills a worker now and then, spread over the run, and starts another in its place.
    async fn kill_some(&self, arguments: &ReplayArguments, run: Duration) -> anyhow::Result<usize> {
        if arguments.nodes <= 1 || arguments.kill == 0 {
            return Ok(0);
        }
        tokio::time::sleep(LEAD).await;
        let pause = run / u32::try_from(arguments.kill + 1)?;
        for n in 0..arguments.kill {
            tokio::time::sleep(pause).await;
            let mut children = self.children.lock().await;
            let victim = n % children.len();
            children[victim].kill().await?;
            children[victim] = self.spawn()?;
        }
        Ok(arguments.kill)
    }

    /// Ends the workers in order: their standard input closes and they shut down.
    async fn stop(&self) -> anyhow::Result<()> {
        for mut child in self.children.lock().await.drain(..) {
            drop(child.stdin.take());
            child.wait().await?;
        }
        Ok(())
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn print(arguments: &ReplayArguments, report: &Report) -> anyhow::Result<()> {
    if arguments.json {
        println!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    let line = |name: &str, p: &Percentiles| {
        println!(
            "{name:<22} p50 {:>8.2}   p99 {:>8.2}   p99.9 {:>8.2}   max {:>8.2} ms",
            p.p50, p.p99, p.p999, p.max
        );
    };
    println!(
        "submitted {}   executed {}   lost {}   duplicated {}",
        report.submitted, report.executed, report.lost, report.duplicated
    );
    println!(
        "kills {}   unexplained starts {}",
        report.kills, report.unexplained_starts
    );
    line("lateness of tasks", &report.lateness_ms);
    line("lateness of bare timers", &report.timer_ms);
    Ok(())
}
