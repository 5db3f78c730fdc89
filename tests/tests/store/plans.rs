//! Plans of the hot statements on PostgreSQL: each is served by the index that `text.rs` names, with the plan that a
//! prepared statement settles on as well as with one made for its values.

use ax_engine::store::{POSTGRES, Sql};
use ax_tests::databases::{Kind, TestDatabase, fresh};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// 200,000 rows that are due later, 1,000 that are due now, 200 that run, and 200,000 that have ended.
async fn filled() -> Option<(TestDatabase, PgConnection)> {
    let database = fresh(Kind::Postgres).await?;
    database.store().await;
    let mut conn = PgConnection::connect(database.url()).await.unwrap();
    let columns =
        "id, namespace, job, state, priority, ready_at, shard, payload, created_at, token, node";
    let id = "decode(md5(n::text), 'hex')";
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
        rows("ax_task", (1, 200_000), 1, "4000000000000 + n", ("", "")),
        rows("ax_task", (200_001, 201_000), 1, "n", ("", "")),
        rows("ax_task", (201_001, 201_200), 2, "n", ("", "")),
        rows("ax_history", (300_000, 500_000), 3, "n", finished),
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
    let Some((_database, mut conn)) = filled().await else {
        return;
    };
    for sql in [
        "DELETE FROM ax_task WHERE ready_at > 3000000000000",
        "VACUUM FULL ANALYZE ax_task",
    ] {
        sqlx::query(sql).execute(&mut conn).await.unwrap();
    }
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
    let Some((_database, mut conn)) = filled().await else {
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
