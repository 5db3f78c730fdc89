//! Renders the state machine for people. In: nothing but [`next`](super::next). Out: Markdown with a table
//! and a Mermaid picture, kept as `docs/state-machine.md` and compared with it by a test.

use std::fmt::Write;

use super::{Event, State, Status, next};

const HEAD: &str = "# The life of a task

This page is generated from `ax-core/src/state.rs` by `state_machine_markdown()`; a test compares the two.
To renew it: `AX_WRITE_DOCS=1 cargo test -p ax-tests --test tidy`.

A task is born `blocked` (a step whose parents are not done), `pending`, or `running` (born claimed).
`canceling` is `running` with the cancel mark: every way out of it leads to `canceled`.
`ready` is `pending` and due; it is shown and counted, never stored.
";

/// The whole document.
#[must_use]
pub fn state_machine_markdown() -> String {
    format!(
        "{HEAD}\n{}\n{}\n{}",
        state_table(),
        transition_table(),
        picture()
    )
}

fn state_table() -> String {
    let mut out = String::from("## States\n\n| code | state | final |\n|---:|---|---|\n");
    for state in State::ALL {
        let last = if state.is_final() { "yes" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| {} | `{state}` | {last} |", state.code());
    }
    out
}

fn columns() -> [(&'static str, Status); 5] {
    let [blocked, pending, running, canceling] = Status::LIVE;
    let done = Status::unmarked(State::Succeeded);
    [
        ("blocked", blocked),
        ("pending", pending),
        ("running", running),
        ("canceling", canceling),
        ("any final", done),
    ]
}

fn transition_table() -> String {
    let mut out = String::from(
        "## What happens in which state\n\nAn empty cell: not allowed, nothing changes.\n\n| event |",
    );
    for (name, _) in columns() {
        let _ = write!(out, " {name} |");
    }
    out.push_str("\n|---|---|---|---|---|---|\n");
    for event in Event::ALL {
        let _ = write!(out, "| `{event}` |");
        for (_, status) in columns() {
            let cell = next(status, event).map(name_of).unwrap_or_default();
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    out
}

fn picture() -> String {
    let mut out = String::from(
        "## Picture\n\n```mermaid\nstateDiagram-v2\n    [*] --> blocked\n    [*] --> pending\n    [*] --> running\n",
    );
    for from in Status::LIVE {
        for to in targets(from) {
            let events: Vec<&str> = Event::ALL
                .into_iter()
                .filter(|event| next(from, *event) == Some(to))
                .map(Event::as_str)
                .collect();
            let _ = writeln!(
                out,
                "    {} --> {} : {}",
                name_of(from),
                name_of(to),
                events.join(", ")
            );
        }
    }
    for state in State::ALL.into_iter().filter(|state| state.is_final()) {
        let _ = writeln!(out, "    {state} --> pending : rerun");
    }
    out.push_str("```\n");
    out
}

/// The statuses that `from` can become, itself left out, in the order of the states.
fn targets(from: Status) -> Vec<Status> {
    let mut all: Vec<Status> = Event::ALL
        .into_iter()
        .filter_map(|event| next(from, event))
        .collect();
    all.retain(|to| *to != from);
    all.sort_unstable();
    all.dedup();
    all
}

fn name_of(status: Status) -> &'static str {
    if status == Status::CANCELING {
        "canceling"
    } else {
        status.state.as_str()
    }
}
