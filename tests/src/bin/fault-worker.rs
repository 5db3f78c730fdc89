//! `fault-worker`: a process that embeds ax and has jobs that kill it. Started by fault cases only.
//!
//! What enters: a database and a lease by environment variables; then on stdin `load N` (submits N timers that are due
//! from half a second to one and a half from now) or `die`. What leaves: `ready`, `loaded` and what handlers say, on
//! stdout. It ends when stdin ends, so that it never outlives its case.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use ax_sdk::Ax;
use ax_sdk::prelude::*;
use ax_tests::faults::{DATABASE, LEASE_MS};

/// Kills its process.
#[ax_job(name = "worker.poison")]
async fn poison() -> JobResult<()> {
    say("poisoned");
    std::process::abort()
}

/// Works until its process ends, whatever it is asked.
#[ax_job(name = "worker.linger", timeout = "10m")]
async fn linger() -> JobResult<()> {
    say("lingering");
    std::future::pending().await
}

/// A timer.
#[ax_job(name = "faults.note")]
async fn note(text: String) -> JobResult<u32> {
    Ok(u32::try_from(text.len())?)
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    // A case that has failed no longer listens.
    let _gone = writeln!(out, "{word}").and_then(|()| out.flush());
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var(DATABASE).with_context(|| format!("{DATABASE} names no database"))?;
    let lease = std::env::var(LEASE_MS).with_context(|| format!("{LEASE_MS} names no lease"))?;
    let lease = Duration::from_millis(lease.parse()?);
    let builder = Ax::builder(url)
        .only_given_jobs()
        .job(poison::JOB)
        .job(linger::JOB)
        .job(note::JOB);
    let ax = builder
        .configure(|config| {
            config.lease = lease;
            config.beat = lease / 4;
            config.poll_max = Duration::from_millis(200);
        })
        .start()
        .await?;
    say("ready");
    let (tell, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _gone = tell.send(line);
        }
    });
    while let Some(order) = orders.recv().await {
        match order.split_once(' ') {
            Some(("load", n)) => load(&ax, n.parse()?).await?,
            _ => std::process::abort(),
        }
    }
    Ok(())
}

/// Submits `n` timers: they are in the wheel of this node when this returns.
async fn load(ax: &Ax, n: u64) -> anyhow::Result<()> {
    let first = ax.now().plus(Duration::from_millis(500));
    let at = |k: u64| first.plus(Duration::from_millis(k * 1_000 / n));
    for submitted in ax
        .submit_many((0..n).map(|k| note::task(format!("timer {k:04}")).at(at(k))))
        .await
    {
        submitted?;
    }
    say("loaded");
    Ok(())
}
