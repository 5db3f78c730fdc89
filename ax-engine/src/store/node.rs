//! Membership: nodes join, beat, see each other, and are declared dead by compare-and-set.

use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, ErrorKind, Namespace, NodeId, Timestamp};

use super::Store;
use super::cells::millis;
use super::session::{Desk, Sent, again};
use super::text::Sql;
use crate::db::{DbErrorKind, DbResult, Lane, Row, Value};

/// A node as it joins.
#[derive(Clone, Debug)]
pub struct NodeRow {
    /// Fresh per process start.
    pub id: NodeId,
    /// Whose tasks it runs.
    pub namespace: Namespace,
    /// How long a heartbeat keeps it alive.
    pub ttl: Duration,
    /// The host's name.
    pub host: String,
    /// The process's number.
    pub pid: i64,
    /// The embedding application.
    pub app: String,
    /// Its version.
    pub version: String,
    /// Where it stands.
    pub zone: String,
    /// Its share of the shards in hundredths, 100 for usual.
    pub weight: i64,
    /// Labels as a JSON object.
    pub labels: String,
    /// Registered jobs.
    pub jobs: Vec<String>,
    /// Whether it triggers time.
    pub trigger_on: bool,
    /// Whether it executes.
    pub execute_on: bool,
    /// Its slots.
    pub slots: i64,
}

/// Whether a node counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// It claims while its lease lasts.
    Alive,
    /// It stops: claims nothing, still finishes.
    Leaving,
    /// Declared dead; its running tasks go back.
    Dead,
    /// It left in order.
    Left,
}

impl NodeState {
    /// The stored number.
    #[must_use]
    pub const fn code(self) -> i64 {
        match self {
            Self::Alive => 0,
            Self::Leaving => 1,
            Self::Dead => 2,
            Self::Left => 3,
        }
    }

    /// The state of a stored number.
    #[must_use]
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::Alive),
            1 => Some(Self::Leaving),
            2 => Some(Self::Dead),
            3 => Some(Self::Left),
            _ => None,
        }
    }
}

/// One heartbeat.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// Who.
    pub node: NodeId,
    /// Tasks it runs.
    pub running: i64,
    /// Tasks it holds but has not started.
    pub queued: i64,
    /// Its slots.
    pub slots: i64,
    /// How long this beat keeps it alive.
    pub ttl: Duration,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatReply {
    /// The database's now.
    pub now: Timestamp,
    /// Until when the node is alive, by the database's clock.
    pub lease_until: Timestamp,
    /// The number of this heartbeat.
    pub beat: i64,
}

/// A node as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who.
    pub node: NodeId,
    /// Whose tasks it runs.
    pub namespace: Arc<str>,
    /// Whether it counts.
    pub state: NodeState,
    /// The number of its last heartbeat.
    pub beat: i64,
    /// Until when it is alive, by the database's clock.
    pub lease_until: Timestamp,
    /// The number of its inbox shard.
    pub inbox: i64,
    /// When it joined.
    pub started_at: Timestamp,
    /// Its share of the shards.
    pub weight: i64,
    /// The host's name.
    pub host: Arc<str>,
    /// The process's number.
    pub pid: i64,
    /// The embedding application.
    pub app: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// Where it stands.
    pub zone: Arc<str>,
    /// Registered jobs.
    pub jobs: Vec<String>,
    /// Whether it triggers time.
    pub trigger_on: bool,
    /// Whether it executes.
    pub execute_on: bool,
    /// Tasks it runs.
    pub running: i64,
    /// Tasks it holds but has not started.
    pub queued: i64,
    /// Its slots.
    pub slots: i64,
}

/// All nodes at one instant of the database's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersReply {
    /// The database's now.
    pub now: Timestamp,
    /// Every row of `ax_node`, dead ones included.
    pub nodes: Vec<Peer>,
}

impl Store {
    /// The database's now.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        let row = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read_one(Sql::Now, Vec::new())
                .await
        })?;
        row.ok_or_else(no_answer)?.time(0)
    }

    /// Registers a node and gives it the number of its inbox. May be sent again.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn join(&self, node: &NodeRow) -> Result<i64, Error> {
        again!(self, sent => self.join_once(node, sent))
    }

    /// Renews a node's lease; `None` when it has been declared dead or has left.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn beat(&self, beat: &Beat) -> Result<Option<BeatReply>, Error> {
        again!(self, self.beat_once(beat))
    }

    /// All nodes.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn peers(&self) -> Result<PeersReply, Error> {
        let rows = again!(self, async {
            self.session(Lane::Read)
                .await?
                .desk()
                .read(Sql::Peers, Vec::new())
                .await
        })?;
        // A table without rows tells no time.
        let now = match rows.first() {
            Some(row) => row.time(19)?,
            None => self.now().await?,
        };
        Ok(PeersReply {
            now,
            nodes: rows.iter().map(Peer::read).collect::<Result<_, _>>()?,
        })
    }

    /// Declares a node dead if it still has this heartbeat number and its lease is over; whether that was so.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn mark_dead(&self, node: NodeId, beat: i64) -> Result<bool, Error> {
        let values = vec![Value::from(node.as_bytes()), Value::from(beat)];
        Ok(self.write(Sql::MarkDead, values).await? == 1)
    }

    /// Declares a node dead if it still has this heartbeat number, whatever its lease: for who knows from elsewhere that its
    /// process is gone (its lock file is free); whether that was so.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn bury(&self, node: NodeId, beat: i64) -> Result<bool, Error> {
        let values = vec![Value::from(node.as_bytes()), Value::from(beat)];
        Ok(self.write(Sql::BuryNode, values).await? == 1)
    }

    /// The node stops claiming.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn leaving(&self, node: NodeId) -> Result<(), Error> {
        self.set_node_state(node, NodeState::Leaving).await
    }

    /// The node has left.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn leave(&self, node: NodeId) -> Result<(), Error> {
        self.set_node_state(node, NodeState::Left).await
    }

    /// Forgets dead and left nodes last seen before an instant; returns how many.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn prune_nodes(&self, before: Timestamp) -> Result<u64, Error> {
        self.write(Sql::PruneNodes, vec![Value::from(before)]).await
    }

    async fn set_node_state(&self, node: NodeId, state: NodeState) -> Result<(), Error> {
        let values = vec![Value::from(state.code()), Value::from(node.as_bytes())];
        self.write(Sql::SetNodeState, values).await.map(drop)
    }

    /// Runs one statement; not on the heartbeat's lane, whose connections live on the heartbeat's own thread.
    async fn write(&self, sql: Sql, values: Vec<Value>) -> Result<u64, Error> {
        again!(self, async {
            self.session(Lane::Write)
                .await?
                .desk()
                .run(sql, values.clone())
                .await
        })
    }

    async fn join_once(&self, node: &NodeRow, sent: Sent) -> DbResult<i64> {
        let mut session = self.session(Lane::Write).await?;
        let mut desk = session.desk();
        if sent == Sent::Again
            && let Some(row) = read_node(&mut desk, node.id).await?
        {
            return Ok(row.int(0)?);
        }
        // Two nodes that join at once may compute the same inbox; the unique index refuses one of them.
        desk.run(Sql::JoinNode, node.values()?)
            .await
            .map_err(|error| match error.kind() {
                DbErrorKind::Unique => error.as_kind(DbErrorKind::Retry),
                _ => error,
            })?;
        let row = read_node(&mut desk, node.id).await?;
        Ok(row.ok_or_else(no_answer)?.int(0)?)
    }

    async fn beat_once(&self, beat: &Beat) -> DbResult<Option<BeatReply>> {
        let mut session = self.session(Lane::Beat).await?;
        let mut desk = session.desk();
        let values = vec![
            Value::from(millis(beat.ttl)),
            Value::from(beat.running),
            Value::from(beat.queued),
            Value::from(beat.slots),
            Value::from(beat.node.as_bytes()),
        ];
        if desk.run(Sql::Beat, values).await? == 0 {
            return Ok(None);
        }
        let Some(row) = read_node(&mut desk, beat.node).await? else {
            return Ok(None);
        };
        Ok(Some(BeatReply {
            now: row.time(4)?,
            lease_until: row.time(3)?,
            beat: row.int(2)?,
        }))
    }
}

async fn read_node(desk: &mut Desk<'_>, node: NodeId) -> DbResult<Option<Row>> {
    desk.read_one(Sql::ReadNode, vec![Value::from(node.as_bytes())])
        .await
}

fn no_answer() -> Error {
    Error::new(
        ErrorKind::Database,
        "the database gave no row where there is always one; look at its log",
    )
}

impl NodeRow {
    fn values(&self) -> DbResult<Vec<Value>> {
        let jobs = serde_json::to_string(&self.jobs)
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        Ok(vec![
            Value::from(self.id.as_bytes()),
            Value::from(self.namespace.as_str()),
            Value::from(millis(self.ttl)),
            Value::from(&*self.host),
            Value::from(self.pid),
            Value::from(&*self.app),
            Value::from(&*self.version),
            Value::from(&*self.zone),
            Value::from(self.weight),
            Value::from(&*self.labels),
            Value::from(&*jobs),
            Value::from(i64::from(self.trigger_on)),
            Value::from(i64::from(self.execute_on)),
            Value::from(self.slots),
        ])
    }
}

impl Peer {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            node: NodeId::from_bytes(row.id(0)?),
            namespace: Arc::clone(row.text(1)?),
            inbox: row.int(2)?,
            state: NodeState::from_code(row.int(3)?)
                .ok_or_else(|| row.corrupt(3, "the number of a node state"))?,
            beat: row.int(4)?,
            lease_until: row.time(5)?,
            started_at: row.time(6)?,
            host: Arc::clone(row.text(7)?),
            pid: row.int(8)?,
            app: Arc::clone(row.text(9)?),
            version: Arc::clone(row.text(10)?),
            zone: Arc::clone(row.text(11)?),
            weight: row.int(12)?,
            // A damaged list counts as a node that knows no job: it gets no work, and stays a member.
            jobs: serde_json::from_str(row.text(13)?).unwrap_or_default(),
            trigger_on: row.int(14)? != 0,
            execute_on: row.int(15)? != 0,
            running: row.int(16)?,
            queued: row.int(17)?,
            slots: row.int(18)?,
        })
    }
}
