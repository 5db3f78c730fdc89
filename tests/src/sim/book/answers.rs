//! What callers were told, held against what was written.

use ax_core::State;
use ax_engine::store::CancelResult;

use super::{Book, Id, Pages};
use crate::sim::check::Check;
use crate::sim::columns::{Record, id, task, text_opt};
use crate::sim::executor::Process;
use crate::sim::trace::{Event, short};

const CANCELED: i64 = State::Canceled.code() as i64;

/// Submits from this number on must be punctual.
pub(crate) const FIRST_PROBE: i64 = 1_000_000_000;

/// One submit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The task it made, once its row was written.
    made: Option<Id>,
    /// Whether its caller rolled it back.
    undone: bool,
}

/// The number of the submit that a payload names.
fn number(payload: &str) -> Option<i64> {
    let rest = payload.split_once("\"n\":")?.1;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

impl Book {
    /// A caller asks.
    pub(crate) fn asks(&self, process: Process, what: &'static str, n: i64) {
        self.trace.add(
            self.executor.micros(),
            Event::Asked {
                process,
                what,
                n: usize::try_from(n).unwrap_or(0),
            },
        );
    }

    /// A caller is answered.
    pub(crate) fn told(&self, process: Process, n: i64, what: String) {
        self.trace.add(
            self.executor.micros(),
            Event::Answered {
                process,
                n: usize::try_from(n).unwrap_or(0),
                what,
            },
        );
    }

    /// A row of a new task: a submit makes one at most.
    pub(super) fn answer_to_submit(&self, pages: &mut Pages, row: &Record) {
        let Some(n) = text_opt(row, task::PAYLOAD).as_deref().and_then(number) else {
            return;
        };
        let task = id(row, task::ID);
        pages.tasks.entry(task).or_default().probe = n >= FIRST_PROBE;
        let undone = pages.asked.entry(n).or_default().undone;
        self.must(pages, Check::TrueAnswer, !undone, || {
            format!("submit {n} was rolled back and made {}", short(&task))
        });
        let former = pages
            .asked
            .entry(n)
            .or_default()
            .made
            .replace(task)
            .filter(|former| *former != task);
        let text = || {
            format!(
                "submit {n} made {} and {}",
                short(&former.unwrap_or_default()),
                short(&task)
            )
        };
        self.must(pages, Check::OneOutcome, former.is_none(), text);
    }

    /// A submit was answered with a task: it exists.
    pub(crate) fn submitted(&self, process: Process, n: i64, task: Id) {
        self.told(process, n, short(&task));
        let mut pages = self.pages();
        let known = pages.tasks.contains_key(&task);
        self.must(&mut pages, Check::TrueAnswer, known, || {
            format!(
                "submit {n} was answered with {}, which never was",
                short(&task)
            )
        });
    }

    /// A submit was rolled back by its caller: it made nothing.
    pub(crate) fn rolled_back(&self, process: Process, n: i64) {
        self.told(process, n, "rolled back".to_owned());
        let mut pages = self.pages();
        let made = pages.asked.entry(n).or_default().made;
        self.must(&mut pages, Check::TrueAnswer, made.is_none(), || {
            format!("submit {n} was rolled back and made {made:?}")
        });
        pages.asked.entry(n).or_default().undone = true;
    }

    /// A task that was known was looked for.
    pub(crate) fn found(&self, process: Process, task: Id, found: bool) {
        self.told(process, 0, format!("find {} {found}", short(&task)));
        let mut pages = self.pages();
        self.must(&mut pages, Check::TrueAnswer, found, || {
            format!("{} was not to be found", short(&task))
        });
    }

    /// A cancel was answered.
    pub(crate) fn canceled(&self, process: Process, task: Id, result: CancelResult) {
        self.told(process, 0, format!("cancel {} {result:?}", short(&task)));
        let mut pages = self.pages();
        let Some(story) = pages.tasks.get(&task) else {
            return;
        };
        let holds = match result {
            CancelResult::Canceled => story.outcomes.values().any(|state| *state == CANCELED),
            CancelResult::Requested => !story.to_cancel.is_empty(),
            CancelResult::AlreadyFinal(state) => story
                .outcomes
                .values()
                .any(|known| *known == i64::from(state.code())),
            CancelResult::NotFound => !story.live && story.outcomes.is_empty(),
        };
        self.must(&mut pages, Check::TrueAnswer, holds, || {
            format!("cancel of {} was answered {result:?}", short(&task))
        });
    }

    /// Somebody waited for an outcome and got one.
    pub(crate) fn outcome(&self, process: Process, task: Id, state: State) {
        self.told(process, 0, format!("outcome {} {state}", short(&task)));
        let mut pages = self.pages();
        let known = pages
            .tasks
            .get(&task)
            .and_then(|story| story.outcomes.get(&0))
            .copied();
        let holds = known == Some(i64::from(state.code()));
        self.must(&mut pages, Check::TrueAnswer, holds, || {
            format!(
                "the outcome of {} was told as {state} and is {known:?}",
                short(&task)
            )
        });
    }

    /// The tasks that are known, oldest first.
    pub(crate) fn known_tasks(&self) -> Vec<Id> {
        self.pages().tasks.keys().copied().collect()
    }
}
