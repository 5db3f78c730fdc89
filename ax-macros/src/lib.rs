//! The attributes `#[ax_job]` and `#[ax_schedule]`.
//!
//! Enters: a function with its attributes. Leaves: the function as it was written and, beside it, an empty type of the same
//! name with `JOB` and `task(…)`. Texts in attributes are read by the parsers of `ax-core`, so that what compiles is what the
//! engine understands. Nothing here guesses: what cannot be read is an error on its own token, and several errors are
//! reported together.
//!
//! The way of a job: `attributes` and `schedule` read the options, `signature` reads the parameters, `expansion`
//! writes the code. `setting` is the common grammar `name = value`, `fault` collects errors.

mod attributes;
mod expansion;
mod fault;
mod nearest;
mod schedule;
mod setting;
mod signature;

use proc_macro::TokenStream;

/// Makes a function a job.
///
/// The function stays as it is. Beside it stands a type of the same name with `JOB`, the definition, and `task(…)`, which
/// takes the parameters of the payload and gives a task to submit. One `use` brings both.
///
/// ```ignore
/// #[ax_job(name = "order.close", retries = 3, timeout = "30s")]
/// #[ax_schedule(delay = "30m")]
/// async fn close_order(order_id: u64, db: State<Pool>) -> JobResult<Closed> {
///     db.close(order_id).await
/// }
///
/// ax.submit(close_order::task(42)).await?;
/// ```
///
/// | option | meaning | default |
/// |---|---|---|
/// | `name = "order.close"` | name in the task rows | name of the function |
/// | `aliases = ["close"]` | former names whose tasks this job runs | none |
/// | `retries = 3` | retries after the first attempt | of the engine |
/// | `backoff = "exponential 1s x2 max 10m"` | waits between attempts; also `fixed 10s`, `list 30s, 2m`, each with `jitter 20%` | of the engine |
/// | `timeout = "30s"` | longest time of one attempt | none |
/// | `priority = 5` | lane, 0 to 9, 9 first | 5 |
/// | `on_lost = "fail"` | what happens when the worker dies: `retry` (at least once) or `fail` (at most once) | `retry` |
/// | `handle = CloseOrder` | name of the type beside the function | name of the function |
/// | `crate = path` | where `ax_sdk` is found | `::ax_sdk` |
///
/// Parameters are the payload, by name, as JSON. `JobContext` and `State<T>` are given by the engine, as is every parameter
/// marked `#[ax(inject)]`. `#[ax(rename = "orderId", alias = "order", default)]` changes how a parameter is read
/// (`default = 320` gives a value of its own). An `async fn` runs on the runtime, a plain `fn` on the blocking threads.
#[proc_macro_attribute]
pub fn ax_job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expansion::job(arguments.into(), item.into()).into()
}

/// Says when a job runs; stands on the same function as `#[ax_job]`, before or after it, once or more often.
///
/// | form | meaning |
/// |---|---|
/// | `delay = "30m"` | preset delay of the tasks made by `task(…)` |
/// | `every = "10s"` | at a fixed rate |
/// | `fixed_delay = "10s"` | a pause after the end of the former task |
/// | `cron = "0 0 2 * * *", tz = "Asia/Shanghai"` | at the instants of a cron text (default zone UTC) |
///
/// The last three also take `misfire` (`fire_once`, `skip`, `fire_all(100)`, `fire_last_n(3)`), `overlap` (`skip`, `queue_one`,
/// `queue_all`, `cancel_running`, `allow(2)`) and `name`.
#[proc_macro_attribute]
pub fn ax_schedule(arguments: TokenStream, item: TokenStream) -> TokenStream {
    schedule::hand_to_job(arguments.into(), item.into()).into()
}
