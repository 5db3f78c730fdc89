//! The yardstick: the store's statements in plain loops, without an engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ax_core::{JobName, Namespace, NodeId, OnLost, Priority, TaskId, Timestamp, Token};
use ax_engine::clock::host_now;
use ax_engine::db::{OpenOptions, Source, open};
use ax_engine::random::Random;
use ax_engine::store::{
    ClaimRequest, Claimed, DueScan, End, LaneScan, NodeRow, Owned, Settled, Settlement, Store,
    TaskRow,
};

/// Rows of one statement.
const BATCH: usize = 256;
/// Rows of one page of discovery.
const PAGE: u32 = 2_048;
/// An instant past the end of every run.
const FAR: Duration = Duration::from_secs(86_400);

/// A store and what the loops need.
pub(crate) struct Plain {
    store: Store,
    random: Random,
    node: NodeId,
}

impl Plain {
    /// Opens the database with 32 connections for writers and joins as a node, because a claim wants one.
    pub(crate) async fn open(url: &str) -> anyhow::Result<Plain> {
        let mut options = OpenOptions::new(host_now);
        options.write = 32;
        let store = Store::new(
            open(Source::from(url), options)
                .await
                .map_err(ax_core::Error::from)?,
        );
        store.migrate().await?;
        let random = Random::from_system();
        let node = random.node_id(host_now());
        store.join(&row_of(node)).await?;
        Ok(Plain {
            store,
            random,
            node,
        })
    }

    fn row(&self, ready_at: Timestamp) -> TaskRow {
        TaskRow {
            id: self.random.task_id(host_now()),
            namespace: Namespace::default(),
            job: job(),
            payload: Arc::from(r#"{"n":1}"#),
            priority: Priority::default(),
            ready_at,
            shard: self.random.below(1_024) as i64,
            deadline: Timestamp::MAX,
            key: None,
            tags: Vec::new(),
            route_key: None,
            max_retries: None,
            timeout: None,
            on_lost: OnLost::Retry,
            created_at: host_now(),
            tick: None,
            trace: None,
            born: None,
        }
    }

    fn rows(&self, n: usize, ready_at: Timestamp) -> Vec<TaskRow> {
        (0..n).map(|_| self.row(ready_at)).collect()
    }

    async fn insert(&self, rows: &[TaskRow]) -> anyhow::Result<()> {
        for placed in self.store.submit(rows).await {
            placed?;
        }
        Ok(())
    }

    /// One row, one statement, one connection; also the time of each commit in microseconds.
    pub(crate) async fn submit_one_by_one(&self, n: usize) -> anyhow::Result<(Duration, Vec<i64>)> {
        let mut commits = Vec::with_capacity(n);
        let begun = Instant::now();
        for _ in 0..n {
            let one = Instant::now();
            self.insert(&[self.row(host_now().plus(FAR))]).await?;
            commits.push(i64::try_from(one.elapsed().as_micros())?);
        }
        Ok((begun.elapsed(), commits))
    }

    /// One row, one statement, by many callers at once, each with a connection where the database has several writers.
    pub(crate) async fn submit_by_callers(
        &self,
        callers: usize,
        n: usize,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let loops = (0..callers).map(|_| async {
            for _ in 0..n / callers {
                self.insert(&[self.row(host_now().plus(FAR))]).await?;
            }
            anyhow::Ok(())
        });
        futures_util::future::try_join_all(loops).await?;
        Ok(begun.elapsed())
    }

    /// Full batches, one after the other.
    pub(crate) async fn submit_bulk(&self, n: usize) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        self.insert_all(n, host_now().plus(FAR)).await?;
        Ok(begun.elapsed())
    }

    /// Puts waiting tasks into the table; not measured.
    pub(crate) async fn fill(&self, n: usize) -> anyhow::Result<()> {
        self.insert_all(n, host_now()).await
    }

    async fn insert_all(&self, n: usize, ready_at: Timestamp) -> anyhow::Result<()> {
        let mut left = n;
        while left > 0 {
            let rows = self.rows(left.min(BATCH), ready_at);
            left -= rows.len();
            self.insert(&rows).await?;
        }
        Ok(())
    }

    /// Finds, claims and settles until the table is empty.
    pub(crate) async fn drain(&self, n: usize) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let mut done = 0;
        while done < n {
            self.beat().await?;
            let ids: Vec<TaskId> = self
                .store
                .due(&page())
                .await?
                .into_iter()
                .map(|row| row.id)
                .collect();
            for batch in ids.chunks(BATCH) {
                done += self.claim_and_settle(batch).await?;
            }
        }
        Ok(begun.elapsed())
    }

    /// Inserts, claims and settles batch after batch.
    pub(crate) async fn cycle(&self, n: usize) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let mut done = 0;
        while done < n {
            if (done / BATCH).is_multiple_of(100) {
                self.beat().await?;
            }
            let rows = self.rows(BATCH.min(n - done), host_now());
            self.insert(&rows).await?;
            let mut ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
            while !ids.is_empty() {
                // A row is due by the database's clock a moment later than by this one at worst.
                done += self.claim_and_settle(&ids).await?;
                ids = self.still_there(&ids).await?;
            }
        }
        Ok(begun.elapsed())
    }

    async fn still_there(&self, ids: &[TaskId]) -> anyhow::Result<Vec<TaskId>> {
        let live = self.store.inspect(&ids[ids.len() - 1..]).await?;
        Ok(if live.is_empty() {
            Vec::new()
        } else {
            self.store
                .inspect(ids)
                .await?
                .into_iter()
                .map(|row| row.due.id)
                .collect()
        })
    }

    async fn beat(&self) -> anyhow::Result<()> {
        let ttl = Duration::from_secs(60);
        self.store
            .beat(&ax_engine::store::Beat {
                node: self.node,
                running: 0,
                queued: 0,
                slots: 0,
                ttl,
            })
            .await?;
        Ok(())
    }

    async fn claim_and_settle(&self, ids: &[TaskId]) -> anyhow::Result<usize> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        let token: Token = self.random.token();
        let claimed = self
            .store
            .claim(ClaimRequest {
                node: self.node,
                token,
                ids: &ids,
            })
            .await?;
        let settled = self.store.settle(&settlements(claimed)).await?;
        Ok(settled
            .iter()
            .filter(|settled| matches!(settled, Settled::Recorded(_)))
            .count())
    }
}

fn settlements(claimed: Vec<Claimed>) -> Vec<Settlement> {
    let (now, result): (Timestamp, Arc<str>) = (host_now(), Arc::from("null"));
    let settle = |row| Settlement {
        claimed: Arc::new(row),
        end: End::Succeeded {
            result: result.clone(),
        },
        started_at: Some(now),
        finished_at: now,
    };
    claimed.into_iter().map(settle).collect()
}

fn page() -> DueScan {
    let lane = LaneScan {
        from_at: Timestamp::MIN_VALID,
        from_shard: 0,
        cap: PAGE,
    };
    DueScan {
        to: host_now(),
        lanes: [lane; 10],
        owned: Owned::All,
    }
}

fn job() -> JobName {
    JobName::new("bench.noop").unwrap_or_else(|e| unreachable!("the name is valid: {e}"))
}

fn row_of(node: NodeId) -> NodeRow {
    NodeRow {
        id: node,
        namespace: Namespace::default(),
        ttl: Duration::from_secs(600),
        host: "bench".into(),
        pid: i64::from(std::process::id()),
        app: String::new(),
        version: String::new(),
        zone: String::new(),
        weight: 1,
        labels: "{}".into(),
        jobs: Vec::new(),
        trigger_on: false,
        execute_on: true,
        slots: 0,
    }
}
