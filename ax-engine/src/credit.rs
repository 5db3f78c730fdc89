//! How much more work a node may claim.
//!
//! Enters: the counts of what it holds. Leaves: a number of tasks. Pure arithmetic; it counts nothing itself.

/// The room of a node (or of one queue on it). A node never holds more claimed tasks than it has slots plus a small
/// read-ahead, so that the rest of a backlog stays in the database for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Tasks that may run at once.
    pub slots: u32,
    /// Claimed tasks that may wait for a slot.
    pub read_ahead: u32,
}

impl Credit {
    /// Tasks that may be claimed now: slots and read-ahead, less the tasks `queued` (claimed, waiting for a slot),
    /// `running`, `unsettled` (finished, outcome not written yet) and `claiming` (asked for, answer under way).
    pub fn available(self, queued: u32, running: u32, unsettled: u32, claiming: u32) -> u32 {
        let room = u64::from(self.slots) + u64::from(self.read_ahead);
        less(room, [queued, running, unsettled, claiming])
    }

    /// Tasks that would start at once if claimed now. For tasks under a limit, which are never read ahead: one that waited
    /// for a slot would hold its permit idle.
    pub fn free_slots(self, queued: u32, running: u32, claiming: u32) -> u32 {
        less(u64::from(self.slots), [queued, running, claiming])
    }
}

fn less<const N: usize>(room: u64, held: [u32; N]) -> u32 {
    let held: u64 = held.into_iter().map(u64::from).sum();
    u32::try_from(room.saturating_sub(held)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDIT: Credit = Credit {
        slots: 64,
        read_ahead: 30,
    };

    #[test]
    fn everything_held_counts_once() {
        assert_eq!(CREDIT.available(0, 0, 0, 0), 94);
        assert_eq!(CREDIT.available(1, 20, 300, 4000), 0);
        assert_eq!(CREDIT.available(1, 0, 0, 0), 93);
        assert_eq!(CREDIT.available(0, 2, 0, 0), 92);
        assert_eq!(CREDIT.available(0, 0, 3, 0), 91);
        assert_eq!(CREDIT.available(0, 0, 0, 4), 90);
        assert_eq!(CREDIT.available(20, 64, 10, 0), 0);
    }

    #[test]
    fn limited_tasks_are_not_read_ahead() {
        assert_eq!(CREDIT.free_slots(0, 0, 0), 64);
        assert_eq!(CREDIT.free_slots(1, 60, 2), 1);
        assert_eq!(CREDIT.free_slots(0, 64, 0), 0);
    }

    #[test]
    fn no_count_overflows() {
        let all = Credit {
            slots: u32::MAX,
            read_ahead: u32::MAX,
        };
        assert_eq!(all.available(0, 0, 0, 0), u32::MAX);
        assert_eq!(all.available(u32::MAX, 0, 0, 0), u32::MAX);
        assert_eq!(all.available(u32::MAX, u32::MAX, 0, 0), 0);
        assert_eq!(CREDIT.available(u32::MAX, u32::MAX, u32::MAX, u32::MAX), 0);
    }
}
