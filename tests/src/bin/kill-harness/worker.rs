//! A process that embeds ax, to be killed.
//!
//! What enters: a database, a ledger, a rate; later the word `quiet` on stdin, then its end. What leaves: tasks submitted
//! and run, with every step in the ledger. It ends in order when stdin ends, so that it never outlives the harness.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use ax_sdk::{Ax, ErrorKind};
use ax_tests::kill::fleet::{DATABASE, QUIET};
use ax_tests::kill::ledger::Ledger;
use ax_tests::kill::load::Submitter;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::jobs;

/// How a worker is started.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Its name in labels
    #[arg(long)]
    name: String,
    /// The file it writes down what it does in
    #[arg(long)]
    ledger: PathBuf,
    /// Tasks in a second that it submits
    #[arg(long)]
    tasks_per_second: f64,
    /// Its lease
    #[arg(long)]
    lease_ms: u64,
    /// Chooses what it submits
    #[arg(long)]
    seed: u64,
}

/// What the harness wants of this process.
struct Orders {
    quiet: CancellationToken,
    end: CancellationToken,
}

/// Works until stdin ends.
///
/// # Errors
///
/// When the engine does not start for a reason that another try does not mend.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    jobs::panic_in_silence();
    let orders = listen();
    let ledger = Ledger::create(&options.ledger)?;
    let url = std::env::var(DATABASE).with_context(|| format!("{DATABASE} names no database"))?;
    let Some(ax) = start(&url, &options, &ledger, &orders).await? else {
        return Ok(());
    };
    if options.tasks_per_second > 0.0 {
        let submitter = Submitter {
            ax: ax.clone(),
            ledger,
            name: options.name,
            seed: options.seed,
            rate: options.tasks_per_second,
        };
        submitter.run(orders.quiet.clone()).await;
    }
    orders.quiet.cancelled().await;
    println!("{QUIET}");
    orders.end.cancelled().await;
    ax.shutdown().await;
    Ok(())
}

/// Starts the engine; a database that is out of reach for a moment is asked again, as whoever supervises a service would.
async fn start(
    url: &str,
    options: &Options,
    ledger: &Ledger,
    orders: &Orders,
) -> anyhow::Result<Option<Ax>> {
    let lease = Duration::from_millis(options.lease_ms);
    loop {
        let builder = Ax::builder(url)
            .state(ledger.clone())
            .app("kill-worker", &options.name)
            .configure(|config| {
                config.lease = lease;
                config.beat = lease / 4;
                config.grace = Duration::from_secs(1);
                config.shutdown = Duration::from_secs(5);
            });
        match builder.start().await {
            Ok(ax) => return Ok(Some(ax)),
            Err(error) if passes(error.kind()) => eprintln!("start is tried again: {error}"),
            Err(error) => return Err(error.into()),
        }
        if timeout(Duration::from_millis(200), orders.end.cancelled())
            .await
            .is_ok()
        {
            return Ok(None);
        }
    }
}

fn passes(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::Database | ErrorKind::Timeout
    )
}

fn listen() -> Orders {
    let orders = Orders {
        quiet: CancellationToken::new(),
        end: CancellationToken::new(),
    };
    let (quiet, end) = (orders.quiet.clone(), orders.end.clone());
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line == QUIET {
                quiet.cancel();
            }
        }
        quiet.cancel();
        end.cancel();
    });
    orders
}
