//! Two verbs on two connections, one of them held before a chosen statement while the other one comes.
//!
//! [`meet`] holds the first at a gate, starts the second, and waits until that one has either ended or stands at a lock.
//! Then the first goes on. On SQLite nobody gets in between the statements of a transaction: there the second one waits.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{
    AttemptEnd, ErrorKind, JobName, KeyMode, Misfire, NodeId, OnLost, Overlap, Priority, State,
    Timestamp, Trigger,
};
use ax_engine::db::Lane;
use ax_engine::shard::ShardSet;
use ax_engine::store::{
    Beat, CancelResult, Changed, ClaimRequest, Claimed, End, Fire, Fired, KeyPlaced, LostLimit,
    Placed, ScheduleRow, ScheduleState, Settled, Sql, Store, TaskRow, Watched,
};
use ax_tests::databases::{Kind, TestDatabase};
use ax_tests::faults::{Fault, Faults, FaultyDatabase, Gate, Point, until};

use crate::rows::*;
use crate::sessions::waiting;

ax_tests::fault_cases! {
    a_cancel_before_the_outcome_wins,
    a_cancel_behind_the_outcome_finds_it_ended,
    a_cancel_before_a_retry_wins,
    a_claim_before_the_claim_takes_the_task,
    a_cancel_before_the_claim_leaves_nothing_to_claim,
    a_claim_behind_a_cancel_gets_nothing,
    a_cancel_behind_the_claim_marks_it,
    a_reschedule_before_the_claim_is_kept,
    a_claim_before_the_reschedule_refuses_it,
    a_claim_before_the_replace_keeps_its_contents,
    a_claim_behind_the_replace_has_the_new_contents,
    a_submit_behind_a_rerun_finds_its_key_held,
    a_submit_before_a_rerun_takes_its_key,
    a_loss_before_the_outcome_makes_it_stale,
    an_outcome_behind_the_loss_is_stale,
    a_loss_behind_the_outcome_changes_nothing,
    a_beat_before_the_declaration_keeps_the_node,
    a_declaration_before_the_beat_ends_it,
    a_tick_is_fired_by_the_first_to_move_the_schedule,
    a_tick_is_not_fired_while_it_is_fired,
    shards_in_dispute_go_to_one,
    a_claim_before_the_expiry_keeps_the_task,
    an_overdue_task_is_not_claimed_while_it_expires,
    a_second_sending_behind_the_first_inserts_nothing,
    a_second_keyed_sending_behind_the_first_inserts_nothing,
    a_second_sending_behind_a_failed_first_completes_it,
}

/// Whether the second verb ended while the first was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    GotIn,
    Waited,
}

/// What the second one does on SQLite where it gets in on PostgreSQL.
fn got_in(database: &TestDatabase) -> Second {
    if database.kind() == Kind::Postgres {
        Second::GotIn
    } else {
        Second::Waited
    }
}

/// Holds `first` at `point` while `second` is under way.
async fn meet<A, B>(
    database: &TestDatabase,
    point: Point,
    first: impl AsyncFnOnce(&Store) -> A,
    second: impl AsyncFnOnce(&Store) -> B,
) -> (A, B, Second) {
    meet_at(database, point, first, second, async || ()).await
}

/// The same, with something that happens before the first goes on.
async fn meet_at<A, B>(
    database: &TestDatabase,
    point: Point,
    first: impl AsyncFnOnce(&Store) -> A,
    second: impl AsyncFnOnce(&Store) -> B,
    then: impl AsyncFnOnce(),
) -> (A, B, Second) {
    let (faults, gate) = (Faults::default(), Gate::default());
    faults.strike(point, 1, Fault::Hold(gate.clone()));
    let held = Store::new(Arc::new(FaultyDatabase::new(database.open().await, faults)));
    let other = Store::new(database.open().await);
    let (ended, mut is_ended) = tokio::sync::watch::channel(false);
    let later = async {
        gate.reached().await;
        let answer = second(&other).await;
        ended.send_replace(true);
        answer
    };
    let stage = async {
        gate.reached().await;
        let order = tokio::select! {
            _ = is_ended.wait_for(|ended| *ended) => Second::GotIn,
            () = stands_at_a_lock(database) => Second::Waited,
        };
        then().await;
        gate.open();
        order
    };
    tokio::join!(first(&held), later, stage)
}

/// Ends when somebody waits for a lock, at two looks in a row because some locks of a server pass by themselves. SQLite does
/// not tell, so there it ends after several looks.
async fn stands_at_a_lock(database: &TestDatabase) {
    let mut looks = 0;
    until("a lock", async || {
        let (stands, enough) = match database.kind() {
            Kind::Postgres => (waiting(database).await > 0, 2),
            _ => (true, 20),
        };
        looks = if stands { looks + 1 } else { 0 };
        (looks == enough).then_some(())
    })
    .await;
}

/// A store, its now, and a node on it.
async fn world(database: &TestDatabase) -> (Store, Timestamp, NodeId) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    (store, now, node)
}

async fn settle(store: &Store, claimed: &Claimed, end: End) -> Settled {
    store.settle(&[settlement(claimed, end)]).await.unwrap()[0]
}

async fn keyed_submit(store: &Store, row: &TaskRow) -> KeyPlaced {
    let placed = store.submit_keyed(std::slice::from_ref(row)).await;
    placed.into_iter().next().unwrap().unwrap()
}

async fn lose(store: &Store, claimed: &Claimed) -> Settled {
    store
        .lose(std::slice::from_ref(claimed), LostLimit(3))
        .await
        .unwrap()[0]
}

async fn state(store: &Store, row: &TaskRow) -> State {
    store.find(row.id).await.unwrap().unwrap().state
}

fn retry(now: Timestamp) -> End {
    End::Retry {
        ready_at: now,
        error: "again".into(),
        reason: AttemptEnd::Retried,
    }
}

async fn a_cancel_before_the_outcome_wins(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = row(now);
    let claimed = running(&store, node, &row).await;
    let (settled, canceled, order) = meet(
        database,
        Point::Statement(Sql::DeleteSettled),
        async |store| settle(store, &claimed, success()).await,
        async |store| store.cancel(row.id, Some("stop")).await.unwrap(),
    )
    .await;
    assert_eq!(order, got_in(database));
    let expected = match order {
        Second::GotIn => (State::Canceled, CancelResult::Requested),
        Second::Waited => (
            State::Succeeded,
            CancelResult::AlreadyFinal(State::Succeeded),
        ),
    };
    assert_eq!(
        (settled, canceled),
        (Settled::Recorded(expected.0), expected.1)
    );
    assert_eq!(state(&store, &row).await, expected.0);
    assert_eq!(store.outcomes(&[row.id]).await.unwrap().len(), 1);
}

async fn a_cancel_behind_the_outcome_finds_it_ended(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    for point in [
        Point::Statement(Sql::InsertHistory),
        Point::CommitOf(Sql::InsertHistory),
    ] {
        let row = row(now);
        let claimed = running(&store, node, &row).await;
        let (settled, canceled, order) = meet(
            database,
            point,
            async |store| settle(store, &claimed, success()).await,
            async |store| store.cancel(row.id, None).await.unwrap(),
        )
        .await;
        assert_eq!(order, Second::Waited);
        assert_eq!(settled, Settled::Recorded(State::Succeeded));
        assert_eq!(canceled, CancelResult::AlreadyFinal(State::Succeeded));
        assert_eq!(state(&store, &row).await, State::Succeeded);
    }
}

async fn a_cancel_before_a_retry_wins(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = row(now);
    let claimed = running(&store, node, &row).await;
    let (settled, canceled, order) = meet(
        database,
        Point::Statement(Sql::Requeue),
        async |store| settle(store, &claimed, retry(now)).await,
        async |store| store.cancel(row.id, None).await.unwrap(),
    )
    .await;
    assert_eq!(order, got_in(database));
    let expected = match order {
        Second::GotIn => (State::Canceled, CancelResult::Requested),
        Second::Waited => (State::Pending, CancelResult::Canceled),
    };
    assert_eq!(
        (settled, canceled),
        (Settled::Recorded(expected.0), expected.1)
    );
    assert_eq!(state(&store, &row).await, State::Canceled);
    assert_eq!(store.outcomes(&[row.id]).await.unwrap().len(), 1);
}

async fn a_claim_before_the_claim_takes_the_task(database: &TestDatabase) {
    let (store, now, one) = world(database).await;
    let (two, row) = (node(&store).await, row(now));
    submit(&store, std::slice::from_ref(&row)).await;
    let (first, second, order) = meet(
        database,
        Point::Statement(Sql::Claim),
        async |store| claim(store, one, &[row.id]).await,
        async |store| claim(store, two, &[row.id]).await,
    )
    .await;
    assert_eq!((first, second.len(), order), (Vec::new(), 1, Second::GotIn));
    assert_eq!((second[0].node, second[0].fence), (two, 1));
}

async fn a_cancel_before_the_claim_leaves_nothing_to_claim(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    let (claimed, canceled, order) = meet(
        database,
        Point::Statement(Sql::Claim),
        async |store| claim(store, node, &[row.id]).await,
        async |store| store.cancel(row.id, None).await.unwrap(),
    )
    .await;
    assert_eq!(
        (claimed, canceled, order),
        (Vec::new(), CancelResult::Canceled, Second::GotIn)
    );
}

async fn a_claim_behind_a_cancel_gets_nothing(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    let (canceled, claimed, order) = meet(
        database,
        Point::Statement(Sql::DeleteTask),
        async |store| store.cancel(row.id, None).await.unwrap(),
        async |store| claim(store, node, &[row.id]).await,
    )
    .await;
    assert_eq!(
        (claimed, canceled, order),
        (Vec::new(), CancelResult::Canceled, Second::Waited)
    );
    assert_eq!(state(&store, &row).await, State::Canceled);
}

async fn a_cancel_behind_the_claim_marks_it(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    let (claimed, canceled, order) = meet(
        database,
        Point::Statement(Sql::ReadClaimed),
        async |store| claim(store, node, &[row.id]).await,
        async |store| store.cancel(row.id, None).await.unwrap(),
    )
    .await;
    assert_eq!(
        (claimed.len(), canceled, order),
        (1, CancelResult::Requested, Second::GotIn)
    );
    let news = store.watch(&[(row.id, claimed[0].token)]).await.unwrap();
    assert_eq!(news, [(row.id, Watched::CancelRequested { reason: None })]);
    let settled = settle(&store, &claimed[0], success()).await;
    assert_eq!(settled, Settled::Recorded(State::Canceled));
}

async fn a_reschedule_before_the_claim_is_kept(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    let later = now.plus(Duration::from_secs(3_600));
    let (claimed, changed, order) = meet(
        database,
        Point::Statement(Sql::Claim),
        async |store| claim(store, node, &[row.id]).await,
        async |store| store.reschedule(row.id, later).await.unwrap(),
    )
    .await;
    assert_eq!(
        (claimed, changed, order),
        (Vec::new(), Changed::Yes, Second::GotIn)
    );
    assert_eq!(store.find(row.id).await.unwrap().unwrap().ready_at, later);
}

async fn a_claim_before_the_reschedule_refuses_it(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    let (changed, claimed, order) = meet(
        database,
        Point::Statement(Sql::Reschedule),
        async |store| store.reschedule(row.id, Timestamp::MAX).await.unwrap(),
        async |store| claim(store, node, &[row.id]).await,
    )
    .await;
    assert_eq!(
        (changed, claimed.len()),
        (Changed::Refused(State::Running), 1)
    );
    assert_eq!(order, Second::GotIn);
}

/// A waiting task with a key, and a row that would replace it.
async fn to_replace(store: &Store, now: Timestamp) -> (TaskRow, TaskRow) {
    let first = keyed(now, "k", KeyMode::Reject);
    assert_eq!(keyed_submit(store, &first).await, KeyPlaced::New);
    (
        first,
        TaskRow {
            payload: "\"new\"".into(),
            ..keyed(now, "k", KeyMode::Replace)
        },
    )
}

async fn a_claim_before_the_replace_keeps_its_contents(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let (first, next) = to_replace(&store, now).await;
    let (placed, claimed, order) = meet(
        database,
        Point::Statement(Sql::ReplaceTask),
        async |store| keyed_submit(store, &next).await,
        async |store| claim(store, node, &[first.id]).await,
    )
    .await;
    assert_eq!(order, got_in(database));
    let expected = match order {
        Second::GotIn => (KeyPlaced::Existing(first.id), &first.payload),
        Second::Waited => (KeyPlaced::Replaced(first.id), &next.payload),
    };
    assert_eq!((placed, &claimed[0].payload), expected);
    assert_eq!(
        store.find(first.id).await.unwrap().unwrap().payload,
        **expected.1
    );
}

async fn a_claim_behind_the_replace_has_the_new_contents(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let (first, next) = to_replace(&store, now).await;
    let (placed, claimed, order) = meet(
        database,
        Point::CommitOf(Sql::ReplaceTask),
        async |store| keyed_submit(store, &next).await,
        async |store| claim(store, node, &[first.id]).await,
    )
    .await;
    assert_eq!(
        (placed, order),
        (KeyPlaced::Replaced(first.id), Second::Waited)
    );
    assert_eq!(claimed[0].payload, next.payload);
}

/// A task with a key that has failed, and another row with its key.
async fn to_rerun(store: &Store, now: Timestamp, node: NodeId) -> (TaskRow, TaskRow) {
    let first = keyed(now, "k", KeyMode::Reject);
    keyed_submit(store, &first).await;
    let claimed = claim(store, node, &[first.id]).await;
    settle(store, &claimed[0], failure("x")).await;
    (first, keyed(now, "k", KeyMode::Reject))
}

async fn a_submit_behind_a_rerun_finds_its_key_held(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let (first, next) = to_rerun(&store, now, node).await;
    let (rerun, placed, order) = meet(
        database,
        Point::Statement(Sql::InsertMissing),
        async |store| store.rerun(first.id, now, 0).await.unwrap(),
        async |store| keyed_submit(store, &next).await,
    )
    .await;
    assert_eq!(
        (rerun, placed),
        (Changed::Yes, KeyPlaced::Rejected(first.id))
    );
    assert_eq!(order, Second::Waited);
}

async fn a_submit_before_a_rerun_takes_its_key(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let (first, next) = to_rerun(&store, now, node).await;
    let (rerun, placed, order) = meet(
        database,
        Point::Statement(Sql::InsertKeys),
        async |store| {
            store
                .rerun(first.id, now, 0)
                .await
                .map_err(|error| error.kind())
        },
        async |store| keyed_submit(store, &next).await,
    )
    .await;
    assert_eq!(order, got_in(database));
    let expected = match order {
        Second::GotIn => (Err(ErrorKind::Conflict), KeyPlaced::New),
        Second::Waited => (Ok(Changed::Yes), KeyPlaced::Rejected(first.id)),
    };
    assert_eq!((rerun, placed), expected);
    let live = "SELECT COUNT(*) FROM ax_task WHERE task_key = 'k'";
    assert_eq!(database.number(live).await, 1);
}

/// A task that runs on a node that was declared dead.
async fn orphan(store: &Store, now: Timestamp, dead: NodeId) -> (TaskRow, Claimed) {
    let row = row(now);
    let claimed = running(store, dead, &row).await;
    bury(store, dead).await;
    (row, claimed)
}

async fn a_loss_before_the_outcome_makes_it_stale(database: &TestDatabase) {
    let (store, now, dead) = world(database).await;
    let (row, claimed) = orphan(&store, now, dead).await;
    let (settled, lost, order) = meet(
        database,
        Point::Statement(Sql::DeleteSettled),
        async |store| settle(store, &claimed, success()).await,
        async |store| lose(store, &claimed).await,
    )
    .await;
    assert_eq!(order, got_in(database));
    let expected = match order {
        Second::GotIn => (Settled::Stale, Settled::Recorded(State::Pending)),
        Second::Waited => (Settled::Recorded(State::Succeeded), Settled::Stale),
    };
    assert_eq!((settled, lost), expected);
    let task = store.find(row.id).await.unwrap().unwrap();
    assert_eq!(task.lost, u32::from(order == Second::GotIn));
}

async fn an_outcome_behind_the_loss_is_stale(database: &TestDatabase) {
    let (store, now, dead) = world(database).await;
    let (row, claimed) = orphan(&store, now, dead).await;
    let (lost, settled, order) = meet(
        database,
        Point::Statement(Sql::RequeueLost),
        async |store| lose(store, &claimed).await,
        async |store| settle(store, &claimed, success()).await,
    )
    .await;
    assert_eq!(
        (lost, settled),
        (Settled::Recorded(State::Pending), Settled::Stale)
    );
    assert_eq!(
        (order, state(&store, &row).await),
        (Second::Waited, State::Pending)
    );
    assert_eq!(store.outcomes(&[row.id]).await.unwrap(), []);
}

async fn a_loss_behind_the_outcome_changes_nothing(database: &TestDatabase) {
    let (store, now, dead) = world(database).await;
    let (row, claimed) = orphan(&store, now, dead).await;
    let (settled, lost, order) = meet(
        database,
        Point::CommitOf(Sql::DeleteSettled),
        async |store| settle(store, &claimed, success()).await,
        async |store| lose(store, &claimed).await,
    )
    .await;
    assert_eq!(
        (settled, lost),
        (Settled::Recorded(State::Succeeded), Settled::Stale)
    );
    assert_eq!(
        (order, state(&store, &row).await),
        (Second::Waited, State::Succeeded)
    );
}

/// A node whose lease is over.
async fn late(store: &Store) -> (NodeId, Beat) {
    let node = node_with(store, Duration::ZERO).await;
    let joined = store.now().await.unwrap();
    until("the end of its lease", async || {
        (store.now().await.unwrap() > joined).then_some(())
    })
    .await;
    (
        node,
        Beat {
            node,
            running: 0,
            queued: 0,
            slots: 1,
            ttl: Duration::from_secs(60),
        },
    )
}

async fn a_beat_before_the_declaration_keeps_the_node(database: &TestDatabase) {
    let store = database.store().await;
    let (node, beat) = late(&store).await;
    let (dead, beaten, order) = meet(
        database,
        Point::Statement(Sql::MarkDead),
        async |store| store.mark_dead(node, 0).await.unwrap(),
        async |store| store.beat(&beat).await.unwrap(),
    )
    .await;
    assert!(!dead && beaten.is_some(), "{dead} {beaten:?}");
    assert_eq!(order, Second::GotIn);
}

async fn a_declaration_before_the_beat_ends_it(database: &TestDatabase) {
    let store = database.store().await;
    let (node, beat) = late(&store).await;
    let (beaten, dead, order) = meet(
        database,
        Point::Statement(Sql::Beat),
        async |store| store.beat(&beat).await.unwrap(),
        async |store| store.mark_dead(node, 0).await.unwrap(),
    )
    .await;
    assert!(dead && beaten.is_none(), "{dead} {beaten:?}");
    assert_eq!(order, Second::GotIn);
}

/// A schedule of one minute that is due.
fn schedule(next_at: Timestamp) -> ScheduleRow {
    ScheduleRow {
        namespace: namespace(),
        name: Arc::from("minute"),
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

fn tick(stored: &ScheduleRow, now: Timestamp) -> Fire {
    Fire {
        namespace: namespace(),
        name: stored.name.clone(),
        version: stored.version,
        tick: now,
        at: now,
        next_at: now.plus(Duration::from_secs(60)),
        ended: false,
        row: Some(row(now)),
        skipped: None,
    }
}

async fn both_fire(database: &TestDatabase, point: Point) -> (Fired, Fired, Second) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let stored = store.upsert_schedule(&schedule(now)).await.unwrap();
    let (one, two) = (tick(&stored, now), tick(&stored, now));
    let met = meet(
        database,
        point,
        async |store| store.fire(&one).await.unwrap(),
        async |store| store.fire(&two).await.unwrap(),
    )
    .await;
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_task").await, 1);
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_tick").await, 1);
    met
}

async fn a_tick_is_fired_by_the_first_to_move_the_schedule(database: &TestDatabase) {
    let (one, two, order) = both_fire(database, Point::Statement(Sql::AdvanceSchedule)).await;
    assert_eq!(order, got_in(database));
    match order {
        Second::GotIn => assert_eq!((one, two), (Fired::Lost, Fired::Yes)),
        Second::Waited => assert_eq!((one, two), (Fired::Yes, Fired::Lost)),
    }
}

async fn a_tick_is_not_fired_while_it_is_fired(database: &TestDatabase) {
    let met = both_fire(database, Point::CommitOf(Sql::AdvanceSchedule)).await;
    assert_eq!(met, (Fired::Yes, Fired::Lost, Second::Waited));
}

async fn shards_in_dispute_go_to_one(database: &TestDatabase) {
    let (store, _, one) = world(database).await;
    let two = node(&store).await;
    let (wants, others): (ShardSet, ShardSet) = ((0..5).collect(), (2..8).collect());
    let (first, second, order) = meet(
        database,
        Point::Statement(Sql::TakeShards),
        async |store| store.take_shards(one, token(), &wants).await.unwrap(),
        async |store| store.take_shards(two, token(), &others).await.unwrap(),
    )
    .await;
    assert_eq!((first, second, order), (2, 6, Second::GotIn));
    let owned = store.owned_shards(one).await.unwrap();
    assert_eq!(owned.iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(store.owned_shards(two).await.unwrap(), others);
}

async fn a_claim_before_the_expiry_keeps_the_task(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = TaskRow {
        deadline: now.plus(Duration::from_secs(60)),
        ..row(now)
    };
    submit(&store, std::slice::from_ref(&row)).await;
    let (expired, claimed, order) = meet_at(
        database,
        Point::Statement(Sql::LockTask),
        async |store| store.expire(&[row.id]).await.unwrap(),
        async |store| claim(store, node, &[row.id]).await,
        async || {
            if database.kind() == Kind::Postgres {
                database.run("UPDATE ax_task SET deadline = 1").await;
            }
        },
    )
    .await;
    assert_eq!((expired, claimed.len()), (Vec::new(), 1));
    assert_eq!(
        (order, state(&store, &row).await),
        (got_in(database), State::Running)
    );
}

async fn an_overdue_task_is_not_claimed_while_it_expires(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let row = TaskRow {
        deadline: now.minus(Duration::from_millis(1)),
        ..row(now)
    };
    submit(&store, std::slice::from_ref(&row)).await;
    for point in [
        Point::Statement(Sql::DeleteTask),
        Point::CommitOf(Sql::InsertHistory),
    ] {
        let (expired, claimed, _) = meet(
            database,
            point,
            async |store| store.expire(&[row.id]).await.unwrap(),
            async |store| claim(store, node, &[row.id]).await,
        )
        .await;
        assert_eq!((expired, claimed), (vec![row.id], Vec::new()));
        assert_eq!(state(&store, &row).await, State::Expired);
        assert_eq!(store.rerun(row.id, now, 0).await.unwrap(), Changed::Yes);
        database.run("UPDATE ax_task SET deadline = 1").await;
    }
}

fn tagged(row: TaskRow) -> TaskRow {
    // Tags make the submit a transaction.
    TaskRow {
        tags: vec!["tag".to_owned()],
        ..row
    }
}

async fn a_second_sending_behind_the_first_inserts_nothing(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let rows = [tagged(row(now)), tagged(row(now))];
    let (first, second, order) = meet(
        database,
        Point::CommitOf(Sql::InsertTasks),
        async |store| store.submit(&rows).await,
        async |store| store.submit_again(&rows).await,
    )
    .await;
    assert_eq!(order, Second::Waited);
    for placed in first.iter().chain(&second) {
        assert!(
            matches!(placed, Ok(Placed::Pending)),
            "{first:?} {second:?}"
        );
    }
    let ids = [rows[0].id, rows[1].id];
    assert_eq!(claim(&store, node, &ids).await.len(), 2);
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_tag").await, 2);
}

async fn a_second_keyed_sending_behind_the_first_inserts_nothing(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let row = keyed(now, "k", KeyMode::Reject);
    let (first, second, order) = meet(
        database,
        Point::CommitOf(Sql::InsertTasks),
        async |store| keyed_submit(store, &row).await,
        async |store| keyed_submit(store, &row).await,
    )
    .await;
    assert_eq!(
        (first, second, order),
        (KeyPlaced::New, KeyPlaced::New, Second::Waited)
    );
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_task").await, 1);
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_key").await, 1);
}

async fn a_second_sending_behind_a_failed_first_completes_it(database: &TestDatabase) {
    let (store, now, node) = world(database).await;
    let rows = [tagged(row(now)), keyed(now, "k", KeyMode::Reject)];
    let (faults, gate) = (Faults::default(), Gate::default());
    faults.strike(
        Point::Statement(Sql::InsertTags),
        1,
        Fault::Hold(gate.clone()),
    );
    let first = FaultyDatabase::new(database.open().await, faults);
    let first = Store::new(Arc::new(first));
    // The first is rolled back while the second waits for it.
    let rolled_back = async {
        let mut conn = first.db().acquire(Lane::Write).await.unwrap();
        conn.begin().await.unwrap();
        first.submit_on(&mut *conn, &rows).await.unwrap();
        conn.rollback().await.unwrap();
    };
    let again = async {
        gate.reached().await;
        (
            store.submit_again(&rows[..1]).await,
            keyed_submit(&store, &rows[1]).await,
        )
    };
    let stage = async {
        gate.reached().await;
        stands_at_a_lock(database).await;
        gate.open();
    };
    let ((), (plain, keyed), ()) = tokio::join!(rolled_back, again, stage);
    assert!(matches!(plain[..], [Ok(Placed::Pending)]), "{plain:?}");
    assert_eq!(keyed, KeyPlaced::New);
    let ids = [rows[0].id, rows[1].id];
    let request = ClaimRequest {
        node,
        token: token(),
        ids: &ids,
    };
    assert_eq!(store.claim(request).await.unwrap().len(), 2);
}
