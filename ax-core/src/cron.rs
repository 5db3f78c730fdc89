//! Cron patterns in a time zone, with a stated behaviour where the clock changes.
//!
//! In: a pattern of 5, 6 (seconds first) or 7 (years last) fields or a nickname, an IANA zone, an instant. Out:
//! the next instant strictly after it. `croner` reads the pattern and matches days; the search and the clock
//! changes are ours, because they must be bounded and must not depend on walking wall-clock text:
//!
//! 1. **Fixed times** (plain numbers or lists in second, minute and hour) fire once per local date. A time that a
//!    gap swallows fires at the first instant after the gap; of a time that comes twice, the first pass counts.
//! 2. **Intervals** (`*`, `/` or `-` in one of those fields) follow elapsed time: both passes of an overlap fire,
//!    and what a gap swallows fires as if the clock had not yet been changed.
//! 3. A local date that the zone skipped as a whole has no instants.
//! 4. The search for a date ends after the 400-year cycle of the calendar.

mod pattern;
mod zone;

use std::fmt;
use std::sync::Arc;

use crate::{Error, Timestamp};

use pattern::{Kind, Pattern};
use zone::{Span, Zone};

const DAY: i64 = 86_400;
/// How far one look at the zone's clock changes reaches ahead.
const WINDOW: i64 = 2 * DAY;
/// How long a clock change goes on to matter: longer than any change by less than a day.
const SHADOW: i64 = DAY + 3_600;

/// A parsed cron pattern in a time zone; cheap to clone.
#[derive(Clone)]
pub struct Cron(Arc<Parsed>);

struct Parsed {
    text: String,
    pattern: Pattern,
    zone: Zone,
}

impl Cron {
    /// Reads a pattern and the name of an IANA zone such as `Asia/Shanghai`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the field that is wrong.
    pub fn parse(text: &str, zone_name: &str) -> Result<Self, Error> {
        let pattern = Pattern::parse(text)?;
        let zone = Zone::parse(zone_name)?;
        Ok(Self(Arc::new(Parsed {
            text: text.trim().to_owned(),
            pattern,
            zone,
        })))
    }

    /// The first instant strictly after `after`; `None` when the pattern can never match again.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        if after >= Timestamp::MAX_VALID {
            return None;
        }
        let seconds = after
            .max(Timestamp::from_millis(-1))
            .as_millis()
            .div_euclid(1_000);
        let next = self.next_second(seconds)?;
        Some(Timestamp::from_millis(next.checked_mul(1_000)?)).filter(|next| next.is_valid())
    }

    /// Whether there is any instant after `from`; answered in well under a millisecond or two.
    #[must_use]
    pub fn can_fire(&self, from: Timestamp) -> bool {
        self.next_after(from).is_some()
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The name of the zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.0.zone.name()
    }

    /// Looks at one window of two days after another; between them it jumps to the day before the next local match.
    fn next_second(&self, after: i64) -> Option<i64> {
        let mut from = after;
        loop {
            let end = from + WINDOW;
            let spans = self.0.zone.spans(from - SHADOW, end);
            if let Some(found) = self.first_in(&spans, from) {
                return Some(found);
            }
            // Offsets stay within a day, so no local time before `end - DAY` can belong to an instant after `end`.
            let local = self.0.pattern.next_local(end - DAY)?;
            from = end.max(local - DAY);
        }
    }

    /// The first instant after `from` in these spans of constant offset.
    fn first_in(&self, spans: &[Span], from: i64) -> Option<i64> {
        let mut before: Option<&Span> = None;
        for span in spans {
            if span.end > from + 1 {
                let change = before.map_or(0, |before| span.offset - before.offset);
                let found = match self.0.pattern.kind() {
                    Kind::Fixed => self.fixed_in(span, change, from),
                    Kind::Interval => self.interval_in(span, change, from),
                };
                if found.is_some() {
                    return found;
                }
            }
            before = Some(span);
        }
        None
    }

    /// Rule 1. `change` is by how much the clock was set forward (or back, below zero) at the span's start.
    fn fixed_in(&self, span: &Span, change: i64, from: i64) -> Option<i64> {
        let swallowed = (1..DAY).contains(&change) && span.start > from;
        let pattern = &self.0.pattern;
        if swallowed
            && pattern.next_local(span.start + span.offset - change)? < span.start + span.offset
        {
            return Some(span.start);
        }
        let second_pass = (-change).max(0);
        self.natural_in(span, (from + 1).max(span.start + second_pass), span.end)
    }

    /// Rule 2.
    fn interval_in(&self, span: &Span, change: i64, from: i64) -> Option<i64> {
        let start = (from + 1).max(span.start);
        let natural = self.natural_in(span, start, span.end);
        if !(1..DAY).contains(&change) {
            return natural;
        }
        let unchanged = Span {
            offset: span.offset - change,
            ..*span
        };
        let swallowed = self.natural_in(&unchanged, start, (span.start + change).min(span.end));
        [natural, swallowed].into_iter().flatten().min()
    }

    /// The first match in `[start, end)` by the span's own clock.
    fn natural_in(&self, span: &Span, start: i64, end: i64) -> Option<i64> {
        let found = self.0.pattern.next_local(start + span.offset)? - span.offset;
        (found < end).then_some(found)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() && self.zone() == other.zone()
    }
}

impl Eq for Cron {}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.text(), self.zone())
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({self})")
    }
}
