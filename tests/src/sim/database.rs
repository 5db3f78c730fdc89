//! The simulated database as an engine sees it: connections that take time and break.
//!
//! A call travels to the server, takes effect there, and its answer travels back; both ways take time, so that others act
//! in between. What was sent takes effect whatever becomes of the sender: a frozen process finds the answer when it goes
//! on, a killed one never. A connection that breaks inside a transaction leaves it rolled back, at once or, behind a dead
//! network, some time later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ax_engine::db::{Connection, Database, DbError, DbErrorKind, DbResult, Lane, Row, Statement, Value};
use ax_engine::store::{Dialect, POSTGRES, Sql};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::columns::id_opt;
use super::executor::{Executor, Place, Process, WORLD};
use super::mutation::Mutation;
use super::server::{Pace, Server};
use super::statements::{self, Answer};
use super::tables::Tx;
use super::trace::{Event, Trace};
use super::weather::{Fate, Weather};

/// A call slower than this on the heartbeat's lane excuses a late heartbeat.
const SLOW: Duration = Duration::from_millis(300);

/// Hears of trouble that a process has with the database.
pub(crate) trait Excuses: Send + Sync + 'static {
    /// A call of the heartbeat met trouble of its own.
    fn beat_troubled(&self, process: Process);
}

/// The network between the processes and the server.
pub(crate) struct Network {
    pub(crate) server: Arc<Server>,
    pub(crate) trace: Arc<Trace>,
    weather: Mutex<Weather>,
    down: Mutex<Down>,
    backends: Mutex<Vec<(Process, Weak<Mutex<Backend>>)>>,
    excuses: Option<Arc<dyn Excuses>>,
}

/// Who cannot reach the server.
#[derive(Default)]
struct Down {
    all: bool,
    some: Vec<Process>,
}

/// The server's end of a connection.
#[derive(Default)]
struct Backend {
    tx: Option<Tx>,
    /// The transaction of the statement under way.
    at_work: Option<Tx>,
    failed: bool,
    busy: bool,
    left: bool,
    cut: bool,
    closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    pub(crate) fn new(server: Arc<Server>, trace: Arc<Trace>, excuses: Option<Arc<dyn Excuses>>) -> Arc<Network> {
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
        let hit = backends.iter().filter(|(owner, _)| process.is_none_or(|process| process == *owner));
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

    fn is_down(&self, process: Process) -> bool {
        let down = lock(&self.down);
        down.all || down.some.contains(&process)
    }

    fn is_down_for_all(&self) -> bool {
        lock(&self.down).all
    }

    /// Ends a backend and what it had not committed.
    fn close(&self, backend: &Mutex<Backend>) {
        let mut backend = lock(backend);
        backend.cut = true;
        backend.closed = true;
        let open = [backend.tx.take(), backend.at_work.take()];
        drop(backend);
        open.into_iter().flatten().for_each(|tx| self.server.abort(tx));
    }

    /// How long a caller waits until it knows that nobody answers. Where all are cut off it is short, so that no caller
    /// hangs on beyond the outage.
    fn hang(&self) -> Duration {
        let most = if self.is_down_for_all() { 500 } else { 2_500 };
        self.server.dice().millis(0, most)
    }

    fn note(&self, event: Event) {
        if let Pace::World(executor) = &self.server.pace {
            self.trace.add(executor.micros(), event);
        }
    }

    /// Does at the server what a request asks.
    async fn serve(&self, process: Process, backend: &Mutex<Backend>, request: &Request) -> DbResult<Answer> {
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
                tx.map_or(Ok(()), |tx| self.server.commit(tx)).map(|()| Answer::default())
            }
            Request::Rollback => {
                let tx = settled(backend);
                self.note(Event::Rollback { process });
                tx.into_iter().for_each(|tx| self.server.abort(tx));
                Ok(Answer::default())
            }
            Request::Statement(statement, values) => self.statement(process, backend, statement, values).await,
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
            return Err(DbError::new(DbErrorKind::Other, "current transaction is aborted"));
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
        self.note(Event::Statement { process, sql: statement.sql, touched, about: about(statement.sql, values) });
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
        Sql::InsertTasks | Sql::InsertMissing | Sql::LockTask | Sql::DeleteTask | Sql::InsertHistory => 0,
        Sql::InsertExecutions | Sql::ReadAttempt | Sql::DeleteLost => 0,
        Sql::DeleteSettled | Sql::ReadClaimed | Sql::MarkCancel | Sql::Reschedule | Sql::RequeueLost => 1,
        Sql::Claim | Sql::InsertBorn | Sql::MoveShard => 2,
        Sql::Requeue => 3,
        _ => return None,
    };
    values.get(at).filter(|value| matches!(value, Value::Id(_))).and_then(|_| id_opt(values, at))
}

/// What a connection asks of the server.
enum Request {
    Begin,
    Commit,
    Rollback,
    Statement(&'static Statement, Vec<Value>),
}

impl Request {
    /// Whether the server may come to a request after its sender heard that the connection broke. An insert of its own that
    /// came so late would bring back a task that was sent again and has ended; what is inside a transaction cannot.
    fn may_be_late(&self) -> bool {
        !matches!(self, Request::Statement(statement, _) if matches!(statement.sql, Sql::InsertTasks | Sql::InsertBorn))
    }
}

/// The database of one process.
pub(crate) struct SimDatabase {
    pub(crate) network: Arc<Network>,
    pub(crate) process: Process,
}

impl Database for SimDatabase {
    fn dialect(&self) -> &'static Dialect {
        &POSTGRES
    }

    fn acquire(&self, lane: Lane) -> BoxFuture<'_, DbResult<Box<dyn Connection>>> {
        Box::pin(async move {
            let network = &self.network;
            let mut backend = Backend::default();
            if let Pace::World(executor) = &network.server.pace {
                if network.is_down(self.process) {
                    executor.sleep(network.hang()).await;
                    return Err(DbError::new(DbErrorKind::Unreachable, "the database cannot be reached"));
                }
                let stale = lock(&network.weather).stale;
                backend.cut = network.server.dice().chance(stale);
            }
            let backend = Arc::new(Mutex::new(backend));
            let mut backends = lock(&network.backends);
            if backends.len() >= 256 {
                backends.retain(|(_, backend)| backend.strong_count() > 0);
            }
            backends.push((self.process, Arc::downgrade(&backend)));
            let connection = SimConnection { network: network.clone(), process: self.process, lane, backend };
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        match &self.network.server.pace {
            Pace::World(executor) => Box::pin(executor.sleep(span)),
            Pace::Host => Box::pin(tokio::task::yield_now()),
        }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// One connection; see the module.
struct SimConnection {
    network: Arc<Network>,
    process: Process,
    lane: Lane,
    backend: Arc<Mutex<Backend>>,
}

impl SimConnection {
    async fn call(&self, request: Request) -> DbResult<Answer> {
        match &self.network.server.pace {
            Pace::World(executor) => self.travel(executor, request).await,
            Pace::Host => self.network.serve(self.process, &self.backend, &request).await,
        }
    }

    /// Sends a request and waits for what comes back.
    async fn travel(&self, executor: &Executor, request: Request) -> DbResult<Answer> {
        let network = self.network.clone();
        let (tell, told) = oneshot::channel();
        lock(&self.backend).busy = true;
        let journey = {
            let weather = lock(&network.weather);
            let mut dice = network.server.dice();
            let fate = weather.fate(&mut dice);
            let drag = match (network.server.mutation.and_then(Mutation::drags), &request) {
                (Some((dragged, most)), Request::Statement(statement, _)) if statement.sql == dragged => dice.millis(0, most),
                _ => Duration::ZERO,
            };
            Journey {
                process: self.process,
                fate: if fate == Fate::Late && !request.may_be_late() { Fate::LostReply } else { fate },
                there: weather.half(&mut dice) + drag,
                back: weather.half(&mut dice),
                backend: self.backend.clone(),
            }
        };
        self.excuse(&journey);
        executor.spawn(Place::loops(WORLD), journey.make(network, executor.clone(), request, tell));
        let answer = told.await.unwrap_or_else(|_| Err(cut()));
        if let Err(error) = &answer {
            self.network.note(Event::Failed { process: self.process, what: kind_name(error.kind()) });
        }
        answer
    }

    fn excuse(&self, journey: &Journey) {
        let slow = journey.there + journey.back > SLOW || journey.fate != Fate::Fine;
        let cut_off_alone = self.network.is_down(self.process) && !self.network.is_down_for_all();
        let troubled = slow || cut_off_alone || lock(&self.backend).cut;
        if self.lane == Lane::Beat
            && troubled
            && let Some(excuses) = &self.network.excuses
        {
            excuses.beat_troubled(self.process);
        }
    }
}

fn kind_name(kind: DbErrorKind) -> &'static str {
    match kind {
        DbErrorKind::Unique => "unique",
        DbErrorKind::Retry => "deadlock",
        DbErrorKind::Lost => "lost",
        DbErrorKind::Unreachable => "unreachable",
        DbErrorKind::Timeout => "timeout",
        _ => "other",
    }
}

fn cut() -> DbError {
    DbError::new(DbErrorKind::Lost, "the connection was cut")
}

/// One request on its way.
struct Journey {
    process: Process,
    fate: Fate,
    there: Duration,
    back: Duration,
    backend: Arc<Mutex<Backend>>,
}

impl Journey {
    async fn make(
        self,
        network: Arc<Network>,
        executor: Executor,
        request: Request,
        tell: oneshot::Sender<DbResult<Answer>>,
    ) {
        executor.sleep(self.there).await;
        let lost = lock(&self.backend).cut || network.is_down(self.process) || self.fate == Fate::LostRequest;
        if lost {
            network.close(&self.backend);
            executor.sleep(network.hang()).await;
            let _gone = tell.send(Err(cut()));
            return;
        }
        let tell = if self.fate == Fate::Late {
            lock(&self.backend).cut = true;
            let _gone = tell.send(Err(cut()));
            let late = network.server.dice().millis(0, 3_000);
            executor.sleep(late).await;
            if lock(&self.backend).closed {
                return;
            }
            None
        } else {
            Some(tell)
        };
        let answer = network.serve(self.process, &self.backend, &request).await;
        let Some(tell) = tell else { return network.close(&self.backend) };
        if self.fate == Fate::LostReply {
            network.close(&self.backend);
            executor.sleep(network.hang()).await;
            let _gone = tell.send(Err(cut()));
            return;
        }
        executor.sleep(self.back).await;
        if lock(&self.backend).cut || network.is_down(self.process) {
            network.close(&self.backend);
            executor.sleep(network.hang()).await;
            let _gone = tell.send(Err(cut()));
            return;
        }
        let unheard = tell.send(answer).is_err();
        let left = {
            let mut backend = lock(&self.backend);
            backend.busy = false;
            backend.left
        };
        if left || unheard {
            network.close(&self.backend);
        }
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        let busy = {
            let mut backend = lock(&self.backend);
            backend.left = true;
            backend.busy
        };
        if !busy {
            self.network.close(&self.backend);
        }
    }
}

impl Connection for SimConnection {
    fn execute<'a>(&'a mut self, statement: &'a Statement, values: Vec<Value>) -> BoxFuture<'a, DbResult<u64>> {
        let statement = kept(statement);
        Box::pin(async move { Ok(self.call(Request::Statement(statement, values)).await?.touched) })
    }

    fn fetch<'a>(&'a mut self, statement: &'a Statement, values: Vec<Value>) -> BoxFuture<'a, DbResult<Vec<Row>>> {
        let statement = kept(statement);
        let sql = statement.sql;
        Box::pin(async move { Ok(self.call(Request::Statement(statement, values)).await?.into_rows(sql)) })
    }

    fn begin(&mut self) -> BoxFuture<'_, DbResult<()>> {
        Box::pin(async move { self.call(Request::Begin).await.map(|_| ()) })
    }

    fn commit(&mut self) -> BoxFuture<'_, DbResult<()>> {
        Box::pin(async move { self.call(Request::Commit).await.map(|_| ()) })
    }

    fn rollback(&mut self) -> BoxFuture<'_, DbResult<()>> {
        Box::pin(async move { self.call(Request::Rollback).await.map(|_| ()) })
    }
}

/// The dialect's own copy of a statement, which lives as long as the process.
fn kept(statement: &Statement) -> &'static Statement {
    POSTGRES.statement(statement.sql, statement.rows)
}
