//! From submit to outcome: every way a task can end.

use std::time::Duration;

use ax_sdk::{AttemptEnd, Outcome, TaskState, Timestamp};
use ax_tests::databases::TestDatabase;

use crate::jobs::{Stage, blocking, echo, end, flaky, gated, in_state, node, note, outcome, slow};

engine_cases! {
    a_task_runs_now_and_gives_its_result,
    a_delayed_task_waits_and_is_never_early,
    an_instant_in_the_past_means_now,
    a_failing_task_is_retried_as_a_row_and_succeeds,
    the_last_failure_makes_a_dead_letter,
    a_terminal_error_ends_at_once,
    retry_after_and_snooze_are_kept_apart,
    a_handler_may_end_as_canceled,
    case_c42_a_panic_is_a_failed_attempt,
    a_timeout_signals_then_drops_and_counts_as_failed,
    a_polite_handler_ends_at_the_signal_of_its_timeout,
    a_blocking_job_runs_on_its_own_threads,
    a_task_past_its_deadline_expires,
    priorities_share_one_slot_in_order,
    a_result_over_the_limit_is_a_dead_letter_that_says_so,
}

async fn a_task_runs_now_and_gives_its_result(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(echo::task("hello".into())).await.unwrap();
    assert_eq!(
        outcome(&handle).await,
        Outcome::Succeeded("hello".to_owned())
    );
    let task = handle.task().await.unwrap().unwrap();
    assert_eq!(
        (task.state, task.attempt, task.fence, task.lost),
        (TaskState::Succeeded, 1, 1, 0)
    );
    assert_eq!(task.result.as_deref(), Some("\"hello\""));
    let (claimed, started, finished) = (
        task.claimed_at.unwrap(),
        task.started_at.unwrap(),
        task.finished_at.unwrap(),
    );
    assert!(
        task.ready_at <= claimed
            && claimed <= started.plus(Duration::from_millis(1))
            && started <= finished
    );
    ax.shutdown().await;
}

async fn a_delayed_task_waits_and_is_never_early(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax
        .submit(echo::task("later".into()).delay(Duration::from_millis(300)))
        .await
        .unwrap();
    let waiting = handle.task().await.unwrap().unwrap();
    assert_eq!(waiting.state, TaskState::Pending);
    assert_eq!(
        waiting.ready_at,
        waiting.created_at.plus(Duration::from_millis(300))
    );
    outcome(&handle).await;
    let task = handle.task().await.unwrap().unwrap();
    assert!(task.claimed_at.unwrap() >= task.ready_at, "{task:?}");
    ax.shutdown().await;
}

async fn an_instant_in_the_past_means_now(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax
        .submit(echo::task("late".into()).at(Timestamp::from_millis(0)))
        .await
        .unwrap();
    assert!(matches!(outcome(&handle).await, Outcome::Succeeded(_)));
    ax.shutdown().await;
}

async fn a_failing_task_is_retried_as_a_row_and_succeeds(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(flaky::task(2_u32)).await.unwrap();
    assert_eq!(
        outcome(&handle).await,
        Outcome::Succeeded("failure 2".to_owned())
    );
    let attempts = ax.executions(handle.id()).await.unwrap();
    assert_eq!(
        attempts
            .iter()
            .map(|a| (a.fence, a.reason))
            .collect::<Vec<_>>(),
        [(1, AttemptEnd::Retried), (2, AttemptEnd::Retried)]
    );
    assert_eq!(attempts[0].error.as_deref(), Some("failure 1"));
    assert_eq!(handle.task().await.unwrap().unwrap().attempt, 3);
    ax.shutdown().await;
}

async fn the_last_failure_makes_a_dead_letter(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(flaky::task(9_u32).retries(1)).await.unwrap();
    assert_eq!(
        outcome(&handle).await,
        Outcome::Failed {
            error: "failure 2".to_owned()
        }
    );
    let task = handle.task().await.unwrap().unwrap();
    assert_eq!((task.state, task.attempt), (TaskState::Failed, 2));
    ax.shutdown().await;
}

async fn a_terminal_error_ends_at_once(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax.submit(end::task("terminal".into())).await.unwrap();
    assert_eq!(
        outcome(&handle).await,
        Outcome::Failed {
            error: "never again".to_owned()
        }
    );
    assert_eq!(stage.all("terminal").await, ["terminal 1"]);
    ax.shutdown().await;
}

async fn retry_after_and_snooze_are_kept_apart(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let snoozed = ax.submit(end::task("snooze".into())).await.unwrap();
    let later = ax.submit(end::task("later".into())).await.unwrap();
    assert!(matches!(outcome(&snoozed).await, Outcome::Succeeded(_)));
    assert!(matches!(outcome(&later).await, Outcome::Succeeded(_)));
    assert_eq!(
        stage.all("snooze").await,
        ["snooze 1"; 4],
        "a snooze spends no attempt"
    );
    assert_eq!(stage.all("later").await, ["later 1", "later 2"]);
    assert_eq!(
        snoozed.task().await.unwrap().unwrap().fence,
        4,
        "but each claim has its number"
    );
    ax.shutdown().await;
}

async fn a_handler_may_end_as_canceled(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(end::task("cancel".into())).await.unwrap();
    assert_eq!(outcome(&handle).await, Outcome::Canceled);
    ax.shutdown().await;
}

async fn case_c42_a_panic_is_a_failed_attempt(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    for (how, text) in [
        ("panic", "panicked: all is lost"),
        ("panic string", "panicked: all is lost 2"),
        ("panic value", "panicked: with a value that is not text"),
    ] {
        let handle = ax.submit(end::task(how.to_owned())).await.unwrap();
        assert_eq!(
            outcome(&handle).await,
            Outcome::Failed {
                error: text.to_owned()
            }
        );
        assert_eq!(
            stage.all(&format!("{how} ")).await.len(),
            3,
            "retries apply"
        );
    }
    let after = ax.submit(echo::task("alive".into())).await.unwrap();
    assert!(
        matches!(outcome(&after).await, Outcome::Succeeded(_)),
        "other jobs are not affected"
    );
    assert_eq!(ax.stats().running, 0, "the slots are free again");
    ax.shutdown().await;
}

async fn a_timeout_signals_then_drops_and_counts_as_failed(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax.submit(slow::task(false)).await.unwrap();
    let Outcome::Failed { error } = outcome(&handle).await else {
        panic!("it timed out")
    };
    assert!(error.starts_with("timed out"), "{error}");
    assert_eq!(stage.all("slow").await, ["slow 1", "slow 2"]);
    let attempts = ax.executions(handle.id()).await.unwrap();
    assert_eq!(attempts[0].reason, AttemptEnd::TimedOut);
    ax.shutdown().await;
}

async fn a_polite_handler_ends_at_the_signal_of_its_timeout(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax.submit(slow::task(true).retries(0)).await.unwrap();
    let Outcome::Failed { error } = outcome(&handle).await else {
        panic!("it timed out")
    };
    assert!(error.starts_with("timed out"), "{error}");
    assert_eq!(stage.all("slow saw").await.len(), 1);
    ax.shutdown().await;
}

async fn a_blocking_job_runs_on_its_own_threads(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handles = ax.submit_many((0..4).map(|_| blocking::task(20_u64))).await;
    for handle in handles {
        assert_eq!(outcome(&handle.unwrap()).await, Outcome::Succeeded(20));
    }
    ax.shutdown().await;
}

async fn a_task_past_its_deadline_expires(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage)
        .async_slots(1)
        .configure(|c| c.read_ahead = 0)
        .start()
        .await
        .unwrap();
    let holder = ax.submit(gated::task("holder".into())).await.unwrap();
    stage.noted("holder started", 1).await;
    let late = ax
        .submit(note::task("late".into()).deadline(Duration::from_millis(20)))
        .await
        .unwrap();
    assert_eq!(outcome(&late).await, Outcome::Expired);
    stage.open(1);
    outcome(&holder).await;
    assert!(stage.all("late").await.is_empty(), "it never started");
    ax.shutdown().await;
}

async fn priorities_share_one_slot_in_order(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage)
        .async_slots(1)
        .configure(|c| c.read_ahead = 0)
        .start()
        .await
        .unwrap();
    let holder = ax.submit(gated::task("holder".into())).await.unwrap();
    stage.noted("holder started", 1).await;
    let mut handles = Vec::new();
    for n in 0..8 {
        handles.push(
            ax.submit(note::task(format!("low {n}")).priority(0))
                .await
                .unwrap(),
        );
        handles.push(
            ax.submit(note::task(format!("high {n}")).priority(9))
                .await
                .unwrap(),
        );
    }
    stage.open(1);
    outcome(&holder).await;
    for handle in &handles {
        outcome(handle).await;
    }
    let order = stage.all("").await;
    let place = |text: &str| {
        order
            .iter()
            .position(|note| note.starts_with(text))
            .unwrap()
    };
    assert!(
        place("high 7") < place("low 2"),
        "nine before nought, 24 to 2: {order:?}"
    );
    let highs: Vec<usize> = (0..8).map(|n| place(&format!("high {n}"))).collect();
    assert!(
        highs.is_sorted(),
        "first in, first out within a lane: {order:?}"
    );
    ax.shutdown().await;
}

async fn a_result_over_the_limit_is_a_dead_letter_that_says_so(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(end::task("wide".into())).await.unwrap();
    let Outcome::Failed { error } = outcome(&handle).await else {
        panic!("two MiB are too much")
    };
    assert!(error.contains("1048576"), "the limit is named: {error}");
    in_state(&ax, handle.id(), TaskState::Failed).await;
    ax.shutdown().await;
}
