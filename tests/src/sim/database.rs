//! The simulated database as an engine sees it: connections that take time and break.
//!
//! A call travels to the server, takes effect there, and its answer travels back; both ways take time, so that others act
//! in between. What was sent takes effect whatever becomes of the sender: a frozen process finds the answer when it goes
//! on, a killed one never. A connection that breaks inside a transaction leaves it rolled back, at once or, behind a dead
//! network, some time later.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ax_engine::db::{
    Connection, Database, DbError, DbErrorKind, DbResult, Lane, Row, Statement, Value,
};
use ax_engine::store::{Dialect, POSTGRES};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::executor::{Executor, Place, Process, WORLD};
use super::mutation::Mutation;
use super::network::{Backend, Network, Request, lock};
use super::server::Pace;
use super::statements::Answer;
use super::trace::Event;
use super::weather::Fate;

/// A call slower than this on the heartbeat's lane excuses a late heartbeat.
const SLOW: Duration = Duration::from_millis(300);

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
                    return Err(DbError::new(
                        DbErrorKind::Unreachable,
                        "the database cannot be reached",
                    ));
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
            let connection = SimConnection {
                network: network.clone(),
                process: self.process,
                lane,
                backend,
            };
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
            Pace::Host => {
                self.network
                    .serve(self.process, &self.backend, &request)
                    .await
            }
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
                (Some((dragged, most)), Request::Statement(statement, _))
                    if statement.sql == dragged =>
                {
                    dice.millis(0, most)
                }
                _ => Duration::ZERO,
            };
            Journey {
                process: self.process,
                fate: if fate == Fate::Late && !request.may_be_late() {
                    Fate::LostReply
                } else {
                    fate
                },
                there: weather.half(&mut dice) + drag,
                back: weather.half(&mut dice),
                backend: self.backend.clone(),
            }
        };
        self.excuse(&journey);
        executor.spawn(
            Place::loops(WORLD),
            journey.make(network, executor.clone(), request, tell),
        );
        let answer = told.await.unwrap_or_else(|_| Err(cut()));
        if let Err(error) = &answer {
            self.network.note(Event::Failed {
                process: self.process,
                what: kind_name(error.kind()),
            });
        }
        answer
    }

    fn excuse(&self, journey: &Journey) {
        let lost = !matches!(journey.fate, Fate::Fine | Fate::Refused);
        let slow = journey.there + journey.back > SLOW || lost;
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
        let lost = lock(&self.backend).cut
            || network.is_down(self.process)
            || self.fate == Fate::LostRequest;
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
        let refused = self.fate == Fate::Refused && matches!(request, Request::Statement(..));
        let answer = match refused {
            true => Err(network.refuse(&self.backend)),
            false => network.serve(self.process, &self.backend, &request).await,
        };
        let Some(tell) = tell else {
            return network.close(&self.backend);
        };
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
    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<u64>> {
        let statement = kept(statement);
        Box::pin(async move {
            Ok(self
                .call(Request::Statement(statement, values))
                .await?
                .touched)
        })
    }

    fn fetch<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<Vec<Row>>> {
        let statement = kept(statement);
        let sql = statement.sql;
        Box::pin(async move {
            Ok(self
                .call(Request::Statement(statement, values))
                .await?
                .into_rows(sql))
        })
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
