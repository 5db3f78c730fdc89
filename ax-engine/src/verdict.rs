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
        Ended::Returned(Err(_)) if case.why == Some(Signal::Shutdown) => hand_back(),
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
