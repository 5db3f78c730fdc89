//! What happened, in order: for the eye after a violation, and as one number for the proof that a seed repeats.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ax_engine::store::Sql;

use super::executor::Process;

/// One thing that happened.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Event {
    /// A statement took effect, or failed.
    Statement {
        process: Process,
        sql: Sql,
        touched: u64,
        about: Option<[u8; 16]>,
    },
    /// A transaction took effect.
    Commit { process: Process },
    /// A transaction was undone.
    Rollback { process: Process },
    /// A call got an error.
    Failed {
        process: Process,
        what: &'static str,
    },
    /// The world did something to a process.
    Fault {
        process: Process,
        what: &'static str,
        span_ms: i64,
    },
    /// A handler began.
    Started {
        process: Process,
        task: [u8; 16],
        fence: i64,
    },
    /// A handler ended.
    Ended {
        process: Process,
        task: [u8; 16],
        fence: i64,
        how: &'static str,
    },
    /// A caller asked for something.
    Asked {
        process: Process,
        what: &'static str,
        n: usize,
    },
    /// A caller got an answer.
    Answered {
        process: Process,
        n: usize,
        what: String,
    },
}

/// The last bytes of an id: the random ones.
struct Short([u8; 16]);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[12..]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An id as events print it.
pub(crate) fn short(id: &[u8; 16]) -> String {
    Short(*id).to_string()
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Statement {
                process,
                sql,
                touched,
                about,
            } => {
                write!(f, "p{process} {sql:?} -> {touched}")?;
                about.map_or(Ok(()), |id| write!(f, " ({})", Short(id)))
            }
            Event::Commit { process } => write!(f, "p{process} commit"),
            Event::Rollback { process } => write!(f, "p{process} rollback"),
            Event::Failed { process, what } => write!(f, "p{process} failed: {what}"),
            Event::Fault {
                process,
                what,
                span_ms,
            } => write!(f, "==> {what} p{process} {span_ms} ms"),
            Event::Started {
                process,
                task,
                fence,
            } => write!(f, "p{process} * starts {}:{fence}", Short(*task)),
            Event::Ended {
                process,
                task,
                fence,
                how,
            } => write!(f, "p{process} * ends {}:{fence} {how}", Short(*task)),
            Event::Asked { process, what, n } => write!(f, "p{process} ? {what} {n}"),
            Event::Answered { process, n, what } => write!(f, "p{process} ! {n} {what}"),
        }
    }
}

/// See the module.
pub(crate) struct Trace {
    kept: Mutex<Kept>,
    most: usize,
}

struct Kept {
    hasher: DefaultHasher,
    events: VecDeque<(i64, Event)>,
    count: u64,
    seen: BTreeMap<Seen, u64>,
}

/// What is counted: statements that touched rows, errors, faults, ends of handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Touched(Sql),
    Failed(&'static str),
    Fault(&'static str),
    Ended(&'static str),
}

impl Seen {
    fn of(event: &Event) -> Option<Seen> {
        match event {
            Event::Statement { sql, touched, .. } if (1..u64::MAX).contains(touched) => {
                Some(Seen::Touched(*sql))
            }
            Event::Failed { what, .. } => Some(Seen::Failed(what)),
            Event::Fault { what, .. } => Some(Seen::Fault(what)),
            Event::Ended { how, .. } => Some(Seen::Ended(how)),
            _ => None,
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Touched(sql) => write!(f, "{sql:?}"),
            Seen::Failed(what) => write!(f, "failed: {what}"),
            Seen::Fault(what) => write!(f, "fault: {what}"),
            Seen::Ended(how) => write!(f, "ended: {how}"),
        }
    }
}

impl Trace {
    /// Keeps the last `most` events for the eye.
    pub(crate) fn new(most: usize) -> Trace {
        Trace {
            kept: Mutex::new(Kept {
                hasher: DefaultHasher::new(),
                events: VecDeque::new(),
                count: 0,
                seen: BTreeMap::new(),
            }),
            most,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event that happened at `micros`.
    pub(crate) fn add(&self, micros: i64, event: Event) {
        let mut kept = self.kept();
        (micros, &event).hash(&mut kept.hasher);
        kept.count += 1;
        if let Some(seen) = Seen::of(&event) {
            *kept.seen.entry(seen).or_default() += 1;
        }
        if self.most == 0 {
            return;
        }
        if kept.events.len() == self.most {
            kept.events.pop_front();
        }
        kept.events.push_back((micros, event));
    }

    /// One number for all events so far.
    pub(crate) fn hash(&self) -> u64 {
        self.kept().hasher.finish()
    }

    /// How many events there were.
    pub(crate) fn count(&self) -> u64 {
        self.kept().count
    }

    /// How often each kind of thing happened.
    pub(crate) fn seen(&self) -> BTreeMap<String, u64> {
        self.kept()
            .seen
            .iter()
            .map(|(seen, n)| (seen.to_string(), *n))
            .collect()
    }

    /// The events that were kept, one a line.
    pub(crate) fn lines(&self) -> String {
        let kept = self.kept();
        let line =
            |(micros, event): &(i64, Event)| format!("{:>12.6} {event}\n", *micros as f64 / 1e6);
        kept.events.iter().map(line).collect()
    }
}
