//! Where handlers tell a case what they do, and where a case holds them back.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify, Semaphore};

use super::PATIENCE;

/// What the handlers of one node told. Clones are the same stage.
#[derive(Clone, Debug)]
pub struct Stage {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    notes: Mutex<Vec<String>>,
    changed: Notify,
    gate: Semaphore,
}

impl Default for Stage {
    fn default() -> Stage {
        let inner = Inner {
            notes: Mutex::default(),
            changed: Notify::new(),
            gate: Semaphore::new(0),
        };
        Stage {
            inner: Arc::new(inner),
        }
    }
}

impl Stage {
    /// A handler notes something.
    pub async fn note(&self, text: impl Into<String>) {
        self.inner.notes.lock().await.push(text.into());
        self.inner.changed.notify_waiters();
    }

    /// The notes so far that begin with `prefix`.
    pub async fn all(&self, prefix: &str) -> Vec<String> {
        let notes = self.inner.notes.lock().await;
        notes
            .iter()
            .filter(|note| note.starts_with(prefix))
            .cloned()
            .collect()
    }

    /// Waits until `n` notes begin with `prefix`.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn noted(&self, prefix: &str, n: usize) -> Vec<String> {
        let wait = async {
            loop {
                let changed = self.inner.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let found = self.all(prefix).await;
                if found.len() >= n {
                    return found;
                }
                changed.await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(_) => panic!(
                "{n} notes {prefix:?} did not come; there are {:?}",
                self.all("").await
            ),
        }
    }

    /// Lets `n` handlers that wait at the gate go on.
    pub fn open(&self, n: usize) {
        self.inner.gate.add_permits(n);
    }

    /// A handler waits at the gate.
    pub async fn pass(&self) {
        if let Ok(permit) = self.inner.gate.acquire().await {
            permit.forget();
        }
    }
}
