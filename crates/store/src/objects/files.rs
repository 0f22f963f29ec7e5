//! Objects in files: one file for each under `objects/xx/` of a directory.
//!
//! An object's bytes and length are those of its file, so a restart needs nothing else and a killed
//! process loses nothing that `pwrite` accepted.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;

use super::buffer::ALIGNMENT;
use super::{ObjectError, end_of};
use crate::engine::ObjectId;
use crate::sync::lock;

// Descriptors kept open; a default limit is 1024 for a process.
const MAX_OPEN: usize = 400;

/// How objects are kept in files.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// Most bytes, counted by the lengths of the objects.
    pub capacity_bytes: u64,
    /// Go past the page cache where alignment and file system allow.
    pub direct: bool,
    /// Other processes remove and create objects here too; capacity is not counted then.
    pub shared: bool,
}

/// Objects in files.
#[derive(Debug)]
pub struct ObjectFiles {
    root: PathBuf,
    options: FileOptions,
    direct: bool,
    stored_bytes: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<ObjectId, Arc<Object>>,
    opened: VecDeque<ObjectId>,
}

#[derive(Debug, Default)]
struct Object {
    state: Mutex<ObjectState>,
}

#[derive(Debug, Default)]
struct ObjectState {
    length_bytes: u64,
    files: Option<Arc<OpenFiles>>,
    removed: bool,
}

/// An object's file, opened twice where direct I/O works: for aligned transfers and for the rest.
#[derive(Debug)]
struct OpenFiles {
    buffered: File,
    direct: Option<File>,
}

impl ObjectFiles {
    /// Opens the objects under `root` and makes the directory when it is missing.
    pub fn open(root: &Path, options: FileOptions) -> Result<Self, ObjectError> {
        let objects = root.join("objects");
        std::fs::create_dir_all(&objects).map_err(io_error("make", &objects))?;
        let direct = options.direct && takes_direct(root);
        let files = Self {
            root: objects,
            options,
            direct,
            stored_bytes: AtomicU64::new(0),
            table: Mutex::default(),
        };
        if !options.shared {
            let mut stored = 0;
            let mut table = lock(&files.table);
            files.scan(|id, length_bytes| {
                stored += length_bytes;
                let state = ObjectState { length_bytes, ..ObjectState::default() };
                table.objects.insert(id, Arc::new(Object { state: Mutex::new(state) }));
            })?;
            drop(table);
            files.stored_bytes.store(stored, Ordering::Relaxed);
        }
        Ok(files)
    }

    /// Whether aligned transfers go past the page cache.
    pub const fn is_direct(&self) -> bool {
        self.direct
    }

    /// The lengths of all objects together.
    pub fn stored_bytes(&self) -> Result<u64, ObjectError> {
        if !self.options.shared {
            return Ok(self.stored_bytes.load(Ordering::Relaxed));
        }
        let mut stored = 0;
        self.scan(|_, length_bytes| stored += length_bytes)?;
        Ok(stored)
    }

    /// Objects and their lengths in bytes, in order; those known, which is all unless shared.
    pub fn lengths(&self) -> Vec<(ObjectId, u64)> {
        let table = lock(&self.table);
        table.objects.iter().map(|(&id, object)| (id, lock(&object.state).length_bytes)).collect()
    }

    /// The length of an object in bytes, zero when it is not there; not for shared directories.
    pub fn length(&self, id: ObjectId) -> u64 {
        let object = lock(&self.table).objects.get(&id).cloned();
        object.map_or(0, |object| lock(&object.state).length_bytes)
    }

    /// Whether a write of so many bytes would fit now; others may take the room before it comes.
    pub fn check_room(
        &self,
        id: ObjectId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), ObjectError> {
        let growth = end_of(offset_bytes, length_bytes)?.saturating_sub(self.length(id));
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        let fits = stored.saturating_add(growth) <= self.options.capacity_bytes;
        if growth == 0 || fits { Ok(()) } else { Err(ObjectError::NoSpace) }
    }

    /// Writes; creates the object when it is missing.
    pub fn write(&self, id: ObjectId, offset_bytes: u64, data: &[u8]) -> Result<(), ObjectError> {
        let end = end_of(offset_bytes, data.len() as u64)?;
        loop {
            let object = self.object(id);
            let mut state = lock(&object.state);
            if state.removed {
                continue;
            }
            let growth = end.saturating_sub(state.length_bytes);
            if growth > 0 && !self.options.shared {
                self.reserve(growth)?;
            }
            let before = state.length_bytes;
            state.length_bytes = before.max(end);
            let files = match self.files_of(id, &mut state, true) {
                Ok(Some(files)) => files,
                Ok(None) => continue,
                Err(error) => {
                    state.length_bytes = before;
                    self.release(growth);
                    return Err(error);
                }
            };
            drop(state);
            // A transfer that fails keeps what was reserved for it until the object is removed:
            // others may have written behind it by then.
            self.write_all(id, &files, offset_bytes, data)?;
            if !self.is_stale(id, &object, &files) {
                return Ok(());
            }
        }
    }

    /// Reads into `buffer` and returns how many bytes there were before the object's end.
    pub fn read(
        &self,
        id: ObjectId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<usize, ObjectError> {
        end_of(offset_bytes, buffer.len() as u64)?;
        loop {
            let Some(object) = self.known(id) else { return Ok(0) };
            let mut state = lock(&object.state);
            if state.removed {
                return Ok(0);
            }
            let Some(files) = self.files_of(id, &mut state, false)? else { return Ok(0) };
            drop(state);
            let read = self.read_all(id, &files, offset_bytes, buffer)?;
            if !self.is_stale(id, &object, &files) {
                return Ok(read);
            }
        }
    }

    /// Removes an object, if it is there.
    pub fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        let mut table = lock(&self.table);
        let Some(object) = table.objects.get(&id).cloned() else {
            drop(table);
            return if self.options.shared { self.unlink(id) } else { Ok(()) };
        };
        let mut state = lock(&object.state);
        // The file stays open until the locks are released: freeing its blocks takes long.
        let files = self.files_of(id, &mut state, false);
        self.unlink(id)?;
        table.objects.remove(&id);
        state.removed = true;
        state.files = None;
        let length_bytes = std::mem::take(&mut state.length_bytes);
        drop(state);
        drop(table);
        self.release(length_bytes);
        drop(files);
        Ok(())
    }

    fn unlink(&self, id: ObjectId) -> Result<(), ObjectError> {
        let path = self.path(id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(io_error("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    fn reserve(&self, bytes: u64) -> Result<(), ObjectError> {
        let add = |stored: u64| {
            stored.checked_add(bytes).filter(|&sum| sum <= self.options.capacity_bytes)
        };
        let order = Ordering::Relaxed;
        self.stored_bytes.fetch_update(order, order, add).map_err(|_| ObjectError::NoSpace)?;
        Ok(())
    }

    fn release(&self, bytes: u64) {
        if !self.options.shared {
            self.stored_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// The object's entry, made when it is missing.
    fn object(&self, id: ObjectId) -> Arc<Object> {
        Arc::clone(lock(&self.table).objects.entry(id).or_default())
    }

    /// The object's entry, if there may be such an object.
    fn known(&self, id: ObjectId) -> Option<Arc<Object>> {
        if self.options.shared {
            return Some(self.object(id));
        }
        lock(&self.table).objects.get(&id).cloned()
    }

    /// The open file of an object; `None` when it is not there and is not to be made.
    fn files_of(
        &self,
        id: ObjectId,
        state: &mut ObjectState,
        create: bool,
    ) -> Result<Option<Arc<OpenFiles>>, ObjectError> {
        if let Some(files) = &state.files {
            return Ok(Some(Arc::clone(files)));
        }
        let path = self.path(id);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(false);
        let opened = match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && create => {
                let dir = path.parent().unwrap_or(&self.root);
                std::fs::create_dir_all(dir).map_err(io_error("make", dir))?;
                options.open(&path)
            }
            other => other,
        };
        let buffered = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound && !create => return Ok(None),
            other => other.map_err(io_error("open", &path))?,
        };
        let direct = if self.direct {
            options.create(false).custom_flags(OFlags::DIRECT.bits() as i32);
            Some(options.open(&path).map_err(io_error("open for direct I/O", &path))?)
        } else {
            None
        };
        let files = Arc::new(OpenFiles { buffered, direct });
        state.files = Some(Arc::clone(&files));
        Ok(Some(files))
    }

    /// Notes that an object was used and closes the one that was opened longest ago, if there are
    /// many. Must be called without a lock on any object.
    fn close_some(&self, id: ObjectId) {
        let mut table = lock(&self.table);
        if table.opened.back() == Some(&id) {
            return;
        }
        table.opened.push_back(id);
        while table.opened.len() > MAX_OPEN {
            let Some(oldest) = table.opened.pop_front() else { break };
            let again = table.opened.contains(&oldest);
            if !again && let Some(object) = table.objects.get(&oldest)
                // One that is being opened or removed right now is left alone.
                && let Ok(mut state) = object.state.try_lock()
            {
                state.files = None;
            }
        }
    }

    /// Whether the file was removed behind our back while it was open here, by another process.
    fn is_stale(&self, id: ObjectId, object: &Object, files: &Arc<OpenFiles>) -> bool {
        self.close_some(id);
        if !self.options.shared || files.buffered.metadata().is_ok_and(|meta| meta.nlink() > 0) {
            return false;
        }
        let mut state = lock(&object.state);
        if state.files.as_ref().is_some_and(|open| Arc::ptr_eq(open, files)) {
            state.files = None;
        }
        true
    }

    fn write_all(
        &self,
        id: ObjectId,
        files: &OpenFiles,
        mut offset: u64,
        mut data: &[u8],
    ) -> Result<(), ObjectError> {
        while !data.is_empty() {
            let file = files.suited(offset, data);
            match file.write_at(data, offset) {
                Ok(0) => {
                    return Err(io_error("write", &self.path(id))(ErrorKind::WriteZero.into()));
                }
                Ok(written) => {
                    data = &data[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error("write", &self.path(id))(error)),
            }
        }
        Ok(())
    }

    fn read_all(
        &self,
        id: ObjectId,
        files: &OpenFiles,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, ObjectError> {
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut buffer[done..];
            let file = files.suited(offset + done as u64, rest);
            match file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error("read", &self.path(id))(error)),
            }
        }
        Ok(done)
    }

    fn path(&self, id: ObjectId) -> PathBuf {
        // The low byte spreads evenly, since files are numbered in a row.
        let dir = format!("{:02x}", id.file & 0xff);
        self.root.join(dir).join(format!("{:x}.{:x}", id.file, id.stripe))
    }

    fn scan(&self, mut found: impl FnMut(ObjectId, u64)) -> Result<(), ObjectError> {
        for dir in std::fs::read_dir(&self.root).map_err(io_error("list", &self.root))? {
            let dir = dir.map_err(io_error("list", &self.root))?.path();
            for entry in std::fs::read_dir(&dir).map_err(io_error("list", &dir))? {
                let entry = entry.map_err(io_error("list", &dir))?;
                let name = entry.file_name();
                let Some(id) = name.to_str().and_then(parse_name) else { continue };
                match entry.metadata() {
                    Ok(metadata) => found(id, metadata.len()),
                    // Others may remove objects while we look, where a directory is shared.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(io_error("examine", &entry.path())(error)),
                }
            }
        }
        Ok(())
    }
}

impl OpenFiles {
    /// The descriptor for a transfer: direct I/O takes whole blocks of aligned memory only.
    fn suited(&self, offset: u64, memory: &[u8]) -> &File {
        let aligned = offset.is_multiple_of(ALIGNMENT as u64)
            && memory.len().is_multiple_of(ALIGNMENT)
            && memory.as_ptr().align_offset(ALIGNMENT) == 0;
        self.direct.as_ref().filter(|_| aligned).unwrap_or(&self.buffered)
    }
}

fn parse_name(name: &str) -> Option<ObjectId> {
    let (file, stripe) = name.split_once('.')?;
    let file = u64::from_str_radix(file, 16).ok()?;
    Some(ObjectId { file, stripe: u32::from_str_radix(stripe, 16).ok()? })
}

/// Whether the file system lets files be opened for direct I/O.
fn takes_direct(dir: &Path) -> bool {
    let path = dir.join("direct-io-probe");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let taken = options.open(&path).is_ok();
    // A probe that cannot be removed was not made.
    let _ = std::fs::remove_file(&path);
    taken
}

fn io_error(what: &'static str, path: &Path) -> impl Fn(io::Error) -> ObjectError {
    move |source| match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ObjectError::NoSpace,
        _ => ObjectError::Io { what, path: path.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectId = ObjectId { file: 0xabc, stripe: 2 };

    fn options(shared: bool, direct: bool) -> FileOptions {
        FileOptions { capacity_bytes: 1 << 20, direct, shared }
    }

    fn contents(files: &ObjectFiles, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![9; length];
        let read = files.read(OBJECT, offset, &mut buffer).unwrap();
        buffer.truncate(read);
        buffer
    }

    #[test]
    fn objects_and_their_lengths_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        for direct in [false, true] {
            let files = ObjectFiles::open(dir.path(), options(false, direct)).unwrap();
            files.write(OBJECT, 5000, b"abc").unwrap();
            files.write(OBJECT, 0, &[7; 8192][..4096]).unwrap();
            drop(files);
            let files = ObjectFiles::open(dir.path(), options(false, direct)).unwrap();
            assert_eq!(files.lengths(), [(OBJECT, 5003)]);
            assert_eq!(files.stored_bytes().unwrap(), 5003);
            assert_eq!(contents(&files, 4990, 100), b"\0\0\0\0\0\0\0\0\0\0abc");
            files.remove(OBJECT).unwrap();
            files.remove(OBJECT).unwrap();
            assert_eq!((files.stored_bytes().unwrap(), contents(&files, 0, 10)), (0, Vec::new()));
        }
    }

    #[test]
    fn capacity_counts_growth_only() {
        let dir = tempfile::tempdir().unwrap();
        let files = ObjectFiles::open(dir.path(), options(false, false)).unwrap();
        files.write(OBJECT, 0, &vec![1; 1 << 20]).unwrap();
        files.write(OBJECT, 0, &vec![2; 1 << 20]).unwrap();
        let other = ObjectId { file: 1, stripe: 0 };
        assert!(matches!(files.write(other, 0, b"x"), Err(ObjectError::NoSpace)));
        files.remove(OBJECT).unwrap();
        files.write(other, 0, b"x").unwrap();
    }

    #[test]
    fn a_file_removed_by_another_process_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let ours = ObjectFiles::open(dir.path(), options(true, false)).unwrap();
        let theirs = ObjectFiles::open(dir.path(), options(true, false)).unwrap();
        ours.write(OBJECT, 0, b"one").unwrap();
        theirs.remove(OBJECT).unwrap();
        assert_eq!(contents(&ours, 0, 10), b"");
        ours.write(OBJECT, 1, b"two").unwrap();
        assert_eq!(contents(&theirs, 0, 10), b"\0two");
        assert_eq!(ours.stored_bytes().unwrap(), 4);
    }

    #[test]
    fn more_objects_than_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let files = ObjectFiles::open(dir.path(), options(false, false)).unwrap();
        let object = |file| ObjectId { file, stripe: 0 };
        for round in 0..2_u8 {
            for file in 0..MAX_OPEN as u64 + 100 {
                files.write(object(file), round.into(), &[round]).unwrap();
            }
        }
        let table = lock(&files.table);
        let open = table.objects.values().filter(|o| lock(&o.state).files.is_some()).count();
        assert!(open <= MAX_OPEN, "{open}");
    }
}
