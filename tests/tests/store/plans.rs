//! Plans of the hot statements over a million live rows: each is served by the index that `text.rs` names. On PostgreSQL
//! with the plan that a prepared statement settles on as well as with one made for its values, on SQLite with and without
//! statistics.

use ax_engine::store::{POSTGRES, SQLITE, Sql};
use ax_tests::databases::{Kind, TestDatabase, fresh};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

/// Rows that are due later.
const MILLION: i64 = 1_000_000;

/// So many rows that are due later, 1,000 that are due now, 200 that run, and 200,000 that have ended.
async fn filled(later: i64) -> Option<(TestDatabase, PgConnection)> {
    let database = fresh(Kind::Postgres).await?;
    database.store().await;
    let mut conn = PgConnection::connect(database.url()).await.unwrap();
    let columns =
        "id, namespace, job, state, priority, ready_at, shard, payload, created_at, token, node";
    let id = "decode(lpad(to_hex(n), 32, '0'), 'hex')";
    let rows = |table: &str,
                (from, to): (i64, i64),
                state: i64,
                ready_at: &str,
                more: (&str, &str)| {
        format!(
            "INSERT INTO {table} ({columns}{}) SELECT {id}, 'default', 'job' || n % 7, {state}, n % 10, {ready_at}, n % 1024, \
             '{{}}', n, '\\x01', '\\x02'{} FROM generate_series({from}, {to}) AS s (n)",
            more.0, more.1
        )
    };
    let finished = (", finished_at", ", n");
    for sql in [
        "SET synchronous_commit = off".to_owned(),
        rows("ax_task", (1, later), 1, "4000000000000 + n", ("", "")),
        rows("ax_task", (2_000_001, 2_001_000), 1, "n", ("", "")),
        rows("ax_task", (2_001_001, 2_001_200), 2, "n", ("", "")),
        rows("ax_history", (3_000_001, 3_200_000), 3, "n", finished),
        "ANALYZE".to_owned(),
    ] {
        sqlx::query(AssertSqlSafe(sql))
            .execute(&mut conn)
            .await
            .unwrap();
    }
    Some((database, conn))
}

/// The plan of a statement, once as prepared for any values and once for these.
async fn plans(conn: &mut PgConnection, sql: Sql, rows: usize, values: &str) -> Vec<String> {
    let text = POSTGRES.statement(sql, rows).text;
    let mut plans = Vec::new();
    for mode in ["force_generic_plan", "force_custom_plan"] {
        for sql in [
            format!("SET plan_cache_mode = {mode}"),
            format!("PREPARE hot AS {text}"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&mut *conn)
                .await
                .unwrap();
        }
        let explain = format!("EXPLAIN EXECUTE hot ({values})");
        let lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
            .fetch_all(&mut *conn)
            .await
            .unwrap();
        sqlx::raw_sql("DEALLOCATE hot")
            .execute(&mut *conn)
            .await
            .unwrap();
        plans.push(lines.join("\n"));
    }
    plans
}

/// A list of ids as it travels: one array.
fn list(value: &str, times: usize) -> String {
    format!("ARRAY[{}]::bytea[]", vec![value; times].join(", "))
}

/// A claim of 256 out of a table of a few thousand: reading the whole table would look cheaper to a plan made for the list.
#[tokio::test]
async fn postgres_finds_a_long_list_in_a_short_table_by_its_key() {
    let Some((_database, mut conn)) = filled(0).await else {
        return;
    };
    let id = "'\\x00000000000000000000000000000001'";
    for (sql, values) in [
        (Sql::Claim, format!("{id}, {id}, {}", list(id, 256))),
        (Sql::ReadClaimed, format!("{id}, {}", list(id, 256))),
        (Sql::DeleteSettled, format!("{id}, {}", list(id, 256))),
    ] {
        let plan = &plans(&mut conn, sql, 256, &values).await[0];
        assert!(
            plan.contains("ax_task_pkey") && !plan.contains("Seq Scan on ax_task"),
            "{sql:?}\n{plan}"
        );
    }
}

#[tokio::test]
async fn postgres_serves_hot_statements_by_their_index() {
    let Some((_database, mut conn)) = filled(MILLION).await else {
        return;
    };
    let id = "'\\x00000000000000000000000000000001'";
    let owned = "decode(repeat('01', 1024), 'hex')";
    let lanes = ["0, 0, 100"; 10].join(", ");
    let by_id = [
        (Sql::Claim, 64, format!("{id}, {id}, {}", list(id, 64))),
        (Sql::ReadClaimed, 64, format!("{id}, {}", list(id, 64))),
        (Sql::DeleteSettled, 256, format!("{id}, {}", list(id, 256))),
        (Sql::Inspect, 4, list(id, 4)),
        (Sql::Watch, 64, list(id, 64)),
        (Sql::LockTask, 1, id.to_owned()),
        (Sql::Requeue, 1, format!("1, 1, 'x', {id}, {id}")),
        (Sql::DeleteTask, 1, format!("{id}, 1, 1")),
        (Sql::MarkCancel, 1, format!("'x', {id}")),
        (Sql::MoveShard, 64, format!("1, 2, {}", list(id, 64))),
        (Sql::RequeueLost, 1, format!("'x', {id}, {id}, {id}")),
    ];
    for (sql, rows, values) in by_id {
        for plan in plans(&mut conn, sql, rows, &values).await {
            assert!(
                plan.contains("ax_task_pkey") && !plan.contains("Seq Scan on ax_task"),
                "{sql:?}\n{plan}"
            );
        }
    }
    let by_time = [
        (Sql::Due, format!("1000000, {owned}, 1024, {lanes}")),
        (Sql::DueAll, format!("1000000, {lanes}")),
        (Sql::Overdue, "100".to_owned()),
        (Sql::Orphans, "100".to_owned()),
        (Sql::RunningOf, format!("{id}, 100")),
        (Sql::StrandedRows, "100".to_owned()),
    ];
    for (sql, values) in by_time {
        for plan in plans(&mut conn, sql, 1, &values).await {
            assert!(
                plan.contains("ax_task_due") && !plan.contains("Seq Scan on ax_task"),
                "{sql:?}\n{plan}"
            );
            let due = matches!(sql, Sql::Due | Sql::DueAll);
            let both = plan.lines().filter(|line| {
                line.contains("Index Cond")
                    && line.contains("ready_at <=")
                    && line.contains("ROW(ready_at, shard) >=")
            });
            assert!(
                !due || both.count() == 10,
                "ten ranges, bounded on both sides: {sql:?}\n{plan}"
            );
            assert!(
                !due || !plan.contains("Sort"),
                "the index gives the order: {sql:?}\n{plan}"
            );
        }
    }
    let history = [
        (Sql::ReadEnds, 64, list(id, 64), "ax_history_pkey"),
        (Sql::Outcomes, 64, list(id, 64), "ax_history_pkey"),
        (Sql::ReadHistory, 1, id.to_owned(), "ax_history_pkey"),
        (
            Sql::ListHistoryByKey,
            1,
            format!("'default', 'job1', 'k', {id}, 10"),
            "ax_history_key",
        ),
    ];
    for (sql, rows, values, index) in history {
        for plan in plans(&mut conn, sql, rows, &values).await {
            assert!(
                plan.contains(index) && !plan.contains("Seq Scan on ax_history"),
                "{sql:?}\n{plan}"
            );
        }
    }
}

/// A million rows that are due later, 1,000 that are due now, 200 that run, and 200,000 that have ended.
async fn filled_sqlite(conn: &mut SqliteConnection) {
    let columns =
        "id, namespace, job, state, priority, ready_at, shard, payload, created_at, token, node";
    let rows = |table: &str,
                (from, to): (i64, i64),
                state: i64,
                ready_at: &str,
                more: (&str, &str)| {
        format!(
            "WITH RECURSIVE s (n) AS (VALUES ({from}) UNION ALL SELECT n + 1 FROM s WHERE n < {to}) \
             INSERT INTO {table} ({columns}{}) SELECT CAST(printf('%016d', n) AS BLOB), 'default', 'job' || n % 7, {state}, \
             n % 10, {ready_at}, n % 1024, '{{}}', n, X'01', X'02'{} FROM s",
            more.0, more.1
        )
    };
    for sql in [
        "PRAGMA synchronous = OFF".to_owned(),
        rows("ax_task", (1, MILLION), 1, "4000000000000 + n", ("", "")),
        rows("ax_task", (2_000_001, 2_001_000), 1, "n", ("", "")),
        rows("ax_task", (2_001_001, 2_001_200), 2, "n", ("", "")),
        rows(
            "ax_history",
            (3_000_001, 3_200_000),
            3,
            "n",
            (", finished_at", ", n"),
        ),
    ] {
        let sql = AssertSqlSafe(sql);
        sqlx::query(sql).execute(&mut *conn).await.unwrap();
    }
}

#[tokio::test]
async fn sqlite_serves_hot_statements_by_their_index() {
    let database = fresh(Kind::Sqlite).await.unwrap();
    database.store().await;
    let mut conn = SqliteConnection::connect(database.url()).await.unwrap();
    filled_sqlite(&mut conn).await;
    let (by_id, by_time) = ("USING PRIMARY KEY", "USING INDEX ax_task_due");
    let hot = [
        (Sql::Claim, 64, by_id),
        (Sql::Claim, 256, by_id),
        (Sql::ReadClaimed, 64, by_id),
        (Sql::DeleteSettled, 256, by_id),
        (Sql::Inspect, 4, by_id),
        (Sql::Watch, 64, by_id),
        (Sql::LockTask, 1, by_id),
        (Sql::Requeue, 1, by_id),
        (Sql::DeleteTask, 1, by_id),
        (Sql::MarkCancel, 1, by_id),
        (Sql::MoveShard, 64, by_id),
        (Sql::RequeueLost, 1, by_id),
        (Sql::Due, 1, by_time),
        (Sql::DueAll, 1, by_time),
        (Sql::Overdue, 1, by_time),
        (Sql::Orphans, 1, by_time),
        (Sql::RunningOf, 1, by_time),
        (Sql::StrandedRows, 1, by_time),
        (Sql::ReadEnds, 64, by_id),
        (Sql::Outcomes, 64, by_id),
        (Sql::ReadHistory, 1, by_id),
        (Sql::ListHistoryByKey, 1, "USING INDEX ax_history_key"),
    ];
    for statistics in ["SELECT 1", "ANALYZE"] {
        sqlx::query(statistics).execute(&mut conn).await.unwrap();
        for (sql, rows, index) in hot {
            let text = format!("EXPLAIN QUERY PLAN {}", SQLITE.statement(sql, rows).text);
            let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(AssertSqlSafe(text))
                .fetch_all(&mut conn)
                .await
                .unwrap();
            let plan: Vec<String> = plan.into_iter().map(|line| line.3).collect();
            let plan = plan.join("\n");
            assert!(plan.contains(index), "{sql:?} after {statistics}\n{plan}");
            let scans = ["SCAN ax_task", "SCAN ax_history", "SCAN t\n", "SCAN t "];
            let scan = scans.iter().any(|scan| format!("{plan}\n").contains(scan));
            assert!(!scan, "{sql:?} after {statistics}\n{plan}");
            let due = matches!(sql, Sql::Due | Sql::DueAll);
            assert!(
                !due || plan
                    .matches("USING INDEX ax_task_due (priority=? AND")
                    .count()
                    == 10,
                "{plan}"
            );
            assert!(
                !due || !plan.contains("TEMP B-TREE"),
                "the index gives the order\n{plan}"
            );
        }
    }
}
