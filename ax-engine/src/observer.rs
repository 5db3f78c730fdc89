//! Who may be declared dead: the two-witness rule, as a state machine without clock or database.
//!
//! Enters: what each look at the table of nodes showed, with the engine's own clock. Leaves: the nodes to kill, for a
//! compare-and-set that may still find them alive. It never writes, and never trusts one clock alone.
//!
//! # Rule
//!
//! A peer is dead when both witnesses say so at the same look:
//!
//! 1. the database: its lease is over by the database's clock;
//! 2. this observer: it has seen the same heartbeat number for [`ObserverRule::same_beat_for`], by its own clock.
//!
//! The second counts only while the observer itself is in order: it looks successfully at least every
//! [`ObserverRule::longest_gap`], and at each look its own lease is renewed. Anything else is an outage of its own: what it
//! saw before is void, and for [`ObserverRule::quiet_after_outage`] after the first good look it kills nobody, so that peers
//! hit by the same outage have the time to renew. Its start is an outage too.
//!
//! So a jump of the database's clock kills nobody (the numbers still move), nor does an outage of the database (nobody looks
//! successfully), nor a stall of the observer (its looks are too far apart).

use std::collections::HashMap;
use std::time::Duration;

use ax_core::NodeId;

/// Milliseconds of the engine's own clock, which never jumps; its zero has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicMs(pub u64);

impl MonotonicMs {
    /// Time since an earlier instant; `None` if that is later than this one.
    fn since(self, earlier: MonotonicMs) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_millis)
    }
}

/// Whether the observer's own lease stood at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnLease {
    /// Its last heartbeat was written, and its lease is not over.
    Renewed,
    /// Anything else.
    Doubtful,
}

/// What the database's clock says of a peer's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseByDatabase {
    /// It still runs.
    Running,
    /// It is over.
    Over,
}

/// One peer as a look showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerBeat {
    /// The peer.
    pub node: NodeId,
    /// The number of its last heartbeat.
    pub beat: i64,
    /// Its lease.
    pub lease: LeaseByDatabase,
}

/// The spans of the rule. Weaker ones are for tests that show why these are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObserverRule {
    /// How long the same heartbeat number must have been seen.
    pub same_beat_for: Duration,
    /// How long nobody is killed after an outage of the observer's own.
    pub quiet_after_outage: Duration,
    /// The longest time between two looks that is no outage.
    pub longest_gap: Duration,
}

impl ObserverRule {
    /// The rule for leases of `ttl` that are renewed every `period`: half a TTL, one TTL, two periods.
    pub fn new(ttl: Duration, period: Duration) -> ObserverRule {
        ObserverRule {
            same_beat_for: ttl / 2,
            quiet_after_outage: ttl,
            longest_gap: period.saturating_mul(2),
        }
    }
}

/// The memory of one observer; see the head of the file.
#[derive(Clone, Debug)]
pub struct Observer {
    rule: ObserverRule,
    /// The good looks since the last outage, if there was any.
    watch: Option<Watch>,
    /// What they showed of each peer that the last of them showed.
    peers: HashMap<NodeId, Seen>,
}

/// An unbroken row of good looks.
#[derive(Clone, Copy, Debug)]
struct Watch {
    first: MonotonicMs,
    last: MonotonicMs,
}

/// A heartbeat number, and the look that showed it first.
#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: i64,
    since: MonotonicMs,
}

impl Observer {
    /// An observer that has seen nothing, for leases of `ttl` renewed every `period`.
    pub fn new(ttl: Duration, period: Duration) -> Observer {
        Observer::with_rule(ObserverRule::new(ttl, period))
    }

    /// An observer with spans of one's own.
    pub fn with_rule(rule: ObserverRule) -> Observer {
        Observer {
            rule,
            watch: None,
            peers: HashMap::new(),
        }
    }

    /// Takes in a successful look, whose answer was asked for at `at`, and gives the peers that are dead by the rule, in the
    /// order shown. A dead peer is named at every look until it is no longer shown.
    pub fn look(
        &mut self,
        at: MonotonicMs,
        own_lease: OwnLease,
        peers: &[PeerBeat],
    ) -> Vec<NodeId> {
        if own_lease == OwnLease::Doubtful {
            self.lost_contact(at);
            return Vec::new();
        }
        let first = self.extend_watch(at);
        self.remember(at, peers);
        if !lasted(first, at, self.rule.quiet_after_outage) {
            return Vec::new();
        }
        peers
            .iter()
            .filter(|peer| self.is_dead(at, peer))
            .map(|peer| peer.node)
            .collect()
    }

    /// Takes in that a look or the renewal of the own lease failed at `at`: an outage.
    pub fn lost_contact(&mut self, _at: MonotonicMs) {
        self.watch = None;
        self.peers.clear();
    }

    /// Adds a good look to the watch, or begins one if it comes too late (or before its predecessor); gives the first look.
    fn extend_watch(&mut self, at: MonotonicMs) -> MonotonicMs {
        let going_on = self.watch.filter(|watch| {
            at.since(watch.last)
                .is_some_and(|gap| gap <= self.rule.longest_gap)
        });
        if going_on.is_none() {
            self.lost_contact(at);
        }
        let first = going_on.map_or(at, |watch| watch.first);
        self.watch = Some(Watch { first, last: at });
        first
    }

    fn remember(&mut self, at: MonotonicMs, peers: &[PeerBeat]) {
        let seen = |peer: &PeerBeat| match self.peers.get(&peer.node) {
            Some(seen) if seen.beat == peer.beat => *seen,
            _ => Seen {
                beat: peer.beat,
                since: at,
            },
        };
        self.peers = peers.iter().map(|peer| (peer.node, seen(peer))).collect();
    }

    fn is_dead(&self, at: MonotonicMs, peer: &PeerBeat) -> bool {
        let silent = self
            .peers
            .get(&peer.node)
            .is_some_and(|seen| lasted(seen.since, at, self.rule.same_beat_for));
        peer.lease == LeaseByDatabase::Over && silent
    }
}

fn lasted(since: MonotonicMs, at: MonotonicMs, span: Duration) -> bool {
    at.since(since).is_some_and(|time| time >= span)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TTL: Duration = Duration::from_secs(15);
    const PERIOD: Duration = Duration::from_secs(5);

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    fn peer(number: u8, beat: i64, lease: LeaseByDatabase) -> PeerBeat {
        PeerBeat {
            node: node(number),
            beat,
            lease,
        }
    }

    fn look(observer: &mut Observer, seconds: u64, peers: &[PeerBeat]) -> Vec<NodeId> {
        observer.look(MonotonicMs(seconds * 1000), OwnLease::Renewed, peers)
    }

    /// An observer in order that has watched peer 1 beat until second 100.
    fn settled() -> Observer {
        let mut observer = Observer::new(TTL, PERIOD);
        for second in (0..=100).step_by(5) {
            assert_eq!(
                look(
                    &mut observer,
                    second,
                    &[peer(1, second as i64, LeaseByDatabase::Running)]
                ),
                []
            );
        }
        observer
    }

    #[test]
    fn a_killed_node_is_dead_within_a_ttl_and_a_period() {
        let mut observer = settled();
        let dead = (105..).step_by(5).find(|&second| {
            let lease = if second >= 115 {
                LeaseByDatabase::Over
            } else {
                LeaseByDatabase::Running
            };
            !look(&mut observer, second, &[peer(1, 100, lease)]).is_empty()
        });
        assert_eq!(dead, Some(115));
    }

    #[test]
    fn half_a_ttl_of_silence_is_exact() {
        for (beat_seen_at, wanted) in [(102_500, vec![node(1)]), (102_501, vec![])] {
            let mut observer = settled();
            let over = [peer(1, 7, LeaseByDatabase::Over)];
            assert_eq!(
                observer.look(MonotonicMs(beat_seen_at), OwnLease::Renewed, &over),
                []
            );
            assert_eq!(
                observer.look(MonotonicMs(106_000), OwnLease::Renewed, &over),
                []
            );
            assert_eq!(
                observer.look(MonotonicMs(110_000), OwnLease::Renewed, &over),
                wanted
            );
        }
    }

    #[test]
    fn a_jump_of_the_databases_clock_kills_nobody() {
        let mut observer = settled();
        for second in (105..400).step_by(5) {
            assert_eq!(
                look(
                    &mut observer,
                    second,
                    &[peer(1, second as i64, LeaseByDatabase::Over)]
                ),
                []
            );
        }
    }

    #[test]
    fn silence_alone_kills_nobody() {
        let mut observer = settled();
        for second in (105..400).step_by(5) {
            assert_eq!(
                look(
                    &mut observer,
                    second,
                    &[peer(1, 100, LeaseByDatabase::Running)]
                ),
                []
            );
        }
        assert_eq!(
            look(&mut observer, 400, &[peer(1, 100, LeaseByDatabase::Over)]),
            [node(1)]
        );
    }

    /// After this trouble at second 105..165 a silent peer is dead no sooner than a TTL after the first good look at 165.
    fn check_outage(trouble: impl FnOnce(&mut Observer)) {
        let mut observer = settled();
        trouble(&mut observer);
        let over = [peer(1, 100, LeaseByDatabase::Over)];
        let dead = (165..)
            .step_by(5)
            .find(|&second| !look(&mut observer, second, &over).is_empty());
        assert_eq!(dead, Some(180));
    }

    #[test]
    fn after_an_outage_of_its_own_it_is_quiet_for_a_ttl() {
        check_outage(|observer| observer.lost_contact(MonotonicMs(160_000)));
        check_outage(|_stalled| {});
        check_outage(|observer| {
            for second in (105..165).step_by(5) {
                let over = [peer(1, 100, LeaseByDatabase::Over)];
                assert_eq!(
                    observer.look(MonotonicMs(second * 1000), OwnLease::Doubtful, &over),
                    []
                );
            }
        });
    }

    #[test]
    fn what_was_seen_before_an_outage_is_void() {
        let hasty = ObserverRule {
            quiet_after_outage: Duration::ZERO,
            ..ObserverRule::new(TTL, PERIOD)
        };
        let mut observer = Observer::with_rule(hasty);
        let over = [peer(1, 7, LeaseByDatabase::Over)];
        assert_eq!(look(&mut observer, 0, &over), []);
        assert_eq!(look(&mut observer, 5, &over), []);
        observer.lost_contact(MonotonicMs(6_000));
        assert_eq!(look(&mut observer, 10, &over), []);
        assert_eq!(look(&mut observer, 15, &over), []);
        assert_eq!(look(&mut observer, 20, &over), [node(1)]);
    }

    #[test]
    fn a_gap_of_two_periods_is_none_and_a_millisecond_more_is_one() {
        let over = [peer(1, 100, LeaseByDatabase::Over)];
        let mut observer = settled();
        assert_eq!(
            observer.look(MonotonicMs(110_000), OwnLease::Renewed, &over),
            [node(1)]
        );
        let mut observer = settled();
        assert_eq!(
            observer.look(MonotonicMs(110_001), OwnLease::Renewed, &over),
            []
        );
    }

    #[test]
    fn a_start_counts_as_an_outage() {
        let mut observer = Observer::new(TTL, PERIOD);
        let over = [peer(1, 7, LeaseByDatabase::Over)];
        let dead = (0..)
            .step_by(5)
            .find(|&second| !look(&mut observer, second, &over).is_empty());
        assert_eq!(dead, Some(15));
    }

    #[test]
    fn a_peer_that_was_away_is_watched_anew() {
        let mut observer = settled();
        assert_eq!(look(&mut observer, 105, &[]), []);
        let over = [peer(1, 100, LeaseByDatabase::Over)];
        assert_eq!(look(&mut observer, 110, &over), []);
        assert_eq!(look(&mut observer, 115, &over), []);
        assert_eq!(look(&mut observer, 120, &over), [node(1)]);
        assert_eq!(
            look(&mut observer, 125, &over),
            [node(1)],
            "until it is no longer shown"
        );
    }

    #[test]
    fn a_weaker_rule_kills_a_living_node_after_an_outage() {
        let weak = ObserverRule {
            quiet_after_outage: Duration::ZERO,
            same_beat_for: Duration::ZERO,
            ..ObserverRule::new(TTL, PERIOD)
        };
        let mut observer = Observer::with_rule(weak);
        assert_eq!(
            look(&mut observer, 0, &[peer(1, 7, LeaseByDatabase::Over)]),
            [node(1)]
        );
    }

    /// What happened to an observer, one after the other.
    #[derive(Clone, Debug)]
    enum Happening {
        Look { own: OwnLease, peers: Vec<PeerBeat> },
        LostContact,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        let lease = prop_oneof![
            Just(LeaseByDatabase::Over),
            Just(LeaseByDatabase::Over),
            Just(LeaseByDatabase::Running)
        ];
        let beat = prop_oneof![9 => Just(1i64), 1 => 0..3i64];
        let peer = |number| {
            (beat.clone(), lease.clone()).prop_map(move |(beat, lease)| peer(number, beat, lease))
        };
        let peers = prop_oneof![
            1 => peer(1).prop_map(|one| vec![one]),
            9 => (peer(1), peer(2)).prop_map(|(one, two)| vec![one, two]),
        ];
        let own = prop_oneof![30 => Just(OwnLease::Renewed), 1 => Just(OwnLease::Doubtful)];
        prop_oneof![40 => (own, peers).prop_map(|(own, peers)| Happening::Look { own, peers }), 1 => Just(Happening::LostContact)]
    }

    fn history() -> impl Strategy<Value = Vec<(u64, Happening)>> {
        let pause = prop_oneof![30 => 1_000..6_000u64, 1 => 9_990..10_010u64];
        prop::collection::vec((pause, happening()), 1..40).prop_map(|pauses| {
            let mut at = 0;
            pauses
                .into_iter()
                .map(|(pause, happening)| {
                    at += pause;
                    (at, happening)
                })
                .collect()
        })
    }

    /// The rule read backward over a whole history, with no state kept: the good looks before `last` that no outage parts
    /// from it, newest first.
    fn unbroken(history: &[(u64, Happening)]) -> Vec<(u64, &[PeerBeat])> {
        let mut looks: Vec<(u64, &[PeerBeat])> = Vec::new();
        for (at, happening) in history.iter().rev() {
            match happening {
                Happening::Look {
                    own: OwnLease::Renewed,
                    peers,
                } if looks.last().is_none_or(|(next, _)| next - at <= 10_000) => {
                    looks.push((*at, peers))
                }
                _ => break,
            }
        }
        looks
    }

    fn dead_by_history(history: &[(u64, Happening)]) -> Vec<NodeId> {
        let looks = unbroken(history);
        let (Some(&(now, peers)), Some(&(first, _))) = (looks.first(), looks.last()) else {
            return Vec::new();
        };
        let silent = |dead: &PeerBeat| {
            let same = looks.iter().take_while(|(_, peers)| {
                peers
                    .iter()
                    .any(|peer| (peer.node, peer.beat) == (dead.node, dead.beat))
            });
            same.last().is_some_and(|(since, _)| now - since >= 7_500)
        };
        let over = |peer: &&PeerBeat| {
            peer.lease == LeaseByDatabase::Over && now - first >= 15_000 && silent(peer)
        };
        peers.iter().filter(over).map(|peer| peer.node).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn kills_exactly_whom_the_history_condemns(history in history()) {
            let mut observer = Observer::new(TTL, PERIOD);
            for (n, (at, happening)) in history.iter().enumerate() {
                let dead = match happening {
                    Happening::Look { own, peers } => observer.look(MonotonicMs(*at), *own, peers),
                    Happening::LostContact => { observer.lost_contact(MonotonicMs(*at)); Vec::new() }
                };
                prop_assert_eq!(dead, dead_by_history(&history[..=n]), "look {} at {}", n, at);
            }
        }

        /// Whatever the database's clock says: a peer whose number moves at least every 7 s lives.
        #[test]
        fn a_beating_peer_never_dies(
            looks in prop::collection::vec((1u64..10_000, any::<bool>()), 1..60),
            gaps in prop::collection::vec(1u64..7_000, 1..20),
        ) {
            let (mut observer, mut at) = (Observer::new(TTL, PERIOD), 0);
            let (mut beat, mut next_beat) = (0, 0);
            for (pause, over) in looks {
                at += pause;
                while next_beat <= at {
                    next_beat += gaps[beat % gaps.len()];
                    beat += 1;
                }
                let lease = if over { LeaseByDatabase::Over } else { LeaseByDatabase::Running };
                let peers = [peer(1, beat as i64, lease)];
                prop_assert_eq!(observer.look(MonotonicMs(at), OwnLease::Renewed, &peers), []);
            }
        }
    }
}
