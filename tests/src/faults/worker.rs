//! A process of its own that embeds ax and can die; see the binary `fault-worker`.
//!
//! What enters: a database's URL and a lease, later words on its stdin. What leaves: its words on stdout. It is killed when
//! dropped.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::PATIENCE;

/// The variable that names the database's URL to a worker.
pub const DATABASE: &str = "AX_FAULT_WORKER_DATABASE";
/// The variable that tells a worker its lease in milliseconds.
pub const LEASE_MS: &str = "AX_FAULT_WORKER_LEASE_MS";

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    says: Lines<BufReader<ChildStdout>>,
    hears: ChildStdin,
}

impl Worker {
    /// Starts the program of `fault-worker` and waits until its node has joined.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(program: &str, url: &str, lease: Duration) -> Worker {
        let mut command = Command::new(program);
        command
            .env(DATABASE, url)
            .env(LEASE_MS, lease.as_millis().to_string())
            .kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the worker starts");
        let says = BufReader::new(child.stdout.take().expect("piped")).lines();
        let hears = child.stdin.take().expect("piped");
        let mut worker = Worker { child, says, hears };
        worker.said("ready").await;
        worker
    }

    /// Waits until the worker says a line.
    ///
    /// # Panics
    /// When it ends without having said that, or takes too long.
    pub async fn said(&mut self, line: &str) {
        let said = async {
            while let Ok(Some(said)) = self.says.next_line().await {
                if said == line {
                    return true;
                }
            }
            false
        };
        let said = tokio::time::timeout(PATIENCE, said).await;
        assert!(said.unwrap_or(false), "the worker did not say {line:?}");
    }

    /// Says a line to the worker.
    ///
    /// # Panics
    /// When it is gone.
    pub async fn tell(&mut self, line: &str) {
        self.hears
            .write_all(format!("{line}\n").as_bytes())
            .await
            .expect("the worker listens");
    }

    /// Kills it with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the worker can be killed");
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When it does not.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended
            .expect("the worker ends")
            .expect("it can be waited for")
    }
}
