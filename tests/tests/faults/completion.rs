//! The outcome of a handler that ran well meets a bad database.

use std::sync::Arc;
use std::time::Duration;

use ax_engine::db::DbErrorKind;
use ax_engine::store::Sql;
use ax_sdk::{AttemptEnd, Outcome, TaskState};
use ax_tests::databases::TestDatabase;
use ax_tests::fault_cases;
use ax_tests::faults::{Fault, FaultyNode, Gate, Point, Setup, Stage, Weather, until};

use crate::jobs::{JOBS, flaky, note, stubborn};

fault_cases! {
    case_c19_one_failed_commit_of_an_outcome_is_made_good,
    case_c19_three_failed_commits_in_a_row_are_made_good,
    case_c41_an_outcome_whose_answer_was_lost_was_already_done,
    case_c41_a_retry_whose_answer_was_lost_was_already_done,
    case_c41_an_outcome_lost_before_its_commit_is_sent_again,
    case_c41_an_outcome_after_the_lease_is_stale,
}

/// Ways in which a commit fails. After `Lost` the caller does not know that it did.
const KINDS: [DbErrorKind; 6] = [
    DbErrorKind::Lost,
    DbErrorKind::Retry,
    DbErrorKind::Timeout,
    DbErrorKind::ReadOnly,
    DbErrorKind::Full,
    DbErrorKind::Other,
];

async fn case_c19_one_failed_commit_of_an_outcome_is_made_good(db: &TestDatabase) {
    failed_commits(db, 1).await;
}

async fn case_c19_three_failed_commits_in_a_row_are_made_good(db: &TestDatabase) {
    failed_commits(db, 3).await;
}

async fn failed_commits(db: &TestDatabase, times: usize) {
    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    for kind in KINDS {
        node.faults().strike(
            Point::CommitOf(Sql::InsertHistory),
            times,
            Fault::Refuse(kind),
        );
        let id = node.submit(note::task(format!("{kind:?}"))).await;
        assert_eq!(node.outcome(id).await, Outcome::Succeeded(Arc::from("1")));
        node.faults().used_up().await;
        assert_eq!(
            stage.all(&format!("{kind:?}")).await,
            [format!("{kind:?} 1")],
            "the handler is not run again"
        );
    }
    recorded_once(db, &node, KINDS.len()).await;
}

/// Ends the node: each task has one outcome, and no claim is left behind.
async fn recorded_once(db: &TestDatabase, node: &FaultyNode, tasks: usize) {
    // Who wrote an outcome may hear of it later than who waits for it.
    node.shutdown().await;
    let tasks = i64::try_from(tasks).unwrap();
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_history WHERE state = 3 AND fence = attempt")
            .await,
        tasks
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_history").await, tasks);
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_task").await, 0);
    assert_eq!(
        (node.stats().settled, node.stats().stale),
        (tasks.unsigned_abs(), 0)
    );
}

async fn case_c41_an_outcome_whose_answer_was_lost_was_already_done(db: &TestDatabase) {
    let (stage, aside) = (Stage::default(), Stage::default());
    let node = Setup::new(db, &stage, &JOBS).start().await;
    // Somebody who waits elsewhere reads the history.
    let other = Setup::new(db, &aside, &[]).start().await;
    for times in 1..=4 {
        // The first sending is committed; each answer to it is lost, and so are those to the next ones.
        node.faults()
            .strike(Point::CommitOf(Sql::InsertHistory), 1, Fault::LoseAnswer);
        node.faults()
            .strike(Point::CommitOf(Sql::LockTask), times - 1, Fault::LoseAnswer);
        let text = format!("lost {times}");
        let id = node.submit(note::task(text.clone())).await;
        let heard = tokio::join!(node.outcome(id), node.outcome(id), other.outcome(id));
        let told = || Outcome::Succeeded(Arc::from("1"));
        assert_eq!(
            heard,
            (told(), told(), told()),
            "all who wait hear the one outcome"
        );
        node.faults().used_up().await;
        assert_eq!(stage.all(&text).await, [format!("{text} 1")]);
    }
    recorded_once(db, &node, 4).await;
    other.shutdown().await;
}

async fn case_c41_a_retry_whose_answer_was_lost_was_already_done(db: &TestDatabase) {
    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    for times in [1, 3] {
        node.faults()
            .strike(Point::CommitOf(Sql::InsertExecutions), 1, Fault::LoseAnswer);
        node.faults()
            .strike(Point::CommitOf(Sql::LockTask), times - 1, Fault::LoseAnswer);
        let text = format!("again {times}");
        let id = node.submit(flaky::task(text.clone())).await;
        assert_eq!(node.outcome(id).await, Outcome::Succeeded(Arc::from("2")));
        node.faults().used_up().await;
        assert_eq!(
            stage.all(&text).await,
            [format!("{text} 1"), format!("{text} 2")]
        );
        let ends = node.engine().client().executions(id).await.unwrap();
        let ends: Vec<_> = ends.iter().map(|end| (end.fence, end.reason)).collect();
        assert_eq!(ends, [(1, AttemptEnd::Retried)], "one retry, recorded once");
    }
    recorded_once(db, &node, 2).await;
}

async fn case_c41_an_outcome_lost_before_its_commit_is_sent_again(db: &TestDatabase) {
    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    let gate = Gate::default();
    node.faults().strike(
        Point::Begin(ax_engine::db::Lane::Settle),
        1,
        Fault::Hold(gate.clone()),
    );
    let points = [
        Point::Statement(Sql::DeleteSettled),
        Point::Statement(Sql::InsertHistory),
        Point::CommitOf(Sql::InsertHistory),
    ];
    for point in points {
        node.faults()
            .strike(point, 2, Fault::Refuse(DbErrorKind::Lost));
    }
    let id = node.submit(note::task("before".into())).await;
    gate.reached().await;
    assert_eq!(
        node.find(id).await.state,
        TaskState::Running,
        "nothing is recorded yet"
    );
    gate.open();
    assert_eq!(node.outcome(id).await, Outcome::Succeeded(Arc::from("1")));
    node.faults().used_up().await;
    assert_eq!(stage.all("before").await, ["before 1"]);
    recorded_once(db, &node, 1).await;
}

async fn case_c41_an_outcome_after_the_lease_is_stale(db: &TestDatabase) {
    let (first, second) = (Stage::default(), Stage::default());
    let node = Setup::new(db, &first, &JOBS).start().await;
    let other = Setup::new(db, &second, &JOBS).start().await;
    let id = node.submit(stubborn::task("late".into())).await;
    first.noted("late started 1", 1).await;
    let waiting = node.outcome(id);
    node.faults().set_weather(Weather::Silent);
    first.open(1);

    second.noted("late started 2", 1).await;
    let taken = other.find(id).await;
    assert_eq!(
        (taken.state, taken.attempt, taken.lost, taken.fence),
        (TaskState::Running, 2, 1, 2)
    );
    node.faults().set_weather(Weather::Fair);
    until("the late result", async || {
        (node.stats().stale == 1).then_some(())
    })
    .await;
    assert_eq!(
        other.find(id).await.state,
        TaskState::Running,
        "the late result changed nothing"
    );
    second.open(1);

    let told = || Outcome::Succeeded(Arc::from("2"));
    assert_eq!(
        (other.outcome(id).await, waiting.await),
        (told(), told()),
        "the last claim's result is the only one"
    );
    let task = other.find(id).await;
    assert_eq!(
        (task.state, task.attempt, task.fence),
        (TaskState::Succeeded, 2, 2)
    );
    let ends = other.engine().client().executions(id).await.unwrap();
    assert_eq!(
        ends.iter()
            .map(|end| (end.fence, end.reason))
            .collect::<Vec<_>>(),
        [(1, AttemptEnd::Lost)]
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_history").await, 1);
    // The node that was cut off works again.
    let next = node
        .submit(note::task("next".into()).delay(Duration::from_millis(1)))
        .await;
    assert_eq!(
        other.outcome(next).await,
        Outcome::Succeeded(Arc::from("1"))
    );
    node.shutdown().await;
    other.shutdown().await;
}
