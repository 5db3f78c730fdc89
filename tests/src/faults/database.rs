//! A database that fails on demand.
//!
//! What enters: calls of an engine. What leaves: the answers of the real database below, except where a rule strikes. It
//! changes no statement; what it answers itself are errors only.

use std::sync::Arc;
use std::time::Duration;

use ax_engine::db::{
    Connection, Database, DbError, DbErrorKind, DbResult, Lane, Row, Statement, Value,
};
use ax_engine::store::{Dialect, Sql};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::rules::{Fault, Faults, Point, Weather};

/// See the module.
pub struct FaultyDatabase {
    inner: Arc<dyn Database>,
    faults: Faults,
}

impl FaultyDatabase {
    /// Puts faults in front of a database.
    pub fn new(inner: Arc<dyn Database>, faults: Faults) -> FaultyDatabase {
        FaultyDatabase { inner, faults }
    }
}

impl Database for FaultyDatabase {
    fn dialect(&self) -> &'static Dialect {
        self.inner.dialect()
    }

    fn acquire(&self, lane: Lane) -> BoxFuture<'_, DbResult<Box<dyn Connection>>> {
        async move {
            self.faults
                .come_through()
                .await
                .map_err(|_| failed(DbErrorKind::Unreachable))?;
            let inner = Some(self.inner.acquire(lane).await?);
            let lent = Lent {
                inner,
                lane,
                faults: self.faults.clone(),
                sent: Vec::new(),
            };
            Ok(Box::new(lent) as Box<dyn Connection>)
        }
        .boxed()
    }

    fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.inner.pause(span)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

/// One connection; without an inner one it is gone.
struct Lent {
    inner: Option<Box<dyn Connection>>,
    lane: Lane,
    faults: Faults,
    /// What was sent since the last begin.
    sent: Vec<Sql>,
}

/// What is asked of a connection.
enum Call {
    Execute(Statement, Vec<Value>),
    Fetch(Statement, Vec<Value>),
    Begin,
    Commit,
    Rollback,
}

/// What it answers.
enum Answer {
    Touched(u64),
    Rows(Vec<Row>),
    Done,
}

impl Call {
    const fn sql(&self) -> Option<Sql> {
        match self {
            Call::Execute(statement, _) | Call::Fetch(statement, _) => Some(statement.sql),
            Call::Begin | Call::Commit | Call::Rollback => None,
        }
    }
}

impl Lent {
    async fn call(&mut self, call: Call) -> DbResult<Answer> {
        if let Err(weather) = self.faults.come_through().await {
            return Err(self.gone_in(weather));
        }
        let fault = self.faults.take(|point| self.is_at(&call, point));
        match call.sql() {
            Some(sql) => self.sent.push(sql),
            None => self.sent.clear(),
        }
        match fault {
            None => self.perform(call).await,
            Some(Fault::Refuse(kind)) => Err(self.refuse(kind, &call).await),
            Some(Fault::LoseAnswer) => {
                self.perform(call).await?;
                Err(self.gone())
            }
            Some(Fault::LoseAnswerAt(gate)) => {
                self.perform(call).await?;
                let gone = self.gone();
                gate.pass().await;
                Err(gone)
            }
            Some(Fault::Hold(gate)) => {
                gate.pass().await;
                self.perform(call).await
            }
            Some(Fault::HoldAnswer(gate)) => {
                let answer = self.perform(call).await;
                gate.pass().await;
                answer
            }
            Some(Fault::Overtake(gate)) => {
                let inner = self.inner.take();
                tokio::spawn(async move {
                    gate.pass().await;
                    // Nobody waits for what it answers.
                    let _answer = perform(inner, call).await;
                });
                Err(self.gone())
            }
        }
    }

    fn is_at(&self, call: &Call, point: Point) -> bool {
        match (point, call) {
            (Point::Begin(lane), Call::Begin) => lane == self.lane,
            (Point::CommitOf(sql), Call::Commit) => self.sent.contains(&sql),
            (Point::Statement(sql), call) => call.sql() == Some(sql),
            _ => false,
        }
    }

    async fn perform(&mut self, call: Call) -> DbResult<Answer> {
        match &mut self.inner {
            Some(inner) => answer(&mut **inner, call).await,
            None => Err(failed(DbErrorKind::Lost)),
        }
    }

    async fn refuse(&mut self, kind: DbErrorKind, call: &Call) -> DbError {
        if kind == DbErrorKind::Lost {
            return self.gone();
        }
        if let (Call::Commit, Some(inner)) = (call, &mut self.inner) {
            // What is rolled back and what cannot even be rolled back has not taken place.
            let _undone = inner.rollback().await;
        }
        failed(kind)
    }

    /// The connection is gone, and with it the transaction that was open on it.
    fn gone(&mut self) -> DbError {
        self.inner = None;
        failed(DbErrorKind::Lost)
    }

    fn gone_in(&mut self, weather: Weather) -> DbError {
        debug_assert_ne!(weather, Weather::Fair, "calls come through");
        self.gone()
    }

    /// The time as this node is told it.
    fn skewed(&self, sql: Sql, rows: Vec<Row>) -> Vec<Row> {
        let skew = self.faults.skewed_by();
        if skew == 0 || !matches!(sql, Sql::Now | Sql::ReadNode | Sql::Peers) {
            return rows;
        }
        let shifted = |row: Row| {
            let mut values = row.values().to_vec();
            if let Some(Value::Int(Some(now))) = values.last_mut() {
                *now += skew;
            }
            Row::new(sql, values)
        };
        rows.into_iter().map(shifted).collect()
    }
}

fn failed(kind: DbErrorKind) -> DbError {
    DbError::new(kind, "the test let this call fail")
}

async fn perform(inner: Option<Box<dyn Connection>>, call: Call) -> DbResult<Answer> {
    match inner {
        Some(mut inner) => answer(&mut *inner, call).await,
        None => Err(failed(DbErrorKind::Lost)),
    }
}

async fn answer(inner: &mut dyn Connection, call: Call) -> DbResult<Answer> {
    Ok(match call {
        Call::Execute(statement, values) => {
            Answer::Touched(inner.execute(&statement, values).await?)
        }
        Call::Fetch(statement, values) => Answer::Rows(inner.fetch(&statement, values).await?),
        Call::Begin => done(inner.begin().await)?,
        Call::Commit => done(inner.commit().await)?,
        Call::Rollback => done(inner.rollback().await)?,
    })
}

fn done(result: DbResult<()>) -> DbResult<Answer> {
    result.map(|()| Answer::Done)
}

impl Connection for Lent {
    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<u64>> {
        async move {
            match self.call(Call::Execute(*statement, values)).await? {
                Answer::Touched(rows) => Ok(rows),
                Answer::Rows(_) | Answer::Done => Ok(0),
            }
        }
        .boxed()
    }

    fn fetch<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: Vec<Value>,
    ) -> BoxFuture<'a, DbResult<Vec<Row>>> {
        async move {
            match self.call(Call::Fetch(*statement, values)).await? {
                Answer::Rows(rows) => Ok(self.skewed(statement.sql, rows)),
                Answer::Touched(_) | Answer::Done => Ok(Vec::new()),
            }
        }
        .boxed()
    }

    fn begin(&mut self) -> BoxFuture<'_, DbResult<()>> {
        async move { self.call(Call::Begin).await.map(drop) }.boxed()
    }

    fn commit(&mut self) -> BoxFuture<'_, DbResult<()>> {
        async move { self.call(Call::Commit).await.map(drop) }.boxed()
    }

    fn rollback(&mut self) -> BoxFuture<'_, DbResult<()>> {
        async move { self.call(Call::Rollback).await.map(drop) }.boxed()
    }
}
