//! The texts of the road: submit, keys, discovery, claim, settle, operators.
//!
//! What each does, takes and gives is said at its variant in `text.rs`.

use std::borrow::Cow;
use std::fmt::Write;

use super::Sql;

/// The 37 columns of a task, as `TASK` of `text.rs` lists them.
macro_rules! task_columns {
    () => {
        "id, namespace, job, state, priority, ready_at, shard, deadline, payload, payload_at, task_key, tags, route_key, \
         limit_key, max_retries, timeout_ms, on_lost, created_at, schedule, scheduled_at, interval_start, interval_end, \
         attempt, lost, fence, round, token, node, claimed_at, cancel_at, cancel_reason, error, progress, trace, run_id, \
         step, map_index"
    };
}

/// The 21 columns of a new task, as `NEW` of `text.rs` lists them.
macro_rules! new_columns {
    () => {
        "id, namespace, job, priority, ready_at, shard, deadline, payload, payload_at, task_key, tags, route_key, \
         max_retries, timeout_ms, on_lost, created_at, schedule, scheduled_at, interval_start, interval_end, trace"
    };
}

/// The 21 values of a new task; most tasks leave most of them out.
macro_rules! new_values {
    () => {
        "?, ?, ?, ?, ?, ?, {or max}, ?, {or 0}, {or text}, {or text}, {or text}, {or int}, {or int}, {or 0}, ?, {or text}, \
         {or int}, {or int}, {or int}, {or text}"
    };
}

/// The node of parameter `$node` is alive.
macro_rules! alive {
    ($node:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM ax_node WHERE id = ",
            $node,
            " AND state = 0 AND lease_until > {now})"
        )
    };
}

/// The node that `$node` names is neither alive nor leaving.
macro_rules! gone {
    ($node:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM ax_node n WHERE n.id = ",
            $node,
            " AND n.state IN (0, 1))"
        )
    };
}

/// One key among several.
macro_rules! any_key {
    () => {
        "{any (namespace = ? AND job = ? AND task_key = ?)}"
    };
}

/// One key among several, held by a task.
macro_rules! any_held_key {
    () => {
        "{any (namespace = ? AND job = ? AND task_key = ? AND task = ?)}"
    };
}

pub(super) use {alive, gone, task_columns};

pub(super) fn template(sql: Sql) -> Option<Cow<'static, str>> {
    let text = match sql {
        Sql::Due => return Some(Cow::Owned(due(Shards::Owned))),
        Sql::DueAll => return Some(Cow::Owned(due(Shards::All))),
        _ => submit(sql)
            .or_else(|| keys(sql))
            .or_else(|| look(sql))
            .or_else(|| settle(sql))
            .or_else(|| operate(sql))?,
    };
    Some(Cow::Borrowed(text))
}

fn submit(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::InsertTasks => {
            concat!(
                "INSERT INTO ax_task (state, ",
                new_columns!(),
                ") VALUES {rows (1, ",
                new_values!(),
                ")}"
            )
        }
        Sql::InsertBorn => concat!(
            "INSERT INTO ax_task (state, attempt, fence, token, node, ",
            new_columns!(),
            ", claimed_at) \
             SELECT 2, 1, 1, ?1, ?2, v.* FROM (VALUES {rows (",
            new_values!(),
            ", ?)}) AS v WHERE ",
            alive!("?2")
        ),
        Sql::InsertMissing => concat!(
            "INSERT INTO ax_task (state, ",
            new_columns!(),
            ", fence, round, limit_key, run_id, step, map_index) \
             SELECT 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
             ?22, ?23, ?24, ?25, ?26, ?27 \
             WHERE NOT EXISTS (SELECT 1 FROM ax_task WHERE id = ?1) \
             AND NOT EXISTS (SELECT 1 FROM ax_history WHERE id = ?1 AND round >= ?23)"
        ),
        Sql::InsertPayloads => {
            "INSERT INTO ax_payload (id, payload) VALUES {rows (?, ?)} {absent id}"
        }
        Sql::DeletePayload => "DELETE FROM ax_payload WHERE id = ?",
        Sql::ReadPayloads => "SELECT id, payload FROM ax_payload WHERE {in id}",
        Sql::InsertTags => "INSERT INTO ax_tag (tag, id) VALUES {rows (?, ?)} {absent id}",
        Sql::DeleteTags => "DELETE FROM ax_tag WHERE id = ?",
        Sql::ReplaceTask => {
            "UPDATE ax_task SET payload = ?, payload_at = ?, priority = ?, ready_at = ?, deadline = ?, tags = ?, \
             route_key = ?, max_retries = ?, timeout_ms = ?, on_lost = ?, trace = ?, version = version + 1 \
             WHERE id = ? AND state = 1 AND cancel_at = 0"
        }
        _ => return None,
    })
}

fn keys(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::InsertKeys => {
            "INSERT INTO ax_key (namespace, job, task_key, task, until, period_end) \
             VALUES {rows (?, ?, ?, ?, 9223372036854775807, ?)} {absent task}"
        }
        Sql::ReadKeys => concat!(
            "SELECT namespace, job, task_key, task, CASE WHEN until <= {now} THEN 1 ELSE 0 END, period_end FROM ax_key WHERE ",
            any_key!()
        ),
        Sql::TakeKey => {
            "UPDATE ax_key SET task = ?1, until = 9223372036854775807, period_end = ?2 \
             WHERE namespace = ?3 AND job = ?4 AND task_key = ?5 AND task = ?6 AND (until <= {now} OR task = ?1)"
        }
        Sql::ReleaseKeys => concat!(
            "DELETE FROM ax_key WHERE period_end <= {now} AND (",
            any_held_key!(),
            ")"
        ),
        Sql::KeepKeys => concat!(
            "UPDATE ax_key SET until = period_end WHERE until = 9223372036854775807 AND (",
            any_held_key!(),
            ")"
        ),
        Sql::OverKeys => {
            "SELECT namespace, job, task_key FROM ax_key WHERE until <= {now} ORDER BY until LIMIT ?"
        }
        Sql::DropKeys => concat!(
            "DELETE FROM ax_key WHERE until <= {now} AND (",
            any_key!(),
            ")"
        ),
        _ => return None,
    })
}

fn look(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::Inspect => {
            "SELECT id, priority, ready_at, shard, namespace, job, state, deadline, cancel_at FROM ax_task WHERE {in id}"
        }
        Sql::Overdue => {
            "SELECT id FROM ax_task WHERE priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) AND ready_at <= {now} \
             AND deadline <= {now} AND state = 1 LIMIT ?"
        }
        Sql::ReadClaimed => concat!(
            "SELECT ",
            task_columns!(),
            " FROM ax_task WHERE token = ? AND state = 2 AND {in id}"
        ),
        Sql::LockTask => concat!(
            "SELECT ",
            task_columns!(),
            ", {now} FROM ax_task WHERE id = ? {lock}"
        ),
        Sql::ReadTask => concat!("SELECT ", task_columns!(), " FROM ax_task WHERE id = ?"),
        Sql::Watch => {
            "SELECT id, token, cancel_at, cancel_reason FROM ax_task WHERE state = 2 AND {in id}"
        }
        Sql::Orphans => concat!(
            "SELECT ",
            task_columns!(),
            " FROM ax_task t WHERE priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) \
             AND ready_at <= {now} AND state = 2 AND ",
            gone!("t.node"),
            " LIMIT ?"
        ),
        Sql::RunningOf => concat!(
            "SELECT ",
            task_columns!(),
            " FROM ax_task t WHERE priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) \
             AND ready_at <= {now} AND state = 2 AND t.node = ? LIMIT ?"
        ),
        Sql::StrandedRows => {
            "SELECT id, shard FROM ax_task t WHERE priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) \
             AND ready_at <= {now} + 60000 AND shard >= 1024 AND state = 1 \
             AND NOT EXISTS (SELECT 1 FROM ax_node n WHERE n.inbox = t.shard AND n.state = 0) LIMIT ?"
        }
        _ => return None,
    })
}

fn settle(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::Claim => concat!(
            "UPDATE ax_task SET state = 2, token = ?1, node = ?2, claimed_at = {now}, fence = fence + 1, \
             attempt = attempt + 1 WHERE {in id} AND state = 1 AND ready_at <= {now} AND deadline > {now} \
             AND cancel_at = 0 AND ",
            alive!("?2")
        ),
        Sql::DeleteSettled => {
            "DELETE FROM ax_task WHERE token = ? AND state = 2 AND cancel_at = 0 AND {in id}"
        }
        Sql::InsertHistory => concat!(
            "INSERT INTO ax_history (",
            task_columns!(),
            ", started_at, finished_at, result, reason) VALUES {rows (\
             ?, ?, ?, ?, ?, ?, ?, {or max}, ?, {or 0}, {or text}, {or text}, {or text}, {or text}, {or int}, {or int}, \
             {or 0}, ?, {or text}, {or int}, {or int}, {or int}, ?, {or 0}, ?, {or 0}, ?, ?, ?, {or 0}, {or text}, {or text}, \
             {or text}, {or text}, {or id}, {or int}, {or int}, ?, ?, ?, {or text})}"
        ),
        Sql::InsertDead => {
            "INSERT INTO ax_dead (id, round, namespace, job, task_key, payload, error, failed_at, attempt, lost) \
             VALUES {rows (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)}"
        }
        Sql::Requeue => {
            "UPDATE ax_task SET state = 1, ready_at = ?, attempt = ?, error = ?, token = NULL, node = NULL, \
             claimed_at = NULL, version = version + 1 WHERE id = ? AND token = ? AND state = 2 AND cancel_at = 0"
        }
        Sql::InsertExecutions => {
            "INSERT INTO ax_execution (task, fence, round, token, node, attempt, reason, error, claimed_at, started_at, \
             finished_at) VALUES {rows (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)}"
        }
        Sql::DeleteTask => "DELETE FROM ax_task WHERE id = ? AND state = ? AND fence = ?",
        Sql::ReadEnds => "SELECT id, token, state, reason FROM ax_history WHERE {in id}",
        Sql::ReadAttempt => {
            "SELECT task FROM ax_execution WHERE task = ? AND fence = ? AND token = ? AND reason <> 5"
        }
        Sql::RequeueLost => concat!(
            "UPDATE ax_task SET state = 1, ready_at = {now}, lost = lost + 1, error = ?1, token = NULL, node = NULL, \
             claimed_at = NULL, version = version + 1 WHERE id = ?2 AND token = ?3 AND state = 2 AND cancel_at = 0 AND ",
            gone!("?4")
        ),
        Sql::DeleteLost => concat!(
            "DELETE FROM ax_task WHERE id = ?1 AND token = ?2 AND state = 2 AND ",
            gone!("?3")
        ),
        _ => return None,
    })
}

fn operate(sql: Sql) -> Option<&'static str> {
    Some(match sql {
        Sql::MarkCancel => {
            "UPDATE ax_task SET cancel_at = {now}, cancel_reason = ?, version = version + 1 \
             WHERE id = ? AND state = 2 AND cancel_at = 0"
        }
        Sql::Reschedule => {
            "UPDATE ax_task SET ready_at = ?, version = version + 1 WHERE id = ? AND state = 1 AND cancel_at = 0"
        }
        Sql::SetPriority => {
            "UPDATE ax_task SET priority = ?, version = version + 1 WHERE id = ? AND state IN (0, 1, 2)"
        }
        Sql::ResolveDead => {
            "UPDATE ax_dead SET resolved_at = {now}, resolution = ? WHERE id = ? AND resolved_at IS NULL"
        }
        Sql::MoveShard => {
            "UPDATE ax_task SET shard = ?, ready_at = CASE WHEN ready_at < {now} - 5000 THEN {now} ELSE ready_at END, \
             version = version + 1 WHERE shard = ? AND state = 1 AND {in id}"
        }
        _ => return None,
    })
}

/// Which shards a due statement looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shards {
    Owned,
    All,
}

/// Ten short ranges in one statement, each bounded by `ready_at` on both sides, so that the index serves all of it.
fn due(shards: Shards) -> String {
    let (filter, fixed) = match shards {
        Shards::Owned => (
            " AND CASE WHEN shard < 1024 THEN {owned ?2 shard} ELSE shard = ?3 END",
            3,
        ),
        Shards::All => ("", 1),
    };
    let mut text = String::new();
    for priority in 0..10 {
        let between = if priority == 0 { "" } else { " UNION ALL " };
        let from = fixed + priority * 3;
        let (at, shard, cap) = (from + 1, from + 2, from + 3);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{between}SELECT * FROM (SELECT id, priority, ready_at, shard, namespace, job FROM ax_task \
             WHERE priority = {priority} AND (ready_at, shard) >= (?{at}, ?{shard}) AND ready_at <= ?1 AND state = 1{filter} \
             ORDER BY ready_at, shard LIMIT ?{cap}) AS lane{priority}"
        );
    }
    text
}
