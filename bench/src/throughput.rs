//! Throughput of ax beside a plain loop of the same statements, in the same run on databases of the same kind.
//!
//! The plain loop calls the store's verbs one after the other, in full batches on one connection (32 connections for the
//! single submits by 32 callers), without engine, wheel, lanes or handlers: what the database itself can do with exactly
//! these statements.

mod plain;
mod sdk;

use serde::Serialize;

use crate::ThroughputArguments;
use crate::database::Database;
use crate::figures::{Rate, Two, two};

/// Single submits that are measured.
const SINGLES: usize = 2_000;
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
    let url = arguments.database.as_deref();
    let tasks = arguments.tasks;

    let database = Database::fresh(url).await?;
    let raw = plain::Plain::open(&database.url).await?;
    let (raw_1, commits) = raw.submit_one_by_one(SINGLES).await?;
    let raw_32 = raw.submit_by_callers(CALLERS, SINGLES * 4).await?;
    let raw_bulk = raw.submit_bulk(tasks).await?;
    drop(raw);
    database.remove().await?;

    let database = Database::fresh(url).await?;
    let raw = plain::Plain::open(&database.url).await?;
    raw.fill(tasks).await?;
    let raw_drain = raw.drain(tasks).await?;
    let raw_cycle = raw.cycle(tasks).await?;
    drop(raw);
    database.remove().await?;

    let database = Database::fresh(url).await?;
    let ax_1 = sdk::submit_one_by_one(&database.url, SINGLES).await?;
    let ax_32 = sdk::submit_by_callers(&database.url, CALLERS, SINGLES * 4).await?;
    let ax_bulk = sdk::submit_bulk(&database.url, tasks).await?;
    database.remove().await?;

    let database = Database::fresh(url).await?;
    let ax_drain = sdk::drain(&database.url, tasks).await?;
    let ax_cycle = sdk::cycle(&database.url, tasks).await?;
    let pickups = sdk::pickups(&database.url, PICKUPS).await?;
    database.remove().await?;

    print(
        &arguments,
        &Report {
            submit_1: Rate::new(SINGLES, ax_1, raw_1),
            submit_32: Rate::new(SINGLES * 4, ax_32, raw_32),
            bulk: Rate::new(tasks, ax_bulk, raw_bulk),
            drain: Rate::new(tasks, ax_drain, raw_drain),
            cycle: Rate::new(tasks, ax_cycle, raw_cycle),
            pickup_ms: two(pickups),
            commit_ms: two(commits),
        },
    )
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
