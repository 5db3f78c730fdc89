//! How well the network and the server do: latencies and what goes wrong by itself.

use std::time::Duration;

use super::dice::Dice;

/// The weather of a stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// Latency of each half of a call, in microseconds.
    pub(crate) latency: (i64, i64),
    /// Chance that a half is slow.
    pub(crate) slow: f64,
    /// Chance that a request never arrives.
    pub(crate) lost_request: f64,
    /// Chance that an effect happens and its reply is lost.
    pub(crate) lost_reply: f64,
    /// Chance that the caller hears of a cut connection first and the effect happens later.
    pub(crate) late: f64,
    /// Chance that a connection from the pool is dead.
    pub(crate) stale: f64,
    /// Chance that the server rolls a transaction back and asks to try again.
    pub(crate) refused: f64,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    LostRequest,
    LostReply,
    Late,
    Refused,
}

impl Weather {
    /// Nothing goes wrong.
    pub(crate) const fn calm() -> Weather {
        Weather {
            latency: (100, 3_000),
            slow: 0.0,
            lost_request: 0.0,
            lost_reply: 0.0,
            late: 0.0,
            stale: 0.0,
            refused: 0.0,
        }
    }

    /// What a seed draws: each kind of trouble is absent in some worlds and heavy in others.
    pub(crate) fn drawn(dice: &mut Dice) -> Weather {
        let mut rate = |most: f64| {
            if dice.chance(0.4) {
                0.0
            } else {
                most * dice.below(1_000) as f64 / 1_000.0
            }
        };
        Weather {
            slow: rate(0.05),
            lost_request: rate(0.01),
            lost_reply: rate(0.03),
            late: rate(0.005),
            stale: rate(0.02),
            refused: rate(0.03),
            latency: (100, 3_000),
        }
    }

    /// The time of one half of a call.
    pub(crate) fn half(&self, dice: &mut Dice) -> Duration {
        if dice.chance(self.slow) {
            return dice.millis(20, 700);
        }
        let micros = dice.between(self.latency.0, self.latency.1);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// What happens to a call.
    pub(crate) fn fate(&self, dice: &mut Dice) -> Fate {
        if dice.chance(self.lost_request) {
            Fate::LostRequest
        } else if dice.chance(self.lost_reply) {
            Fate::LostReply
        } else if dice.chance(self.late) {
            Fate::Late
        } else if dice.chance(self.refused) {
            Fate::Refused
        } else {
            Fate::Fine
        }
    }
}
