//! Job names as small numbers, and where each goes.
//!
//! The wheel holds millions of entries, so an entry carries a number instead of a name. Names that this node has not
//! registered get numbers too: their time is triggered here, and their rows then move to a node that knows them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use ax_core::Namespace;

use crate::job::{JobKind, Registry};

/// Where tasks of a job go once they are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// To the slots of this kind.
    Run(JobKind),
    /// To a node that has the job: this one has not, or does not execute.
    Elsewhere,
}

/// Numbers for job names.
pub struct Routes {
    namespace: Namespace,
    table: RwLock<Table>,
    here: HashMap<Arc<str>, JobKind>,
}

#[derive(Default)]
struct Table {
    numbers: HashMap<(Arc<str>, Arc<str>), u32>,
    entries: Vec<Entry>,
}

struct Entry {
    namespace: Arc<str>,
    job: Arc<str>,
    route: Route,
}

/// Whether a node runs what it triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executing {
    /// It runs the jobs it has registered.
    Registered,
    /// It runs nothing and hands everything on.
    Nothing,
}

impl Routes {
    /// The routes of a node with these jobs.
    pub fn new(namespace: Namespace, registry: &Registry, executing: Executing) -> Routes {
        let mut here = HashMap::new();
        if executing == Executing::Registered {
            for name in registry.names_and_aliases() {
                if let Some(job) = registry.get(name) {
                    here.insert(Arc::from(name), job.kind);
                }
            }
        }
        Routes {
            namespace,
            table: RwLock::default(),
            here,
        }
    }

    /// The number of a job; made on first sight.
    pub fn number(&self, namespace: &str, job: &str) -> u32 {
        let key = (Arc::<str>::from(namespace), Arc::<str>::from(job));
        if let Some(number) = self
            .table
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .numbers
            .get(&key)
        {
            return *number;
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = table.numbers.get(&key) {
            return *number;
        }
        let number = u32::try_from(table.entries.len()).unwrap_or(u32::MAX);
        let route = self.route_of(namespace, job);
        table.entries.push(Entry {
            namespace: key.0.clone(),
            job: key.1.clone(),
            route,
        });
        table.numbers.insert(key, number);
        number
    }

    /// Where tasks of this number go.
    pub fn route(&self, number: u32) -> Route {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table
            .entries
            .get(number as usize)
            .map_or(Route::Elsewhere, |e| e.route)
    }

    /// The namespace and name behind a number.
    pub fn name(&self, number: u32) -> Option<(Arc<str>, Arc<str>)> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table
            .entries
            .get(number as usize)
            .map(|e| (e.namespace.clone(), e.job.clone()))
    }

    fn route_of(&self, namespace: &str, job: &str) -> Route {
        match self.here.get(job) {
            Some(kind) if namespace == self.namespace.as_str() => Route::Run(*kind),
            _ => Route::Elsewhere,
        }
    }
}
