//! What really happened, told outside of ax: each process appends to a file of its own.
//!
//! What enters: what a submitter asked and was told, what a handler did. What leaves: the lines of all processes. A line
//! is one `write` to a file opened for appending, so it outlives a SIGKILL the moment after. Never asks the database.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use ax_sdk::{JobContext, JobResult, TaskId};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// A submit begins.
    Intent {
        /// What the task carries in its payload; one task at most may carry it.
        label: String,
    },
    /// A submit, or the commit of the transaction it was in, returned Ok.
    Submitted {
        /// As in the intent.
        label: String,
        /// The task.
        id: TaskId,
    },
    /// A submit or commit returned an error: the task may exist or not.
    Doubtful {
        /// As in the intent.
        label: String,
        /// What was said.
        error: String,
    },
    /// The transaction of a submit was rolled back: the task never existed.
    RolledBack {
        /// As in the intent.
        label: String,
    },
    /// A caller was told this outcome.
    Told {
        /// The task.
        id: TaskId,
        /// The result, where it succeeded.
        output: Option<String>,
    },
    /// A handler begins.
    Started(Execution),
    /// A handler returns, or panics.
    Ended {
        /// The execution.
        #[serde(flatten)]
        execution: Execution,
        /// What it gives back, where it succeeds.
        output: Option<String>,
    },
}

/// One execution of a task, as its handler sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The task.
    pub task: TaskId,
    /// Which claim of it.
    pub fence: i64,
    /// The number of the attempt.
    pub attempt: u32,
    /// The process.
    pub pid: u32,
    /// Nanoseconds of the machine's monotonic clock, the same in every process.
    pub at: u64,
}

impl Execution {
    fn now(context: &JobContext) -> Execution {
        Execution {
            task: context.task_id(),
            fence: context.fence(),
            attempt: context.attempt(),
            pid: std::process::id(),
            at: monotonic(),
        }
    }
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// The file that this process appends to.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<File>);

impl Ledger {
    /// Opens the file, which must be this process's own.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub fn create(path: &Path) -> anyhow::Result<Ledger> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        Ok(Ledger(Arc::new(file.with_context(|| {
            format!("failed to create {}", path.display())
        })?)))
    }

    /// Appends a line.
    ///
    /// A process that cannot tell what it does must not do it: it ends here, and the harness reports that.
    pub fn write(&self, line: &Line) {
        let mut bytes = serde_json::to_vec(line).expect("a line is JSON");
        bytes.push(b'\n');
        match (&*self.0).write(&bytes) {
            Ok(written) if written == bytes.len() => {}
            other => {
                eprintln!(
                    "the ledger cannot be written: {other:?} of {} bytes",
                    bytes.len()
                );
                std::process::exit(3);
            }
        }
    }

    /// Notes that a handler begins.
    pub fn start(&self, context: &JobContext) -> Run {
        self.write(&Line::Started(Execution::now(context)));
        Run {
            ledger: self.clone(),
            context: context.clone(),
        }
    }
}

/// A handler under way.
#[derive(Debug)]
pub struct Run {
    ledger: Ledger,
    context: JobContext,
}

impl Run {
    /// Notes that the handler ends without success.
    pub fn give_up(self) {
        self.end(None);
    }

    /// Notes that the handler succeeds; the result names this execution and no other.
    ///
    /// # Errors
    ///
    /// Never; handlers end with this value.
    pub fn succeed(self) -> JobResult<String> {
        let output = format!("{} by {}", self.context.execution_id(), std::process::id());
        self.end(Some(output.clone()));
        Ok(output)
    }

    fn end(&self, output: Option<String>) {
        self.ledger.write(&Line::Ended {
            execution: Execution::now(&self.context),
            output,
        });
    }
}

/// The lines of every ledger in a folder. The last line of a killed process may be cut; it tells nothing then.
///
/// # Errors
///
/// When a file cannot be read, or a line in the middle of one is broken.
pub fn read_all(folder: &Path) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "ledger")
        {
            let content = std::fs::read_to_string(&path)?;
            lines.extend(parse(&content).with_context(|| format!("{} is broken", path.display()))?);
        }
    }
    Ok(lines)
}

fn parse(content: &str) -> anyhow::Result<Vec<Line>> {
    let whole = content.rfind('\n').map_or("", |end| &content[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> TaskId {
        TaskId::from_bytes([7; 16])
    }

    #[test]
    fn lines_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let execution = Execution {
            task: task(),
            fence: 2,
            attempt: 1,
            pid: 9,
            at: monotonic(),
        };
        let lines = [
            Line::Intent {
                label: "a-1".into(),
            },
            Line::Submitted {
                label: "a-1".into(),
                id: task(),
            },
            Line::Started(execution.clone()),
            Line::Ended {
                execution,
                output: Some("x".into()),
            },
        ];
        let ledger = Ledger::create(&folder.path().join("one.ledger")).unwrap();
        lines.iter().for_each(|line| ledger.write(line));
        std::fs::write(folder.path().join("one.log"), "no ledger").unwrap();
        assert_eq!(read_all(folder.path()).unwrap(), lines);
        assert!(
            Ledger::create(&folder.path().join("one.ledger")).is_err(),
            "two processes never share a file"
        );
    }

    #[test]
    fn only_the_last_line_may_be_cut() {
        let line = r#"{"line":"intent","label":"a"}"#;
        assert_eq!(parse(&format!("{line}\n{}", &line[..9])).unwrap().len(), 1);
        assert!(parse(&format!("{}\n{line}\n", &line[..9])).is_err());
        assert!(parse("").unwrap().is_empty());
    }
}
