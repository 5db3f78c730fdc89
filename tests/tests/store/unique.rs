//! Keys: uniqueness while live or for a period, and what happens when two want the same one.

use std::time::Duration;

use ax_core::{ErrorKind, Key, KeyMode, State};
use ax_engine::db::{CallerConnection, Lane};
use ax_engine::store::{Changed, KeyPlaced, TaskFilter, TaskRow};
use ax_tests::databases::{Kind, TestDatabase, fresh};
use sqlx::Connection as _;

use crate::rows::*;

ax_tests::store_cases! {
    a_key_is_unique_while_its_task_lives,
    a_key_holds_for_its_period,
    replace_changes_the_waiting_task,
    keys_of_one_batch_meet_each_other,
    case_c38_parallel_submits_of_one_key_make_one_task,
    case_c38_a_rolled_back_submit_suppresses_nobody,
    a_rerun_needs_its_key,
    submits_ride_in_the_callers_transaction,
    keys_without_a_holder_are_purged,
    a_replace_leaves_the_payload_of_an_earlier_round,
    a_second_sending_knows_its_ended_task,
}

async fn a_key_is_unique_while_its_task_lives(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let first = keyed(now, "k", KeyMode::ReturnExisting);
    assert!(matches!(
        store.submit_keyed(std::slice::from_ref(&first)).await[..],
        [Ok(KeyPlaced::New)]
    ));
    assert!(
        matches!(
            store.submit_keyed(std::slice::from_ref(&first)).await[..],
            [Ok(KeyPlaced::New)]
        ),
        "sent again"
    );
    let rows = [
        keyed(now, "k", KeyMode::ReturnExisting),
        keyed(now, "k", KeyMode::Reject),
        keyed(now, "other", KeyMode::Reject),
    ];
    let placed: Vec<KeyPlaced> = store
        .submit_keyed(&rows)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        placed,
        [
            KeyPlaced::Existing(first.id),
            KeyPlaced::Rejected(first.id),
            KeyPlaced::New
        ]
    );
    let claimed = claim(&store, node, &[first.id]).await.pop().unwrap();
    assert_eq!(claimed.key.as_deref(), Some("k"));
    store
        .settle(&[settlement(&claimed, success())])
        .await
        .unwrap();
    let late = store.submit_keyed(std::slice::from_ref(&first)).await;
    assert!(
        matches!(late[..], [Ok(KeyPlaced::New)]),
        "sent again after its end"
    );
    assert_eq!(
        store.find(first.id).await.unwrap().unwrap().state,
        State::Succeeded,
        "and not run again"
    );
    let next = keyed(now, "k", KeyMode::Reject);
    assert!(
        matches!(store.submit_keyed(&[next]).await[..], [Ok(KeyPlaced::New)]),
        "the key is free again"
    );
}

fn for_a_period(row: TaskRow, period: Duration) -> TaskRow {
    let key = row.key.clone().map(|key| Key {
        period: Some(period),
        ..key
    });
    TaskRow { key, ..row }
}

async fn a_key_holds_for_its_period(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let long = for_a_period(keyed(now, "long", KeyMode::Reject), Duration::from_secs(60));
    let short = for_a_period(
        keyed(now.minus(Duration::from_secs(60)), "short", KeyMode::Reject),
        Duration::from_secs(59),
    );
    for row in [&long, &short] {
        assert!(matches!(
            store.submit_keyed(std::slice::from_ref(row)).await[..],
            [Ok(KeyPlaced::New)]
        ));
        let claimed = claim(&store, node, &[row.id]).await.pop().unwrap();
        store
            .settle(&[settlement(&claimed, success())])
            .await
            .unwrap();
    }
    let again = [
        keyed(now, "long", KeyMode::Replace),
        keyed(now, "short", KeyMode::Reject),
    ];
    let placed: Vec<KeyPlaced> = store
        .submit_keyed(&again)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(placed, [KeyPlaced::Existing(long.id), KeyPlaced::New]);
}

async fn replace_changes_the_waiting_task(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let first = TaskRow {
        tags: vec!["old".to_owned()],
        ..keyed(now, "k", KeyMode::ReturnExisting)
    };
    store.submit_keyed(std::slice::from_ref(&first)).await;
    let large = format!("\"{}\"", "x".repeat(5_000));
    let next = TaskRow {
        payload: large.as_str().into(),
        tags: vec!["new".to_owned()],
        ..keyed(now, "k", KeyMode::Replace)
    };
    let placed = store.submit_keyed(&[next]).await;
    assert!(
        matches!(placed[..], [Ok(KeyPlaced::Replaced(id))] if id == first.id),
        "{placed:?}"
    );
    let task = store.find(first.id).await.unwrap().unwrap();
    assert_eq!((task.payload, task.tags), (large, vec!["new".to_owned()]));
    assert_eq!(
        database
            .number("SELECT COUNT(*) FROM ax_tag WHERE tag = 'old'")
            .await,
        0
    );
    claim(&store, node(&store).await, &[first.id])
        .await
        .pop()
        .unwrap();
    let placed = store
        .submit_keyed(&[keyed(now, "k", KeyMode::Replace)])
        .await;
    assert!(
        matches!(placed[..], [Ok(KeyPlaced::Existing(id))] if id == first.id),
        "it runs: {placed:?}"
    );
}

async fn keys_of_one_batch_meet_each_other(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let rows = [
        keyed(now, "b", KeyMode::ReturnExisting),
        keyed(now, "a", KeyMode::ReturnExisting),
        keyed(now, "b", KeyMode::ReturnExisting),
        row(now),
    ];
    let placed: Vec<KeyPlaced> = store
        .submit_keyed(&rows)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        placed,
        [
            KeyPlaced::New,
            KeyPlaced::New,
            KeyPlaced::Existing(rows[0].id),
            KeyPlaced::New
        ]
    );
}

async fn case_c38_parallel_submits_of_one_key_make_one_task(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let submits = (0..50).map(|n| {
        let store = store.clone();
        let rows = [
            keyed(now, "k", KeyMode::ReturnExisting),
            keyed(now, &format!("own-{n}"), KeyMode::Reject),
        ];
        async move { store.submit_keyed(&rows).await }
    });
    let mut new = 0;
    for placed in futures_util::future::join_all(submits).await {
        let [k, own] = &placed[..] else {
            panic!("two answers")
        };
        assert_eq!(*own.as_ref().unwrap(), KeyPlaced::New);
        new += u32::from(*k.as_ref().unwrap() == KeyPlaced::New);
    }
    assert_eq!(new, 1);
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_task").await, 51);
}

async fn case_c38_a_rolled_back_submit_suppresses_nobody(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let (first, second) = (
        keyed(now, "k", KeyMode::ReturnExisting),
        keyed(now, "k", KeyMode::ReturnExisting),
    );
    let other = database.store().await;
    let mut conn = store.db().acquire(Lane::Settle).await.unwrap();
    conn.begin().await.unwrap();
    assert_eq!(
        store.submit_on(&mut *conn, &[first]).await.unwrap(),
        [KeyPlaced::New]
    );
    let rows = [second];
    let waiting = other.submit_keyed(&rows);
    let (placed, ()) = tokio::join!(waiting, async {
        tokio::task::yield_now().await;
        conn.rollback().await.unwrap();
    });
    assert!(matches!(placed[..], [Ok(KeyPlaced::New)]), "{placed:?}");
}

/// A caller that keeps its transaction open; only PostgreSQL lets others write meanwhile.
#[tokio::test]
async fn postgres_an_open_transaction_delays_only_its_own_key() {
    let Some(database) = fresh(Kind::Postgres).await else {
        return;
    };
    let (store, other) = (database.store().await, database.store().await);
    let now = store.now().await.unwrap();
    let mut conn = other.db().acquire(Lane::Settle).await.unwrap();
    conn.begin().await.unwrap();
    let held = keyed(now, "key-5", KeyMode::Reject);
    other
        .submit_on(&mut *conn, std::slice::from_ref(&held))
        .await
        .unwrap();
    let rows: Vec<TaskRow> = (0..8)
        .map(|n| keyed(now, &format!("key-{n}"), KeyMode::Reject))
        .collect();
    let placed = store.submit_keyed(&rows).await;
    for (n, placed) in placed.iter().enumerate() {
        match placed {
            Ok(placed) => assert_eq!((n != 5, *placed), (true, KeyPlaced::New)),
            Err(error) => assert_eq!((n, error.kind()), (5, ErrorKind::Busy), "{error}"),
        }
    }
    conn.commit().await.unwrap();
    let again = store.submit_keyed(&rows[5..6]).await;
    assert!(
        matches!(again[..], [Ok(KeyPlaced::Rejected(id))] if id == held.id),
        "{again:?}"
    );
}

async fn a_rerun_needs_its_key(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let first = keyed(now, "k", KeyMode::Reject);
    store.submit_keyed(std::slice::from_ref(&first)).await;
    let claimed = claim(&store, node, &[first.id]).await.pop().unwrap();
    store
        .settle(&[settlement(&claimed, failure("x"))])
        .await
        .unwrap();
    let second = keyed(now, "k", KeyMode::Reject);
    store.submit_keyed(std::slice::from_ref(&second)).await;
    let error = store.rerun(first.id, now, 0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    store.cancel(second.id, None).await.unwrap();
    assert_eq!(store.rerun(first.id, now, 0).await.unwrap(), Changed::Yes);
    let placed = store
        .submit_keyed(&[keyed(now, "k", KeyMode::Reject)])
        .await;
    assert!(
        matches!(placed[..], [Ok(KeyPlaced::Rejected(id))] if id == first.id),
        "{placed:?}"
    );
}

async fn submits_ride_in_the_callers_transaction(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let rows = [row(now), keyed(now, "k", KeyMode::Reject)];
    if database.kind() == Kind::Postgres {
        let mut conn = sqlx::PgConnection::connect(database.url()).await.unwrap();
        let mut tx = conn.begin().await.unwrap();
        store
            .submit_on(&mut CallerConnection::from(&mut tx), &rows)
            .await
            .unwrap();
        assert_eq!(
            store.find(rows[0].id).await.unwrap(),
            None,
            "not before the commit"
        );
        tx.commit().await.unwrap();
    } else if database.kind() == Kind::Simulated {
        let other = database.open().await;
        let mut conn = other.acquire(Lane::Write).await.unwrap();
        conn.begin().await.unwrap();
        store.submit_on(&mut *conn, &rows).await.unwrap();
        assert_eq!(
            store.find(rows[0].id).await.unwrap(),
            None,
            "not before the commit"
        );
        conn.commit().await.unwrap();
    } else {
        let mut conn = sqlx::SqliteConnection::connect(database.url())
            .await
            .unwrap();
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
        store
            .submit_on(&mut CallerConnection::from(&mut tx), &rows)
            .await
            .unwrap();
        assert_eq!(
            store.find(rows[0].id).await.unwrap(),
            None,
            "not before the commit"
        );
        tx.commit().await.unwrap();
    }
    for row in &rows {
        assert_eq!(
            store.find(row.id).await.unwrap().unwrap().state,
            State::Pending
        );
    }
}

async fn keys_without_a_holder_are_purged(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let long_ago = now.minus(Duration::from_secs(60));
    let over = for_a_period(
        keyed(long_ago, "over", KeyMode::Reject),
        Duration::from_secs(59),
    );
    store
        .submit_keyed(&[over.clone(), keyed(now, "live", KeyMode::Reject)])
        .await;
    assert_eq!(store.purge_keys(10).await.unwrap(), 0, "its task lives");
    database
        .run("UPDATE ax_key SET until = period_end WHERE task_key = 'over'")
        .await;
    assert_eq!(store.purge_keys(10).await.unwrap(), 1);
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_key").await, 1);
}

async fn a_replace_leaves_the_payload_of_an_earlier_round(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let large = |text: &str| format!("\"{}\"", text.repeat(5_000));
    for (key, next) in [("small", "\"next\"".to_owned()), ("large", large("y"))] {
        let first = TaskRow {
            payload: large("x").as_str().into(),
            ..keyed(now, key, KeyMode::Replace)
        };
        store.submit_keyed(std::slice::from_ref(&first)).await;
        let claimed = claim(&store, node, &[first.id]).await.pop().unwrap();
        let failed = [settlement(&claimed, failure("x"))];
        store.settle(&failed).await.unwrap();
        assert_eq!(store.rerun(first.id, now, 0).await.unwrap(), Changed::Yes);
        let row = TaskRow {
            payload: next.as_str().into(),
            ..keyed(now, key, KeyMode::Replace)
        };
        let placed = store.submit_keyed(&[row]).await;
        assert!(
            matches!(placed[..], [Ok(KeyPlaced::Replaced(id))] if id == first.id),
            "{placed:?}"
        );
        let again = claim(&store, node, &[first.id]).await.pop().unwrap();
        assert_eq!(*again.payload, *next);
        let filter = TaskFilter {
            key: Some(key.to_owned()),
            ..TaskFilter::new(namespace())
        };
        let rounds = store.list(&filter).await.unwrap();
        let payloads: Vec<&str> = rounds.iter().map(|task| &*task.payload).collect();
        assert_eq!(payloads, [&*next, &*large("x")], "{key}");
    }
}

async fn a_second_sending_knows_its_ended_task(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    for mode in [KeyMode::Reject, KeyMode::ReturnExisting, KeyMode::Replace] {
        let key = format!("{mode:?}");
        let (first, next) = (keyed(now, &key, mode), keyed(now, &key, mode));
        store.submit_keyed(std::slice::from_ref(&first)).await;
        let claimed = claim(&store, node, &[first.id]).await.pop().unwrap();
        let done = [settlement(&claimed, success())];
        store.settle(&done).await.unwrap();
        let next = TaskRow {
            payload: "\"next\"".into(),
            ..next
        };
        store.submit_keyed(std::slice::from_ref(&next)).await;
        let placed = store.submit_keyed(&[first]).await;
        assert!(matches!(placed[..], [Ok(KeyPlaced::New)]), "{placed:?}");
        let task = store.find(next.id).await.unwrap().unwrap();
        assert_eq!(task.payload, "\"next\"", "another's task is left alone");
    }
}
