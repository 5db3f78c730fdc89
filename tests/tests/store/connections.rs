//! Connections: what was left open, cut off, or named wrongly.

use ax_core::{ErrorKind, State};
use ax_engine::clock::host_now;
use ax_engine::db::{self, DbErrorKind, Lane, OpenOptions, Source};
use ax_tests::databases::TestDatabase;

use crate::rows::*;

// Real connections only.
ax_tests::store_cases!(@each sqlite Sqlite; a_dropped_transaction_blocks_nobody, a_dropped_call_leaves_no_half, a_closed_database_says_so);
ax_tests::store_cases!(@each postgres Postgres;
    a_dropped_transaction_blocks_nobody, a_dropped_call_leaves_no_half, a_closed_database_says_so,
    case_c16_verbs_survive_the_loss_of_every_connection);

async fn a_dropped_transaction_blocks_nobody(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let row = row(now);
    for _ in 0..20 {
        let mut conn = store.db().acquire(Lane::Write).await.unwrap();
        conn.begin().await.unwrap();
        store
            .submit_on(&mut *conn, std::slice::from_ref(&row))
            .await
            .unwrap();
        drop(conn);
    }
    assert_eq!(
        store.find(row.id).await.unwrap(),
        None,
        "it was rolled back"
    );
    submit(&store, std::slice::from_ref(&row)).await;
    assert_eq!(
        store.find(row.id).await.unwrap().unwrap().state,
        State::Pending
    );
}

async fn a_dropped_call_leaves_no_half(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    // Tags and large payloads make a submit several statements.
    for polls in 0..40 {
        let tagged = ax_engine::store::TaskRow {
            tags: vec!["t".to_owned()],
            ..row(now)
        };
        let rows = [tagged];
        let mut submitting = Box::pin(store.submit(&rows));
        for _ in 0..polls {
            if futures_util::poll!(&mut submitting).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(submitting);
    }
    submit(&store, &[row(now)]).await;
    let halves = "SELECT COUNT(*) FROM ax_tag WHERE id NOT IN (SELECT id FROM ax_task)";
    assert_eq!(database.number(halves).await, 0);
    let untagged =
        "SELECT COUNT(*) FROM ax_task WHERE tags IS NOT NULL AND id NOT IN (SELECT id FROM ax_tag)";
    assert_eq!(database.number(untagged).await, 0);
}

async fn case_c16_verbs_survive_the_loss_of_every_connection(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let rows = [row(now), row(now)];
    database.cut_connections().await;
    submit(&store, &rows).await;
    database.cut_connections().await;
    let claimed = claim(&store, node, &[rows[0].id, rows[1].id]).await;
    assert_eq!(claimed.len(), 2);
    database.cut_connections().await;
    let batch: Vec<_> = claimed
        .iter()
        .map(|claimed| settlement(claimed, success()))
        .collect();
    store.settle(&batch).await.unwrap();
    database.cut_connections().await;
    assert_eq!(store.outcomes(&[rows[0].id]).await.unwrap().len(), 1);
}

async fn a_closed_database_says_so(database: &TestDatabase) {
    let store = database.store().await;
    store.db().close().await;
    assert_eq!(store.now().await.unwrap_err().kind(), ErrorKind::Stopped);
}

#[tokio::test]
async fn wrong_urls_are_explained_without_being_shown() {
    let cases = [
        ("", DbErrorKind::Invalid, "no scheme"),
        ("oracle://secret@h/d", DbErrorKind::Invalid, "unknown"),
        (
            "mysql://u:secret@h/d",
            DbErrorKind::Unsupported,
            "not available in this build",
        ),
        (
            "mariadb://u:secret@h/d",
            DbErrorKind::Unsupported,
            "not available in this build",
        ),
        (
            "postgres://u:secret@127.0.0.1:notaport/d",
            DbErrorKind::Invalid,
            "cannot be read",
        ),
        (
            "postgres://u:secret@127.0.0.1:1/d",
            DbErrorKind::Unreachable,
            "check host, port",
        ),
        (
            "sqlite:///no/such/folder/secret.db",
            DbErrorKind::Unreachable,
            "check that its folder exists",
        ),
    ];
    for (url, kind, says) in cases {
        let Err(error) = db::open(Source::from(url), OpenOptions::new(host_now)).await else {
            panic!("{url} opens")
        };
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(error.to_string().contains(says), "{url}: {error}");
        let shown = format!("{error:?} {:?}", Source::from(url));
        assert!(
            !shown.contains("secret@") && !shown.contains(":secret"),
            "{shown}"
        );
    }
}
