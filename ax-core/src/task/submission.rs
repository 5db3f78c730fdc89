//! The typed builder that `job::task(…)` returns.
//!
//! In: arguments and options in any order. Out: a [`NewTask`]. It never fails in between: the first wrong
//! option is kept and reported by the submit.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::{Key, KeyMode, NewTask, When};
use crate::{Error, OnLost, Priority, Timestamp};

/// A task of a job that gives a `T`, ready to be submitted.
#[must_use = "a submission does nothing until it is submitted"]
pub struct Submission<T> {
    task: NewTask,
    mode: Option<KeyMode>,
    period: Option<Duration>,
    result: PhantomData<fn() -> T>,
}

impl<T> Submission<T> {
    /// Wraps a task whose job gives a `T`.
    pub fn new(task: NewTask) -> Self {
        Self {
            task,
            mode: None,
            period: None,
            result: PhantomData,
        }
    }

    /// Starts this long after the submit.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.task.when = When::After(delay);
        self
    }

    /// Starts at this instant, or at once when it has passed.
    pub fn at(mut self, at: impl Into<Timestamp>) -> Self {
        self.task.when = When::At(at.into());
        self
    }

    /// Sets the priority: 0 (last) to 9 (first).
    pub fn priority(mut self, level: u8) -> Self {
        match Priority::new(level) {
            Ok(priority) => self.task.priority = priority,
            Err(fault) => self.task.keep_fault(fault),
        }
        self
    }

    /// Names the task by a business key, unique per job while the task is live.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.task.key = Some(Key {
            text: key.into(),
            mode: KeyMode::default(),
            period: None,
        });
        self
    }

    /// Keeps the key taken for this long from the submit on, also when the task ends sooner.
    pub fn unique_for(mut self, period: Duration) -> Self {
        self.period = Some(period);
        self
    }

    /// Says what happens when the key is taken.
    pub fn on_conflict(mut self, mode: KeyMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Adds a word to search by.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.task.tags.push(tag.into());
        self
    }

    /// Keeps tasks of one route key on one shard.
    pub fn route(mut self, key: impl Into<String>) -> Self {
        self.task.route_key = Some(key.into());
        self
    }

    /// Sets the number of retries after the first attempt.
    pub fn retries(mut self, retries: u32) -> Self {
        self.task.max_retries = Some(retries);
        self
    }

    /// Sets the longest run of one attempt.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.task.timeout = Some(timeout);
        self
    }

    /// Expires the task when it could not start within this time after its earliest start.
    pub fn deadline(mut self, after_ready: Duration) -> Self {
        self.task.deadline = Some(When::After(after_ready));
        self
    }

    /// Expires the task when it could not start by this instant.
    pub fn deadline_at(mut self, at: impl Into<Timestamp>) -> Self {
        self.task.deadline = Some(When::At(at.into()));
        self
    }

    /// Says what becomes of the task when its worker dies.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.task.on_lost = on_lost;
        self
    }

    /// Links the task to a trace (W3C `traceparent`).
    pub fn trace(mut self, context: impl Into<String>) -> Self {
        self.task.trace = Some(context.into());
        self
    }

    /// Keeps an error for the submit; the first one wins.
    pub fn fault(mut self, fault: Error) -> Self {
        self.task.keep_fault(fault);
        self
    }

    /// The task with all options in place.
    pub fn into_new_task(self) -> NewTask {
        let Self {
            mut task,
            mode,
            period,
            ..
        } = self;
        match &mut task.key {
            Some(key) => {
                key.mode = mode.unwrap_or(key.mode);
                key.period = period.or(key.period);
            }
            None if mode.is_some() || period.is_some() => {
                task.keep_fault(Error::invalid(
                    "on_conflict and unique_for need a key; add .key(…)",
                ));
            }
            None => {}
        }
        task
    }

    /// The same submission without the type of its result, to keep several kinds in one list.
    pub fn erase(self) -> Submission<serde_json::Value> {
        Submission {
            task: self.task,
            mode: self.mode,
            period: self.period,
            result: PhantomData,
        }
    }
}

impl<T> Clone for Submission<T> {
    fn clone(&self) -> Self {
        Self {
            task: self.task.clone(),
            mode: self.mode,
            period: self.period,
            result: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Submission<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.task, f)
    }
}

impl<T> From<NewTask> for Submission<T> {
    fn from(task: NewTask) -> Self {
        Self::new(task)
    }
}

impl<T> From<Submission<T>> for NewTask {
    fn from(submission: Submission<T>) -> Self {
        submission.into_new_task()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobName, Limits, hours, secs};

    fn submission() -> Submission<u8> {
        Submission::new(NewTask::new(JobName::new("j").unwrap(), "1"))
    }

    fn refused(submission: Submission<u8>) -> String {
        submission
            .into_new_task()
            .validate(&Limits::default())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn options_arrive_in_any_order() {
        let task = submission()
            .unique_for(hours(1))
            .on_conflict(KeyMode::Replace)
            .delay(secs(3))
            .key("order-43")
            .priority(9)
            .tag("a")
            .tag("b")
            .retries(0)
            .deadline(secs(5))
            .into_new_task();
        let key = Key {
            text: "order-43".to_owned(),
            mode: KeyMode::Replace,
            period: Some(hours(1)),
        };
        assert_eq!(task.key, Some(key));
        assert_eq!((task.when, task.priority.get()), (When::After(secs(3)), 9));
        assert_eq!(task.tags, ["a", "b"]);
        assert_eq!(
            (task.max_retries, task.deadline),
            (Some(0), Some(When::After(secs(5))))
        );
        task.validate(&Limits::default()).unwrap();
    }

    #[test]
    fn wrong_options_are_kept_for_the_submit() {
        assert!(refused(submission().priority(12)).contains("priority 12"));
        assert!(refused(submission().priority(12).unique_for(secs(1))).contains("priority 12"));
        assert!(refused(submission().unique_for(secs(1))).contains("need a key"));
        let plain = submission()
            .on_conflict(KeyMode::Reject)
            .erase()
            .into_new_task();
        assert!(plain.fault.is_some());
    }
}
