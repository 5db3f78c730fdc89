//! The worker processes of a run: started, killed, stopped for a while, started again.
//!
//! What enters: how to start a worker. What leaves: processes, and a count of those that ended without having been told
//! to. Every signal goes to the id of a process that was started here and is still unreaped, so it can meet no other.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The word to a worker to submit nothing more, and its answer.
pub const QUIET: &str = "quiet";

/// The variable that holds the database's URL, out of sight of who lists processes.
pub const DATABASE: &str = "AX_KILL_DATABASE";

/// How a worker is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program, whose first argument `worker` makes it one.
    pub program: PathBuf,
    /// The database, through the proxy where there is one.
    pub url: String,
    /// Where ledgers and logs go.
    pub folder: PathBuf,
    /// Tasks in a second that it submits.
    pub rate: f64,
    /// Its lease.
    pub lease: Duration,
    /// Chooses what it submits, together with its name.
    pub seed: u64,
}

/// The processes.
#[derive(Debug)]
pub struct Fleet {
    launch: Launch,
    workers: Vec<Worker>,
    crashes: Vec<String>,
}

#[derive(Debug)]
struct Worker {
    name: String,
    incarnation: u64,
    child: Child,
    stdin: Option<ChildStdin>,
    says: Lines<BufReader<ChildStdout>>,
    paused: bool,
}

impl Fleet {
    /// Starts `n` workers at once.
    ///
    /// # Errors
    ///
    /// When a process cannot be started.
    pub fn start(launch: Launch, n: usize) -> anyhow::Result<Fleet> {
        let workers = (0..n)
            .map(|slot| launch.start(slot, 1))
            .collect::<Result<_, _>>()?;
        Ok(Fleet {
            launch,
            workers,
            crashes: Vec::new(),
        })
    }

    /// The slots whose worker is not paused.
    pub fn awake(&self) -> Vec<usize> {
        (0..self.workers.len())
            .filter(|slot| !self.workers[*slot].paused)
            .collect()
    }

    /// Kills a worker with SIGKILL and starts another in its place.
    ///
    /// # Errors
    ///
    /// When the new process cannot be started.
    pub async fn kill(&mut self, slot: usize) -> anyhow::Result<()> {
        self.workers[slot]
            .child
            .kill()
            .await
            .context("a worker cannot be killed")?;
        self.restart(slot)
    }

    /// Stops a worker with SIGSTOP.
    ///
    /// # Errors
    ///
    /// When the signal cannot be sent.
    pub fn pause(&mut self, slot: usize) -> anyhow::Result<()> {
        self.workers[slot].signal(Signal::STOP)?;
        self.workers[slot].paused = true;
        Ok(())
    }

    /// Lets a paused worker go on.
    ///
    /// # Errors
    ///
    /// When the signal cannot be sent.
    pub fn resume(&mut self, slot: usize) -> anyhow::Result<()> {
        self.workers[slot].paused = false;
        self.workers[slot].signal(Signal::CONT)
    }

    /// Notes workers that ended by themselves and starts others in their place.
    ///
    /// # Errors
    ///
    /// When a new process cannot be started.
    pub fn look_after(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.workers.len() {
            if let Some(status) = self.workers[slot].child.try_wait()? {
                self.note_crash(slot, status);
                self.restart(slot)?;
            }
        }
        Ok(())
    }

    /// Tells every worker to submit nothing more, and waits until each has answered for its last submit.
    ///
    /// # Errors
    ///
    /// When a worker does not answer in time.
    pub async fn quiet(&mut self) -> anyhow::Result<()> {
        self.launch.rate = 0.0;
        for worker in &mut self.workers {
            if let Some(stdin) = &mut worker.stdin {
                // A worker that ended is noted by `look_after`.
                let _ended = stdin.write_all(format!("{QUIET}\n").as_bytes()).await;
            }
        }
        for slot in 0..self.workers.len() {
            let says = &mut self.workers[slot].says;
            let said = timeout(Duration::from_secs(90), says.next_line()).await;
            let said =
                said.with_context(|| format!("worker {slot} does not end its submits"))??;
            if said.as_deref() != Some(QUIET) {
                self.look_after()?;
            }
        }
        Ok(())
    }

    /// Lets every worker shut down in order; one that does not is noted as crashed.
    ///
    /// # Errors
    ///
    /// When a process cannot be waited for.
    pub async fn shutdown(&mut self) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            worker.stdin = None;
        }
        for slot in 0..self.workers.len() {
            match timeout(Duration::from_secs(60), self.workers[slot].child.wait()).await {
                Ok(status) if status.as_ref().is_ok_and(ExitStatus::success) => {}
                Ok(status) => self.note_crash(slot, status?),
                Err(_) => {
                    self.crashes.push(format!(
                        "worker {} did not shut down within a minute",
                        self.workers[slot].name
                    ));
                    self.workers[slot].child.kill().await?;
                }
            }
        }
        Ok(())
    }

    /// Ends every worker that is still there.
    pub async fn end(&mut self) {
        for worker in &mut self.workers {
            // One that has ended already needs no signal.
            let _ended = worker.child.kill().await;
        }
    }

    /// Workers that ended without having been told to, and their last words.
    pub fn crashes(&self) -> &[String] {
        &self.crashes
    }

    fn note_crash(&mut self, slot: usize, status: ExitStatus) {
        let name = &self.workers[slot].name;
        let log = std::fs::read_to_string(self.launch.log(name)).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("\n    ");
        self.crashes.push(format!(
            "worker {name} ended by itself ({status}):\n    {last}"
        ));
    }

    fn restart(&mut self, slot: usize) -> anyhow::Result<()> {
        self.workers[slot] = self
            .launch
            .start(slot, self.workers[slot].incarnation + 1)?;
        Ok(())
    }
}

impl Launch {
    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn start(&self, slot: usize, incarnation: u64) -> anyhow::Result<Worker> {
        let name = format!("w{slot}-{incarnation}");
        let mut child = Command::new(&self.program)
            .arg("worker")
            .args(["--name", &name])
            .args([
                "--ledger".as_ref(),
                self.folder.join(format!("{name}.ledger")).as_os_str(),
            ])
            .args(["--tasks-per-second", &self.rate.to_string()])
            .args(["--lease-ms", &self.lease.as_millis().to_string()])
            .args([
                "--seed",
                &(self.seed ^ (slot as u64) << 32 ^ incarnation).to_string(),
            ])
            .env(DATABASE, &self.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(self.log(&name))?)
            // A Ctrl-C at the terminal is for the harness alone, which then ends its workers.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("a worker cannot be started")?;
        let stdin = child.stdin.take();
        let says = child.stdout.take().context("a worker has no stdout")?;
        Ok(Worker {
            name,
            incarnation,
            child,
            stdin,
            says: BufReader::new(says).lines(),
            paused: false,
        })
    }
}

impl Worker {
    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let sent = pid.map_or(Err(io::Error::other("it has ended")), |pid| {
            Ok(kill_process(pid, signal)?)
        });
        match sent {
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                Err(error).with_context(|| format!("worker {} takes no signal", self.name))
            }
            _ => Ok(()),
        }
    }
}
