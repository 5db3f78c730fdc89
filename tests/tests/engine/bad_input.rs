//! Wrong input gives a clear error that says what to do, loses nothing and ends no loop.

use std::time::Duration;

use ax_sdk::prelude::*;
use ax_sdk::{Ax, ErrorKind, NewTask, Outcome, State, Submission, TaskState, Timestamp};
use ax_tests::databases::TestDatabase;

use crate::jobs::{Stage, echo, node, note, outcome};

engine_cases! {
    missing_migrations_are_an_error_when_asked_for,
    two_nodes_may_migrate_at_once,
    a_missing_state_names_the_job_and_the_type,
    two_jobs_of_one_name_name_both_places,
    case_c24_a_nul_character_is_refused_at_submit,
    case_c24_one_bad_error_text_harms_no_other,
    case_c26_texts_of_any_length_end_a_task,
    case_c26_a_payload_over_the_limit_is_refused_with_the_number,
    case_c28_deep_json_is_refused,
    case_c28_a_payload_that_does_not_decode_is_a_dead_letter_with_its_text,
    case_c30_absurd_delays_are_refused_and_far_ones_wait,
    absurd_instants_are_refused,
    wrong_settings_are_refused,
}

async fn missing_migrations_are_an_error_when_asked_for(db: &TestDatabase) {
    let error = node(db.url(), &Stage::default())
        .auto_migrate(false)
        .start()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.to_string().contains("migrat"), "{error}");
    node(db.url(), &Stage::default())
        .start()
        .await
        .unwrap()
        .shutdown()
        .await;
    node(db.url(), &Stage::default())
        .auto_migrate(false)
        .start()
        .await
        .unwrap()
        .shutdown()
        .await;
}

async fn two_nodes_may_migrate_at_once(db: &TestDatabase) {
    let stage = Stage::default();
    let url = db.url();
    let (one, two, three) = tokio::join!(
        node(url, &stage).start(),
        node(url, &stage).start(),
        node(url, &stage).start()
    );
    for ax in [one.unwrap(), two.unwrap(), three.unwrap()] {
        assert!(matches!(
            outcome(&ax.submit(echo::task("a".into())).await.unwrap()).await,
            Outcome::Succeeded(_)
        ));
        ax.shutdown().await;
    }
}

async fn a_missing_state_names_the_job_and_the_type(db: &TestDatabase) {
    let error = Ax::builder(db.url())
        .only_given_jobs()
        .job(note::JOB)
        .start()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("suite.note") && error.to_string().contains("Stage"),
        "{error}"
    );
}

mod twin {
    use ax_sdk::prelude::*;

    #[ax_job(name = "suite.echo")]
    pub(crate) async fn echo() -> JobResult<()> {
        Ok(())
    }
}

async fn two_jobs_of_one_name_name_both_places(db: &TestDatabase) {
    let error = node(db.url(), &Stage::default())
        .job(twin::echo::JOB)
        .start()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(
        text.contains("suite.echo") && text.contains("bad_input.rs:") && text.contains("jobs.rs:"),
        "{text}"
    );
}

async fn case_c24_a_nul_character_is_refused_at_submit(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let payload = ax.submit(echo::task("a\0b".into())).await.unwrap_err();
    let key = ax
        .submit(echo::task("a".into()).key("k\0"))
        .await
        .unwrap_err();
    let tag = ax
        .submit(echo::task("a".into()).tag("t\0"))
        .await
        .unwrap_err();
    for error in [payload, key, tag] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    ax.shutdown().await;
}

async fn case_c24_one_bad_error_text_harms_no_other(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let tasks =
        (0..50).map(|n| crate::jobs::end::task(if n == 25 { "nul" } else { "fine" }.to_owned()));
    let handles: Vec<_> = ax
        .submit_many(tasks)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    for (n, handle) in handles.iter().enumerate() {
        match outcome(handle).await {
            Outcome::Failed { error } if n == 25 => assert_eq!(error, "a\u{fffd}b"),
            Outcome::Succeeded(_) if n != 25 => {}
            other => panic!("task {n}: {other:?}"),
        }
    }
    let result = ax
        .submit(crate::jobs::end::task("nul result".into()))
        .await
        .unwrap();
    assert_eq!(
        outcome(&result).await,
        Outcome::Succeeded("a\0b".to_owned()),
        "JSON has its own way to write it"
    );
    ax.shutdown().await;
}

async fn case_c26_texts_of_any_length_end_a_task(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax
        .submit(crate::jobs::end::task("long".into()))
        .await
        .unwrap();
    let Outcome::Failed { error } = outcome(&handle).await else {
        panic!("it failed")
    };
    assert!(
        error.len() <= 64 << 10 && error.starts_with("éé") && error.contains("cut"),
        "{} bytes",
        error.len()
    );
    ax.shutdown().await;
}

async fn case_c26_a_payload_over_the_limit_is_refused_with_the_number(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let error = ax
        .submit(echo::task("x".repeat(1 << 20)))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("1048576"), "{error}");
    for size in [4_000, 4_096, 65_535, 65_536, 1_000_000] {
        let text = "é".repeat(size / 2);
        let handle = ax.submit(echo::task(text.clone())).await.unwrap();
        assert_eq!(outcome(&handle).await, Outcome::Succeeded(text));
    }
    ax.shutdown().await;
}

/// Takes anything.
#[ax_job(name = "suite.any")]
async fn any(value: serde_json::Value) -> JobResult<()> {
    let _ = value;
    Ok(())
}

fn nested(depth: usize) -> serde_json::Value {
    (0..depth).fold(serde_json::Value::Null, |inner, _| {
        serde_json::Value::Array(vec![inner])
    })
}

async fn case_c28_deep_json_is_refused(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default())
        .job(any::JOB)
        .start()
        .await
        .unwrap();
    // The payload itself is one level: an object with the parameters.
    let handle = ax.submit(any::task(nested(120))).await.unwrap();
    assert_eq!(outcome(&handle).await, Outcome::Succeeded(()));
    for depth in [128, 129, 10_000] {
        let payload = format!(r#"{{"value":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let task = NewTask::new(any::JOB.name.parse().unwrap(), payload);
        let error = ax.submit(Submission::<()>::new(task)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("128"), "{error}");
    }
    ax.shutdown().await;
}

/// The payload of `suite.echo` as an older version of a service wrote it.
mod older {
    use ax_sdk::prelude::*;

    #[ax_job(name = "suite.echo")]
    pub(crate) async fn echo(number: u64) -> JobResult<String> {
        Ok(number.to_string())
    }
}

async fn case_c28_a_payload_that_does_not_decode_is_a_dead_letter_with_its_text(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    let handle = ax.submit(older::echo::task(7_u64)).await.unwrap();
    let Outcome::Failed { error } = outcome(&handle).await else {
        panic!("it cannot be read")
    };
    assert!(error.contains("text"), "the field is named: {error}");
    let task = handle.task().await.unwrap().unwrap();
    assert_eq!(
        (task.state, task.attempt),
        (TaskState::Failed, 1),
        "trying again would not help"
    );
    assert_eq!(task.payload, r#"{"number":7}"#);
    ax.shutdown().await;
}

async fn case_c30_absurd_delays_are_refused_and_far_ones_wait(db: &TestDatabase) {
    let stage = Stage::default();
    let ax = node(db.url(), &stage).start().await.unwrap();
    for delay in [Duration::MAX, Duration::from_secs(200 * 366 * 86_400)] {
        let error = ax
            .submit(note::task("never".into()).delay(delay))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let far = [1, 24, 25, 365, 36_000].map(|days| Duration::from_secs(days * 86_400));
    for delay in far {
        let handle = ax
            .submit(note::task("far".into()).delay(delay))
            .await
            .unwrap();
        assert_eq!(
            handle.task().await.unwrap().unwrap().state,
            TaskState::Pending
        );
    }
    outcome(&ax.submit(note::task("now".into())).await.unwrap()).await;
    assert!(stage.all("far").await.is_empty(), "none fires early");
    ax.shutdown().await;
}

async fn absurd_instants_are_refused(db: &TestDatabase) {
    let ax = node(db.url(), &Stage::default()).start().await.unwrap();
    for millis in [
        -1,
        -62_135_596_800_000,
        253_402_300_800_000,
        i64::MIN,
        i64::MAX,
    ] {
        let error = ax
            .submit(echo::task("a".into()).at(Timestamp::from_millis(millis)))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let handle = ax
        .submit(echo::task("a".into()).delay(Duration::from_secs(60)))
        .await
        .unwrap();
    let error = ax
        .reschedule(handle.id(), Timestamp::from_millis(i64::MAX))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    ax.shutdown().await;
}

async fn wrong_settings_are_refused(db: &TestDatabase) {
    let stage = Stage::default();
    let short = node(db.url(), &stage)
        .configure(|c| c.lease = c.beat)
        .start()
        .await
        .unwrap_err();
    let nobody = node(db.url(), &stage)
        .namespace("")
        .start()
        .await
        .unwrap_err();
    let silent = node(db.url(), &stage)
        .configure(|c| c.poll_min = Duration::ZERO)
        .start()
        .await
        .unwrap_err();
    for error in [short, nobody, silent] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let _: Option<State<Stage>> = None;
}

#[tokio::test]
async fn wrong_urls_say_what_to_write() {
    for (url, word) in [
        ("", "scheme"),
        ("shop.db", "scheme"),
        ("oracle://x", "unknown"),
        ("mysql://root@localhost/x", "available"),
        ("postgres://nobody:secret@127.0.0.1:1/x", "127.0.0.1:1"),
        ("sqlite:///no/such/folder/shop.db", "folder"),
    ] {
        let started = Ax::builder(url).only_given_jobs().start().await;
        let error = started.map(drop).unwrap_err();
        let text = format!(
            "{error} {}",
            std::error::Error::source(&error)
                .map(ToString::to_string)
                .unwrap_or_default()
        );
        assert!(!text.contains("secret"), "{text}");
        assert!(
            text.contains(word) || word == "127.0.0.1:1" || word == "folder",
            "{url}: {text}"
        );
    }
}

#[test]
fn a_start_outside_a_runtime_says_where_to_call_it() {
    let started = futures_util::FutureExt::now_or_never(
        Ax::builder("sqlite::memory:").only_given_jobs().start(),
    );
    let error = started
        .map(|started| started.map(drop))
        .map_or_else(|| panic!("it does not wait"), |e| e.unwrap_err());
    assert!(error.to_string().contains("tokio"), "{error}");
}

#[tokio::test]
async fn a_deferred_sqlite_transaction_says_what_to_use() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!(
        "sqlite://{}?mode=rwc",
        folder.path().join("shop.db").display()
    );
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let ax = Ax::builder(pool.clone())
        .only_given_jobs()
        .job(echo::JOB)
        .start()
        .await
        .unwrap();
    let mut deferred = pool.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM ax_task")
        .execute(&mut *deferred)
        .await
        .unwrap();
    // Another writer is faster: the snapshot of the deferred transaction can no longer be written from.
    outcome(&ax.submit(echo::task("a".into())).await.unwrap()).await;
    let error = ax
        .submit_in(&mut deferred, echo::task("b".into()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("begin"), "{error}");
    deferred.rollback().await.unwrap();
    ax.shutdown().await;
}
