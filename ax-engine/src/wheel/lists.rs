//! The lists of the wheel: one a slot, one for the late, one for the overflow.
//!
//! Enters: places of entries. Leaves: the same in the order they came. Doubly linked through the entries, so that taking one
//! out of the middle is O(1); one bit a slot says whether its list holds anything. It never compares instants.

use super::slab::{NONE, Slab};
use super::slot::{self, Home, LEVELS, ROWS, SLOTS};

/// First and last entry of one list.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List {
    head: NONE,
    tail: NONE,
};

/// See the head of the file.
pub(super) struct Lists {
    rows: Box<[List]>,
    /// One bit a slot, one word a level.
    occupied: [u64; LEVELS],
}

impl Lists {
    /// Empty lists.
    pub(super) fn new() -> Lists {
        Lists {
            rows: vec![EMPTY; ROWS].into_boxed_slice(),
            occupied: [0; LEVELS],
        }
    }

    /// Puts an entry that is in no list at the end of the list of this home.
    pub(super) fn push(&mut self, slab: &mut Slab, at: u32, home: Home) {
        let tick = slab.get(at).tick();
        let list = &mut self.rows[slot::row(home, tick)];
        let before = std::mem::replace(&mut list.tail, at);
        match before {
            NONE => list.head = at,
            last => slab.get_mut(last).next = at,
        }
        let entry = slab.get_mut(at);
        (entry.prev, entry.next, entry.home) = (before, NONE, home);
        if let Some(level) = home.level() {
            self.occupied[level] |= 1 << slot::digit(tick, level);
        }
    }

    /// Takes an entry out of its list.
    pub(super) fn unlink(&mut self, slab: &mut Slab, at: u32) {
        let entry = *slab.get(at);
        let list = &mut self.rows[slot::row(entry.home, entry.tick())];
        match entry.prev {
            NONE => list.head = entry.next,
            before => slab.get_mut(before).next = entry.next,
        }
        match entry.next {
            NONE => list.tail = entry.prev,
            after => slab.get_mut(after).prev = entry.prev,
        }
        if list.head == NONE
            && let Some(level) = entry.home.level()
        {
            self.occupied[level] &= !(1 << slot::digit(entry.tick(), level));
        }
    }

    /// Empties a slot and gives the first entry of what was its list.
    pub(super) fn take_slot(&mut self, level: usize, slot: usize) -> u32 {
        self.occupied[level] &= !(1 << slot);
        self.take_row(slot::slot_row(level, slot))
    }

    /// Empties the late or the overflow list and gives its first entry.
    pub(super) fn take_other(&mut self, home: Home) -> u32 {
        self.take_row(slot::row(home, 0))
    }

    /// Whether the late or the overflow list holds nothing.
    pub(super) fn is_empty(&self, home: Home) -> bool {
        self.rows[slot::row(home, 0)].head == NONE
    }

    /// The first slot of the lowest level that holds anything. A lower level lies wholly before the occupied slots of a
    /// higher one, so this is the earliest.
    pub(super) fn first_slot(&self) -> Option<(usize, usize)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        Some((level, self.first_in(level)?))
    }

    /// The first slot of one level that holds anything.
    pub(super) fn first_in(&self, level: usize) -> Option<usize> {
        let slot = self.occupied[level].trailing_zeros() as usize;
        (slot < SLOTS).then_some(slot)
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }

    fn take_row(&mut self, row: usize) -> u32 {
        std::mem::replace(&mut self.rows[row], EMPTY).head
    }
}
