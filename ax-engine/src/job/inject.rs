//! Parameters that do not come from the payload: the attempt itself and the values of the host.
//!
//! Enters: the values given to the builder, once. Leaves: clones of them, per attempt. A missing value is found at
//! start-up by [`FromJob::check`], so that no task has to fail to tell about it.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use ax_core::JobError;

use super::{JobCall, JobContext};

/// A parameter of a job that is made from the attempt instead of the payload.
///
/// Implement it for an own type and mark the parameter `#[ax(inject)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be injected into a job",
    label = "no `FromJob` for this type",
    note = "implement `ax_sdk::FromJob` for `{Self}`, or ask for `State<{Self}>` and give the value to the builder with `.state(value)`",
    note = "a parameter that is part of the payload needs no `#[ax(inject)]`"
)]
pub trait FromJob: Sized {
    /// Makes the parameter for one attempt; an error is the outcome of the attempt.
    fn from_job(call: &JobCall) -> Result<Self, JobError>;

    /// Called once at start-up: the text says what is missing and how to give it.
    fn check(_states: &States) -> Result<(), String> {
        Ok(())
    }
}

impl FromJob for JobContext {
    fn from_job(call: &JobCall) -> Result<Self, JobError> {
        Ok(call.context.clone())
    }
}

/// A value of the host, given to the builder with `.state(value)` and cloned for every attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for State<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Clone + Send + Sync + 'static> FromJob for State<T> {
    fn from_job(call: &JobCall) -> Result<Self, JobError> {
        let states = call.context.states();
        let missing = || JobError::msg(states.missing::<T>()).terminal();
        states.get::<T>().cloned().map(State).ok_or_else(missing)
    }

    fn check(states: &States) -> Result<(), String> {
        states
            .get::<T>()
            .map(|_| ())
            .ok_or_else(|| states.missing::<T>())
    }
}

/// The values given to the builder, at most one per type.
#[derive(Default)]
pub struct States {
    by_type: BTreeMap<TypeId, Held>,
}

struct Held {
    name: &'static str,
    value: Box<dyn Any + Send + Sync>,
}

impl States {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; one of the same type is replaced.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let held = Held {
            name: type_name::<T>(),
            value: Box::new(value),
        };
        self.by_type.insert(TypeId::of::<T>(), held);
    }

    /// The value of a type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.by_type.get(&TypeId::of::<T>())?.value.downcast_ref()
    }

    /// The names of the types that are held, for messages.
    pub fn type_names(&self) -> impl Iterator<Item = &'static str> {
        self.by_type.values().map(|held| held.name)
    }

    fn missing<T>(&self) -> String {
        let wanted = type_name::<T>();
        let mut held: Vec<_> = self.type_names().collect();
        held.sort_unstable();
        let held = if held.is_empty() {
            "it holds none".to_owned()
        } else {
            format!("it holds {}", held.join(", "))
        };
        format!(
            "State<{wanted}> is missing: give the value to the builder with `.state(value)` ({held})"
        )
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.type_names()).finish()
    }
}
