//! Nodes and shards.

use ax_engine::db::{DbResult, Value};
use ax_engine::store::Sql;

use super::ids;
use crate::sim::columns::{Record, id, id_opt, int, node, shard};
use crate::sim::mutation::Mutation;
use crate::sim::server::Desk;
use crate::sim::tables::{IfThere, Pk, Table};

/// The number of the first inbox.
const FIRST_INBOX: i64 = 1_024;
const ALIVE: i64 = 0;
const LEAVING: i64 = 1;
const DEAD: i64 = 2;

pub(super) fn read(desk: &Desk<'_>, sql: Sql, values: &[Value]) -> Option<Vec<Record>> {
    let now = Value::from(desk.now);
    Some(match sql {
        Sql::Now => vec![vec![now]],
        Sql::ReadNode => {
            let columns = [node::INBOX, node::STATE, node::BEAT, node::LEASE_UNTIL];
            let found = desk.get(Table::Node, &Pk::Id(id(values, 0)));
            let row = |row: Record| {
                columns
                    .iter()
                    .map(|at| row[*at].clone())
                    .chain([now.clone()])
                    .collect()
            };
            found.map(row).into_iter().collect()
        }
        Sql::Peers => {
            let rows = desk.select(Table::Node, |_| true);
            rows.iter()
                .map(|row| [&row[..=node::SLOTS], std::slice::from_ref(&now)].concat())
                .collect()
        }
        Sql::OwnedShards => {
            let mine = desk.server.tables().shards_of(desk.tx, id(values, 0));
            mine.into_iter()
                .map(|shard| vec![Value::from(shard)])
                .collect()
        }
        _ => return None,
    })
}

fn is_present(row: &Record) -> bool {
    int(row, node::STATE) <= LEAVING
}

/// Inserts a node with the inbox after the highest; two who choose the same one at once meet at its unique index.
pub(super) async fn join(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let nodes = desk.select(Table::Node, |_| true);
    let highest = nodes.iter().map(|row| int(row, node::INBOX)).max();
    let inbox = Value::from(highest.map_or(FIRST_INBOX, |inbox| (inbox + 1).max(FIRST_INBOX)));
    let now = Value::from(desk.now);
    let mut row = vec![Value::from(0); node::LABELS + 1];
    row[node::ID] = values[0].clone();
    row[node::NAMESPACE] = values[1].clone();
    row[node::INBOX] = inbox.clone();
    row[node::LEASE_UNTIL] = Value::from(desk.now + int(values, 2));
    row[node::STARTED_AT] = now.clone();
    row[node::HOST..node::HOST + 6].clone_from_slice(&values[3..9]);
    row[node::LABELS] = values[9].clone();
    row[13..16].clone_from_slice(&values[10..13]);
    row[node::SLOTS] = values[13].clone();
    row[node::SEEN_AT] = now;
    desk.insert(Table::Inbox, vec![vec![inbox]], IfThere::Fail)
        .await?;
    desk.insert(Table::Node, vec![row], IfThere::Fail).await
}

pub(super) async fn beat(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| is_present(row) || desk.bent(Mutation::BeatRevives);
    let change = |row: &mut Record| {
        row[node::BEAT] = Value::from(int(row, node::BEAT) + 1);
        row[node::LEASE_UNTIL] = Value::from(desk.now + int(values, 0));
        row[node::RUNNING] = values[1].clone();
        row[node::QUEUED] = values[2].clone();
        row[node::SLOTS] = values[3].clone();
        row[node::SEEN_AT] = Value::from(desk.now);
        if desk.bent(Mutation::BeatRevives) && int(row, node::STATE) == DEAD {
            row[node::STATE] = Value::from(ALIVE);
        }
    };
    desk.update(Table::Node, ids(&values[4..5]), fits, change)
        .await
}

pub(super) async fn mark_dead(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let careless = desk.bent(Mutation::DeathWithoutCompare);
    let fits = |row: &Record| {
        let over = int(row, node::LEASE_UNTIL) < desk.now && row[node::BEAT] == values[1];
        is_present(row) && (over || careless)
    };
    desk.update(Table::Node, ids(&values[..1]), fits, |row| {
        row[node::STATE] = Value::from(DEAD)
    })
    .await
}

/// Declares a node dead on the word of a lock file.
pub(super) async fn bury(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| is_present(row) && row[node::BEAT] == values[1];
    desk.update(Table::Node, ids(&values[..1]), fits, |row| {
        row[node::STATE] = Value::from(DEAD)
    })
    .await
}

pub(super) async fn set_state(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| is_present(row) && int(row, node::STATE) < int(values, 0);
    desk.update(Table::Node, ids(&values[1..2]), fits, |row| {
        row[node::STATE] = values[0].clone()
    })
    .await
}

pub(super) async fn prune(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let fits = |row: &Record| !is_present(row) && int(row, node::SEEN_AT) < int(values, 0);
    let gone = desk.select(Table::Node, fits);
    let inboxes = gone
        .iter()
        .map(|row| Pk::Int(int(row, node::INBOX)))
        .collect();
    let nodes = gone.iter().map(|row| Pk::Id(id(row, node::ID))).collect();
    let pruned = desk.delete(Table::Node, nodes, fits).await?;
    desk.delete(Table::Inbox, inboxes, |_| true).await?;
    Ok(pruned)
}

fn shards(values: &[Value]) -> Vec<Pk> {
    (0..values.len())
        .map(|at| Pk::Int(int(values, at)))
        .collect()
}

pub(super) async fn take_shards(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    if !desk.alive(id(values, 0)) {
        return Ok(0);
    }
    let present = desk.present();
    let fits =
        |row: &Record| id_opt(row, shard::OWNER).is_none_or(|owner| !present.contains(&owner));
    let change = |row: &mut Record| {
        row[shard::OWNER] = values[0].clone();
        row[shard::TOKEN] = values[1].clone();
        row[shard::TAKEN_AT] = Value::from(desk.now);
    };
    desk.update(Table::Shard, shards(&values[2..]), fits, change)
        .await
}

pub(super) async fn release_shards(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    give_up(desk, values, shards(&values[1..])).await
}

pub(super) async fn abandon_shards(desk: &Desk<'_>, values: &[Value]) -> DbResult<u64> {
    let mine = desk.server.tables().shards_of(desk.tx, id(values, 0));
    give_up(desk, values, mine.into_iter().map(Pk::Int).collect()).await
}

async fn give_up(desk: &Desk<'_>, values: &[Value], wanted: Vec<Pk>) -> DbResult<u64> {
    let fits = |row: &Record| row[shard::OWNER] == values[0];
    let change = |row: &mut Record| {
        row[shard::OWNER] = Value::Id(None);
        row[shard::TOKEN] = Value::Id(None);
    };
    desk.update(Table::Shard, wanted, fits, change).await
}
