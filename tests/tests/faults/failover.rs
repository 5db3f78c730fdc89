//! The database goes away and comes back; whoever worked before works again soon after.

use std::time::Duration;

use ax_sdk::{Ax, Outcome, TaskState};
use ax_tests::databases::{Kind, TestDatabase, fresh};
use ax_tests::faults::{Line, PATIENCE, Speech, Stage, lasts, until};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::time::Instant;

use crate::jobs::{JOBS, note, stubborn};

/// The goal is 2 s on a quiet machine; one that also builds is slower.
const SOON: Duration = Duration::from_secs(6);

/// The database's connections under a name of their own.
fn options(db: &TestDatabase) -> PgConnectOptions {
    db.url()
        .parse::<PgConnectOptions>()
        .unwrap()
        .application_name("ax-faults")
}

/// A node with the fast profile.
async fn node(source: impl Into<ax_sdk::Source>, stage: &Stage) -> Ax {
    let mut builder = Ax::builder(source).only_given_jobs().state(stage.clone());
    for job in JOBS {
        builder = builder.job(job);
    }
    let fast = |config: &mut ax_sdk::Config| {
        *config = config.clone().fast();
        config.poll_max = Duration::from_millis(200);
        config.watch = Duration::from_millis(50);
    };
    builder.configure(fast).start().await.unwrap()
}

async fn on_postgres(options: PgConnectOptions, stage: &Stage) -> Ax {
    node(PgPoolOptions::new().connect_lazy_with(options), stage).await
}

/// Timers that are due one after the other from now on; each notes that it ran.
async fn timers(ax: &Ax, n: u64, span: Duration) {
    let every = span / u32::try_from(n).unwrap();
    let tasks = (0..n)
        .map(|k| note::task(format!("timer {k:03}")).delay(every * u32::try_from(k).unwrap()));
    for submitted in ax.submit_many(tasks).await {
        submitted.unwrap();
    }
}

/// Every timer has run once, and no attempt was needed twice.
async fn nothing_lost(db: &TestDatabase, stage: &Stage, n: usize) {
    let mut ran = stage.noted("timer", n).await;
    ran.sort_unstable();
    let expected: Vec<String> = (0..n).map(|k| format!("timer {k:03} 1")).collect();
    assert_eq!(ran, expected);
    until("all outcomes", async || {
        (db.number("SELECT COUNT(*) FROM ax_task").await == 0).then_some(())
    })
    .await;
    let n = i64::try_from(n).unwrap();
    let sql = "SELECT COUNT(*) FROM ax_history WHERE state = 3 AND job = 'faults.note' AND attempt = 1 AND lost = 0";
    assert!(db.number(sql).await >= n);
}

/// Every loop does its part: submits, claims, outcomes, timers, cancels, heartbeats, polls.
async fn loops_live(db: &TestDatabase, ax: &Ax, stage: &Stage) {
    let polls = ax.stats().polls;
    let beat = db
        .number("SELECT MAX(beat) FROM ax_node WHERE state = 0")
        .await;
    let now = ax.submit(note::task("loops now".into())).await.unwrap();
    let later = ax
        .submit(
            note::task("loops later".into())
                .delay(Duration::from_millis(100))
                .key("k"),
        )
        .await
        .unwrap();
    let canceled = ax
        .submit(stubborn::task("loops canceled".into()))
        .await
        .unwrap();
    stage.noted("loops canceled started", 1).await;
    // Another program asks for it, so that the row has to be seen.
    db.run("UPDATE ax_task SET cancel_at = 1 WHERE job = 'faults.stubborn'")
        .await;
    stage.noted("loops canceled signaled", 1).await;
    stage.open(1);
    assert_eq!(now.outcome().await.unwrap(), Outcome::Succeeded(1));
    assert_eq!(later.outcome().await.unwrap(), Outcome::Succeeded(1));
    assert_eq!(canceled.outcome().await.unwrap(), Outcome::Canceled);
    until("a poll", async || (ax.stats().polls > polls).then_some(())).await;
    let beats = "SELECT MAX(beat) FROM ax_node WHERE state = 0";
    until("a heartbeat", async || {
        (db.number(beats).await > beat).then_some(())
    })
    .await;
}

#[tokio::test]
async fn case_c16_terminated_backends_are_replaced() {
    let Some(db) = fresh(Kind::Postgres).await else {
        return;
    };
    let stage = Stage::default();
    let name = format!("ax-faults-{}", std::process::id());
    let ax = on_postgres(options(&db).application_name(&name), &stage).await;
    timers(&ax, 300, Duration::from_secs(3)).await;
    let terminate = format!(
        "SELECT COUNT(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}') t"
    );
    let mut victims = 0;
    for round in 1..=5 {
        stage.noted("timer", round * 50).await;
        victims += db.number(&terminate).await;
    }
    assert!(victims >= 10, "there were backends to terminate: {victims}");
    let last = Instant::now();
    nothing_lost(&db, &stage, 300).await;
    loops_live(&db, &ax, &stage).await;
    assert!(
        last.elapsed() < SOON + Duration::from_secs(3),
        "{:?}",
        last.elapsed()
    );
    assert_eq!(ax.nodes().len(), 1, "it is the same node");
    ax.shutdown().await;
}

#[tokio::test]
async fn case_c16_after_a_black_hole_and_a_restart_work_goes_on() {
    let Some(db) = fresh(Kind::Postgres).await else {
        return;
    };
    let stage = Stage::default();
    let line = Line::to(&options(&db)).await;
    let ax = on_postgres(line.lead(options(&db)), &stage).await;
    timers(&ax, 400, Duration::from_secs(9)).await;
    stage.noted("timer", 10).await;

    // Longer than the lease; nobody closes anything.
    line.set(Speech::Silent);
    lasts(Duration::from_millis(5_500)).await;
    resumes(&stage, || line.set(Speech::Carries)).await;
    line.set(Speech::Down);
    lasts(Duration::from_millis(1_500)).await;
    resumes(&stage, || line.set(Speech::Carries)).await;

    nothing_lost(&db, &stage, 400).await;
    loops_live(&db, &ax, &stage).await;
    ax.shutdown().await;
}

/// The database comes back; timers that came due meanwhile are claimed soon.
async fn resumes(stage: &Stage, come_back: impl FnOnce()) {
    let before = stage.all("timer").await.len();
    let since = Instant::now();
    come_back();
    stage.noted("timer", before + 1).await;
    let took = since.elapsed();
    eprintln!("claiming resumed {took:?} after the database's return");
    assert!(took < SOON, "{took:?}");
}

/// The sockets of before never carry a byte again, and nobody says so: as after a failover that moved the address.
#[tokio::test]
#[ignore = "lasts as long as the longest wait for an answer, 35 s"]
async fn case_c16_sockets_that_stay_silent_are_given_up() {
    let Some(db) = fresh(Kind::Postgres).await else {
        return;
    };
    let stage = Stage::default();
    let line = Line::to(&options(&db)).await;
    let ax = on_postgres(line.lead(options(&db)), &stage).await;
    timers(&ax, 100, Duration::from_secs(2)).await;
    stage.noted("timer", 10).await;
    let since = Instant::now();
    line.bury();
    nothing_lost(&db, &stage, 100).await;
    let took = since.elapsed();
    let once = Duration::from_secs(50);
    assert!(
        took < once,
        "one wait for an answer, not one for each lane: {took:?}"
    );
    loops_live(&db, &ax, &stage).await;
    ax.shutdown().await;
}

#[tokio::test]
async fn case_c16_a_file_locked_for_long_is_waited_for() {
    let db = fresh(Kind::Sqlite).await.unwrap();
    let stage = Stage::default();
    let ax = node(db.url(), &stage).await;
    timers(&ax, 60, Duration::from_secs(6)).await;
    stage.noted("timer", 3).await;

    let mut writer = <sqlx::SqliteConnection as sqlx::Connection>::connect(db.url())
        .await
        .unwrap();
    sqlx::query("BEGIN EXCLUSIVE")
        .execute(&mut writer)
        .await
        .unwrap();
    let before = stage.all("timer").await.len();
    let submitting = tokio::spawn({
        let ax = ax.clone();
        async move { ax.submit(note::task("while locked".into())).await }
    });
    // Longer than the busy timeout, and longer than the lease.
    lasts(Duration::from_secs(6)).await;
    let during = stage.all("timer").await.len();
    assert!(
        during <= before + 64,
        "what was claimed before may run, nothing else: {before} {during}"
    );
    resumes(&stage, || drop(writer)).await;

    let submitted = tokio::time::timeout(PATIENCE, submitting)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(submitted.outcome().await.unwrap(), Outcome::Succeeded(1));
    nothing_lost(&db, &stage, 60).await;
    loops_live(&db, &ax, &stage).await;
    let task = submitted.task().await.unwrap().unwrap();
    assert_eq!((task.state, task.attempt), (TaskState::Succeeded, 1));
    ax.shutdown().await;
}
