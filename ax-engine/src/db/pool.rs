//! A few connections of one lane, lent one at a time.
//!
//! A connection comes back only if its last call ended and no transaction is open on it; otherwise it is closed, or,
//! where it must not be closed (a database in memory), marked so that the next borrower rolls it back first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{DbError, DbErrorKind, DbResult};

/// What happens to a connection that was left in the middle of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// It is closed; the database rolls back.
    Close,
    /// It is kept and rolled back by its next borrower: closing it would lose the database.
    #[cfg(feature = "sqlite")]
    Keep,
}

/// The connections of one lane.
pub(super) struct Pool<C> {
    idle: Mutex<Vec<(C, Left)>>,
    permits: Arc<Semaphore>,
    abandoned: Abandoned,
}

/// How a connection was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// In order.
    Clean,
    /// In a call or a transaction.
    Dirty,
    /// Broken.
    Broken,
}

/// How long a borrower waits for a free connection.
const WAIT: Duration = Duration::from_secs(30);

impl<C> Pool<C> {
    pub(super) fn new(size: usize, abandoned: Abandoned) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(size.max(1))),
            abandoned,
        })
    }

    /// Waits for the right to a connection and gives an idle one if there is any.
    pub(super) async fn borrow(self: &Arc<Self>) -> DbResult<Loan<C>> {
        let waited = tokio::time::timeout(WAIT, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = match waited {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(closed()),
            Err(_) => {
                return Err(DbError::new(
                    DbErrorKind::Timeout,
                    "no connection came free in 30 s; raise the pool size or look for slow statements",
                ));
            }
        };
        let idle = self.lock().pop();
        let (conn, left) = idle.map_or((None, Left::Clean), |(conn, left)| (Some(conn), left));
        Ok(Loan {
            conn,
            left,
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    /// Takes all idle connections out, for closing.
    pub(super) fn drain(&self) -> Vec<C> {
        self.lock().drain(..).map(|(conn, _)| conn).collect()
    }

    /// Lends nothing any more and takes all idle connections out.
    pub(super) fn close(&self) -> Vec<C> {
        self.permits.close();
        self.drain()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(C, Left)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> DbError {
    DbError::new(DbErrorKind::Closed, "the database was closed by a shutdown")
}

/// The right to one connection, and the connection once it is open.
pub(super) struct Loan<C> {
    conn: Option<C>,
    left: Left,
    pool: Arc<Pool<C>>,
    _permit: OwnedSemaphorePermit,
}

impl<C> Loan<C> {
    /// Whether a connection has to be opened first.
    pub(super) const fn is_empty(&self) -> bool {
        self.conn.is_none()
    }

    /// Puts in the connection that was opened.
    pub(super) fn fill(&mut self, conn: C) {
        self.conn = Some(conn);
        self.left = Left::Clean;
    }

    /// Whether the borrower before left it in the middle of something.
    #[cfg(feature = "sqlite")]
    pub(super) fn is_dirty(&self) -> bool {
        self.left == Left::Dirty
    }

    /// A call begins: should it be given up, the connection is dirty. Returns whether a transaction is open.
    pub(super) fn enter(&mut self) -> Transaction {
        let open = if self.left == Left::Dirty {
            Transaction::Open
        } else {
            Transaction::Closed
        };
        self.left = Left::Dirty;
        open
    }

    /// A call has ended, with a transaction open or not.
    pub(super) fn exit<T>(&mut self, transaction: Transaction, result: DbResult<T>) -> DbResult<T> {
        self.left = match (&result, transaction) {
            (Err(error), _) if broken(error) => Left::Broken,
            (_, Transaction::Open) => Left::Dirty,
            (_, Transaction::Closed) => Left::Clean,
        };
        result
    }

    /// The connection.
    pub(super) fn conn(&mut self) -> DbResult<&mut C> {
        self.conn.as_mut().ok_or_else(closed)
    }
}

/// Whether a connection is of no use after this error.
const fn broken(error: &DbError) -> bool {
    matches!(
        error.kind(),
        DbErrorKind::Lost | DbErrorKind::ReadOnly | DbErrorKind::Unreachable
    )
}

/// Whether a transaction is open on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    /// One is open.
    Open,
    /// None is.
    Closed,
}

impl Transaction {
    /// How a connection stands after BEGIN, COMMIT or ROLLBACK was to make it so: where that failed, as before.
    pub(super) const fn after<T>(self, result: &DbResult<T>) -> Self {
        match (self, result) {
            (wanted, Ok(_)) => wanted,
            (Self::Open, Err(_)) => Self::Closed,
            (Self::Closed, Err(_)) => Self::Open,
        }
    }
}

impl<C> Drop for Loan<C> {
    fn drop(&mut self) {
        let keep = match self.left {
            Left::Clean => true,
            Left::Dirty => self.pool.abandoned != Abandoned::Close,
            Left::Broken => false,
        };
        if let Some(conn) = self
            .conn
            .take()
            .filter(|_| keep && !self.pool.permits.is_closed())
        {
            self.pool.lock().push((conn, self.left));
        }
    }
}
