//! The replayed job, and a worker process that runs it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ax_sdk::prelude::*;
use ax_sdk::{Ax, State};

use crate::NodeArguments;
use crate::ledger::{Ledger, Start};

/// Notes how late it starts.
#[ax_job(name = "bench.arrival")]
pub(crate) async fn arrival(
    due_us: i64,
    ctx: JobContext,
    ledger: State<Arc<Ledger>>,
) -> JobResult<()> {
    let start = Start {
        fence: ctx.fence(),
        late: wall_micros() - due_us,
    };
    ledger.start(ctx.task_id(), start)?;
    Ok(())
}

/// Microseconds of the wall clock: the measure of what users see, not of anything that ax decides by.
pub(crate) fn wall_micros() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Starts a node that runs the job and records into a ledger.
pub(crate) async fn start(database: &str, ledger: Ledger) -> Result<Ax, ax_sdk::Error> {
    let quick = |config: &mut ax_sdk::Config| {
        config.lease = Duration::from_secs(4);
        config.beat = Duration::from_secs(1);
    };
    Ax::builder(database)
        .only_given_jobs()
        .job(arrival::JOB)
        .state(Arc::new(ledger))
        .configure(quick)
        .start()
        .await
}

/// Runs until it is killed or its standard input ends.
pub(crate) async fn run(arguments: NodeArguments) -> anyhow::Result<()> {
    let ax = start(&arguments.database, Ledger::open(&arguments.ledger)?).await?;
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await??;
    ax.shutdown().await;
    Ok(())
}
