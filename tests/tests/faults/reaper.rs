//! A reaper that is slow between its look and its write.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{JobName, Namespace, NodeId, OnLost, Priority, TaskId, Timestamp, Token};
use ax_engine::store::{
    ClaimRequest, Claimed, End, LostLimit, NodeRow, Settled, Settlement, Sql, Store, TaskRow,
};
use ax_sdk::{AttemptEnd, Task, TaskState};
use ax_tests::databases::TestDatabase;
use ax_tests::fault_cases;
use ax_tests::faults::{Fault, Faults, FaultyDatabase, Gate, Point};

fault_cases! {
    case_c20_a_task_that_completed_meanwhile_stays_completed,
    case_c20_a_task_that_was_claimed_anew_meanwhile_is_left_alone,
    case_c20_a_task_that_was_retried_meanwhile_is_left_alone,
    case_c20_a_completion_that_meets_the_reaper_halfway_is_stale,
    case_c20_a_reaper_that_meets_a_completion_halfway_leaves_it_alone,
}

fn id(n: u8) -> [u8; 10] {
    [n; 10]
}

/// A node that joined.
async fn node(store: &Store, n: u8) -> NodeId {
    let id = NodeId::v7(store.now().await.unwrap(), id(n));
    let text = || "text".to_owned();
    let row = NodeRow {
        id,
        namespace: Namespace::default(),
        ttl: Duration::from_secs(60),
        host: text(),
        pid: 1,
        app: text(),
        version: text(),
        zone: text(),
        weight: 100,
        labels: "{}".to_owned(),
        jobs: vec!["job".to_owned()],
        trigger_on: true,
        execute_on: true,
        slots: 1,
    };
    store.join(&row).await.unwrap();
    id
}

fn row(now: Timestamp) -> TaskRow {
    TaskRow {
        id: TaskId::v7(now, id(7)),
        namespace: Namespace::default(),
        job: JobName::new("job").unwrap(),
        payload: Arc::from("{}"),
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

async fn claim(store: &Store, node: NodeId, id: TaskId, n: u8) -> Claimed {
    let token = Token::from_bytes([n; 16]);
    store
        .claim(ClaimRequest {
            node,
            token,
            ids: &[id],
        })
        .await
        .unwrap()
        .pop()
        .expect("it is claimed")
}

async fn settle(store: &Store, claimed: &Claimed, end: End) -> Settled {
    let at = claimed.claimed_at;
    let settlement = Settlement {
        claimed: Arc::new(claimed.clone()),
        end,
        started_at: Some(at),
        finished_at: at,
    };
    store.settle(&[settlement]).await.unwrap().pop().unwrap()
}

fn success(result: &str) -> End {
    End::Succeeded {
        result: Arc::from(result),
    }
}

/// A task that a dead node holds, as a worker that does not know of its death and a reaper see it: each on connections
/// of its own.
struct Meeting {
    worker: Store,
    reaper: Store,
    claimed: Claimed,
    orphans: Vec<Claimed>,
}

impl Meeting {
    async fn new(db: &TestDatabase, faults: &Faults) -> Meeting {
        let worker = db.store().await;
        let reaper = Store::new(Arc::new(FaultyDatabase::new(
            db.open().await,
            faults.clone(),
        )));
        let dead = node(&worker, 1).await;
        let row = row(worker.now().await.unwrap());
        worker
            .submit(std::slice::from_ref(&row))
            .await
            .pop()
            .unwrap()
            .unwrap();
        let claimed = claim(&worker, dead, row.id, 1).await;
        assert!(worker.bury(dead, 0).await.unwrap());
        let orphans = reaper.orphans(10).await.unwrap();
        assert_eq!(orphans.len(), 1, "the reaper has looked");
        Meeting {
            worker,
            reaper,
            claimed,
            orphans,
        }
    }

    async fn reap(&self) -> Settled {
        self.reaper
            .lose(&self.orphans, LostLimit::default())
            .await
            .unwrap()[0]
    }

    async fn task(&self) -> Task {
        self.worker.find(self.claimed.id).await.unwrap().unwrap()
    }

    async fn ends(&self) -> Vec<(i64, AttemptEnd)> {
        let ends = self.worker.executions(self.claimed.id).await.unwrap();
        ends.iter().map(|end| (end.fence, end.reason)).collect()
    }
}

/// Who comes second waits for the first, who goes on when the gate opens.
async fn waits(second: impl Future<Output = Settled>, gate: &Gate) -> Settled {
    tokio::pin!(second);
    let too_soon = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
    assert!(
        too_soon.is_err(),
        "it went ahead of the row's holder: {too_soon:?}"
    );
    gate.open();
    second.await
}

async fn case_c20_a_task_that_completed_meanwhile_stays_completed(db: &TestDatabase) {
    let meeting = Meeting::new(db, &Faults::default()).await;
    let settled = settle(&meeting.worker, &meeting.claimed, success("1")).await;
    assert_eq!(
        settled,
        Settled::Recorded(TaskState::Succeeded),
        "its token still counts"
    );
    assert_eq!(meeting.reap().await, Settled::Stale);
    let task = meeting.task().await;
    assert_eq!(
        (task.state, task.lost, task.result.as_deref()),
        (TaskState::Succeeded, 0, Some("1"))
    );
    assert_eq!(meeting.ends().await, []);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM ax_task").await,
        0,
        "it does not come back"
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_dead").await, 0);
}

async fn case_c20_a_task_that_was_claimed_anew_meanwhile_is_left_alone(db: &TestDatabase) {
    let meeting = Meeting::new(db, &Faults::default()).await;
    // Another reaper was faster, and a third node has it now; that one dies too, so that only the token tells them apart.
    let (other, third) = (db.store().await, node(&meeting.worker, 3).await);
    assert_eq!(
        other
            .lose(&meeting.orphans, LostLimit::default())
            .await
            .unwrap(),
        [Settled::Recorded(TaskState::Pending)]
    );
    let fresh = claim(&other, third, meeting.claimed.id, 3).await;
    for dead in [false, true] {
        if dead {
            assert!(other.bury(third, 0).await.unwrap());
        }
        assert_eq!(meeting.reap().await, Settled::Stale);
        let task = meeting.task().await;
        let found = (task.state, task.attempt, task.lost, task.fence, task.node);
        assert_eq!(
            found,
            (TaskState::Running, 2, 1, 2, Some(third)),
            "the fresh attempt is untouched"
        );
    }
    assert_eq!(
        settle(&other, &fresh, success("2")).await,
        Settled::Recorded(TaskState::Succeeded)
    );
    assert_eq!(meeting.reap().await, Settled::Stale);
    assert_eq!(meeting.ends().await, [(1, AttemptEnd::Lost)]);
    assert_eq!(meeting.task().await.result.as_deref(), Some("2"));
}

async fn case_c20_a_task_that_was_retried_meanwhile_is_left_alone(db: &TestDatabase) {
    let meeting = Meeting::new(db, &Faults::default()).await;
    let ready_at = meeting.claimed.claimed_at.plus(Duration::from_secs(600));
    let retry = End::Retry {
        ready_at,
        error: Arc::from("failed"),
        reason: AttemptEnd::Retried,
    };
    assert_eq!(
        settle(&meeting.worker, &meeting.claimed, retry).await,
        Settled::Recorded(TaskState::Pending)
    );
    assert_eq!(meeting.reap().await, Settled::Stale);
    let task = meeting.task().await;
    assert_eq!(
        (task.state, task.lost, task.ready_at),
        (TaskState::Pending, 0, ready_at),
        "its back-off holds"
    );
    assert_eq!(meeting.ends().await, [(1, AttemptEnd::Retried)]);
}

async fn case_c20_a_completion_that_meets_the_reaper_halfway_is_stale(db: &TestDatabase) {
    let (faults, gate) = (Faults::default(), Gate::default());
    let meeting = Meeting::new(db, &faults).await;
    // The reaper has locked the row and judged it, and has not written yet.
    faults.strike(
        Point::Statement(Sql::RequeueLost),
        1,
        Fault::Hold(gate.clone()),
    );
    let completing = async {
        gate.reached().await;
        let settling = settle(&meeting.worker, &meeting.claimed, success("1"));
        waits(settling, &gate).await
    };
    let met = tokio::join!(meeting.reap(), completing);
    assert_eq!(
        met,
        (Settled::Recorded(TaskState::Pending), Settled::Stale),
        "the reaper was first"
    );
    let task = meeting.task().await;
    assert_eq!(
        (task.state, task.lost, task.result),
        (TaskState::Pending, 1, None)
    );
    assert_eq!(meeting.ends().await, [(1, AttemptEnd::Lost)]);
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_history").await, 0);
}

async fn case_c20_a_reaper_that_meets_a_completion_halfway_leaves_it_alone(db: &TestDatabase) {
    let (faults, gate) = (Faults::default(), Gate::default());
    let meeting = Meeting::new(db, &Faults::default()).await;
    let worker = Store::new(Arc::new(FaultyDatabase::new(
        db.open().await,
        faults.clone(),
    )));
    // The worker has written its outcome and has not committed it yet.
    faults.strike(
        Point::CommitOf(Sql::InsertHistory),
        1,
        Fault::Hold(gate.clone()),
    );
    let reaping = async {
        gate.reached().await;
        waits(meeting.reap(), &gate).await
    };
    let met = tokio::join!(settle(&worker, &meeting.claimed, success("1")), reaping);
    assert_eq!(
        met,
        (Settled::Recorded(TaskState::Succeeded), Settled::Stale),
        "the worker was first"
    );
    let task = meeting.task().await;
    assert_eq!(
        (task.state, task.lost, task.result.as_deref()),
        (TaskState::Succeeded, 0, Some("1"))
    );
    assert_eq!(meeting.ends().await, []);
    assert_eq!(db.number("SELECT COUNT(*) FROM ax_task").await, 0);
}
