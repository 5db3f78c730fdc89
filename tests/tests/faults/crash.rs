//! Processes that die, with what they hold in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{JobName, NewTask, Priority, TaskId, Timestamp};
use ax_engine::wheel::{Due, Wheel};
use ax_sdk::{AttemptEnd, CancelResult, OnLost, Outcome, Roles, TaskState};
use ax_tests::databases::TestDatabase;
use ax_tests::fault_cases;
use ax_tests::faults::{FaultyNode, Setup, Stage, Worker, lasts, until};

use crate::jobs::{JOBS, note};

fault_cases! {
    case_c13_timers_in_the_wheel_of_a_killed_node_fire_on_another,
    case_c13_a_timer_added_as_its_slot_drains_fires,
    case_c22_a_task_that_kills_its_process_is_a_dead_letter_in_the_end,
    case_c22_a_task_that_kills_its_process_is_canceled_while_it_runs,
    case_c22_a_task_that_must_not_run_twice_kills_one_process,
}

const WORKER: &str = env!("CARGO_BIN_EXE_fault-worker");
const TIMERS: i64 = 1_000;

async fn case_c13_timers_in_the_wheel_of_a_killed_node_fire_on_another(db: &TestDatabase) {
    let mut worker = Worker::start(WORKER, db.url(), Duration::from_secs(1)).await;
    worker.tell(&format!("load {TIMERS}")).await;
    worker.said("loaded").await;
    // Inside the window: some have fired, some are claimed, most are only in its wheel.
    until("the first timers", async || {
        (db.number("SELECT COUNT(*) FROM ax_history").await >= 50).then_some(())
    })
    .await;
    worker.kill().await;
    let left = db.number("SELECT COUNT(*) FROM ax_task").await;
    assert!(left > 0, "it was killed too late to show anything");

    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    until("all outcomes", async || {
        (db.number("SELECT COUNT(*) FROM ax_task").await == 0).then_some(())
    })
    .await;
    // The worker joined first, and has the first inbox.
    let here = "SELECT COUNT(*) FROM ax_history \
                WHERE node NOT IN (SELECT id FROM ax_node WHERE inbox = 1024)";
    let ran = stage.all("timer").await;
    assert_eq!(db.number(here).await, i64::try_from(ran.len()).unwrap());
    let texts: BTreeSet<&str> = ran.iter().map(|note| &note[..10]).collect();
    assert_eq!(texts.len(), ran.len(), "none twice");
    let sql = "SELECT COUNT(DISTINCT id) FROM ax_history WHERE state = 3 AND attempt = lost + 1 AND fence = attempt";
    assert_eq!(
        db.number(sql).await,
        TIMERS,
        "every timer has fired, and every attempt too many was a lost one"
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_history").await, TIMERS);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_history WHERE claimed_at < ready_at")
            .await,
        0,
        "none early"
    );
    node.shutdown().await;
}

/// Without polls that would find what the wheel had lost.
async fn case_c13_a_timer_added_as_its_slot_drains_fires(db: &TestDatabase) {
    let stage = Stage::default();
    let setup = Setup::new(db, &stage, &JOBS).configure(|config| {
        config.poll_min = Duration::from_secs(120);
        config.poll_max = Duration::from_secs(120);
        config.recheck = Duration::from_secs(120);
    });
    let node = Arc::new(setup.start().await);
    until("its shards", async || {
        (node.engine().node().owned().len() == 1_024).then_some(())
    })
    .await;
    // The looks of the start are over when none has followed for a while.
    let mut polls = 0;
    while std::mem::replace(&mut polls, node.stats().polls) != polls || polls == 0 {
        lasts(Duration::from_millis(300)).await;
    }
    // Each submit takes about as long as its timer: the slot drains before, while and after the entry is added.
    let submitters = (0..8).map(|lane| {
        let node = node.clone();
        tokio::spawn(async move {
            for n in 0..50 {
                let at = node
                    .engine()
                    .node()
                    .now()
                    .plus(Duration::from_millis(n % 5));
                node.submit(note::task(format!("timer {lane} {n}")).at(at))
                    .await;
            }
        })
    });
    for submitter in submitters.collect::<Vec<_>>() {
        submitter.await.unwrap();
    }
    stage.noted("timer", 400).await;
    assert_eq!(node.stats().polls, polls, "no poll helped");
    until("all outcomes", async || {
        (db.number("SELECT COUNT(*) FROM ax_task").await == 0).then_some(())
    })
    .await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_history WHERE fence = 1 AND claimed_at >= ready_at")
            .await,
        400
    );
    Arc::into_inner(node).unwrap().shutdown().await;
}

/// The wheel alone: at every kind of boundary, an entry that comes as its slot is drained.
#[test]
fn case_c13_an_entry_added_while_its_slot_drains_is_emitted() {
    let due = |n: u8, at: i64| Due {
        id: TaskId::from_bytes([n; 16]),
        ready_at: Timestamp::from_millis(at),
        job: 0,
        shard: 0,
        priority: Priority::default(),
    };
    let blocks = [
        1_i64,
        64,
        64 * 64,
        64 * 64 * 64,
        64_i64.pow(4),
        64_i64.pow(5),
        64_i64.pow(6),
    ];
    for instant in blocks
        .iter()
        .flat_map(|block| [block - 1, *block, block + 1, 7 * block])
    {
        for late in 0..3 {
            let mut wheel = Wheel::new(Timestamp::from_millis(0));
            let mut out = Vec::new();
            wheel.insert(due(1, instant));
            wheel.insert(due(2, instant + 1));
            wheel.poll(Timestamp::from_millis(instant), &mut out);
            wheel.insert(due(3, instant - late));
            wheel.insert(due(4, instant + 1));
            wheel.poll(Timestamp::from_millis(instant), &mut out);
            let emitted: Vec<u8> = out.iter().map(|due| due.id.as_bytes()[0]).collect();
            assert_eq!(emitted, [1, 3], "at {instant}, {late} ms late");
            wheel.poll(Timestamp::from_millis(instant + 1), &mut out);
            assert_eq!(out.len(), 4, "at {instant}");
        }
    }
}

/// A node that looks after everything and runs nothing.
async fn overseer(db: &TestDatabase) -> FaultyNode {
    let stage = Stage::default();
    let setup = Setup::new(db, &stage, &[]).configure(|config| {
        config.roles = Roles {
            trigger: true,
            execute: false,
        };
        config.lease = Duration::from_secs(1);
        config.beat = Duration::from_millis(250);
    });
    setup.start().await
}

async fn worker(db: &TestDatabase) -> Worker {
    Worker::start(WORKER, db.url(), Duration::from_secs(1)).await
}

fn task(job: &str) -> NewTask {
    NewTask::new(JobName::new(job).unwrap(), "{}")
}

/// A supervisor: starts the process again whenever the task has killed it, until the task has ended.
async fn supervise(db: &TestDatabase, node: &FaultyNode, id: TaskId) -> usize {
    for deaths in 0..10 {
        let mut worker = worker(db).await;
        let ended = async {
            until("the end of the task", async || {
                node.find(id).await.state.is_final().then_some(())
            })
            .await;
        };
        tokio::select! {
            status = worker.ended() => assert!(!status.success(), "it was killed"),
            () = ended => return deaths,
        }
    }
    panic!("ten processes died of it: {:?}", node.find(id).await)
}

async fn case_c22_a_task_that_kills_its_process_is_a_dead_letter_in_the_end(db: &TestDatabase) {
    let node = overseer(db).await;
    let id = node.submit_untyped(task("worker.poison")).await;
    assert_eq!(
        supervise(db, &node, id).await,
        3,
        "processes that died of it"
    );
    let Outcome::Failed { error } = node.outcome(id).await else {
        panic!("it failed")
    };
    assert!(error.starts_with("worker lost"), "{error}");
    let found = node.find(id).await;
    assert_eq!(
        (found.state, found.attempt, found.lost, found.fence),
        (TaskState::Failed, 3, 3, 3)
    );
    let ends = node.engine().client().executions(id).await.unwrap();
    let ends: Vec<_> = ends.iter().map(|end| (end.fence, end.reason)).collect();
    assert_eq!(ends, [(1, AttemptEnd::Lost), (2, AttemptEnd::Lost)]);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_dead WHERE error LIKE 'worker lost%' AND lost = 3")
            .await,
        1
    );
    node.shutdown().await;
}

async fn case_c22_a_task_that_must_not_run_twice_kills_one_process(db: &TestDatabase) {
    let node = overseer(db).await;
    let mut once = task("worker.poison");
    once.on_lost = OnLost::Fail;
    let id = node.submit_untyped(once).await;
    assert_eq!(supervise(db, &node, id).await, 1);
    let found = node.find(id).await;
    assert_eq!(
        (found.state, found.attempt, found.lost),
        (TaskState::Failed, 1, 1)
    );
    node.shutdown().await;
}

async fn case_c22_a_task_that_kills_its_process_is_canceled_while_it_runs(db: &TestDatabase) {
    let node = overseer(db).await;
    let mut first = worker(db).await;
    let id = node.submit_untyped(task("worker.linger")).await;
    first.said("lingering").await;
    let canceled = node
        .engine()
        .client()
        .cancel(id, Some("it is poison"))
        .await
        .unwrap();
    assert_eq!(canceled, CancelResult::Requested, "it is claimed");
    first.tell("die").await;
    assert!(!first.ended().await.success());
    let second = worker(db).await;
    assert_eq!(
        node.outcome(id).await,
        Outcome::Canceled,
        "and it starts nowhere again"
    );
    let found = node.find(id).await;
    assert_eq!(
        (found.state, found.fence, found.lost),
        (TaskState::Canceled, 1, 1)
    );
    drop(second);
    node.shutdown().await;
}
