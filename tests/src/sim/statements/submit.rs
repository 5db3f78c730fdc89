//! New tasks, their payloads and tags.

use ax_engine::db::{DbResult, Value};

use super::ids;
use crate::sim::columns::{Record, history, id, int, task, text};
use crate::sim::mutation::Mutation;
use crate::sim::server::Desk;
use crate::sim::tables::{IfThere, Pk, Table};

/// A row of these values, in state `state`.
fn new_row(values: &[Value], state: i64) -> Record {
    let mut row = blank();
    for (column, value) in task::NEW.into_iter().zip(values) {
        row[column] = value.clone();
    }
    row[task::STATE] = Value::from(state);
    row
}

/// A row of defaults, with nulls of the right types.
fn blank() -> Record {
    let mut row = vec![Value::Text(None); task::WIDTH];
    for column in [
        task::ATTEMPT,
        task::LOST,
        task::FENCE,
        task::ROUND,
        task::CANCEL_AT,
    ] {
        row[column] = Value::from(0);
    }
    for column in [task::TOKEN, task::NODE, task::RUN_ID] {
        row[column] = Value::Id(None);
    }
    for column in [task::CLAIMED_AT, task::STEP, task::MAP_INDEX] {
        row[column] = Value::Int(None);
    }
    row
}

pub(super) async fn insert_tasks(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let rows = values
        .chunks(task::NEW.len())
        .map(|values| new_row(values, 1))
        .collect();
    desk.insert(Table::Task, rows, IfThere::Fail).await
}

pub(super) async fn insert_born(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let (token, node) = (&values[0], &values[1]);
    if !desk.alive(id(values, 1)) && !desk.bent(Mutation::DeadNodeClaims) {
        return Ok(0);
    }
    let width = task::NEW.len();
    let rows = values[2..].chunks(width + 1).map(|values| {
        let mut row = new_row(&values[..width], 2);
        row[task::ATTEMPT] = Value::from(1);
        row[task::FENCE] = Value::from(1);
        row[task::TOKEN] = token.clone();
        row[task::NODE] = node.clone();
        row[task::CLAIMED_AT] = values[width].clone();
        row
    });
    desk.insert(Table::Task, rows.collect(), IfThere::Fail)
        .await
}

pub(super) async fn insert_missing(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let width = task::NEW.len();
    let mut row = new_row(&values[..width], 1);
    let further = [
        task::FENCE,
        task::ROUND,
        task::LIMIT_KEY,
        task::RUN_ID,
        task::STEP,
        task::MAP_INDEX,
    ];
    for (column, value) in further.into_iter().zip(&values[width..]) {
        row[column] = value.clone();
    }
    let (id, round) = (id(&row, task::ID), int(&row, task::ROUND));
    let live = desk.get(Table::Task, &Pk::Id(id)).is_some();
    let ended = desk
        .of_task(Table::History, id)
        .iter()
        .any(|row| int(row, task::ROUND) >= round);
    let ended = ended && !desk.bent(Mutation::SubmitAgainBlind);
    if live || ended {
        return Ok(0);
    }
    desk.insert(Table::Task, vec![row], IfThere::Fail).await
}

pub(super) async fn insert_payloads(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let rows = values.chunks(2).map(<[Value]>::to_vec).collect();
    desk.insert(Table::Payload, rows, IfThere::Skip).await
}

pub(super) async fn delete_payload(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    desk.delete(Table::Payload, ids(values), |_| true).await
}

pub(super) async fn insert_tags(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let rows = values.chunks(2).map(<[Value]>::to_vec).collect();
    desk.insert(Table::Tag, rows, IfThere::Skip).await
}

pub(super) async fn delete_tags(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let tags = desk.select(Table::Tag, |row| row[1] == values[0]);
    let wanted = tags
        .iter()
        .map(|row| Pk::TextId(text(row, 0), id(row, 1)))
        .collect();
    desk.delete(Table::Tag, wanted, |_| true).await
}

pub(super) async fn replace_task(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let columns = [
        task::PAYLOAD,
        task::PAYLOAD_AT,
        task::PRIORITY,
        task::READY_AT,
        task::DEADLINE,
        task::TAGS,
        task::ROUTE_KEY,
        task::MAX_RETRIES,
        task::TIMEOUT_MS,
        task::ON_LOST,
        task::TRACE,
    ];
    let fits = |row: &Record| int(row, task::STATE) == 1 && int(row, task::CANCEL_AT) == 0;
    let change = |row: &mut Record| {
        columns
            .into_iter()
            .zip(values)
            .for_each(|(column, value)| row[column] = value.clone())
    };
    desk.update(Table::Task, ids(&values[columns.len()..]), fits, change)
        .await
}

/// Room for the columns that a history row adds.
pub(super) const HISTORY: usize = history::WIDTH;
