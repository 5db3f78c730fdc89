//! From how an attempt ended to what is written about it. Pure.

use std::time::Duration;

use ax_core::{AttemptEnd, JobError, JobErrorKind, Limits, RetryPolicy, Timestamp, clean_text};

use crate::running::Signal;
use crate::store::End;

/// How an attempt ended.
#[derive(Debug)]
pub enum Ended {
    /// The handler returned: JSON text, or an error.
    Returned(Result<String, JobError>),
    /// The handler panicked, with this message.
    Panicked(String),
    /// The handler did not end within its timeout and grace; it was dropped, or abandoned when it blocks.
    TimedOut(Duration),
    /// The handler was dropped because the node shuts down, or never started.
    HandedBack,
    /// This node cannot run it, for a reason that no retry here mends.
    Impossible(String),
}

/// What the verdict depends on, beside how it ended.
pub struct Case<'a> {
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// How many of the attempts so far ended because their worker died; they spend no retry.
    pub lost: u32,
    /// Retries of the task itself, if it has its own number.
    pub max_retries: Option<u32>,
    /// The job's policy.
    pub retry: &'a RetryPolicy,
    /// Why the handler was asked to end, if it was.
    pub why: Option<Signal>,
    /// Limits of outputs and error texts.
    pub limits: &'a Limits,
    /// When it ended.
    pub now: Timestamp,
    /// A fraction in 0 ≤ x < 1, for jitter.
    pub random: f64,
}

/// What to write about an attempt.
pub fn decide(ended: Ended, case: &Case<'_>) -> End {
    match ended {
        Ended::Returned(Ok(result)) => succeeded(result, case.limits),
        Ended::Returned(Err(_)) if was_cut_off(case.why) => hand_back(),
        Ended::Returned(Err(error)) => failed(&error, case),
        Ended::Panicked(message) => retry(
            &format!("panicked: {message}"),
            AttemptEnd::Retried,
            None,
            case,
        ),
        Ended::TimedOut(limit) => {
            let text =
                format!("timed out: still running after {limit:?} and the grace that follows");
            retry(&text, AttemptEnd::TimedOut, None, case)
        }
        Ended::HandedBack => hand_back(),
        Ended::Impossible(error) => End::Failed {
            error: text(&error, case),
        },
    }
}

/// Whether the handler was asked to end for a reason that is this node's: its error then says nothing about the task.
fn was_cut_off(why: Option<Signal>) -> bool {
    matches!(
        why,
        Some(Signal::Shutdown | Signal::LeaseLost | Signal::Stale)
    )
}

fn succeeded(result: String, limits: &Limits) -> End {
    if result.len() <= limits.output_bytes {
        return End::Succeeded {
            result: result.into(),
        };
    }
    let error = format!(
        "the result has {} bytes and the limit is {}: return less, or store it elsewhere and return where",
        result.len(),
        limits.output_bytes
    );
    End::Failed {
        error: error.into(),
    }
}

fn failed(error: &JobError, case: &Case<'_>) -> End {
    let message = error.message();
    match error.kind() {
        JobErrorKind::Canceled => End::Canceled {
            error: Some(text(message, case)),
        },
        JobErrorKind::Snooze(delay) => End::Snooze {
            ready_at: case.now.plus(delay),
        },
        JobErrorKind::Terminal => End::Failed {
            error: text(message, case),
        },
        JobErrorKind::RetryAfter(delay) => retry(message, AttemptEnd::Retried, Some(delay), case),
        JobErrorKind::Retry => retry(message, AttemptEnd::Retried, None, case),
    }
}

fn retry(message: &str, reason: AttemptEnd, delay: Option<Duration>, case: &Case<'_>) -> End {
    let allowed = case.max_retries.unwrap_or(case.retry.max_retries);
    let failed = case.attempt.saturating_sub(case.lost).max(1);
    if failed > allowed {
        return End::Failed {
            error: text(message, case),
        };
    }
    let delay = delay.unwrap_or_else(|| case.retry.delay(failed, case.random));
    End::Retry {
        ready_at: case.now.plus(delay),
        error: text(message, case),
        reason,
    }
}

fn hand_back() -> End {
    End::Release {
        reason: "handed back by a node that ends or lost its lease".into(),
    }
}

fn text(message: &str, case: &Case<'_>) -> std::sync::Arc<str> {
    clean_text(message, case.limits.error_bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case<'a>(retry: &'a RetryPolicy, limits: &'a Limits) -> Case<'a> {
        Case {
            attempt: 1,
            lost: 0,
            max_retries: None,
            retry,
            why: None,
            limits,
            now: Timestamp::from_millis(1_000),
            random: 0.0,
        }
    }

    fn check(ended: Ended, change: impl FnOnce(&mut Case<'_>)) -> End {
        let (retry, limits) = (RetryPolicy::default(), Limits::default());
        let mut case = case(&retry, &limits);
        change(&mut case);
        decide(ended, &case)
    }

    fn error() -> Ended {
        Ended::Returned(Err(JobError::msg("no")))
    }

    #[test]
    fn an_error_waits_by_the_policy_until_retries_are_used_up() {
        let at = |attempt| check(error(), |case| case.attempt = attempt);
        let ready = |end| match end {
            End::Retry { ready_at, .. } => Some(ready_at.as_millis() - 1_000),
            _ => None,
        };
        assert_eq!(
            [1, 2, 3].map(|n| ready(at(n))),
            [Some(30_000), Some(120_000), Some(600_000)]
        );
        assert_eq!(at(4), End::Failed { error: "no".into() });
    }

    #[test]
    fn lost_workers_spend_no_retry() {
        let end = check(error(), |case| {
            (case.attempt, case.lost, case.max_retries) = (3, 2, Some(1))
        });
        assert!(matches!(end, End::Retry { .. }), "{end:?}");
    }

    #[test]
    fn the_tasks_own_number_of_retries_wins() {
        assert!(matches!(
            check(error(), |case| case.max_retries = Some(0)),
            End::Failed { .. }
        ));
    }

    #[test]
    fn an_end_of_the_node_spends_nothing_and_a_success_in_it_counts() {
        let shut = |case: &mut Case<'_>| case.why = Some(Signal::Shutdown);
        let lost = |case: &mut Case<'_>| case.why = Some(Signal::LeaseLost);
        assert!(matches!(check(error(), lost), End::Release { .. }));
        let late = |case: &mut Case<'_>| case.why = Some(Signal::Timeout);
        assert!(matches!(check(error(), late), End::Retry { .. }));
        assert!(matches!(check(error(), shut), End::Release { .. }));
        assert!(matches!(
            check(Ended::HandedBack, |_| {}),
            End::Release { .. }
        ));
        assert_eq!(
            check(Ended::Returned(Ok("1".into())), shut),
            End::Succeeded { result: "1".into() }
        );
    }

    #[test]
    fn every_other_word_of_a_handler_is_taken_at_it() {
        let end = |error| check(Ended::Returned(Err(error)), |_| {});
        assert_eq!(
            end(JobError::msg("x").terminal()),
            End::Failed { error: "x".into() }
        );
        assert!(matches!(end(JobError::canceled()), End::Canceled { .. }));
        let minute = Duration::from_secs(60);
        assert_eq!(
            end(JobError::snooze(minute)),
            End::Snooze {
                ready_at: Timestamp::from_millis(61_000)
            }
        );
        let later = end(JobError::msg("x").retry_after(minute));
        assert!(
            matches!(later, End::Retry { ready_at, .. } if ready_at == Timestamp::from_millis(61_000))
        );
    }

    #[test]
    fn timeouts_and_panics_say_what_they_were() {
        let late = check(Ended::TimedOut(Duration::from_secs(1)), |_| {});
        assert!(
            matches!(
                late,
                End::Retry {
                    reason: AttemptEnd::TimedOut,
                    ..
                }
            ),
            "{late:?}"
        );
        let End::Retry { error, .. } = check(Ended::Panicked("oh".into()), |_| {}) else {
            panic!("it is tried again")
        };
        assert_eq!(&*error, "panicked: oh");
    }
}
