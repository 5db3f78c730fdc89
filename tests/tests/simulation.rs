//! Whole clusters in simulated worlds: no seed breaks a rule, and a seed repeats.
//!
//! `AX_SIM_SECONDS` sets the time for seeds (5 by default), `AX_SIM_SEED` runs one of them and prints what happened.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ax_tests::sim::{Options, Report, run};

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn told(report: &Report) -> String {
    let violation = report.violation.as_ref().map_or("all rules hold".to_owned(), ToString::to_string);
    let (tasks, starts) = (report.tasks, report.starts);
    format!("{}\nseed {}: {tasks} tasks, {starts} starts: {violation}\nrun it again with AX_SIM_SEED={}", report.trace, report.seed, report.seed)
}

fn world(seed: u64) -> Report {
    let events = if variable("AX_SIM_SEED").is_some() { 1_000_000 } else { 400 };
    run(Options { seed, mutation: None, events })
}

#[test]
fn a_seed_repeats_itself() {
    for seed in 1..=3 {
        let (first, second) = (world(seed), world(seed));
        assert!(first.events > 1_000, "too little happened to tell: {}", first.events);
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
    }
    assert_ne!(world(1).hash, world(2).hash);
}

#[test]
fn no_seed_breaks_a_rule() {
    if let Some(seed) = variable("AX_SIM_SEED") {
        let report = world(seed);
        println!("{}", told(&report));
        assert!(report.violation.is_none());
        return;
    }
    let budget = Duration::from_secs(variable("AX_SIM_SECONDS").unwrap_or(5));
    let first = variable("AX_SIM_FIRST").unwrap_or(1);
    let (next, lived) = (AtomicU64::new(first), AtomicU64::new(0));
    let broken: Mutex<Vec<Report>> = Mutex::default();
    let began = Instant::now();
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while began.elapsed() < budget && broken.lock().unwrap().is_empty() {
                    let report = world(next.fetch_add(1, Ordering::Relaxed));
                    lived.fetch_add(report.lived.as_secs(), Ordering::Relaxed);
                    if report.violation.is_some() {
                        broken.lock().unwrap().push(report);
                    }
                }
            });
        }
    });
    let (seeds, lived) = (next.into_inner() - first, lived.into_inner());
    println!("{seeds} seeds in {:.1} s, {lived} virtual seconds", began.elapsed().as_secs_f64());
    if let Some(report) = broken.into_inner().unwrap().first() {
        panic!("{}", told(report));
    }
}
