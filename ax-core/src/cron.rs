//! Cron patterns in a time zone, with a stated behaviour where the clock changes.
//!
//! In: a pattern of 5, 6 (seconds first) or 7 (years last) fields or a nickname, an IANA zone, an instant. Out:
//! the next instant strictly after it. `croner` reads the pattern and matches days; the search and the clock
//! changes are ours, because they must be bounded and must not depend on walking wall-clock text:
//!
//! 1. **Fixed times** (plain numbers or lists in second, minute and hour) fire once per local date. A time that a
//!    gap swallows fires at the first instant after the gap; of a time that comes twice, the first pass counts.
//! 2. **Intervals** (`*`, `/` or `-` in one of those fields) follow elapsed time: both passes of an overlap fire,
//!    and what a gap swallows fires as if the clock had not yet been changed. A rhythm around the clock (`*` in
//!    the hour) waits through an overlap no longer than its interval: its first tick after the change comes when
//!    the old clock would have brought it, and from then on the new clock rules.
//! 3. A local date that the zone skipped as a whole has no instants.
//! 4. The search for a date ends after the 400-year cycle of the calendar.

mod fields;
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

    /// Jumps to the day before the next local match and looks at a window of two days; then on from there.
    fn next_second(&self, after: i64) -> Option<i64> {
        let mut from = after;
        loop {
            // Offsets stay within a day: no local time before `from - DAY` belongs to an instant after `from`, and
            // none from `local` on belongs to one before `local - DAY`.
            let local = self.0.pattern.next_local(from - DAY, i64::MAX)?;
            from = from.max(local - DAY - 1);
            let end = from + WINDOW;
            let spans = self.0.zone.spans(from - SHADOW, end);
            if let Some(found) = self.first_in(&spans, from) {
                return Some(found);
            }
            from = end - 1;
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
                    Kind::Interval | Kind::AroundTheClock => self.interval_in(span, change, from),
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
        let gap_end = span.start + span.offset;
        let swallows = (1..DAY).contains(&change) && span.start > from;
        if swallows
            && self
                .0
                .pattern
                .next_local(gap_end - change, gap_end)
                .is_some()
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
        let old_clock = Span {
            offset: span.offset - change,
            ..*span
        };
        let displaced = if (1..DAY).contains(&change) {
            self.natural_in(&old_clock, start, (span.start + change).min(span.end))
        } else if change < 0 && self.0.pattern.kind() == Kind::AroundTheClock {
            let first = self.natural_in(&old_clock, span.start, old_clock.midnight().min(span.end));
            first.filter(|first| *first > from)
        } else {
            None
        };
        [natural, displaced].into_iter().flatten().min()
    }

    /// The first match in `[start, end)` by the span's own clock.
    fn natural_in(&self, span: &Span, start: i64, end: i64) -> Option<i64> {
        let local = self
            .0
            .pattern
            .next_local(start + span.offset, end + span.offset)?;
        Some(local - span.offset)
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

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, NaiveDate, Offset, TimeZone};
    use chrono_tz::Tz;
    use proptest::prelude::*;

    fn cron(text: &str, zone: &str) -> Cron {
        Cron::parse(text, zone).unwrap()
    }

    fn utc(text: &str) -> Timestamp {
        let text = if text.contains('T') {
            format!("{text}Z")
        } else {
            format!("{text}T00:00:00Z")
        };
        text.parse().unwrap()
    }

    /// All instants after `from` up to `to`.
    fn fires(cron: &Cron, from: &str, to: &str) -> Vec<Timestamp> {
        let (mut at, end, mut found) = (utc(from), utc(to), Vec::new());
        while let Some(next) = cron.next_after(at).filter(|next| *next <= end) {
            assert!(next > at, "{cron}: {next} is not after {at}");
            found.push(next);
            at = next;
        }
        found
    }

    /// The same, as local texts with offset.
    fn local_fires(text: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let tz: Tz = zone.parse().unwrap();
        let show = |at: Timestamp| at.to_datetime().unwrap().with_timezone(&tz).to_rfc3339();
        fires(&cron(text, zone), from, to)
            .into_iter()
            .map(show)
            .collect()
    }

    fn check(text: &str, zone: &str, from: &str, to: &str, expected: &[&str]) {
        assert_eq!(local_fires(text, zone, from, to), expected, "{text} {zone}");
    }

    #[test]
    fn case_c01_a_fixed_time_in_the_gap_fires_at_its_end() {
        check(
            "30 2 * * *",
            "America/New_York",
            "2026-03-07",
            "2026-03-09T12:00:00",
            &[
                "2026-03-07T02:30:00-05:00",
                "2026-03-08T03:00:00-04:00",
                "2026-03-09T02:30:00-04:00",
            ],
        );
        check(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-02",
            "2026-10-05",
            &[
                "2026-10-03T02:15:00+10:30",
                "2026-10-04T02:30:00+11:00",
                "2026-10-05T02:15:00+11:00",
            ],
        );
    }

    #[test]
    fn case_c01_a_fixed_time_in_the_overlap_fires_in_the_first_pass() {
        check(
            "30 1 * * *",
            "America/New_York",
            "2026-10-31",
            "2026-11-02T12:00:00",
            &[
                "2026-10-31T01:30:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-02T01:30:00-05:00",
            ],
        );
        check(
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-03",
            "2026-04-06",
            &[
                "2026-04-04T01:45:00+11:00",
                "2026-04-05T01:45:00+11:00",
                "2026-04-06T01:45:00+10:30",
            ],
        );
    }

    #[test]
    fn case_c01_one_execution_per_local_date() {
        for (text, zone, from, to, days) in [
            (
                "30 2 * * *",
                "America/New_York",
                "2026-01-01T12:00:00",
                "2026-12-31T12:00:00",
                364,
            ),
            (
                "45 1 * * *",
                "Australia/Lord_Howe",
                "2026-01-01T12:00:00",
                "2026-12-31T12:00:00",
                364,
            ),
            (
                "0 0 * * *",
                "America/Sao_Paulo",
                "2018-01-01T12:00:00",
                "2018-12-31T12:00:00",
                364,
            ),
            (
                "0 0 * * *",
                "Asia/Beirut",
                "2026-01-01T12:00:00",
                "2026-12-31T12:00:00",
                364,
            ),
            (
                "30 23 * * *",
                "America/Havana",
                "2026-01-01T12:00:00",
                "2026-12-31T12:00:00",
                364,
            ),
            (
                "30 2 * * *",
                "Africa/Casablanca",
                "2026-01-01T12:00:00",
                "2026-12-31T12:00:00",
                364,
            ),
            (
                "30 2 * * *",
                "Antarctica/Troll",
                "2026-01-01T12:00:00",
                "2026-12-31T12:00:00",
                364,
            ),
        ] {
            let tz: Tz = zone.parse().unwrap();
            let date = |at: Timestamp| at.to_datetime().unwrap().with_timezone(&tz).date_naive();
            let mut dates: Vec<NaiveDate> = fires(&cron(text, zone), from, to)
                .into_iter()
                .map(date)
                .collect();
            assert_eq!(dates.len(), days, "{text} {zone}");
            dates.dedup();
            assert_eq!(dates.len(), days, "{text} {zone}");
        }
    }

    #[test]
    fn a_list_of_fixed_times_fires_each_once() {
        check(
            "0,30 1,13 * * *",
            "America/New_York",
            "2026-11-01T04:00:00",
            "2026-11-02T04:00:00",
            &[
                "2026-11-01T01:00:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-01T13:00:00-05:00",
                "2026-11-01T13:30:00-05:00",
            ],
        );
    }

    fn largest_gap(text: &str, zone: &str, from: &str, to: &str) -> i64 {
        let at: Vec<i64> = fires(&cron(text, zone), from, to)
            .into_iter()
            .map(Timestamp::as_millis)
            .collect();
        at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap() / 1_000
    }

    #[test]
    fn case_c02_intervals_are_never_silent() {
        for (zone, from, to) in [
            ("America/New_York", "2026-11-01", "2026-11-02"),
            ("America/New_York", "2026-03-08", "2026-03-09"),
            (
                "Europe/Berlin",
                "2026-10-24T12:00:00",
                "2026-10-25T12:00:00",
            ),
            (
                "Europe/Berlin",
                "2026-03-28T12:00:00",
                "2026-03-29T12:00:00",
            ),
            ("Australia/Lord_Howe", "2026-04-04", "2026-04-05"),
            ("Australia/Lord_Howe", "2026-10-03", "2026-10-04"),
            (
                "Antarctica/Troll",
                "2026-03-28T12:00:00",
                "2026-03-29T12:00:00",
            ),
        ] {
            for (text, interval) in [
                ("*/15 * * * * *", 15),
                ("7,22,37,52 * * * *", 15 * 60),
                ("*/20 * * * *", 20 * 60),
                ("0 * * * *", 3_600),
                ("0 0-23 * * *", 3_600),
                ("0 */2 * * *", 7_200),
                ("30 */2 * * *", 7_200),
                ("15 */4 * * *", 14_400),
            ] {
                assert_eq!(
                    largest_gap(text, zone, from, to),
                    interval,
                    "{text} {zone} {from}"
                );
            }
        }
    }

    #[test]
    fn case_c02_a_step_of_hours_runs_on() {
        check(
            "0 */2 * * *",
            "America/New_York",
            "2026-11-01T03:00:00",
            "2026-11-01T10:00:00",
            &[
                "2026-11-01T00:00:00-04:00",
                "2026-11-01T01:00:00-05:00",
                "2026-11-01T02:00:00-05:00",
                "2026-11-01T04:00:00-05:00",
            ],
        );
        check(
            "30 */2 * * *",
            "America/New_York",
            "2026-03-08T05:00:00",
            "2026-03-08T10:00:00",
            &[
                "2026-03-08T00:30:00-05:00",
                "2026-03-08T03:30:00-04:00",
                "2026-03-08T04:30:00-04:00",
            ],
        );
    }

    #[test]
    fn case_c02_both_passes_of_a_matched_hour_fire() {
        check(
            "*/30 1 * * *",
            "America/New_York",
            "2026-11-01",
            "2026-11-01T12:00:00",
            &[
                "2026-11-01T01:00:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-01T01:00:00-05:00",
                "2026-11-01T01:30:00-05:00",
            ],
        );
        check(
            "0 * * * *",
            "America/New_York",
            "2026-11-01T04:00:00",
            "2026-11-01T07:00:00",
            &[
                "2026-11-01T01:00:00-04:00",
                "2026-11-01T01:00:00-05:00",
                "2026-11-01T02:00:00-05:00",
            ],
        );
    }

    #[test]
    fn case_c02_a_matched_hour_in_the_gap_follows_elapsed_time() {
        check(
            "*/20 2 * * *",
            "Europe/Berlin",
            "2026-03-29",
            "2026-03-29T12:00:00",
            &[
                "2026-03-29T03:00:00+02:00",
                "2026-03-29T03:20:00+02:00",
                "2026-03-29T03:40:00+02:00",
            ],
        );
    }

    #[test]
    fn a_zone_that_skipped_a_day_goes_on_the_next() {
        check(
            "30 2 * * *",
            "Pacific/Apia",
            "2011-12-29",
            "2012-01-01",
            &[
                "2011-12-29T02:30:00-10:00",
                "2011-12-31T02:30:00+14:00",
                "2012-01-01T02:30:00+14:00",
            ],
        );
        check(
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-06-01",
            "2012-12-31",
            &["2012-12-30T12:00:00+14:00"],
        );
        assert_eq!(
            largest_gap("0 * * * *", "Pacific/Apia", "2011-12-29", "2012-01-01"),
            3_600
        );
        assert_eq!(
            fires(
                &cron("*/30 9-17 30 12 *", "Pacific/Apia"),
                "2011-12-20",
                "2012-01-10"
            ),
            []
        );
        let kwajalein = local_fires("0 9 * * *", "Pacific/Kwajalein", "1993-08-20", "1993-08-23");
        assert_eq!(kwajalein.len(), 3, "{kwajalein:?}");
    }

    #[test]
    fn case_c04_impossible_date_is_answered_at_once() {
        #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
        let start = std::time::Instant::now();
        for text in [
            "0 0 30 2 *",
            "0 0 31 4,6,9,11 *",
            "0 0 0 1 1 * 2020",
            "0 0 0 29 2 * 2097-2103",
            "0 0 31 2 +MON",
        ] {
            for zone in ["UTC", "America/New_York", "Pacific/Apia"] {
                let cron = cron(text, zone);
                assert!(!cron.can_fire(utc("2026-01-01")), "{cron}");
                assert_eq!(
                    cron.next_after(Timestamp::MIN_VALID.max(utc("2020-01-01T12:00:00"))),
                    None,
                    "{cron}"
                );
            }
        }
        assert!(
            start.elapsed() < std::time::Duration::from_millis(500),
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn case_c04_rare_dates_are_found() {
        check(
            "0 0 29 2 *",
            "UTC",
            "2096-03-01",
            "2107-01-01",
            &["2104-02-29T00:00:00+00:00"],
        );
        let leap_monday = cron("0 0 29 2 +MON", "UTC").next_after(utc("2026-01-01"));
        assert_eq!(leap_monday, Some(utc("2044-02-29")));
        let far = cron("0 0 0 29 2 * 2800", "UTC").next_after(utc("2026-01-01"));
        assert_eq!(far, Some(utc("2800-02-29")));
        let exhausted = cron("0 0 0 1 1 * 2025-2027", "UTC");
        assert_eq!(
            fires(&exhausted, "2026-06-01", "2199-01-01"),
            [utc("2027-01-01")]
        );
        assert!(!exhausted.can_fire(utc("2027-01-01")));
    }

    #[test]
    fn every_form_is_read() {
        for (text, next) in [
            ("@daily", "2026-03-02"),
            ("@midnight", "2026-03-02"),
            ("@Hourly", "2026-03-01T01:00:00"),
            ("@weekly", "2026-03-08"),
            ("@monthly", "2026-04-01"),
            ("@yearly", "2027-01-01"),
            ("*/10 * * * * *", "2026-03-01T00:00:10"),
            ("0 0 12 ? * MON", "2026-03-02T12:00:00"),
            ("0 0 L * *", "2026-03-31"),
            ("0 0 LW * *", "2026-03-31"),
            ("0 0 15W * *", "2026-03-16"),
            ("0 0 * * 5L", "2026-03-27"),
            ("0 0 * * 2#3", "2026-03-17"),
            ("0 0 1 JAN-MAR *", "2027-01-01"),
            ("0 0 * * FRI-MON", "2026-03-02"),
            ("0 0 3-5 * FRI-SUN", "2026-03-03"),
            ("0 22-4/2 * * *", "2026-03-01T02:00:00"),
            ("0 12 1 NOV-JAN *", "2026-11-01T12:00:00"),
            ("0 0 0 1 1 * 2030", "2030-01-01"),
            ("  5   4 * * *  ", "2026-03-01T04:05:00"),
        ] {
            assert_eq!(
                cron(text, "UTC").next_after(utc("2026-03-01")),
                Some(utc(next)),
                "{text}"
            );
        }
        let wrapped = fires(
            &cron("0 0 * * FRI-MON/2", "UTC"),
            "2026-03-01",
            "2026-03-08T12:00:00",
        );
        assert_eq!(wrapped, [utc("2026-03-06"), utc("2026-03-08")]);
    }

    #[test]
    fn errors_name_the_field() {
        for (text, part) in [
            (
                "61 * * * *",
                "minute \"61\" is wrong: Component error: Number out of bounds.",
            ),
            ("* 25 * * *", "hour \"25\""),
            ("x * * * * *", "second \"x\""),
            ("* * 0 * *", "day of month \"0\""),
            ("* * * FOO *", "month \"FOO\""),
            ("* * * * 8", "day of week \"8\""),
            ("0 0 0 1 1 * 99999", "year \"99999\""),
            ("*/0 * * * *", "minute \"*/0\""),
            ("1,,2 * * * *", "minute \"1,,2\" has an empty item"),
            (", * * * *", "empty item"),
            ("* * * *", "has 4 fields"),
            ("", "has 0 fields"),
            ("@never", "has 1 fields"),
            ("* * * * * * * *", "has 8 fields"),
        ] {
            let error = Cron::parse(text, "UTC").unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = Cron::parse("* * * * *", "Asia/Beijing")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("\"Asia/Beijing\" is not a time zone"),
            "{error}"
        );
        assert!(Cron::parse(&"1,".repeat(1_000), "UTC").is_err());
    }

    #[test]
    fn instants_outside_the_calendar_are_answered() {
        let daily = cron("@daily", "Asia/Tokyo");
        assert_eq!(daily.next_after(Timestamp::MAX), None);
        assert_eq!(daily.next_after(Timestamp::MAX_VALID), None);
        assert_eq!(
            daily.next_after(Timestamp::from_millis(i64::MIN)),
            Some(utc("1970-01-01T15:00:00"))
        );
        let tick = utc("2026-01-01T15:00:00");
        let earlier = Timestamp::from_millis(tick.as_millis() - 1);
        assert_eq!(daily.next_after(earlier), Some(tick));
        assert_eq!(
            daily.next_after(Timestamp::from_millis(tick.as_millis() + 1)),
            Some(utc("2026-01-02T15:00:00"))
        );
    }

    const ZONES: [(&str, &str); 10] = [
        ("America/New_York", "2026-03-08"),
        ("America/New_York", "2026-11-01"),
        ("Europe/Berlin", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25"),
        ("Australia/Lord_Howe", "2026-04-05"),
        ("Australia/Lord_Howe", "2026-10-04"),
        ("America/Sao_Paulo", "2018-11-04"),
        ("America/Sao_Paulo", "2018-02-18"),
        ("Pacific/Apia", "2011-12-30"),
        ("Antarctica/Troll", "2026-10-25"),
    ];

    /// The rules at the head of this file, told minute by minute without any search.
    struct Model {
        cron: Cron,
        tz: Tz,
        /// The minutes at which the clock was changed, and by how many minutes.
        changes: Vec<(i64, i64)>,
        /// What the old clock would have brought first after it was set back.
        firsts: Vec<i64>,
    }

    impl Model {
        /// Knows the clock from `first` to `last`, in minutes since 1970.
        fn new(cron: Cron, first: i64, last: i64) -> Self {
            let tz: Tz = cron.zone().parse().unwrap();
            let change = |at: i64| (at, offset(tz, at) - offset(tz, at - 1));
            let changes: Vec<_> = (first..=last)
                .map(change)
                .filter(|(_, by)| *by != 0)
                .collect();
            let mut model = Self {
                cron,
                tz,
                changes,
                firsts: Vec::new(),
            };
            let back = model.changes.iter().filter(|(_, by)| *by < 0);
            model.firsts = back.filter_map(|(at, _)| model.first(*at)).collect();
            model
        }

        fn matches(&self, local_minute: i64) -> bool {
            let second = local_minute * 60;
            self.cron.0.pattern.next_local(second, second + 1) == Some(second)
        }

        fn fires(&self, minute: i64) -> bool {
            let matches = self.matches(minute + offset(self.tz, minute));
            let gap = |by: i64| (1..24 * 60).contains(&by);
            let mut changes = self.changes.iter().copied();
            match self.cron.0.pattern.kind() {
                Kind::Interval => {
                    matches || changes.any(|(at, by)| gap(by) && self.runs_on(minute, at, by))
                }
                Kind::AroundTheClock => {
                    let displaced = |(at, by)| gap(by) && self.runs_on(minute, at, by);
                    matches || self.firsts.contains(&minute) || changes.any(displaced)
                }
                Kind::Fixed => {
                    matches && !self.second_pass(minute)
                        || changes.any(|(at, by)| gap(by) && self.ends(minute, at, by))
                }
            }
        }

        /// Within the length of the gap behind it, by the clock from before the gap.
        fn runs_on(&self, minute: i64, at: i64, by: i64) -> bool {
            (at..at + by).contains(&minute) && self.matches(minute + offset(self.tz, at - 1))
        }

        /// After the clock was set back, the first match of that date by the clock from before.
        fn first(&self, at: i64) -> Option<i64> {
            let old = offset(self.tz, at - 1);
            let midnight = ((at + old).div_euclid(1_440) + 1) * 1_440 - old;
            (at..midnight).find(|minute| self.matches(minute + old))
        }

        fn ends(&self, minute: i64, at: i64, by: i64) -> bool {
            let before = at + offset(self.tz, at - 1);
            minute == at && (before..before + by).any(|lost| self.matches(lost))
        }

        /// The same local time came up to a day and two hours before.
        fn second_pass(&self, minute: i64) -> bool {
            let now = offset(self.tz, minute);
            (1..26 * 60).any(|ago| offset(self.tz, minute - ago) - now == ago)
        }
    }

    /// Local time minus UTC, in minutes.
    fn offset(tz: Tz, minute: i64) -> i64 {
        let utc = DateTime::from_timestamp(minute * 60, 0)
            .unwrap()
            .naive_utc();
        i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()) / 60
    }

    fn any_time_field(most: u32) -> impl Strategy<Value = String> {
        prop_oneof![
            Just("*".to_owned()),
            (0..=most).prop_map(|value| value.to_string()),
            (1..=most).prop_map(|step| format!("*/{step}")),
            (0..=most, 0..=most).prop_map(|(a, b)| format!("{a},{b}")),
            (0..=most, 0..=most).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn clock_changes_follow_the_rules(
            (zone, day) in prop::sample::select(&ZONES), minute in any_time_field(59), hour in any_time_field(4),
            date in prop::sample::select(&["*", "*/2", "*/3", "1,5,10,28-31"]), shift in 0..1_440_i64,
        ) {
            let cron = cron(&format!("{minute} {hour} {date} * *"), zone);
            let noon = utc(day).as_millis() / 60_000 + 12 * 60 - shift;
            let (first, last) = (noon - 72 * 60, noon + 72 * 60);
            let model = Model::new(cron.clone(), first - 27 * 60, last);
            let expected: Vec<i64> = (first + 1..=last).filter(|minute| model.fires(*minute)).collect();
            let mut found = Vec::new();
            let mut at = Timestamp::from_millis(first * 60_000);
            while let Some(next) = cron.next_after(at).filter(|next| next.as_millis() <= last * 60_000) {
                found.push(next.as_millis() / 60_000);
                at = next;
            }
            prop_assert_eq!(found, expected);
        }
    }

    fn any_pattern() -> impl Strategy<Value = String> {
        let day = prop_oneof![
            Just("*".to_owned()),
            (1..=31_u32).prop_map(|d| d.to_string()),
            Just("L".to_owned()),
            Just("15W".to_owned())
        ];
        let month = prop_oneof![
            Just("*".to_owned()),
            (1..=12_u32).prop_map(|m| m.to_string())
        ];
        let weekday = prop_oneof![
            Just("*".to_owned()),
            (0..=7_u32).prop_map(|w| w.to_string()),
            Just("5#5".to_owned())
        ];
        (
            any_time_field(59),
            any_time_field(59),
            any_time_field(23),
            day,
            month,
            weekday,
        )
            .prop_map(|(s, m, h, d, mo, w)| format!("{s} {m} {h} {d} {mo} {w}"))
    }

    const EVERYWHERE: [&str; 12] = [
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Europe/Dublin",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Kwajalein",
        "Asia/Kathmandu",
        "Africa/Casablanca",
        "America/St_Johns",
        "Asia/Tehran",
        "Antarctica/Troll",
    ];

    proptest! {
        #[test]
        fn next_is_always_later_and_nothing_lies_between(
            text in any_pattern(), zone in prop::sample::select(&EVERYWHERE), after in 0..7_226_582_400_000_i64, part in 0.0..1.0_f64,
        ) {
            let cron = cron(&text, zone);
            let after = Timestamp::from_millis(after);
            if let Some(next) = cron.next_after(after) {
                prop_assert!(next > after);
                #[expect(clippy::cast_possible_truncation, reason = "any place between the two will do")]
                let between = after.as_millis() + ((next.as_millis() - after.as_millis() - 1) as f64 * part) as i64;
                prop_assert_eq!(cron.next_after(Timestamp::from_millis(between)), Some(next));
            } else {
                prop_assert!(!cron.can_fire(after));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-*/,0-9LW#?@A-Z+ ]{0,20}", zone in ".{0,12}") {
            if let Ok(cron) = Cron::parse(&text, "UTC") {
                let _ = cron.next_after(Timestamp::MIN_VALID);
            }
            let _ = Cron::parse("* * * * *", &zone);
        }
    }
}
