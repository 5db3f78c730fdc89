//! Around the road: the schema, nodes, shards, dead workers, schedules.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{
    AttemptEnd, ErrorKind, JobName, Misfire, OnLost, Overlap, Priority, State, Timestamp, Trigger,
};
use ax_engine::shard::ShardSet;
use ax_engine::store::{
    Beat, Fire, Fired, LostLimit, ScheduleRow, ScheduleState, Settled, Store, TaskRow,
};
use ax_tests::databases::TestDatabase;

use crate::rows::*;

ax_tests::store_cases! {
    two_processes_migrate_at_once,
    a_missing_or_strange_schema_is_named,
    nodes_join_beat_and_leave,
    a_node_is_dead_only_with_the_same_beat_and_no_lease,
    lost_tasks_come_back_until_the_limit,
    a_lost_task_is_taken_back_once_and_only_from_a_dead_node,
    at_most_once_tasks_fail_when_lost,
    shards_have_one_owner,
    stranded_inboxes_are_emptied,
    a_tick_makes_one_task,
    a_definition_keeps_its_next_tick,
}

async fn two_processes_migrate_at_once(database: &TestDatabase) {
    let stores = futures_util::future::join_all((0..4).map(|_| database.store())).await;
    for store in stores {
        store.check_schema().await.unwrap();
    }
    assert_eq!(
        database.number("SELECT COUNT(*) FROM ax_shard").await,
        1_024
    );
}

async fn a_missing_or_strange_schema_is_named(database: &TestDatabase) {
    let bare = Store::new(database.open().await);
    let error = bare.check_schema().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
    assert!(error.to_string().contains("auto_migrate"), "{error}");
    let store = database.store().await;
    bare.check_schema().await.unwrap();
    database
        .run("INSERT INTO ax_migration VALUES (999, 'future', 'x', 0)")
        .await;
    for error in [
        store.check_schema().await.unwrap_err(),
        store.migrate().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains("newer version of ax"), "{error}");
    }
    database
        .run("DELETE FROM ax_migration WHERE version = 999")
        .await;
    database.run("UPDATE ax_migration SET checksum = 'x'").await;
    assert_eq!(
        store.check_schema().await.unwrap_err().kind(),
        ErrorKind::Schema
    );
}

async fn nodes_join_beat_and_leave(database: &TestDatabase) {
    let store = database.store().await;
    let (one, two) = (node(&store).await, node(&store).await);
    let peers = store.peers().await.unwrap();
    let mut inboxes: Vec<i64> = peers.nodes.iter().map(|peer| peer.inbox).collect();
    inboxes.sort_unstable();
    assert_eq!(inboxes, [1_024, 1_025]);
    let ttl = Duration::from_secs(15);
    let beat = Beat {
        node: one,
        running: 2,
        queued: 1,
        slots: 8,
        ttl,
    };
    let reply = store.beat(&beat).await.unwrap().unwrap();
    assert_eq!(reply.beat, 1);
    assert!(reply.now >= peers.now && reply.lease_until <= reply.now.plus(ttl));
    let peers = store.peers().await.unwrap();
    let peer = peers.nodes.iter().find(|peer| peer.node == one).unwrap();
    assert_eq!(
        (peer.running, peer.queued, peer.slots, peer.jobs.len()),
        (2, 1, 8, 1)
    );
    store.leaving(one).await.unwrap();
    assert!(
        store.beat(&beat).await.unwrap().is_some(),
        "it still finishes"
    );
    store.leave(one).await.unwrap();
    assert_eq!(store.beat(&beat).await.unwrap(), None);
    assert_eq!(store.prune_nodes(reply.now.plus(ttl)).await.unwrap(), 1);
    assert_eq!(store.peers().await.unwrap().nodes[0].node, two);
}

async fn a_node_is_dead_only_with_the_same_beat_and_no_lease(database: &TestDatabase) {
    let store = database.store().await;
    let alive = node(&store).await;
    assert!(!store.mark_dead(alive, 0).await.unwrap(), "its lease holds");
    let silent = node_with(&store, Duration::ZERO).await;
    let before = store.now().await.unwrap();
    // The lease is over once the database's clock has moved on by a millisecond.
    while store.now().await.unwrap() <= before {}
    assert!(
        !store.mark_dead(silent, 1).await.unwrap(),
        "another beat was seen"
    );
    assert!(store.mark_dead(silent, 0).await.unwrap());
    assert!(!store.mark_dead(silent, 0).await.unwrap(), "once");
    let beat = Beat {
        node: silent,
        running: 0,
        queued: 0,
        slots: 0,
        ttl: Duration::from_secs(1),
    };
    assert_eq!(
        store.beat(&beat).await.unwrap(),
        None,
        "it does not come back"
    );
}

async fn lost_tasks_come_back_until_the_limit(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    for loss in 1..=3 {
        let dead = node(&store).await;
        let claimed = claim(&store, dead, &[row.id]).await.pop().unwrap();
        assert_eq!((claimed.attempt, claimed.lost), (loss, loss - 1));
        assert!(
            store.orphans(10).await.unwrap().is_empty(),
            "its node lives"
        );
        bury(&store, dead).await;
        let orphans = store.orphans(10).await.unwrap();
        assert_eq!(orphans.len(), 1);
        let state = if loss < 3 {
            State::Pending
        } else {
            State::Failed
        };
        assert_eq!(
            store.lose(&orphans, LostLimit::default()).await.unwrap(),
            [Settled::Recorded(state)]
        );
        let late = store
            .settle(&[settlement(&claimed, success())])
            .await
            .unwrap();
        assert_eq!(late, [Settled::Stale], "a lost worker's result is dropped");
    }
    let task = store.find(row.id).await.unwrap().unwrap();
    assert_eq!((task.state, task.lost), (State::Failed, 3));
    assert!(task.error.unwrap().starts_with("worker lost"));
    let reasons: Vec<AttemptEnd> = store
        .executions(row.id)
        .await
        .unwrap()
        .iter()
        .map(|one| one.reason)
        .collect();
    assert_eq!(reasons, [AttemptEnd::Lost, AttemptEnd::Lost]);
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_dead").await, 1);
}

async fn a_lost_task_is_taken_back_once_and_only_from_a_dead_node(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let (dead, alive) = (node(&store).await, node(&store).await);
    let orphan = running(&store, dead, &row(now)).await;
    let held = running(&store, alive, &row(now)).await;
    let limit = LostLimit::default();
    assert_eq!(
        store.lose(&[held, orphan.clone()], limit).await.unwrap(),
        [Settled::Stale; 2],
        "both nodes live"
    );
    bury(&store, dead).await;
    let orphans = store.orphans(10).await.unwrap();
    store.lose(&orphans, limit).await.unwrap();
    let again = claim(&store, alive, &[orphan.id]).await.pop().unwrap();
    assert_eq!(
        store.lose(&orphans, limit).await.unwrap(),
        [Settled::Stale],
        "the fresh attempt is untouched"
    );
    store.cancel(again.id, None).await.unwrap();
    bury(&store, alive).await;
    let orphans: Vec<_> = store
        .orphans(10)
        .await
        .unwrap()
        .into_iter()
        .filter(|one| one.id == again.id)
        .collect();
    assert_eq!(
        store.lose(&orphans, limit).await.unwrap(),
        [Settled::Recorded(State::Canceled)]
    );
}

async fn at_most_once_tasks_fail_when_lost(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let dead = node(&store).await;
    let large = format!("\"{}\"", "x".repeat(9_000));
    running(
        &store,
        dead,
        &TaskRow {
            on_lost: OnLost::Fail,
            payload: large.as_str().into(),
            ..row(now)
        },
    )
    .await;
    bury(&store, dead).await;
    let orphans = store.orphans(10).await.unwrap();
    assert_eq!(&*orphans[0].payload, large);
    assert_eq!(
        store.lose(&orphans, LostLimit::default()).await.unwrap(),
        [Settled::Recorded(State::Failed)]
    );
    assert_eq!(
        database
            .number("SELECT COUNT(*) FROM ax_dead WHERE length(payload) > 9000")
            .await,
        1
    );
}

async fn shards_have_one_owner(database: &TestDatabase) {
    let store = database.store().await;
    let (one, two) = (node(&store).await, node(&store).await);
    assert_eq!(
        store
            .take_shards(one, token(), &ShardSet::ALL)
            .await
            .unwrap(),
        1_024
    );
    assert_eq!(
        store
            .take_shards(two, token(), &ShardSet::ALL)
            .await
            .unwrap(),
        0
    );
    let some: ShardSet = [0, 5, 1_023].into_iter().collect();
    assert_eq!(store.release_shards(one, &some).await.unwrap(), 3);
    assert_eq!(
        store
            .take_shards(two, token(), &ShardSet::ALL)
            .await
            .unwrap(),
        3
    );
    assert_eq!(store.owned_shards(two).await.unwrap(), some);
    bury(&store, one).await;
    assert_eq!(
        store
            .take_shards(two, token(), &ShardSet::ALL)
            .await
            .unwrap(),
        1_021
    );
    assert_eq!(store.abandon_shards(two).await.unwrap(), 1_024);
    assert!(store.owned_shards(two).await.unwrap().is_empty());
    assert_eq!(
        store.take_shards(one, token(), &some).await.unwrap(),
        0,
        "the dead take nothing"
    );
}

async fn stranded_inboxes_are_emptied(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let (gone, alive) = (node(&store).await, node(&store).await);
    let inbox = |node| async move {
        let store = database.store().await;
        store
            .peers()
            .await
            .unwrap()
            .nodes
            .iter()
            .find(|peer| peer.node == node)
            .unwrap()
            .inbox
    };
    let on = |shard: i64| TaskRow { shard, ..row(now) };
    let rows = [
        on(inbox(gone).await),
        on(inbox(gone).await),
        on(inbox(alive).await),
        on(9_999),
        on(3),
    ];
    submit(&store, &rows).await;
    bury(&store, gone).await;
    assert_eq!(store.empty_inboxes(5, 100).await.unwrap(), 3);
    let mut moved: Vec<i64> = store
        .inspect(&rows.clone().map(|row| row.id))
        .await
        .unwrap()
        .iter()
        .map(|row| row.due.shard)
        .collect();
    moved.sort_unstable();
    assert_eq!(moved, [3, 5, 5, 5, rows[2].shard]);
}

fn schedule(next_at: Timestamp) -> ScheduleRow {
    ScheduleRow {
        namespace: namespace(),
        name: Arc::from("nightly"),
        job: JobName::new("job").unwrap(),
        trigger: Trigger::Every {
            interval: Duration::from_secs(60),
            phase_from: Timestamp::from_millis(0),
        },
        payload: Arc::from("null"),
        misfire: Misfire::FireOnce,
        overlap: Overlap::Skip,
        priority: Priority::default(),
        on_lost: OnLost::Retry,
        state: ScheduleState::Active,
        next_at,
        last_at: None,
        last_task: None,
        version: 1,
        source: Arc::from("code"),
        updated_at: next_at,
    }
}

async fn a_tick_makes_one_task(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let stored = store.upsert_schedule(&schedule(now)).await.unwrap();
    assert_eq!(
        store.schedules_due(now).await.unwrap(),
        std::slice::from_ref(&stored)
    );
    let later = now.plus(Duration::from_secs(60));
    let fire = |tick: Timestamp, next_at: Timestamp| Fire {
        namespace: namespace(),
        name: Arc::clone(&stored.name),
        version: stored.version,
        tick,
        at: tick,
        next_at,
        ended: false,
        row: Some(row(now)),
        skipped: None,
    };
    let other = database.store().await;
    let (one, two) = (fire(now, later), fire(now, later));
    let (one, two) = tokio::join!(store.fire(&one), other.fire(&two));
    let mut fired = [one.unwrap(), two.unwrap()];
    fired.sort_by_key(|fired| *fired == Fired::Lost);
    assert_eq!(fired, [Fired::Yes, Fired::Lost]);
    assert_eq!(
        store.fire(&fire(later, later)).await.unwrap(),
        Fired::Lost,
        "not before its time"
    );
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_task").await, 1);
    let row = store.schedules(&namespace()).await.unwrap().pop().unwrap();
    assert_eq!(
        (row.next_at, row.last_at, row.last_task.is_some()),
        (later, Some(now), true)
    );
    database
        .run(&format!(
            "UPDATE ax_schedule SET next_at = {}",
            now.as_millis()
        ))
        .await;
    assert_eq!(
        store.fire(&fire(now, later)).await.unwrap(),
        Fired::Yes,
        "a schedule set back moves on"
    );
    assert_eq!(
        database.number("SELECT COUNT(*) FROM ax_task").await,
        1,
        "but makes no second task of the tick"
    );
    let (past, between) = (
        now.minus(Duration::from_secs(9)),
        now.minus(Duration::from_secs(5)),
    );
    database
        .run(&format!(
            "UPDATE ax_schedule SET next_at = {}",
            past.as_millis()
        ))
        .await;
    assert_eq!(store.fire(&fire(past, between)).await.unwrap(), Fired::Yes);
    assert_eq!(
        store.fire(&fire(past, later)).await.unwrap(),
        Fired::Lost,
        "the next tick is due, this one has fired"
    );
}

async fn a_definition_keeps_its_next_tick(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let first = store.upsert_schedule(&schedule(now)).await.unwrap();
    let restarted = schedule(now.plus(Duration::from_secs(9)));
    assert_eq!(
        store.upsert_schedule(&restarted).await.unwrap(),
        first,
        "case C06: a restart changes nothing"
    );
    let payload = ScheduleRow {
        payload: Arc::from("1"),
        ..restarted.clone()
    };
    let second = store.upsert_schedule(&payload).await.unwrap();
    assert_eq!(
        (second.next_at, second.version, &*second.payload),
        (now, 2, "1")
    );
    let retimed = ScheduleRow {
        trigger: Trigger::Every {
            interval: Duration::from_secs(7),
            phase_from: Timestamp::from_millis(0),
        },
        ..payload
    };
    let third = store.upsert_schedule(&retimed).await.unwrap();
    assert_eq!((third.next_at, third.version), (restarted.next_at, 3));
    let read = store.schedules(&namespace()).await.unwrap().pop().unwrap();
    assert_eq!((read.next_at, read.version), (third.next_at, 3));
}
