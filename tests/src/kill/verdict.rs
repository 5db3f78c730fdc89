//! Compares what the processes saw with what the database says.
//!
//! What enters: the lines of the ledger and the rows of the database. What leaves: a [`Verdict`]. Pure.
//!
//! A start is explained when its claim is the one that the outcome names, or when the end of its attempt is recorded.
//! A submit that was answered with Ok must have an outcome; one in doubt may have none or one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ax_sdk::{TaskId, TaskState};
use serde::{Deserialize, Serialize};

use super::ledger::Line;

/// Rows of the database when everything has come to rest.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Tasks that are still live: there should be none.
    pub live: Vec<TaskId>,
    /// Finished rounds.
    pub history: Vec<Finished>,
    /// Attempts that did not end their task: task, fence, and the word for why.
    pub attempts: Vec<(TaskId, i64, String)>,
}

/// One finished round of a task.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The task.
    pub id: TaskId,
    /// How it ended.
    pub state: TaskState,
    /// The claim whose outcome it is.
    pub fence: i64,
    /// What the payload carries.
    pub label: String,
    /// The handler's result.
    pub output: Option<String>,
}

/// What the harness did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Deeds {
    /// Workers killed with SIGKILL.
    pub kills: u64,
    /// Workers stopped with SIGSTOP for a while.
    pub pauses: u64,
    /// Connections cut after a commit was forwarded and before its reply.
    pub cuts: u64,
    /// Connections cut before a commit was forwarded.
    pub withheld: u64,
    /// Workers that ended without having been told to.
    pub crashes: u64,
}

/// The result of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verdict {
    /// The database.
    pub database: String,
    /// What was done to it.
    #[serde(flatten)]
    pub deeds: Deeds,
    /// Tasks whose submit was answered with Ok.
    pub submitted: usize,
    /// Tasks, also those in doubt, that were started and have an outcome.
    pub executed: usize,
    /// Of these, tasks that succeeded.
    pub succeeded: usize,
    /// Tasks that were submitted and have no outcome.
    pub lost: usize,
    /// Tasks with two outcomes, by rows or by what callers were told.
    pub outcomes_twice: usize,
    /// Outcomes that no handler gave.
    pub outcomes_invented: usize,
    /// Starts whose attempt neither ended the task nor has an end on record.
    pub unexplained_starts: usize,
    /// Submits of which the submitter does not know whether they took place.
    pub in_doubt: usize,
    /// Of these, tasks that exist.
    pub in_doubt_exist: usize,
    /// Labels that two tasks carry, or that were rolled back and exist.
    pub submitted_twice: usize,
    /// Starts in all.
    pub starts: usize,
    /// Recorded ends of attempts, by reason.
    pub attempts: BTreeMap<String, usize>,
    /// How long it took.
    pub seconds: u64,
    /// What chose the faults.
    pub seed: u64,
    /// Whether nothing was violated.
    pub ok: bool,
    /// The first violations, for people.
    #[serde(skip)]
    pub complaints: Vec<String>,
}

/// The frame of a run, for its verdict.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The database.
    pub database: String,
    /// What was done.
    pub deeds: Deeds,
    /// How long it took.
    pub seconds: u64,
    /// What chose the faults.
    pub seed: u64,
}

/// Judges a run.
pub fn judge(frame: Frame, lines: &[Line], facts: &Facts) -> Verdict {
    let book = Book::new(lines);
    let mut court = Court {
        book: &book,
        facts,
        complaints: Vec::new(),
    };
    let by_id: HashMap<TaskId, &Finished> = facts.history.iter().map(|row| (row.id, row)).collect();
    let labels: HashSet<&str> = facts.history.iter().map(|row| row.label.as_str()).collect();
    let executed = by_id.keys().filter(|id| book.started.contains(*id));
    let doubt = book.doubt();
    let mut attempts = BTreeMap::new();
    for (_, _, reason) in &facts.attempts {
        *attempts.entry(reason.clone()).or_default() += 1;
    }
    let mut verdict = Verdict {
        database: frame.database,
        submitted: book.submitted.len(),
        executed: executed.count(),
        succeeded: facts
            .history
            .iter()
            .filter(|row| row.state == TaskState::Succeeded)
            .count(),
        lost: court.lost(&by_id),
        outcomes_twice: court.outcomes_twice(&by_id),
        outcomes_invented: court.outcomes_invented(),
        unexplained_starts: court.unexplained_starts(&by_id),
        in_doubt: doubt.len(),
        in_doubt_exist: doubt.iter().filter(|label| labels.contains(*label)).count(),
        submitted_twice: court.submitted_twice(),
        starts: book.starts.len(),
        attempts,
        deeds: frame.deeds,
        seconds: frame.seconds,
        seed: frame.seed,
        ok: false,
        complaints: court.complaints,
    };
    verdict.ok = verdict.violations() == 0;
    verdict
}

impl Verdict {
    /// How much went wrong.
    pub fn violations(&self) -> usize {
        let crashes = usize::try_from(self.deeds.crashes).unwrap_or(usize::MAX);
        let counts = [
            self.lost,
            self.outcomes_twice,
            self.outcomes_invented,
            self.unexplained_starts,
            self.submitted_twice,
        ];
        counts.iter().sum::<usize>().saturating_add(crashes)
    }
}

/// The ledger, sorted by what is asked of it.
struct Book<'a> {
    intents: BTreeSet<&'a str>,
    submitted: BTreeSet<TaskId>,
    answered: HashMap<&'a str, HashSet<TaskId>>,
    rolled_back: HashSet<&'a str>,
    starts: Vec<(TaskId, i64)>,
    started: HashSet<TaskId>,
    outputs: HashMap<(TaskId, i64), &'a str>,
    told: HashMap<TaskId, HashSet<Option<&'a str>>>,
}

impl<'a> Book<'a> {
    fn new(lines: &'a [Line]) -> Book<'a> {
        let mut book = Book {
            intents: BTreeSet::new(),
            submitted: BTreeSet::new(),
            answered: HashMap::new(),
            rolled_back: HashSet::new(),
            starts: Vec::new(),
            started: HashSet::new(),
            outputs: HashMap::new(),
            told: HashMap::new(),
        };
        lines.iter().for_each(|line| book.enter(line));
        book
    }

    fn enter(&mut self, line: &'a Line) {
        match line {
            Line::Intent { label } => {
                self.intents.insert(label);
            }
            Line::Submitted { label, id } => {
                self.submitted.insert(*id);
                self.answered.entry(label).or_default().insert(*id);
            }
            Line::Doubtful { .. } => {}
            Line::RolledBack { label } => {
                self.rolled_back.insert(label);
            }
            Line::Told { id, output } => {
                self.told.entry(*id).or_default().insert(output.as_deref());
            }
            Line::Started(execution) => {
                self.starts.push((execution.task, execution.fence));
                self.started.insert(execution.task);
            }
            Line::Ended {
                execution,
                output: Some(output),
            } => {
                self.outputs
                    .insert((execution.task, execution.fence), output);
            }
            Line::Ended { output: None, .. } => {}
        }
    }

    /// Labels whose submit was neither answered with Ok nor rolled back.
    fn doubt(&self) -> Vec<&'a str> {
        let known =
            |label: &&str| self.answered.contains_key(*label) || self.rolled_back.contains(*label);
        self.intents
            .iter()
            .copied()
            .filter(|label| !known(label))
            .collect()
    }
}

/// Counts violations and keeps the first of each kind.
struct Court<'a> {
    book: &'a Book<'a>,
    facts: &'a Facts,
    complaints: Vec<String>,
}

/// Complaints of one kind that are kept.
const KEPT: usize = 10;

impl Court<'_> {
    fn count(&mut self, found: Vec<String>) -> usize {
        let n = found.len();
        self.complaints.extend(found.into_iter().take(KEPT));
        n
    }

    fn lost(&mut self, by_id: &HashMap<TaskId, &Finished>) -> usize {
        let gone = self
            .book
            .submitted
            .iter()
            .filter(|id| !by_id.contains_key(*id));
        let gone: HashSet<TaskId> = gone
            .copied()
            .chain(self.facts.live.iter().copied())
            .collect();
        let live: HashSet<TaskId> = self.facts.live.iter().copied().collect();
        let text = |id: TaskId| match live.contains(&id) {
            true => format!("task {id} was still live when all should have come to rest"),
            false => format!("task {id} was submitted and is nowhere"),
        };
        self.count(gone.into_iter().map(text).collect())
    }

    fn outcomes_twice(&mut self, by_id: &HashMap<TaskId, &Finished>) -> usize {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        for row in &self.facts.history {
            if !seen.insert(row.id) {
                found.push(format!("task {} has two rows in the history", row.id));
            }
        }
        for id in self.facts.live.iter().filter(|id| by_id.contains_key(*id)) {
            found.push(format!("task {id} is live and finished"));
        }
        for (task, fence, reason) in &self.facts.attempts {
            if by_id.get(task).is_some_and(|row| row.fence == *fence) {
                found.push(format!(
                    "claim {fence} of task {task} ended it and was {reason} too"
                ));
            }
        }
        for (id, outputs) in &self.book.told {
            let recorded = by_id.get(id).map(|row| row.output.as_deref());
            if outputs.iter().any(|output| Some(*output) != recorded) {
                found.push(format!(
                    "callers were told {outputs:?} of task {id}, and {recorded:?} is recorded"
                ));
            }
        }
        self.count(found)
    }

    fn outcomes_invented(&mut self) -> usize {
        let mut found = Vec::new();
        for row in self
            .facts
            .history
            .iter()
            .filter(|row| row.state == TaskState::Succeeded)
        {
            let given = self.book.outputs.get(&(row.id, row.fence)).copied();
            if given != row.output.as_deref() {
                found.push(format!(
                    "task {}: claim {} gave {given:?}, recorded is {:?}",
                    row.id, row.fence, row.output
                ));
            }
        }
        self.count(found)
    }

    fn unexplained_starts(&mut self, by_id: &HashMap<TaskId, &Finished>) -> usize {
        let ended: HashSet<(TaskId, i64)> = self
            .facts
            .attempts
            .iter()
            .map(|(id, fence, _)| (*id, *fence))
            .collect();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for start @ (task, fence) in &self.book.starts {
            let last = by_id.get(task).is_some_and(|row| row.fence == *fence);
            if !seen.insert(*start) {
                found.push(format!("claim {fence} of task {task} was started twice"));
            } else if !last && !ended.contains(start) {
                let outcome = by_id.get(task).map(|row| row.fence);
                found.push(format!("claim {fence} of task {task} was started, has no end, and the outcome is of {outcome:?}"));
            }
        }
        self.count(found)
    }

    fn submitted_twice(&mut self) -> usize {
        let mut carriers: HashMap<&str, HashSet<TaskId>> = HashMap::new();
        for row in &self.facts.history {
            carriers.entry(&row.label).or_default().insert(row.id);
        }
        for (label, ids) in &self.book.answered {
            carriers.entry(label).or_default().extend(ids);
        }
        let mut found = Vec::new();
        for (label, ids) in &carriers {
            if ids.len() > 1 {
                found.push(format!("{label:?} is carried by {} tasks", ids.len()));
            }
            if self.book.rolled_back.contains(label) {
                found.push(format!("{label:?} was rolled back and exists"));
            }
        }
        self.count(found)
    }
}

#[cfg(test)]
mod tests;
