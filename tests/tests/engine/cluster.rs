//! Several nodes on one database.

use std::time::Duration;

use ax_sdk::{AttemptEnd, Ownership, Roles, TaskState};
use ax_tests::databases::TestDatabase;

use crate::jobs::{Stage, echo, gated, in_state, node, note, outcome};

engine_cases! {
    a_task_of_an_unknown_job_goes_to_a_node_that_knows_it,
    a_task_that_nobody_knows_waits_for_a_node_that_does,
    a_dedicated_scheduler_hands_everything_on,
    two_nodes_run_every_task_once,
    without_ownership_every_task_runs_once_all_the_same,
    case_c14_a_shutdown_hands_back_what_did_not_start,
    case_c14_a_shutdown_cuts_off_and_spends_no_attempt,
    case_c17_a_node_that_vanishes_leaves_its_work_to_others,
    case_c06_delayed_work_survives_a_restart,
    namespaces_do_not_mix,
}

async fn a_task_of_an_unknown_job_goes_to_a_node_that_knows_it(db: &TestDatabase) {
    let stage = Stage::default();
    let ignorant = ax_sdk::Ax::builder(db.url())
        .only_given_jobs()
        .configure(crate::jobs::quick)
        .start()
        .await
        .unwrap();
    let knowing = node(db.url(), &stage).start().await.unwrap();
    let handle = ignorant.submit(note::task("n".into())).await.unwrap();
    stage.noted("n 1", 1).await;
    assert_eq!(
        in_state(&knowing, handle.id(), TaskState::Succeeded)
            .await
            .attempt,
        1
    );
    ignorant.shutdown().await;
    knowing.shutdown().await;
}

async fn a_task_that_nobody_knows_waits_for_a_node_that_does(db: &TestDatabase) {
    let stage = Stage::default();
    let ignorant = ax_sdk::Ax::builder(db.url())
        .only_given_jobs()
        .configure(crate::jobs::quick)
        .start()
        .await
        .unwrap();
    let handle = ignorant.submit(note::task("n".into())).await.unwrap();
    let known = ignorant
        .submit(note::task("m".into()).delay(Duration::from_millis(300)))
        .await
        .unwrap();
    while ignorant.now() < known.task().await.unwrap().unwrap().ready_at {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        handle.task().await.unwrap().unwrap().state,
        TaskState::Pending,
        "it waits, visibly"
    );
    let knowing = node(db.url(), &stage).start().await.unwrap();
    stage.noted("n 1", 1).await;
    stage.noted("m 1", 1).await;
    ignorant.shutdown().await;
    knowing.shutdown().await;
}

async fn a_dedicated_scheduler_hands_everything_on(db: &TestDatabase) {
    let (never, stage) = (Stage::default(), Stage::default());
    let scheduler = node(db.url(), &never)
        .configure(|c| {
            c.roles = Roles {
                trigger: true,
                execute: false,
            }
        })
        .start()
        .await
        .unwrap();
    let worker = node(db.url(), &stage)
        .configure(|c| {
            c.roles = Roles {
                trigger: false,
                execute: true,
            }
        })
        .start()
        .await
        .unwrap();
    for n in 0..50 {
        scheduler.submit(note::task(format!("n{n}"))).await.unwrap();
    }
    stage.noted("n", 50).await;
    assert!(never.all("").await.is_empty());
    scheduler.shutdown().await;
    worker.shutdown().await;
}

async fn two_nodes_run_every_task_once(db: &TestDatabase) {
    share_work(db, Ownership::Sharded).await;
}

async fn without_ownership_every_task_runs_once_all_the_same(db: &TestDatabase) {
    share_work(db, Ownership::Everyone).await;
}

async fn share_work(db: &TestDatabase, ownership: Ownership) {
    let stage = Stage::default();
    let one = node(db.url(), &stage)
        .configure(|c| c.ownership = ownership)
        .start()
        .await
        .unwrap();
    let two = node(db.url(), &stage)
        .configure(|c| c.ownership = ownership)
        .start()
        .await
        .unwrap();
    let tasks = (0..400).map(|n| note::task(format!("t{n:03}")).delay(Duration::from_millis(n)));
    let handles = one.submit_many(tasks).await;
    for handle in handles {
        outcome(&handle.unwrap()).await;
    }
    let mut ran = stage.all("t").await;
    ran.sort_unstable();
    let expected: Vec<String> = (0..400).map(|n| format!("t{n:03} 1")).collect();
    assert_eq!(ran, expected, "each once, each in its first attempt");
    one.shutdown().await;
    two.shutdown().await;
}

async fn case_c14_a_shutdown_hands_back_what_did_not_start(db: &TestDatabase) {
    let (first, second) = (Stage::default(), Stage::default());
    let ending = node(db.url(), &first)
        .async_slots(2)
        .shutdown_after(Duration::from_secs(20))
        .start()
        .await
        .unwrap();
    let handles = ending
        .submit_many((0..30).map(|n| gated::task(format!("g{n}"))))
        .await;
    first.noted("g", 2).await;
    first.open(2);
    first.noted("g", 2).await;
    let ended = tokio::spawn({
        let ending = ending.clone();
        async move { ending.shutdown().await }
    });
    first.open(30);
    ended.await.unwrap();
    let ran = first.all("g").await.len();

    let taking = node(db.url(), &second).start().await.unwrap();
    second.open(30);
    second.noted("g", 30 - ran).await;
    for handle in handles {
        let task = in_state(&taking, handle.unwrap().id(), TaskState::Succeeded).await;
        assert_eq!(
            (task.attempt, task.lost),
            (1, 0),
            "a hand-back spends nothing"
        );
    }
    taking.shutdown().await;
}

async fn case_c14_a_shutdown_cuts_off_and_spends_no_attempt(db: &TestDatabase) {
    let (first, second) = (Stage::default(), Stage::default());
    let ending = node(db.url(), &first)
        .shutdown_after(Duration::from_millis(10))
        .start()
        .await
        .unwrap();
    let polite = ending.submit(gated::task("polite".into())).await.unwrap();
    let stubborn = ending
        .submit(crate::jobs::slow::task(false).timeout(Duration::from_secs(600)))
        .await
        .unwrap();
    first.noted("polite started", 1).await;
    first.noted("slow 1", 1).await;
    ending.shutdown().await;
    assert_eq!(
        first.all("polite signaled").await.len(),
        1,
        "it was asked first"
    );

    let taking = node(db.url(), &second).start().await.unwrap();
    second.noted("polite started 1", 1).await;
    second.noted("slow 1", 1).await;
    second.open(1);
    in_state(&taking, polite.id(), TaskState::Succeeded).await;
    for id in [polite.id(), stubborn.id()] {
        let ends: Vec<_> = taking
            .executions(id)
            .await
            .unwrap()
            .into_iter()
            .map(|e| (e.fence, e.reason))
            .collect();
        assert_eq!(ends, [(1, AttemptEnd::Released)]);
    }
    taking.cancel(stubborn.id()).await.unwrap();
    taking.shutdown().await;
}

async fn case_c17_a_node_that_vanishes_leaves_its_work_to_others(db: &TestDatabase) {
    let (first, second) = (Stage::default(), Stage::default());
    let vanishing = node(db.url(), &first).start().await.unwrap();
    let running = vanishing
        .submit(gated::task("running".into()))
        .await
        .unwrap();
    first.noted("running started 1", 1).await;
    let waiting = vanishing
        .submit(note::task("waiting".into()).delay(Duration::from_secs(2)))
        .await
        .unwrap();
    let ids = (running.id(), waiting.id());
    drop((running, waiting, vanishing));

    let taking = node(db.url(), &second).start().await.unwrap();
    second.noted("waiting 1", 1).await;
    second.noted("running started", 1).await;
    second.open(1);
    let task = in_state(&taking, ids.0, TaskState::Succeeded).await;
    assert_eq!((task.lost, task.fence), (1, 2));
    let ends: Vec<_> = taking
        .executions(ids.0)
        .await
        .unwrap()
        .into_iter()
        .map(|e| e.reason)
        .collect();
    assert_eq!(ends, [AttemptEnd::Lost]);
    taking.shutdown().await;
}

async fn case_c06_delayed_work_survives_a_restart(db: &TestDatabase) {
    let stage = Stage::default();
    let first = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = first
        .submit(note::task("later".into()).delay(Duration::from_millis(500)))
        .await
        .unwrap();
    first.shutdown().await;
    let second = node(db.url(), &stage).start().await.unwrap();
    stage.noted("later 1", 1).await;
    in_state(&second, handle.id(), TaskState::Succeeded).await;
    second.shutdown().await;
}

async fn namespaces_do_not_mix(db: &TestDatabase) {
    let (red_stage, blue_stage) = (Stage::default(), Stage::default());
    let red = node(db.url(), &red_stage)
        .namespace("red")
        .start()
        .await
        .unwrap();
    let blue = node(db.url(), &blue_stage)
        .namespace("blue")
        .start()
        .await
        .unwrap();
    for n in 0..20 {
        outcome(&red.submit(echo::task(n.to_string())).await.unwrap()).await;
        outcome(
            &blue
                .submit(note::task(format!("b{n}")).key("same"))
                .await
                .unwrap(),
        )
        .await;
        outcome(
            &red.submit(note::task(format!("r{n}")).key("same"))
                .await
                .unwrap(),
        )
        .await;
    }
    assert_eq!(red_stage.all("r").await.len(), 20);
    assert_eq!(blue_stage.all("b").await.len(), 20);
    assert!(red_stage.all("b").await.is_empty() && blue_stage.all("r").await.is_empty());
    assert!(
        red.list(red.filter())
            .await
            .unwrap()
            .iter()
            .all(|task| task.namespace.as_str() == "red")
    );
    red.shutdown().await;
    blue.shutdown().await;
}
