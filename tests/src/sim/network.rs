//! The network between the processes and the server, and the server's end of each connection.
//!
//! Enters: requests, outages, cuts. Leaves: what a request did at the server. It knows who is cut off and closes what breaks;
//! how long a request is on its way is the business of the connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ax_engine::db::{DbError, DbErrorKind, DbResult, Statement, Value};
use ax_engine::store::Sql;

use super::columns::id_opt;
use super::executor::{Place, Process, WORLD};
use super::server::{Pace, Server};
use super::statements::{self, Answer};
use super::tables::Tx;
use super::trace::{Event, Trace};
use super::weather::Weather;

/// Hears of trouble that a process has with the database.
pub(crate) trait Excuses: Send + Sync + 'static {
    /// A call of the heartbeat met trouble of its own.
    fn beat_troubled(&self, process: Process);
}

/// The network between the processes and the server.
pub(crate) struct Network {
    pub(crate) server: Arc<Server>,
    pub(crate) trace: Arc<Trace>,
    pub(super) weather: Mutex<Weather>,
    down: Mutex<Down>,
    pub(super) backends: Mutex<Vec<(Process, Weak<Mutex<Backend>>)>>,
    pub(super) excuses: Option<Arc<dyn Excuses>>,
}

/// Who cannot reach the server.
#[derive(Default)]
struct Down {
    all: bool,
    some: Vec<Process>,
}

/// The server's end of a connection.
#[derive(Default)]
pub(super) struct Backend {
    pub(super) tx: Option<Tx>,
    /// The transaction of the statement under way.
    at_work: Option<Tx>,
    pub(super) failed: bool,
    pub(super) busy: bool,
    pub(super) left: bool,
    pub(super) cut: bool,
    pub(super) closed: bool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    pub(crate) fn new(
        server: Arc<Server>,
        trace: Arc<Trace>,
        excuses: Option<Arc<dyn Excuses>>,
    ) -> Arc<Network> {
        Arc::new(Network {
            server,
            trace,
            weather: Mutex::new(Weather::calm()),
            down: Mutex::default(),
            backends: Mutex::default(),
            excuses,
        })
    }

    /// Changes the weather.
    pub(crate) fn set_weather(&self, weather: Weather) {
        *lock(&self.weather) = weather;
    }

    /// Nobody reaches the server until [`Network::up`]. Connections break; the server notices them at once.
    pub(crate) fn all_down(self: &Arc<Self>) {
        lock(&self.down).all = true;
        self.cut(None, Duration::ZERO);
    }

    /// One process does not reach the server until [`Network::up`]. The server notices after `unnoticed`.
    pub(crate) fn down(self: &Arc<Self>, process: Process, unnoticed: Duration) {
        lock(&self.down).some.push(process);
        self.cut(Some(process), unnoticed);
    }

    /// Everybody reaches the server again.
    pub(crate) fn up(&self) {
        *lock(&self.down) = Down::default();
    }

    /// One process reaches the server again.
    pub(crate) fn back(&self, process: Process) {
        lock(&self.down).some.retain(|down| *down != process);
    }

    pub(crate) fn everybody_is_back(&self) {
        lock(&self.down).all = false;
    }

    /// Breaks the connections of a process, or all: the server rolls their transactions back after `unnoticed`.
    pub(crate) fn cut(self: &Arc<Self>, process: Option<Process>, unnoticed: Duration) {
        let mut backends = lock(&self.backends);
        backends.retain(|(_, backend)| backend.strong_count() > 0);
        let hit = backends
            .iter()
            .filter(|(owner, _)| process.is_none_or(|process| process == *owner));
        let hit: Vec<_> = hit.filter_map(|(_, backend)| backend.upgrade()).collect();
        drop(backends);
        for backend in hit {
            lock(&backend).cut = true;
            let network = self.clone();
            match &self.server.pace {
                Pace::World(executor) if !unnoticed.is_zero() => {
                    let after = executor.sleep(unnoticed);
                    executor.spawn(Place::loops(WORLD), async move {
                        after.await;
                        network.close(&backend);
                    });
                }
                _ => network.close(&backend),
            }
        }
    }

    pub(super) fn is_down(&self, process: Process) -> bool {
        let down = lock(&self.down);
        down.all || down.some.contains(&process)
    }

    pub(super) fn is_down_for_all(&self) -> bool {
        lock(&self.down).all
    }

    /// Ends a backend and what it had not committed.
    pub(super) fn close(&self, backend: &Mutex<Backend>) {
        let mut backend = lock(backend);
        backend.cut = true;
        backend.closed = true;
        let open = [backend.tx.take(), backend.at_work.take()];
        drop(backend);
        open.into_iter()
            .flatten()
            .for_each(|tx| self.server.abort(tx));
    }

    /// How long a caller waits until it knows that nobody answers. Where all are cut off it is short, so that no caller
    /// hangs on beyond the outage.
    pub(super) fn hang(&self) -> Duration {
        let most = if self.is_down_for_all() { 500 } else { 2_500 };
        self.server.dice().millis(0, most)
    }

    pub(super) fn note(&self, event: Event) {
        if let Pace::World(executor) = &self.server.pace {
            self.trace.add(executor.micros(), event);
        }
    }

    /// Rolls back what a connection has open, as the victim of a deadlock.
    pub(super) fn refuse(&self, backend: &Mutex<Backend>) -> DbError {
        let mut backend = lock(backend);
        if let Some(tx) = backend.tx.take() {
            self.server.abort(tx);
            backend.failed = true;
        }
        DbError::new(DbErrorKind::Retry, "deadlock detected")
    }

    /// Does at the server what a request asks.
    pub(super) async fn serve(
        &self,
        process: Process,
        backend: &Mutex<Backend>,
        request: &Request,
    ) -> DbResult<Answer> {
        match request {
            Request::Begin => {
                let tx = self.server.begin(process);
                let former = lock(backend).tx.replace(tx);
                lock(backend).failed = false;
                former.into_iter().for_each(|tx| self.server.abort(tx));
                Ok(Answer::default())
            }
            Request::Commit => {
                let tx = settled(backend);
                self.note(Event::Commit { process });
                // A failed transaction answers a commit as if all were well, and has kept nothing.
                tx.map_or(Ok(()), |tx| self.server.commit(tx))
                    .map(|()| Answer::default())
            }
            Request::Rollback => {
                let tx = settled(backend);
                self.note(Event::Rollback { process });
                tx.into_iter().for_each(|tx| self.server.abort(tx));
                Ok(Answer::default())
            }
            Request::Statement(statement, values) => {
                self.statement(process, backend, statement, values).await
            }
        }
    }

    async fn statement(
        &self,
        process: Process,
        backend: &Mutex<Backend>,
        statement: &Statement,
        values: &[Value],
    ) -> DbResult<Answer> {
        let (open, failed) = {
            let backend = lock(backend);
            (backend.tx, backend.failed)
        };
        if failed {
            return Err(DbError::new(
                DbErrorKind::Other,
                "current transaction is aborted",
            ));
        }
        let tx = open.unwrap_or_else(|| self.server.begin(process));
        lock(backend).at_work = Some(tx);
        let result = statements::run(&self.server.desk(tx), statement, values).await;
        lock(backend).at_work = None;
        let result = match (result, open) {
            (Ok(answer), None) => self.server.commit(tx).map(|()| answer),
            (Ok(answer), Some(_)) => Ok(answer),
            (Err(error), open) => {
                self.server.abort(tx);
                let mut backend = lock(backend);
                backend.tx = None;
                backend.failed = open.is_some();
                Err(error)
            }
        };
        let touched = result.as_ref().map_or(u64::MAX, |answer| answer.touched);
        self.note(Event::Statement {
            process,
            sql: statement.sql,
            touched,
            about: about(statement.sql, values),
        });
        result
    }
}

/// The open transaction, which ends now.
fn settled(backend: &Mutex<Backend>) -> Option<Tx> {
    let mut backend = lock(backend);
    backend.failed = false;
    backend.tx.take()
}

/// The task that a statement is about, where it is about one.
fn about(sql: Sql, values: &[Value]) -> Option<[u8; 16]> {
    let at = match sql {
        Sql::InsertTasks
        | Sql::InsertMissing
        | Sql::LockTask
        | Sql::DeleteTask
        | Sql::InsertHistory => 0,
        Sql::InsertExecutions | Sql::ReadAttempt | Sql::DeleteLost => 0,
        Sql::DeleteSettled
        | Sql::ReadClaimed
        | Sql::MarkCancel
        | Sql::Reschedule
        | Sql::RequeueLost => 1,
        Sql::Claim | Sql::InsertBorn | Sql::MoveShard => 2,
        Sql::Requeue => 3,
        _ => return None,
    };
    values
        .get(at)
        .filter(|value| matches!(value, Value::Id(_)))
        .and_then(|_| id_opt(values, at))
}

/// What a connection asks of the server.
pub(super) enum Request {
    Begin,
    Commit,
    Rollback,
    Statement(&'static Statement, Vec<Value>),
}

impl Request {
    /// Whether the server may come to a request after its sender heard that the connection broke. An insert of its own that
    /// came so late would bring back a task that was sent again and has ended; what is inside a transaction cannot.
    pub(super) fn may_be_late(&self) -> bool {
        !matches!(self, Request::Statement(statement, _) if matches!(statement.sql, Sql::InsertTasks | Sql::InsertBorn))
    }
}
