//! Faults put in on purpose, one test each: within a fixed list of worlds the rules find every one of them.
//!
//! Each fault is a bent meaning of one statement, or of one rule, in the harness; `docs/verification.md` has the table.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ax_tests::sim::{Check, Mutation, Options, Report, run};

/// The worlds that may be needed before a fault shows. They are always the same ones.
const WORLDS: u64 = 400;

/// Puts a fault in and expects that one of these rules finds it.
fn check(mutation: Mutation, expected: &[Check]) {
    let (next, found) = (AtomicU64::new(1), Mutex::new(None::<Report>));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while found.lock().unwrap().is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > WORLDS {
                        return;
                    }
                    let report = run(Options {
                        seed,
                        mutation: Some(mutation),
                        events: 0,
                    });
                    if report.violation.is_some() {
                        *found.lock().unwrap() = Some(report);
                    }
                }
            });
        }
    });
    let report = found
        .into_inner()
        .unwrap()
        .unwrap_or_else(|| panic!("{mutation:?} was not found in {WORLDS} worlds"));
    let violation = report.violation.expect("a world that was kept has one");
    println!("{mutation:?} found in world {}: {violation}", report.seed);
    assert!(
        expected.contains(&violation.check),
        "{mutation:?} was found by {violation}, not by {expected:?}"
    );
}

macro_rules! seeded_bugs {
    ($($name:ident: $mutation:ident => $($check:ident)|+;)*) => {
        $(#[test]
        fn $name() {
            check(Mutation::$mutation, &[$(Check::$check),+]);
        })*
    };
}

seeded_bugs! {
    settle_guarded_by_state_only: SettleByStateOnly => LastClaim | CancelHolds;
    settle_by_token_without_a_count: SettleWithoutCount => LastClaim | CancelHolds;
    settle_ends_a_task_as_if_no_cancel_was_asked: SettleIgnoresCancel => CancelHolds;
    retry_sends_a_canceled_task_back: RequeueIgnoresCancel => CancelHolds;
    reaper_acts_on_an_old_look_by_id: ReaperActsById => LastClaim;
    lose_does_not_repeat_the_token: LoseIgnoresToken => LastClaim | Together | ExplainedStart;
    fence_starts_again_after_a_loss: FenceReset => FenceGrows;
    claim_does_not_repeat_ready_at: ClaimIgnoresReadyAt => NeverEarly;
    claim_does_not_look_at_the_deadline: ClaimIgnoresDeadline => DeadlineHolds;
    claim_does_not_look_at_the_state: ClaimIgnoresState => LastClaim;
    dead_node_claims_after_the_reaper_looked: DeadNodeClaims => LivingClaim | Ends;
    submit_is_sent_again_without_a_look_at_the_history: SubmitAgainBlind => OneOutcome;
    observer_kills_after_its_own_outage: ObserverKillsAfterOutage => RightDeath;
    death_is_declared_without_comparing: DeathWithoutCompare => RightDeath;
    heartbeat_revives_a_dead_node: BeatRevives => RightDeath;
    discovery_does_not_look_back: NoLookBack => Ends | Punctual;
    discovery_does_not_look_ahead: NoLookAhead => Ends | Punctual;
    schedule_fires_without_its_version: FireWithoutVersion => OneTaskPerTick;
    insert_of_a_held_key_counts_as_done: KeyConflictIgnored => UniqueKey;
    key_is_let_go_early: KeyReleasedEarly => UniqueKey;
    cancel_deletes_a_row_that_began_to_run: CancelOverwritesRunning => LastClaim | TrueAnswer;
    cancel_frees_a_running_row: CancelFreesRunning => CancelHolds;
}
