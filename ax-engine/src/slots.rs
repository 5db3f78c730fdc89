//! Who counts what this node holds: claiming, queued, running, unsettled.
//!
//! A task is counted in exactly one of the four from the moment credit is reserved for it until its outcome is written.
//! The rooms of the road move it on; the trigger waits here for credit.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::credit::Credit;
use crate::job::JobKind;

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    claiming: u32,
    queued: u32,
    running: u32,
    unsettled: u32,
}

struct Kind {
    credit: Credit,
    counts: Mutex<Counts>,
}

/// The slots of both kinds.
pub struct Slots {
    kinds: [Kind; 2],
    freed: Notify,
}

/// What is going on at this moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Handlers that run.
    pub running: u32,
    /// Claimed tasks that wait for a slot.
    pub queued: u32,
    /// Tasks whose outcome is not written yet.
    pub unsettled: u32,
    /// Slots there are.
    pub slots: u32,
}

impl Slots {
    /// Free slots only.
    pub fn new(async_slots: usize, blocking_slots: usize, read_ahead: usize) -> Slots {
        let kind = |slots: usize| Kind {
            credit: Credit {
                slots: small(slots),
                read_ahead: if slots == 0 { 0 } else { small(read_ahead) },
            },
            counts: Mutex::default(),
        };
        Slots {
            kinds: [kind(async_slots), kind(blocking_slots)],
            freed: Notify::new(),
        }
    }

    /// Reserves credit for up to `n` tasks that are about to be claimed; says for how many.
    pub fn reserve(&self, kind: JobKind, n: usize) -> usize {
        let this = self.kind(kind);
        this.with(|c| {
            let room = this
                .credit
                .available(c.queued, c.running, c.unsettled, c.claiming);
            let granted = room.min(small(n));
            c.claiming += granted;
            granted as usize
        })
    }

    /// Reserves a slot that is free right now, for a task that is born claimed.
    pub fn reserve_free(&self, kind: JobKind) -> Reserved {
        let this = self.kind(kind);
        this.with(|c| {
            let free = this.credit.free_slots(c.queued, c.running, c.claiming);
            let room = this
                .credit
                .available(c.queued, c.running, c.unsettled, c.claiming);
            if free == 0 || room == 0 {
                return Reserved::No;
            }
            c.claiming += 1;
            Reserved::Yes
        })
    }

    /// Of `asked` reserved tasks `got` were claimed and wait for a slot now; the rest of the credit is free again.
    pub fn claimed(&self, kind: JobKind, asked: usize, got: usize) {
        self.kind(kind).with(|c| {
            c.claiming = c.claiming.saturating_sub(small(asked));
            c.queued += small(got);
        });
        if got < asked {
            self.freed.notify_one();
        }
    }

    /// Takes a queued task to a slot, if one is free.
    pub fn start(&self, kind: JobKind) -> Reserved {
        let this = self.kind(kind);
        this.with(|c| {
            if c.queued == 0 || c.running >= this.credit.slots {
                return Reserved::No;
            }
            c.queued -= 1;
            c.running += 1;
            Reserved::Yes
        })
    }

    /// A queued task goes back without having run.
    pub fn unqueue(&self, kind: JobKind) {
        self.kind(kind).with(|c| {
            c.queued = c.queued.saturating_sub(1);
            c.unsettled += 1;
        });
    }

    /// A handler ended; its outcome is still to be written.
    pub fn finished(&self, kind: JobKind) {
        self.kind(kind).with(|c| {
            c.running = c.running.saturating_sub(1);
            c.unsettled += 1;
        });
    }

    /// The outcomes of `n` tasks are written.
    pub fn settled(&self, kind: JobKind, n: usize) {
        self.kind(kind)
            .with(|c| c.unsettled = c.unsettled.saturating_sub(small(n)));
        self.freed.notify_one();
    }

    /// Waits until credit was given back.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// What is going on, both kinds together.
    pub fn load(&self) -> Load {
        let mut load = Load::default();
        for kind in &self.kinds {
            let c = kind.with(|c| *c);
            load.running += c.running;
            load.queued += c.queued;
            load.unsettled += c.unsettled + c.claiming;
            load.slots += kind.credit.slots;
        }
        load
    }

    fn kind(&self, kind: JobKind) -> &Kind {
        match kind {
            JobKind::Async => &self.kinds[0],
            JobKind::Blocking => &self.kinds[1],
        }
    }
}

/// Whether a slot or credit was to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// It is reserved.
    Yes,
    /// There was none.
    No,
}

impl Kind {
    fn with<T>(&self, f: impl FnOnce(&mut Counts) -> T) -> T {
        f(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_counted_once_from_reservation_to_settle() {
        let slots = Slots::new(2, 0, 1);
        assert_eq!(slots.reserve(JobKind::Async, 10), 3);
        slots.claimed(JobKind::Async, 3, 2);
        assert_eq!(slots.reserve(JobKind::Async, 10), 1);
        slots.claimed(JobKind::Async, 1, 0);
        assert_eq!(slots.start(JobKind::Async), Reserved::Yes);
        assert_eq!(slots.start(JobKind::Async), Reserved::Yes);
        assert_eq!(slots.start(JobKind::Async), Reserved::No);
        slots.finished(JobKind::Async);
        assert_eq!(
            slots.reserve(JobKind::Async, 10),
            1,
            "an unsettled task still holds its credit"
        );
        slots.claimed(JobKind::Async, 1, 0);
        slots.settled(JobKind::Async, 1);
        assert_eq!(slots.reserve(JobKind::Async, 10), 2);
    }

    #[test]
    fn born_claimed_tasks_need_a_free_slot_not_read_ahead() {
        let slots = Slots::new(1, 0, 30);
        assert_eq!(slots.reserve_free(JobKind::Async), Reserved::Yes);
        assert_eq!(slots.reserve_free(JobKind::Async), Reserved::No);
        assert_eq!(slots.reserve_free(JobKind::Blocking), Reserved::No);
    }
}
