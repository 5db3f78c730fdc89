//! A node that is cut off from the database while it works.

use std::sync::Arc;
use std::time::Duration;

use ax_sdk::{AttemptEnd, Outcome, TaskState};
use ax_tests::databases::TestDatabase;
use ax_tests::fault_cases;
use ax_tests::faults::{Setup, Stage, Weather, until};

use crate::jobs::{JOBS, note, stubborn};

fault_cases! {
    case_c11_a_silent_database_ends_the_work_before_the_lease,
    case_c11_a_failing_database_ends_the_work_before_the_lease,
}

async fn case_c11_a_silent_database_ends_the_work_before_the_lease(db: &TestDatabase) {
    cut_off(db, Weather::Silent).await;
}

async fn case_c11_a_failing_database_ends_the_work_before_the_lease(db: &TestDatabase) {
    cut_off(db, Weather::Cut).await;
}

async fn cut_off(db: &TestDatabase, weather: Weather) {
    let (first, second) = (Stage::default(), Stage::default());
    // A longer lease than elsewhere: what is measured here is how much of it is left.
    let long = |config: &mut ax_sdk::Config| config.lease = Duration::from_secs(3);
    let node = Setup::new(db, &first, &JOBS).configure(long).start().await;
    let other = Setup::new(db, &second, &JOBS).configure(long).start().await;
    let id = node.submit(stubborn::task("work".into())).await;
    first.noted("work started 1", 1).await;
    node.faults().set_weather(weather);

    let signaled = first.noted("work signaled", 1).await;
    let signaled: i64 = signaled[0].rsplit(' ').next().unwrap().parse().unwrap();
    // The first node to join has the first inbox. The database's clock is this machine's, so the two compare.
    let lease_until = db
        .number("SELECT lease_until FROM ax_node WHERE inbox = 1024")
        .await;
    assert!(
        signaled < lease_until,
        "signaled {} ms too late",
        signaled - lease_until
    );

    second.noted("work started 2", 1).await;
    let claimed_at = db.number("SELECT claimed_at FROM ax_task").await;
    assert!(claimed_at > lease_until, "nobody takes over before that");
    node.faults().set_weather(Weather::Fair);
    first.open(1);
    until("the late write", async || {
        (node.stats().stale == 1).then_some(())
    })
    .await;
    let task = other.find(id).await;
    assert_eq!(
        (task.state, task.attempt, task.fence, task.lost),
        (TaskState::Running, 2, 2, 1),
        "it is refused"
    );
    second.open(1);
    assert_eq!(other.outcome(id).await, Outcome::Succeeded(Arc::from("2")));
    let ends = other.engine().client().executions(id).await.unwrap();
    assert_eq!(
        ends.iter()
            .map(|end| (end.fence, end.reason))
            .collect::<Vec<_>>(),
        [(1, AttemptEnd::Lost)]
    );
    assert_eq!(
        (
            first.all("work started").await.len(),
            second.all("work started").await.len()
        ),
        (1, 1)
    );
    assert_eq!(node.stats().settled, 0);

    let next = node.submit(note::task("next".into())).await;
    assert_eq!(
        node.outcome(next).await,
        Outcome::Succeeded(Arc::from("1")),
        "it has joined again"
    );
    node.shutdown().await;
    other.shutdown().await;
}
