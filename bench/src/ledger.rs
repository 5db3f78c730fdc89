//! What ran, recorded outside ax: one line per start, appended by one write each, so that a kill loses no earlier line.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use ax_sdk::TaskId;

/// An append-only file.
pub(crate) struct Ledger(File);

/// One start of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// The number of the claim.
    pub fence: i64,
    /// Microseconds it was late.
    pub late: i64,
}

impl Ledger {
    /// Opens a ledger for appending.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Ledger> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Ledger(file.with_context(|| {
            format!("open the ledger {}", path.display())
        })?))
    }

    /// Records a start.
    pub(crate) fn start(&self, task: TaskId, start: Start) -> std::io::Result<()> {
        (&self.0).write_all(format!("{task} {} {}\n", start.fence, start.late).as_bytes())
    }
}

/// All starts of all ledgers in a folder, by task, in the order of their claims.
pub(crate) fn read(folder: &Path) -> anyhow::Result<BTreeMap<TaskId, Vec<Start>>> {
    let mut starts: BTreeMap<TaskId, Vec<Start>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        for line in std::fs::read_to_string(entry?.path())?.lines() {
            if let Some((task, start)) = parse(line) {
                starts.entry(task).or_default().push(start);
            }
        }
    }
    for list in starts.values_mut() {
        list.sort_unstable_by_key(|start| start.fence);
    }
    Ok(starts)
}

fn parse(line: &str) -> Option<(TaskId, Start)> {
    let mut parts = line.split(' ');
    let task = parts.next()?.parse().ok()?;
    Some((
        task,
        Start {
            fence: parts.next()?.parse().ok()?,
            late: parts.next()?.parse().ok()?,
        },
    ))
}
