//! Submits: keys, bulk, the caller's own transaction.

use std::time::Duration;

use ax_sdk::{Ax, ErrorKind, KeyMode, Outcome, TaskState};
use ax_tests::databases::TestDatabase;

use crate::jobs::{Stage, echo, gated, in_state, node, note, outcome};

engine_cases! {
    a_key_gives_the_task_that_holds_it,
    a_key_may_reject_and_names_the_holder,
    a_key_may_replace_what_has_not_started,
    a_key_is_free_again_once_its_task_ended,
    a_key_may_hold_for_a_period,
    case_c38_concurrent_submits_of_one_key_make_one_task,
    case_c38_a_key_whose_writer_rolls_back_is_free,
    a_retry_is_not_blocked_by_the_key_of_its_own_row,
    many_tasks_in_one_call_each_stand_alone,
    a_transaction_that_rolls_back_leaves_nothing,
    a_transaction_that_commits_leaves_its_task,
    tasks_of_one_route_key_share_a_shard,
}

async fn a_key_gives_the_task_that_holds_it(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let first = ax
        .submit(
            echo::task("a".into())
                .delay(Duration::from_secs(3600))
                .key("order-1"),
        )
        .await
        .unwrap();
    let second = ax
        .submit(echo::task("b".into()).key("order-1"))
        .await
        .unwrap();
    assert!(first.is_new() && !second.is_new());
    assert_eq!(second.id(), first.id());
    ax.shutdown().await;
}

async fn a_key_may_reject_and_names_the_holder(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let first = ax
        .submit(
            echo::task("a".into())
                .delay(Duration::from_secs(3600))
                .key("k"),
        )
        .await
        .unwrap();
    let refused = ax
        .submit(echo::task("b".into()).key("k").on_conflict(KeyMode::Reject))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(
        refused.to_string().contains(&first.id().to_string()),
        "{refused}"
    );
    ax.shutdown().await;
}

async fn a_key_may_replace_what_has_not_started(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let first = ax
        .submit(
            echo::task("old".into())
                .delay(Duration::from_secs(3600))
                .key("k"),
        )
        .await
        .unwrap();
    let second = ax
        .submit(
            echo::task("new".into())
                .key("k")
                .on_conflict(KeyMode::Replace),
        )
        .await
        .unwrap();
    assert_eq!(second.id(), first.id());
    assert_eq!(
        outcome(&first).await,
        Outcome::Succeeded("new".to_owned()),
        "payload and time are the new ones"
    );

    let running = ax
        .submit(gated::task("runs".into()).key("g"))
        .await
        .unwrap();
    stage.noted("runs started", 1).await;
    let late = ax
        .submit(
            gated::task("too late".into())
                .key("g")
                .on_conflict(KeyMode::Replace),
        )
        .await
        .unwrap();
    assert_eq!(late.id(), running.id());
    stage.open(1);
    assert_eq!(
        outcome(&running).await,
        Outcome::Succeeded("runs".to_owned())
    );
    ax.shutdown().await;
}

async fn a_key_is_free_again_once_its_task_ended(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let first = ax.submit(echo::task("a".into()).key("k")).await.unwrap();
    outcome(&first).await;
    let second = ax.submit(echo::task("b".into()).key("k")).await.unwrap();
    assert!(second.is_new());
    ax.cancel(second.id()).await.unwrap();
    outcome(&second).await;
    let third = ax.submit(echo::task("c".into()).key("k")).await.unwrap();
    assert!(third.is_new(), "a canceled task holds nothing either");
    ax.shutdown().await;
}

async fn a_key_may_hold_for_a_period(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let first = ax
        .submit(
            echo::task("a".into())
                .key("k")
                .unique_for(Duration::from_secs(3600)),
        )
        .await
        .unwrap();
    outcome(&first).await;
    let second = ax.submit(echo::task("b".into()).key("k")).await.unwrap();
    assert_eq!(second.id(), first.id(), "the hour is not over");
    assert_eq!(outcome(&second).await, Outcome::Succeeded("a".to_owned()));

    let short = ax
        .submit(
            echo::task("a".into())
                .key("s")
                .unique_for(Duration::from_millis(1)),
        )
        .await
        .unwrap();
    outcome(&short).await;
    while ax.now()
        <= short
            .task()
            .await
            .unwrap()
            .unwrap()
            .created_at
            .plus(Duration::from_millis(5))
    {
        tokio::task::yield_now().await;
    }
    assert!(
        ax.submit(echo::task("b".into()).key("s"))
            .await
            .unwrap()
            .is_new(),
        "the millisecond is over"
    );
    ax.shutdown().await;
}

async fn case_c38_concurrent_submits_of_one_key_make_one_task(db: &TestDatabase) {
    let stage = Stage::default();
    let (one, two) = (
        node(db.url(), &stage).start().await.unwrap(),
        node(db.url(), &stage).start().await.unwrap(),
    );
    let mut submits = tokio::task::JoinSet::new();
    for n in 0..64 {
        let ax = if n % 2 == 0 { one.clone() } else { two.clone() };
        submits.spawn(async move {
            ax.submit(
                echo::task(n.to_string())
                    .delay(Duration::from_secs(3600))
                    .key("k"),
            )
            .await
        });
    }
    let handles: Vec<_> = submits
        .join_all()
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        handles.iter().filter(|handle| handle.is_new()).count(),
        1,
        "one is new"
    );
    assert!(
        handles.iter().all(|handle| handle.id() == handles[0].id()),
        "and everybody has it"
    );
    one.shutdown().await;
    two.shutdown().await;
}

async fn case_c38_a_key_whose_writer_rolls_back_is_free(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let mut transaction = ax.begin().await.unwrap();
    let never = ax
        .submit_in(&mut transaction, echo::task("a".into()).key("k"))
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let ax = ax.clone();
        async move { ax.submit(echo::task("b".into()).key("k")).await }
    });
    transaction.rollback().await.unwrap();
    let handle = waiting.await.unwrap().unwrap();
    assert!(
        handle.is_new() && handle.id() != never.id(),
        "the second writer got its task"
    );
    assert_eq!(outcome(&handle).await, Outcome::Succeeded("b".to_owned()));
    ax.shutdown().await;
}

async fn a_retry_is_not_blocked_by_the_key_of_its_own_row(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax
        .submit(crate::jobs::flaky::task(2_u32).key("k"))
        .await
        .unwrap();
    assert!(matches!(outcome(&handle).await, Outcome::Succeeded(_)));
    ax.shutdown().await;
}

async fn many_tasks_in_one_call_each_stand_alone(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let tasks = (0..600).map(|n| match n {
        7 => note::task("bad".into()).priority(12),
        8 => note::task("bad\0".into()),
        9 => note::task("keyed".into()).key("k"),
        _ => note::task(format!("good {n}")),
    });
    let answers = ax.submit_many(tasks).await;
    let refused: Vec<usize> = (0..600).filter(|n| answers[*n].is_err()).collect();
    assert_eq!(
        refused,
        [7, 8],
        "the answers stand in the order of the tasks"
    );
    for handle in answers.into_iter().flatten() {
        assert_eq!(outcome(&handle).await, Outcome::Succeeded(1));
    }
    assert_eq!(stage.all("").await.len(), 598);
    ax.shutdown().await;
}

async fn a_transaction_that_rolls_back_leaves_nothing(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let mut transaction = ax.begin().await.unwrap();
    let handle = ax
        .submit_in(&mut transaction, note::task("never".into()))
        .await
        .unwrap();
    transaction.rollback().await.unwrap();
    assert!(handle.task().await.unwrap().is_none());
    outcome(&ax.submit(note::task("after".into())).await.unwrap()).await;
    assert!(stage.all("never").await.is_empty());
    ax.shutdown().await;
}

async fn a_transaction_that_commits_leaves_its_task(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let mut transaction = ax.begin().await.unwrap();
    let big = "x".repeat(64 << 10);
    let one = ax
        .submit_in(&mut transaction, echo::task(big.clone()).tag("t"))
        .await
        .unwrap();
    let two = ax
        .submit_in(&mut transaction, echo::task("keyed".into()).key("k"))
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(outcome(&one).await, Outcome::Succeeded(big));
    assert_eq!(outcome(&two).await, Outcome::Succeeded("keyed".to_owned()));
    ax.shutdown().await;
}

async fn tasks_of_one_route_key_share_a_shard(db: &TestDatabase) {
    let ax: Ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax
        .submit(echo::task("a".into()).route("customer-7"))
        .await
        .unwrap();
    outcome(&handle).await;
    let task = in_state(&ax, handle.id(), TaskState::Succeeded).await;
    assert_eq!(task.route_key.as_deref(), Some("customer-7"));
    ax.shutdown().await;
}
