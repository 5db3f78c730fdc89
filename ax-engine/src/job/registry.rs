//! The jobs a node can run.
//!
//! Enters: definitions, linked in or added by hand. Leaves: one resolved job per name or alias. Two jobs that claim one name
//! are refused with both places, because a task row carries nothing but the name. Nothing here changes after start-up.

use std::collections::HashMap;
use std::time::Duration;

use ax_core::{Cron, Error, ErrorKind, JobName, Misfire, Overlap, Priority, RetryPolicy};

use super::{Handler, JobDef, JobEntry, ScheduleDef, States, TriggerDef};

/// The jobs of one engine, by name and alias.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    jobs: Vec<RegisteredJob>,
    by_name: HashMap<&'static str, usize>,
}

/// A job with its texts resolved into policies.
#[derive(Clone, Debug)]
pub struct RegisteredJob {
    /// The definition as it was written.
    pub def: JobDef,
    /// The name that stands in new tasks.
    pub name: JobName,
    /// Retries and the waits between them; a task may carry its own number of retries.
    pub retry: RetryPolicy,
    /// Longest time of one attempt; a task may carry its own.
    pub timeout: Option<Duration>,
    /// Which pool runs it.
    pub kind: JobKind,
}

/// Which pool runs a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// The async slots.
    Async,
    /// The threads for blocking code.
    Blocking,
}

impl Registry {
    /// A registry without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// All jobs that are linked into the program, in the order of their names.
    ///
    /// A library that `main` never names is not linked at all, and its jobs are then not here.
    pub fn discovered() -> Result<Self, Error> {
        let mut linked: Vec<JobDef> = inventory::iter::<JobEntry>
            .into_iter()
            .map(|entry| entry.0)
            .collect();
        linked.sort_unstable_by_key(|def| (def.name, def.file, def.line));
        let mut registry = Self::new();
        for def in linked {
            registry.add(def)?;
        }
        Ok(registry)
    }

    /// Adds a job; the same definition twice is once.
    ///
    /// Refused with `Invalid`: a name or alias that another job has, and texts that do not parse.
    pub fn add(&mut self, def: JobDef) -> Result<(), Error> {
        let job = RegisteredJob::resolve(def)?;
        if let Some(known) = self.get(def.name)
            && is_same(&known.def, &def)
        {
            return Ok(());
        }
        for name in all_names(&def) {
            if let Some(known) = self.get(name) {
                return Err(name_taken(name, &known.def, &def));
            }
        }
        self.check_schedule_names(&def)?;
        let index = self.jobs.len();
        self.by_name
            .extend(all_names(&def).map(|name| (name, index)));
        self.jobs.push(job);
        Ok(())
    }

    fn check_schedule_names(&self, def: &JobDef) -> Result<(), Error> {
        for (name, _) in def.named_schedules() {
            let same = |other: &JobDef| {
                other
                    .named_schedules()
                    .filter(|(taken, _)| *taken == name)
                    .count()
            };
            let known = self
                .jobs
                .iter()
                .find(|job| same(&job.def) > 0)
                .map(|job| &job.def);
            if let Some(other) = known.or((same(def) > 1).then_some(def)) {
                return Err(schedule_name_taken(&name, other, def));
            }
        }
        Ok(())
    }

    /// The job that runs tasks of this name; aliases resolve.
    pub fn get(&self, name: &str) -> Option<&RegisteredJob> {
        self.by_name.get(name).map(|index| &self.jobs[*index])
    }

    /// The names of the jobs, without aliases, in the order they were added.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.jobs.iter().map(|job| job.def.name)
    }

    /// Every name a task row may carry for this node: names and aliases.
    pub fn names_and_aliases(&self) -> impl Iterator<Item = &'static str> {
        self.jobs.iter().flat_map(|job| all_names(&job.def))
    }

    /// The jobs, in the order they were added.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &RegisteredJob> {
        self.jobs.iter()
    }

    /// Asks every job whether the states it needs are there; one `Invalid` error names all that miss something.
    pub fn check(&self, states: &States) -> Result<(), Error> {
        let missing: Vec<String> = self
            .jobs
            .iter()
            .filter_map(|job| missing_state(&job.def, states))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Invalid, missing.join("; ")))
        }
    }
}

impl RegisteredJob {
    fn resolve(def: JobDef) -> Result<Self, Error> {
        Self::resolve_texts(def).map_err(|error| {
            Error::new(
                ErrorKind::Invalid,
                format!("job `{}` ({}): {error}", def.name, place(&def)),
            )
        })
    }

    fn resolve_texts(def: JobDef) -> Result<Self, Error> {
        let name = JobName::new(def.name)?;
        for alias in def.aliases {
            JobName::new(alias)?;
        }
        Priority::new(def.priority)?;
        for schedule in def.schedules {
            check_schedule(schedule)?;
        }
        let mut retry = def
            .backoff
            .map_or_else(|| Ok(RetryPolicy::default()), str::parse)?;
        if let Some(max_retries) = def.max_retries {
            retry.max_retries = max_retries;
        }
        retry.validate()?;
        let timeout = def.timeout_ms.map(Duration::from_millis);
        let kind = match def.handler {
            Handler::Async(_) => JobKind::Async,
            Handler::Blocking(_) => JobKind::Blocking,
        };
        Ok(Self {
            def,
            name,
            retry,
            timeout,
            kind,
        })
    }
}

fn check_schedule(schedule: &ScheduleDef) -> Result<(), Error> {
    schedule.misfire.parse::<Misfire>()?;
    schedule.overlap.parse::<Overlap>()?;
    match schedule.trigger {
        TriggerDef::Cron { text, zone } => Cron::parse(text, zone).map(|_| ()),
        TriggerDef::Every { ms: 0 } | TriggerDef::FixedDelay { ms: 0 } => Err(Error::new(
            ErrorKind::Invalid,
            "a schedule needs an interval greater than zero",
        )),
        TriggerDef::Every { .. } | TriggerDef::FixedDelay { .. } => Ok(()),
    }
}

fn all_names(def: &JobDef) -> impl Iterator<Item = &'static str> + use<> {
    std::iter::once(def.name).chain(def.aliases.iter().copied())
}

fn is_same(known: &JobDef, new: &JobDef) -> bool {
    (known.name, known.file, known.line) == (new.name, new.file, new.line)
}

fn place(def: &JobDef) -> String {
    format!("{}:{}", def.file, def.line)
}

fn name_taken(name: &str, known: &JobDef, new: &JobDef) -> Error {
    let text = format!(
        "two jobs answer to the name `{name}`: one at {}, one at {}; give one of them another name with \
         `#[ax_job(name = \"…\")]`",
        place(known),
        place(new)
    );
    Error::new(ErrorKind::Invalid, text)
}

fn schedule_name_taken(name: &str, known: &JobDef, new: &JobDef) -> Error {
    let text = format!(
        "two schedules have the name `{name}`: one of the job at {}, one of the job at {}; give one of them another name \
         with `#[ax_schedule(name = \"…\", …)]`",
        place(known),
        place(new)
    );
    Error::new(ErrorKind::Invalid, text)
}

fn missing_state(def: &JobDef, states: &States) -> Option<String> {
    let missing = (def.check)(states).err()?;
    Some(format!("job `{}` ({}): {missing}", def.name, place(def)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{FromJob, State};
    use ax_core::OnLost;

    fn def(name: &'static str, line: u32) -> JobDef {
        JobDef {
            name,
            aliases: &[],
            max_retries: None,
            backoff: None,
            timeout_ms: None,
            priority: 5,
            on_lost: OnLost::Retry,
            delay_ms: None,
            schedules: &[],
            check: |_| Ok(()),
            handler: Handler::Blocking(|_| Ok("null".into())),
            file: "src/jobs.rs",
            line,
        }
    }

    fn refused(registry: &mut Registry, def: JobDef) -> String {
        let error = registry.add(def).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    }

    #[test]
    fn aliases_resolve_to_the_job() {
        let mut registry = Registry::new();
        registry
            .add(JobDef {
                aliases: &["close_order"],
                ..def("order.close", 1)
            })
            .unwrap();
        assert_eq!(
            registry.get("close_order").unwrap().name.as_str(),
            "order.close"
        );
        assert_eq!(registry.names().collect::<Vec<_>>(), ["order.close"]);
        assert_eq!(
            registry.names_and_aliases().collect::<Vec<_>>(),
            ["order.close", "close_order"]
        );
        assert!(registry.get("other").is_none());
    }

    #[test]
    fn two_jobs_of_one_name_are_refused_with_both_places() {
        let mut registry = Registry::new();
        registry
            .add(JobDef {
                aliases: &["pay"],
                ..def("pay.charge", 3)
            })
            .unwrap();
        let text = refused(&mut registry, def("pay.charge", 9));
        assert!(
            text.contains("src/jobs.rs:3") && text.contains("src/jobs.rs:9"),
            "{text}"
        );
        let text = refused(
            &mut registry,
            JobDef {
                aliases: &["pay"],
                ..def("pay.refund", 12)
            },
        );
        assert!(text.contains("`pay`"), "{text}");
        assert_eq!(registry.jobs().len(), 1);
    }

    #[test]
    fn the_same_definition_twice_is_once() {
        let mut registry = Registry::new();
        registry.add(def("a", 1)).unwrap();
        registry.add(def("a", 1)).unwrap();
        assert_eq!(registry.jobs().len(), 1);
    }

    #[test]
    fn texts_of_a_definition_are_resolved_or_refused() {
        let mut registry = Registry::new();
        let good = JobDef {
            max_retries: Some(7),
            backoff: Some("exponential 1s x2 max 10m"),
            timeout_ms: Some(30_000),
            ..def("good", 1)
        };
        registry.add(good).unwrap();
        let job = registry.get("good").unwrap();
        assert_eq!(
            (job.retry.max_retries, job.timeout),
            (7, Some(Duration::from_secs(30)))
        );
        assert_eq!(job.retry.delay(3, 0.5), Duration::from_secs(4));

        let text = refused(
            &mut registry,
            JobDef {
                backoff: Some("linear"),
                ..def("bad", 2)
            },
        );
        assert!(text.contains("job `bad` (src/jobs.rs:2)"), "{text}");
        refused(
            &mut registry,
            JobDef {
                priority: 10,
                ..def("bad", 2)
            },
        );
        refused(&mut registry, def("", 2));
        const NEVER: &[ScheduleDef] = &[ScheduleDef {
            name: None,
            trigger: TriggerDef::Every { ms: 0 },
            misfire: "fire_once",
            overlap: "skip",
        }];
        refused(
            &mut registry,
            JobDef {
                schedules: NEVER,
                ..def("bad", 2)
            },
        );
    }

    #[test]
    fn a_missing_state_names_the_job_and_the_type() {
        let mut registry = Registry::new();
        registry
            .add(JobDef {
                check: <State<u64> as FromJob>::check,
                ..def("order.close", 4)
            })
            .unwrap();
        let mut states = States::new();
        states.insert("text");
        let error = registry.check(&states).unwrap_err().to_string();
        assert!(
            error.contains("job `order.close` (src/jobs.rs:4): State<u64> is missing"),
            "{error}"
        );
        assert!(error.contains("it holds &str"), "{error}");
        states.insert(7_u64);
        registry.check(&states).unwrap();
    }

    #[test]
    fn two_schedules_of_one_name_are_refused() {
        const TICK: ScheduleDef = ScheduleDef {
            name: Some("nightly"),
            trigger: TriggerDef::Every { ms: 1000 },
            misfire: "fire_once",
            overlap: "skip",
        };
        let mut registry = Registry::new();
        registry
            .add(JobDef {
                schedules: &[TICK],
                ..def("a", 1)
            })
            .unwrap();
        assert!(
            refused(
                &mut registry,
                JobDef {
                    schedules: &[TICK],
                    ..def("b", 2)
                }
            )
            .contains("`nightly`")
        );
        assert!(
            refused(
                &mut Registry::new(),
                JobDef {
                    schedules: &[TICK, TICK],
                    ..def("c", 3)
                }
            )
            .contains("`nightly`")
        );
    }

    #[test]
    fn schedules_are_named_after_the_job() {
        const TICK: ScheduleDef = ScheduleDef {
            name: None,
            trigger: TriggerDef::Every { ms: 1000 },
            misfire: "fire_once",
            overlap: "skip",
        };
        const TICKS: &[ScheduleDef] = &[
            TICK,
            ScheduleDef {
                name: Some("own"),
                ..TICK
            },
            TICK,
        ];
        let def = JobDef {
            schedules: TICKS,
            ..def("report", 1)
        };
        let names: Vec<_> = def.named_schedules().map(|(name, _)| name).collect();
        assert_eq!(names, ["report", "own", "report#3"]);
    }
}
