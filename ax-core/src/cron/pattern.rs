//! What a cron pattern matches on a clock that never changes.
//!
//! In: the text, and a local second (seconds since 1970 by the wall clock). Out: the next local second that
//! matches. Knows nothing of zones.

use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use croner::Weekday;
use croner::parser::{CronParser, Seconds, Year};

use crate::{Error, clean_text};

const FIELDS: [&str; 7] = [
    "second",
    "minute",
    "hour",
    "day of month",
    "month",
    "day of week",
    "year",
];
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
        let cron = parser()
            .parse(&fields.join(" "))
            .map_err(|error| wrong_field(text, &fields, &error))?;
        let days = cron.pattern;
        let (hours, minutes, seconds) = (
            days.hours.values(),
            days.minutes.values(),
            days.seconds.values(),
        );
        let interval = fields[..3]
            .iter()
            .any(|field| field.contains(['*', '/', '-']));
        let kind = if interval {
            Kind::Interval
        } else {
            Kind::Fixed
        };
        Ok(Self {
            days,
            hours,
            minutes,
            seconds,
            kind,
        })
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The first matching local second at or after `local`.
    pub(super) fn next_local(&self, local: i64) -> Option<i64> {
        let start = DateTime::from_timestamp(local, 0)?.naive_utc();
        let today = self.next_date(start.date())?;
        if today == start.date()
            && let Some(found) = self.time_from([start.hour(), start.minute(), start.second()])
        {
            return at(today, found);
        }
        let date = if today == start.date() {
            self.next_date(today.succ_opt()?)?
        } else {
            today
        };
        at(date, self.time_from([0, 0, 0])?)
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

    /// The first matching date at or after `date`, within one cycle of the calendar.
    fn next_date(&self, mut date: NaiveDate) -> Option<NaiveDate> {
        while !self.days.year_match(date.year()).ok()? {
            date = first_of(date.year() + 1, 1)?;
            if date.year() > croner::YEAR_UPPER_LIMIT {
                return None;
            }
        }
        let last = date.year() + CYCLE_YEARS;
        while date.year() <= last {
            if !self.days.year_match(date.year()).ok()? {
                date = first_of(date.year() + 1, 1)?;
            } else if !self.days.month_match(date.month()).ok()? {
                date = first_of(
                    date.year() + i32::from(date.month() == 12),
                    date.month() % 12 + 1,
                )?;
            } else if self
                .days
                .day_match(date.year(), date.month(), date.day(), weekday(date))
                .ok()?
            {
                return Some(date);
            } else {
                date = date.succ_opt()?;
            }
        }
        None
    }
}

fn parser() -> CronParser {
    CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Optional)
        .build()
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

/// The seven fields, nicknames and left-out fields filled in.
fn fields_of(text: &str) -> Result<Vec<String>, Error> {
    let text = text.trim();
    let text = match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => text,
    };
    let mut fields: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    match fields.len() {
        5..=7 => {}
        count => {
            let shown = clean_text(text, 64);
            return Err(Error::invalid(format!(
                "cron pattern \"{shown}\" has {count} fields; write 5 (minute hour day month weekday), 6 (seconds first), \
                 7 (year last), or @hourly, @daily, @weekly, @monthly or @yearly"
            )));
        }
    }
    if fields.len() == 5 {
        fields.insert(0, "0".to_owned());
    }
    if fields.len() == 6 {
        fields.push("*".to_owned());
    }
    Ok(fields)
}

/// Finds the field that croner refuses by trying each one alone.
fn wrong_field(text: &str, fields: &[String], error: &croner::errors::CronError) -> Error {
    let shown = clean_text(text, 64);
    for (index, field) in fields.iter().enumerate() {
        let mut alone = ["*"; 7].map(str::to_owned);
        alone[index].clone_from(field);
        if let Err(error) = parser().parse(&alone.join(" ")) {
            let (name, field) = (FIELDS[index], clean_text(field, 64));
            return Error::invalid(format!(
                "cron pattern \"{shown}\": {name} \"{field}\" is wrong: {error}"
            ));
        }
    }
    Error::invalid(format!("cron pattern \"{shown}\" is wrong: {error}"))
}
