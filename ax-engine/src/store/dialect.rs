//! What the databases write differently, and nothing else. A further database is one more value of [`Dialect`].

use std::fmt;

use ax_migrations::Migration;

use super::render::Texts;
use super::text::Sql;
use crate::db::{Statement, Value};

/// How one database writes the few things that differ.
pub struct Dialect {
    pub(super) name: &'static str,
    pub(super) writers: usize,
    /// The database's now in milliseconds; `None`: the driver binds the host's now as the last parameter.
    pub(super) now: Option<&'static str>,
    /// Whether placeholders carry numbers (`$3`) or stand in the order of their use (`?`).
    pub(super) placeholders: Placeholders,
    /// How a list of ids travels.
    pub(super) lists: Lists,
    /// A null that is known to be an integer, a text, an id.
    pub(super) null_int: &'static str,
    pub(super) null_text: &'static str,
    pub(super) null_id: &'static str,
    /// What makes a SELECT lock its rows.
    pub(super) lock: &'static str,
    /// What makes an INSERT skip rows that are there; `{column}` is one of the key's columns.
    pub(super) absent: &'static str,
    /// Whether byte `{shard}` of the 1,024 bytes `{set}` is 1.
    pub(super) owned: &'static str,
    /// The schema, step by step.
    pub(super) migrations: &'static [Migration],
    pub(super) texts: Texts,
}

/// How placeholders are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholders {
    /// `$1`, `$2`, …
    Numbered,
    /// `?`, in the order of their use. On SQLite because it finds the number of a named one by looking through all of
    /// them, which costs the square of their number.
    InOrder,
}

/// How a list of ids travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    /// Each by itself: `IN (?, ?)`.
    InPlace,
    /// All as one array. PostgreSQL then plans for ten of them whatever their number, so that a prepared statement never
    /// reads a whole table because a list is long and the table is short.
    Array,
}

/// SQLite 3.35 or later.
pub static SQLITE: Dialect = Dialect {
    name: "sqlite",
    writers: 1,
    now: None,
    placeholders: Placeholders::InOrder,
    lists: Lists::InPlace,
    null_int: "NULL",
    null_text: "NULL",
    null_id: "NULL",
    lock: "",
    absent: "ON CONFLICT DO NOTHING",
    owned: "substr({set}, {shard} + 1, 1) = x'01'",
    migrations: ax_migrations::SQLITE,
    texts: Texts::new(),
};

/// PostgreSQL 13 or later.
pub static POSTGRES: Dialect = Dialect {
    name: "postgres",
    writers: 2,
    now: Some("(floor(extract(epoch from statement_timestamp()) * 1000))::bigint"),
    placeholders: Placeholders::Numbered,
    lists: Lists::Array,
    null_int: "NULL::bigint",
    null_text: "NULL::text",
    null_id: "NULL::bytea",
    lock: "FOR UPDATE",
    absent: "ON CONFLICT DO NOTHING",
    owned: "get_byte({set}, ({shard})::integer) = 1",
    migrations: ax_migrations::POSTGRES,
    texts: Texts::new(),
};

impl Dialect {
    /// The name of the database.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// How many transactions that write are worth having under way at once: where only one can write, one; where commits
    /// share a flush of the log, two, because callers that wait for an answer otherwise come in two halves by turns.
    #[must_use]
    pub const fn writers(&self) -> usize {
        self.writers
    }

    /// The statement that fits rows with these values: without those that are as usual in all of them.
    pub(super) fn fitting(
        &'static self,
        sql: Sql,
        rows: usize,
        values: &[Value],
    ) -> &'static Statement {
        self.texts.fitting(self, sql, rows, values)
    }

    /// The statement with its repeated part standing `rows` times.
    #[must_use]
    pub fn statement(&'static self, sql: Sql, rows: usize) -> &'static Statement {
        self.texts.get(self, sql, rows)
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
