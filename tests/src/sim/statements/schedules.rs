//! Schedules and their ticks.

use ax_engine::db::{DbResult, Value};
use ax_engine::store::Sql;

use crate::sim::columns::{Record, int, schedule, text};
use crate::sim::mutation::Mutation;
use crate::sim::server::Desk;
use crate::sim::tables::{IfThere, Pk, Table};

/// The most schedules that one look returns.
const MOST: usize = 1_000;

pub(super) fn read(desk: &Desk<'_>, sql: Sql, values: &[Value]) -> Option<Vec<Record>> {
    Some(match sql {
        Sql::ReadSchedule => desk.get(Table::Schedule, &pk(values)).into_iter().collect(),
        Sql::Schedules => desk.select(Table::Schedule, |row| row[schedule::NAMESPACE] == values[0]),
        Sql::SchedulesDue => {
            let due = |row: &Record| {
                int(row, schedule::STATE) == 0 && int(row, schedule::NEXT_AT) <= int(values, 0)
            };
            let mut rows = desk.select(Table::Schedule, due);
            rows.sort_by_key(|row| int(row, schedule::NEXT_AT));
            rows.truncate(MOST);
            rows
        }
        _ => return None,
    })
}

fn pk(values: &[Value]) -> Pk {
    Pk::TextsInt(
        text(values, schedule::NAMESPACE),
        text(values, schedule::NAME),
        0,
    )
}

pub(super) async fn insert(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let mut row = values[..=schedule::NEXT_AT].to_vec();
    let source = values[schedule::NEXT_AT + 1].clone();
    row.extend([
        Value::Int(None),
        Value::Id(None),
        Value::from(1),
        source,
        Value::from(desk.now),
    ]);
    desk.insert(Table::Schedule, vec![row], IfThere::Skip).await
}

pub(super) async fn update(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| row[schedule::VERSION] == values[12];
    let change = |row: &mut Record| {
        row[schedule::JOB..=schedule::NEXT_AT].clone_from_slice(&values[..9]);
        row[schedule::SOURCE] = values[9].clone();
        row[schedule::VERSION] = Value::from(int(row, schedule::VERSION) + 1);
        row[schedule::UPDATED_AT] = Value::from(desk.now);
    };
    desk.update(Table::Schedule, vec![pk(&values[10..12])], fits, change)
        .await
}

pub(super) async fn advance(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let careless = desk.bent(Mutation::FireWithoutVersion);
    let fits = |row: &Record| {
        let same = row[schedule::VERSION] == values[6] && row[schedule::NEXT_AT] == values[7];
        int(row, schedule::STATE) == 0
            && (careless || (same && int(row, schedule::NEXT_AT) <= desk.now))
    };
    let change = |row: &mut Record| {
        row[schedule::STATE] = values[0].clone();
        row[schedule::NEXT_AT] = values[1].clone();
        row[schedule::LAST_AT] = values[2].clone();
        if !values[3].is_null() {
            row[schedule::LAST_TASK] = values[3].clone();
        }
    };
    desk.update(Table::Schedule, vec![pk(&values[4..6])], fits, change)
        .await
}

pub(super) async fn insert_tick(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let row = [values, &[Value::from(desk.now)]].concat();
    desk.insert(Table::Tick, vec![row], IfThere::Skip).await
}
