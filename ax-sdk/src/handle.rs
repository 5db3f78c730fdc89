//! A submitted task in the caller's hand.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use ax_core::{Error, ErrorKind, Outcome, Task, TaskId};
use ax_engine::client::Client;
use ax_engine::store::CancelResult;
use ax_engine::submit::Submitted;
use serde::de::DeserializeOwned;

/// A task that was submitted, whose job gives a `T`.
pub struct Handle<T> {
    client: Client,
    submitted: Submitted,
    result: PhantomData<fn() -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Handle {
            client: self.client.clone(),
            submitted: self.submitted,
            result: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.submitted).finish()
    }
}

impl<T> Handle<T> {
    pub(crate) fn new(client: Client, submitted: Submitted) -> Handle<T> {
        Handle {
            client,
            submitted,
            result: PhantomData,
        }
    }

    /// The task's id: the same in every attempt and round.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.submitted.id()
    }

    /// Whether the submit made a new task, or met one that holds its key.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self.submitted, Submitted::New(_))
    }

    /// What the submit did.
    #[must_use]
    pub fn submitted(&self) -> Submitted {
        self.submitted
    }

    /// The task as it stands now; `None` once the history has forgotten it.
    ///
    /// # Errors
    /// What the database said.
    pub async fn task(&self) -> Result<Option<Task>, Error> {
        self.client.find(self.id()).await
    }

    /// Cancels the task.
    ///
    /// # Errors
    /// What the database said.
    pub async fn cancel(&self) -> Result<CancelResult, Error> {
        self.client.cancel(self.id(), None).await
    }
}

impl<T: DeserializeOwned> Handle<T> {
    /// Waits until the task has ended and says how, wherever it ran. A task with retries ends after the last of them.
    ///
    /// # Errors
    /// `Stopped` when this engine shuts down first, `Corrupt` when the result is not a `T`.
    pub async fn outcome(&self) -> Result<Outcome<T>, Error> {
        let round = self.round().await?;
        typed(self.client.outcome((self.id(), round)).await?)
    }

    /// A new task is in its first round; one that was there before may have been run again since.
    async fn round(&self) -> Result<i64, Error> {
        if self.is_new() {
            return Ok(0);
        }
        Ok(self
            .client
            .find(self.id())
            .await?
            .map_or(0, |task| i64::from(task.round)))
    }
}

fn typed<T: DeserializeOwned>(outcome: Outcome<Arc<str>>) -> Result<Outcome<T>, Error> {
    Ok(match outcome {
        Outcome::Succeeded(text) => {
            Outcome::Succeeded(serde_json::from_str(&text).map_err(|e| {
                Error::new(
                    ErrorKind::Corrupt,
                    "read the result: it is not of the type that this job gives now",
                )
                .with_source(e)
            })?)
        }
        Outcome::Failed { error } => Outcome::Failed { error },
        Outcome::Canceled => Outcome::Canceled,
        Outcome::Expired => Outcome::Expired,
        Outcome::Skipped => Outcome::Skipped,
        Outcome::UpstreamFailed => Outcome::UpstreamFailed,
    })
}
