//! Sessions that are not as usual: odd time zones and isolation levels of ax's own connections, and callers whose own
//! transaction sees an old picture.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, ErrorKind, Key, KeyMode, State, Timestamp};
use ax_engine::clock::host_now;
use ax_engine::db::{
    self, CallerConnection, Database, DbResult, Lane, OpenOptions, Source, Statement,
};
use ax_engine::store::{
    Beat, CancelResult, Changed, Dialect, KeyPlaced, LostLimit, Settled, Sql, Store, TaskRow,
};
use ax_tests::databases::{Kind, TestDatabase};
use ax_tests::faults::until;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sqlx::{Connection, PgConnection};

use crate::rows::*;

ax_tests::store_cases!(@each postgres Postgres;
    time_zones_change_nothing,
    isolation_defaults_change_nothing,
    an_old_picture_hides_no_unrelated_row,
    an_old_picture_never_answers_neither,
    an_old_picture_replaces_nothing_that_changed,
    a_caller_waits_for_the_key_in_flight);
ax_tests::store_cases!(@each sqlite Sqlite; a_transaction_that_began_by_reading_is_told_to_begin_anew);

/// The URL of a database with settings for every session, as `-c` options.
pub(crate) fn url_with(database: &TestDatabase, settings: &[(&str, &str)]) -> String {
    let mut url = database.url().to_owned();
    for (name, value) in settings {
        let mut option = String::from("options=-c+");
        for byte in format!("{name}={}", value.replace(' ', "\\ ")).bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => option.push(char::from(byte)),
                other => option.push_str(&format!("%{other:02X}")),
            }
        }
        url = url.replace("options=", &format!("{option}+"));
    }
    url
}

/// A store whose sessions have these settings; on SQLite, which has none, a usual one.
pub(crate) async fn store_with(database: &TestDatabase, settings: &[(&str, &str)]) -> Store {
    if database.kind() != Kind::Postgres {
        return database.store().await;
    }
    let url = url_with(database, settings);
    let opened = db::open(Source::from(&*url), OpenOptions::new(host_now)).await;
    let store = Store::new(opened.unwrap());
    store.migrate().await.unwrap();
    store
}

/// Every guard by time and every kind of transaction, once.
async fn the_road_holds(store: &Store) {
    let now = store.now().await.unwrap();
    let off = now.as_millis().abs_diff(host_now().as_millis());
    assert!(off < 2_000, "the database's now is off by {off} ms");
    leases_hold(store, now).await;
    let alive = node(store).await;
    let hour = Duration::from_secs(3_600);
    let at = |ready_at: Timestamp, deadline: Timestamp| TaskRow {
        ready_at,
        deadline,
        ..row(now)
    };
    let due = at(now, now.plus(hour));
    let later = at(now.plus(hour), Timestamp::MAX);
    let over = at(now, now.minus(Duration::from_millis(1)));
    submit(store, &[due.clone(), later.clone(), over.clone()]).await;
    let claimed = claim(store, alive, &[due.id, later.id, over.id]).await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    assert!(claimed[0].claimed_at.as_millis().abs_diff(now.as_millis()) < 60_000);
    assert_eq!(
        store.expire(&[due.id, later.id, over.id]).await.unwrap(),
        [over.id]
    );
    assert_eq!(store.reschedule(later.id, now).await.unwrap(), Changed::Yes);
    let more = claim(store, alive, &[later.id]).await;
    assert_eq!(
        store.cancel(later.id, None).await.unwrap(),
        CancelResult::Requested
    );
    let batch = [
        settlement(&claimed[0], failure("x")),
        settlement(&more[0], success()),
    ];
    let settled = [
        Settled::Recorded(State::Failed),
        Settled::Recorded(State::Canceled),
    ];
    assert_eq!(store.settle(&batch).await.unwrap(), settled);
    assert_eq!(store.rerun(due.id, now, 0).await.unwrap(), Changed::Yes);
    keys_hold(store, now).await;
    let lost = running(store, alive, &row(now)).await;
    bury(store, alive).await;
    let answers = store.lose(&[lost], LostLimit(3)).await.unwrap();
    assert_eq!(answers, [Settled::Recorded(State::Pending)]);
}

async fn leases_hold(store: &Store, now: Timestamp) {
    let (alive, over) = (node(store).await, node_with(store, Duration::ZERO).await);
    let task = row(now);
    submit(store, std::slice::from_ref(&task)).await;
    assert_eq!(
        claim(store, over, &[task.id]).await,
        [],
        "its lease is over"
    );
    assert_eq!(claim(store, alive, &[task.id]).await.len(), 1);
    let ttl = Duration::from_secs(20);
    let beat = Beat {
        node: alive,
        running: 0,
        queued: 0,
        slots: 1,
        ttl,
    };
    let reply = store.beat(&beat).await.unwrap().unwrap();
    let lease = reply.lease_until.since(reply.now);
    assert!(lease.abs_diff(ttl) < Duration::from_secs(2), "{lease:?}");
    let nobody_yet = store.mark_dead(alive, reply.beat).await.unwrap();
    assert!(!nobody_yet, "its lease is not over");
}

async fn keys_hold(store: &Store, now: Timestamp) {
    let submits = (0..6).map(|_| {
        let (store, rows) = (store.clone(), [keyed(now, "k", KeyMode::ReturnExisting)]);
        async move { store.submit_keyed(&rows).await }
    });
    let placed = futures_util::future::join_all(submits).await;
    let new = placed
        .iter()
        .filter(|placed| matches!(placed[..], [Ok(KeyPlaced::New)]));
    assert_eq!(new.count(), 1, "{placed:?}");
    let other = placed
        .iter()
        .filter(|placed| matches!(placed[..], [Ok(KeyPlaced::Existing(_))]));
    assert_eq!(other.count(), 5, "{placed:?}");
}

/// A database whose sessions are in a time zone. (In the URL it has no effect: the driver asks for UTC by itself.)
struct Zoned {
    inner: Arc<dyn Database>,
    zone: Statement,
}

impl Database for Zoned {
    fn dialect(&self) -> &'static Dialect {
        self.inner.dialect()
    }

    fn acquire(&self, lane: Lane) -> BoxFuture<'_, DbResult<Box<dyn db::Connection>>> {
        async move {
            let mut conn = self.inner.acquire(lane).await?;
            conn.execute(&self.zone, Vec::new()).await?;
            Ok(conn)
        }
        .boxed()
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.inner.pause(span)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

async fn time_zones_change_nothing(database: &TestDatabase) {
    let plain = database.store().await;
    let zones = [
        (
            "SET TimeZone = 'Pacific/Apia'",
            "SELECT (now() AT TIME ZONE 'Pacific/Apia' = now()::timestamp)::int::bigint",
        ),
        (
            "SET TimeZone = 'America/St_Johns'",
            "SELECT (now() AT TIME ZONE 'America/St_Johns' = now()::timestamp)::int::bigint",
        ),
        (
            "SET TimeZone = 'Asia/Kathmandu'",
            "SELECT (now() AT TIME ZONE 'Asia/Kathmandu' = now()::timestamp)::int::bigint",
        ),
    ];
    for (set, there) in zones {
        let usual = *plain.db().dialect().statement(Sql::Now, 1);
        let zone = Statement { text: set, ..usual };
        let store = Store::new(Arc::new(Zoned {
            inner: database.open().await,
            zone,
        }));
        for lane in Lane::ALL {
            let mut conn = store.db().acquire(lane).await.unwrap();
            let ask = Statement {
                text: there,
                ..usual
            };
            let there = conn.fetch(&ask, Vec::new()).await.unwrap()[0]
                .int(0)
                .unwrap();
            assert_eq!(there, 1, "the setting takes effect");
        }
        the_road_holds(&store).await;
        let mut conn = PgConnection::connect(database.url()).await.unwrap();
        sqlx::query(set).execute(&mut conn).await.unwrap();
        a_callers_zone_moves_no_period(&plain, &mut conn).await;
        database.run("DELETE FROM ax_key").await;
    }
}

/// A key whose period is over is taken, one whose period is not over is not, by the clock of a caller's session too.
async fn a_callers_zone_moves_no_period(store: &Store, conn: &mut PgConnection) {
    let now = store.now().await.unwrap();
    let node = node(store).await;
    for (minutes, holds) in [(59, false), (61, true)] {
        let key = format!("for {minutes} minutes");
        let created_at = now.minus(Duration::from_secs(3_600));
        let period = Some(Duration::from_secs(60 * minutes));
        let first = TaskRow {
            key: Some(Key {
                text: key.clone(),
                mode: KeyMode::Reject,
                period,
            }),
            created_at,
            ..row(now)
        };
        store.submit_keyed(std::slice::from_ref(&first)).await;
        let claimed = claim(store, node, &[first.id]).await;
        store
            .settle(&[settlement(&claimed[0], success())])
            .await
            .unwrap();
        let rows = [keyed(now, &key, KeyMode::Reject)];
        let placed = store
            .submit_on(&mut CallerConnection::from(&mut *conn), &rows)
            .await;
        let told = if holds {
            KeyPlaced::Rejected(first.id)
        } else {
            KeyPlaced::New
        };
        assert_eq!(placed.unwrap(), [told], "{key}");
    }
}

async fn isolation_defaults_change_nothing(database: &TestDatabase) {
    for level in ["repeatable read", "serializable"] {
        let setting = [("default_transaction_isolation", level)];
        let mut conn = PgConnection::connect(&url_with(database, &setting))
            .await
            .unwrap();
        let sql = "SHOW transaction_isolation";
        let told: String = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
        assert_eq!(told, level, "the setting takes effect");
        let store = store_with(database, &setting).await;
        for lane in Lane::ALL {
            let text =
                "SELECT (current_setting('transaction_isolation') = 'read committed')::int::bigint";
            let ask = Statement {
                text,
                ..*store.db().dialect().statement(Sql::Now, 1)
            };
            let mut conn = store.db().acquire(lane).await.unwrap();
            let alone = conn.fetch(&ask, Vec::new()).await.unwrap()[0]
                .int(0)
                .unwrap();
            conn.begin().await.unwrap();
            let inside = conn.fetch(&ask, Vec::new()).await.unwrap()[0]
                .int(0)
                .unwrap();
            conn.rollback().await.unwrap();
            assert_eq!((alone, inside), (1, 1), "{lane:?}");
        }
        the_road_holds(&store).await;
        database.run("DELETE FROM ax_key").await;
    }
}

const LEVELS: [&str; 2] = [
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
];

/// A caller's transaction that has taken its picture.
async fn old_picture<'c>(
    conn: &'c mut PgConnection,
    level: &'static str,
) -> sqlx::Transaction<'c, sqlx::Postgres> {
    let mut tx = conn.begin_with(level).await.unwrap();
    let tasks = sqlx::query("SELECT COUNT(*) FROM ax_task, ax_key");
    tasks.execute(&mut *tx).await.unwrap();
    tx
}

fn says_try_again(refused: Result<Vec<KeyPlaced>, Error>) {
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(
        error.to_string().contains("roll it back and run it again"),
        "{error}"
    );
}

async fn an_old_picture_hides_no_unrelated_row(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    for level in LEVELS {
        let known = keyed(now, level, KeyMode::ReturnExisting);
        store.submit_keyed(std::slice::from_ref(&known)).await;
        let mut conn = PgConnection::connect(database.url()).await.unwrap();
        let mut tx = old_picture(&mut conn, level).await;
        let unrelated = [
            row(now),
            keyed(now, &format!("{level} other"), KeyMode::Reject),
        ];
        store.submit_keyed(&unrelated).await;
        let rows = [
            row(now),
            keyed(now, &format!("{level} mine"), KeyMode::Reject),
            keyed(now, level, KeyMode::ReturnExisting),
        ];
        let placed = store
            .submit_on(&mut CallerConnection::from(&mut tx), &rows)
            .await
            .unwrap();
        assert_eq!(
            placed,
            [
                KeyPlaced::New,
                KeyPlaced::New,
                KeyPlaced::Existing(known.id)
            ]
        );
        tx.commit().await.unwrap();
        for row in &rows[..2] {
            assert_eq!(
                store.find(row.id).await.unwrap().unwrap().state,
                State::Pending
            );
        }
    }
}

async fn an_old_picture_never_answers_neither(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    for level in LEVELS {
        for mode in [KeyMode::Reject, KeyMode::ReturnExisting, KeyMode::Replace] {
            let key = format!("{level} {mode:?}");
            let mut conn = PgConnection::connect(database.url()).await.unwrap();
            let mut tx = old_picture(&mut conn, level).await;
            let first = keyed(now, &key, mode);
            store.submit_keyed(std::slice::from_ref(&first)).await;
            let rows = [row(now), keyed(now, &key, mode)];
            says_try_again(
                store
                    .submit_on(&mut CallerConnection::from(&mut tx), &rows)
                    .await,
            );
            tx.rollback().await.unwrap();
            for row in &rows {
                assert_eq!(
                    store.find(row.id).await.unwrap(),
                    None,
                    "rolled back, nothing is left"
                );
            }
            let mut tx = old_picture(&mut conn, level).await;
            let placed = store
                .submit_on(&mut CallerConnection::from(&mut tx), &rows)
                .await;
            tx.commit().await.unwrap();
            let told = match mode {
                KeyMode::Reject => KeyPlaced::Rejected(first.id),
                KeyMode::ReturnExisting => KeyPlaced::Existing(first.id),
                KeyMode::Replace => KeyPlaced::Replaced(first.id),
            };
            assert_eq!(placed.unwrap(), [KeyPlaced::New, told], "run again");
        }
    }
}

async fn an_old_picture_replaces_nothing_that_changed(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    for level in LEVELS {
        let first = keyed(now, level, KeyMode::Reject);
        store.submit_keyed(std::slice::from_ref(&first)).await;
        let mut conn = PgConnection::connect(database.url()).await.unwrap();
        let mut tx = old_picture(&mut conn, level).await;
        let claimed = claim(&store, node, &[first.id]).await;
        let rows = [keyed(now, level, KeyMode::Replace)];
        says_try_again(
            store
                .submit_on(&mut CallerConnection::from(&mut tx), &rows)
                .await,
        );
        tx.rollback().await.unwrap();
        let task = store.find(first.id).await.unwrap().unwrap();
        assert_eq!(
            (task.state, &*task.payload),
            (State::Running, &*first.payload)
        );

        // The key of a task that ended meanwhile is free, or the caller is told to look again.
        let mut tx = old_picture(&mut conn, level).await;
        store
            .settle(&[settlement(&claimed[0], success())])
            .await
            .unwrap();
        match store
            .submit_on(&mut CallerConnection::from(&mut tx), &rows)
            .await
        {
            Ok(placed) => {
                assert_eq!(placed, [KeyPlaced::New]);
                tx.commit().await.unwrap();
                let state = store.find(rows[0].id).await.unwrap().unwrap().state;
                assert_eq!(state, State::Pending);
            }
            refused => {
                says_try_again(refused);
                tx.rollback().await.unwrap();
                assert_eq!(store.find(rows[0].id).await.unwrap(), None);
            }
        }
    }
}

/// How many connections of this database wait for another one's lock.
pub(crate) async fn waiting(database: &TestDatabase) -> i64 {
    let name = database
        .url()
        .split("application_name=")
        .nth(1)
        .unwrap_or_default();
    let sql = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = ";
    database.number(&format!("{sql}'{name}'")).await
}

async fn a_caller_waits_for_the_key_in_flight(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    for level in LEVELS {
        for commits in ["commits", "rolls back"] {
            let key = format!("{level} {commits}");
            let mut other = store.db().acquire(Lane::Settle).await.unwrap();
            other.begin().await.unwrap();
            let first = [keyed(now, &key, KeyMode::ReturnExisting)];
            store.submit_on(&mut *other, &first).await.unwrap();
            let mut conn = PgConnection::connect(database.url()).await.unwrap();
            let mine = [keyed(now, &key, KeyMode::ReturnExisting)];
            let (caller, rows) = (store.clone(), mine.clone());
            let calling = tokio::spawn(async move {
                let mut tx = old_picture(&mut conn, level).await;
                let placed = caller
                    .submit_on(&mut CallerConnection::from(&mut tx), &rows)
                    .await;
                match &placed {
                    Ok(_) => tx.commit().await.unwrap(),
                    Err(_) => tx.rollback().await.unwrap(),
                }
                placed
            });
            until("the caller waits", async || {
                (waiting(database).await == 1).then_some(())
            })
            .await;
            assert!(!calling.is_finished());
            if commits == "commits" {
                other.commit().await.unwrap();
                says_try_again(calling.await.unwrap());
                assert_eq!(store.find(mine[0].id).await.unwrap(), None);
            } else {
                other.rollback().await.unwrap();
                assert_eq!(calling.await.unwrap().unwrap(), [KeyPlaced::New]);
                assert_eq!(
                    store.find(mine[0].id).await.unwrap().unwrap().state,
                    State::Pending
                );
            }
        }
    }
}

async fn a_transaction_that_began_by_reading_is_told_to_begin_anew(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let mut conn = sqlx::SqliteConnection::connect(database.url())
        .await
        .unwrap();
    let mut tx = conn.begin().await.unwrap();
    sqlx::query("SELECT COUNT(*) FROM ax_task")
        .execute(&mut *tx)
        .await
        .unwrap();
    submit(&store, &[row(now)]).await;
    for rows in [[row(now)], [keyed(now, "k", KeyMode::ReturnExisting)]] {
        says_try_again(
            store
                .submit_on(&mut CallerConnection::from(&mut tx), &rows)
                .await,
        );
    }
    tx.rollback().await.unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_task").await, 1);
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let rows = [keyed(now, "k", KeyMode::ReturnExisting)];
    let placed = store
        .submit_on(&mut CallerConnection::from(&mut tx), &rows)
        .await;
    assert_eq!(placed.unwrap(), [KeyPlaced::New]);
    tx.commit().await.unwrap();
}
