//! Where an instant lies in the wheel: pure arithmetic on ticks.
//!
//! Enters: the wheel's cursor and an instant. Leaves: the home of an entry, the row of that home, the first tick of a slot.
//! Nothing here holds state, knows an entry, or can overflow.
//!
//! A tick is a millisecond, shifted so that `i64::MIN` becomes 0 and order is kept: every `Timestamp` has a tick, and blocks
//! of 64, 64², … 64⁶ ticks start at the same places as before the shift. Written in digits of 6 bits, the highest digit in
//! which a tick differs from the cursor names its level, and the digit itself its slot.

use ax_core::Timestamp;

/// Levels of the wheel; level `n` has slots of 64ⁿ ms, all six together one block of 64⁶ ms (2.18 years).
pub(super) const LEVELS: usize = 6;
/// Slots of a level.
pub(super) const SLOTS: usize = 64;
/// Rows of all lists: one a slot, then the late row, then the overflow row.
pub(super) const ROWS: usize = LEVELS * SLOTS + 2;
/// Bits of a tick that choose the slot within one level.
const BITS: u32 = SLOTS.trailing_zeros();

/// The kind of list that an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home(u8);

impl Home {
    /// At or before the cursor: due, and only waiting for the next poll.
    pub(super) const LATE: Home = Home(LEVELS as u8);
    /// Beyond the block of the cursor.
    pub(super) const OVERFLOW: Home = Home(LEVELS as u8 + 1);
    /// In no list: a free place of the slab.
    pub(super) const FREE: Home = Home(u8::MAX);

    /// The level, or `None` for the three homes that are none.
    pub(super) fn level(self) -> Option<usize> {
        let level = usize::from(self.0);
        (level < LEVELS).then_some(level)
    }
}

/// The tick of an instant.
pub(super) fn tick_of(instant: Timestamp) -> u64 {
    instant.as_millis().cast_unsigned() ^ (1 << 63)
}

/// The instant of a tick.
pub(super) fn instant_of(tick: u64) -> Timestamp {
    Timestamp::from_millis((tick ^ (1 << 63)).cast_signed())
}

/// Number of the highest digit in which two ticks differ; `None` when they are equal. Numbers of [`LEVELS`] and more mean
/// different blocks.
pub(super) fn highest_difference(one: u64, other: u64) -> Option<usize> {
    (one ^ other)
        .checked_ilog2()
        .map(|bit| (bit / BITS) as usize)
}

/// The home of an entry that is due at `tick` while the wheel stands at `cursor`.
pub(super) fn home(cursor: u64, tick: u64) -> Home {
    if tick <= cursor {
        return Home::LATE;
    }
    match highest_difference(cursor, tick) {
        Some(level) if level < LEVELS => Home(level as u8),
        _ => Home::OVERFLOW,
    }
}

/// The digit of `tick` at `level`, which is its slot there.
pub(super) fn digit(tick: u64, level: usize) -> usize {
    (tick >> (BITS * level as u32)) as usize % SLOTS
}

/// The row of the list that holds an entry due at `tick` with this home; a free entry has none and gets a row past the end.
pub(super) fn row(home: Home, tick: u64) -> usize {
    match home.level() {
        Some(level) => slot_row(level, digit(tick, level)),
        None if home == Home::LATE => LEVELS * SLOTS,
        None if home == Home::OVERFLOW => LEVELS * SLOTS + 1,
        None => ROWS,
    }
}

/// The row of one slot.
pub(super) fn slot_row(level: usize, slot: usize) -> usize {
    level * SLOTS + slot
}

/// The first tick of a slot in the cursor's block.
pub(super) fn slot_start(cursor: u64, level: usize, slot: usize) -> u64 {
    let above = BITS * (level as u32 + 1);
    (cursor >> above << above) | ((slot as u64) << (BITS * level as u32))
}

/// The first tick of the block that `tick` lies in.
pub(super) fn block_start(tick: u64) -> u64 {
    let block = BITS * LEVELS as u32;
    tick >> block << block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cursor: u64, tick: u64, level: usize, slot: usize) {
        let home = home(cursor, tick);
        assert_eq!(home.level(), Some(level), "level of {tick} at {cursor}");
        assert_eq!(
            row(home, tick),
            slot_row(level, slot),
            "slot of {tick} at {cursor}"
        );
    }

    #[test]
    fn ticks_keep_order_and_come_back() {
        let millis = [
            i64::MIN,
            i64::MIN + 1,
            -1,
            0,
            1,
            63,
            64,
            1 << 36,
            i64::MAX - 1,
            i64::MAX,
        ];
        for pair in millis.windows(2) {
            let (a, b) = (
                Timestamp::from_millis(pair[0]),
                Timestamp::from_millis(pair[1]),
            );
            assert!(tick_of(a) < tick_of(b));
            assert_eq!(instant_of(tick_of(a)), a);
            assert_eq!(instant_of(tick_of(b)), b);
        }
        assert_eq!(tick_of(Timestamp::from_millis(0)), 1 << 63);
    }

    #[test]
    fn every_slot_of_every_level_is_found_from_a_block_start() {
        for level in 0..LEVELS {
            for slot in 1..SLOTS {
                let width = 1u64 << (BITS * level as u32);
                let first = slot as u64 * width;
                check(0, first, level, slot);
                check(0, first + width - 1, level, slot);
                assert_eq!(slot_start(0, level, slot), first);
            }
        }
    }

    #[test]
    fn every_pair_within_three_levels_has_the_home_that_counting_gives() {
        for cursor in (0..64u64.pow(3)).step_by(997) {
            for tick in (0..64u64.pow(3)).step_by(61) {
                if tick <= cursor {
                    assert_eq!(home(cursor, tick), Home::LATE);
                    continue;
                }
                let level = match () {
                    () if tick / 64 == cursor / 64 => 0,
                    () if tick / 4096 == cursor / 4096 => 1,
                    () => 2,
                };
                let slot = (tick / 64u64.pow(level as u32) % 64) as usize;
                check(cursor, tick, level, slot);
                let start = slot_start(cursor, level, slot);
                assert!(
                    start <= tick && start > cursor,
                    "the slot of {tick} starts at {start}, cursor {cursor}"
                );
            }
        }
    }

    #[test]
    fn level_boundaries_are_exact() {
        for base in [0, 1 << 63, 7 << 36] {
            for level in 0..LEVELS {
                let edge = base + (1u64 << (BITS * (level as u32 + 1)));
                check(base, edge - 1, level, SLOTS - 1);
                check(edge - 2, edge - 1, 0, SLOTS - 1);
                match level + 1 < LEVELS {
                    true => check(base, edge, level + 1, 1),
                    false => assert_eq!(home(base, edge), Home::OVERFLOW),
                }
                match level + 1 < LEVELS {
                    true => check(edge - 1, edge, level + 1, 1),
                    false => assert_eq!(home(edge - 1, edge), Home::OVERFLOW),
                }
            }
        }
    }

    #[test]
    fn blocks_start_where_the_top_level_turns() {
        assert_eq!(block_start(0), 0);
        assert_eq!(block_start((1 << 36) - 1), 0);
        assert_eq!(block_start(1 << 36), 1 << 36);
        assert_eq!(block_start(u64::MAX), u64::MAX - ((1 << 36) - 1));
        assert_eq!(home(0, u64::MAX), Home::OVERFLOW);
        assert_eq!(home(u64::MAX, u64::MAX), Home::LATE);
    }

    #[test]
    fn rows_of_the_other_homes_are_apart() {
        assert_eq!(row(Home::LATE, 5), LEVELS * SLOTS);
        assert_eq!(row(Home::OVERFLOW, 5), LEVELS * SLOTS + 1);
        assert_eq!(row(Home::FREE, 5), ROWS);
        assert_eq!(Home::FREE.level(), None);
    }
}
