//! The life of a task as one pure function. The only place that names a transition.
//!
//! In: a [`Status`] (state and cancel mark) and an [`Event`]. Out: the next status, or `None` when the event
//! is not allowed there. Serves live events, crash replay, the store's guards and the document
//! `docs/state-machine.md`. Never reads a row, never counts an attempt.

mod document;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

pub use document::state_machine_markdown;

/// Where a task stands. The numbers are stored; they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i16)]
pub enum State {
    /// Steps before it are not done.
    Blocked = 0,
    /// It waits for its time or for a free slot.
    Pending = 1,
    /// A node has claimed it.
    Running = 2,
    /// Done, with a result.
    Succeeded = 3,
    /// Done without success and without another try: a dead letter.
    Failed = 4,
    /// Stopped on request.
    Canceled = 5,
    /// A branch or condition of its workflow left it out.
    Skipped = 6,
    /// A step that it needs did not succeed.
    UpstreamFailed = 7,
    /// Its deadline passed before it started.
    Expired = 8,
}

impl State {
    /// All states in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Blocked,
        Self::Pending,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Canceled,
        Self::Skipped,
        Self::UpstreamFailed,
        Self::Expired,
    ];

    /// The stored number.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The state of a stored number.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The word used in JSON, logs and texts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Skipped => "skipped",
            Self::UpstreamFailed => "upstream_failed",
            Self::Expired => "expired",
        }
    }

    /// Whether nothing but a rerun leaves this state.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Blocked | Self::Pending | Self::Running)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                Error::invalid(format!(
                    "\"{}\" is not a state; use one of {known}",
                    crate::clean_text(text, 64)
                ))
            })
    }
}

/// Whether a cancel was asked of a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelMark {
    /// Nobody asked.
    None,
    /// Asked; every way out of running now ends in canceled.
    Marked,
}

/// A state with its cancel mark: all that decides what may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Status {
    /// Where the task stands.
    pub state: State,
    /// Whether a cancel was asked; has a meaning only while running.
    pub cancel: CancelMark,
}

impl Status {
    /// A state nobody asked to cancel.
    #[must_use]
    pub const fn unmarked(state: State) -> Self {
        Self {
            state,
            cancel: CancelMark::None,
        }
    }

    /// Running, and asked to cancel.
    pub const CANCELING: Self = Self {
        state: State::Running,
        cancel: CancelMark::Marked,
    };

    /// The statuses a live row can have.
    pub const LIVE: [Self; 4] = [
        Self::unmarked(State::Blocked),
        Self::unmarked(State::Pending),
        Self::unmarked(State::Running),
        Self::CANCELING,
    ];
}

impl From<State> for Status {
    fn from(state: State) -> Self {
        Self::unmarked(state)
    }
}

/// What can happen to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// The last step before it is done, or its wait is over.
    Unblock,
    /// A node takes it.
    Claim,
    /// The handler returned a result.
    Succeed,
    /// The handler failed and no try is left, or said that trying again is useless.
    Fail,
    /// The handler failed and another try is due.
    Retry,
    /// The handler asked to run later, without spending an attempt.
    Snooze,
    /// Handed back by a node that stops, or that never started it.
    Release,
    /// The handler sleeps durably or waits for an event.
    Wait,
    /// Its worker died; it may run again.
    Lose,
    /// Its worker died once too often, or the job forbids a second start.
    LoseForGood,
    /// The handler itself ended it as canceled.
    Withdraw,
    /// Somebody asked to cancel it.
    Cancel,
    /// Its deadline passed.
    Expire,
    /// A branch or condition of its workflow left it out.
    Skip,
    /// A step that it needs did not succeed.
    FailUpstream,
    /// Asked to run again after its end, as another round.
    Rerun,
    /// A submit with the same key replaced payload and time.
    Replace,
    /// Asked to run at another time.
    Reschedule,
    /// Asked to run with another priority.
    SetPriority,
    /// Moved to another shard, such as the inbox of a node that can run it.
    Move,
}

impl Event {
    /// All events in the order of the document.
    pub const ALL: [Self; 20] = [
        Self::Unblock,
        Self::Claim,
        Self::Succeed,
        Self::Fail,
        Self::Retry,
        Self::Snooze,
        Self::Release,
        Self::Wait,
        Self::Lose,
        Self::LoseForGood,
        Self::Withdraw,
        Self::Cancel,
        Self::Expire,
        Self::Skip,
        Self::FailUpstream,
        Self::Rerun,
        Self::Replace,
        Self::Reschedule,
        Self::SetPriority,
        Self::Move,
    ];

    /// The word used in documents and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unblock => "unblock",
            Self::Claim => "claim",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
            Self::Retry => "retry",
            Self::Snooze => "snooze",
            Self::Release => "release",
            Self::Wait => "wait",
            Self::Lose => "lose",
            Self::LoseForGood => "lose_for_good",
            Self::Withdraw => "withdraw",
            Self::Cancel => "cancel",
            Self::Expire => "expire",
            Self::Skip => "skip",
            Self::FailUpstream => "fail_upstream",
            Self::Rerun => "rerun",
            Self::Replace => "replace",
            Self::Reschedule => "reschedule",
            Self::SetPriority => "set_priority",
            Self::Move => "move",
        }
    }

    /// Whether this event takes a running task out of running.
    #[must_use]
    pub const fn ends_attempt(self) -> bool {
        matches!(
            self,
            Self::Succeed
                | Self::Fail
                | Self::Retry
                | Self::Snooze
                | Self::Release
                | Self::Wait
                | Self::Lose
                | Self::LoseForGood
                | Self::Withdraw
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a task becomes when `event` happens to it; `None` when that is not allowed.
///
/// Every way out of a running task that was asked to cancel leads to canceled, whatever the handler
/// or its node did.
#[must_use]
pub const fn next(status: Status, event: Event) -> Option<Status> {
    let state = match (status.state, status.cancel) {
        (State::Running, CancelMark::Marked) => return from_canceling(event),
        (State::Blocked, CancelMark::None) => from_blocked(event),
        (State::Pending, CancelMark::None) => from_pending(event),
        (State::Running, CancelMark::None) => return from_running(event),
        (State::Blocked | State::Pending, CancelMark::Marked) => None,
        (
            State::Succeeded
            | State::Failed
            | State::Canceled
            | State::Skipped
            | State::UpstreamFailed
            | State::Expired,
            _,
        ) => from_final(event),
    };
    match state {
        Some(state) => Some(Status::unmarked(state)),
        None => None,
    }
}

const fn from_blocked(event: Event) -> Option<State> {
    match event {
        Event::Unblock => Some(State::Pending),
        Event::Cancel => Some(State::Canceled),
        Event::Skip => Some(State::Skipped),
        Event::FailUpstream => Some(State::UpstreamFailed),
        Event::Replace | Event::Reschedule | Event::SetPriority => Some(State::Blocked),
        _ => None,
    }
}

const fn from_pending(event: Event) -> Option<State> {
    match event {
        Event::Claim => Some(State::Running),
        Event::Cancel => Some(State::Canceled),
        Event::Expire => Some(State::Expired),
        Event::Replace | Event::Reschedule | Event::SetPriority | Event::Move => {
            Some(State::Pending)
        }
        _ => None,
    }
}

const fn from_running(event: Event) -> Option<Status> {
    let state = match event {
        Event::Succeed => State::Succeeded,
        Event::Fail | Event::LoseForGood => State::Failed,
        Event::Withdraw => State::Canceled,
        Event::Retry | Event::Snooze | Event::Release | Event::Wait | Event::Lose => State::Pending,
        Event::SetPriority => State::Running,
        Event::Cancel => return Some(Status::CANCELING),
        _ => return None,
    };
    Some(Status::unmarked(state))
}

const fn from_canceling(event: Event) -> Option<Status> {
    match event {
        Event::Cancel | Event::SetPriority => Some(Status::CANCELING),
        _ if event.ends_attempt() => Some(Status::unmarked(State::Canceled)),
        _ => None,
    }
}

const fn from_final(event: Event) -> Option<State> {
    match event {
        Event::Rerun => Some(State::Pending),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn every_status() -> impl Iterator<Item = Status> {
        let marks = [CancelMark::None, CancelMark::Marked];
        State::ALL
            .into_iter()
            .flat_map(move |state| marks.map(|cancel| Status { state, cancel }))
    }

    #[test]
    fn words_and_numbers_read_back() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code()), Some(state));
            assert_eq!(state.as_str().parse::<State>().unwrap(), state);
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        assert_eq!(State::ALL.map(State::code), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(State::from_code(9), None);
        assert!("ready".parse::<State>().is_err());
    }

    #[test]
    fn final_states_leave_only_by_rerun() {
        for status in every_status().filter(|status| status.state.is_final()) {
            for event in Event::ALL {
                let expected = (event == Event::Rerun).then_some(Status::unmarked(State::Pending));
                assert_eq!(next(status, event), expected, "{status:?} {event}");
            }
        }
    }

    #[test]
    fn every_way_out_of_a_marked_running_task_is_canceled() {
        for event in Event::ALL {
            let next = next(Status::CANCELING, event);
            assert_eq!(
                next.is_some_and(|to| to.state != State::Running),
                event.ends_attempt()
            );
            if let Some(to) = next.filter(|to| *to != Status::CANCELING) {
                assert_eq!(to, Status::unmarked(State::Canceled), "{event}");
            }
        }
    }

    #[test]
    fn every_end_of_an_attempt_leaves_running_and_nothing_else_does() {
        let running = Status::unmarked(State::Running);
        for event in Event::ALL {
            let leaves = next(running, event).is_some_and(|to| to.state != State::Running);
            assert_eq!(leaves, event.ends_attempt(), "{event}");
        }
    }

    #[test]
    fn case_c22_cancel_works_in_every_live_state() {
        for status in Status::LIVE {
            let to = next(status, Event::Cancel).unwrap();
            assert!(to == Status::CANCELING || to.state == State::Canceled);
        }
    }

    #[test]
    fn only_a_pending_unmarked_task_is_claimed() {
        for status in every_status() {
            let claimed = next(status, Event::Claim).is_some();
            assert_eq!(
                claimed,
                status == Status::unmarked(State::Pending),
                "{status:?}"
            );
        }
    }

    #[test]
    fn a_mark_outside_running_is_no_status_of_a_live_row() {
        for state in [State::Blocked, State::Pending] {
            let status = Status {
                state,
                cancel: CancelMark::Marked,
            };
            assert!(
                Event::ALL
                    .into_iter()
                    .all(|event| next(status, event).is_none())
            );
        }
    }

    #[test]
    fn state_machine_document_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/state-machine.md");
        let current = state_machine_markdown();
        if std::env::var_os("AX_WRITE_DOCS").is_some_and(|write| write == "1") {
            std::fs::write(path, &current).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == current,
            "run AX_WRITE_DOCS=1 cargo test -p ax-core state_machine_document"
        );
    }

    proptest! {
        #[test]
        fn any_life_keeps_the_rules(events in prop::collection::vec(prop::sample::select(&Event::ALL), 1..60)) {
            let mut status = Status::unmarked(State::Pending);
            for event in events {
                let Some(to) = next(status, event) else { continue };
                prop_assert!(to.cancel == CancelMark::None || to == Status::CANCELING);
                prop_assert!(!status.state.is_final() || event == Event::Rerun);
                prop_assert!(to.state != State::Running || event == Event::Claim || status.state == State::Running);
                status = to;
            }
        }
    }
}
