//! The measured side: a service that embeds ax.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ax_sdk::prelude::*;
use ax_sdk::{Ax, Config, Roles, State, Submission};

use crate::node::wall_micros;

/// Slots of the measured node: no-op handlers need no thought about overload.
const SLOTS: usize = 2_048;
/// Tasks of one bulk submit.
const BULK: usize = 1_000;
/// Tasks that may be under way in the cycle.
const UNDER_WAY: usize = 4_096;
/// Producers of the cycle.
const PRODUCERS: usize = 8;
/// A delay past the end of every run.
const FAR: Duration = Duration::from_secs(86_400);

/// Does nothing.
#[ax_job(name = "bench.noop")]
async fn noop(n: i64) -> JobResult<()> {
    let _ = n;
    Ok(())
}

/// Notes how long after its submit it starts.
#[ax_job(name = "bench.pickup")]
async fn pickup(sent_us: i64, times: State<Arc<std::sync::Mutex<Vec<i64>>>>) -> JobResult<()> {
    times
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .push(wall_micros() - sent_us);
    Ok(())
}

async fn start(url: &str, change: impl FnOnce(&mut Config)) -> anyhow::Result<Ax> {
    let times: Arc<std::sync::Mutex<Vec<i64>>> = Arc::default();
    start_with(url, times, change).await
}

async fn start_with(
    url: &str,
    times: Arc<std::sync::Mutex<Vec<i64>>>,
    change: impl FnOnce(&mut Config),
) -> anyhow::Result<Ax> {
    let wide = |config: &mut Config| {
        config.async_slots = SLOTS;
        change(config);
    };
    let jobs = Ax::builder(url)
        .only_given_jobs()
        .job(noop::JOB)
        .job(pickup::JOB);
    Ok(jobs.state(times).configure(wide).start().await?)
}

fn far(n: usize) -> Submission<()> {
    noop::task(n as i64).delay(FAR)
}

/// A node to submit to.
pub(crate) async fn submitter(url: &str) -> anyhow::Result<Ax> {
    start(url, |_| {}).await
}

/// Single submits by one caller.
pub(crate) async fn submit_one_by_one(ax: &Ax, n: usize) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    for i in 0..n {
        ax.submit(far(i)).await?;
    }
    Ok(begun.elapsed())
}

/// Single submits by many callers at once.
pub(crate) async fn submit_by_callers(
    ax: &Ax,
    callers: usize,
    n: usize,
) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let ax = ax.clone();
        set.spawn(async move { submit_one_by_one(&ax, n / callers).await });
    }
    for done in set.join_all().await {
        done?;
    }
    Ok(begun.elapsed())
}

/// Bulk submits.
pub(crate) async fn submit_bulk(ax: &Ax, n: usize) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    for chunk in 0..n.div_ceil(BULK) {
        let rows = (chunk * BULK..n.min((chunk + 1) * BULK)).map(far);
        for answer in ax.submit_many(rows).await {
            answer?;
        }
    }
    Ok(begun.elapsed())
}

/// From the start of a node to the last outcome of the tasks that waited for it.
pub(crate) async fn drain(url: &str, n: usize) -> anyhow::Result<Duration> {
    let filler = start(url, |config| {
        config.roles = Roles {
            trigger: false,
            execute: false,
        }
    })
    .await?;
    for chunk in 0..n.div_ceil(BULK) {
        let rows = (chunk * BULK..n.min((chunk + 1) * BULK)).map(|i| noop::task(i as i64));
        for answer in filler.submit_many(rows).await {
            answer?;
        }
    }
    filler.shutdown().await;
    let begun = Instant::now();
    let ax = start(url, |_| {}).await?;
    settled(&ax, n).await;
    let took = begun.elapsed();
    ax.shutdown().await;
    Ok(took)
}

/// Submit, run and settle, with several producers and a bounded number of tasks under way.
pub(crate) async fn cycle(url: &str, n: usize) -> anyhow::Result<Duration> {
    let ax = start(url, |_| {}).await?;
    let sent = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..PRODUCERS {
        let (ax, sent) = (ax.clone(), sent.clone());
        producers.spawn(async move { produce(&ax, &sent, n).await });
    }
    for done in producers.join_all().await {
        done?;
    }
    settled(&ax, n).await;
    let took = begun.elapsed();
    ax.shutdown().await;
    Ok(took)
}

async fn produce(ax: &Ax, sent: &AtomicUsize, n: usize) -> anyhow::Result<()> {
    const CHUNK: usize = 250;
    loop {
        let from = sent.fetch_add(CHUNK, Ordering::Relaxed);
        if from >= n {
            return Ok(());
        }
        while from > UNDER_WAY + ax.stats().settled as usize {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for answer in ax
            .submit_many((from..n.min(from + CHUNK)).map(|i| noop::task(i as i64)))
            .await
        {
            answer?;
        }
    }
}

async fn settled(ax: &Ax, n: usize) {
    while (ax.stats().settled as usize) < n {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Microseconds from the call of submit to the start of the handler, one task at a time.
pub(crate) async fn pickups(url: &str, n: usize) -> anyhow::Result<Vec<i64>> {
    let times: Arc<std::sync::Mutex<Vec<i64>>> = Arc::default();
    let ax = start_with(url, times.clone(), |_| {}).await?;
    for _ in 0..n {
        ax.submit(pickup::task(wall_micros()))
            .await?
            .outcome()
            .await?;
    }
    ax.shutdown().await;
    let times = times
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(times.clone())
}
