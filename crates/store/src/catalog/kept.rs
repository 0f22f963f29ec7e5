//! A catalog with its journal: what is answered was written down before.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::journal::{Journal, JournalError};
use super::{Catalog, Origin};
use crate::engine::{Answer, CatalogOperation, EngineError};

/// A catalog kept in a directory, as `journal` and `lock`.
#[derive(Debug)]
pub struct KeptCatalog {
    server: String,
    servers: u32,
    path: PathBuf,
    lock: File,
    shared: bool,
    catalog: Catalog,
    journal: Journal,
    torn_bytes: u64,
}

impl Drop for KeptCatalog {
    /// A program that is being started, by another thread, has the lock's file open for a moment as
    /// well, so that closing it may not let the lock go.
    fn drop(&mut self) {
        self.unlock();
    }
}

impl KeptCatalog {
    /// Opens the catalog in `dir` for this process alone, until it is dropped.
    pub fn open_alone(dir: &Path, server: &str, servers: u32) -> Result<Self, JournalError> {
        Self::open(dir, server, servers, false)
    }

    /// Opens the catalog in `dir`, which other processes may have open too.
    pub fn open_shared(dir: &Path, server: &str, servers: u32) -> Result<Self, JournalError> {
        Self::open(dir, server, servers, true)
    }

    fn open(dir: &Path, server: &str, servers: u32, shared: bool) -> Result<Self, JournalError> {
        let failed = |what| move |source| JournalError::Io { what, path: dir.to_owned(), source };
        std::fs::create_dir_all(dir).map_err(failed("make the directory of"))?;
        let lock = File::create(dir.join("lock")).map_err(failed("lock"))?;
        let wait = if shared {
            FlockOperation::LockExclusive
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        flock(&lock, wait).map_err(|errno| failed("lock")(errno.into()))?;
        let path = dir.join("journal");
        let (server, catalog) = (server.to_owned(), Catalog::new(servers));
        let (journal, torn_bytes) = (Journal::open(&path)?, 0);
        let mut kept = Self { server, servers, path, lock, shared, catalog, journal, torn_bytes };
        kept.catch_up()?;
        // A journal grows with every change, a catalog only with its files.
        let worth = kept.journal.bytes() > 64 << 10;
        if !shared || worth {
            kept.rewrite()?;
        }
        if shared {
            kept.unlock();
        }
        Ok(kept)
    }

    /// Bytes of a torn record that were cut off when the catalog was opened; zero after a clean
    /// end.
    pub const fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.catalog.len()
    }

    /// Length of the journal in bytes.
    pub const fn journal_bytes(&self) -> u64 {
        self.journal.bytes()
    }

    /// Carries an operation out.
    pub fn serve(
        &mut self,
        operation: &CatalogOperation,
        origin: Origin,
    ) -> Result<Answer, EngineError> {
        if !self.shared {
            return self.serve_locked(operation, origin);
        }
        flock(&self.lock, FlockOperation::LockExclusive).map_err(|errno| {
            self.failed(&format!("cannot lock {}: {errno}", self.path.display()))
        })?;
        let outcome = match self.refresh() {
            Ok(()) => self.serve_locked(operation, origin),
            Err(error) => Err(self.failed(&error.to_string())),
        };
        self.unlock();
        outcome
    }

    fn serve_locked(
        &mut self,
        operation: &CatalogOperation,
        origin: Origin,
    ) -> Result<Answer, EngineError> {
        let (answer, change) = self.catalog.decide(operation, origin)?;
        if let Some(change) = change {
            self.journal.append(&change).map_err(|error| self.append_failed(&error))?;
            self.catalog.apply(&change);
        }
        Ok(answer)
    }

    /// Takes in what other processes changed.
    fn refresh(&mut self) -> Result<(), JournalError> {
        if self.journal.is_replaced() {
            self.journal = Journal::open(&self.path)?;
            self.catalog = Catalog::new(self.servers);
        }
        self.catch_up()
    }

    fn catch_up(&mut self) -> Result<(), JournalError> {
        self.torn_bytes += self.journal.catch_up(|change| self.catalog.apply(change))?;
        if self.journal.is_outdated() { self.rewrite() } else { Ok(()) }
    }

    fn rewrite(&mut self) -> Result<(), JournalError> {
        self.journal = Journal::rewrite(&self.path, self.catalog.changes())?;
        Ok(())
    }

    fn unlock(&self) {
        // Unlocking a lock that is held fails only for a bad descriptor, and this one is open.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }

    fn append_failed(&self, error: &JournalError) -> EngineError {
        if let JournalError::Io { source, .. } = error
            && source.kind() == std::io::ErrorKind::StorageFull
        {
            return EngineError::NoSpace { server: self.server.clone() };
        }
        self.failed(&error.to_string())
    }

    fn failed(&self, what: &str) -> EngineError {
        EngineError::Io { server: self.server.clone(), what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use afflux_core::layout::Layout;

    use super::*;
    use crate::catalog::journal::{FIRST_MAGIC, MAGIC};
    use crate::engine::{FileRecord, Taken};

    fn create(catalog: &mut KeptCatalog, name: &str) -> FileRecord {
        let layout = Layout { unit_bytes: 4096, first_server: 0, count: 1 };
        let operation = CatalogOperation::Create { name: name.into(), layout };
        match catalog.serve(&operation, Origin { client: 1, request: 1 }) {
            Ok(Answer::File(record)) => record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_not_reused_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut catalog = KeptCatalog::open_alone(dir.path(), "metadata", 1).unwrap();
        let first = create(&mut catalog, "a");
        let unlink = CatalogOperation::Unlink { name: "a".into() };
        catalog.serve(&unlink, Origin { client: 1, request: 2 }).unwrap();
        drop(catalog);
        for _ in 0..2 {
            let mut catalog = KeptCatalog::open_alone(dir.path(), "metadata", 1).unwrap();
            assert_eq!(catalog.files(), 0);
            assert!(catalog.serve(&unlink, Origin { client: 1, request: 2 }).is_ok(), "remembered");
            assert!(catalog.serve(&unlink, Origin { client: 1, request: 3 }).is_err());
        }
        let mut catalog = KeptCatalog::open_alone(dir.path(), "metadata", 1).unwrap();
        assert!(create(&mut catalog, "b").file > first.file);
        let second = KeptCatalog::open_alone(dir.path(), "metadata", 1);
        assert!(second.is_err(), "two servers on one directory");
    }

    #[test]
    fn a_catalog_that_is_done_with_is_free_whoever_has_its_lock_open() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = KeptCatalog::open_alone(dir.path(), "metadata", 1).unwrap();
        let as_a_program_that_is_being_started = catalog.lock.try_clone().unwrap();
        drop(catalog);
        KeptCatalog::open_alone(dir.path(), "metadata", 1).unwrap();
        drop(as_a_program_that_is_being_started);
    }

    fn rename(from: &str, to: &str) -> CatalogOperation {
        CatalogOperation::Rename { from: from.into(), to: to.into(), taken: Taken::Replaced }
    }

    #[test]
    fn a_rename_that_is_cut_short_leaves_one_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let open = || KeptCatalog::open_alone(dir.path(), "metadata", 1).unwrap();
        let mut catalog = open();
        let (first, second) = (create(&mut catalog, "a"), create(&mut catalog, "b"));
        let before = catalog.journal_bytes();
        catalog.serve(&rename("a", "b"), Origin { client: 1, request: 9 }).unwrap();
        drop(catalog);
        let whole = std::fs::read(&path).unwrap();
        let mut renamed = 0;
        for cut in before as usize..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut catalog = open();
            let list = |prefix: &str| CatalogOperation::List {
                prefix: prefix.into(),
                after: String::new(),
                limit: 10,
            };
            let Ok(Answer::Files(found)) = catalog.serve(&list(""), Origin::default()) else {
                panic!("no listing");
            };
            let found: Vec<_> = found.iter().map(|file| (&file.name[..], file.file)).collect();
            if found == [("b", first.file)] {
                renamed += 1;
            } else {
                assert_eq!(found, [("a", first.file), ("b", second.file)], "cut at {cut}");
            }
        }
        assert_eq!(renamed, 1, "only the whole record renames");
    }

    #[test]
    fn a_journal_of_version_1_is_read_and_made_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut catalog = KeptCatalog::open_shared(dir.path(), "dirs", 1).unwrap();
        let record = create(&mut catalog, "old");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[..8].copy_from_slice(&FIRST_MAGIC);
        for restored in [false, true] {
            std::fs::write(&path, &bytes).unwrap();
            if !restored {
                catalog = KeptCatalog::open_shared(dir.path(), "dirs", 1).unwrap();
            }
            // When it was put there under a catalog in use, the next operation finds it.
            let answer = catalog.serve(&rename("old", "new"), Origin::default());
            assert_eq!(answer, Ok(Answer::Done));
            assert_eq!(std::fs::read(&path).unwrap()[..8], MAGIC);
            let mut again = KeptCatalog::open_shared(dir.path(), "dirs", 1).unwrap();
            let open = CatalogOperation::Open { name: "new".into() };
            let renamed = FileRecord { name: "new".into(), ..record.clone() };
            assert_eq!(again.serve(&open, Origin::default()), Ok(Answer::File(renamed)));
        }
    }

    #[test]
    fn two_that_share_a_directory_see_each_others_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut ours = KeptCatalog::open_shared(dir.path(), "dirs", 1).unwrap();
        let mut theirs = KeptCatalog::open_shared(dir.path(), "dirs", 1).unwrap();
        let record = create(&mut ours, "a");
        let open = CatalogOperation::Open { name: "a".into() };
        assert_eq!(theirs.serve(&open, Origin::default()), Ok(Answer::File(record)));
        // A third one may rewrite the journal when it opens it.
        Journal::rewrite(&dir.path().join("journal"), ours.catalog.changes()).unwrap();
        let second = create(&mut theirs, "b");
        let open = CatalogOperation::Open { name: "b".into() };
        assert_eq!(ours.serve(&open, Origin::default()), Ok(Answer::File(second)));
    }
}
