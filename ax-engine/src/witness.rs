//! The first witness of death on one host: a lock file per node, beside the database's file.
//!
//! The operating system lets go of a lock when its process ends, however it ends. So a node whose lock can be taken is
//! dead at once, and one whose lock is held is alive whatever its lease says. A node without a lock file (another
//! filesystem, a folder that cannot be written) is judged by the heartbeat alone. Where the database is no file this
//! room does nothing. It never touches the database.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ax_core::NodeId;

/// What the lock of a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Testimony {
    /// Its process is gone.
    Dead,
    /// Its process is there.
    Alive,
    /// It has no lock here.
    Silent,
}

/// See the module.
#[derive(Debug)]
pub struct Witness {
    database: Option<PathBuf>,
    held: Mutex<Option<Held>>,
}

/// The lock of this process.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    _file: File,
}

impl Witness {
    /// A witness beside this database file; without one it stays silent.
    pub fn new(database: Option<PathBuf>) -> Witness {
        Witness {
            database,
            held: Mutex::new(None),
        }
    }

    /// Takes the lock of a node of this process, before it joins; a former one is given up. Without a lock the node
    /// lives by its heartbeat alone, which is said once.
    pub fn attend(&self, node: NodeId) {
        let Some(path) = self.path(node) else { return };
        let locked = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .and_then(|file| {
                file.try_lock()?;
                Ok(file)
            });
        let held = match locked {
            Ok(file) => Some(Held { path, _file: file }),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "no lock file: the death of this node shows only when its lease ends");
                None
            }
        };
        self.replace(held);
    }

    /// What the lock of another node says.
    pub fn testify(&self, node: NodeId) -> Testimony {
        let Some(path) = self.path(node) else {
            return Testimony::Silent;
        };
        let Ok(file) = OpenOptions::new().write(true).open(&path) else {
            return Testimony::Silent;
        };
        match file.try_lock() {
            Ok(()) => Testimony::Dead,
            Err(TryLockError::WouldBlock) => Testimony::Alive,
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, path = %path.display(), "a lock file says nothing");
                Testimony::Silent
            }
        }
    }

    /// Removes the lock file of a node that was buried.
    pub fn bury(&self, node: NodeId) {
        if let Some(path) = self.path(node) {
            remove(&path);
        }
    }

    /// Removes this process's own lock file, after its node has left.
    pub fn leave(&self) {
        self.replace(None);
    }

    fn replace(&self, held: Option<Held>) {
        let former = std::mem::replace(
            &mut *self.held.lock().unwrap_or_else(PoisonError::into_inner),
            held,
        );
        if let Some(former) = former {
            remove(&former.path);
        }
    }

    /// `<database file>.ax-<node>.lock`.
    fn path(&self, node: NodeId) -> Option<PathBuf> {
        let database = self.database.as_ref()?;
        let mut name = OsString::from(database.file_name()?);
        name.push(format!(".ax-{node}.lock"));
        Some(database.with_file_name(name))
    }
}

fn remove(path: &Path) {
    // Somebody else may have removed it; a file that stays behind costs nothing but its name.
    let _left = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> NodeId {
        NodeId::from_bytes([number; 16])
    }

    /// Witnesses of two processes beside a database file in a folder of its own.
    fn check(name: &str, test: impl FnOnce(&Path, &Witness, &Witness)) {
        let folder = std::env::temp_dir().join(format!("ax-witness-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let database = folder.join("shop.db");
        test(
            &folder,
            &Witness::new(Some(database.clone())),
            &Witness::new(Some(database)),
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_held_lock_is_life_and_a_free_one_is_death() {
        check("life", |folder, ours, theirs| {
            theirs.attend(node(2));
            assert_eq!(ours.testify(node(2)), Testimony::Alive);
            assert_eq!(ours.testify(node(3)), Testimony::Silent);
            let killed = theirs.held.lock().unwrap().take();
            drop(killed);
            assert_eq!(ours.testify(node(2)), Testimony::Dead);
            assert_eq!(
                ours.testify(node(2)),
                Testimony::Dead,
                "to look does not change what is seen"
            );
            ours.bury(node(2));
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
        });
    }

    #[test]
    fn a_node_that_leaves_or_joins_again_takes_its_file_along() {
        check("leave", |folder, ours, theirs| {
            theirs.attend(node(2));
            theirs.attend(node(4));
            assert_eq!(ours.testify(node(2)), Testimony::Silent);
            assert_eq!(ours.testify(node(4)), Testimony::Alive);
            theirs.leave();
            assert_eq!(ours.testify(node(4)), Testimony::Silent);
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
        });
    }

    #[test]
    fn without_a_file_it_is_silent() {
        let witness = Witness::new(None);
        witness.attend(node(1));
        assert_eq!(witness.testify(node(1)), Testimony::Silent);
        let nowhere = Witness::new(Some(PathBuf::from("/nonexistent/folder/shop.db")));
        nowhere.attend(node(1));
        assert_eq!(nowhere.testify(node(1)), Testimony::Silent);
    }
}
