//! Turns a template into a dialect's text, once per statement and number of rows, and keeps it.
//!
//! Marks of a template: `?` the next parameter; `?3` the third one, again; `{in column}` the column is in the list;
//! `{rows …}` its inside repeated with commas; `{any …}` its inside repeated with OR; `{now}`, `{lock}`, `{absent column}`,
//! `{owned set shard}` as the dialect writes them. Plain `?` are numbered after the highest explicit number.

use std::fmt::Write;
use std::sync::OnceLock;

use super::dialect::{Dialect, Lists, Placeholders};
use super::text::Sql;
use crate::db::Statement;

/// The numbers of rows that texts exist for. Lists are padded to a power of two, inserts are cut into these pieces.
const SIZES: [usize; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256];

/// The most rows that one statement carries.
pub(super) const MAX_ROWS: usize = 256;

/// How long a list of `n` is sent: padded to a power of two, or just as it is where it travels as an array.
pub(super) fn ladder(dialect: &Dialect, n: usize) -> usize {
    match dialect.lists {
        Lists::InPlace => n.clamp(1, MAX_ROWS).next_power_of_two(),
        Lists::Array => n,
    }
}

/// The number of rows of the next piece when `n` are left to insert.
pub(super) fn piece(n: usize) -> usize {
    SIZES.into_iter().rev().find(|size| *size <= n).unwrap_or(1)
}

/// The rendered texts of one dialect; filled as they are asked for, never emptied, read without a lock.
pub(super) struct Texts([[OnceLock<Statement>; SIZES.len()]; Sql::ALL.len()]);

impl Texts {
    pub(super) const fn new() -> Self {
        Self([const { [const { OnceLock::new() }; SIZES.len()] }; Sql::ALL.len()])
    }

    /// The statement for `rows` rows, which must be one of the sizes; another number counts as the next one.
    pub(super) fn get(
        &'static self,
        dialect: &Dialect,
        sql: Sql,
        rows: usize,
    ) -> &'static Statement {
        let size = SIZES
            .partition_point(|size| *size < rows)
            .min(SIZES.len() - 1);
        self.0[sql as usize][size].get_or_init(|| render(dialect, sql, SIZES[size]))
    }
}

fn render(dialect: &Dialect, sql: Sql, rows: usize) -> Statement {
    let template = sql.template();
    let mut writer =
        Writer { dialect, rows, out: String::new(), next: highest_explicit(&template), order: Vec::new(),
        takes_now: false,
        list_at: None };
    writer.write(&template);
    let Writer { out, next, mut order, takes_now, list_at, .. } = writer;
    for place in order.iter_mut().filter(|place| **place == NOW) {
        *place = next as u16;
    }
    let plain = order.iter().enumerate().all(|(place, parameter)| place == usize::from(*parameter));
    let order = if plain { Vec::new() } else { order };
    Statement { sql, rows, text: String::leak(out), takes_now, order: order.leak(), list_at }
}

/// Stands for the host's now until the number of parameters is known.
const NOW: u16 = u16::MAX;

struct Writer<'a> {
    dialect: &'a Dialect,
    rows: usize,
    out: String,
    /// The number of the last parameter that was given one.
    next: usize,
    /// Which parameter each placeholder stands for, from 0, where placeholders carry no numbers.
    order: Vec<u16>,
    takes_now: bool,
    /// The place of the list among the values, where it is sent as one array.
    list_at: Option<usize>,
}

impl Writer<'_> {
    fn write(&mut self, mut template: &str) {
        while let Some(at) = template.find(['?', '{']) {
            self.out.push_str(&template[..at]);
            template = &template[at..];
            let used = if template.starts_with('?') {
                self.parameter(template)
            } else {
                self.mark(template)
            };
            template = &template[used..];
        }
        self.out.push_str(template);
    }

    /// Writes the parameter at the start of `template`; returns the length of its mark.
    fn parameter(&mut self, template: &str) -> usize {
        let digits = template[1..].bytes().take_while(u8::is_ascii_digit).count();
        let number = template[1..=digits].parse().unwrap_or_else(|_| {
            self.next += 1;
            self.next
        });
        self.placeholder(number);
        1 + digits
    }

    /// Writes a placeholder for a parameter, counted from 1.
    fn placeholder(&mut self, number: usize) {
        match self.dialect.placeholders {
            // Writing to a String cannot fail.
            Placeholders::Numbered => {
                let _ = write!(self.out, "${number}");
            }
            Placeholders::InOrder => {
                self.out.push('?');
                self.order.push((number - 1) as u16);
            }
        }
    }

    /// Writes the mark in braces at the start of `template`; returns its length.
    fn mark(&mut self, template: &str) -> usize {
        let end = closing(template);
        let (word, rest) = template[1..end]
            .split_once(' ')
            .unwrap_or((&template[1..end], ""));
        match word {
            "in" => self.list(rest),
            "rows" => self.repeat(rest, ", "),
            "any" => self.repeat(rest, " OR "),
            "now" => self.now(),
            "lock" => self.out.push_str(self.dialect.lock),
            "absent" => self
                .out
                .push_str(&self.dialect.absent.replace("{column}", rest)),
            "owned" => {
                let (set, shard) = rest.split_once(' ').unwrap_or((rest, "shard"));
                let text = self
                    .dialect
                    .owned
                    .replace("{set}", set)
                    .replace("{shard}", shard);
                self.write(&text);
            }
            _ => self.out.push_str(&template[..=end]),
        }
        end + 1
    }

    fn repeat(&mut self, part: &str, between: &str) {
        for row in 0..self.rows {
            if row > 0 {
                self.out.push_str(between);
            }
            self.write(part);
        }
    }

    /// Writes that a column is in the list, which comes behind all other parameters.
    fn list(&mut self, column: &str) {
        self.out.push_str(column);
        match self.dialect.lists {
            Lists::InPlace => {
                self.out.push_str(" IN (");
                self.repeat("?", ", ");
                self.out.push(')');
            }
            Lists::Array => {
                self.list_at = Some(self.next);
                self.out.push_str(" = ANY (");
                self.write("?");
                self.out.push(')');
            }
        }
    }

    fn now(&mut self) {
        match self.dialect.now {
            Some(now) => self.out.push_str(now),
            None => {
                self.takes_now = true;
                self.out.push('?');
                self.order.push(NOW);
            }
        }
    }
}

/// The place of the brace that closes the one at the start.
fn closing(template: &str) -> usize {
    let mut depth = 0_u32;
    for (at, byte) in template.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    template.len() - 1
}

fn highest_explicit(template: &str) -> usize {
    let numbers = template.split('?').skip(1).filter_map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    });
    numbers.max().unwrap_or(0)
}
