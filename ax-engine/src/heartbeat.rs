//! The heartbeat: on its own thread and connection, so that neither user code nor a busy engine can stop it.
//!
//! Enters: the load of this node, the pulse of its loops. Leaves: a renewed lease, or the signal to every handler that
//! it is over. It never claims and never joins; an identity that is dead by the database is left to the cluster loop.
//!
//! Ground rules:
//! 1. A beat that fails is sent again soon, with jitter; one that gets no answer does not hold up the next one, and is
//!    never dropped in the middle.
//! 2. The lease counts from the sending of the beat that was answered. At its end the handlers are signaled, also while
//!    a beat is under way.
//! 3. Loops that stand still for a lease lose their shards to other nodes, and keep what they run.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ax_core::{Error, NodeId};
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use crate::cluster::Membership;
use crate::node::Node;
use crate::running::{Running, Signal};
use crate::service::Stop;
use crate::shard::ShardSet;
use crate::slots::Slots;
use crate::store::{Beat, BeatReply};

/// Beats that may wait for an answer at once; a dead connection must not use up the only chance.
const AT_ONCE: usize = 2;
/// The first wait after a beat that failed; it doubles up to [`LONGEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest wait after a beat that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// How often the pulse of the loops is felt at least.
const FEEL: Duration = Duration::from_secs(1);
/// How long a last answer may take after the end.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// What the heartbeat works with.
pub struct Heart {
    /// The engine.
    pub node: Arc<Node>,
    /// Whom to signal when the lease ends.
    pub running: Arc<Running>,
    /// The load to tell.
    pub slots: Arc<Slots>,
    /// News for the cluster loop.
    pub membership: Arc<Membership>,
}

/// Beats until told to stop.
pub async fn run(heart: Arc<Heart>, stop: Stop) {
    while !stop.is_cancelled() {
        let beating = Beating::new(&heart).run(&stop);
        if AssertUnwindSafe(beating).catch_unwind().await.is_err() {
            tracing::error!("the heartbeat panicked and goes on");
            heart.node.world.clock.sleep(FIRST_RETRY).await;
        }
    }
}

/// The answer to one beat.
struct Answer {
    node: NodeId,
    sent: i64,
    reply: Result<Option<BeatReply>, Error>,
}

/// What the loop remembers.
struct Beating<'a> {
    heart: &'a Heart,
    beats: FuturesUnordered<BoxFuture<'a, Answer>>,
    releases: FuturesUnordered<BoxFuture<'a, Result<u64, Error>>>,
    next_beat: i64,
    failed: u32,
    lease: Held,
    pulse: Felt,
}

/// Whether the lease is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Yes,
    No,
}

/// What the pulse of the loops is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Felt {
    Beating,
    /// The loops stand still; the shards are not yet released.
    Still,
    /// They are released.
    Released,
}

impl<'a> Beating<'a> {
    fn new(heart: &'a Heart) -> Beating<'a> {
        Beating {
            heart,
            beats: FuturesUnordered::new(),
            releases: FuturesUnordered::new(),
            next_beat: 0,
            failed: 0,
            lease: Held::Yes,
            pulse: Felt::Beating,
        }
    }

    async fn run(mut self, stop: &Stop) {
        let clock = self.heart.node.world.clock.clone();
        while !stop.is_cancelled() {
            self.notice_death();
            self.watch_lease();
            self.feel_pulse();
            self.beat_if_due();
            let pause = self.pause();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(answer) = self.beats.next() => self.take_in(answer),
                Some(released) = self.releases.next() => self.released(released),
                () = self.heart.membership.heart_woken() => self.next_beat = 0,
                () = clock.sleep(pause) => {}
            }
        }
        let last_answers = async {
            while self.beats.next().await.is_some() {}
            while self.releases.next().await.is_some() {}
        };
        tokio::select! {
            biased;
            () = last_answers => {}
            () = clock.sleep(LAST_ANSWER) => {}
        }
    }

    /// Until the next thing to do: a beat, the end of the lease, a look at the pulse.
    fn pause(&self) -> Duration {
        let node = &self.heart.node;
        let now = node.micros();
        let mut pause = FEEL.min(node.config.beat);
        if self.may_beat() {
            pause = pause.min(micros(self.next_beat - now));
        }
        if self.lease == Held::Yes {
            pause = pause.min(node.lease.left(now));
        }
        pause
    }

    /// Not with an identity that is dead, nor behind beats that hang.
    fn may_beat(&self) -> bool {
        let node = &self.heart.node;
        self.beats.len() < AT_ONCE && !self.heart.membership.is_dead(node.identity().node)
    }

    fn beat_if_due(&mut self) {
        let node = &self.heart.node;
        let sent = node.micros();
        if sent < self.next_beat || !self.may_beat() {
            return;
        }
        self.next_beat = sent.saturating_add(as_micros(node.config.beat));
        let beat = self.beat();
        self.beats.push(
            async move {
                Answer {
                    node: beat.node,
                    sent,
                    reply: node.store.beat(&beat).await,
                }
            }
            .boxed(),
        );
    }

    fn beat(&self) -> Beat {
        let (node, load) = (&self.heart.node, self.heart.slots.load());
        Beat {
            node: node.identity().node,
            running: i64::from(load.running),
            queued: i64::from(load.queued),
            slots: i64::from(load.slots),
            ttl: node.config.lease,
        }
    }

    fn take_in(&mut self, answer: Answer) {
        let node = &self.heart.node;
        if answer.node != node.identity().node {
            return;
        }
        match answer.reply {
            Ok(Some(reply)) => {
                self.failed = 0;
                node.beaten(answer.sent, reply.now);
            }
            Ok(None) if node.is_leaving() => {}
            Ok(None) => self.heart.membership.died(answer.node),
            Err(error) => {
                // Once per outage is news enough.
                if self.failed == 0 {
                    tracing::warn!(%error, "a heartbeat failed and is sent again soon");
                } else {
                    tracing::debug!(%error, tries = self.failed, "a heartbeat failed again");
                }
                self.retry_soon();
            }
        }
    }

    fn retry_soon(&mut self) {
        let node = &self.heart.node;
        let longest = LONGEST_RETRY.min(node.config.beat);
        let pause = FIRST_RETRY
            .saturating_mul(1 << self.failed.min(10))
            .min(longest);
        self.failed = self.failed.saturating_add(1);
        let jittered = pause.mul_f64(0.5 + node.world.random.fraction() / 2.0);
        self.next_beat = self
            .next_beat
            .min(node.micros().saturating_add(as_micros(jittered)));
    }

    /// The others have declared this node dead: what runs here is theirs now.
    fn notice_death(&mut self) {
        let heart = self.heart;
        let identity = heart.node.identity().node;
        if !heart.membership.is_dead(identity) || heart.membership.is_signaled(identity) {
            return;
        }
        tracing::warn!(node = %identity, "this node was declared dead; its handlers are signaled and it joins again");
        heart.node.lease.end();
        heart.running.signal_all(Signal::LeaseLost);
        self.lease = Held::No;
        heart.membership.signaled(identity);
    }

    /// Rule 2.
    fn watch_lease(&mut self) {
        let heart = self.heart;
        let holds = heart.node.lease.holds(heart.node.micros());
        match (self.lease, holds) {
            (Held::Yes, false) if !heart.node.is_leaving() || !heart.running.is_empty() => {
                tracing::warn!(
                    running = heart.running.len(),
                    "the lease ended before a heartbeat got through; handlers are signaled"
                );
                heart.running.signal_all(Signal::LeaseLost);
                self.lease = Held::No;
            }
            (Held::Yes, false) => self.lease = Held::No,
            (Held::No, true) => {
                tracing::info!("the lease holds again");
                self.lease = Held::Yes;
                heart.membership.wake_cluster();
            }
            (Held::Yes, true) | (Held::No, false) => {}
        }
    }

    /// Rule 3. Only while the lease holds: without the database every loop stands still, and nothing can be released.
    fn feel_pulse(&mut self) {
        let heart = self.heart;
        let node = &heart.node;
        let still = node.polled.silence(&*node.world.clock) > node.config.lease;
        match self.pulse {
            Felt::Beating if still && self.lease == Held::Yes && !node.is_leaving() => {
                tracing::warn!(
                    "the loops of this node stand still; its shards go to others and it keeps what it runs"
                );
                heart.membership.stall();
                node.own(ShardSet::EMPTY);
                self.pulse = Felt::Still;
                self.release();
            }
            Felt::Still | Felt::Released if !still => {
                tracing::info!("the loops of this node go on; it takes its shards back");
                self.pulse = Felt::Beating;
                heart.membership.revive();
            }
            Felt::Still if self.releases.is_empty() && self.lease == Held::Yes => self.release(),
            Felt::Beating | Felt::Still | Felt::Released => {}
        }
    }

    fn release(&self) {
        let node = &self.heart.node;
        self.releases
            .push(async move { node.store.abandon_shards(node.identity().node).await }.boxed());
    }

    fn released(&mut self, released: Result<u64, Error>) {
        match released {
            Ok(_) if self.pulse == Felt::Still => self.pulse = Felt::Released,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "the shards are released with the next heartbeat")
            }
        }
    }
}

fn as_micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn micros(span: i64) -> Duration {
    Duration::from_micros(u64::try_from(span).unwrap_or(0))
}
