//! `kill-harness`: kills processes that embed ax, and says as JSON whether anything went wrong.
//!
//! One line of JSON per database on stdout, what is under way on stderr. Exit code 0: nothing was violated; 1: something
//! was; 2: the run could not be made, or was interrupted. Started with `worker` as its first argument it is one of those
//! processes.

mod jobs;
mod worker;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use ax_tests::kill::verdict::Verdict;
use ax_tests::kill::{self, Database, Plan};
use clap::{Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Kills processes that embed ax, and says as JSON whether anything was lost, done twice, or started without a reason.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    role: Option<Role>,
    /// Where to run
    #[arg(long, value_enum, default_value_t = Databases::Both)]
    database: Databases,
    /// Workers killed with SIGKILL [default: 100 on PostgreSQL, 50 on SQLite]
    #[arg(long)]
    kills: Option<u32>,
    /// Workers stopped for 0.5, 1 and 3 leases [default: 50 on PostgreSQL, 10 on SQLite]
    #[arg(long)]
    pauses: Option<u32>,
    /// Connections cut between a commit and its reply [default: 200 on PostgreSQL; SQLite has none]
    #[arg(long)]
    cuts: Option<u32>,
    /// Tasks in a second, all submitters together [default: 200 on PostgreSQL, 100 on SQLite]
    #[arg(long)]
    tasks_per_second: Option<f64>,
    /// Worker processes at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..))]
    nodes: u16,
    /// What chooses faults and load [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Keeps database, ledgers and logs
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Is one of the processes that are killed
    #[command(hide = true)]
    Worker(worker::Options),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Databases {
    Postgres,
    Sqlite,
    Both,
}

impl Databases {
    fn each(self) -> &'static [Database] {
        match self {
            Databases::Postgres => &[Database::Postgres],
            Databases::Sqlite => &[Database::Sqlite],
            Databases::Both => &[Database::Postgres, Database::Sqlite],
        }
    }
}

impl Options {
    fn plan(&self, database: Database, seed: u64) -> anyhow::Result<Plan> {
        let (kills, pauses, cuts, rate) = match database {
            Database::Postgres => (100, 50, self.cuts.unwrap_or(200), 200.0),
            Database::Sqlite => (50, 10, 0, 100.0),
        };
        Ok(Plan {
            database,
            kills: self.kills.unwrap_or(kills),
            pauses: self.pauses.unwrap_or(pauses),
            cuts,
            rate: self.tasks_per_second.unwrap_or(rate),
            nodes: self.nodes.into(),
            seed,
            program: std::env::current_exe()?,
            keep: self.keep,
        })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let answer = match options.role {
        Some(Role::Worker(options)) => worker::run(options).await.map(|()| ExitCode::SUCCESS),
        None => torture(&options).await,
    };
    answer.unwrap_or_else(|error| {
        eprintln!("failed: {error:#}");
        ExitCode::from(2)
    })
}

async fn torture(options: &Options) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    tokio::spawn(interrupted(stop.clone()));
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let seed = options.seed.unwrap_or(u64::try_from(time)?);
    let mut code = ExitCode::SUCCESS;
    for database in options.database.each() {
        let verdict = kill::run(&options.plan(*database, seed)?, &stop).await?;
        println!("{}", serde_json::to_string(&verdict)?);
        explain(&verdict);
        if !verdict.ok {
            code = ExitCode::from(1);
        }
    }
    Ok(code)
}

fn explain(verdict: &Verdict) {
    for complaint in &verdict.complaints {
        eprintln!("{}: {complaint}", verdict.database);
    }
}

/// Ends the run in order at the first Ctrl-C or SIGTERM.
async fn interrupted(stop: CancellationToken) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        eprintln!(
            "signals cannot be caught: an interruption will leave files and a database behind"
        );
        return;
    };
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    eprintln!("interrupted: ending the workers and taking the database away");
    stop.cancel();
}
