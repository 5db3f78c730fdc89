//! Measures ax on a machine: real arrivals replayed, and throughput beside a plain loop of the same statements.
//!
//! ```text
//! ax-bench replay FILE.csv [--speed N] [--database URL] [--nodes N] [--kill K] [--json]
//! ax-bench throughput [--database URL] [--json]
//! ```
//! Each figure of ax stands beside a figure of the same run that bounds it from below: bare timers for punctuality, the
//! bare statements for throughput. Quote the ratios; the absolute figures are the machine's.

mod arrivals;
mod database;
mod figures;
mod ledger;
mod node;
mod replay;
mod throughput;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "ax-bench", about = "Measures ax on this machine")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replays arrivals as delayed tasks and measures how late they start.
    Replay(ReplayArguments),
    /// Measures submits, drain and the whole cycle beside a plain loop of the same statements.
    Throughput(ThroughputArguments),
    /// One worker process of a replay with several nodes.
    #[command(hide = true)]
    Node(NodeArguments),
}

/// What a replay is given.
#[derive(clap::Args, Clone)]
struct ReplayArguments {
    /// A CSV file with a header, gzipped or not; its first column is the arrival in milliseconds.
    file: PathBuf,
    /// How many times faster than recorded.
    #[arg(long, default_value_t = 60.0)]
    speed: f64,
    /// The database; a fresh SQLite file when not given. On PostgreSQL a database is made for the run and dropped.
    #[arg(long)]
    database: Option<String>,
    /// Worker processes; 1 runs the tasks in this process.
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// How often a random worker is killed (SIGKILL) and replaced during the run.
    #[arg(long, default_value_t = 0)]
    kill: usize,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

/// What a throughput run is given.
#[derive(clap::Args, Clone)]
struct ThroughputArguments {
    /// The database; a fresh SQLite file when not given. On PostgreSQL a database is made for the run and dropped.
    #[arg(long)]
    database: Option<String>,
    /// Waiting tasks of the drain, and tasks of the cycle.
    #[arg(long, default_value_t = 100_000)]
    tasks: usize,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

/// What a worker process is given.
#[derive(clap::Args, Clone)]
struct NodeArguments {
    /// The database of the run.
    #[arg(long)]
    database: String,
    /// Where it records what it ran.
    #[arg(long)]
    ledger: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match Arguments::parse().command {
        Command::Replay(arguments) => replay::run(arguments).await,
        Command::Throughput(arguments) => throughput::run(arguments).await,
        Command::Node(arguments) => node::run(arguments).await,
    }
}
