//! A time zone as spans of constant offset. In: a range of UTC seconds. Out: the spans that cover it.
//!
//! The zone data of `chrono-tz` name clock changes up to the year 2100; from then on each zone keeps its last offset.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::{Error, clean_text};

/// The clock is sampled this often, so two changes closer together than this could be missed; none are.
const SAMPLE: i64 = 3 * 3_600;

/// A stretch of time with one offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Its first second, in UTC.
    pub(super) start: i64,
    /// The first second after it, in UTC.
    pub(super) end: i64,
    /// Local time minus UTC, in seconds.
    pub(super) offset: i64,
}

impl Span {
    /// The first midnight after its start by its own clock, in UTC, also when that lies behind its end.
    pub(super) const fn midnight(&self) -> i64 {
        let days = (self.start + self.offset).div_euclid(86_400) + 1;
        days * 86_400 - self.offset
    }
}

/// An IANA time zone.
#[derive(Clone, Copy)]
pub(super) struct Zone(Tz);

impl Zone {
    pub(super) fn parse(name: &str) -> Result<Self, Error> {
        name.parse().map(Self).map_err(|_| {
            let shown = clean_text(name, 64);
            Error::invalid(format!(
                "\"{shown}\" is not a time zone; use an IANA name such as UTC or Asia/Shanghai"
            ))
        })
    }

    pub(super) fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The spans that cover `[start, end)`, in order.
    pub(super) fn spans(&self, start: i64, end: i64) -> Vec<Span> {
        let mut spans = Vec::with_capacity(2);
        let mut open = Span {
            start,
            end,
            offset: self.offset(start),
        };
        let mut at = start;
        while at < end {
            let next = (at + SAMPLE).min(end);
            if self.offset(next) != open.offset {
                let change = self.change_within(at, next);
                spans.push(Span {
                    end: change,
                    ..open
                });
                open = Span {
                    start: change,
                    end,
                    offset: self.offset(change),
                };
            }
            at = next;
        }
        spans.push(open);
        spans
    }

    /// The first second with another offset than `before` has; `after` has another one.
    fn change_within(&self, before: i64, after: i64) -> i64 {
        let old = self.offset(before);
        let (mut low, mut high) = (before, after);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.offset(middle) == old {
                low = middle
            } else {
                high = middle
            }
        }
        high
    }

    fn offset(&self, second: i64) -> i64 {
        // Beyond the calendar of chrono there are no clock changes either.
        DateTime::from_timestamp(second, 0).map_or(0, |utc| {
            self.0
                .offset_from_utc_datetime(&utc.naive_utc())
                .fix()
                .local_minus_utc()
                .into()
        })
    }
}
