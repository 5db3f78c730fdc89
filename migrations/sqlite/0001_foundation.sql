-- The tables of ax. Times are milliseconds since 1970 UTC, ids have 16 bytes, documents are JSON texts.
-- Every statement can be run twice. 9223372036854775807 means "never".

-- Live tasks only: small whatever the history. No index holds the state, so that a claim changes no indexed column.
CREATE TABLE IF NOT EXISTS ax_task (
    id BLOB NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    state INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    deadline INTEGER NOT NULL DEFAULT 9223372036854775807,
    payload TEXT,
    payload_at INTEGER NOT NULL DEFAULT 0,
    task_key TEXT,
    tags TEXT,
    route_key TEXT,
    limit_key TEXT,
    max_retries INTEGER,
    timeout_ms INTEGER,
    on_lost INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    schedule TEXT,
    scheduled_at INTEGER,
    interval_start INTEGER,
    interval_end INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    round INTEGER NOT NULL DEFAULT 0,
    token BLOB,
    node BLOB,
    claimed_at INTEGER,
    cancel_at INTEGER NOT NULL DEFAULT 0,
    cancel_reason TEXT,
    error TEXT,
    progress TEXT,
    trace TEXT,
    run_id BLOB,
    step INTEGER,
    map_index INTEGER,
    parents_left INTEGER NOT NULL DEFAULT 0,
    parents_succeeded INTEGER NOT NULL DEFAULT 0,
    parents_failed INTEGER NOT NULL DEFAULT 0,
    parents_skipped INTEGER NOT NULL DEFAULT 0,
    parents_upstream_failed INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (id)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ax_task_due ON ax_task (priority, ready_at, shard);
CREATE INDEX IF NOT EXISTS ax_task_run ON ax_task (run_id, step, map_index) WHERE run_id IS NOT NULL;

-- Payloads over 4 KiB, of live and of finished tasks.
CREATE TABLE IF NOT EXISTS ax_payload (
    id BLOB NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (id)
);

-- Tags to search by, of live and of finished tasks.
CREATE TABLE IF NOT EXISTS ax_tag (
    tag TEXT NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (tag, id)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ax_tag_id ON ax_tag (id);

-- Who holds a key. until is the end of time while the task lives, then the end of its period.
CREATE TABLE IF NOT EXISTS ax_key (
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    task_key TEXT NOT NULL,
    task BLOB NOT NULL,
    until INTEGER NOT NULL,
    period_end INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, job, task_key)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ax_key_until ON ax_key (until);

-- Finished rounds of tasks.
CREATE TABLE IF NOT EXISTS ax_history (
    id BLOB NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    state INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    deadline INTEGER NOT NULL DEFAULT 9223372036854775807,
    payload TEXT,
    payload_at INTEGER NOT NULL DEFAULT 0,
    task_key TEXT,
    tags TEXT,
    route_key TEXT,
    limit_key TEXT,
    max_retries INTEGER,
    timeout_ms INTEGER,
    on_lost INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    schedule TEXT,
    scheduled_at INTEGER,
    interval_start INTEGER,
    interval_end INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    round INTEGER NOT NULL DEFAULT 0,
    token BLOB,
    node BLOB,
    claimed_at INTEGER,
    cancel_at INTEGER NOT NULL DEFAULT 0,
    cancel_reason TEXT,
    error TEXT,
    progress TEXT,
    trace TEXT,
    run_id BLOB,
    step INTEGER,
    map_index INTEGER,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    result TEXT,
    reason TEXT,
    PRIMARY KEY (id, round)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ax_history_finished ON ax_history (finished_at);
CREATE INDEX IF NOT EXISTS ax_history_job ON ax_history (namespace, job, finished_at);
CREATE INDEX IF NOT EXISTS ax_history_key ON ax_history (namespace, job, task_key) WHERE task_key IS NOT NULL;

-- Failed tasks, until somebody resolves them. The payload is whole.
CREATE TABLE IF NOT EXISTS ax_dead (
    id BLOB NOT NULL,
    round INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    task_key TEXT,
    payload TEXT,
    error TEXT,
    failed_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    resolved_at INTEGER,
    resolution TEXT,
    PRIMARY KEY (id, round)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ax_dead_failed ON ax_dead (failed_at);
CREATE INDEX IF NOT EXISTS ax_dead_job ON ax_dead (namespace, job, failed_at);

-- Attempts that did not end their task.
CREATE TABLE IF NOT EXISTS ax_execution (
    task BLOB NOT NULL,
    fence INTEGER NOT NULL,
    round INTEGER NOT NULL,
    token BLOB NOT NULL,
    node BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    reason INTEGER NOT NULL,
    error TEXT,
    claimed_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (task, fence)
) WITHOUT ROWID;

-- One row per process start. state: 0 alive, 1 leaving, 2 dead, 3 left.
CREATE TABLE IF NOT EXISTS ax_node (
    id BLOB NOT NULL,
    namespace TEXT NOT NULL,
    inbox INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    beat INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    app TEXT NOT NULL,
    version TEXT NOT NULL,
    zone TEXT NOT NULL,
    weight INTEGER NOT NULL DEFAULT 1,
    labels TEXT NOT NULL,
    jobs TEXT NOT NULL,
    trigger_on INTEGER NOT NULL DEFAULT 1,
    execute_on INTEGER NOT NULL DEFAULT 1,
    running INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    slots INTEGER NOT NULL DEFAULT 0,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX IF NOT EXISTS ax_node_inbox ON ax_node (inbox);

-- Who triggers which slice of the tasks.
CREATE TABLE IF NOT EXISTS ax_shard (
    shard INTEGER NOT NULL,
    owner BLOB,
    token BLOB,
    taken_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (shard)
) WITHOUT ROWID;

WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1023)
INSERT INTO ax_shard (shard) SELECT n FROM numbers WHERE true ON CONFLICT DO NOTHING;

-- Triggers that make tasks. state: 0 active, 1 paused, 2 never fires, 3 ended.
CREATE TABLE IF NOT EXISTS ax_schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    job TEXT NOT NULL,
    trigger_text TEXT NOT NULL,
    payload TEXT NOT NULL,
    misfire TEXT NOT NULL,
    overlap TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 5,
    on_lost INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL DEFAULT 9223372036854775807,
    last_at INTEGER,
    last_task BLOB,
    version INTEGER NOT NULL DEFAULT 1,
    source TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS ax_schedule_next ON ax_schedule (next_at);

-- What became of each tick. outcome: 0 fired, 1 skipped, 2 misfired.
CREATE TABLE IF NOT EXISTS ax_tick (
    namespace TEXT NOT NULL,
    schedule TEXT NOT NULL,
    scheduled_at INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    reason TEXT,
    task BLOB,
    dropped INTEGER NOT NULL DEFAULT 0,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, schedule, scheduled_at)
) WITHOUT ROWID;

DROP VIEW IF EXISTS ax_task_v;

-- For people: live and finished tasks with readable ids, states and times.
CREATE VIEW ax_task_v AS
    SELECT lower(hex(id)) AS id,
           namespace, job,
           CASE state WHEN 0 THEN 'blocked' WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'succeeded' WHEN 4 THEN 'failed'
           WHEN 5 THEN 'canceled' WHEN 6 THEN 'skipped' WHEN 7 THEN 'upstream_failed' WHEN 8 THEN 'expired' END AS state,
           round, priority,
           CASE WHEN ready_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', ready_at / 1000, 'unixepoch') || printf('.%03dZ', ready_at % 1000) END AS ready_at,
           CASE WHEN deadline BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', deadline / 1000, 'unixepoch') || printf('.%03dZ', deadline % 1000) END AS deadline,
           shard, task_key, tags, attempt, lost, fence,
           lower(hex(node)) AS node,
           CASE WHEN created_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000, 'unixepoch') || printf('.%03dZ', created_at % 1000) END AS created_at,
           CASE WHEN claimed_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', claimed_at / 1000, 'unixepoch') || printf('.%03dZ', claimed_at % 1000) END AS claimed_at,
           NULL AS started_at,
           NULL AS finished_at,
           cancel_at <> 0 AS cancel_requested, error, NULL AS result, payload
      FROM ax_task
    UNION ALL
    SELECT lower(hex(id)) AS id,
           namespace, job,
           CASE state WHEN 0 THEN 'blocked' WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'succeeded' WHEN 4 THEN 'failed'
           WHEN 5 THEN 'canceled' WHEN 6 THEN 'skipped' WHEN 7 THEN 'upstream_failed' WHEN 8 THEN 'expired' END AS state,
           round, priority,
           CASE WHEN ready_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', ready_at / 1000, 'unixepoch') || printf('.%03dZ', ready_at % 1000) END AS ready_at,
           CASE WHEN deadline BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', deadline / 1000, 'unixepoch') || printf('.%03dZ', deadline % 1000) END AS deadline,
           shard, task_key, tags, attempt, lost, fence,
           lower(hex(node)) AS node,
           CASE WHEN created_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000, 'unixepoch') || printf('.%03dZ', created_at % 1000) END AS created_at,
           CASE WHEN claimed_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', claimed_at / 1000, 'unixepoch') || printf('.%03dZ', claimed_at % 1000) END AS claimed_at,
           CASE WHEN started_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', started_at / 1000, 'unixepoch') || printf('.%03dZ', started_at % 1000) END AS started_at,
           CASE WHEN finished_at BETWEEN 0 AND 253402300799999 THEN strftime('%Y-%m-%dT%H:%M:%S', finished_at / 1000, 'unixepoch') || printf('.%03dZ', finished_at % 1000) END AS finished_at,
           cancel_at <> 0 AS cancel_requested, error, result AS result, payload
      FROM ax_history;
