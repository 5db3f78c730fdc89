//! Turns a template into a dialect's text, once per statement and number of rows, and keeps it.
//!
//! Marks of a template: `?` the next parameter; `?3` the third one, again; `{in column}` the column is in the list;
//! `{or int}`, `{or text}`, `{or id}`, `{or 0}`, `{or max}` the next parameter, which most rows leave null, 0 or at the end of
//! time: where all rows do, a second, *plain* text says so itself and leaves the parameter out, because each one costs the
//! database time; `{rows …}` its inside repeated with commas; `{any …}` its inside repeated with OR; `{now}`, `{lock}`, `{absent column}`,
//! `{owned set shard}` as the dialect writes them. Plain `?` are numbered after the highest explicit number.

use std::fmt::Write;
use std::sync::OnceLock;

use super::dialect::{Dialect, Lists, Placeholders};
use super::text::Sql;
use crate::db::{Statement, Value};

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
pub(super) struct Texts {
    full: Sizes,
    plain: Sizes,
    shapes: [OnceLock<Shape>; Sql::ALL.len()],
}

type Sizes = [[OnceLock<Statement>; SIZES.len()]; Sql::ALL.len()];

/// Which values of a repeated row a plain text leaves out.
struct Shape {
    /// Values of one row.
    width: usize,
    /// The places left out, and what a value must be there.
    usual: Vec<(usize, Value)>,
}

/// Which text of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Full,
    Plain,
}

impl Texts {
    pub(super) const fn new() -> Self {
        Self {
            full: [const { [const { OnceLock::new() }; SIZES.len()] }; Sql::ALL.len()],
            plain: [const { [const { OnceLock::new() }; SIZES.len()] }; Sql::ALL.len()],
            shapes: [const { OnceLock::new() }; Sql::ALL.len()],
        }
    }

    /// The statement for `rows` rows, which must be one of the sizes; another number counts as the next one.
    pub(super) fn get(
        &'static self,
        dialect: &Dialect,
        sql: Sql,
        rows: usize,
    ) -> &'static Statement {
        let size = size_of(rows);
        self.full[sql as usize][size].get_or_init(|| render(dialect, sql, SIZES[size], Form::Full))
    }

    /// The statement for rows with these values, `fixed` of them before the first row: plain where all rows are.
    pub(super) fn fitting(
        &'static self,
        dialect: &Dialect,
        sql: Sql,
        rows: usize,
        values: &[Value],
    ) -> &'static Statement {
        let shape = self.shapes[sql as usize].get_or_init(|| shape(dialect, sql));
        let fixed = values.len().saturating_sub(rows * shape.width);
        let usual = |row: &[Value]| {
            shape
                .usual
                .iter()
                .all(|(place, value)| row.get(*place) == Some(value))
        };
        if shape.usual.is_empty() || !values[fixed..].chunks_exact(shape.width).all(usual) {
            return self.get(dialect, sql, rows);
        }
        let size = size_of(rows);
        self.plain[sql as usize][size]
            .get_or_init(|| render(dialect, sql, SIZES[size], Form::Plain))
    }
}

fn size_of(rows: usize) -> usize {
    SIZES
        .partition_point(|size| *size < rows)
        .min(SIZES.len() - 1)
}

fn render(dialect: &Dialect, sql: Sql, rows: usize, form: Form) -> Statement {
    let template = sql.template();
    let mut writer = Writer::new(dialect, rows, form, &template);
    writer.write(&template);
    let Writer {
        out,
        next,
        mut order,
        takes_now,
        list_at,
        ..
    } = writer;
    for place in order.iter_mut().filter(|place| **place == NOW) {
        *place = next as u16;
    }
    let sent = next + usize::from(takes_now);
    let straight = order.len() == sent
        && order
            .iter()
            .enumerate()
            .all(|(place, value)| place == usize::from(*value));
    let order = if straight { Vec::new() } else { order };
    Statement {
        sql,
        rows,
        text: String::leak(out),
        takes_now,
        order: order.leak(),
        list_at,
    }
}

fn shape(dialect: &Dialect, sql: Sql) -> Shape {
    let template = sql.template();
    let fixed = highest_explicit(&template);
    let mut writer = Writer::new(dialect, 1, Form::Plain, &template);
    writer.write(&template);
    let usual = writer
        .left_out
        .into_iter()
        .map(|(place, value)| (place - fixed, value))
        .collect();
    Shape {
        width: (writer.next - fixed).max(1),
        usual,
    }
}

/// Stands for the host's now until the number of parameters is known.
const NOW: u16 = u16::MAX;

struct Writer<'a> {
    dialect: &'a Dialect,
    rows: usize,
    form: Form,
    out: String,
    /// The number of the last parameter that was given one.
    next: usize,
    /// How many parameters are named by number, and so may stand twice.
    named: usize,
    /// Which value each placeholder stands for, from 0, where that is not its number.
    order: Vec<u16>,
    /// The values that a plain text leaves out, from 0, and what they must be.
    left_out: Vec<(usize, Value)>,
    takes_now: bool,
    /// The place of the list among the values, where it is sent as one array.
    list_at: Option<usize>,
}

impl<'a> Writer<'a> {
    fn new(dialect: &'a Dialect, rows: usize, form: Form, template: &str) -> Self {
        let named = highest_explicit(template);
        Self {
            dialect,
            rows,
            form,
            out: String::new(),
            next: named,
            named,
            order: Vec::new(),
            left_out: Vec::new(),
            takes_now: false,
            list_at: None,
        }
    }

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
        let shown = match (self.dialect.placeholders, self.form) {
            (Placeholders::InOrder, _) => {
                self.order.push((number - 1) as u16);
                self.out.push('?');
                return;
            }
            (Placeholders::Numbered, Form::Full) => number,
            (Placeholders::Numbered, Form::Plain) => self.renumbered(number),
        };
        // Writing to a String cannot fail.
        let _ = write!(self.out, "${shown}");
    }

    /// The number of a parameter among those that a plain text takes.
    fn renumbered(&mut self, number: usize) -> usize {
        let value = (number - 1) as u16;
        let before = (number <= self.named)
            .then(|| self.order.iter().position(|known| *known == value))
            .flatten();
        before.map_or_else(
            || {
                self.order.push(value);
                self.order.len()
            },
            |place| place + 1,
        )
    }

    /// Writes a parameter that most rows leave as usual, or the usual value itself.
    fn usual(&mut self, kind: &str) {
        if self.form == Form::Full {
            self.write("?");
            return;
        }
        let (text, value) = match kind {
            "int" => (self.dialect.null_int, Value::Int(None)),
            "text" => (self.dialect.null_text, Value::Text(None)),
            "id" => (self.dialect.null_id, Value::Id(None)),
            "max" => ("9223372036854775807", Value::from(i64::MAX)),
            _ => ("0", Value::from(0)),
        };
        self.left_out.push((self.next, value));
        self.next += 1;
        self.out.push_str(text);
    }

    /// Writes the mark in braces at the start of `template`; returns its length.
    fn mark(&mut self, template: &str) -> usize {
        let end = closing(template);
        let (word, rest) = template[1..end]
            .split_once(' ')
            .unwrap_or((&template[1..end], ""));
        match word {
            "in" => self.list(rest),
            "or" => self.usual(rest),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::dialect::{POSTGRES, SQLITE};

    #[test]
    fn parameters_are_numbered_or_stand_in_order() {
        let postgres = POSTGRES.statement(Sql::TakeKey, 1);
        assert!(
            postgres.text.contains("task = $1, until") && postgres.text.contains("OR task = $1)")
        );
        assert!(postgres.order.is_empty() && !postgres.takes_now);
        let sqlite = SQLITE.statement(Sql::TakeKey, 1);
        assert!(!sqlite.text.contains('$') && sqlite.takes_now);
        assert_eq!(
            sqlite.order,
            [0, 1, 2, 3, 4, 5, 6, 0],
            "the sixth value is followed by now"
        );
    }

    #[test]
    fn lists_are_padded_or_travel_as_one() {
        assert_eq!(
            (
                ladder(&SQLITE, 3),
                ladder(&SQLITE, 256),
                ladder(&POSTGRES, 3)
            ),
            (4, 256, 3)
        );
        assert!(
            SQLITE
                .statement(Sql::Watch, 4)
                .text
                .ends_with("id IN (?, ?, ?, ?)")
        );
        let watch = POSTGRES.statement(Sql::MoveShard, 4);
        assert!(watch.text.ends_with("id = ANY ($3)"), "{}", watch.text);
        assert_eq!(watch.list_at, Some(2));
    }

    #[test]
    fn inserts_are_cut_into_known_pieces() {
        let pieces = |mut left: usize| {
            let mut pieces = Vec::new();
            while left > 0 {
                pieces.push(piece(left));
                left -= piece(left);
            }
            pieces
        };
        assert_eq!(pieces(100), [64, 32, 4]);
        assert_eq!(pieces(523), [256, 256, 8, 3]);
    }

    #[test]
    fn a_plain_text_leaves_out_what_is_as_usual() {
        for dialect in [&SQLITE, &POSTGRES] {
            let width = shape(dialect, Sql::InsertHistory).width;
            assert_eq!(
                (
                    width,
                    shape(dialect, Sql::InsertTasks).width,
                    shape(dialect, Sql::InsertBorn).width
                ),
                (41, 21, 22)
            );
            let mut rows = vec![Value::from(7); 2 * width];
            for row in rows.chunks_mut(width) {
                for (place, value) in &shape(dialect, Sql::InsertHistory).usual {
                    row[*place] = value.clone();
                }
            }
            let plain = dialect.fitting(Sql::InsertHistory, 2, &rows);
            assert_eq!(
                plain.order.len(),
                34,
                "17 of 41 values of each row: {}",
                plain.text
            );
            rows[width + 10] = Value::from("a key");
            assert!(
                dialect
                    .fitting(Sql::InsertHistory, 2, &rows)
                    .order
                    .is_empty(),
                "one keyed row makes it full"
            );
        }
    }
}
