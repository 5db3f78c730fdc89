//! Every statement of ax, once.
//!
//! Each variant of [`Sql`] says what its statement does, its parameters in order, its columns in order, and the index
//! that serves it. The texts stand in the folder beside this file, with the few marks that `render.rs` replaces.
//!
//! Conventions. Parameters come in the order of the text: first the fixed ones, then the repeated ones, row by row.
//! "now" is the database's and no parameter. `ids…` is a list padded to a power of two by repeating its last id.
//! `TASK` stands for the 37 columns of a task in this order: id, namespace, job, state, priority, ready_at, shard,
//! deadline, payload, payload_at (0 in the row, 1 in `ax_payload`), task_key, tags, route_key, limit_key, max_retries,
//! timeout_ms, on_lost, created_at, schedule, scheduled_at, interval_start, interval_end, attempt, lost, fence, round,
//! token, node, claimed_at, cancel_at (0 for no mark), cancel_reason, error, progress, trace, run_id, step, map_index.
//! `NEW` stands for the 21 values of a new task: id, namespace, job, priority, ready_at, shard, deadline, payload,
//! payload_at, task_key, tags, route_key, max_retries, timeout_ms, on_lost, created_at, schedule, scheduled_at,
//! interval_start, interval_end, trace.
//! Inserts of tasks and history have a second text for rows that leave the rare columns as usual; the values given stay the
//! same, and the statement says which of them it takes. A node is *alive* in state 0 with lease_until > now, *present* in state 0 or 1.

mod task;
mod world;

use std::borrow::Cow;

/// One statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sql {
    // --- submit
    /// Inserts pending rows. Params: NEW per row. Index: primary key.
    InsertTasks,
    /// Inserts running rows with attempt 1 and fence 1, all or none: only if the node is alive.
    /// Params: token, node, then NEW and claimed_at per row. Index: primary keys of ax_task and ax_node.
    InsertBorn,
    /// Inserts one pending row unless it is live, or finished in this round or a later one.
    /// Params: NEW, fence, round, limit_key, run_id, step, map_index. Index: primary keys of ax_task and ax_history.
    InsertMissing,
    /// Inserts payloads kept apart. Params: id, payload per row. Index: primary key.
    InsertPayloads,
    /// Deletes a payload kept apart. Params: id. Index: primary key.
    DeletePayload,
    /// Reads payloads kept apart. Params: ids…. Columns: id, payload. Index: primary key.
    ReadPayloads,
    /// Inserts tags, skipping those that are there. Params: tag, id per row. Index: primary key.
    InsertTags,
    /// Deletes a task's tags. Params: id. Index: ax_tag_id.
    DeleteTags,
    /// Gives a pending, unmarked row new contents. Params: payload, payload_at, priority, ready_at, deadline, tags,
    /// route_key, max_retries, timeout_ms, on_lost, trace, id. Index: primary key.
    ReplaceTask,

    // --- keys
    /// Inserts live keys (until = MAX), skipping those that are there; waits for whoever inserts the same one.
    /// Params: namespace, job, task_key, task, period_end (0 for none) per row. Index: primary key.
    InsertKeys,
    /// Reads keys. Params: namespace, job, task_key per row.
    /// Columns: namespace, job, task_key, task, over (1 if until <= now, else 0), period_end. Index: primary key.
    ReadKeys,
    /// Takes a key that is over, or that the same task held: task = ?, until = MAX, period_end = ?.
    /// Params: new task, period_end, namespace, job, task_key, old task. Applies if task = old task and
    /// (until <= now or old task = new task). Index: primary key.
    TakeKey,
    /// Deletes keys whose period is over (period_end <= now). Params: namespace, job, task_key, task per row.
    /// Index: primary key.
    ReleaseKeys,
    /// Lets live keys run out with their period: until = period_end where until = MAX.
    /// Params: namespace, job, task_key, task per row. Index: primary key.
    KeepKeys,
    /// Keys that are over (until <= now). Params: limit. Columns: namespace, job, task_key. Index: ax_key_until.
    OverKeys,
    /// Deletes keys that are over (until <= now). Params: namespace, job, task_key per row. Index: primary key.
    DropKeys,

    // --- discovery
    /// Pending rows of owned shards up to an instant, ten lanes, each from its (from_at, from_shard) on, in the order of
    /// (ready_at, shard), at most cap. Params: to, owned (1,024 bytes, 1 = owned), inbox, then for each priority from 0
    /// to 9: from_at, from_shard, cap. Columns: id, priority, ready_at, shard, namespace, job. Index: ax_task_due.
    Due,
    /// The same over all shards. Params: to, then for each priority: from_at, from_shard, cap. Index: ax_task_due.
    DueAll,
    /// Live rows by id. Params: ids…. Columns: as Due, then state, deadline, cancel_at. Index: primary key.
    Inspect,
    /// Pending rows with ready_at <= now and deadline <= now. Params: limit. Columns: id. Index: ax_task_due.
    Overdue,

    // --- claim and settle
    /// Claims: state = 2, token, node, claimed_at = now, fence + 1, attempt + 1, where state = 1, ready_at <= now,
    /// deadline > now, cancel_at = 0 and the node is alive. Params: token, node, ids…. Index: primary keys.
    Claim,
    /// Reads running rows by token. Params: token, ids…. Columns: TASK. Index: primary key.
    ReadClaimed,
    /// Deletes running rows without a cancel mark by token. Params: token, ids…. Index: primary key.
    DeleteSettled,
    /// Inserts finished rounds. Params per row: TASK, then started_at, finished_at, result, reason. Index: primary key.
    InsertHistory,
    /// Inserts dead letters. Params per row: id, round, namespace, job, task_key, payload, error, failed_at, attempt, lost.
    /// Index: primary key.
    InsertDead,
    /// Sends a running row without a cancel mark back to pending, token, node and claimed_at cleared.
    /// Params: ready_at, attempt, error, id, token. Index: primary key.
    Requeue,
    /// Inserts ends of attempts. Params per row: task, fence, round, token, node, attempt, reason, error, claimed_at,
    /// started_at, finished_at. Index: primary key.
    InsertExecutions,
    /// Reads and locks one live row. Params: id. Columns: TASK, now. Index: primary key.
    LockTask,
    /// Deletes one live row in an expected state and round. Params: id, state, fence. Index: primary key.
    DeleteTask,
    /// Finished rounds by id. Params: ids…. Columns: id, token, state, reason (null where its worker reported the end).
    /// Index: primary key.
    ReadEnds,
    /// Whether an attempt's end was reported by its worker (reason is not 5, lost). Params: task, fence, token.
    /// Columns: task. Index: primary key.
    ReadAttempt,
    /// Running rows by id. Params: ids…. Columns: id, token, cancel_at, cancel_reason. Index: primary key.
    Watch,

    // --- operators
    /// Marks a running row without a mark: cancel_at = now. Params: cancel_reason, id. Index: primary key.
    MarkCancel,
    /// Moves a pending, unmarked row in time. Params: ready_at, id. Index: primary key.
    Reschedule,
    /// Changes the priority of a live row (state 0, 1 or 2). Params: priority, id. Index: primary key.
    SetPriority,
    /// Resolves dead letters of a task: resolved_at = now where it is null. Params: resolution, id. Index: primary key.
    ResolveDead,
    /// Moves pending rows from one shard to another; those due for over 5 s become due now, so that the other node's looks at
    /// what became due lately meet them. Params: to, from, ids…. Index: primary key.
    MoveShard,

    // --- dead nodes
    /// Running rows with ready_at <= now whose node is not present. Params: limit. Columns: TASK. Index: ax_task_due.
    Orphans,
    /// Running rows with ready_at <= now of one node. Params: node, limit. Columns: TASK. Index: ax_task_due.
    RunningOf,
    /// Sends a running row without a cancel mark back to pending with lost + 1, due now, if its node is not present.
    /// Params: error, id, token, node. Index: primary keys.
    RequeueLost,
    /// Deletes a running row if its node is not present. Params: id, token, node. Index: primary keys.
    DeleteLost,

    // --- nodes
    /// The database's now. Columns: now.
    Now,
    /// Inserts a node with the inbox after the highest, from 1,024 on; started_at, seen_at = now, lease_until = now + ttl.
    /// Params: id, namespace, ttl, host, pid, app, version, zone, weight, labels, jobs, trigger_on, execute_on, slots.
    /// Index: primary key, ax_node_inbox.
    JoinNode,
    /// One node. Params: id. Columns: inbox, state, beat, lease_until, now. Index: primary key.
    ReadNode,
    /// Renews a present node: beat + 1, lease_until = now + ttl, seen_at = now.
    /// Params: ttl, running, queued, slots, id. Index: primary key.
    Beat,
    /// All nodes. Columns: id, namespace, inbox, state, beat, lease_until, started_at, host, pid, app, version, zone,
    /// weight, jobs, trigger_on, execute_on, running, queued, slots, now. Few rows, no index.
    Peers,
    /// Declares a present node dead (state 2) if beat = ? and lease_until < now. Params: id, beat. Index: primary key.
    MarkDead,
    /// Declares a present node dead (state 2) if beat = ?, whatever its lease. Params: id, beat. Index: primary key.
    BuryNode,
    /// Moves a present node to a later state. Params: state, id. Applies if the stored state is below. Index: primary key.
    SetNodeState,
    /// Deletes nodes in state 2 or 3 with seen_at < ?. Params: before. Few rows, no index.
    PruneNodes,

    // --- shards
    /// Takes shards whose owner is null or not present, if the taker is alive; taken_at = now.
    /// Params: owner, token, shards…. Index: primary keys.
    TakeShards,
    /// Gives up shards. Params: owner, shards…. Index: primary key.
    ReleaseShards,
    /// Gives up all shards of a node. Params: owner. 1,024 rows, no index.
    AbandonShards,
    /// The shards of a node. Params: owner. Columns: shard. 1,024 rows, no index.
    OwnedShards,
    /// Pending rows with ready_at <= now + 60,000 in inboxes of no alive node. Params: limit. Columns: id, shard.
    /// Index: ax_task_due.
    StrandedRows,

    // --- schedules
    /// Inserts a schedule, skipping one that is there. Params: namespace, name, job, trigger_text, payload, misfire, overlap,
    /// priority, on_lost, state, next_at, source; version = 1, updated_at = now. Index: primary key.
    InsertSchedule,
    /// One schedule. Params: namespace, name. Columns: SCHEDULE (namespace, name, job, trigger_text, payload, misfire,
    /// overlap, priority, on_lost, state, next_at, last_at, last_task, version, source, updated_at). Index: primary key.
    ReadSchedule,
    /// Changes a definition: version + 1, updated_at = now. Params: job, trigger_text, payload, misfire, overlap,
    /// priority, on_lost, state, next_at, source, namespace, name, version. Index: primary key.
    UpdateSchedule,
    /// Schedules of a namespace by name. Params: namespace. Columns: SCHEDULE. Index: primary key.
    Schedules,
    /// Schedules with state 0 and next_at <= ? by next_at, at most 1,000. Params: until. Columns: SCHEDULE.
    /// Index: ax_schedule_next.
    SchedulesDue,
    /// Moves a schedule on: state, next_at, last_at, and last_task unless null. Params: state, next_at, last_at, last_task,
    /// namespace, name, version, tick. Applies if version = ?, state = 0, next_at = tick and next_at <= now.
    /// Index: primary key.
    AdvanceSchedule,
    /// Inserts a tick, skipping one that is there; recorded_at = now.
    /// Params: namespace, schedule, scheduled_at, outcome, reason, task, dropped. Index: primary key.
    InsertTick,

    // --- questions
    /// One live row. Params: id. Columns: TASK. Index: primary key.
    ReadTask,
    /// The latest finished round of a task. Params: id. Columns: TASK, started_at, finished_at, result, reason.
    /// Index: primary key.
    ReadHistory,
    /// Live rows, youngest id first. Params: namespace, before (id), job or null, key or null, tag or null, nine states
    /// (padded), limit. Columns: TASK. Index: primary key, backwards.
    ListTasks,
    /// Finished rounds likewise. Columns: as ReadHistory. Index: primary key, backwards.
    ListHistory,
    /// Finished rounds of one key, youngest id first. Params: namespace, job, key, before (id), limit.
    /// Columns: as ReadHistory. Index: ax_history_key.
    ListHistoryByKey,
    /// Live rows counted. Params: namespace. Columns: job, state, ready (1 or 0), count. The table is small.
    CountTasks,
    /// Finished rounds counted. Params: namespace. Columns: job, state, count. Index: ax_history_job.
    CountHistory,
    /// Ends of attempts in order. Params: task. Columns: task, fence, round, token, node, attempt, reason, error, claimed_at,
    /// started_at, finished_at. Index: primary key.
    Executions,
    /// Finished rounds by id. Params: ids…. Columns: id, round, state, result, error. Index: primary key.
    Outcomes,

    // --- schema
    /// A statement of a migration file; its text is the file's.
    Migration,
    /// Makes the table of migrations.
    CreateMigrationTable,
    /// Makes the lock table.
    CreateMigrationLock,
    /// Inserts the lock's row (1, null, 0), skipping it if it is there. Index: primary key.
    InsertMigrationLock,
    /// Takes the lock for a minute: holder = ?, until = now + 60,000 where it is free, over, or held by the same.
    /// Params: holder. Index: primary key.
    TakeMigrationLock,
    /// Frees the lock. Params: holder. Index: primary key.
    FreeMigrationLock,
    /// Applied migrations in order. Columns: version, name, checksum. Index: primary key.
    ReadMigrations,
    /// Records an applied migration; applied_at = now. Params: version, name, checksum. Index: primary key.
    InsertMigration,
}

impl Sql {
    /// Every statement, in the order of the enum.
    pub const ALL: [Self; 79] = [
        Self::InsertTasks,
        Self::InsertBorn,
        Self::InsertMissing,
        Self::InsertPayloads,
        Self::DeletePayload,
        Self::ReadPayloads,
        Self::InsertTags,
        Self::DeleteTags,
        Self::ReplaceTask,
        Self::InsertKeys,
        Self::ReadKeys,
        Self::TakeKey,
        Self::ReleaseKeys,
        Self::KeepKeys,
        Self::OverKeys,
        Self::DropKeys,
        Self::Due,
        Self::DueAll,
        Self::Inspect,
        Self::Overdue,
        Self::Claim,
        Self::ReadClaimed,
        Self::DeleteSettled,
        Self::InsertHistory,
        Self::InsertDead,
        Self::Requeue,
        Self::InsertExecutions,
        Self::LockTask,
        Self::DeleteTask,
        Self::ReadEnds,
        Self::ReadAttempt,
        Self::Watch,
        Self::MarkCancel,
        Self::Reschedule,
        Self::SetPriority,
        Self::ResolveDead,
        Self::MoveShard,
        Self::Orphans,
        Self::RunningOf,
        Self::RequeueLost,
        Self::DeleteLost,
        Self::Now,
        Self::JoinNode,
        Self::ReadNode,
        Self::Beat,
        Self::Peers,
        Self::MarkDead,
        Self::BuryNode,
        Self::SetNodeState,
        Self::PruneNodes,
        Self::TakeShards,
        Self::ReleaseShards,
        Self::AbandonShards,
        Self::OwnedShards,
        Self::StrandedRows,
        Self::InsertSchedule,
        Self::ReadSchedule,
        Self::UpdateSchedule,
        Self::Schedules,
        Self::SchedulesDue,
        Self::AdvanceSchedule,
        Self::InsertTick,
        Self::ReadTask,
        Self::ReadHistory,
        Self::ListTasks,
        Self::ListHistory,
        Self::ListHistoryByKey,
        Self::CountTasks,
        Self::CountHistory,
        Self::Executions,
        Self::Outcomes,
        Self::Migration,
        Self::CreateMigrationTable,
        Self::CreateMigrationLock,
        Self::InsertMigrationLock,
        Self::TakeMigrationLock,
        Self::FreeMigrationLock,
        Self::ReadMigrations,
        Self::InsertMigration,
    ];

    /// The text with its marks.
    pub(super) fn template(self) -> Cow<'static, str> {
        task::template(self)
            .or_else(|| world::template(self))
            .unwrap_or_default()
    }
}
