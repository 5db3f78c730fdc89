//! The tables of the simulated database, with transactions and row locks.
//!
//! What a transaction wrote stays in its overlay until it commits, so a statement sees committed rows and its own. A row
//! that is written is locked until the transaction ends; who else wants it waits in line. Nothing here knows statements.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use ax_engine::db::Value;

use super::columns::{self, Record, id, id_opt, int, text};
use super::executor::Process;

/// A table, or a unique index that is kept like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    Task,
    Payload,
    Tag,
    Key,
    History,
    Dead,
    Execution,
    Node,
    /// The unique index of inboxes.
    Inbox,
    Shard,
    Schedule,
    Tick,
    Migration,
    MigrationLock,
}

const TABLES: usize = Table::MigrationLock as usize + 1;

/// A primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pk {
    Id([u8; 16]),
    IdInt([u8; 16], i64),
    TextId(Arc<str>, [u8; 16]),
    Int(i64),
    Texts(Arc<str>, Arc<str>, Arc<str>),
    TextsInt(Arc<str>, Arc<str>, i64),
}

impl Table {
    /// The primary key of a row of this table.
    pub(crate) fn pk(self, row: &[Value]) -> Pk {
        match self {
            Table::Task | Table::Payload | Table::Node => Pk::Id(id(row, 0)),
            Table::Tag => Pk::TextId(text(row, 0), id(row, 1)),
            Table::Key => Pk::Texts(text(row, 0), text(row, 1), text(row, 2)),
            Table::History => Pk::IdInt(id(row, 0), int(row, columns::task::ROUND)),
            Table::Dead | Table::Execution => Pk::IdInt(id(row, 0), int(row, 1)),
            Table::Inbox | Table::Shard | Table::Migration | Table::MigrationLock => {
                Pk::Int(int(row, 0))
            }
            Table::Schedule => Pk::TextsInt(text(row, 0), text(row, 1), 0),
            Table::Tick => Pk::TextsInt(text(row, 0), text(row, 1), int(row, 2)),
        }
    }
}

/// Number of a transaction.
pub(crate) type Tx = u64;

/// What an insert does about a row that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfThere {
    Fail,
    Skip,
}

/// One change of a committed transaction.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) table: Table,
    pub(crate) old: Option<Record>,
    pub(crate) new: Option<Record>,
}

type Place = (Table, Pk);

#[derive(Default)]
struct Open {
    process: Process,
    overlay: BTreeMap<Place, Option<Record>>,
    held: Vec<Place>,
    waiting: Option<Place>,
    waker: Option<Waker>,
}

struct Lock {
    owner: Tx,
    line: VecDeque<Tx>,
}

/// What a request for a lock met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    /// It is held now.
    Yes,
    /// Another transaction has it; this one stands in line.
    Waits,
    /// Waiting would never end.
    Deadlock,
    /// The transaction was ended from outside.
    Gone,
}

/// See the module.
pub(crate) struct Tables {
    rows: [BTreeMap<Pk, Record>; TABLES],
    /// The committed shards of each node.
    shards: BTreeMap<[u8; 16], BTreeSet<i64>>,
    open: BTreeMap<Tx, Open>,
    locks: BTreeMap<Place, Lock>,
    serial: Tx,
}

impl Tables {
    /// Tables without rows.
    pub(crate) fn new() -> Tables {
        Tables {
            rows: Default::default(),
            shards: BTreeMap::new(),
            open: BTreeMap::new(),
            locks: BTreeMap::new(),
            serial: 0,
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self, process: Process) -> Tx {
        self.serial += 1;
        self.open.insert(
            self.serial,
            Open {
                process,
                ..Open::default()
            },
        );
        self.serial
    }

    /// The committed rows of a table.
    pub(crate) fn committed(&self, table: Table) -> &BTreeMap<Pk, Record> {
        &self.rows[table as usize]
    }

    /// Puts a row in beside all transactions; for what the schema brings.
    pub(crate) fn plant(&mut self, table: Table, row: Record) {
        self.rows[table as usize].insert(table.pk(&row), row);
    }

    /// A row as the transaction sees it.
    pub(crate) fn get(&self, tx: Tx, table: Table, pk: &Pk) -> Option<&Record> {
        let open = self.open.get(&tx).filter(|open| !open.overlay.is_empty());
        match open.and_then(|open| open.overlay.get(&(table, pk.clone()))) {
            Some(own) => own.as_ref(),
            None => self.rows[table as usize].get(pk),
        }
    }

    /// The rows of a table as the transaction sees them, in the order of their keys unless it wrote some itself.
    pub(crate) fn scan(&self, tx: Tx, table: Table) -> Vec<&Record> {
        let rows = &self.rows[table as usize];
        let overlay = self
            .open
            .get(&tx)
            .map(|open| &open.overlay)
            .filter(|own| own.keys().any(|at| at.0 == table));
        let Some(overlay) = overlay else {
            return rows.values().collect();
        };
        let theirs = rows
            .iter()
            .filter(|(pk, _)| !overlay.contains_key(&(table, (*pk).clone())));
        let own = overlay
            .iter()
            .filter(|(at, _)| at.0 == table)
            .filter_map(|(_, row)| row.as_ref());
        theirs.map(|(_, row)| row).chain(own).collect()
    }

    /// The rows of one task as the transaction sees them, in a table whose key is a task and a number.
    pub(crate) fn of_task(&self, tx: Tx, table: Table, task: [u8; 16]) -> Vec<&Record> {
        let span = Pk::IdInt(task, i64::MIN)..=Pk::IdInt(task, i64::MAX);
        let own = self
            .open
            .get(&tx)
            .is_some_and(|open| open.overlay.keys().any(|at| at.0 == table));
        if own {
            let all = self.scan(tx, table).into_iter();
            return all.filter(|row| span.contains(&table.pk(row))).collect();
        }
        self.rows[table as usize]
            .range(span)
            .map(|(_, row)| row)
            .collect()
    }

    /// Asks for the lock of a row, which need not exist.
    pub(crate) fn lock(&mut self, tx: Tx, table: Table, pk: &Pk, waker: &Waker) -> Locked {
        let place = (table, pk.clone());
        let Some(open) = self.open.get_mut(&tx) else {
            return Locked::Gone;
        };
        let Some(lock) = self.locks.get_mut(&place) else {
            open.held.push(place.clone());
            self.locks.insert(
                place,
                Lock {
                    owner: tx,
                    line: VecDeque::new(),
                },
            );
            return Locked::Yes;
        };
        if lock.owner == tx {
            return Locked::Yes;
        }
        open.waker = Some(waker.clone());
        if open.waiting.is_some() {
            return Locked::Waits;
        }
        if self.would_deadlock(tx, &place) {
            return Locked::Deadlock;
        }
        if let Some(lock) = self.locks.get_mut(&place) {
            lock.line.push_back(tx);
        }
        if let Some(open) = self.open.get_mut(&tx) {
            open.waiting = Some(place);
        }
        Locked::Waits
    }

    fn would_deadlock(&self, tx: Tx, place: &Place) -> bool {
        let mut at = Some(place);
        while let Some(lock) = at.and_then(|place| self.locks.get(place)) {
            if lock.owner == tx {
                return true;
            }
            at = self
                .open
                .get(&lock.owner)
                .and_then(|open| open.waiting.as_ref());
        }
        false
    }

    /// Writes a row that the transaction has locked; `None` deletes it.
    pub(crate) fn write(&mut self, tx: Tx, table: Table, pk: Pk, row: Option<Record>) {
        if let Some(open) = self.open.get_mut(&tx) {
            open.overlay.insert((table, pk), row);
        }
    }

    /// Makes what the transaction wrote visible, and says what that was. `None` when it was ended before.
    pub(crate) fn commit(&mut self, tx: Tx) -> Option<(Process, Vec<Write>)> {
        let mut open = self.open.remove(&tx)?;
        let overlay = std::mem::take(&mut open.overlay);
        let mut writes = Vec::with_capacity(overlay.len());
        for ((table, pk), new) in overlay {
            if table == Table::Shard {
                self.note_owner(&pk, new.as_ref());
            }
            let rows = &mut self.rows[table as usize];
            let old = match &new {
                Some(row) => rows.insert(pk, row.clone()),
                None => rows.remove(&pk),
            };
            if old != new {
                writes.push(Write { table, old, new });
            }
        }
        let process = open.process;
        self.release(tx, open);
        Some((process, writes))
    }

    fn note_owner(&mut self, pk: &Pk, new: Option<&Record>) {
        let former = self.rows[Table::Shard as usize]
            .get(pk)
            .and_then(|row| id_opt(row, columns::shard::OWNER));
        let Pk::Int(shard) = *pk else { return };
        if let Some(shards) = former.and_then(|owner| self.shards.get_mut(&owner)) {
            shards.remove(&shard);
        }
        if let Some(owner) = new.and_then(|row| id_opt(row, columns::shard::OWNER)) {
            self.shards.entry(owner).or_default().insert(shard);
        }
    }

    /// The shards of a node as the transaction sees them.
    pub(crate) fn shards_of(&self, tx: Tx, node: [u8; 16]) -> Vec<i64> {
        let own = self
            .open
            .get(&tx)
            .is_some_and(|open| open.overlay.keys().any(|at| at.0 == Table::Shard));
        if own {
            let all = self.scan(tx, Table::Shard).into_iter();
            let mine = all.filter(|row| id_opt(row, columns::shard::OWNER) == Some(node));
            return mine.map(|row| int(row, columns::shard::SHARD)).collect();
        }
        self.shards
            .get(&node)
            .map(|shards| shards.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Forgets what the transaction wrote.
    pub(crate) fn abort(&mut self, tx: Tx) {
        if let Some(open) = self.open.remove(&tx) {
            self.release(tx, open);
        }
    }

    fn release(&mut self, tx: Tx, open: Open) {
        if let Some(lock) = open.waiting.and_then(|place| self.locks.get_mut(&place)) {
            lock.line.retain(|waiting| *waiting != tx);
        }
        for place in open.held {
            self.hand_on(place);
        }
        if let Some(waker) = open.waker {
            waker.wake();
        }
    }

    /// Gives a lock to the first in line.
    fn hand_on(&mut self, place: Place) {
        let Some(lock) = self.locks.get_mut(&place) else {
            return;
        };
        let Some(next) = lock.line.pop_front() else {
            self.locks.remove(&place);
            return;
        };
        lock.owner = next;
        if let Some(open) = self.open.get_mut(&next) {
            open.waiting = None;
            open.held.push(place);
            if let Some(waker) = open.waker.take() {
                waker.wake();
            }
        }
    }
}
