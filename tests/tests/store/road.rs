//! The road of a task: submit, due, claim, settle, and what operators do to it.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{AttemptEnd, JobName, Priority, State, TaskId, Timestamp};
use ax_engine::shard::ShardSet;
use ax_engine::store::{
    Born, CancelResult, Changed, ClaimRequest, Claimed, DueScan, End, LaneScan, Owned, Placed,
    Settled, Store, TaskFilter, TaskRow, Watched,
};
use ax_tests::databases::TestDatabase;

use crate::rows::*;

ax_tests::store_cases! {
    a_submitted_row_reads_back,
    a_batch_of_any_size_is_inserted_once,
    a_born_row_runs_at_once_on_an_alive_node,
    a_born_row_waits_when_its_node_is_dead,
    a_lost_submit_is_completed_without_doubling,
    due_pages_each_lane_in_order,
    due_looks_only_at_owned_shards,
    a_claim_repeats_every_condition,
    a_claim_needs_an_alive_node,
    a_claim_is_answered_again_by_its_token,
    a_claim_reads_large_payloads,
    settled_rows_move_to_history_once,
    a_failed_task_is_a_dead_letter_until_it_runs_again,
    a_retry_goes_back_to_pending,
    given_back_attempts_cost_nothing,
    a_cancel_mark_wins_over_every_end,
    a_stale_settlement_changes_nothing,
    one_stale_row_does_not_spoil_its_batch,
    watch_tells_cancels_and_losses,
    a_waiting_task_is_canceled_at_once,
    pending_tasks_move_in_time_priority_and_shard,
    overdue_tasks_expire,
    lists_and_counts_see_live_and_finished,
}

fn scan(to: Timestamp, cap: u32, owned: Owned) -> DueScan {
    let lane = LaneScan {
        from_at: Timestamp::from_millis(0),
        from_shard: 0,
        cap,
    };
    DueScan {
        to,
        lanes: [lane; 10],
        owned,
    }
}

async fn due(store: &Store) -> Vec<TaskId> {
    let now = store.now().await.unwrap();
    let rows = store.due(&scan(now, 1_000, Owned::All)).await.unwrap();
    rows.iter().map(|row| row.id).collect()
}

async fn state(store: &Store, id: TaskId) -> Option<State> {
    store.find(id).await.unwrap().map(|task| task.state)
}

async fn a_submitted_row_reads_back(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let full = TaskRow {
        deadline: now.plus(Duration::from_secs(60)),
        tags: vec!["red".to_owned(), "blue \" 'x'".to_owned()],
        route_key: Some("route".to_owned()),
        max_retries: Some(7),
        timeout: Some(Duration::from_millis(1_500)),
        trace: Some("00-abc".to_owned()),
        payload: Arc::from("[\"ü💡\"]"),
        priority: Priority::new(9).unwrap(),
        ..row(now)
    };
    submit(&store, std::slice::from_ref(&full)).await;
    let task = store.find(full.id).await.unwrap().unwrap();
    assert_eq!(
        (task.state, task.priority, task.ready_at),
        (State::Pending, full.priority, full.ready_at)
    );
    assert_eq!((task.payload.as_str(), task.tags), ("[\"ü💡\"]", full.tags));
    assert_eq!(
        (task.max_retries, task.timeout, task.deadline),
        (7, full.timeout, Some(full.deadline))
    );
    assert_eq!(
        (task.route_key, task.trace, task.attempt),
        (full.route_key, full.trace, 0)
    );
    assert_eq!(store.find(task_id(now)).await.unwrap(), None);
}

async fn a_batch_of_any_size_is_inserted_once(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let mut all = 0;
    for size in [1, 2, 3, 7, 9, 100, 256, 300] {
        let rows: Vec<TaskRow> = (0..size).map(|_| row(now)).collect();
        let placed = store.submit(&rows).await;
        assert!(
            placed
                .iter()
                .all(|placed| matches!(placed, Ok(Placed::Pending))),
            "{placed:?}"
        );
        all += size;
        assert_eq!(due(&store).await.len(), all);
    }
}

fn born(row: TaskRow, born: Born) -> TaskRow {
    TaskRow {
        born: Some(born),
        ..row
    }
}

async fn a_born_row_runs_at_once_on_an_alive_node(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let claim = Born {
        node: node(&store).await,
        token: token(),
    };
    let rows: Vec<TaskRow> = (0..5).map(|_| born(row(now), claim)).collect();
    let placed = store.submit(&rows).await;
    assert!(
        placed
            .iter()
            .all(|placed| matches!(placed, Ok(Placed::Claimed))),
        "{placed:?}"
    );
    let claimed: Vec<Claimed> = rows.iter().map(|row| Claimed::born(row).unwrap()).collect();
    let ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
    let mut read = store
        .claimed(ClaimRequest {
            node: claim.node,
            token: claim.token,
            ids: &ids,
        })
        .await
        .unwrap();
    read.sort_by_key(|claimed| claimed.id);
    assert_eq!(read, claimed, "what memory made up is what the table holds");
    let batch: Vec<_> = claimed
        .iter()
        .map(|claimed| settlement(claimed, success()))
        .collect();
    assert_eq!(
        store.settle(&batch).await.unwrap(),
        vec![Settled::Recorded(State::Succeeded); 5]
    );
}

async fn a_born_row_waits_when_its_node_is_dead(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let dead = node(&store).await;
    bury(&store, dead).await;
    let row = born(
        row(now),
        Born {
            node: dead,
            token: token(),
        },
    );
    assert!(matches!(
        store.submit(std::slice::from_ref(&row)).await[..],
        [Ok(Placed::Pending)]
    ));
    assert_eq!(state(&store, row.id).await, Some(State::Pending));
}

async fn a_lost_submit_is_completed_without_doubling(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let rows = [row(now), row(now), row(now)];
    let done = running(&store, node, &rows[0]).await;
    store.settle(&[settlement(&done, success())]).await.unwrap();
    submit(&store, &rows[1..2]).await;
    let placed = store.submit_again(&rows).await;
    assert!(
        placed
            .iter()
            .all(|placed| matches!(placed, Ok(Placed::Pending))),
        "{placed:?}"
    );
    let mut waiting = due(&store).await;
    waiting.sort();
    assert_eq!(
        waiting,
        [rows[1].id, rows[2].id],
        "the finished one is not inserted anew"
    );
    // A plain second sending ends in the same place.
    let placed = store.submit(&rows[1..]).await;
    assert!(
        placed
            .iter()
            .all(|placed| matches!(placed, Ok(Placed::Pending))),
        "{placed:?}"
    );
    assert_eq!(due(&store).await.len(), 2);
}

async fn due_pages_each_lane_in_order(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let at = |millis: u64, shard: i64, level: u8| TaskRow {
        ready_at: now.plus(Duration::from_millis(millis)),
        shard,
        priority: Priority::new(level).unwrap(),
        ..row(now)
    };
    let rows = [
        at(2, 1, 3),
        at(1, 9, 3),
        at(1, 2, 3),
        at(0, 0, 9),
        at(5_000, 0, 3),
        at(3, 0, 0),
    ];
    submit(&store, &rows).await;
    let limit = now.plus(Duration::from_secs(1));
    let read = |cap, lanes: [LaneScan; 10]| {
        let (store, scan) = (
            store.clone(),
            DueScan {
                lanes,
                ..scan(limit, cap, Owned::All)
            },
        );
        async move { store.due(&scan).await.unwrap() }
    };
    let all = scan(limit, 10, Owned::All).lanes;
    let found = read(10, all).await;
    let order: Vec<(u8, i64, i64)> = found
        .iter()
        .map(|row| {
            (
                row.priority,
                row.ready_at.as_millis() - now.as_millis(),
                row.shard,
            )
        })
        .collect();
    assert_eq!(
        order,
        [(0, 3, 0), (3, 1, 2), (3, 1, 9), (3, 2, 1), (9, 0, 0)]
    );
    let mut page = scan(limit, 1, Owned::All).lanes;
    page[9].cap = 0;
    assert_eq!(
        read(1, page).await.len(),
        2,
        "one of each lane, lane 9 is skipped"
    );
    page[3] = LaneScan {
        from_at: now.plus(Duration::from_millis(1)),
        from_shard: 9,
        cap: 5,
    };
    let ids: Vec<TaskId> = read(1, page)
        .await
        .iter()
        .filter(|row| row.priority == 3)
        .map(|row| row.id)
        .collect();
    assert_eq!(
        ids,
        [rows[1].id, rows[0].id],
        "a lane goes on at (ready_at, shard)"
    );
}

async fn due_looks_only_at_owned_shards(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let on = |shard: i64| TaskRow { shard, ..row(now) };
    let rows = [
        on(0),
        on(1),
        on(63),
        on(64),
        on(1_023),
        on(1_024),
        on(1_025),
    ];
    submit(&store, &rows).await;
    let shards: ShardSet = [0, 64, 1_023].into_iter().collect();
    let scan = scan(
        now,
        100,
        Owned::Some {
            shards,
            inbox: 1_025,
        },
    );
    let found: Vec<i64> = store
        .due(&scan)
        .await
        .unwrap()
        .iter()
        .map(|row| row.shard)
        .collect();
    assert_eq!(found, [0, 64, 1_023, 1_025]);
}

async fn a_claim_repeats_every_condition(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let good = row(now);
    let future = TaskRow {
        ready_at: now.plus(Duration::from_secs(60)),
        ..row(now)
    };
    let overdue = TaskRow {
        deadline: now.minus(Duration::from_millis(1)),
        ..row(now)
    };
    let taken = row(now);
    submit(
        &store,
        &[good.clone(), future.clone(), overdue.clone(), taken.clone()],
    )
    .await;
    let first = claim(&store, node, &[taken.id]).await;
    assert_eq!(first.len(), 1);
    let ids = [future.id, good.id, overdue.id, taken.id, task_id(now)];
    let claimed = claim(&store, node, &ids).await;
    assert_eq!(
        claimed.iter().map(|claimed| claimed.id).collect::<Vec<_>>(),
        [good.id]
    );
    let [claimed] = &claimed[..] else {
        unreachable!()
    };
    assert_eq!(
        (claimed.attempt, claimed.fence, claimed.lost, claimed.round),
        (1, 1, 0, 0)
    );
    assert!(claimed.claimed_at >= now);
    let inspected = store.inspect(&ids).await.unwrap();
    assert_eq!(inspected.len(), 4);
    let states: Vec<State> = inspected
        .iter()
        .filter(|row| row.due.id == taken.id)
        .map(|row| row.state)
        .collect();
    assert_eq!(states, [State::Running]);
}

async fn a_claim_needs_an_alive_node(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    let expired = node_with(&store, Duration::ZERO).await;
    assert!(
        claim(&store, expired, &[row.id]).await.is_empty(),
        "its lease is over"
    );
    let leaving = node(&store).await;
    store.leaving(leaving).await.unwrap();
    assert!(
        claim(&store, leaving, &[row.id]).await.is_empty(),
        "it is leaving"
    );
    let dead = node(&store).await;
    bury(&store, dead).await;
    assert!(
        claim(&store, dead, &[row.id]).await.is_empty(),
        "it is dead"
    );
    assert_eq!(claim(&store, node(&store).await, &[row.id]).await.len(), 1);
}

async fn a_claim_is_answered_again_by_its_token(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let rows: Vec<TaskRow> = (0..3).map(|_| row(now)).collect();
    submit(&store, &rows).await;
    let ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
    let request = ClaimRequest {
        node,
        token: token(),
        ids: &ids,
    };
    assert_eq!(store.claimed(request).await.unwrap(), []);
    let first = store.claim(request).await.unwrap();
    assert_eq!(first.len(), 3);
    assert_eq!(store.claimed(request).await.unwrap(), first);
    assert_eq!(
        claim(&store, node, &ids).await,
        [],
        "another token gets nothing"
    );
}

async fn a_claim_reads_large_payloads(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let text = format!("\"{}\"", "ü".repeat(300_000));
    let rows = [
        TaskRow {
            payload: Arc::from(text.as_str()),
            ..row(now)
        },
        row(now),
    ];
    submit(&store, &rows).await;
    let claimed = claim(&store, node, &[rows[0].id, rows[1].id]).await;
    let large = claimed
        .iter()
        .find(|claimed| claimed.id == rows[0].id)
        .unwrap();
    assert_eq!(&*large.payload, text);
    store
        .settle(&[settlement(large, failure("no"))])
        .await
        .unwrap();
    assert_eq!(store.find(large.id).await.unwrap().unwrap().payload, text);
    let whole = database
        .number("SELECT COUNT(*) FROM ax_dead WHERE length(payload) > 300000")
        .await;
    assert_eq!(whole, 1, "a dead letter keeps the text whole");
}

async fn settled_rows_move_to_history_once(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let rows: Vec<TaskRow> = (0..70).map(|_| row(now)).collect();
    submit(&store, &rows).await;
    let ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
    let mut claimed = claim(&store, node, &ids[..33]).await;
    claimed.extend(claim(&store, node, &ids[33..]).await);
    let batch: Vec<_> = claimed
        .iter()
        .map(|claimed| settlement(claimed, success()))
        .collect();
    assert_eq!(
        store.settle(&batch).await.unwrap(),
        vec![Settled::Recorded(State::Succeeded); 70]
    );
    assert_eq!(
        store.settle(&batch).await.unwrap(),
        vec![Settled::AlreadyDone(State::Succeeded); 70]
    );
    let outcomes = store.outcomes(&ids).await.unwrap();
    assert_eq!(outcomes.len(), 70);
    assert!(
        outcomes
            .iter()
            .all(|row| row.state == State::Succeeded && row.result.as_deref() == Some("\"done\""))
    );
    let task = store.find(ids[0]).await.unwrap().unwrap();
    assert_eq!(
        (task.state, task.result.as_deref(), task.node),
        (State::Succeeded, Some("\"done\""), Some(node))
    );
    assert_eq!(due(&store).await, []);
}

async fn a_failed_task_is_a_dead_letter_until_it_runs_again(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let row = row(now);
    let claimed = running(&store, node, &row).await;
    assert_eq!(
        store.rerun(row.id, now, 3).await.unwrap(),
        Changed::Refused(State::Running)
    );
    store
        .settle(&[settlement(&claimed, failure("broken"))])
        .await
        .unwrap();
    assert_eq!(
        database
            .number("SELECT COUNT(*) FROM ax_dead WHERE resolved_at IS NULL")
            .await,
        1
    );
    assert_eq!(
        store.find(row.id).await.unwrap().unwrap().error.as_deref(),
        Some("broken")
    );
    assert_eq!(store.rerun(row.id, now, 3).await.unwrap(), Changed::Yes);
    assert_eq!(
        database
            .number("SELECT COUNT(*) FROM ax_dead WHERE resolved_at IS NULL")
            .await,
        0
    );
    let again = claim(&store, node, &[row.id]).await.pop().unwrap();
    assert_eq!(
        (again.round, again.fence, again.attempt, again.shard),
        (1, 2, 1, 3)
    );
    store
        .settle(&[settlement(&again, success())])
        .await
        .unwrap();
    let outcome = store.outcomes(&[row.id]).await.unwrap().pop().unwrap();
    assert_eq!(
        (outcome.round, outcome.state),
        (1, State::Succeeded),
        "the latest round counts"
    );
    assert_eq!(
        store.rerun(task_id(now), now, 3).await.unwrap(),
        Changed::NotFound
    );
}

async fn a_retry_goes_back_to_pending(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let row = row(now);
    let claimed = running(&store, node, &row).await;
    let end = End::Retry {
        ready_at: now,
        error: Arc::from("try"),
        reason: AttemptEnd::TimedOut,
    };
    let retry = [settlement(&claimed, end)];
    assert_eq!(
        store.settle(&retry).await.unwrap(),
        [Settled::Recorded(State::Pending)]
    );
    assert_eq!(
        store.settle(&retry).await.unwrap(),
        [Settled::AlreadyDone(State::Pending)]
    );
    let again = claim(&store, node, &[row.id]).await.pop().unwrap();
    assert_eq!(
        (again.attempt, again.fence, again.error.as_deref()),
        (2, 2, Some("try"))
    );
    assert_eq!(
        store.settle(&retry).await.unwrap(),
        [Settled::AlreadyDone(State::Pending)],
        "the second claim is untouched"
    );
    let executions = store.executions(row.id).await.unwrap();
    assert_eq!(executions.len(), 1);
    assert_eq!(
        (
            executions[0].reason,
            executions[0].fence,
            executions[0].token
        ),
        (AttemptEnd::TimedOut, 1, claimed.token)
    );
}

async fn given_back_attempts_cost_nothing(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    let ends = [
        End::Snooze { ready_at: now },
        End::Wait { ready_at: now },
        End::Release {
            reason: Arc::from("shutdown"),
        },
    ];
    for (fence, end) in (1..).zip(ends) {
        let claimed = claim(&store, node, &[row.id]).await.pop().unwrap();
        assert_eq!((claimed.attempt, claimed.fence), (1, fence));
        assert_eq!(
            store.settle(&[settlement(&claimed, end)]).await.unwrap(),
            [Settled::Recorded(State::Pending)]
        );
    }
    let reasons: Vec<AttemptEnd> = store
        .executions(row.id)
        .await
        .unwrap()
        .iter()
        .map(|one| one.reason)
        .collect();
    assert_eq!(
        reasons,
        [
            AttemptEnd::Snoozed,
            AttemptEnd::Waited,
            AttemptEnd::Released
        ]
    );
}

async fn a_cancel_mark_wins_over_every_end(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let ends = [
        success(),
        failure("x"),
        End::Canceled { error: None },
        End::Retry {
            ready_at: now,
            error: Arc::from("x"),
            reason: AttemptEnd::Retried,
        },
        End::Snooze { ready_at: now },
        End::Release {
            reason: Arc::from("x"),
        },
    ];
    let mut batch = Vec::new();
    for end in ends {
        let claimed = running(&store, node, &row(now)).await;
        assert_eq!(
            store.cancel(claimed.id, Some("enough")).await.unwrap(),
            CancelResult::Requested
        );
        assert_eq!(
            store.cancel(claimed.id, None).await.unwrap(),
            CancelResult::Requested
        );
        batch.push(settlement(&claimed, end));
    }
    let unmarked = running(&store, node, &row(now)).await;
    batch.push(settlement(&unmarked, success()));
    let mut expected = vec![Settled::Recorded(State::Canceled); 6];
    expected.push(Settled::Recorded(State::Succeeded));
    assert_eq!(store.settle(&batch).await.unwrap(), expected);
    let task = store.find(batch[0].claimed.id).await.unwrap().unwrap();
    assert_eq!((task.state, task.result), (State::Canceled, None));
    assert!(task.cancel_requested_at.is_some());
    assert_eq!(database.number("SELECT COUNT(*) FROM ax_dead").await, 0);
}

async fn a_stale_settlement_changes_nothing(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let claimed = running(&store, node, &row(now)).await;
    store
        .settle(&[settlement(
            &claimed,
            End::Release {
                reason: Arc::from("x"),
            },
        )])
        .await
        .unwrap();
    let again = claim(&store, node, &[claimed.id]).await.pop().unwrap();
    let forged = Claimed {
        token: token(),
        ..again.clone()
    };
    assert_eq!(
        store
            .settle(&[settlement(&forged, success())])
            .await
            .unwrap(),
        [Settled::Stale]
    );
    assert_eq!(state(&store, claimed.id).await, Some(State::Running));
    assert_eq!(
        store
            .settle(&[settlement(&again, success())])
            .await
            .unwrap(),
        [Settled::Recorded(State::Succeeded)]
    );
}

async fn one_stale_row_does_not_spoil_its_batch(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let rows: Vec<TaskRow> = (0..4).map(|_| row(now)).collect();
    submit(&store, &rows).await;
    let ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
    let claimed = claim(&store, node, &ids).await;
    let other = running(&store, node, &row(now)).await;
    store
        .settle(&[settlement(&claimed[1], failure("first"))])
        .await
        .unwrap();
    store
        .settle(&[settlement(
            &claimed[2],
            End::Release {
                reason: Arc::from("x"),
            },
        )])
        .await
        .unwrap();
    claim(&store, node, &[claimed[2].id]).await;
    let mut batch: Vec<_> = claimed
        .iter()
        .map(|claimed| settlement(claimed, success()))
        .collect();
    batch.push(settlement(&other, success()));
    let done = Settled::Recorded(State::Succeeded);
    // The third was released by this very claim before: that is what is recorded of it.
    let expected = [
        done,
        Settled::AlreadyDone(State::Failed),
        Settled::AlreadyDone(State::Pending),
        done,
        done,
    ];
    assert_eq!(store.settle(&batch).await.unwrap(), expected);
}

async fn watch_tells_cancels_and_losses(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let (quiet, canceled, gone) = (row(now), row(now), row(now));
    let quiet = running(&store, node, &quiet).await;
    let canceled = running(&store, node, &canceled).await;
    let gone = running(&store, node, &gone).await;
    store.cancel(canceled.id, Some("stop")).await.unwrap();
    store.settle(&[settlement(&gone, success())]).await.unwrap();
    let running = [quiet, canceled, gone].map(|claimed| (claimed.id, claimed.token));
    let news = store.watch(&running).await.unwrap();
    let requested = Watched::CancelRequested {
        reason: Some(Arc::from("stop")),
    };
    assert_eq!(
        news,
        [(running[1].0, requested), (running[2].0, Watched::Stale)]
    );
}

async fn a_waiting_task_is_canceled_at_once(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let row = row(now);
    submit(&store, std::slice::from_ref(&row)).await;
    assert_eq!(
        store.cancel(row.id, Some("why")).await.unwrap(),
        CancelResult::Canceled
    );
    assert_eq!(
        store.cancel(row.id, None).await.unwrap(),
        CancelResult::AlreadyFinal(State::Canceled)
    );
    assert_eq!(
        store.cancel(task_id(now), None).await.unwrap(),
        CancelResult::NotFound
    );
    assert_eq!(claim(&store, node(&store).await, &[row.id]).await, []);
    assert_eq!(state(&store, row.id).await, Some(State::Canceled));
}

async fn pending_tasks_move_in_time_priority_and_shard(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let (row, later) = (row(now), now.plus(Duration::from_secs(60)));
    submit(&store, std::slice::from_ref(&row)).await;
    assert_eq!(store.reschedule(row.id, later).await.unwrap(), Changed::Yes);
    assert_eq!(
        store
            .set_priority(row.id, Priority::new(1).unwrap())
            .await
            .unwrap(),
        Changed::Yes
    );
    assert_eq!(
        store.move_shard(&[row.id], 6, 2_000).await.unwrap(),
        0,
        "it is not on shard 6"
    );
    assert_eq!(store.move_shard(&[row.id], 7, 2_000).await.unwrap(), 1);
    let found = store.inspect(&[row.id]).await.unwrap().pop().unwrap().due;
    assert_eq!(
        (found.ready_at, found.priority, found.shard),
        (later, 1, 2_000)
    );
    store.reschedule(row.id, now).await.unwrap();
    let claimed = claim(&store, node(&store).await, &[row.id])
        .await
        .pop()
        .unwrap();
    assert_eq!(
        store.reschedule(row.id, later).await.unwrap(),
        Changed::Refused(State::Running)
    );
    assert_eq!(
        store.move_shard(&[row.id], 2_000, 7).await.unwrap(),
        0,
        "it runs"
    );
    store
        .settle(&[settlement(&claimed, success())])
        .await
        .unwrap();
    let high = Priority::new(9).unwrap();
    assert_eq!(
        store.set_priority(row.id, high).await.unwrap(),
        Changed::Refused(State::Succeeded)
    );
    assert_eq!(
        store.set_priority(task_id(now), high).await.unwrap(),
        Changed::NotFound
    );
}

async fn overdue_tasks_expire(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let gone = TaskRow {
        deadline: now,
        ..row(now)
    };
    let kept = TaskRow {
        deadline: now.plus(Duration::from_secs(60)),
        ..row(now)
    };
    submit(&store, &[gone.clone(), kept.clone()]).await;
    assert_eq!(store.overdue(10).await.unwrap(), [gone.id]);
    assert_eq!(
        store
            .expire(&[kept.id, gone.id, task_id(now)])
            .await
            .unwrap(),
        [gone.id]
    );
    assert_eq!(state(&store, gone.id).await, Some(State::Expired));
    assert_eq!(state(&store, kept.id).await, Some(State::Pending));
}

async fn lists_and_counts_see_live_and_finished(database: &TestDatabase) {
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let node = node(&store).await;
    let tagged = TaskRow {
        tags: vec!["red".to_owned()],
        job: JobName::new("other").unwrap(),
        ..row(now)
    };
    let future = TaskRow {
        ready_at: now.plus(Duration::from_secs(60)),
        ..row(now)
    };
    submit(&store, &[tagged.clone(), future.clone()]).await;
    let done = running(&store, node, &row(now)).await;
    store.settle(&[settlement(&done, success())]).await.unwrap();
    let list = |change: fn(&mut TaskFilter)| {
        let (store, mut filter) = (store.clone(), TaskFilter::new(namespace()));
        change(&mut filter);
        async move {
            store
                .list(&filter)
                .await
                .unwrap()
                .iter()
                .map(|task| task.id)
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(
        list(|_| {}).await,
        [done.id, future.id, tagged.id],
        "the youngest first"
    );
    assert_eq!(list(|filter| filter.limit = 2).await, [done.id, future.id]);
    assert_eq!(
        list(|filter| filter.tag = Some("red".to_owned())).await,
        [tagged.id]
    );
    assert_eq!(
        list(|filter| filter.states = vec![State::Succeeded]).await,
        [done.id]
    );
    assert_eq!(
        list(|filter| filter.job = JobName::new("job").ok()).await,
        [done.id, future.id]
    );
    let mut after = TaskFilter::new(namespace());
    after.after = Some(future.id);
    assert_eq!(store.list(&after).await.unwrap()[0].id, tagged.id);
    let mut counts: Vec<_> = store.counts(&namespace()).await.unwrap();
    counts.sort_by_key(|count| (count.job.clone(), count.state));
    let counts: Vec<_> = counts
        .iter()
        .map(|count| (count.job.as_str(), count.state, count.ready, count.count))
        .collect();
    let expected = [
        ("job", State::Pending, false, 1),
        ("job", State::Succeeded, false, 1),
        ("other", State::Pending, true, 1),
    ];
    assert_eq!(counts, expected);
}
