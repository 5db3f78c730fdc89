//! The simulated database outside a simulation, for the store's own suite: statements take no time and nothing breaks.
//!
//! Beside ax a test may look into the tables or change them by hand; the few forms of statements that the suite uses for
//! that are understood here.

use std::sync::Arc;

use ax_engine::db::{Database, Value};

use super::columns::Record;
use super::database::SimDatabase;
use super::dice::Dice;
use super::network::Network;
use super::server::{Pace, Server};
use super::tables::{Pk, Table};
use super::trace::Trace;

/// A simulated database on the host's clock.
pub struct Simulated(Arc<Network>);

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Simulated")
    }
}

impl Default for Simulated {
    fn default() -> Simulated {
        let server = Server::new(Pace::Host, Dice::new(1, 1), None, None);
        Simulated(Network::new(
            Arc::new(server),
            Arc::new(Trace::new(0)),
            None,
        ))
    }
}

impl Simulated {
    /// Connections to it, as one more process has them.
    pub fn open(&self) -> Arc<dyn Database> {
        Arc::new(SimDatabase {
            network: self.0.clone(),
            process: 1,
        })
    }

    /// Counts rows: `SELECT COUNT(*) FROM table [WHERE condition]`.
    pub fn number(&self, sql: &str) -> i64 {
        let (table, condition) = parts(
            sql.strip_prefix("SELECT COUNT(*) FROM ")
                .unwrap_or_else(|| unknown(sql)),
        );
        let tables = self.0.server.tables();
        let rows = tables
            .committed(table)
            .values()
            .filter(|row| fits(table, row, condition));
        i64::try_from(rows.count()).unwrap_or(i64::MAX)
    }

    /// Changes rows: `UPDATE table SET column = value [WHERE …]`, `DELETE FROM table [WHERE …]`, `INSERT INTO table VALUES (…)`.
    pub fn run(&self, sql: &str) -> u64 {
        if let Some(rest) = sql.strip_prefix("INSERT INTO ") {
            let (table, values) = rest.split_once(" VALUES (").unwrap_or_else(|| unknown(sql));
            let values: Record = values
                .trim_end_matches(')')
                .split(", ")
                .map(literal)
                .collect();
            self.0.server.tables().plant(table_of(table), values);
            return 1;
        }
        if let Some(rest) = sql.strip_prefix("DELETE FROM ") {
            let (table, condition) = parts(rest);
            return self.change(table, condition, |_| None);
        }
        let rest = sql.strip_prefix("UPDATE ").unwrap_or_else(|| unknown(sql));
        let (name, rest) = rest.split_once(" SET ").unwrap_or_else(|| unknown(sql));
        let (set, condition) = rest.split_once(" WHERE ").unwrap_or((rest, ""));
        let (column, value) = set.split_once(" = ").unwrap_or_else(|| unknown(sql));
        let table = table_of(name);
        let column = column_of(table, column);
        self.change(table, condition, |mut row| {
            row[column] = match value.starts_with(|c: char| c.is_ascii_lowercase()) {
                true => row[column_of(table, value)].clone(),
                false => literal(value),
            };
            Some(row)
        })
    }

    fn change(
        &self,
        table: Table,
        condition: &str,
        change: impl Fn(Record) -> Option<Record>,
    ) -> u64 {
        let mut tables = self.0.server.tables();
        let hit = tables
            .committed(table)
            .iter()
            .filter(|(_, row)| fits(table, row, condition));
        let hit: Vec<(Pk, Record)> = hit.map(|(pk, row)| (pk.clone(), row.clone())).collect();
        let tx = tables.begin(1);
        let n = hit.len() as u64;
        for (pk, row) in hit {
            tables.write(tx, table, pk, change(row));
        }
        tables.commit(tx);
        n
    }
}

fn unknown(sql: &str) -> ! {
    panic!("the simulated database does not understand {sql:?}; teach it in sim/hand.rs")
}

fn parts(rest: &str) -> (Table, &str) {
    let (table, condition) = rest.split_once(" WHERE ").unwrap_or((rest, ""));
    (table_of(table), condition)
}

fn table_of(name: &str) -> Table {
    match name {
        "ax_task" => Table::Task,
        "ax_tag" => Table::Tag,
        "ax_key" => Table::Key,
        "ax_dead" => Table::Dead,
        "ax_shard" => Table::Shard,
        "ax_schedule" => Table::Schedule,
        "ax_migration" => Table::Migration,
        _ => unknown(name),
    }
}

fn column_of(table: Table, name: &str) -> usize {
    match (table, name) {
        (Table::Tag, "tag") | (Table::Migration, "version") => 0,
        (Table::Key, "task_key") | (Table::Migration, "checksum") => 2,
        (Table::Key, "until") => 4,
        (Table::Key, "period_end") | (Table::Dead, "payload") => 5,
        (Table::Dead, "resolved_at") => 10,
        (Table::Schedule, "next_at") => super::columns::schedule::NEXT_AT,
        _ => unknown(name),
    }
}

fn literal(text: &str) -> Value {
    match text.strip_prefix('\'') {
        Some(quoted) => Value::from(quoted.trim_end_matches('\'')),
        None => Value::from(text.parse::<i64>().unwrap_or_else(|_| unknown(text))),
    }
}

fn fits(table: Table, row: &Record, condition: &str) -> bool {
    if condition.is_empty() {
        return true;
    }
    if let Some(column) = condition.strip_suffix(" IS NULL") {
        return row[column_of(table, column)].is_null();
    }
    if let Some((column, least)) = condition
        .strip_prefix("length(")
        .and_then(|rest| rest.split_once(") > "))
    {
        let least: usize = least.parse().unwrap_or_else(|_| unknown(condition));
        return matches!(&row[column_of(table, column)], Value::Text(Some(text)) if text.len() > least);
    }
    let (column, value) = condition
        .split_once(" = ")
        .unwrap_or_else(|| unknown(condition));
    row[column_of(table, column)] == literal(value)
}
