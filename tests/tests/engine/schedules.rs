//! Schedules that make tasks by themselves.

use std::collections::BTreeSet;

use ax_engine::job::{JobDef, ScheduleDef, TriggerDef};
use ax_sdk::prelude::*;
use ax_sdk::{Ax, AxBuilder, State, TaskState};
use ax_tests::databases::TestDatabase;

use crate::jobs::{Stage, quick};

engine_cases! {
    a_fixed_rate_makes_one_task_a_tick,
    a_cron_fires_on_the_second,
    a_fixed_delay_counts_from_the_end_of_the_last_run,
    two_nodes_make_one_task_a_tick,
    a_schedule_goes_on_from_its_stored_instant_after_a_restart,
    case_c04_a_cron_that_never_fires_harms_no_other,
}

/// Ticks often.
#[ax_job(name = "suite.tick")]
#[ax_schedule(every = "100ms")]
async fn tick(ctx: JobContext, stage: State<Stage>) -> JobResult<()> {
    note_tick("tick", &ctx, &stage).await
}

/// Ticks each second.
#[ax_job(name = "suite.cron")]
#[ax_schedule(cron = "* * * * * *", tz = "Asia/Shanghai")]
async fn cron(ctx: JobContext, stage: State<Stage>) -> JobResult<()> {
    note_tick("cron", &ctx, &stage).await
}

/// Runs a while after its last run.
#[ax_job(name = "suite.after")]
#[ax_schedule(fixed_delay = "50ms")]
async fn after(ctx: JobContext, stage: State<Stage>) -> JobResult<()> {
    note_tick("after", &ctx, &stage).await
}

/// Stands for a job whose schedule waits for a day that no year has; the attribute itself would refuse it.
#[ax_job(name = "suite.never")]
async fn never(stage: State<Stage>) -> JobResult<()> {
    stage.note("never").await;
    Ok(())
}

const NEVER: JobDef = JobDef {
    schedules: &[ScheduleDef {
        name: None,
        trigger: TriggerDef::Cron {
            text: "0 0 30 2 *",
            zone: "UTC",
        },
        misfire: "fire_once",
        overlap: "skip",
    }],
    ..never::JOB
};

async fn note_tick(name: &str, ctx: &JobContext, stage: &Stage) -> JobResult<()> {
    let at = ctx.scheduled_at().ok_or("a tick has its instant")?;
    stage.note(format!("{name} {}", at.as_millis())).await;
    Ok(())
}

fn node(db: &TestDatabase, stage: &Stage) -> AxBuilder {
    Ax::builder(db.url())
        .only_given_jobs()
        .state(stage.clone())
        .configure(quick)
}

fn instants(notes: &[String]) -> Vec<i64> {
    notes
        .iter()
        .filter_map(|note| note.split(' ').nth(1)?.parse().ok())
        .collect()
}

async fn a_fixed_rate_makes_one_task_a_tick(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db, &stage).job(tick::JOB).start().await.unwrap();
    let at = instants(&stage.noted("tick", 6).await);
    assert!(
        at.windows(2)
            .all(|pair| pair[1] > pair[0] && (pair[1] - pair[0]) % 100 == 0),
        "on the grid: {at:?}"
    );
    ax.shutdown().await;
}

async fn a_cron_fires_on_the_second(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db, &stage).job(cron::JOB).start().await.unwrap();
    let at = instants(&stage.noted("cron", 2).await);
    assert!(
        at.iter().all(|at| at % 1_000 == 0) && at[1] > at[0],
        "{at:?}"
    );
    ax.shutdown().await;
}

async fn a_fixed_delay_counts_from_the_end_of_the_last_run(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db, &stage).job(after::JOB).start().await.unwrap();
    stage.noted("after", 3).await;
    ax.shutdown().await;
}

async fn two_nodes_make_one_task_a_tick(db: &TestDatabase) {
    let stage = Stage::default();
    let everyone = |c: &mut ax_sdk::Config| c.ownership = ax_sdk::Ownership::Everyone;
    let one = node(db, &stage)
        .job(tick::JOB)
        .configure(everyone)
        .start()
        .await
        .unwrap();
    let two = node(db, &stage)
        .job(tick::JOB)
        .configure(everyone)
        .start()
        .await
        .unwrap();
    let at = instants(&stage.noted("tick", 20).await);
    let different: BTreeSet<i64> = at.iter().copied().collect();
    assert_eq!(different.len(), at.len(), "no tick twice: {at:?}");
    one.shutdown().await;
    two.shutdown().await;
}

async fn a_schedule_goes_on_from_its_stored_instant_after_a_restart(db: &TestDatabase) {
    let stage = Stage::default();
    let mut last = 0;
    for round in 1..=3 {
        let ax = node(db, &stage).job(tick::JOB).start().await.unwrap();
        stage.noted("tick", round * 3).await;
        ax.shutdown().await;
        let at = instants(&stage.all("tick").await);
        assert!(
            at.windows(2).all(|pair| pair[0] < pair[1]),
            "never back, never twice: {at:?}"
        );
        assert!(at[at.len() - 1] > last);
        last = at[at.len() - 1];
    }
}

async fn case_c04_a_cron_that_never_fires_harms_no_other(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db, &stage)
        .job(NEVER)
        .job(tick::JOB)
        .start()
        .await
        .unwrap();
    stage.noted("tick", 3).await;
    assert!(stage.all("never").await.is_empty());
    let mut failed = ax.filter();
    failed.states = vec![TaskState::Failed];
    assert!(ax.list(failed).await.unwrap().is_empty());
    ax.shutdown().await;
}
