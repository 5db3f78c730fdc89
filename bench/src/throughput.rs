//! Throughput of ax beside a plain loop of the same statements, in the same run on databases of the same kind.
//!
//! The plain loop calls the store's verbs one after the other, in full batches on one connection (32 connections for the
//! single submits by 32 callers), without engine, wheel, lanes or handlers: what the database itself can do with exactly
//! these statements.

mod plain;
mod sdk;

use std::time::Duration;

use serde::Serialize;

use crate::ThroughputArguments;
use crate::database::Database;
use crate::figures::{Rate, Two, two};

/// Single submits that are measured.
const SINGLES: usize = 2_000;
/// Slices that submits are measured in, by turns.
const SLICES: usize = 10;
/// Callers at once.
const CALLERS: usize = 32;
/// Single tasks whose way from submit to start is measured.
const PICKUPS: usize = 500;

#[derive(Serialize)]
struct Report {
    submit_1: Rate,
    submit_32: Rate,
    bulk: Rate,
    drain: Rate,
    cycle: Rate,
    pickup_ms: Two,
    commit_ms: Two,
}

/// Measures and prints.
pub(crate) async fn run(arguments: ThroughputArguments) -> anyhow::Result<()> {
    let (url, tasks) = (arguments.database.as_deref(), arguments.tasks);
    let submits = submits(url, tasks).await?;

    let database = Database::fresh(url).await?;
    let raw = plain::Plain::open(&database.url).await?;
    raw.fill(tasks).await?;
    let raw_drain = raw.drain(tasks).await?;
    let raw_cycle = raw.cycle(tasks).await?;
    drop(raw);
    database.remove().await?;

    let database = Database::fresh(url).await?;
    let ax_drain = sdk::drain(&database.url, tasks).await?;
    let ax_cycle = sdk::cycle(&database.url, tasks).await?;
    let pickups = sdk::pickups(&database.url, PICKUPS).await?;
    database.remove().await?;

    let [submit_1, submit_32, bulk] = submits.rates;
    let report = Report {
        submit_1,
        submit_32,
        bulk,
        drain: Rate::new(tasks, ax_drain, raw_drain),
        cycle: Rate::new(tasks, ax_cycle, raw_cycle),
        pickup_ms: two(pickups),
        commit_ms: two(submits.commits),
    };
    print(&arguments, &report)
}

struct Submits {
    rates: [Rate; 3],
    commits: Vec<i64>,
}

/// Measures submits in slices by turns, because the time of a commit changes from second to second.
async fn submits(url: Option<&str>, tasks: usize) -> anyhow::Result<Submits> {
    let (of_raw, of_ax) = (Database::fresh(url).await?, Database::fresh(url).await?);
    let raw = plain::Plain::open(&of_raw.url).await?;
    let ax = sdk::submitter(&of_ax.url).await?;
    let (singles, many, bulk) = (SINGLES / SLICES, SINGLES * 4 / SLICES, tasks / SLICES);
    let mut took = [[Duration::ZERO; 2]; 3];
    let mut commits = Vec::new();
    for _ in 0..SLICES {
        let (time, each) = raw.submit_one_by_one(singles).await?;
        commits.extend(each);
        took[0][1] += time;
        took[0][0] += sdk::submit_one_by_one(&ax, singles).await?;
        took[1][1] += raw.submit_by_callers(CALLERS, many).await?;
        took[1][0] += sdk::submit_by_callers(&ax, CALLERS, many).await?;
        took[2][1] += raw.submit_bulk(bulk).await?;
        took[2][0] += sdk::submit_bulk(&ax, bulk).await?;
    }
    ax.shutdown().await;
    drop(raw);
    of_raw.remove().await?;
    of_ax.remove().await?;
    let rate = |n: usize, [ax, raw]: [Duration; 2]| Rate::new(n * SLICES, ax, raw);
    Ok(Submits {
        rates: [
            rate(singles, took[0]),
            rate(many, took[1]),
            rate(bulk, took[2]),
        ],
        commits,
    })
}

fn print(arguments: &ThroughputArguments, report: &Report) -> anyhow::Result<()> {
    if arguments.json {
        println!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    let line = |name: &str, rate: &Rate| {
        println!(
            "{name:<24} ax {:>9} /s   plain loop {:>9} /s   ratio {:>5.2}",
            rate.ax, rate.raw, rate.ratio
        );
    };
    line("submit, 1 caller", &report.submit_1);
    line("submit, 32 callers", &report.submit_32);
    line("submit, bulk", &report.bulk);
    line("drain", &report.drain);
    line("cycle", &report.cycle);
    println!(
        "submit to start          p50 {:.2} ms   p99 {:.2} ms",
        report.pickup_ms.p50, report.pickup_ms.p99
    );
    println!(
        "one commit               p50 {:.2} ms   p99 {:.2} ms",
        report.commit_ms.p50, report.commit_ms.p99
    );
    Ok(())
}
