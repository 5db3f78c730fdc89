//! What the rooms of one engine share: its settings, store, clocks, identity and counters.
//!
//! Nothing here acts; every room takes an `Arc<Node>` and uses what it needs.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ax_core::{NodeId, Timestamp};

use crate::clock::{Clock, DatabaseClock};
use crate::config::Config;
use crate::job::{Registry, States};
use crate::lease::Lease;
use crate::outcomes::Outcomes;
use crate::random::Random;
use crate::service::Pulse;
use crate::shard::{SHARDS, ShardSet};
use crate::spawn::Spawn;
use crate::store::{Peer, Store};

/// The longest round trip of a heartbeat whose answer tells the time.
const SLOW_ANSWER_MICROS: i64 = 500_000;

/// Who this node is in the cluster. A node that was declared dead joins again with a new identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Fresh at each join.
    pub node: NodeId,
    /// The number of this node's inbox, from 1,024 on.
    pub inbox: i64,
}

/// The outside world of an engine, replaced as a whole by a simulator.
#[derive(Clone)]
pub struct World {
    /// The clock of all waits.
    pub clock: Arc<dyn Clock>,
    /// The source of ids, tokens and jitter.
    pub random: Arc<Random>,
    /// Where futures run.
    pub spawn: Arc<dyn Spawn>,
}

/// Counters of what happened, since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Tasks claimed.
    pub claimed: AtomicU64,
    /// Due entries whose claim found the row changed or taken.
    pub conflicts: AtomicU64,
    /// Outcomes that came too late to count.
    pub stale: AtomicU64,
    /// Outcomes recorded.
    pub settled: AtomicU64,
    /// Polls of the due range that succeeded.
    pub polls: AtomicU64,
    /// Claims of dead nodes that were taken over here.
    pub recovered: AtomicU64,
    /// Due tasks moved to a node that runs their job.
    pub handed_on: AtomicU64,
}

/// Adds to a counter.
pub fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

/// What the rooms of one engine share.
pub struct Node {
    /// Settings.
    pub config: Config,
    /// The database.
    pub store: Store,
    /// Jobs this node can run.
    pub registry: Registry,
    /// Values that handlers ask for.
    pub states: Arc<States>,
    /// The outside world.
    pub world: World,
    /// The database's now.
    pub time: DatabaseClock,
    /// How long this node may act.
    pub lease: Lease,
    /// Counters.
    pub counters: Counters,
    /// Last successful poll of the due range.
    pub polled: Pulse,
    /// Who waits for outcomes.
    pub outcomes: Outcomes,
    identity: Mutex<Identity>,
    owned: RwLock<Arc<Shards>>,
    peers: RwLock<Arc<Vec<Peer>>>,
    leaving: AtomicBool,
    beat_sent: AtomicI64,
}

/// The shards a node looks after, for the two questions that are asked of them: is this one of them, and which one next.
#[derive(Debug, Default)]
struct Shards {
    set: ShardSet,
    list: Vec<u16>,
}

/// What a node is made of.
pub struct NodeParts {
    /// Settings, validated.
    pub config: Config,
    /// The database.
    pub store: Store,
    /// Jobs this node can run.
    pub registry: Registry,
    /// Values that handlers ask for.
    pub states: States,
    /// The outside world.
    pub world: World,
    /// Who this node is.
    pub identity: Identity,
}

impl Node {
    /// A node that has joined and owns no shard yet.
    pub fn new(parts: NodeParts) -> Node {
        let time = DatabaseClock::new(parts.world.clock.clone());
        Node {
            config: parts.config,
            store: parts.store,
            registry: parts.registry,
            states: Arc::new(parts.states),
            world: parts.world,
            time,
            lease: Lease::default(),
            counters: Counters::default(),
            polled: Pulse::default(),
            outcomes: Outcomes::default(),
            identity: Mutex::new(parts.identity),
            owned: RwLock::default(),
            peers: RwLock::default(),
            leaving: AtomicBool::new(false),
            beat_sent: AtomicI64::new(0),
        }
    }

    /// Who this node is now.
    pub fn identity(&self) -> Identity {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new identity after the old one was declared dead.
    pub fn rejoin(&self, identity: Identity) {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = identity;
        self.own(ShardSet::default());
    }

    /// The database's now, as well as this node knows.
    pub fn now(&self) -> Timestamp {
        self.time.now()
    }

    /// Microseconds of the engine's clock.
    pub fn micros(&self) -> i64 {
        self.world.clock.micros()
    }

    /// Whether this node may claim: its lease holds and it is not leaving.
    pub fn may_claim(&self) -> bool {
        !self.is_leaving() && self.lease.holds(self.micros())
    }

    /// From now on no task is claimed here.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether this node is shutting down.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// The shards this node looks after.
    pub fn owned(&self) -> ShardSet {
        self.owned
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .set
    }

    /// Replaces the set of shards.
    pub fn own(&self, shards: ShardSet) {
        let shards = Arc::new(Shards {
            list: shards.iter().collect(),
            set: shards,
        });
        *self.owned.write().unwrap_or_else(PoisonError::into_inner) = shards;
    }

    /// A shard for a new task: one that this node owns, else its inbox, so that it is triggered here unannounced. A node
    /// that only submits looks at no shard, not even its inbox: any other will do.
    pub fn choose_shard(&self) -> i64 {
        let owned = self
            .owned
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match owned.list.get(self.world.random.below(owned.list.len())) {
            Some(shard) => i64::from(*shard),
            None if self.config.roles.trigger || self.config.roles.execute => self.identity().inbox,
            None => self.world.random.below(usize::from(SHARDS)) as i64,
        }
    }

    /// Whether tasks of `shard` are triggered here.
    pub fn looks_after(&self, shard: i64) -> bool {
        if self.config.ownership == crate::config::Ownership::Everyone
            || shard == self.identity().inbox
        {
            return true;
        }
        u16::try_from(shard).is_ok_and(|s| self.owned().contains(s))
    }

    /// The nodes seen at the last look.
    pub fn peers(&self) -> Arc<Vec<Peer>> {
        self.peers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps what the last look at the nodes showed.
    pub fn saw(&self, peers: Vec<Peer>) {
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(peers);
    }

    /// When the last answered heartbeat was sent, in microseconds of the engine's clock; 0 before the first.
    pub fn beat_sent(&self) -> i64 {
        self.beat_sent.load(Ordering::Relaxed)
    }

    /// A heartbeat sent at `sent` was answered with `replied`.
    pub fn beaten(&self, sent: i64, replied: Timestamp) {
        self.beat_sent.store(sent, Ordering::Relaxed);
        self.lease.renew(sent, self.config.lease);
        // An answer that was long under way says nothing about the time now, and would look like a jump.
        if self.micros().saturating_sub(sent) > SLOW_ANSWER_MICROS {
            return;
        }
        if let crate::clock::Anchored::Jumped(micros) = self.time.anchor(replied) {
            tracing::warn!(
                jump_ms = micros / 1_000,
                "the database's clock jumped; the engine follows it"
            );
        }
    }
}
