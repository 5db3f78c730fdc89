//! The texts around the road: nodes, shards, schedules, questions, the schema.
//!
//! What each does, takes and gives is said at its variant in `text.rs`.

use std::borrow::Cow;

use super::Sql;
use super::task::{alive, gone, task_columns};

macro_rules! schedule_columns {
    () => {
        "namespace, name, job, trigger_text, payload, misfire, overlap, priority, on_lost, state, next_at, last_at, \
         last_task, version, source, updated_at"
    };
}

pub(super) fn template(sql: Sql) -> Option<Cow<'static, str>> {
    node(sql)
        .or_else(|| shard(sql))
        .or_else(|| schedule(sql))
        .or_else(|| query(sql))
        .or_else(|| schema(sql))
        .map(Cow::Borrowed)
}

fn node(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::Now => "SELECT {now}",
        Sql::JoinNode => {
            "INSERT INTO ax_node (id, namespace, inbox, state, beat, lease_until, started_at, host, pid, app, version, zone, \
             weight, labels, jobs, trigger_on, execute_on, slots, seen_at) \
             SELECT ?1, ?2, CASE WHEN MAX(inbox) >= 1024 THEN MAX(inbox) + 1 ELSE 1024 END, 0, 0, {now} + ?3, {now}, ?4, ?5, \
             ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, {now} FROM ax_node"
        }
        Sql::ReadNode => "SELECT inbox, state, beat, lease_until, {now} FROM ax_node WHERE id = ?",
        Sql::Beat => {
            "UPDATE ax_node SET beat = beat + 1, lease_until = {now} + ?, running = ?, queued = ?, slots = ?, seen_at = {now} \
             WHERE id = ? AND state IN (0, 1)"
        }
        Sql::Peers => {
            "SELECT id, namespace, inbox, state, beat, lease_until, started_at, host, pid, app, version, zone, weight, jobs, \
             trigger_on, execute_on, running, queued, slots, {now} FROM ax_node"
        }
        Sql::MarkDead => {
            "UPDATE ax_node SET state = 2 WHERE id = ? AND state IN (0, 1) AND beat = ? AND lease_until < {now}"
        }
        Sql::BuryNode => {
            "UPDATE ax_node SET state = 2 WHERE id = ? AND state IN (0, 1) AND beat = ?"
        }
        Sql::SetNodeState => {
            "UPDATE ax_node SET state = ?1 WHERE id = ?2 AND state IN (0, 1) AND state < ?1"
        }
        Sql::PruneNodes => "DELETE FROM ax_node WHERE state IN (2, 3) AND seen_at < ?",
        _ => return None,
    })
}

fn shard(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::TakeShards => concat!(
            "UPDATE ax_shard SET owner = ?1, token = ?2, taken_at = {now} WHERE {in shard} AND (owner IS NULL OR ",
            gone!("ax_shard.owner"),
            ") AND ",
            alive!("?1")
        ),
        Sql::ReleaseShards => {
            "UPDATE ax_shard SET owner = NULL, token = NULL WHERE owner = ? AND {in shard}"
        }
        Sql::AbandonShards => "UPDATE ax_shard SET owner = NULL, token = NULL WHERE owner = ?",
        Sql::OwnedShards => "SELECT shard FROM ax_shard WHERE owner = ?",
        _ => return None,
    })
}

fn schedule(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::InsertSchedule => {
            "INSERT INTO ax_schedule (namespace, name, job, trigger_text, payload, misfire, overlap, priority, on_lost, \
             state, next_at, version, source, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, {now}) {absent name}"
        }
        Sql::ReadSchedule => concat!(
            "SELECT ",
            schedule_columns!(),
            " FROM ax_schedule WHERE namespace = ? AND name = ?"
        ),
        Sql::UpdateSchedule => {
            "UPDATE ax_schedule SET job = ?, trigger_text = ?, payload = ?, misfire = ?, overlap = ?, priority = ?, on_lost = ?, \
             state = ?, next_at = ?, source = ?, version = version + 1, updated_at = {now} WHERE namespace = ? AND name = ? AND version = ?"
        }
        Sql::Schedules => concat!(
            "SELECT ",
            schedule_columns!(),
            " FROM ax_schedule WHERE namespace = ? ORDER BY name"
        ),
        Sql::SchedulesDue => concat!(
            "SELECT ",
            schedule_columns!(),
            " FROM ax_schedule WHERE next_at <= ? AND state = 0 ORDER BY next_at LIMIT 1000"
        ),
        Sql::AdvanceSchedule => {
            "UPDATE ax_schedule SET state = ?1, next_at = ?2, last_at = ?3, last_task = COALESCE(?4, last_task) \
             WHERE namespace = ?5 AND name = ?6 AND version = ?7 AND state = 0 AND next_at = ?8 AND next_at <= {now}"
        }
        Sql::InsertTick => {
            "INSERT INTO ax_tick (namespace, schedule, scheduled_at, outcome, reason, task, dropped, recorded_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, {now}) {absent schedule}"
        }
        _ => return None,
    })
}

/// The filter of the two lists; a null parameter filters nothing.
macro_rules! filtered {
    () => {
        " t WHERE namespace = ?1 AND id < ?2 AND (?3 IS NULL OR job = ?3) AND (?4 IS NULL OR task_key = ?4) \
         AND (?5 IS NULL OR EXISTS (SELECT 1 FROM ax_tag g WHERE g.tag = ?5 AND g.id = t.id)) \
         AND state IN (?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ORDER BY id DESC"
    };
}

macro_rules! history_columns {
    () => {
        concat!(task_columns!(), ", started_at, finished_at, result, reason")
    };
}

fn query(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::ReadHistory => {
            concat!(
                "SELECT ",
                history_columns!(),
                " FROM ax_history WHERE id = ? ORDER BY round DESC LIMIT 1"
            )
        }
        Sql::ListTasks => concat!(
            "SELECT ",
            task_columns!(),
            " FROM ax_task",
            filtered!(),
            " LIMIT ?15"
        ),
        Sql::ListHistory => {
            concat!(
                "SELECT ",
                history_columns!(),
                " FROM ax_history",
                filtered!(),
                ", round DESC LIMIT ?15"
            )
        }
        Sql::ListHistoryByKey => concat!(
            "SELECT ",
            history_columns!(),
            " FROM ax_history WHERE namespace = ? AND job = ? AND task_key = ? AND id < ? \
             ORDER BY id DESC, round DESC LIMIT ?"
        ),
        Sql::CountTasks => {
            "SELECT job, state, CASE WHEN state = 1 AND ready_at <= {now} THEN 1 ELSE 0 END AS ready, COUNT(*) FROM ax_task \
             WHERE namespace = ?1 GROUP BY job, state, ready"
        }
        Sql::CountHistory => {
            "SELECT job, state, COUNT(*) FROM ax_history WHERE namespace = ? GROUP BY job, state"
        }
        Sql::Executions => {
            "SELECT task, fence, round, token, node, attempt, reason, error, claimed_at, started_at, finished_at \
             FROM ax_execution WHERE task = ? ORDER BY fence"
        }
        Sql::Outcomes => {
            "SELECT id, round, state, result, error FROM ax_history WHERE {in id} ORDER BY id, round"
        }
        _ => return None,
    })
}

fn schema(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::CreateMigrationTable => {
            "CREATE TABLE IF NOT EXISTS ax_migration (version BIGINT NOT NULL, name VARCHAR(200) NOT NULL, \
             checksum VARCHAR(40) NOT NULL, applied_at BIGINT NOT NULL, PRIMARY KEY (version))"
        }
        Sql::CreateMigrationLock => {
            "CREATE TABLE IF NOT EXISTS ax_migration_lock (id BIGINT NOT NULL, holder VARCHAR(100), \
             until BIGINT NOT NULL, PRIMARY KEY (id))"
        }
        Sql::InsertMigrationLock => {
            "INSERT INTO ax_migration_lock (id, holder, until) VALUES (1, NULL, 0) {absent id}"
        }
        Sql::TakeMigrationLock => {
            "UPDATE ax_migration_lock SET holder = ?1, until = {now} + 60000 \
             WHERE id = 1 AND (holder IS NULL OR until < {now} OR holder = ?1)"
        }
        Sql::FreeMigrationLock => {
            "UPDATE ax_migration_lock SET holder = NULL, until = 0 WHERE id = 1 AND holder = ?"
        }
        Sql::ReadMigrations => "SELECT version, name, checksum FROM ax_migration ORDER BY version",
        Sql::InsertMigration => {
            "INSERT INTO ax_migration (version, name, checksum, applied_at) VALUES (?, ?, ?, {now})"
        }
        _ => return None,
    })
}
