//! Claims, outcomes, and what operators do to single tasks.

use ax_engine::db::{DbResult, Value};

use super::ids;
use super::submit::HISTORY;
use crate::sim::columns::{Record, execution, id, int, task};
use crate::sim::mutation::Mutation;
use crate::sim::server::Desk;
use crate::sim::tables::{IfThere, Pk, Table};

const PENDING: i64 = 1;
const RUNNING: i64 = 2;

fn is_running(row: &Record) -> bool {
    int(row, task::STATE) == RUNNING
}

fn is_pending(row: &Record) -> bool {
    int(row, task::STATE) == PENDING
}

fn is_unmarked(row: &Record) -> bool {
    int(row, task::CANCEL_AT) == 0
}

fn free(row: &mut Record) {
    row[task::STATE] = Value::from(PENDING);
    row[task::TOKEN] = Value::Id(None);
    row[task::NODE] = Value::Id(None);
    row[task::CLAIMED_AT] = Value::Int(None);
}

fn raise(row: &mut Record, column: usize) {
    row[column] = Value::from(int(row, column) + 1);
}

pub(super) async fn claim(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    if !desk.alive(id(values, 1)) && !desk.bent(Mutation::DeadNodeClaims) {
        return Ok(0);
    }
    let fits = |row: &Record| {
        (is_pending(row) || desk.bent(Mutation::ClaimIgnoresState))
            && (int(row, task::READY_AT) <= desk.now || desk.bent(Mutation::ClaimIgnoresReadyAt))
            && (int(row, task::DEADLINE) > desk.now || desk.bent(Mutation::ClaimIgnoresDeadline))
            && is_unmarked(row)
    };
    let change = |row: &mut Record| {
        row[task::STATE] = Value::from(RUNNING);
        row[task::TOKEN] = values[0].clone();
        row[task::NODE] = values[1].clone();
        row[task::CLAIMED_AT] = Value::from(desk.now);
        raise(row, task::FENCE);
        raise(row, task::ATTEMPT);
    };
    desk.update(Table::Task, ids(&values[2..]), fits, change)
        .await
}

pub(super) async fn delete_settled(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| {
        is_running(row)
            && (row[task::TOKEN] == values[0] || desk.bent(Mutation::SettleByStateOnly))
            && (is_unmarked(row) || desk.bent(Mutation::SettleIgnoresCancel))
    };
    let mut wanted = ids(&values[1..]);
    wanted.sort_unstable();
    wanted.dedup();
    let asked = wanted.len() as u64;
    let touched = desk.delete(Table::Task, wanted, fits).await?;
    Ok(if desk.bent(Mutation::SettleWithoutCount) {
        asked
    } else {
        touched
    })
}

pub(super) async fn insert_history(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let rows = values.chunks(HISTORY).map(<[Value]>::to_vec).collect();
    desk.insert(Table::History, rows, IfThere::Fail).await
}

pub(super) async fn insert_dead(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let rows = values
        .chunks(10)
        .map(|values| [values, &[Value::Int(None), Value::Text(None)]].concat())
        .collect();
    desk.insert(Table::Dead, rows, IfThere::Fail).await
}

pub(super) async fn requeue(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| {
        is_running(row)
            && row[task::TOKEN] == values[4]
            && (is_unmarked(row) || desk.bent(Mutation::RequeueIgnoresCancel))
    };
    let change = |row: &mut Record| {
        free(row);
        row[task::READY_AT] = values[0].clone();
        row[task::ATTEMPT] = values[1].clone();
        row[task::ERROR] = values[2].clone();
    };
    desk.update(Table::Task, ids(&values[3..4]), fits, change)
        .await
}

pub(super) async fn insert_executions(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let rows = values
        .chunks(execution::WIDTH)
        .map(<[Value]>::to_vec)
        .collect();
    let careless = desk.bent(Mutation::ReaperActsById) || desk.bent(Mutation::LoseIgnoresToken);
    desk.insert(
        Table::Execution,
        rows,
        if careless {
            IfThere::Skip
        } else {
            IfThere::Fail
        },
    )
    .await
}

/// Reads one row and locks it; the database's now comes last.
pub(super) async fn lock_task(desk: &Desk<'_>, values: &[Value]) -> DbResult<Vec<Record>> {
    let pk = Pk::Id(id(values, 0));
    if let Some(row) = desk.server.recall(id(values, 0)) {
        return Ok(vec![[row, vec![Value::from(desk.now)]].concat()]);
    }
    if desk.get(Table::Task, &pk).is_none() {
        return Ok(Vec::new());
    }
    if !desk.bent(Mutation::CancelOverwritesRunning) {
        desk.lock(Table::Task, &pk).await?;
    }
    let row = desk.get(Table::Task, &pk);
    Ok(row
        .map(|row| [row, vec![Value::from(desk.now)]].concat())
        .into_iter()
        .collect())
}

pub(super) async fn delete_task(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let careless = desk.bent(Mutation::CancelOverwritesRunning);
    let fits =
        |row: &Record| careless || (row[task::STATE] == values[1] && row[task::FENCE] == values[2]);
    desk.delete(Table::Task, ids(&values[..1]), fits).await
}

/// Whether a row may be taken back from its node by these guards.
fn is_lost(desk: &Desk<'_>, row: &Record, token: &Value, gone: bool) -> bool {
    if desk.bent(Mutation::ReaperActsById) {
        return true;
    }
    if desk.bent(Mutation::LoseIgnoresToken) {
        return is_running(row);
    }
    is_running(row) && row[task::TOKEN] == *token && gone
}

pub(super) async fn requeue_lost(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let gone = !desk.present().contains(&id(values, 3));
    let fits = |row: &Record| is_lost(desk, row, &values[2], gone) && is_unmarked(row);
    let change = |row: &mut Record| {
        free(row);
        raise(row, task::LOST);
        row[task::READY_AT] = Value::from(desk.now);
        row[task::ERROR] = values[0].clone();
        if desk.bent(Mutation::FenceReset) {
            row[task::FENCE] = Value::from(0);
        }
    };
    desk.update(Table::Task, ids(&values[1..2]), fits, change)
        .await
}

pub(super) async fn delete_lost(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let gone = !desk.present().contains(&id(values, 2));
    desk.delete(Table::Task, ids(&values[..1]), |row| {
        is_lost(desk, row, &values[1], gone)
    })
    .await
}

pub(super) async fn mark_cancel(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| is_running(row) && is_unmarked(row);
    let change = |row: &mut Record| {
        row[task::CANCEL_AT] = Value::from(desk.now);
        row[task::CANCEL_REASON] = values[0].clone();
        if desk.bent(Mutation::CancelFreesRunning) {
            free(row);
        }
    };
    desk.update(Table::Task, ids(&values[1..2]), fits, change)
        .await
}

pub(super) async fn reschedule(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| is_pending(row) && is_unmarked(row);
    desk.update(Table::Task, ids(&values[1..2]), fits, |row| {
        row[task::READY_AT] = values[0].clone()
    })
    .await
}

pub(super) async fn set_priority(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| int(row, task::STATE) <= RUNNING;
    desk.update(Table::Task, ids(&values[1..2]), fits, |row| {
        row[task::PRIORITY] = values[0].clone()
    })
    .await
}

pub(super) async fn resolve_dead(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let open = |row: &Record| row[0] == values[1] && row[10].is_null();
    let wanted = desk.keys(Table::Dead, open);
    let change = |row: &mut Record| {
        row[10] = Value::from(desk.now);
        row[11] = values[0].clone();
    };
    desk.update(Table::Dead, wanted, open, change).await
}

pub(super) async fn move_shard(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| is_pending(row) && row[task::SHARD] == values[1];
    let change = |row: &mut Record| {
        row[task::SHARD] = values[0].clone();
        if int(row, task::READY_AT) < desk.now - 5_000 {
            row[task::READY_AT] = Value::from(desk.now);
        }
    };
    desk.update(Table::Task, ids(&values[2..]), fits, change)
        .await
}
