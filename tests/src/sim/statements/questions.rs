//! Questions of people, and the table of migrations.

use std::collections::BTreeMap;

use ax_core::AttemptEnd;
use ax_engine::db::{DbResult, Value};
use ax_engine::store::Sql;

use crate::sim::columns::{Record, execution, history, id, int, task, text, text_opt};
use crate::sim::mutation::Mutation;
use crate::sim::server::Desk;
use crate::sim::tables::{IfThere, Pk, Table};

/// The stored number of an attempt that ended because its worker died.
const LOST: i64 = AttemptEnd::Lost.code() as i64;

pub(super) fn read(desk: &Desk<'_>, sql: Sql, values: &[Value]) -> Option<Vec<Record>> {
    Some(match sql {
        Sql::ReadHistory => last(desk.of_task(Table::History, id(values, 0))),
        Sql::ReadEnds if desk.bent(Mutation::SubmitAgainBlind) => Vec::new(),
        Sql::ReadEnds => ended(
            desk,
            values,
            &[task::ID, task::TOKEN, task::STATE, history::REASON],
        ),
        Sql::Outcomes => ended(
            desk,
            values,
            &[
                task::ID,
                task::ROUND,
                task::STATE,
                history::RESULT,
                task::ERROR,
            ],
        ),
        Sql::ReadAttempt => {
            let found = desk.get(Table::Execution, &Pk::IdInt(id(values, 0), int(values, 1)));
            let found = found.filter(|row| {
                row[execution::TOKEN] == values[2] && int(row, execution::REASON) != LOST
            });
            found
                .map(|row| vec![row[execution::TASK].clone()])
                .into_iter()
                .collect()
        }
        Sql::Executions => desk.of_task(Table::Execution, id(values, 0)),
        Sql::ListTasks => list(desk, Table::Task, values),
        Sql::ListHistory => list(desk, Table::History, values),
        Sql::ListHistoryByKey => {
            let fits = |row: &Record| {
                row[task::NAMESPACE] == values[0]
                    && row[task::JOB] == values[1]
                    && row[task::TASK_KEY] == values[2]
                    && row[task::ID] < values[3]
            };
            newest_first(desk.select(Table::History, fits), int(values, 4))
        }
        Sql::CountTasks => count(desk, Table::Task, values),
        Sql::CountHistory => count(desk, Table::History, values),
        Sql::ReadMigrations => {
            let rows = desk.select(Table::Migration, |_| true);
            rows.iter().map(|row| row[..3].to_vec()).collect()
        }
        _ => return None,
    })
}

fn last(mut rows: Vec<Record>) -> Vec<Record> {
    rows.sort_by_key(|row| int(row, task::ROUND));
    rows.pop().into_iter().collect()
}

fn ended(desk: &Desk<'_>, values: &[Value], columns: &[usize]) -> Vec<Record> {
    let mut ids: Vec<[u8; 16]> = (0..values.len()).map(|at| id(values, at)).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows: Vec<Record> = ids
        .into_iter()
        .flat_map(|id| desk.of_task(Table::History, id))
        .collect();
    rows.iter()
        .map(|row| columns.iter().map(|column| row[*column].clone()).collect())
        .collect()
}

fn list(desk: &Desk<'_>, table: Table, values: &[Value]) -> Vec<Record> {
    let wanted = |value: &Value, column: &Value| value.is_null() || value == column;
    let tag = text_opt(values, 4);
    let tagged = |row: &Record| match &tag {
        Some(tag) => desk
            .get(Table::Tag, &Pk::TextId(tag.clone(), id(row, task::ID)))
            .is_some(),
        None => true,
    };
    let fits = |row: &Record| {
        row[task::NAMESPACE] == values[0]
            && row[task::ID] < values[1]
            && wanted(&values[2], &row[task::JOB])
            && wanted(&values[3], &row[task::TASK_KEY])
            && values[5..14].contains(&row[task::STATE])
    };
    let rows = desk
        .select(table, fits)
        .into_iter()
        .filter(tagged)
        .collect();
    newest_first(rows, int(values, 14))
}

fn newest_first(mut rows: Vec<Record>, limit: i64) -> Vec<Record> {
    rows.sort_by_key(|row| std::cmp::Reverse((id(row, task::ID), int(row, task::ROUND))));
    rows.truncate(usize::try_from(limit).unwrap_or(0));
    rows
}

fn count(desk: &Desk<'_>, table: Table, values: &[Value]) -> Vec<Record> {
    let mut counts: BTreeMap<(Value, i64, i64), i64> = BTreeMap::new();
    for row in desk.select(table, |row| row[task::NAMESPACE] == values[0]) {
        let state = int(&row, task::STATE);
        let ready = i64::from(state == 1 && int(&row, task::READY_AT) <= desk.now);
        *counts
            .entry((Value::Text(Some(text(&row, task::JOB))), state, ready))
            .or_default() += 1;
    }
    let live = table == Table::Task;
    let row = |((job, state, ready), n): ((Value, i64, i64), i64)| {
        let mut row = vec![job, Value::from(state)];
        row.extend(live.then(|| Value::from(ready)));
        row.push(Value::from(n));
        row
    };
    counts.into_iter().map(row).collect()
}

pub(super) async fn insert_migration_lock(desk: &Desk<'_>) -> DbResult<u64> {
    let row = vec![Value::from(1), Value::Text(None), Value::from(0)];
    desk.insert(Table::MigrationLock, vec![row], IfThere::Skip)
        .await
}

pub(super) async fn take_migration_lock(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| row[1].is_null() || int(row, 2) < desk.now || row[1] == values[0];
    let change = |row: &mut Record| {
        row[1] = values[0].clone();
        row[2] = Value::from(desk.now + 60_000);
    };
    desk.update(Table::MigrationLock, vec![Pk::Int(1)], fits, change)
        .await
}

pub(super) async fn free_migration_lock(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let change = |row: &mut Record| {
        row[1] = Value::Text(None);
        row[2] = Value::from(0);
    };
    desk.update(
        Table::MigrationLock,
        vec![Pk::Int(1)],
        |row| row[1] == values[0],
        change,
    )
    .await
}

pub(super) async fn insert_migration(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let row = [values, &[Value::from(desk.now)]].concat();
    desk.insert(Table::Migration, vec![row], IfThere::Fail)
        .await
}
