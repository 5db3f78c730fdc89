//! Keys of tasks.

use ax_engine::db::{DbResult, Value};
use ax_engine::store::Sql;

use crate::sim::columns::{Record, id, int, key, text};
use crate::sim::mutation::Mutation;
use crate::sim::server::Desk;
use crate::sim::tables::{IfThere, Pk, Table};

/// A key that is live for as long as its task.
const MAX: i64 = i64::MAX;

pub(super) fn read(desk: &Desk<'_>, sql: Sql, values: &[Value]) -> Option<Vec<Record>> {
    match sql {
        Sql::ReadKeys => {
            let found = values
                .chunks(3)
                .filter_map(|values| desk.get(Table::Key, &pk(values)));
            Some(found.map(|row| with_over(row, desk.now)).collect())
        }
        Sql::OverKeys => {
            let mut over = desk.select(Table::Key, |row| int(row, key::UNTIL) <= desk.now);
            over.sort_by_key(|row| int(row, key::UNTIL));
            over.truncate(usize::try_from(int(values, 0)).unwrap_or(0));
            Some(over.into_iter().map(|row| row[..3].to_vec()).collect())
        }
        _ => None,
    }
}

fn pk(values: &[Value]) -> Pk {
    Pk::Texts(
        text(values, key::NAMESPACE),
        text(values, key::JOB),
        text(values, key::TASK_KEY),
    )
}

fn with_over(mut row: Record, now: i64) -> Record {
    let over = i64::from(int(&row, key::UNTIL) <= now);
    row[key::UNTIL] = Value::from(over);
    row
}

/// The keys of several holders, and whether a row is held by one of them.
fn held(values: &[Value]) -> (Vec<Pk>, impl Fn(&Record) -> bool) {
    let holders: Vec<(Pk, [u8; 16])> = values
        .chunks(4)
        .map(|values| (pk(values), id(values, key::TASK)))
        .collect();
    let wanted = holders.iter().map(|(pk, _)| pk.clone()).collect();
    let fits = move |row: &Record| {
        let (at, task) = (pk(row), id(row, key::TASK));
        holders
            .iter()
            .any(|(pk, holder)| *pk == at && *holder == task)
    };
    (wanted, fits)
}

pub(super) async fn insert(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let rows: Vec<Record> = values
        .chunks(5)
        .map(|values| {
            let mut row = values[..4].to_vec();
            row.push(Value::from(MAX));
            row.push(values[4].clone());
            row
        })
        .collect();
    let asked = rows.len() as u64;
    let inserted = desk.insert(Table::Key, rows, IfThere::Skip).await?;
    Ok(if desk.bent(Mutation::KeyConflictIgnored) {
        asked
    } else {
        inserted
    })
}

pub(super) async fn take(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let (task, old) = (id(values, 0), id(values, 5));
    let fits = |row: &Record| {
        id(row, key::TASK) == old && (int(row, key::UNTIL) <= desk.now || old == task)
    };
    let change = |row: &mut Record| {
        row[key::TASK] = values[0].clone();
        row[key::UNTIL] = Value::from(MAX);
        row[key::PERIOD_END] = values[1].clone();
    };
    desk.update(Table::Key, vec![pk(&values[2..5])], fits, change)
        .await
}

pub(super) async fn release(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let (wanted, held) = held(values);
    let fits = |row: &Record| {
        held(row)
            && (int(row, key::PERIOD_END) <= desk.now || desk.bent(Mutation::KeyReleasedEarly))
    };
    desk.delete(Table::Key, wanted, fits).await
}

pub(super) async fn keep(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let (wanted, held) = held(values);
    let fits = |row: &Record| held(row) && int(row, key::UNTIL) == MAX;
    let change = |row: &mut Record| row[key::UNTIL] = row[key::PERIOD_END].clone();
    desk.update(Table::Key, wanted, fits, change).await
}

pub(super) async fn drop_over(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let wanted = values.chunks(3).map(pk).collect();
    desk.delete(Table::Key, wanted, |row| int(row, key::UNTIL) <= desk.now)
        .await
}
