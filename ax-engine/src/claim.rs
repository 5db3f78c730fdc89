//! From due entries to claimed tasks.
//!
//! Enters: a batch of due entries with reserved credit. Leaves: claimed rows, to the executor; and to the trigger what
//! was not claimed but is still to come. Losing a race is normal here and is only counted.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use ax_core::{Error, ErrorKind, State, TaskId, Timestamp};

use crate::agenda::INBOX;
use crate::job::JobKind;
use crate::node::{Identity, count};
use crate::store::{ClaimRequest, Claimed, Inspected, NodeState, Peer};
use crate::trigger::{AGAIN_AFTER, Note, Trigger};
use crate::wheel::Due;

/// How long entries wait after a claim that the database did not answer.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How long a row counts as just become due.
const JUST_DUE: Duration = Duration::from_millis(50);

/// Claims a batch and starts what was claimed.
pub(crate) async fn run(trigger: &Trigger, kind: JobKind, batch: Vec<Due>) {
    let node = &trigger.node;
    let mut ids: Vec<TaskId> = batch.iter().map(|due| due.id).collect();
    ids.sort_unstable();
    let token = node.world.random.token();
    let request = ClaimRequest {
        node: node.identity().node,
        token,
        ids: &ids,
    };
    trigger.running.claim_begins(token);
    let again = match claimed(trigger, request).await {
        Ok(claimed) => {
            count(&node.counters.claimed, claimed.len());
            let got: HashSet<TaskId> = claimed.iter().map(|row| row.id).collect();
            let missed: Vec<Due> = batch
                .iter()
                .filter(|due| !got.contains(&due.id))
                .copied()
                .collect();
            trigger
                .executor
                .accept(kind, batch.len(), in_order(&batch, claimed));
            trigger.running.claim_ends(token);
            missed_entries(trigger, missed).await
        }
        Err(error) => {
            tracing::warn!(%error, n = batch.len(), "a claim is tried again soon");
            trigger.running.claim_ends(token);
            trigger.slots.claimed(kind, batch.len(), 0);
            node.world.clock.sleep(AFTER_FAILURE).await;
            batch
        }
    };
    trigger.handle.tell(Note::Claimed { kind, ids, again });
}

/// Claims; when the answer is lost, asks by the token what the claim holds, for as long as this node may claim at all.
/// After that the rows belong to nobody here, and a reaper gives them back.
async fn claimed(trigger: &Trigger, request: ClaimRequest<'_>) -> Result<Vec<Claimed>, Error> {
    let node = &trigger.node;
    let mut answer = node.store.claim(request).await;
    while answer
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::Unavailable)
        && node.may_claim()
    {
        node.world.clock.sleep(AFTER_FAILURE).await;
        answer = node.store.claimed(request).await;
    }
    answer
}

/// The claimed rows in the order of their entries: the order of the lanes.
fn in_order(batch: &[Due], mut claimed: Vec<Claimed>) -> Vec<Claimed> {
    let place = |id: TaskId| batch.iter().position(|due| due.id == id);
    claimed.sort_by_cached_key(|row| place(row.id));
    claimed
}

/// Looks why rows were not claimed. Those that are due later come back; those past their deadline expire; the rest has
/// been taken, canceled or moved by another.
async fn missed_entries(trigger: &Trigger, missed: Vec<Due>) -> Vec<Due> {
    if missed.is_empty() {
        return missed;
    }
    let node = &trigger.node;
    let ids: Vec<TaskId> = missed.iter().map(|due| due.id).collect();
    let rows = match node.store.inspect(&ids).await {
        Ok(rows) => rows,
        Err(error) => {
            tracing::debug!(%error, "unclaimed entries are looked at again by a scan");
            return Vec::new();
        }
    };
    let now = node.now();
    let (again, expired) = sort_out(&missed, &rows, now);
    count(&node.counters.conflicts, missed.len() - again.len());
    if !expired.is_empty() {
        crate::expire::expire(node, &expired).await;
    }
    again
}

fn sort_out(missed: &[Due], rows: &[Inspected], now: Timestamp) -> (Vec<Due>, Vec<TaskId>) {
    let mut again = Vec::new();
    let mut expired = Vec::new();
    for row in rows.iter().filter(|row| row.state == State::Pending) {
        let Some(entry) = missed.iter().find(|due| due.id == row.due.id) else {
            continue;
        };
        if row.deadline <= now {
            expired.push(row.due.id);
        } else {
            let ready_at = row
                .due
                .ready_at
                .max(now.plus(patience(row.due.ready_at, now)));
            again.push(Due { ready_at, ..*entry });
        }
    }
    (again, expired)
}

/// A row that just became due was met a moment too early; one that has been due for long was refused for another reason
/// (this node is dead by the database, say), which a quick try would not change.
fn patience(ready_at: Timestamp, now: Timestamp) -> Duration {
    if now.since(ready_at) < JUST_DUE {
        AGAIN_AFTER
    } else {
        AFTER_FAILURE
    }
}

/// Moves due rows of jobs that this node does not run to the inbox of a node that does. Rows that nobody runs stay
/// where they are: they wait, visibly, for a node that knows their job.
pub(crate) async fn hand_on(trigger: &Trigger, strangers: Vec<Due>) {
    let node = &trigger.node;
    let mine = node.identity();
    let mut left = 0_usize;
    for ((job, shard), ids) in by_place(strangers, mine.inbox) {
        let inbox = trigger
            .handle
            .name(job)
            .and_then(|(namespace, job)| inbox_for(trigger, mine, &namespace, &job));
        let Some(inbox) = inbox else {
            left += ids.len();
            continue;
        };
        match node.store.move_shard(&ids, shard, inbox).await {
            Ok(moved) => count(
                &node.counters.handed_on,
                usize::try_from(moved).unwrap_or(0),
            ),
            Err(error) => {
                tracing::debug!(%error, "handing tasks to another node is tried again by a scan")
            }
        }
    }
    if left > 0 {
        tracing::debug!(
            n = left,
            "due tasks wait for a node that has registered their job"
        );
    }
}

/// The entries by job and by the shard they are moved from.
fn by_place(entries: Vec<Due>, inbox: i64) -> BTreeMap<(u32, i64), Vec<TaskId>> {
    let mut places: BTreeMap<(u32, i64), Vec<TaskId>> = BTreeMap::new();
    for due in entries {
        let shard = if due.shard == INBOX {
            inbox
        } else {
            i64::from(due.shard)
        };
        places.entry((due.job, shard)).or_default().push(due.id);
    }
    places
}

/// A living node that runs the job, chosen at random so that several share the work.
fn inbox_for(trigger: &Trigger, mine: Identity, namespace: &str, job: &str) -> Option<i64> {
    let peers = trigger.node.peers();
    let able: Vec<i64> = peers
        .iter()
        .filter(|peer| peer.node != mine.node && runs(peer, namespace, job))
        .map(|peer| peer.inbox)
        .collect();
    able.get(trigger.node.world.random.below(able.len()))
        .copied()
}

fn runs(peer: &Peer, namespace: &str, job: &str) -> bool {
    peer.state == NodeState::Alive
        && peer.execute_on
        && *peer.namespace == *namespace
        && peer.jobs.iter().any(|j| j == job)
}
