//! Faults seen in the field, by the number of their case.

use std::time::Duration;

use ax_sdk::{Ax, Outcome, TaskState};
use ax_tests::databases::TestDatabase;

use crate::jobs::{Stage, blocking, echo, gated, in_state, node, note, outcome, quick};

engine_cases! {
    case_c10_a_task_longer_than_many_leases_runs_once,
    case_c34_a_busy_database_delays_and_fails_nothing,
    case_c37_low_priorities_run_beside_a_flood,
}

async fn case_c10_a_task_longer_than_many_leases_runs_once(db: &TestDatabase) {
    let stage = Stage::default();
    let short = |c: &mut ax_sdk::Config| {
        c.lease = Duration::from_millis(600);
        c.beat = Duration::from_millis(150);
    };
    let holder = node(db.url(), &stage)
        .configure(short)
        .start()
        .await
        .unwrap();
    let handle = holder.submit(gated::task("long".into())).await.unwrap();
    stage.noted("long started", 1).await;
    let idle = node(db.url(), &stage)
        .configure(short)
        .start()
        .await
        .unwrap();
    let marker = idle
        .submit(note::task("marker".into()).delay(Duration::from_secs(6)))
        .await
        .unwrap();
    outcome(&marker).await;
    stage.open(1);
    assert!(matches!(outcome(&handle).await, Outcome::Succeeded(_)));
    assert_eq!(
        stage.all("long").await,
        ["long started 1"],
        "ten leases long, and once"
    );
    holder.shutdown().await;
    idle.shutdown().await;
}

async fn case_c34_a_busy_database_delays_and_fails_nothing(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let running = ax.submit(gated::task("g".into())).await.unwrap();
    stage.noted("g started", 1).await;
    // An application writer that holds the database (SQLite) or just a transaction (others) for longer than a beat.
    let writer = ax.begin().await.unwrap();
    stage.open(1);
    let submits = tokio::spawn({
        let ax = ax.clone();
        async move {
            ax.submit_many((0..20).map(|n| echo::task(n.to_string())))
                .await
        }
    });
    let held = ax.now().plus(Duration::from_millis(2_500));
    while ax.now() < held {
        tokio::task::yield_now().await;
    }
    writer.rollback().await.unwrap();
    assert!(
        matches!(outcome(&running).await, Outcome::Succeeded(_)),
        "its completion is not lost"
    );
    for handle in submits.await.unwrap() {
        assert!(matches!(
            outcome(&handle.unwrap()).await,
            Outcome::Succeeded(_)
        ));
    }
    assert_eq!(
        in_state(&ax, running.id(), TaskState::Succeeded).await.lost,
        0
    );
    ax.shutdown().await;
}

async fn case_c37_low_priorities_run_beside_a_flood(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).async_slots(2).start().await.unwrap();
    let low = ax
        .submit_many((0..20).map(|n| note::task(format!("low {n}")).priority(0)))
        .await;
    let flood = ax
        .submit_many((0..2_000).map(|n| note::task(format!("high {n}")).priority(9)))
        .await;
    for handle in low {
        outcome(&handle.unwrap()).await;
    }
    let so_far = stage.all("high").await.len();
    assert!(
        so_far < 2_000,
        "the low ones did not wait for the whole flood"
    );
    for handle in flood {
        outcome(&handle.unwrap()).await;
    }
    ax.shutdown().await;
}

/// The host's runtime has one thread and a handler blocks it for several leases: the node lives on.
#[test]
fn case_c43_a_blocked_runtime_does_not_lose_the_lease() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("shop.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let short = |c: &mut ax_sdk::Config| {
            quick(c);
            c.lease = Duration::from_millis(500);
            c.beat = Duration::from_millis(100);
        };
        let ax = Ax::builder(url.as_str())
            .only_given_jobs()
            .job(blocking::JOB)
            .job(block_the_runtime::JOB)
            .configure(short)
            .start()
            .await
            .unwrap();
        let bad = ax.submit(block_the_runtime::task(2_000_u64)).await.unwrap();
        assert_eq!(outcome(&bad).await, Outcome::Succeeded(()));
        let task = bad.task().await.unwrap().unwrap();
        assert_eq!(
            (task.lost, task.fence),
            (0, 1),
            "no takeover while the process lives"
        );
        assert_eq!(ax.nodes().len(), 1, "and it is still the same node");
        ax.shutdown().await;
    });
}

use ax_sdk::prelude::*;

/// Blocks the thread of the runtime, as it should not.
#[ax_job(name = "suite.block_the_runtime", timeout = "60s")]
async fn block_the_runtime(millis: u64) -> JobResult<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "it stands for code that blocks where it should not"
    )]
    std::thread::sleep(Duration::from_millis(millis));
    Ok(())
}
