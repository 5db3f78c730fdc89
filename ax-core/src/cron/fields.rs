//! The text of a cron pattern as seven fields that croner reads.
//!
//! In: 5, 6 or 7 fields or a nickname. Out: seven fields, left-out ones filled in, and ranges that wrap
//! (`FRI-MON`, `22-4/2`) written out as lists; or an error that names the wrong field.

use croner::errors::CronError;

use super::pattern::read;
use crate::{Error, clean_text};

/// A field: its name, its least and greatest value, and the words for its values.
struct Field {
    name: &'static str,
    least: u32,
    greatest: u32,
    words: &'static [&'static str],
}

const fn field(name: &'static str, least: u32, greatest: u32) -> Field {
    Field {
        name,
        least,
        greatest,
        words: &[],
    }
}

const MONTHS: &[&str] = &[
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const FIELDS: [Field; 7] = [
    field("second", 0, 59),
    field("minute", 0, 59),
    field("hour", 0, 23),
    field("day of month", 1, 31),
    Field {
        words: MONTHS,
        ..field("month", 1, 12)
    },
    Field {
        words: WEEKDAYS,
        ..field("day of week", 0, 6)
    },
    field("year", 1, 5_000),
];

/// The seven fields, nicknames and left-out fields filled in.
pub(super) fn fields_of(text: &str) -> Result<Vec<String>, Error> {
    let pattern = match text.trim().to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => text,
    };
    let mut fields: Vec<String> = pattern.split_whitespace().map(str::to_owned).collect();
    if !(5..=7).contains(&fields.len()) {
        let (shown, count) = (clean_text(text, 64), fields.len());
        return Err(Error::invalid(format!(
            "cron pattern \"{shown}\" has {count} fields; write 5 (minute hour day month weekday), \
             6 (seconds first), 7 (year last), or @hourly, @daily, @weekly, @monthly or @yearly"
        )));
    }
    if fields.len() == 5 {
        fields.insert(0, "0".to_owned());
    }
    if fields.len() == 6 {
        fields.push("*".to_owned());
    }
    check_lists(text, &fields)?;
    Ok(fields)
}

/// The same fields with every range that wraps written out as a list.
pub(super) fn unwrapped(fields: &[String]) -> Vec<String> {
    let about = fields.iter().zip(&FIELDS);
    let parts = about.map(|(text, field)| text.split(',').map(|part| field.unwrapped(part)));
    parts
        .map(|parts| parts.collect::<Vec<_>>().join(","))
        .collect()
}

impl Field {
    /// A range whose start lies behind its end, as a list; every other text as it is.
    fn unwrapped(&self, part: &str) -> String {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let ends = range
            .split_once('-')
            .and_then(|(a, b)| Some((self.value(a)?, self.value(b)?)));
        match (ends, step.parse::<usize>()) {
            (Some((start, end)), Ok(step)) if start > end && step > 0 => {
                let values = (start..=self.greatest)
                    .chain(self.least..=end)
                    .step_by(step);
                values
                    .map(|value| value.to_string())
                    .collect::<Vec<_>>()
                    .join(",")
            }
            _ => part.to_owned(),
        }
    }

    /// The number of a word or number within the field's range.
    fn value(&self, text: &str) -> Option<u32> {
        let word = self
            .words
            .iter()
            .position(|word| word.eq_ignore_ascii_case(text));
        let value = match word {
            Some(index) => self.least + u32::try_from(index).ok()?,
            None => text.parse().ok()?,
        };
        (self.least..=self.greatest)
            .contains(&value)
            .then_some(value)
    }
}

/// Finds the field that croner refuses by trying each one alone.
pub(super) fn wrong_field(text: &str, fields: &[String], error: &CronError) -> Error {
    let mut found = (String::new(), error.to_string());
    for (index, field) in fields.iter().enumerate() {
        let mut alone = ["*"; 7].map(str::to_owned);
        alone[index].clone_from(field);
        if let Err(error) = read(&unwrapped(&alone)) {
            let name = FIELDS[index].name;
            found = (
                format!(": {name} \"{}\"", clean_text(field, 64)),
                error.to_string(),
            );
            break;
        }
    }
    let (place, why) = found;
    Error::invalid(format!(
        "cron pattern \"{}\"{place} is wrong: {why}",
        clean_text(text, 64)
    ))
}

/// An item left out of a list (`1,,2`) is a slip that croner passes over in silence.
fn check_lists(text: &str, fields: &[String]) -> Result<(), Error> {
    for (field, about) in fields.iter().zip(&FIELDS) {
        if field.split(',').any(str::is_empty) {
            let (shown, name) = (clean_text(text, 64), about.name);
            return Err(Error::invalid(format!(
                "cron pattern \"{shown}\": {name} \"{field}\" has an empty item; remove the comma"
            )));
        }
    }
    Ok(())
}
