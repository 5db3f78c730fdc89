//! Whole clusters in simulated worlds: no seed breaks a rule, and a seed repeats.
//!
//! `AX_SIM_SECONDS` sets the time for seeds (5 by default), `AX_SIM_FIRST` the first one, `AX_SIM_SEED` runs one of them and
//! prints all that happened.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ax_tests::sim::{Options, Report, run};

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

fn told(report: &Report) -> String {
    let violation = report
        .violation
        .as_ref()
        .map_or("all rules hold".to_owned(), ToString::to_string);
    let Report {
        seed,
        tasks,
        starts,
        trace,
        ..
    } = report;
    format!(
        "{trace}\nseed {seed}: {tasks} tasks, {starts} starts: {violation}\nrun it again with AX_SIM_SEED={seed}"
    )
}

fn world(seed: u64, events: usize) -> Report {
    run(Options {
        seed,
        mutation: None,
        events,
    })
}

#[test]
fn a_seed_repeats_itself() {
    for seed in 1..=3 {
        let (first, second) = (world(seed, 0), world(seed, 0));
        assert!(
            first.events > 1_000,
            "too little happened to tell: {}",
            first.events
        );
        assert_eq!(
            (first.hash, first.events),
            (second.hash, second.events),
            "seed {seed}"
        );
    }
    assert_ne!(world(1, 0).hash, world(2, 0).hash);
}

/// What must have happened somewhere in many worlds: a rule that nothing tries proves nothing.
const HAPPENED: &[&str] = &[
    "AbandonShards",
    "DeleteLost",
    "InsertBorn",
    "InsertDead",
    "InsertMissing",
    "KeepKeys",
    "MarkCancel",
    "MarkDead",
    "MoveShard",
    "ReadAttempt",
    "ReplaceTask",
    "Requeue",
    "RequeueLost",
    "Reschedule",
    "ResolveDead",
    "RunningOf",
    "TakeKey",
    "ended: dropped",
    "ended: obeyed",
    "ended: panicked",
    "failed: deadlock",
    "failed: lost",
    "fault: clock jump",
    "fault: deploy",
    "fault: kill",
    "fault: outage",
    "fault: partition ends",
    "fault: stall ends",
    "fault: thaw",
];

/// From so many worlds on all of it must have happened.
const MANY: u64 = 100;

/// What many worlds came to.
#[derive(Default)]
struct Sum {
    next: u64,
    seeds: u64,
    lived: Duration,
    starts: usize,
    seen: BTreeMap<String, u64>,
    broken: Option<Report>,
}

impl Sum {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.lived += report.lived;
        self.starts += report.starts;
        report
            .seen
            .iter()
            .for_each(|(what, n)| *self.seen.entry(what.clone()).or_default() += n);
        if report.violation.is_some() {
            self.broken.get_or_insert(report);
        }
    }
}

#[test]
fn no_seed_breaks_a_rule() {
    if let Some(seed) = variable("AX_SIM_SEED") {
        let report = world(seed, 1_000_000);
        println!("{}", told(&report));
        assert!(report.violation.is_none());
        return;
    }
    let budget = Duration::from_secs(variable("AX_SIM_SECONDS").unwrap_or(5));
    let sum = Mutex::new(Sum {
        next: variable("AX_SIM_FIRST").unwrap_or(1),
        ..Sum::default()
    });
    let began = Instant::now();
    let next = || {
        let mut sum = sum.lock().unwrap();
        sum.next += 1;
        (sum.broken.is_none() && began.elapsed() < budget).then_some(sum.next - 1)
    };
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while let Some(seed) = next() {
                    let report = world(seed, 400);
                    sum.lock().unwrap().add(report);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap();
    let (seconds, lived) = (began.elapsed().as_secs_f64(), sum.lived.as_secs());
    println!(
        "{} seeds in {seconds:.1} s: {lived} virtual seconds, {} handlers started",
        sum.seeds, sum.starts
    );
    println!("{:?}", sum.seen);
    if let Some(report) = &sum.broken {
        panic!("{}", told(report));
    }
    let missing: Vec<_> = HAPPENED
        .iter()
        .filter(|what| !sum.seen.contains_key(**what))
        .collect();
    assert!(
        sum.seeds < MANY || missing.is_empty(),
        "in {} worlds there was no {missing:?}",
        sum.seeds
    );
}
