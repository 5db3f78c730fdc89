//! Discovery and the other looks at live tasks.

use ax_engine::db::Value;
use ax_engine::store::Sql;

use crate::sim::columns::{Record, id, int, int_opt, node, task};
use crate::sim::mutation::Mutation;
use crate::sim::server::Desk;
use crate::sim::tables::{Pk, Table};

/// What discovery reads of a row.
const DUE: [usize; 6] = [
    task::ID,
    task::PRIORITY,
    task::READY_AT,
    task::SHARD,
    task::NAMESPACE,
    task::JOB,
];

pub(super) fn read(desk: &Desk<'_>, sql: Sql, values: &[Value]) -> Option<Vec<Record>> {
    Some(match sql {
        Sql::Due => due(desk, &values[..1], &values[3..], |shard| {
            owned(values, shard)
        }),
        Sql::DueAll => due(desk, &values[..1], &values[1..], |_| true),
        Sql::Inspect => {
            let columns = [&DUE[..], &[task::STATE, task::DEADLINE, task::CANCEL_AT]].concat();
            by_ids(desk, values, |_| true, &columns)
        }
        Sql::Overdue => overdue(desk, values),
        Sql::ReadClaimed => {
            let mine = |row: &Record| int(row, task::STATE) == 2 && row[task::TOKEN] == values[0];
            by_ids(desk, &values[1..], mine, &ALL)
        }
        Sql::ReadTask => by_ids(desk, values, |_| true, &ALL),
        Sql::ReadPayloads => distinct(values)
            .iter()
            .filter_map(|pk| desk.get(Table::Payload, pk))
            .collect(),
        Sql::Watch => {
            let columns = [task::ID, task::TOKEN, task::CANCEL_AT, task::CANCEL_REASON];
            by_ids(desk, values, |row| int(row, task::STATE) == 2, &columns)
        }
        Sql::Orphans => orphans(desk, values),
        Sql::RunningOf => {
            let mine = |row: &Record| {
                int(row, task::STATE) == 2
                    && int(row, task::READY_AT) <= desk.now
                    && row[task::NODE] == values[0]
            };
            limited(desk.select(Table::Task, mine), int(values, 1))
        }
        Sql::StrandedRows => stranded(desk, values),
        _ => return None,
    })
}

/// Every column of a task.
const ALL: [usize; task::WIDTH] = {
    let mut all = [0; task::WIDTH];
    let mut at = 0;
    while at < task::WIDTH {
        all[at] = at;
        at += 1;
    }
    all
};

fn columns(row: &Record, columns: &[usize]) -> Record {
    columns.iter().map(|column| row[*column].clone()).collect()
}

fn distinct(values: &[Value]) -> Vec<Pk> {
    let mut wanted = super::ids(values);
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

fn by_ids(
    desk: &Desk<'_>,
    values: &[Value],
    fits: impl Fn(&Record) -> bool,
    wanted: &[usize],
) -> Vec<Record> {
    let tables = desk.server.tables();
    let wanted_rows = distinct(values).into_iter();
    let look = |pk: Pk| {
        tables
            .get(desk.tx, Table::Task, &pk)
            .filter(|row| fits(row))
            .map(|row| columns(row, wanted))
    };
    wanted_rows.filter_map(look).collect()
}

fn owned(values: &[Value], shard: i64) -> bool {
    let Value::Bytes(set) = &values[1] else {
        panic!("the owned shards are {:?}", values[1])
    };
    match usize::try_from(shard).ok().and_then(|shard| set.get(shard)) {
        Some(byte) => *byte == 1,
        None => shard == int(values, 2),
    }
}

/// Ten lanes of pending rows, each from its place on, in order, at most its cap.
fn due(desk: &Desk<'_>, to: &[Value], lanes: &[Value], mine: impl Fn(i64) -> bool) -> Vec<Record> {
    let to = match int(to, 0) {
        to if desk.bent(Mutation::NoLookAhead) => to.min(desk.now),
        to => to,
    };
    let mut found: [Vec<Record>; 10] = Default::default();
    let tables = desk.server.tables();
    for row in tables.scan(desk.tx, Table::Task) {
        let (at, shard) = (int(row, task::READY_AT), int(row, task::SHARD));
        let priority = usize::try_from(int(row, task::PRIORITY)).unwrap_or(0);
        let lane = &lanes[priority * 3..];
        let from = match int(lane, 0) {
            _ if desk.bent(Mutation::NoLookBack) => desk.now,
            from => from,
        };
        let pending = int(row, task::STATE) == 1 && at <= to && (at, shard) >= (from, int(lane, 1));
        if pending && int(lane, 2) > 0 && mine(shard) {
            found[priority].push(columns(row, &DUE));
        }
    }
    for (lane, rows) in found.iter_mut().enumerate() {
        rows.sort_by_key(|row| (int(row, 2), int(row, 3)));
        rows.truncate(usize::try_from(int(lanes, lane * 3 + 2)).unwrap_or(0));
    }
    found.into_iter().flatten().collect()
}

fn limited(mut rows: Vec<Record>, limit: i64) -> Vec<Record> {
    rows.truncate(usize::try_from(limit).unwrap_or(0));
    rows
}

fn overdue(desk: &Desk<'_>, values: &[Value]) -> Vec<Record> {
    let over = |row: &Record| {
        int(row, task::STATE) == 1
            && int(row, task::READY_AT) <= desk.now
            && int(row, task::DEADLINE) <= desk.now
    };
    let rows = desk.select(Table::Task, over);
    limited(
        rows.iter().map(|row| columns(row, &[task::ID])).collect(),
        int(values, 0),
    )
}

fn orphans(desk: &Desk<'_>, values: &[Value]) -> Vec<Record> {
    let present = desk.present();
    let gone = |row: &Record| !present.contains(&id(row, task::NODE));
    let orphan = |row: &Record| {
        int(row, task::STATE) == 2 && int(row, task::READY_AT) <= desk.now && gone(row)
    };
    let mut rows = desk.select(Table::Task, orphan);
    if desk.bent(Mutation::DeadNodeClaims) {
        rows.retain(|row| claimed_before_death(desk, row));
    }
    let rows = limited(rows, int(values, 0));
    if desk.bent(Mutation::ReaperActsById) || desk.bent(Mutation::LoseIgnoresToken) {
        rows.iter().for_each(|row| desk.server.remember(row));
    }
    rows
}

/// Whether a row was claimed while its node had its lease: what a reaper that looks once would have found.
fn claimed_before_death(desk: &Desk<'_>, row: &Record) -> bool {
    let owner = desk.get(Table::Node, &Pk::Id(id(row, task::NODE)));
    owner.is_none_or(|owner| int_opt(row, task::CLAIMED_AT) < int_opt(&owner, node::LEASE_UNTIL))
}

fn stranded(desk: &Desk<'_>, values: &[Value]) -> Vec<Record> {
    let alive = desk.select(Table::Node, |row| int(row, node::STATE) == 0);
    let inboxes: Vec<i64> = alive.iter().map(|row| int(row, node::INBOX)).collect();
    let stranded = |row: &Record| {
        let shard = int(row, task::SHARD);
        int(row, task::STATE) == 1
            && int(row, task::READY_AT) <= desk.now + 60_000
            && shard >= 1_024
            && !inboxes.contains(&shard)
    };
    let rows = desk.select(Table::Task, stranded);
    limited(
        rows.iter()
            .map(|row| columns(row, &[task::ID, task::SHARD]))
            .collect(),
        int(values, 0),
    )
}
