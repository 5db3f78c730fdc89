//! The model of claim, settle, reap and fail-over, searched exhaustively: the rules of ax hold in
//! every reachable world, and each weaker rule is broken by a history that is printed.
//!
//! The names of the tests say the rule. `docs/verification.md` lists them.

use ax_tests::model::{
    Action, Asking, Bounds, Claiming, End, Guard, Marking, Model, Reaping, Recording, Rows, Rules,
    Sweeping, World, name,
};
use stateright::{Checker, Expectation, HasDiscoveries, Model as _, Path};

const AX: Rules = Rules::AX;
const SMALL: Bounds = Bounds::SMALL;
const WITHOUT_RELEASE: &[End] = &[End::Succeed, End::Retry];

/// Searches every reachable world of the rules of ax.
fn holds(test: &str, bounds: Bounds) {
    let model = Model { rules: AX, bounds };
    let checker = model.checker().threads(2).symmetry().spawn_dfs().join();
    println!(
        "{test}: {} worlds, {} steps, up to {} steps deep",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
}

/// Searches until the weaker rules break a property, and prints how.
fn breaks(test: &str, rules: Rules, bounds: Bounds, property: &'static str) {
    let model = Model { rules, bounds };
    let until = HasDiscoveries::AllOf([property].into());
    let checker = model
        .clone()
        .checker()
        .finish_when(until)
        .spawn_bfs()
        .join();
    let found = checker.discovery(property);
    assert!(found.is_some(), "{test}: no history breaks \"{property}\"");
    let history = found.map(Path::into_actions).unwrap_or_default();
    let history = shortened(&model, property, history);
    assert!(is_broken_by(&model, property, &history));
    println!(
        "{test}: {} worlds, \"{property}\" is broken by",
        checker.unique_state_count()
    );
    for action in history {
        println!("  {action:?}");
    }
}

/// A history without the actions that do not matter.
fn shortened(model: &Model, property: &'static str, mut history: Vec<Action>) -> Vec<Action> {
    for at in (0..history.len()).rev() {
        let mut shorter = history.clone();
        shorter.remove(at);
        if is_broken_by(model, property, &shorter) {
            history = shorter;
        }
    }
    history
}

fn is_broken_by(model: &Model, property: &'static str, history: &[Action]) -> bool {
    let path = Path::from_actions(model, World::new(&model.bounds), history);
    path.is_some_and(|path| !(model.property(property).condition)(model, path.last_state()))
}

/// One test per line: bounds within which all properties hold, and a rule with the property that it
/// breaks.
macro_rules! suite {
    (
        holds { $($good:ident: $good_bounds:expr;)* }
        breaks { $($bad:ident: $rules:expr, $bad_bounds:expr, $property:expr;)* }
    ) => {
        $(#[test] fn $good() { holds(stringify!($good), $good_bounds); })*
        $(#[test] fn $bad() { breaks(stringify!($bad), $rules, $bad_bounds, $property); })*

        /// Every test with its result, as the document lists them.
        const SUITE: &[(&str, &str)] = &[
            $((stringify!($good), "all hold"),)*
            $((stringify!($bad), $property),)*
        ];
    };
}

suite! {
    holds {
        token_guard_with_a_crash_and_a_lost_reply:
            SMALL;
        token_guard_with_two_lost_replies:
            Bounds { claims: 2, lost_replies: 2, ..SMALL };
        token_guard_with_a_cancel:
            Bounds { claims: 2, cancels: 1, ..SMALL };
        token_guard_on_three_nodes:
            Bounds { nodes: 3, claims: 2, lost_replies: 0, ends: WITHOUT_RELEASE, ..SMALL };
        token_guard_with_two_tasks:
            Bounds { tasks: 2, claims: 1, losses: 1, ends: WITHOUT_RELEASE, ..SMALL };
        final_loss_starts_a_handler_once:
            Bounds { losses: 1, cancels: 1, ends: &[End::Succeed], ..SMALL };
    }
    breaks {
        settle_by_state_only_takes_a_stale_outcome:
            Rules { guard: Guard::StateOnly, ..AX }, SMALL, name::LAST_CLAIM;
        settle_by_state_only_lets_a_stale_claim_write:
            Rules { guard: Guard::StateOnly, ..AX }, SMALL, name::NO_STALE_WRITE;
        settle_by_attempt_takes_a_stale_outcome:
            Rules { guard: Guard::Attempt, ..AX }, SMALL, name::LAST_CLAIM;
        settle_by_attempt_lets_a_stale_claim_write:
            Rules { guard: Guard::Attempt, ..AX }, SMALL, name::NO_STALE_WRITE;
        settle_by_attempt_and_owner_takes_a_stale_outcome:
            Rules { guard: Guard::AttemptAndOwner, ..AX }, SMALL, name::LAST_CLAIM;
        settle_by_attempt_and_owner_lets_a_stale_claim_write:
            Rules { guard: Guard::AttemptAndOwner, ..AX }, SMALL, name::NO_STALE_WRITE;
        reap_by_age_robs_a_living_owner:
            Rules { reaping: Reaping::ByAge, ..AX }, SMALL, name::NO_ROBBERY;
        reap_by_id_robs_a_living_owner:
            Rules { reaping: Reaping::ById, ..AX }, SMALL, name::NO_ROBBERY;
        reap_by_id_gives_a_kept_row_two_outcomes:
            Rules { reaping: Reaping::ById, rows: Rows::Kept, ..AX }, SMALL, name::ONE_OUTCOME;
        reap_by_id_gives_a_moved_row_two_outcomes:
            Rules { reaping: Reaping::ById, ..AX },
            Bounds { losses: 1, ..SMALL }, name::ONE_OUTCOME;
        reap_of_the_whole_row_turns_the_fence_back:
            Rules { reaping: Reaping::WholeRow, ..AX }, SMALL, name::FENCE;
        reap_once_per_death_strands_a_late_claim:
            Rules { sweeping: Sweeping::OncePerDeath, ..AX }, SMALL, name::NO_LIMBO;
        reap_once_per_death_never_heals:
            Rules { sweeping: Sweeping::OncePerDeath, ..AX }, SMALL, name::HEALS;
        claim_by_any_node_charges_a_death_twice:
            Rules { claiming: Claiming::AnyNode, ..AX }, SMALL, name::ONE_LOSS;
        claim_by_id_robs_a_living_owner:
            Rules { claiming: Claiming::ById, ..AX }, SMALL, name::NO_ROBBERY;
        claim_by_id_starts_a_handler_twice:
            Rules { claiming: Claiming::ById, ..AX },
            Bounds { losses: 1, ends: &[End::Succeed], ..SMALL }, name::ONE_START;
        claim_without_asking_is_stranded:
            Rules { asking: Asking::Forget, ..AX }, SMALL, name::NO_LIMBO;
        claim_without_asking_never_heals:
            Rules { asking: Asking::Forget, ..AX }, SMALL, name::HEALS;
        claim_that_asks_once_is_stranded:
            Rules { asking: Asking::AskOnce, ..AX }, SMALL, name::NO_LIMBO;
        claim_that_asks_once_never_heals:
            Rules { asking: Asking::AskOnce, ..AX }, SMALL, name::HEALS;
        cancel_mark_read_early_is_overruled:
            Rules { marking: Marking::AtRead, ..AX },
            Bounds { cancels: 1, ..SMALL }, name::CANCELED;
        cancel_mark_read_early_strands_the_row:
            Rules { marking: Marking::AtRead, ..AX },
            Bounds { cancels: 1, ..SMALL }, name::NO_LIMBO;
        outcome_recorded_apart_is_lost:
            Rules { recording: Recording::Apart, ..AX }, SMALL, name::HEALS;
    }
}

/// The guard of the node's life is not what makes a claim safe. A task that is born claimed relies
/// on that: no guard has looked at the life of the node that inserts it.
#[test]
fn claim_by_any_node_breaks_nothing_else() {
    let rules = Rules {
        claiming: Claiming::AnyNode,
        ..AX
    };
    let bounds = Bounds { claims: 2, ..SMALL };
    let checker = Model { rules, bounds }
        .checker()
        .threads(2)
        .symmetry()
        .spawn_dfs()
        .join();
    let broken: Vec<&str> = (checker.model().properties().into_iter())
        .filter(|property| property.expectation == Expectation::Always)
        .map(|property| property.name)
        .filter(|property| checker.discovery(property).is_some())
        .collect();
    assert_eq!(broken, [name::ONE_LOSS]);
}

#[test]
fn the_document_lists_every_check() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/verification.md");
    let document = std::fs::read_to_string(path).expect("the document can be read");
    let rows: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with('|'))
        .collect();
    for (test, result) in SUITE {
        let row = rows.iter().find(|row| row.contains(&format!("`{test}`")));
        assert!(
            row.is_some_and(|row| row.contains(result)),
            "docs/verification.md has no row for `{test}` with \"{result}\""
        );
    }
}
