//! `#[ax_job]` and `#[ax_schedule]` through the surface that users write.
//!
//! Jobs are called as the engine calls them: by their definition, with a payload text and a context. Nothing here starts an
//! engine. What must not compile, and what must compile without a warning, stands in `ui/`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{
    JobErrorKind, JobName, Limits, Namespace, OnLost, Priority, TaskId, Tick, Timestamp, When,
};
use ax_engine::job::{ContextParts, Handler, JobKind, Registry, States, TriggerDef};
use ax_sdk::prelude::*;
use ax_sdk::{FromJob, JobCall, JobDef, State};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Calls a job as an executor does.
async fn call(job: JobDef, payload: &str, states: States) -> JobResult<String> {
    let tick = Tick {
        schedule: "nightly".into(),
        scheduled_at: Timestamp::from_millis(5_000),
        interval_start: Some(Timestamp::from_millis(1_000)),
        interval_end: Some(Timestamp::from_millis(5_000)),
    };
    let context = JobContext::new(ContextParts {
        task: TaskId::from_bytes([7; 16]),
        fence: 3,
        attempt: 2,
        lost: 1,
        last_error: Some("connection reset".into()),
        tick: Some(tick),
        key: Some("order-42".into()),
        tags: vec!["eu".into()],
        job: JobName::new(job.name)?,
        namespace: Namespace::default(),
        states: Arc::new(states),
        cancellation: CancellationToken::new(),
    });
    let call = JobCall {
        payload: payload.into(),
        context,
    };
    match job.handler {
        Handler::Async(run) => run(call).await,
        Handler::Blocking(run) => run(call),
    }
}

/// A call of a job that needs no state.
async fn result(job: JobDef, payload: &str) -> JobResult<String> {
    call(job, payload, States::new()).await
}

/// The text of an error that no retry would cure.
fn terminal(result: JobResult<String>) -> String {
    match result {
        Err(error) if error.kind() == JobErrorKind::Terminal => error.message().to_owned(),
        other => format!("not terminal: {other:?}"),
    }
}

mod orders {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Closed {
        pub(crate) order: u64,
    }

    /// Closes an order that was not paid in time.
    #[ax_job(name = "order.close", aliases = ["close_order", "order.shut"], retries = 4, timeout = "30s", priority = 8,
             backoff = "exponential 1s x2 max 10m", on_lost = "fail")]
    #[ax_schedule(delay = "30m")]
    pub(crate) async fn close_order(order_id: u64, db: State<&'static str>) -> JobResult<Closed> {
        assert_eq!(*db, "db");
        Ok(Closed { order: order_id })
    }
}

use orders::close_order;

#[tokio::test]
async fn one_use_brings_the_function_and_its_task() {
    let closed = close_order(1, State("db")).await.unwrap();
    assert_eq!(closed, orders::Closed { order: 1 });
    assert_eq!(
        close_order::task(42).into_new_task().payload,
        r#"{"order_id":42}"#
    );
}

#[test]
fn options_stand_in_the_definition() {
    let job = close_order::JOB;
    assert_eq!(
        (job.name, job.aliases),
        ("order.close", &["close_order", "order.shut"][..])
    );
    assert_eq!(
        (job.max_retries, job.timeout_ms, job.priority),
        (Some(4), Some(30_000), 8)
    );
    assert_eq!(job.backoff, Some("exponential 1s x2 max 10m"));
    assert_eq!((job.on_lost, job.delay_ms), (OnLost::Fail, Some(1_800_000)));
    assert!(job.file.ends_with("macros.rs") && job.schedules.is_empty());
}

#[test]
fn a_task_carries_the_presets_and_yields_to_the_builder() {
    let preset = close_order::task(1).into_new_task();
    assert_eq!(preset.when, When::After(Duration::from_secs(1_800)));
    assert_eq!(
        (preset.priority, preset.on_lost),
        (Priority::new(8).unwrap(), OnLost::Fail)
    );
    assert_eq!((preset.max_retries, preset.timeout), (None, None));
    preset.validate(&Limits::default()).unwrap();

    let changed = close_order::task(1)
        .delay(Duration::from_secs(3))
        .priority(2)
        .into_new_task();
    assert_eq!(changed.when, When::After(Duration::from_secs(3)));
    assert_eq!(changed.priority, Priority::new(2).unwrap());
}

#[tokio::test]
async fn states_are_injected_and_asked_for_at_start_up() {
    let mut states = States::new();
    let missing = (close_order::JOB.check)(&states).unwrap_err();
    assert!(missing.contains("State<&str> is missing"), "{missing}");

    states.insert("db");
    (close_order::JOB.check)(&states).unwrap();
    let json = call(close_order::JOB, r#"{"order_id":42}"#, states)
        .await
        .unwrap();
    assert_eq!(json, r#"{"order":42}"#);
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_terminal_and_names_the_field() {
    let text = terminal(result(close_order::JOB, r#"{"order_id":"x"}"#).await);
    assert!(
        text.contains("job `order.close`, field `order_id`") && text.contains("expected u64"),
        "{text}"
    );
    let text = terminal(result(close_order::JOB, "{}").await);
    assert!(text.contains("field `order_id` is missing"), "{text}");
}

#[ax_job]
async fn thumbnail(
    #[ax(rename = "frameUrl", alias = "url", alias = "frame")] frame_url: String,
    #[ax(default = 320)] width: u32,
    #[ax(default)] tags: Vec<String>,
    title: Option<String>,
) -> JobResult<String> {
    Ok(format!("{frame_url} {width} {tags:?} {title:?}"))
}

#[tokio::test]
async fn parameters_are_renamed_aliased_and_defaulted() {
    let task = thumbnail::task("u".into(), 1, vec!["a".into()], None).into_new_task();
    assert_eq!(
        task.payload,
        r#"{"frameUrl":"u","width":1,"tags":["a"],"title":null}"#
    );
    assert_eq!(task.job, "thumbnail");
    assert_eq!(
        result(thumbnail::JOB, &task.payload).await.unwrap(),
        r#""u 1 [\"a\"] None""#
    );
    for payload in [
        r#"{"frameUrl":"u"}"#,
        r#"{"url":"u"}"#,
        r#"{"frame":"u","new":[]}"#,
    ] {
        assert_eq!(
            result(thumbnail::JOB, payload).await.unwrap(),
            r#""u 320 [] None""#,
            "{payload}"
        );
    }
    let text = terminal(result(thumbnail::JOB, r#"{"frame_url":"u"}"#).await);
    assert!(text.contains("field `frameUrl` is missing"), "{text}");
}

/// Built from the attempt by the test itself.
struct Caller(String);

impl FromJob for Caller {
    fn from_job(call: &JobCall) -> Result<Self, JobError> {
        Ok(Self(format!(
            "{}/{}",
            call.context.job(),
            call.context.execution_id()
        )))
    }

    fn check(states: &States) -> Result<(), String> {
        states
            .get::<u8>()
            .map(|_| ())
            .ok_or_else(|| "Caller needs a number".into())
    }
}

#[ax_job]
async fn whoami(#[ax(inject)] caller: Caller, ctx: JobContext, loud: bool) -> JobResult<String> {
    assert_eq!((ctx.attempt(), ctx.fence(), ctx.lost()), (2, 3, 1));
    assert_eq!(
        (ctx.key(), ctx.tags()),
        (Some("order-42"), &["eu".to_owned()][..])
    );
    assert_eq!(ctx.last_error(), Some("connection reset"));
    assert_eq!(ctx.scheduled_at(), Some(Timestamp::from_millis(5_000)));
    assert_eq!(
        ctx.data_interval(),
        Some((Timestamp::from_millis(1_000), Timestamp::from_millis(5_000)))
    );
    assert!(loud && !ctx.is_canceled());
    Ok(caller.0)
}

#[tokio::test]
async fn an_own_type_and_the_context_are_injected() {
    assert_eq!(
        whoami::task(true).into_new_task().payload,
        r#"{"loud":true}"#
    );
    let json = result(whoami::JOB, r#"{"loud":true}"#).await.unwrap();
    assert_eq!(json, r#""whoami/07070707-0707-0707-0707-070707070707:3""#);
    assert_eq!(
        (whoami::JOB.check)(&States::new()),
        Err("Caller needs a number".into())
    );
}

#[ax_job(handle = CompressFile)]
fn compress_file(mut path: String, r#type: u8) -> Result<String, std::num::ParseIntError> {
    path.push_str(&format!(".{type}", r#type = "7".parse::<u8>()? + r#type));
    Ok(path)
}

#[tokio::test]
async fn a_plain_function_is_blocking_and_the_type_can_have_another_name() {
    let task = CompressFile::task("a".into(), 1).into_new_task();
    assert_eq!(
        (task.job.as_str(), task.payload.as_str()),
        ("compress_file", r#"{"path":"a","type":1}"#)
    );
    assert_eq!(
        result(CompressFile::JOB, &task.payload).await.unwrap(),
        r#""a.8""#
    );
    let mut registry = Registry::new();
    registry.add(CompressFile::JOB).unwrap();
    assert_eq!(
        registry.get("compress_file").unwrap().kind,
        JobKind::Blocking
    );
}

#[ax_job]
async fn nothing() {}

#[ax_job]
async fn own_error(code: u16) -> anyhow::Result<u16> {
    anyhow::ensure!(code < 500, "status {code}");
    Ok(code)
}

#[tokio::test]
async fn a_job_may_return_nothing_or_its_own_error() {
    assert_eq!(result(nothing::JOB, "anything").await.unwrap(), "null");
    assert_eq!(
        result(own_error::JOB, r#"{"code":200}"#).await.unwrap(),
        "200"
    );
    let error = call(own_error::JOB, r#"{"code":503}"#, States::new())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (JobErrorKind::Retry, "status 503")
    );
}

#[ax_schedule(
    cron = "0 0 2 * * *",
    tz = "Asia/Shanghai",
    misfire = "fire_all(100)",
    overlap = "allow(2)"
)]
#[ax_schedule(every = "1m 30s", name = "often")]
#[ax_job]
#[ax_schedule(fixed_delay = "500ms")]
async fn report(#[ax(default = 7)] days: u32) -> JobResult<u32> {
    Ok(days)
}

#[tokio::test]
async fn schedules_stand_before_and_after_the_job() {
    let mut schedules: Vec<_> = report::JOB.schedules.to_vec();
    schedules.sort_by_key(|schedule| format!("{:?}", schedule.trigger));
    let [cron, every, fixed_delay] = schedules.as_slice() else {
        panic!("{schedules:?}")
    };
    assert_eq!(
        cron.trigger,
        TriggerDef::Cron {
            text: "0 0 2 * * *",
            zone: "Asia/Shanghai"
        }
    );
    assert_eq!((cron.misfire, cron.overlap), ("fire_all(100)", "allow(2)"));
    assert_eq!(
        (every.trigger, every.name),
        (TriggerDef::Every { ms: 90_000 }, Some("often"))
    );
    assert_eq!(fixed_delay.trigger, TriggerDef::FixedDelay { ms: 500 });
    assert_eq!(
        (fixed_delay.misfire, fixed_delay.overlap, fixed_delay.name),
        ("fire_once", "skip", None)
    );
    assert_eq!(result(report::JOB, "{}").await.unwrap(), "7");
}

#[ax_job]
#[cfg(any())]
async fn left_out(what: Missing) -> JobResult<Missing> {
    Ok(what)
}

#[cfg(any())]
#[ax_job]
async fn left_out_too(what: Missing) -> JobResult<Missing> {
    Ok(what)
}

#[ax_job]
#[cfg(test)]
#[cfg_attr(test, doc = "Kept.", ax_schedule(every = "1s"))]
#[cfg_attr(any(), ax_schedule(every = "2s"))]
async fn kept() -> JobResult<()> {
    Ok(())
}

#[test]
fn linked_jobs_are_discovered_and_those_of_other_builds_are_not() {
    let registry = Registry::discovered().unwrap();
    let names: Vec<_> = registry.names().collect();
    assert!(
        ["kept", "order.close", "report", "shadowed", "stamped"]
            .iter()
            .all(|name| names.contains(name)),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.starts_with("left_out")),
        "{names:?}"
    );
    assert!(registry.get("order.shut").is_some());
    let ticks = kept::JOB.schedules;
    assert!(
        matches!(ticks, [tick] if tick.trigger == TriggerDef::Every { ms: 1_000 }),
        "{ticks:?}"
    );
}

#[test]
fn adding_a_discovered_job_by_hand_is_no_conflict() {
    let mut registry = Registry::discovered().unwrap();
    let before = registry.jobs().len();
    registry.add(close_order::JOB).unwrap();
    assert_eq!(registry.jobs().len(), before);
}

#[tokio::test]
async fn a_job_can_stand_in_a_block_with_its_own_types() {
    #[derive(Serialize, Deserialize)]
    struct Local {
        n: u8,
    }

    #[ax_job(name = "local.double")]
    async fn double(local: Local) -> JobResult<u8> {
        Ok(local.n * 2)
    }

    let task = double::task(Local { n: 4 }).into_new_task();
    assert_eq!(task.payload, r#"{"local":{"n":4}}"#);
    assert_eq!(result(double::JOB, &task.payload).await.unwrap(), "8");
    assert!(
        Registry::discovered()
            .unwrap()
            .get("local.double")
            .is_some()
    );
}

/// Names that the expansion must neither take nor mistake for its own.
mod shadow {
    #![expect(dead_code, reason = "they only have to be in the way")]
    pub(crate) struct Result;
    pub(crate) struct Option;
    pub(crate) struct String;
    pub(crate) struct Box;
    pub(crate) mod std {}
    pub(crate) mod core {}
    pub(crate) mod ax_sdk {}

    #[::ax_sdk::ax_job]
    pub(crate) async fn shadowed(
        call: u8,
        arguments: u8,
        states: u8,
        value_0: u8,
        shadowed: u8,
    ) -> ::ax_sdk::prelude::JobResult<u8> {
        Ok(call + arguments + states + value_0 + shadowed)
    }
}

#[tokio::test]
async fn names_of_the_user_do_not_get_in_the_way() {
    let task = shadow::shadowed::task(1, 2, 3, 4, 5).into_new_task();
    assert_eq!(
        task.payload,
        r#"{"call":1,"arguments":2,"states":3,"value_0":4,"shadowed":5}"#
    );
    assert_eq!(
        result(shadow::shadowed::JOB, &task.payload).await.unwrap(),
        "15"
    );
}

macro_rules! stamp {
    ($function:ident, $name:literal, $limit:expr, $retries:expr, $parameter:ident: $kind:ty) => {
        #[ax_job(name = $name, timeout = $limit, retries = $retries)]
        async fn $function($parameter: $kind) -> JobResult<$kind> {
            Ok($parameter)
        }
    };
}

stamp!(stamped_job, "stamped", "5s", 7, number: u16);

#[tokio::test]
async fn jobs_can_be_written_by_a_macro() {
    assert_eq!(
        stamped_job::task(9).into_new_task().payload,
        r#"{"number":9}"#
    );
    assert_eq!(stamped_job::JOB.timeout_ms, Some(5_000));
    assert_eq!(stamped_job::JOB.max_retries, Some(7));
    assert_eq!(
        result(stamped_job::JOB, r#"{"number":9}"#).await.unwrap(),
        "9"
    );
}

#[ax_job]
async fn grid(cells: BTreeMap<(u8, u8), u8>) -> JobResult<BTreeMap<(u8, u8), u8>> {
    Ok(cells)
}

#[tokio::test]
async fn what_has_no_json_form_is_refused_by_the_submit() {
    let task = grid::task(BTreeMap::from([((1, 2), 3)])).into_new_task();
    let error = task.validate(&Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ax_core::ErrorKind::Invalid);
    assert!(
        error
            .to_string()
            .contains("parameter `cells` cannot be written as JSON"),
        "{error}"
    );
}

#[test]
fn what_must_not_compile_teaches_and_what_must_has_no_warning() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/fail/*.rs");
}
