//! A task as it is asked for, and everything that can be wrong with it.
//!
//! In: fields from a builder, from HTTP or from a schedule. Out: a refusal that names the field and the limit,
//! or the instants of its row. Runs a hundred thousand times a second: one pass over the payload, no copies.

use std::time::Duration;

use super::{Key, Tick, When};
use crate::name::check_name;
use crate::policy::check_retries;
use crate::{
    Error, JobName, Limits, MAX_DELAY, MAX_NAME_BYTES, OnLost, Priority, Timestamp, format_duration,
};

const MAX_TAGS: usize = 32;
const MAX_TRACE_BYTES: usize = 1_024;

/// One task to be made. Every field is public; nothing is checked before [`validate`](NewTask::validate).
#[derive(Clone, Debug)]
pub struct NewTask {
    /// The job it runs.
    pub job: JobName,
    /// The arguments, as JSON text.
    pub payload: String,
    /// The earliest start.
    pub when: When,
    /// How urgent it is.
    pub priority: Priority,
    /// The business key.
    pub key: Option<Key>,
    /// Words to search by; at most 32.
    pub tags: Vec<String>,
    /// What keeps tasks of one kind on one shard.
    pub route_key: Option<String>,
    /// Retries after the first attempt; the job's own number unless stated.
    pub max_retries: Option<u32>,
    /// The longest run of one attempt; the job's own unless stated.
    pub timeout: Option<Duration>,
    /// The latest start; a duration counts from the earliest one.
    pub deadline: Option<When>,
    /// What becomes of it when its worker dies.
    pub on_lost: OnLost,
    /// The trace context of the caller (W3C `traceparent`).
    pub trace: Option<String>,
    /// The tick that makes it.
    pub schedule: Option<Tick>,
    /// An error that a builder met and kept; the first thing that `validate` returns.
    pub fault: Option<Error>,
}

impl NewTask {
    /// A task of `job` for now, with these arguments as JSON text and no options.
    #[must_use]
    pub fn new(job: JobName, payload: impl Into<String>) -> Self {
        Self {
            job,
            payload: payload.into(),
            when: When::Now,
            priority: Priority::default(),
            key: None,
            tags: Vec::new(),
            route_key: None,
            max_retries: None,
            timeout: None,
            deadline: None,
            on_lost: OnLost::default(),
            trace: None,
            schedule: None,
            fault: None,
        }
    }

    /// Keeps an error for `validate`; the first one wins.
    pub fn keep_fault(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
    }

    /// Checks everything that does not need the present instant.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the field and its limit; the kept fault first.
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        limits.check_payload(&self.payload)?;
        check_when("start", self.when)?;
        if let Some(deadline) = self.deadline {
            check_when("deadline", deadline)?;
        }
        self.check_texts()?;
        if let Some(retries) = self.max_retries {
            check_retries(retries)?;
        }
        match self.timeout {
            Some(timeout) if timeout < Duration::from_millis(1) => Err(Error::invalid(
                "timeout is shorter than 1 ms; give a longer one or none",
            )),
            Some(timeout) => check_span("timeout", timeout),
            None => Ok(()),
        }
    }

    fn check_texts(&self) -> Result<(), Error> {
        if let Some(key) = &self.key {
            check_word("key", &key.text)?;
            key.period
                .map_or(Ok(()), |period| check_span("period of the key", period))?;
        }
        if self.tags.len() > MAX_TAGS {
            let count = self.tags.len();
            return Err(Error::invalid(format!(
                "{count} tags are too many; give at most {MAX_TAGS}"
            )));
        }
        self.tags
            .iter()
            .try_for_each(|tag| check_word("tag", tag))?;
        self.route_key
            .as_deref()
            .map_or(Ok(()), |key| check_word("route key", key))?;
        self.schedule
            .as_ref()
            .map_or(Ok(()), |tick| check_name("schedule name", &tick.schedule))?;
        self.trace.as_deref().map_or(Ok(()), |trace| {
            check_text("trace context", trace, MAX_TRACE_BYTES)
        })
    }

    /// The earliest and the latest start, given the present instant.
    ///
    /// A start that has passed means now. A deadline given as a duration counts from the earliest start.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) outside 1970 to 9999, and for a deadline before a start
    /// that is still to come: such a task could never run.
    pub fn timing(&self, now: Timestamp) -> Result<(Timestamp, Option<Timestamp>), Error> {
        let ready_at = instant("start", self.when, now)?.max(now);
        let Some(deadline) = self.deadline else {
            return Ok((ready_at, None));
        };
        let deadline = instant("deadline", deadline, ready_at)?;
        if deadline < ready_at && ready_at > now {
            return Err(Error::invalid(format!(
                "deadline {deadline} lies before the earliest start {ready_at}; move one of them"
            )));
        }
        Ok((ready_at, Some(deadline)))
    }
}

fn instant(what: &str, when: When, base: Timestamp) -> Result<Timestamp, Error> {
    check_when(what, when)?;
    let at = match when {
        When::Now => base,
        When::After(span) => base.plus(span),
        When::At(at) => at,
    };
    check_instant(what, at)?;
    Ok(at)
}

fn check_when(what: &str, when: When) -> Result<(), Error> {
    match when {
        When::Now => Ok(()),
        When::After(span) => check_span(what, span),
        When::At(at) => check_instant(what, at),
    }
}

fn check_instant(what: &str, at: Timestamp) -> Result<(), Error> {
    if at.is_valid() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} {at} lies outside the years 1970 to 9999; check how it is computed"
    )))
}

fn check_span(what: &str, span: Duration) -> Result<(), Error> {
    if span <= MAX_DELAY {
        return Ok(());
    }
    let shown = format_duration(span);
    Err(Error::invalid(format!(
        "{what} of {shown} is longer than 100 years; check how it is computed"
    )))
}

fn check_word(what: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() {
        return Err(Error::invalid(format!(
            "{what} is empty; give it at least one character or leave it out"
        )));
    }
    check_text(what, text, MAX_NAME_BYTES)
}

fn check_text(what: &str, text: &str, max_bytes: usize) -> Result<(), Error> {
    if text.len() > max_bytes {
        let length = text.len();
        return Err(Error::invalid(format!(
            "{what} has {length} bytes; at most {max_bytes} are allowed"
        )));
    }
    if text.contains('\0') {
        return Err(Error::invalid(format!(
            "{what} holds a NUL character, which databases refuse; remove it"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyMode, days, secs};

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn task() -> NewTask {
        NewTask::new(JobName::new("order.close").unwrap(), "{\"id\":1}")
    }

    fn refused(change: impl FnOnce(&mut NewTask)) -> String {
        let mut task = task();
        change(&mut task);
        task.validate(&Limits::default()).unwrap_err().to_string()
    }

    fn key(text: &str) -> Option<Key> {
        Some(Key {
            text: text.to_owned(),
            mode: KeyMode::Reject,
            period: None,
        })
    }

    #[test]
    fn a_plain_task_passes_and_is_ready_now() {
        task().validate(&Limits::default()).unwrap();
        assert_eq!(task().timing(NOW).unwrap(), (NOW, None));
    }

    #[test]
    fn case_c30_impossible_values_are_refused() {
        for when in [
            When::After(Duration::MAX),
            When::After(Duration::from_millis(i64::MAX as u64)),
            When::After(MAX_DELAY + secs(1)),
            When::At(Timestamp::MAX),
            When::At(Timestamp::from_millis(i64::MIN)),
            When::At(Timestamp::from_millis(-62_135_596_800_000)),
            When::At(Timestamp::from_millis(253_402_300_800_000)),
        ] {
            assert!(
                refused(|task| task.when = when).starts_with("start "),
                "{when:?}"
            );
            assert!(
                refused(|task| task.deadline = Some(when)).starts_with("deadline "),
                "{when:?}"
            );
            assert!(NewTask { when, ..task() }.timing(NOW).is_err(), "{when:?}");
        }
        assert!(refused(|task| task.timeout = Some(Duration::MAX)).contains("100 years"));
        assert!(refused(|task| task.timeout = Some(Duration::ZERO)).contains("1 ms"));
        assert!(refused(|task| task.max_retries = Some(u32::MAX)).contains("too many"));
    }

    #[test]
    fn case_c30_long_delays_are_kept_exactly() {
        for delay in [secs(2_142_720), days(25), days(365), MAX_DELAY] {
            let task = NewTask {
                when: When::After(delay),
                ..task()
            };
            task.validate(&Limits::default()).unwrap();
            assert_eq!(task.timing(NOW).unwrap().0.since(NOW), delay);
        }
    }

    #[test]
    fn a_start_that_has_passed_means_now() {
        for past in [0, 1, NOW.as_millis()] {
            let task = NewTask {
                when: When::At(Timestamp::from_millis(past)),
                ..task()
            };
            assert_eq!(task.timing(NOW).unwrap().0, NOW);
        }
    }

    #[test]
    fn a_deadline_counts_from_the_earliest_start() {
        let mut late = task();
        late.when = When::After(secs(60));
        late.deadline = Some(When::After(secs(5)));
        assert_eq!(
            late.timing(NOW).unwrap(),
            (NOW.plus(secs(60)), Some(NOW.plus(secs(65))))
        );
        late.deadline = Some(When::At(NOW.plus(secs(59))));
        assert!(
            late.timing(NOW)
                .unwrap_err()
                .to_string()
                .contains("before the earliest start")
        );
        let overdue = NewTask {
            deadline: Some(When::At(Timestamp::from_millis(5))),
            ..task()
        };
        assert_eq!(
            overdue.timing(NOW).unwrap(),
            (NOW, Some(Timestamp::from_millis(5)))
        );
    }

    #[test]
    fn case_c24_nul_is_refused_in_every_text() {
        assert!(
            refused(|task| task.payload = "\"\\u0000\"".to_owned()).contains("payload holds a NUL")
        );
        assert!(refused(|task| task.key = key("a\0")).contains("key holds a NUL"));
        assert!(refused(|task| task.tags = vec!["\0".to_owned()]).contains("tag holds a NUL"));
        assert!(
            refused(|task| task.route_key = Some("\0".to_owned()))
                .contains("route key holds a NUL")
        );
        assert!(
            refused(|task| task.trace = Some("\0".to_owned()))
                .contains("trace context holds a NUL")
        );
    }

    #[test]
    fn texts_keep_their_limits() {
        let long = "x".repeat(201);
        assert!(refused(|task| task.key = key(&long)).contains("201 bytes"));
        assert!(refused(|task| task.key = key("")).contains("key is empty"));
        assert!(refused(|task| task.tags = vec![long.clone()]).contains("tag has 201"));
        assert!(refused(|task| task.tags = vec!["t".to_owned(); 33]).contains("33 tags"));
        assert!(refused(|task| task.route_key = Some(long.clone())).contains("route key has 201"));
        let mut full = task();
        full.key = key(&"x".repeat(200));
        full.tags = vec!["t".repeat(200); 32];
        full.validate(&Limits::default()).unwrap();
    }

    #[test]
    fn the_first_fault_of_a_builder_is_reported() {
        let mut task = task();
        task.keep_fault(Error::invalid("first"));
        task.keep_fault(Error::invalid("second"));
        assert_eq!(
            task.validate(&Limits::default()).unwrap_err().to_string(),
            "first"
        );
    }
}
