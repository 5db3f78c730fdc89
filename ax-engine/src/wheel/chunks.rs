//! A list that grows by fixed pieces.
//!
//! Enters: small copyable values. Leaves: the same by number. It never moves what it holds, so growth by one costs the same
//! at ten million as at ten, and it never holds more than one piece too much.

use std::ops::{Index, IndexMut};

/// Values in one piece.
const PIECE: usize = 1024;

/// See the head of the file.
pub(super) struct Chunks<T> {
    /// All of the same length, the last one filled up with copies of its first value.
    pieces: Vec<Box<[T]>>,
    /// Values in use.
    len: usize,
}

impl<T: Copy> Chunks<T> {
    /// An empty list; takes no memory.
    pub(super) const fn new() -> Chunks<T> {
        Chunks {
            pieces: Vec::new(),
            len: 0,
        }
    }

    /// Adds a value at the end.
    pub(super) fn push(&mut self, value: T) {
        if self.len == self.pieces.len() * PIECE {
            self.pieces.push(vec![value; PIECE].into_boxed_slice());
        }
        let at = self.len;
        self.len += 1;
        self[at] = value;
    }

    /// Values held.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.len() * PIECE * size_of::<T>() + self.pieces.capacity() * size_of::<Box<[T]>>()
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.pieces[at / PIECE][at % PIECE]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.pieces[at / PIECE][at % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_value_across_pieces() {
        let mut chunks = Chunks::new();
        for n in 0..3 * PIECE + 1 {
            chunks.push(n);
        }
        assert_eq!(chunks.len(), 3 * PIECE + 1);
        assert!((0..chunks.len()).all(|n| chunks[n] == n));
        chunks[PIECE] = 7;
        assert_eq!(chunks[PIECE], 7);
        assert_eq!(chunks.bytes() / (PIECE * size_of::<usize>()), 4);
    }
}
