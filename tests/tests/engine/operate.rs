//! What operators do: cancel, reschedule, rerun, look.

use std::time::Duration;

use ax_sdk::{CancelResult, Changed, ErrorKind, Outcome, TaskId, TaskState};
use ax_tests::databases::TestDatabase;

use crate::jobs::{Stage, echo, end, gated, in_state, node, note, outcome};

const HOUR: Duration = Duration::from_secs(3600);

engine_cases! {
    a_waiting_task_is_canceled_at_once,
    a_running_task_is_signaled_and_ends_as_canceled,
    a_cancel_reaches_the_node_that_runs_the_task,
    a_success_after_a_cancel_is_canceled_once,
    a_finished_task_cannot_be_canceled,
    a_retrying_task_can_be_canceled,
    a_task_may_be_moved_in_time_both_ways,
    a_running_task_cannot_be_moved,
    a_finished_task_runs_again_as_a_new_round,
    a_rerun_whose_key_is_taken_is_refused,
    a_live_task_cannot_be_run_again,
    a_priority_may_change_while_a_task_waits,
    tasks_are_found_listed_and_counted,
}

async fn a_waiting_task_is_canceled_at_once(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax
        .submit(note::task("no".into()).delay(HOUR))
        .await
        .unwrap();
    assert_eq!(
        ax.cancel_because(handle.id(), "not wanted").await.unwrap(),
        CancelResult::Canceled
    );
    assert_eq!(outcome(&handle).await, Outcome::Canceled);
    assert_eq!(
        ax.cancel(handle.id()).await.unwrap(),
        CancelResult::AlreadyFinal(TaskState::Canceled)
    );
    assert!(stage.all("").await.is_empty());
    ax.shutdown().await;
}

async fn a_running_task_is_signaled_and_ends_as_canceled(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax.submit(gated::task("g".into())).await.unwrap();
    stage.noted("g started", 1).await;
    assert_eq!(handle.cancel().await.unwrap(), CancelResult::Requested);
    assert_eq!(outcome(&handle).await, Outcome::Canceled);
    assert_eq!(stage.all("g").await, ["g started 1", "g signaled"]);
    ax.shutdown().await;
}

async fn a_cancel_reaches_the_node_that_runs_the_task(db: &TestDatabase) {
    let (here, there) = (Stage::default(), Stage::default());
    let worker = node(db.url(), &there).start().await.unwrap();
    let other = node(db.url(), &here).start().await.unwrap();
    let handle = worker.submit(gated::task("g".into())).await.unwrap();
    there.noted("g started", 1).await;
    assert_eq!(
        other.cancel(handle.id()).await.unwrap(),
        CancelResult::Requested
    );
    there.noted("g signaled", 1).await;
    assert_eq!(outcome(&handle).await, Outcome::Canceled);
    worker.shutdown().await;
    other.shutdown().await;
}

async fn a_success_after_a_cancel_is_canceled_once(db: &TestDatabase) {
    let (here, there) = (Stage::default(), Stage::default());
    // This worker looks for cancels so rarely that its handler never hears of the one below.
    let worker = node(db.url(), &there)
        .configure(|c| c.watch = HOUR)
        .start()
        .await
        .unwrap();
    let other = node(db.url(), &here).start().await.unwrap();
    let handle = worker.submit(gated::task("g".into())).await.unwrap();
    there.noted("g started", 1).await;
    other.cancel(handle.id()).await.unwrap();
    there.open(1);
    assert_eq!(
        outcome(&handle).await,
        Outcome::Canceled,
        "the mark was there first"
    );
    assert_eq!(there.all("g").await, ["g started 1"]);
    worker.shutdown().await;
    other.shutdown().await;
}

async fn a_finished_task_cannot_be_canceled(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(echo::task("a".into())).await.unwrap();
    outcome(&handle).await;
    assert_eq!(
        handle.cancel().await.unwrap(),
        CancelResult::AlreadyFinal(TaskState::Succeeded)
    );
    let nobody = TaskId::from_bytes([7; 16]);
    assert_eq!(ax.cancel(nobody).await.unwrap(), CancelResult::NotFound);
    ax.shutdown().await;
}

async fn a_retrying_task_can_be_canceled(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax
        .submit(crate::jobs::flaky::task(1_000_000_u32).retries(1_000_000))
        .await
        .unwrap();
    while ax.executions(handle.id()).await.unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(
        handle.cancel().await.unwrap(),
        CancelResult::Canceled | CancelResult::Requested
    ));
    assert_eq!(outcome(&handle).await, Outcome::Canceled);
    ax.shutdown().await;
}

async fn a_task_may_be_moved_in_time_both_ways(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(echo::task("a".into()).delay(HOUR)).await.unwrap();
    assert_eq!(
        ax.reschedule_after(handle.id(), HOUR * 2).await.unwrap(),
        Changed::Yes
    );
    assert_eq!(ax.run_now(handle.id()).await.unwrap(), Changed::Yes);
    assert!(matches!(outcome(&handle).await, Outcome::Succeeded(_)));

    let soon = ax
        .submit(echo::task("b".into()).delay(Duration::from_millis(200)))
        .await
        .unwrap();
    assert_eq!(
        ax.reschedule_after(soon.id(), HOUR).await.unwrap(),
        Changed::Yes
    );
    let marker = ax
        .submit(echo::task("c".into()).delay(Duration::from_millis(400)))
        .await
        .unwrap();
    outcome(&marker).await;
    assert_eq!(
        soon.task().await.unwrap().unwrap().state,
        TaskState::Pending,
        "the old instant fires nothing"
    );
    ax.shutdown().await;
}

async fn a_running_task_cannot_be_moved(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax.submit(gated::task("g".into())).await.unwrap();
    stage.noted("g started", 1).await;
    assert_eq!(
        ax.reschedule_after(handle.id(), HOUR).await.unwrap(),
        Changed::Refused(TaskState::Running)
    );
    stage.open(1);
    outcome(&handle).await;
    assert_eq!(
        ax.run_now(handle.id()).await.unwrap(),
        Changed::Refused(TaskState::Succeeded)
    );
    assert_eq!(
        ax.run_now(TaskId::from_bytes([9; 16])).await.unwrap(),
        Changed::NotFound
    );
    ax.shutdown().await;
}

async fn a_finished_task_runs_again_as_a_new_round(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    let handle = ax.submit(end::task("terminal".into())).await.unwrap();
    outcome(&handle).await;
    assert_eq!(ax.rerun(handle.id()).await.unwrap(), Changed::Yes);
    stage.noted("terminal", 2).await;
    let task = in_state(&ax, handle.id(), TaskState::Failed).await;
    assert_eq!(
        (task.round, task.attempt, task.fence),
        (1, 1, 2),
        "the number of claims goes on"
    );
    let rounds = ax.list(ax.filter()).await.unwrap();
    assert_eq!(
        rounds.iter().filter(|task| task.id == handle.id()).count(),
        2,
        "the first round stays in the history"
    );
    assert!(
        matches!(outcome(&handle).await, Outcome::Failed { .. }),
        "and its outcome can still be awaited"
    );
    ax.shutdown().await;
}

async fn a_rerun_whose_key_is_taken_is_refused(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let first = ax.submit(echo::task("a".into()).key("k")).await.unwrap();
    outcome(&first).await;
    let holder = ax
        .submit(echo::task("b".into()).key("k").delay(HOUR))
        .await
        .unwrap();
    assert_eq!(
        ax.rerun(first.id()).await.unwrap_err().kind(),
        ErrorKind::Conflict
    );
    holder.cancel().await.unwrap();
    assert_eq!(ax.rerun(first.id()).await.unwrap(), Changed::Yes);
    ax.shutdown().await;
}

async fn a_live_task_cannot_be_run_again(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(echo::task("a".into()).delay(HOUR)).await.unwrap();
    assert_eq!(
        ax.rerun(handle.id()).await.unwrap(),
        Changed::Refused(TaskState::Pending)
    );
    assert_eq!(
        ax.rerun(TaskId::from_bytes([9; 16])).await.unwrap(),
        Changed::NotFound
    );
    ax.shutdown().await;
}

async fn a_priority_may_change_while_a_task_waits(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(echo::task("a".into()).delay(HOUR)).await.unwrap();
    assert_eq!(ax.set_priority(handle.id(), 9).await.unwrap(), Changed::Yes);
    assert_eq!(handle.task().await.unwrap().unwrap().priority.get(), 9);
    assert_eq!(
        ax.set_priority(handle.id(), 10).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    ax.shutdown().await;
}

async fn tasks_are_found_listed_and_counted(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let done = ax
        .submit(echo::task("a".into()).tag("red").key("k-1"))
        .await
        .unwrap();
    outcome(&done).await;
    let waiting = ax
        .submit(echo::task("b".into()).tag("blue").delay(HOUR))
        .await
        .unwrap();

    let mut red = ax.filter();
    red.tag = Some("red".to_owned());
    let found: Vec<TaskId> = ax
        .list(red)
        .await
        .unwrap()
        .into_iter()
        .map(|task| task.id)
        .collect();
    assert_eq!(found, [done.id()]);
    let mut keyed = ax.filter();
    keyed.key = Some("k-1".to_owned());
    assert_eq!(ax.list(keyed).await.unwrap().len(), 1);
    let mut pending = ax.filter();
    pending.states = vec![TaskState::Pending];
    assert_eq!(ax.list(pending).await.unwrap()[0].id, waiting.id());
    let mut page = ax.filter();
    page.limit = 1;
    assert_eq!(
        ax.list(page.clone()).await.unwrap()[0].id,
        waiting.id(),
        "the youngest first"
    );
    page.after = Some(waiting.id());
    assert_eq!(ax.list(page).await.unwrap()[0].id, done.id());

    let counts = ax.counts().await.unwrap();
    let of = |state| {
        counts
            .iter()
            .filter(|c| c.state == state)
            .map(|c| c.count)
            .sum::<u64>()
    };
    assert_eq!((of(TaskState::Succeeded), of(TaskState::Pending)), (1, 1));
    ax.shutdown().await;
}
