//! Rows and ids for the cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ax_core::{
    JobName, Key, KeyMode, Namespace, NodeId, OnLost, Priority, TaskId, Timestamp, Token,
};
use ax_engine::store::{ClaimRequest, Claimed, End, NodeRow, Settlement, Store, TaskRow};

static NUMBER: AtomicU64 = AtomicU64::new(1);

fn number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn ten() -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&number().to_be_bytes());
    bytes
}

/// A fresh task id.
pub(crate) fn task_id(at: Timestamp) -> TaskId {
    TaskId::v7(at, ten())
}

/// A fresh token.
pub(crate) fn token() -> Token {
    let mut bytes = [7; 16];
    bytes[8..].copy_from_slice(&number().to_be_bytes());
    Token::random(bytes)
}

/// The default namespace.
pub(crate) fn namespace() -> Namespace {
    Namespace::default()
}

/// A pending row, due since `now`.
pub(crate) fn row(now: Timestamp) -> TaskRow {
    TaskRow {
        id: task_id(now),
        namespace: namespace(),
        job: JobName::new("job").unwrap(),
        payload: Arc::from("{\"n\":1}"),
        priority: Priority::default(),
        ready_at: now,
        shard: 7,
        deadline: Timestamp::MAX,
        key: None,
        tags: Vec::new(),
        route_key: None,
        max_retries: None,
        timeout: None,
        on_lost: OnLost::Retry,
        created_at: now,
        tick: None,
        trace: None,
        born: None,
    }
}

/// The same with a key.
pub(crate) fn keyed(now: Timestamp, key: &str, mode: KeyMode) -> TaskRow {
    TaskRow {
        key: Some(Key {
            text: key.to_owned(),
            mode,
            period: None,
        }),
        ..row(now)
    }
}

/// A node that joined with this TTL.
pub(crate) async fn node_with(store: &Store, ttl: Duration) -> NodeId {
    let id = NodeId::v7(store.now().await.unwrap(), ten());
    let node = NodeRow {
        id,
        namespace: namespace(),
        ttl,
        host: "host".to_owned(),
        pid: 1,
        app: "app".to_owned(),
        version: "1".to_owned(),
        zone: String::new(),
        weight: 1,
        labels: "{}".to_owned(),
        jobs: vec!["job".to_owned()],
        trigger_on: true,
        execute_on: true,
        slots: 4,
    };
    store.join(&node).await.unwrap();
    id
}

/// A node that stays alive.
pub(crate) async fn node(store: &Store) -> NodeId {
    node_with(store, Duration::from_secs(60)).await
}

/// A node that was declared dead.
pub(crate) async fn bury(store: &Store, node: NodeId) {
    assert!(store.bury(node, 0).await.unwrap());
}

/// Submits pending rows.
pub(crate) async fn submit(store: &Store, rows: &[TaskRow]) {
    for placed in store.submit(rows).await {
        placed.unwrap();
    }
}

/// Claims with a fresh token.
pub(crate) async fn claim(store: &Store, node: NodeId, ids: &[TaskId]) -> Vec<Claimed> {
    store
        .claim(ClaimRequest {
            node,
            token: token(),
            ids,
        })
        .await
        .unwrap()
}

/// Submits one row and claims it.
pub(crate) async fn running(store: &Store, node: NodeId, row: &TaskRow) -> Claimed {
    submit(store, std::slice::from_ref(row)).await;
    claim(store, node, &[row.id])
        .await
        .pop()
        .expect("the row is claimed")
}

/// A settlement of a claimed task.
pub(crate) fn settlement(claimed: &Claimed, end: End) -> Settlement {
    let at = claimed.claimed_at;
    Settlement {
        claimed: Arc::new(claimed.clone()),
        end,
        started_at: Some(at),
        finished_at: at,
    }
}

/// A result.
pub(crate) fn success() -> End {
    End::Succeeded {
        result: Arc::from("\"done\""),
    }
}

/// A failure for good.
pub(crate) fn failure(error: &str) -> End {
    End::Failed {
        error: Arc::from(error),
    }
}
