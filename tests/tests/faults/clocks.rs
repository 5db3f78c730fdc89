//! Nodes whose idea of the time is not the database's.

use std::collections::BTreeSet;
use std::time::Duration;

use ax_sdk::Ownership;
use ax_tests::databases::TestDatabase;
use ax_tests::fault_cases;
use ax_tests::faults::{Faults, FaultyNode, Setup, Stage};

use crate::jobs::tick;

fault_cases! {
    case_c09_two_nodes_behind_the_database_fire_no_tick_twice,
    case_c09_a_node_ahead_and_one_behind_fire_no_tick_twice,
}

const TICKS: usize = 50;

async fn case_c09_two_nodes_behind_the_database_fire_no_tick_twice(db: &TestDatabase) {
    tick_off(db, [-2_000, -2_000]).await;
}

async fn case_c09_a_node_ahead_and_one_behind_fire_no_tick_twice(db: &TestDatabase) {
    tick_off(db, [-2_000, 2_000]).await;
}

async fn tick_off(db: &TestDatabase, skews: [i64; 2]) {
    let stage = Stage::default();
    let mut nodes = Vec::new();
    for skew in skews {
        nodes.push(start(db, &stage, skew).await);
    }
    stage.noted("tick", TICKS).await;
    for node in nodes {
        node.shutdown().await;
    }
    let ticks: Vec<i64> = stage
        .all("tick")
        .await
        .iter()
        .map(|note| note[5..].parse().unwrap())
        .collect();
    let distinct: BTreeSet<i64> = ticks.iter().copied().collect();
    assert_eq!(
        distinct.len(),
        ticks.len(),
        "as many executions as nominal times"
    );
    let made = "SELECT COUNT(*) FROM (SELECT scheduled_at FROM ax_history UNION ALL SELECT scheduled_at FROM ax_task) t";
    let distinct = made.replace("COUNT(*)", "COUNT(DISTINCT scheduled_at)");
    assert_eq!(
        db.number(made).await,
        db.number(&distinct).await,
        "nor is a task made twice"
    );
    let span = made.replace(
        "COUNT(*)",
        "(MAX(scheduled_at) - MIN(scheduled_at)) / 50 + 1",
    );
    assert_eq!(
        db.number(&span).await,
        db.number(made).await,
        "none is left out"
    );
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_history WHERE claimed_at < scheduled_at")
            .await,
        0,
        "none is early"
    );
}

async fn start(db: &TestDatabase, stage: &Stage, skew: i64) -> FaultyNode {
    let faults = Faults::default();
    faults.skew(skew);
    let setup = Setup::new(db, stage, &[tick::JOB]).configure(|config| {
        config.ownership = Ownership::Everyone;
        config.lease = Duration::from_secs(4);
        config.beat = Duration::from_secs(1);
    });
    setup.start_with(faults).await
}
