//! What a cron pattern matches on a clock that never changes.
//!
//! In: the text, and a local second (seconds since 1970 by the wall clock). Out: the next local second that
//! matches. Knows nothing of zones.

use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use croner::Weekday;
use croner::parser::{CronParser, Seconds, Year};

use super::fields::{fields_of, unwrapped, wrong_field};
use crate::Error;

const MAX_TEXT_BYTES: usize = 1_000;
/// The calendar repeats itself, weekdays included, after 400 years.
const CYCLE_YEARS: i32 = 400;

/// How a pattern goes through a clock change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Wall-clock times, once per local date each.
    Fixed,
    /// A rhythm that follows elapsed time.
    Interval,
    /// A rhythm that never pauses, which an overlap must not stretch.
    AroundTheClock,
}

/// A parsed pattern.
pub(super) struct Pattern {
    days: croner::CronPattern,
    hours: Vec<u16>,
    minutes: Vec<u16>,
    seconds: Vec<u16>,
    kind: Kind,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::invalid(format!(
                "cron pattern is longer than {MAX_TEXT_BYTES} bytes; shorten it"
            )));
        }
        let fields = fields_of(text)?;
        let read = read(&unwrapped(&fields)).map_err(|error| wrong_field(text, &fields, &error))?;
        let days = read.pattern;
        Ok(Self {
            hours: days.hours.values(),
            minutes: days.minutes.values(),
            seconds: days.seconds.values(),
            kind: kind_of(&fields, days.hours.values().len()),
            days,
        })
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The first matching local second in `[start, end)`.
    pub(super) fn next_local(&self, start: i64, end: i64) -> Option<i64> {
        let start = DateTime::from_timestamp(start, 0)?.naive_utc();
        let last = DateTime::from_timestamp(end, 0).map_or(NaiveDate::MAX, |end| end.date_naive());
        let mut date = self.next_date(start.date(), last)?;
        let mut time = [0, 0, 0];
        if date == start.date() {
            time = [start.hour(), start.minute(), start.second()];
        }
        let found = match self.time_from(time) {
            Some(time) => at(date, time)?,
            None => {
                date = self.next_date(date.succ_opt()?, last)?;
                at(date, self.time_from([0, 0, 0])?)?
            }
        };
        (found < end).then_some(found)
    }

    /// The first matching time of day at or after `[hour, minute, second]`.
    fn time_from(&self, [hour, minute, second]: [u32; 3]) -> Option<[u32; 3]> {
        for h in from(&self.hours, hour) {
            for m in from(&self.minutes, if h > hour { 0 } else { minute }) {
                let earliest = if (h, m) > (hour, minute) { 0 } else { second };
                if let Some(s) = from(&self.seconds, earliest).next() {
                    return Some([h, m, s]);
                }
            }
        }
        None
    }

    /// The first matching date from `date` to `last`, within one cycle of the calendar from the first matching year.
    fn next_date(&self, mut date: NaiveDate, last: NaiveDate) -> Option<NaiveDate> {
        let mut last_year = None;
        while date <= last && date.year() <= last_year.unwrap_or(croner::YEAR_UPPER_LIMIT) {
            if !self.days.year_match(date.year()).ok()? {
                date = first_of(date.year() + 1, 1)?;
                continue;
            }
            last_year.get_or_insert(date.year() + CYCLE_YEARS);
            if !self.days.month_match(date.month()).ok()? {
                date = first_of(
                    date.year() + i32::from(date.month() == 12),
                    date.month() % 12 + 1,
                )?;
            } else if self.day_matches(date)? {
                return Some(date);
            } else {
                date = date.succ_opt()?;
            }
        }
        None
    }

    fn day_matches(&self, date: NaiveDate) -> Option<bool> {
        let (year, month, day) = (date.year(), date.month(), date.day());
        self.days.day_match(year, month, day, weekday(date)).ok()
    }
}

/// A rhythm where second, minute or hour hold a wildcard, a step or a range; around the clock where the hour
/// has a wildcard or leaves none of the 24 out.
fn kind_of(fields: &[String], hours: usize) -> Kind {
    let rhythm = |field: &String| field.contains(['*', '/', '-']);
    match fields {
        [_, _, hour, ..] if hour.contains('*') || hours == 24 => Kind::AroundTheClock,
        _ if fields.iter().take(3).any(rhythm) => Kind::Interval,
        _ => Kind::Fixed,
    }
}

/// Has croner read seven fields.
pub(super) fn read(fields: &[String]) -> Result<croner::Cron, croner::errors::CronError> {
    let parser = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Required);
    parser.build().parse(&fields.join(" "))
}

fn from(values: &[u16], least: u32) -> impl Iterator<Item = u32> {
    values
        .iter()
        .copied()
        .map(u32::from)
        .filter(move |value| *value >= least)
}

fn at(date: NaiveDate, [hour, minute, second]: [u32; 3]) -> Option<i64> {
    Some(
        date.and_hms_opt(hour, minute, second)?
            .and_utc()
            .timestamp(),
    )
}

fn first_of(year: i32, month: u32) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(year, month, 1)
}

const fn weekday_of(days_from_sunday: u32) -> Weekday {
    match days_from_sunday {
        0 => Weekday::Sunday,
        1 => Weekday::Monday,
        2 => Weekday::Tuesday,
        3 => Weekday::Wednesday,
        4 => Weekday::Thursday,
        5 => Weekday::Friday,
        _ => Weekday::Saturday,
    }
}

fn weekday(date: NaiveDate) -> Weekday {
    weekday_of(date.weekday().num_days_from_sunday())
}
