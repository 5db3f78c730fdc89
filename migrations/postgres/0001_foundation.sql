-- The tables of ax. Times are milliseconds since 1970 UTC, ids have 16 bytes, documents are JSON texts.
-- Every statement can be run twice. 9223372036854775807 means "never".

-- Live tasks only: small whatever the history. No index holds the state, so that a claim changes no indexed column.
CREATE TABLE IF NOT EXISTS ax_task (
    id BYTEA NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    state BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    ready_at BIGINT NOT NULL,
    shard BIGINT NOT NULL,
    deadline BIGINT NOT NULL DEFAULT 9223372036854775807,
    payload TEXT,
    payload_at BIGINT NOT NULL DEFAULT 0,
    task_key TEXT,
    tags TEXT,
    route_key TEXT,
    limit_key TEXT,
    max_retries BIGINT,
    timeout_ms BIGINT,
    on_lost BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    schedule TEXT,
    scheduled_at BIGINT,
    interval_start BIGINT,
    interval_end BIGINT,
    attempt BIGINT NOT NULL DEFAULT 0,
    lost BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    round BIGINT NOT NULL DEFAULT 0,
    token BYTEA,
    node BYTEA,
    claimed_at BIGINT,
    cancel_at BIGINT NOT NULL DEFAULT 0,
    cancel_reason TEXT,
    error TEXT,
    progress TEXT,
    trace TEXT,
    run_id BYTEA,
    step BIGINT,
    map_index BIGINT,
    parents_left BIGINT NOT NULL DEFAULT 0,
    parents_succeeded BIGINT NOT NULL DEFAULT 0,
    parents_failed BIGINT NOT NULL DEFAULT 0,
    parents_skipped BIGINT NOT NULL DEFAULT 0,
    parents_upstream_failed BIGINT NOT NULL DEFAULT 0,
    version BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (id)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

CREATE INDEX IF NOT EXISTS ax_task_due ON ax_task (priority, ready_at, shard);
CREATE INDEX IF NOT EXISTS ax_task_run ON ax_task (run_id, step, map_index) WHERE run_id IS NOT NULL;

-- Payloads over 4 KiB, of live and of finished tasks.
CREATE TABLE IF NOT EXISTS ax_payload (
    id BYTEA NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Tags to search by, of live and of finished tasks.
CREATE TABLE IF NOT EXISTS ax_tag (
    tag TEXT NOT NULL,
    id BYTEA NOT NULL,
    PRIMARY KEY (tag, id)
);

CREATE INDEX IF NOT EXISTS ax_tag_id ON ax_tag (id);

-- Who holds a key. until is the end of time while the task lives, then the end of its period.
CREATE TABLE IF NOT EXISTS ax_key (
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    task_key TEXT NOT NULL,
    task BYTEA NOT NULL,
    until BIGINT NOT NULL,
    period_end BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, job, task_key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX IF NOT EXISTS ax_key_until ON ax_key (until);

-- Finished rounds of tasks.
CREATE TABLE IF NOT EXISTS ax_history (
    id BYTEA NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    state BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    ready_at BIGINT NOT NULL,
    shard BIGINT NOT NULL,
    deadline BIGINT NOT NULL DEFAULT 9223372036854775807,
    payload TEXT,
    payload_at BIGINT NOT NULL DEFAULT 0,
    task_key TEXT,
    tags TEXT,
    route_key TEXT,
    limit_key TEXT,
    max_retries BIGINT,
    timeout_ms BIGINT,
    on_lost BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    schedule TEXT,
    scheduled_at BIGINT,
    interval_start BIGINT,
    interval_end BIGINT,
    attempt BIGINT NOT NULL DEFAULT 0,
    lost BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    round BIGINT NOT NULL DEFAULT 0,
    token BYTEA,
    node BYTEA,
    claimed_at BIGINT,
    cancel_at BIGINT NOT NULL DEFAULT 0,
    cancel_reason TEXT,
    error TEXT,
    progress TEXT,
    trace TEXT,
    run_id BYTEA,
    step BIGINT,
    map_index BIGINT,
    started_at BIGINT,
    finished_at BIGINT NOT NULL,
    result TEXT,
    reason TEXT,
    PRIMARY KEY (id, round)
);

CREATE INDEX IF NOT EXISTS ax_history_finished ON ax_history (finished_at);
CREATE INDEX IF NOT EXISTS ax_history_job ON ax_history (namespace, job, finished_at);
CREATE INDEX IF NOT EXISTS ax_history_key ON ax_history (namespace, job, task_key) WHERE task_key IS NOT NULL;

-- Failed tasks, until somebody resolves them. The payload is whole.
CREATE TABLE IF NOT EXISTS ax_dead (
    id BYTEA NOT NULL,
    round BIGINT NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    task_key TEXT,
    payload TEXT,
    error TEXT,
    failed_at BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    resolved_at BIGINT,
    resolution TEXT,
    PRIMARY KEY (id, round)
);

CREATE INDEX IF NOT EXISTS ax_dead_failed ON ax_dead (failed_at);
CREATE INDEX IF NOT EXISTS ax_dead_job ON ax_dead (namespace, job, failed_at);

-- Attempts that did not end their task.
CREATE TABLE IF NOT EXISTS ax_execution (
    task BYTEA NOT NULL,
    fence BIGINT NOT NULL,
    round BIGINT NOT NULL,
    token BYTEA NOT NULL,
    node BYTEA NOT NULL,
    attempt BIGINT NOT NULL,
    reason BIGINT NOT NULL,
    error TEXT,
    claimed_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT NOT NULL,
    PRIMARY KEY (task, fence)
);

-- One row per process start. state: 0 alive, 1 leaving, 2 dead, 3 left.
CREATE TABLE IF NOT EXISTS ax_node (
    id BYTEA NOT NULL,
    namespace TEXT NOT NULL,
    inbox BIGINT NOT NULL,
    state BIGINT NOT NULL DEFAULT 0,
    beat BIGINT NOT NULL DEFAULT 0,
    lease_until BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    app TEXT NOT NULL,
    version TEXT NOT NULL,
    zone TEXT NOT NULL,
    weight BIGINT NOT NULL DEFAULT 1,
    labels TEXT NOT NULL,
    jobs TEXT NOT NULL,
    trigger_on BIGINT NOT NULL DEFAULT 1,
    execute_on BIGINT NOT NULL DEFAULT 1,
    running BIGINT NOT NULL DEFAULT 0,
    queued BIGINT NOT NULL DEFAULT 0,
    slots BIGINT NOT NULL DEFAULT 0,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (id)
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX IF NOT EXISTS ax_node_inbox ON ax_node (inbox);

-- Who triggers which slice of the tasks.
CREATE TABLE IF NOT EXISTS ax_shard (
    shard BIGINT NOT NULL,
    owner BYTEA,
    token BYTEA,
    taken_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (shard)
) WITH (fillfactor = 50);

INSERT INTO ax_shard (shard) SELECT n FROM generate_series(0, 1023) AS numbers (n) ON CONFLICT DO NOTHING;

-- Triggers that make tasks. state: 0 active, 1 paused, 2 never fires, 3 ended.
CREATE TABLE IF NOT EXISTS ax_schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    job TEXT NOT NULL,
    trigger_text TEXT NOT NULL,
    payload TEXT NOT NULL,
    misfire TEXT NOT NULL,
    overlap TEXT NOT NULL,
    priority BIGINT NOT NULL DEFAULT 5,
    on_lost BIGINT NOT NULL DEFAULT 0,
    state BIGINT NOT NULL DEFAULT 0,
    next_at BIGINT NOT NULL DEFAULT 9223372036854775807,
    last_at BIGINT,
    last_task BYTEA,
    version BIGINT NOT NULL DEFAULT 1,
    source TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS ax_schedule_next ON ax_schedule (next_at);

-- What became of each tick. outcome: 0 fired, 1 skipped, 2 misfired.
CREATE TABLE IF NOT EXISTS ax_tick (
    namespace TEXT NOT NULL,
    schedule TEXT NOT NULL,
    scheduled_at BIGINT NOT NULL,
    outcome BIGINT NOT NULL,
    reason TEXT,
    task BYTEA,
    dropped BIGINT NOT NULL DEFAULT 0,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, schedule, scheduled_at)
);

-- For people: live and finished tasks with readable ids, states and times.
CREATE OR REPLACE VIEW ax_task_v AS
    SELECT encode(id, 'hex') AS id,
           namespace, job,
           CASE state WHEN 0 THEN 'blocked' WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'succeeded' WHEN 4 THEN 'failed'
           WHEN 5 THEN 'canceled' WHEN 6 THEN 'skipped' WHEN 7 THEN 'upstream_failed' WHEN 8 THEN 'expired' END AS state,
           round, priority,
           CASE WHEN ready_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(ready_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS ready_at,
           CASE WHEN deadline BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(deadline / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS deadline,
           shard, task_key, tags, attempt, lost, fence,
           encode(node, 'hex') AS node,
           CASE WHEN created_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(created_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS created_at,
           CASE WHEN claimed_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(claimed_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS claimed_at,
           NULL::text AS started_at,
           NULL::text AS finished_at,
           cancel_at <> 0 AS cancel_requested, error, NULL::text AS result, payload
      FROM ax_task
    UNION ALL
    SELECT encode(id, 'hex') AS id,
           namespace, job,
           CASE state WHEN 0 THEN 'blocked' WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'succeeded' WHEN 4 THEN 'failed'
           WHEN 5 THEN 'canceled' WHEN 6 THEN 'skipped' WHEN 7 THEN 'upstream_failed' WHEN 8 THEN 'expired' END AS state,
           round, priority,
           CASE WHEN ready_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(ready_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS ready_at,
           CASE WHEN deadline BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(deadline / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS deadline,
           shard, task_key, tags, attempt, lost, fence,
           encode(node, 'hex') AS node,
           CASE WHEN created_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(created_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS created_at,
           CASE WHEN claimed_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(claimed_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS claimed_at,
           CASE WHEN started_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(started_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS started_at,
           CASE WHEN finished_at BETWEEN 0 AND 253402300799999 THEN to_char(to_timestamp(finished_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS finished_at,
           cancel_at <> 0 AS cancel_requested, error, result AS result, payload
      FROM ax_history;
