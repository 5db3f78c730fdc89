//! Generated sequences of verbs against a reference model.
//!
//! A seed makes a sequence of [`Op`]s; each is put into words by the model (which task, which claim), asked of the store,
//! and its answer compared with what the model says. At the end every row, attempt, key and dead letter is compared. A
//! mismatch is shrunk and printed with its seed. `AX_STORE_SEQUENCES` sets how many sequences run, `AX_STORE_SEED` runs one.

#[path = "generated/model.rs"]
mod model;
#[path = "generated/ops.rs"]
mod ops;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::pin;

use ax_core::{Namespace, NodeId, TaskId, Token};
use ax_engine::db::Lane;
use ax_engine::store::{ClaimRequest, Claimed, LostLimit, Store, TaskFilter};
use ax_tests::databases::{Kind, TestDatabase};
use futures_util::StreamExt as _;

use crate::rows;
use model::{Model, claimed_text, seen};
use ops::{Op, Via};

ax_tests::store_cases! { generated_sequences_match_the_model }

/// Sequences in a usual run.
const SEQUENCES: u64 = 60;
/// Verbs in each.
const STEPS: usize = 60;
/// How often a failing sequence is run again to make it shorter.
const SHRINKS: usize = 400;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

async fn generated_sequences_match_the_model(database: &TestDatabase) {
    // Nothing here asks what a crash of the server leaves.
    let store = crate::sessions::store_with(database, &[("synchronous_commit", "off")]).await;
    let one = number("AX_STORE_SEED").map(|seed| seed..seed + 1);
    let seeds = one.unwrap_or(0..number("AX_STORE_SEQUENCES").unwrap_or(SEQUENCES));
    let mismatches = futures_util::stream::iter(seeds)
        .map(|seed| {
            let (store, ops) = (store.clone(), ops::sequence(seed, STEPS));
            async move { (seed, Play::run(database, &store, &ops).await.err()) }
        })
        .buffer_unordered(if database.kind() == Kind::Postgres {
            4
        } else {
            1
        })
        .filter_map(async |(seed, told)| Some((seed, told?)));
    if let Some((seed, told)) = pin!(mismatches).next().await {
        let ops = ops::sequence(seed, STEPS);
        let (short, told) = shrink(database, &store, ops, told).await;
        let history: String = short.iter().map(|op| format!("  {op:?}\n")).collect();
        panic!(
            "AX_STORE_SEED={seed}, {:?}, {} verbs left:\n{history}{told}",
            database.kind(),
            short.len()
        );
    }
}

/// Leaves out what the mismatch does not need: halves first, single verbs last.
async fn shrink(
    database: &TestDatabase,
    store: &Store,
    mut ops: Vec<Op>,
    mut told: String,
) -> (Vec<Op>, String) {
    let (mut size, mut runs) = (ops.len() / 2, 0);
    while size > 0 {
        let (mut at, mut shorter) = (0, false);
        while at < ops.len() && runs < SHRINKS {
            let mut fewer = ops.clone();
            fewer.drain(at..(at + size).min(ops.len()));
            runs += 1;
            match Play::run(database, store, &fewer).await {
                Err(text) => (ops, told, shorter) = (fewer, text, true),
                Ok(()) => at += size,
            }
        }
        if !shorter || size > 1 {
            size /= 2;
        }
    }
    (ops, told)
}

/// One sequence at work, in a namespace of its own.
struct Play<'a> {
    store: &'a Store,
    model: Model,
    /// Every claim that was ever given out.
    claims: Vec<Claimed>,
    /// Every claim that was ever asked for.
    requests: Vec<(NodeId, Token, Vec<TaskId>)>,
}

/// What a verb answered, in words that can be compared.
fn same(
    what: &str,
    got: &(impl Debug + ?Sized),
    expected: &(impl Debug + ?Sized),
) -> Result<(), String> {
    let (got, expected) = (format!("{got:?}"), format!("{expected:?}"));
    if got == expected {
        return Ok(());
    }
    Err(format!(
        "{what}:\n  answered {got}\n  expected {expected}\n"
    ))
}

fn failed(what: &str) -> impl FnOnce(ax_core::Error) -> String {
    let what = what.to_owned();
    move |error| format!("{what} failed: {error:?}\n")
}

impl<'a> Play<'a> {
    async fn run(database: &TestDatabase, store: &'a Store, ops: &[Op]) -> Result<(), String> {
        let base = store.now().await.map_err(failed("now"))?;
        let name = format!("s{}", rows::token());
        let namespace = Namespace::new(&name).map_err(failed("a namespace"))?;
        let nodes = [
            rows::node_with(store, HOUR).await,
            rows::node_with(store, HOUR).await,
        ];
        let model = Model::new(base, namespace, nodes);
        let mut play = Play {
            store,
            model,
            claims: Vec::new(),
            requests: Vec::new(),
        };
        for (at, op) in ops.iter().enumerate() {
            let step = play.step(op).await;
            step.map_err(|text| format!("verb {at}, {op:?}\n{text}"))?;
        }
        play.compare_rows().await?;
        play.compare_tables(database).await
    }

    async fn step(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Submit(specs, born) => self.submit(specs, *born).await,
            Op::Keyed(specs, via) => self.keyed(specs, *via).await,
            Op::Claim(node, picks) => {
                let ids = self.model.picked(picks);
                let request = (self.model.nodes[*node], rows::token(), ids);
                self.requests.push(request.clone());
                self.claim(request).await
            }
            Op::ClaimAgain(pick) => match recent(&self.requests, *pick) {
                None => Ok(()),
                Some(mut request) => {
                    // A token is fresh per claim: what went back since then is claimed with another one.
                    request
                        .2
                        .retain(|id| !self.model.would_reuse(*id, request.1));
                    self.claim(request).await
                }
            },
            Op::Claimed(pick) => match recent(&self.requests, *pick) {
                None => Ok(()),
                Some((node, token, ids)) => {
                    let request = ClaimRequest {
                        node,
                        token,
                        ids: &ids,
                    };
                    let held = self
                        .store
                        .claimed(request)
                        .await
                        .map_err(failed("claimed"))?;
                    same(
                        "claimed",
                        &claims_text(&held),
                        &self.model.held(&ids, token),
                    )
                }
            },
            Op::Settle(picks) => self.settle(picks).await,
            Op::Watch(picks) => self.watch(picks).await,
            Op::Lose(picks) => self.lose(picks).await,
            Op::Bury(node) => self.bury(*node).await,
            other => self.operate(other).await,
        }
    }

    async fn submit(&mut self, specs: &[ops::Spec], born: Option<usize>) -> Result<(), String> {
        let mut rows = self.model.rows(specs);
        // What was sent with its key is sent again with its key.
        rows.retain(|row| row.key.is_none() || !self.model.was_sent(row.id));
        let born = born.map(|node| ax_engine::store::Born {
            node: self.model.nodes[node],
            token: rows::token(),
        });
        for row in &mut rows {
            row.key = None;
            if !self.model.was_sent(row.id) {
                row.born = born;
                row.ready_at = if born.is_some() {
                    self.model.base
                } else {
                    row.ready_at
                };
            }
        }
        // What may be there already is completed, which looks at ended rounds too.
        let placed = match rows.iter().any(|row| self.model.was_sent(row.id)) {
            true => self.store.submit_again(&rows).await,
            false => self.store.submit(&rows).await,
        };
        let placed: Result<Vec<_>, _> = placed.into_iter().collect();
        let placed = placed.map_err(failed("submit"))?;
        same("submit", &placed, &self.model.submit(&rows))?;
        self.claims.extend(self.model.born_now(&rows));
        Ok(())
    }

    async fn keyed(&mut self, specs: &[ops::Spec], via: Via) -> Result<(), String> {
        let mut rows = self.model.rows(specs);
        if via == Via::Verb {
            let placed: Result<Vec<_>, _> =
                self.store.submit_keyed(&rows).await.into_iter().collect();
            let placed = placed.map_err(failed("submit_keyed"))?;
            return same("submit_keyed", &placed, &self.model.submit_keyed(&rows));
        }
        // A caller does not send its own rows twice.
        rows.retain(|row| !self.model.was_sent(row.id));
        let lost = |error: ax_engine::db::DbError| format!("the caller's transaction: {error}\n");
        let mut conn = self.store.db().acquire(Lane::Write).await.map_err(lost)?;
        conn.begin().await.map_err(lost)?;
        let placed = self
            .store
            .submit_on(&mut *conn, &rows)
            .await
            .map_err(failed("submit_on"))?;
        let mut after = self.model.clone();
        same("submit_on", &placed, &after.submit_keyed(&rows))?;
        if via == Via::Committed {
            conn.commit().await.map_err(lost)?;
            self.model = after;
            return Ok(());
        }
        conn.rollback().await.map_err(lost)
    }

    async fn claim(
        &mut self,
        (node, token, ids): (NodeId, Token, Vec<TaskId>),
    ) -> Result<(), String> {
        let request = ClaimRequest {
            node,
            token,
            ids: &ids,
        };
        let claimed = self.store.claim(request).await.map_err(failed("claim"))?;
        let expected = self.model.claim(node, token, &ids);
        same("claim", &claims_text(&claimed), &expected)?;
        self.claims.extend(claimed);
        Ok(())
    }

    /// The claims picked, one of each task.
    fn picked(&self, picks: &[u8]) -> Vec<Claimed> {
        let mut known = BTreeSet::new();
        let picked = picks.iter().filter_map(|pick| recent(&self.claims, *pick));
        picked.filter(|claimed| known.insert(claimed.id)).collect()
    }

    async fn settle(&mut self, picks: &[(u8, ops::Ends)]) -> Result<(), String> {
        let mut batch = Vec::new();
        for (pick, ends) in picks {
            let Some(claimed) = recent(&self.claims, *pick) else {
                continue;
            };
            if batch
                .iter()
                .all(|other: &ax_engine::store::Settlement| other.claimed.id != claimed.id)
            {
                batch.push(rows::settlement(&claimed, self.model.end(*ends)));
            }
        }
        let settled = self.store.settle(&batch).await.map_err(failed("settle"))?;
        let expected: Vec<_> = batch.iter().map(|one| self.model.settle(one)).collect();
        same("settle", &settled, &expected)
    }

    async fn watch(&mut self, picks: &[u8]) -> Result<(), String> {
        let picked = self.picked(picks);
        let running: Vec<_> = picked
            .iter()
            .map(|claimed| (claimed.id, claimed.token))
            .collect();
        let news = self.store.watch(&running).await.map_err(failed("watch"))?;
        same("watch", &news, &self.model.watch(&running))
    }

    async fn lose(&mut self, picks: &[u8]) -> Result<(), String> {
        let orphans = self
            .store
            .orphans(10_000)
            .await
            .map_err(failed("orphans"))?;
        let mine = orphans
            .iter()
            .filter(|claimed| claimed.namespace == self.model.namespace);
        let mine: BTreeSet<TaskId> = mine.map(|claimed| claimed.id).collect();
        same("orphans", &mine, &self.model.orphans())?;
        let picked = self.picked(picks);
        let lost = self
            .store
            .lose(&picked, LostLimit(3))
            .await
            .map_err(failed("lose"))?;
        let expected: Vec<_> = picked
            .iter()
            .map(|claimed| self.model.lose(claimed, 3))
            .collect();
        same("lose", &lost, &expected)
    }

    /// A node dies, and another one comes.
    async fn bury(&mut self, node: usize) -> Result<(), String> {
        let buried = self
            .store
            .bury(self.model.nodes[node], 0)
            .await
            .map_err(failed("bury"))?;
        self.model
            .bury(node, rows::node_with(self.store, HOUR).await);
        same("bury", &buried, &true)
    }

    async fn operate(&mut self, op: &Op) -> Result<(), String> {
        let (store, model) = (self.store, &mut self.model);
        match op {
            Op::Cancel(pick, reason) => {
                let (id, reason) = (model.pick(*pick), reason.then_some("enough"));
                let got = store.cancel(id, reason).await.map_err(failed("cancel"))?;
                same("cancel", &got, &model.cancel(id, reason))
            }
            Op::Reschedule(pick, time) => {
                let (id, at) = (model.pick(*pick), model.time(*time));
                let got = store
                    .reschedule(id, at)
                    .await
                    .map_err(failed("reschedule"))?;
                same("reschedule", &got, &model.reschedule(id, at))
            }
            Op::SetPriority(pick, level) => {
                let (id, priority) = (model.pick(*pick), ops::priority(*level));
                let got = store
                    .set_priority(id, priority)
                    .await
                    .map_err(failed("set_priority"))?;
                same("set_priority", &got, &model.set_priority(id, priority))
            }
            Op::Rerun(pick, time) => {
                let (id, at) = (model.pick(*pick), model.time(*time));
                let got = store.rerun(id, at, 3).await.map_err(|error| error.kind());
                same("rerun", &got, &model.rerun(id, at, 3))
            }
            Op::Expire(picks) => {
                let ids = model.picked(picks);
                let got = store.expire(&ids).await.map_err(failed("expire"))?;
                same("expire", &got, &model.expire(&ids))
            }
            Op::MoveShard(picks, from, to) => {
                let ids = model.picked(picks);
                let got = store
                    .move_shard(&ids, *from, *to)
                    .await
                    .map_err(failed("move_shard"))?;
                same("move_shard", &got, &model.move_shard(&ids, *from, *to))
            }
            _ => Ok(()),
        }
    }

    async fn compare_rows(&self) -> Result<(), String> {
        let all = TaskFilter {
            limit: 10_000,
            ..TaskFilter::new(self.model.namespace.clone())
        };
        let tasks = self.store.list(&all).await.map_err(failed("list"))?;
        let mut got: Vec<String> = tasks
            .iter()
            .map(|task| seen(task, self.model.base))
            .collect();
        got.sort();
        lines("the rows", &got, &self.model.all_seen())?;
        for (id, task) in &self.model.tasks {
            let found = self.store.find(*id).await.map_err(failed("find"))?;
            let found = found.map(|task| seen(&task, self.model.base));
            same("find", &found, &Some(task.latest_seen()))?;
            if task.never_ran() {
                continue;
            }
            let attempts = self
                .store
                .executions(*id)
                .await
                .map_err(failed("executions"))?;
            let attempts: Vec<String> = attempts.iter().map(model::attempt_text).collect();
            lines("the attempts", &attempts, &task.attempts)?;
        }
        let ids: Vec<TaskId> = self.model.tasks.keys().copied().collect();
        let outcomes = self
            .store
            .outcomes(&ids)
            .await
            .map_err(failed("outcomes"))?;
        let got: Vec<String> = outcomes.iter().map(model::outcome_text).collect();
        lines("the outcomes", &got, &self.model.outcomes())
    }

    async fn compare_tables(&self, database: &TestDatabase) -> Result<(), String> {
        if database.kind() == Kind::Simulated {
            return Ok(());
        }
        let name = self.model.namespace.as_str();
        let keys = format!("SELECT COUNT(*) FROM ax_key WHERE namespace = '{name}'");
        same(
            "keys",
            &database.number(&keys).await,
            &self.model.keys.len(),
        )?;
        let live = format!("{keys} AND until = {}", i64::MAX);
        same(
            "keys of living tasks",
            &database.number(&live).await,
            &self.model.held_alive(),
        )?;
        let dead = format!(
            "SELECT COUNT(*) FROM ax_dead WHERE namespace = '{name}' AND resolved_at IS NULL"
        );
        same(
            "dead letters",
            &database.number(&dead).await,
            &self.model.unresolved(),
        )
    }
}

const HOUR: std::time::Duration = std::time::Duration::from_secs(3_600);

/// One of the last eight.
fn recent<T: Clone>(all: &[T], pick: u8) -> Option<T> {
    let few = all.len().min(8);
    let back = usize::from(pick).checked_rem(few)?;
    all.get(all.len() - 1 - back).cloned()
}

fn claims_text(claims: &[Claimed]) -> BTreeSet<String> {
    claims.iter().map(claimed_text).collect()
}

fn lines(what: &str, got: &[String], expected: &[String]) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    let but = |these: &[String], those: &[String]| -> String {
        let only = these.iter().filter(|line| !those.contains(line));
        only.map(|line| format!("    {}\n", line.replace("xxxxxxxx", "")))
            .collect()
    };
    Err(format!(
        "{what} differ:\n  there\n{}  expected\n{}",
        but(got, expected),
        but(expected, got)
    ))
}

/// What a failure prints can be run again.
#[test]
fn a_seed_makes_one_sequence() {
    assert_eq!(
        format!("{:?}", ops::sequence(7, STEPS)),
        format!("{:?}", ops::sequence(7, STEPS))
    );
    assert_ne!(
        format!("{:?}", ops::sequence(7, STEPS)),
        format!("{:?}", ops::sequence(8, STEPS))
    );
}
