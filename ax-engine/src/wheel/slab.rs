//! The timers themselves, 44 bytes each, addressed by a `u32`.
//!
//! Enters: a [`Due`]. Leaves: its place, and the [`Due`] again. The links of lists and index chains live inside the entries;
//! this file stores them and never follows them.

use ax_core::{Priority, TaskId, Timestamp};

use super::Due;
use super::chunks::Chunks;
use super::slot::{self, Home};

/// "No entry": the end of a list or chain.
pub(super) const NONE: u32 = u32::MAX;

/// One timer. The instant is kept as bytes so that the whole is aligned to 4 and has no padding.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The task.
    pub(super) id: TaskId,
    /// `ready_at` in milliseconds.
    millis: [u8; 8],
    /// Index of the job's name.
    job: u32,
    /// The entry before it in its list.
    pub(super) prev: u32,
    /// The entry after it in its list; while free, the next free entry.
    pub(super) next: u32,
    /// The next entry of the same index bucket.
    pub(super) chain: u32,
    /// The shard or inbox of the row.
    shard: u16,
    /// The lane.
    priority: Priority,
    /// The kind of list it is in.
    pub(super) home: Home,
}

impl Entry {
    fn new(due: &Due) -> Entry {
        Entry {
            id: due.id,
            millis: due.ready_at.as_millis().to_ne_bytes(),
            job: due.job,
            prev: NONE,
            next: NONE,
            chain: NONE,
            shard: due.shard,
            priority: due.priority,
            home: Home::FREE,
        }
    }

    /// When it is due.
    pub(super) fn ready_at(&self) -> Timestamp {
        Timestamp::from_millis(i64::from_ne_bytes(self.millis))
    }

    /// When it is due, as a tick.
    pub(super) fn tick(&self) -> u64 {
        slot::tick_of(self.ready_at())
    }

    /// Takes over everything but the id and the links.
    pub(super) fn describe(&mut self, due: &Due) {
        self.millis = due.ready_at.as_millis().to_ne_bytes();
        self.job = due.job;
        self.shard = due.shard;
        self.priority = due.priority;
    }

    /// The timer as it was inserted.
    pub(super) fn due(&self) -> Due {
        Due {
            id: self.id,
            ready_at: self.ready_at(),
            job: self.job,
            shard: self.shard,
            priority: self.priority,
        }
    }
}

/// All entries, with a chain of the free ones.
pub(super) struct Slab {
    entries: Chunks<Entry>,
    free: u32,
    len: usize,
}

impl Slab {
    /// An empty slab.
    pub(super) const fn new() -> Slab {
        Slab {
            entries: Chunks::new(),
            free: NONE,
            len: 0,
        }
    }

    /// Stores a timer in no list and no chain.
    pub(super) fn add(&mut self, due: &Due) -> u32 {
        self.len += 1;
        if self.free == NONE {
            self.entries.push(Entry::new(due));
            // Four billion entries of 44 bytes do not fit into any machine's memory.
            return (self.entries.len() - 1) as u32;
        }
        let at = self.free;
        self.free = self.get(at).next;
        *self.get_mut(at) = Entry::new(due);
        at
    }

    /// Gives a place back; it must be in no list and no chain.
    pub(super) fn release(&mut self, at: u32) {
        let free = self.free;
        let entry = self.get_mut(at);
        entry.home = Home::FREE;
        entry.next = free;
        self.free = at;
        self.len -= 1;
    }

    /// The entry at a place.
    pub(super) fn get(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }

    /// The entry at a place.
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.entries[at as usize]
    }

    /// Timers held.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All places that were ever used.
    pub(super) fn places(&self) -> std::ops::Range<u32> {
        0..self.entries.len() as u32
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_no_padding() {
        assert_eq!(size_of::<Entry>(), 44);
    }

    #[test]
    fn places_are_used_again() {
        let due = Due::sample(1, 5);
        let mut slab = Slab::new();
        let (a, b) = (slab.add(&due), slab.add(&Due::sample(2, 6)));
        slab.release(a);
        assert_eq!(slab.get(a).home, Home::FREE);
        assert_eq!(slab.add(&Due::sample(3, 7)), a);
        assert_eq!(
            (slab.get(a).due(), slab.get(b).due()),
            (Due::sample(3, 7), Due::sample(2, 6))
        );
        assert_eq!((slab.len(), slab.places()), (2, 0..2));
    }
}
