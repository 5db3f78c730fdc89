//! Each violation is seen, and what only looks like one is not.

use super::super::ledger::Execution;
use super::*;

fn id(n: u8) -> TaskId {
    TaskId::from_bytes([n; 16])
}

fn execution(n: u8, fence: i64) -> Execution {
    Execution {
        task: id(n),
        fence,
        attempt: 1,
        pid: 1,
        at: 0,
    }
}

fn start(n: u8, fence: i64) -> Line {
    Line::Started(execution(n, fence))
}

fn give(n: u8, fence: i64) -> Line {
    Line::Ended {
        execution: execution(n, fence),
        output: Some(format!("{n}:{fence}")),
    }
}

fn submit(n: u8) -> [Line; 2] {
    let label = format!("l{n}");
    [
        Line::Intent {
            label: label.clone(),
        },
        Line::Submitted { label, id: id(n) },
    ]
}

fn row(n: u8, fence: i64) -> Finished {
    Finished {
        id: id(n),
        state: TaskState::Succeeded,
        fence,
        label: format!("l{n}"),
        output: Some(format!("{n}:{fence}")),
    }
}

/// Task 1 was submitted, lost once, and succeeded with its second claim.
struct World {
    lines: Vec<Line>,
    facts: Facts,
}

fn world() -> World {
    let mut lines = submit(1).to_vec();
    lines.extend([start(1, 1), start(1, 2), give(1, 2)]);
    let facts = Facts {
        live: vec![],
        history: vec![row(1, 2)],
        attempts: vec![(id(1), 1, "lost".into())],
    };
    World { lines, facts }
}

impl World {
    fn judge(&self) -> Verdict {
        let frame = Frame {
            database: "none".into(),
            deeds: Deeds::default(),
            seconds: 1,
            seed: 1,
        };
        judge(frame, &self.lines, &self.facts)
    }

    /// Exactly this is wrong, and somebody is told.
    fn check(&self, wrong: impl Fn(&Verdict) -> usize) {
        let verdict = self.judge();
        assert_eq!(
            (wrong(&verdict), verdict.violations()),
            (1, 1),
            "{verdict:?}"
        );
        assert!(
            !verdict.ok && verdict.complaints.len() == 1,
            "{:?}",
            verdict.complaints
        );
    }
}

#[test]
fn a_recorded_loss_explains_the_second_start() {
    let verdict = world().judge();
    assert!(verdict.ok, "{:?}", verdict.complaints);
    assert_eq!(
        (verdict.submitted, verdict.executed, verdict.starts),
        (1, 1, 2)
    );
    assert_eq!(verdict.attempts["lost"], 1);
}

#[test]
fn a_start_without_a_recorded_end_is_unexplained() {
    let mut world = world();
    world.facts.attempts.clear();
    world.check(|verdict| verdict.unexplained_starts);
}

#[test]
fn a_start_after_the_outcome_is_unexplained() {
    let mut world = world();
    world.lines.push(start(1, 3));
    world.check(|verdict| verdict.unexplained_starts);
}

#[test]
fn a_claim_that_starts_twice_is_unexplained() {
    let mut world = world();
    world.lines.push(start(1, 2));
    world.check(|verdict| verdict.unexplained_starts);
}

#[test]
fn a_submitted_task_that_is_nowhere_is_lost() {
    let mut world = world();
    world.lines.extend(submit(2));
    world.check(|verdict| verdict.lost);
}

#[test]
fn a_task_that_never_comes_to_rest_is_lost() {
    let mut world = world();
    world.lines.extend(submit(2));
    world.facts.live.push(id(2));
    world.check(|verdict| verdict.lost);
}

#[test]
fn two_rows_are_two_outcomes() {
    let mut world = world();
    world.facts.history.push(row(1, 2));
    world.check(|verdict| verdict.outcomes_twice);
}

#[test]
fn a_claim_that_ended_the_task_cannot_have_been_lost() {
    let mut world = world();
    world.facts.attempts.push((id(1), 2, "lost".into()));
    world.check(|verdict| verdict.outcomes_twice);
}

#[test]
fn a_caller_who_was_told_something_else_saw_a_second_outcome() {
    let mut world = world();
    world.lines.push(Line::Told {
        id: id(1),
        output: Some("1:2".into()),
    });
    assert!(world.judge().ok);
    world.lines.push(Line::Told {
        id: id(1),
        output: Some("1:1".into()),
    });
    world.check(|verdict| verdict.outcomes_twice);
}

#[test]
fn a_success_that_no_handler_gave_is_invented() {
    let mut world = world();
    world.lines.pop();
    world.check(|verdict| verdict.outcomes_invented);
}

#[test]
fn a_submit_in_doubt_may_exist_or_not() {
    let mut world = world();
    for label in ["l2", "l3"] {
        world.lines.push(Line::Intent {
            label: label.into(),
        });
    }
    world.lines.push(Line::Doubtful {
        label: "l2".into(),
        error: "connection lost".into(),
    });
    world.lines.extend([start(2, 1), give(2, 1)]);
    world.facts.history.push(row(2, 1));
    let verdict = world.judge();
    assert!(verdict.ok, "{:?}", verdict.complaints);
    assert_eq!((verdict.in_doubt, verdict.in_doubt_exist), (2, 1));
    assert_eq!((verdict.submitted, verdict.executed), (1, 2));
}

#[test]
fn a_submit_in_doubt_may_not_exist_twice() {
    let mut world = world();
    world.lines.push(Line::Intent { label: "l2".into() });
    for n in [2, 3] {
        world.lines.extend([start(n, 1), give(n, 1)]);
        world.facts.history.push(Finished {
            label: "l2".into(),
            ..row(n, 1)
        });
    }
    world.check(|verdict| verdict.submitted_twice);
}

#[test]
fn callers_of_one_key_get_one_task() {
    let mut world = world();
    world.lines.push(Line::Submitted {
        label: "l1".into(),
        id: id(1),
    });
    assert!(world.judge().ok);
    world.lines.push(Line::Submitted {
        label: "l1".into(),
        id: id(9),
    });
    let verdict = world.judge();
    assert_eq!(
        (verdict.submitted_twice, verdict.lost),
        (1, 1),
        "two tasks of one key, and one of them is nowhere"
    );
}

#[test]
fn what_was_rolled_back_never_exists() {
    let mut world = world();
    world.lines.push(Line::Intent { label: "l2".into() });
    world.lines.push(Line::RolledBack { label: "l2".into() });
    let verdict = world.judge();
    assert_eq!((verdict.ok, verdict.in_doubt), (true, 0));
    world.lines.extend([start(2, 1), give(2, 1)]);
    world.facts.history.push(row(2, 1));
    world.check(|verdict| verdict.submitted_twice);
}

#[test]
fn a_worker_that_ends_by_itself_is_a_violation() {
    let world = world();
    let deeds = Deeds {
        crashes: 1,
        ..Deeds::default()
    };
    let frame = Frame {
        database: "none".into(),
        deeds,
        seconds: 1,
        seed: 1,
    };
    assert!(!judge(frame, &world.lines, &world.facts).ok);
}
