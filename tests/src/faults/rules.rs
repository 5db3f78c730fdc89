//! Which fault strikes where, how often; and the state of the network as a whole.
//!
//! What enters: rules of a test. What leaves: for each call the fault that strikes it, if any. Rules are used up in the
//! order in which they were given.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ax_engine::db::{DbErrorKind, Lane};
use ax_engine::store::Sql;
use tokio::sync::watch;

use super::{PATIENCE, until};

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A statement, in a transaction or outside of one.
    Statement(Sql),
    /// The begin of a transaction.
    Begin(Lane),
    /// The commit of a transaction in which this statement was sent.
    CommitOf(Sql),
}

/// What happens to one call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing of it takes place. A commit is rolled back; with [`DbErrorKind::Lost`] the connection is gone too.
    Refuse(DbErrorKind),
    /// It takes place; the connection is gone before the answer comes.
    LoseAnswer,
    /// The same, but the caller hears of it only when the gate opens.
    LoseAnswerAt(Gate),
    /// It is sent when the gate opens.
    Hold(Gate),
    /// It takes place, and the answer comes when the gate opens.
    HoldAnswer(Gate),
    /// The caller hears at once that the connection is gone, and it takes place when the gate opens.
    Overtake(Gate),
}

/// What the network is like, for all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Calls get through.
    Fair,
    /// Every call fails at once.
    Cut,
    /// No call is answered until this is over; then its connection is gone.
    Silent,
}

#[derive(Debug)]
struct Rule {
    point: Point,
    left: usize,
    fault: Fault,
}

/// The rules of one node's database. Clones are the same rules.
#[derive(Clone, Debug)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    weather: watch::Sender<Weather>,
    skew: AtomicI64,
}

impl Default for Faults {
    fn default() -> Faults {
        let weather = watch::Sender::new(Weather::Fair);
        Faults {
            shared: Arc::new(Shared {
                rules: Mutex::default(),
                weather,
                skew: AtomicI64::new(0),
            }),
        }
    }
}

impl Faults {
    /// The next `times` calls at this point meet the fault.
    pub fn strike(&self, point: Point, times: usize, fault: Fault) {
        self.rules().push(Rule {
            point,
            left: times,
            fault,
        });
    }

    /// How many strikes have not come yet.
    pub fn left(&self) -> usize {
        self.rules().iter().map(|rule| rule.left).sum()
    }

    /// Waits until every strike has come.
    ///
    /// # Panics
    /// When one does not come.
    pub async fn used_up(&self) {
        until("the last fault", async || (self.left() == 0).then_some(())).await;
    }

    /// Changes the weather.
    pub fn set_weather(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    /// From now on the node is told a time that is off by this many milliseconds, while the database's guards go by the
    /// real one.
    pub fn skew(&self, millis: i64) {
        self.shared.skew.store(millis, Ordering::Relaxed);
    }

    pub(super) fn skewed_by(&self) -> i64 {
        self.shared.skew.load(Ordering::Relaxed)
    }

    /// The fault that strikes a call at one of the points where it is.
    pub(super) fn take(&self, is_at: impl Fn(Point) -> bool) -> Option<Fault> {
        let mut rules = self.rules();
        let rule = rules
            .iter_mut()
            .find(|rule| rule.left > 0 && is_at(rule.point))?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }

    /// Comes through in fair weather; else says what is wrong, and in a silence only when that is over.
    pub(super) async fn come_through(&self) -> Result<(), Weather> {
        let mut weather = self.shared.weather.subscribe();
        let now = *weather.borrow_and_update();
        match now {
            Weather::Fair => Ok(()),
            Weather::Cut => Err(Weather::Cut),
            Weather::Silent => {
                // The sender lives as long as `self`.
                let _over = weather
                    .wait_for(|weather| *weather != Weather::Silent)
                    .await;
                Err(Weather::Silent)
            }
        }
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.shared
            .rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a held call waits at. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    shared: Arc<GateState>,
}

#[derive(Debug)]
struct GateState {
    waiting: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Default for GateState {
    fn default() -> GateState {
        GateState {
            waiting: watch::Sender::new(0),
            open: watch::Sender::new(false),
        }
    }
}

impl Gate {
    /// Waits until a call has come to the gate.
    ///
    /// # Panics
    /// When none comes.
    pub async fn reached(&self) {
        let mut waiting = self.shared.waiting.subscribe();
        let reached = waiting.wait_for(|calls| *calls > 0);
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "no call came to the gate");
    }

    /// Lets all calls go on, also those to come.
    pub fn open(&self) {
        self.shared.open.send_replace(true);
    }

    pub(super) async fn pass(&self) {
        self.shared.waiting.send_modify(|calls| *calls += 1);
        let mut open = self.shared.open.subscribe();
        // The sender lives as long as `self`.
        let _open = open.wait_for(|open| *open).await;
    }
}
