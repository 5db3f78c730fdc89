//! Submits and claims whose answer never comes: what was committed counts, and is found by asking.

use std::sync::Arc;
use std::time::Duration;

use ax_engine::db::{DbErrorKind, Lane};
use ax_engine::store::Sql;
use ax_sdk::{AttemptEnd, Outcome, Submission, TaskId, TaskState};
use ax_tests::databases::TestDatabase;
use ax_tests::fault_cases;
use ax_tests::faults::{Fault, FaultyNode, Gate, Point, Setup, Stage, Weather, lasts, until};

use crate::jobs::{JOBS, note};

fault_cases! {
    a_submit_that_ran_before_its_answer_was_lost_runs_once,
    a_keyed_submit_that_ran_before_its_answer_was_lost_runs_once,
    a_submit_born_claimed_whose_answer_was_lost_runs_once,
    a_submit_that_did_not_arrive_is_sent_again,
    a_claim_whose_answer_was_lost_is_found_by_its_token,
    a_claim_that_did_not_arrive_is_made_again,
    a_claim_that_nobody_could_ask_about_is_given_back,
}

/// A task that is not born claimed.
fn waiting(text: &str) -> Submission<u32> {
    note::task(text.to_owned()).delay(Duration::from_millis(30))
}

/// Ends the node: each task has run once, in its first attempt.
async fn each_ran_once(db: &TestDatabase, node: &FaultyNode, stage: &Stage, texts: &[&str]) {
    node.faults().used_up().await;
    node.shutdown().await;
    let mut ran = stage.all("").await;
    ran.sort_unstable();
    let mut expected: Vec<String> = texts.iter().map(|text| format!("{text} 1")).collect();
    expected.sort_unstable();
    assert_eq!(ran, expected);
    let tasks = i64::try_from(texts.len()).unwrap();
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_history WHERE state = 3 AND attempt = 1 AND lost = 0")
            .await,
        tasks
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_history").await, tasks);
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_task").await, 0);
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_key").await, 0);
}

/// Submits beside the case, which goes on.
fn submit_aside(node: &Arc<FaultyNode>, task: Submission<u32>) -> tokio::task::JoinHandle<TaskId> {
    let node = node.clone();
    tokio::spawn(async move { node.submit(task).await })
}

async fn ran_before_the_answer(db: &TestDatabase, point: Point, task: Submission<u32>) {
    let stage = Stage::default();
    let node = Arc::new(Setup::new(db, &stage, &JOBS).start().await);
    let gate = Gate::default();
    node.faults()
        .strike(point, 1, Fault::LoseAnswerAt(gate.clone()));
    let submitted = submit_aside(&node, task);
    gate.reached().await;
    // The row is there; a poll finds it, and it runs and moves to the history.
    stage.noted("early 1", 1).await;
    until("the history", async || {
        (db.number("SELECT COUNT(*) FROM ax_history").await == 1).then_some(())
    })
    .await;
    gate.open();
    let id = submitted.await.unwrap();
    assert_eq!(node.outcome(id).await, Outcome::Succeeded(Arc::from("1")));
    // Whatever was sent again would be due by now.
    let marker = node.submit(waiting("marker")).await;
    node.outcome(marker).await;
    each_ran_once(db, &node, &stage, &["early", "marker"]).await;
}

async fn a_submit_that_ran_before_its_answer_was_lost_runs_once(db: &TestDatabase) {
    ran_before_the_answer(db, Point::Statement(Sql::InsertTasks), waiting("early")).await;
}

async fn a_keyed_submit_that_ran_before_its_answer_was_lost_runs_once(db: &TestDatabase) {
    ran_before_the_answer(
        db,
        Point::CommitOf(Sql::InsertKeys),
        waiting("early").key("k"),
    )
    .await;
}

async fn a_submit_born_claimed_whose_answer_was_lost_runs_once(db: &TestDatabase) {
    let stage = Stage::default();
    let node = Arc::new(Setup::new(db, &stage, &JOBS).start().await);
    node.faults()
        .strike(Point::Statement(Sql::InsertBorn), 1, Fault::LoseAnswer);
    let id = node.submit(note::task("at once".into())).await;
    node.outcome(id).await;
    // Nobody is told for so long that this node looks for strays meanwhile: the row is no stray.
    let gate = Gate::default();
    node.faults().strike(
        Point::Statement(Sql::InsertBorn),
        1,
        Fault::LoseAnswerAt(gate.clone()),
    );
    let submitted = submit_aside(&node, note::task("after a while".into()));
    gate.reached().await;
    lasts(Duration::from_millis(1_500)).await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_task WHERE state = 2 AND fence = 1")
            .await,
        1
    );
    gate.open();
    node.outcome(submitted.await.unwrap()).await;
    assert_eq!(node.stats().recovered, 0);
    each_ran_once(db, &node, &stage, &["at once", "after a while"]).await;
}

async fn a_submit_that_did_not_arrive_is_sent_again(db: &TestDatabase) {
    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    let lost = Fault::Refuse(DbErrorKind::Lost);
    // The questions fail too, more often than the store asks by itself.
    node.faults()
        .strike(Point::Statement(Sql::Inspect), 4, lost.clone());
    node.faults()
        .strike(Point::Statement(Sql::InsertTasks), 1, lost.clone());
    node.faults()
        .strike(Point::CommitOf(Sql::InsertMissing), 2, Fault::LoseAnswer);
    node.submit(waiting("plain")).await;
    node.faults()
        .strike(Point::Statement(Sql::InsertBorn), 1, lost.clone());
    node.submit(note::task("born".into())).await;
    node.faults()
        .strike(Point::CommitOf(Sql::InsertKeys), 5, lost);
    node.submit(waiting("keyed").key("k")).await;
    stage.noted("", 3).await;
    until("the history", async || {
        (db.number("SELECT COUNT(*) FROM ax_history").await == 3).then_some(())
    })
    .await;
    each_ran_once(db, &node, &stage, &["plain", "born", "keyed"]).await;
}

async fn a_claim_whose_answer_was_lost_is_found_by_its_token(db: &TestDatabase) {
    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    for (text, times) in [("one", 1), ("three", 3)] {
        node.faults()
            .strike(Point::Statement(Sql::Claim), times, Fault::LoseAnswer);
        node.faults()
            .strike(Point::Statement(Sql::ReadClaimed), times, Fault::LoseAnswer);
        let id = node.submit(waiting(text)).await;
        node.outcome(id).await;
        assert_eq!(node.find(id).await.fence, 1, "claimed once");
    }
    assert_eq!(node.stats().recovered, 0);
    each_ran_once(db, &node, &stage, &["one", "three"]).await;
}

async fn a_claim_that_did_not_arrive_is_made_again(db: &TestDatabase) {
    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    for (kind, times) in [
        (DbErrorKind::Lost, 4),
        (DbErrorKind::Retry, 2),
        (DbErrorKind::Timeout, 2),
        (DbErrorKind::Other, 2),
    ] {
        node.faults()
            .strike(Point::Statement(Sql::Claim), times, Fault::Refuse(kind));
    }
    let id = node.submit(waiting("claimed")).await;
    node.outcome(id).await;
    each_ran_once(db, &node, &stage, &["claimed"]).await;
}

async fn a_claim_that_nobody_could_ask_about_is_given_back(db: &TestDatabase) {
    let stage = Stage::default();
    let node = Setup::new(db, &stage, &JOBS).start().await;
    let gate = Gate::default();
    node.faults().strike(
        Point::Statement(Sql::Claim),
        1,
        Fault::LoseAnswerAt(gate.clone()),
    );
    let id = node.submit(waiting("stray")).await;
    gate.reached().await;
    node.faults().set_weather(Weather::Cut);
    gate.open();
    // For longer than the lease: until then the node asks, after that it may not.
    lasts(Duration::from_millis(2_500)).await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_task WHERE state = 2 AND fence = 1")
            .await,
        1,
        "it is claimed, unknown to all"
    );
    node.faults().set_weather(Weather::Fair);
    assert_eq!(node.outcome(id).await, Outcome::Succeeded(Arc::from("1")));
    let task = node.find(id).await;
    assert_eq!(
        (task.state, task.fence, task.lost),
        (TaskState::Succeeded, 2, 0)
    );
    let ends = node.engine().client().executions(id).await.unwrap();
    assert_eq!(
        ends.iter()
            .map(|end| (end.fence, end.reason))
            .collect::<Vec<_>>(),
        [(1, AttemptEnd::Released)]
    );
    assert_eq!(node.stats().recovered, 1);
    each_ran_once(db, &node, &stage, &["stray"]).await;
}

/// On a server a statement may still be under way on a connection that its client has given up.
mod overtaken {
    use super::*;
    use ax_tests::databases::{Kind, fresh};

    #[tokio::test]
    async fn a_submit_overtaken_by_its_own_second_sending_runs_once() {
        let Some(db) = fresh(Kind::Postgres).await else {
            return;
        };
        let stage = Stage::default();
        let node = Arc::new(Setup::new(&db, &stage, &JOBS).start().await);
        let (first, second) = (Gate::default(), Gate::default());
        node.faults().strike(
            Point::Statement(Sql::InsertTasks),
            1,
            Fault::Overtake(first.clone()),
        );
        node.faults()
            .strike(Point::Begin(Lane::Write), 1, Fault::Hold(second.clone()));
        let submitted = submit_aside(&node, waiting("early"));
        // The node has looked, found nothing, and is about to insert what seems to be missing.
        second.reached().await;
        first.open();
        stage.noted("early 1", 1).await;
        until("the history", async || {
            (db.number("SELECT COUNT(*) FROM ax_history").await == 1).then_some(())
        })
        .await;
        second.open();
        let id = submitted.await.unwrap();
        assert_eq!(node.outcome(id).await, Outcome::Succeeded(Arc::from("1")));
        let marker = node.submit(waiting("marker")).await;
        node.outcome(marker).await;
        each_ran_once(&db, &node, &stage, &["early", "marker"]).await;
    }
}
