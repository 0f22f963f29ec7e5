//! The catalog's journal: an append-only file of checksummed changes.
//!
//! Format, version 2, little endian: eight bytes `AFXJNL2\n`, then records of length (4 bytes),
//! CRC32C of the body (4 bytes), and the body, a [`Change`] in JSON of at most
//! [`MAX_RECORD_BYTES`]. Version 1 had no renames and is otherwise the same: it is read, and
//! rewritten before anything is appended to it.
//!
//! A record is appended by one write and acknowledged after it, which a killed process survives; a
//! machine that loses power may lose the last of them. What a torn write left at the end is cut
//! off, and kept beside the journal for those who want to look at it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Change;

/// What a journal starts with.
pub const MAGIC: [u8; 8] = *b"AFXJNL2\n";
/// What one of version 1 starts with.
pub const FIRST_MAGIC: [u8; 8] = *b"AFXJNL1\n";
/// The longest body of a record.
pub const MAX_RECORD_BYTES: usize = 64 << 10;
const FRAME_BYTES: usize = 8;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error("cannot {what} the catalog's journal {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error("{} is not a catalog journal of version 1 or 2: move it away", .0.display())]
    Foreign(PathBuf),
    /// A record in the middle is damaged.
    #[error(
        "the catalog's journal {} is damaged at byte {at}: {why}; records follow it, so this is no \
         crash: restore the file from a copy, or cut it there with `truncate -s {at}`",
        path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where the record starts.
        at: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// A journal, open for appending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    end: u64,
    is_outdated: bool,
    // A failed append that could not be undone: what follows it would be unreadable.
    broken: bool,
}

impl Journal {
    /// Opens the journal at `path` and makes it when it is missing. Nothing is read yet.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |what| move |source| io_error(what, path, source);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(failed("open"))?;
        let length = file.metadata().map_err(failed("examine"))?.len();
        let mut magic = [0; MAGIC.len()];
        let have = (length as usize).min(magic.len());
        file.read_exact(&mut magic[..have]).map_err(failed("read"))?;
        let is_outdated = magic == FIRST_MAGIC;
        // What a kill left of the first write is the beginning of either.
        if !is_outdated && ![MAGIC, FIRST_MAGIC].iter().any(|ours| magic[..have] == ours[..have]) {
            return Err(JournalError::Foreign(path.to_owned()));
        }
        if have < MAGIC.len() {
            file.seek(SeekFrom::Start(0)).map_err(failed("read"))?;
            file.write_all(&MAGIC).map_err(failed("write"))?;
        }
        let (path, end) = (path.to_owned(), MAGIC.len() as u64);
        Ok(Self { path, file, end, is_outdated, broken: false })
    }

    /// Whether it is of an older version: to be rewritten before it is appended to.
    pub const fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Writes a journal of just `changes` in the place of the one at `path`, whole or not at all.
    pub fn rewrite(
        path: &Path,
        changes: impl Iterator<Item = Change>,
    ) -> Result<Self, JournalError> {
        let fresh = path.with_extension("new");
        let failed = |what| move |source| io_error(what, path, source);
        let mut bytes = MAGIC.to_vec();
        for change in changes {
            push_record(&mut bytes, &change);
        }
        let mut file = File::create(&fresh).map_err(failed("rewrite"))?;
        file.write_all(&bytes).map_err(failed("rewrite"))?;
        file.sync_data().map_err(failed("rewrite"))?;
        std::fs::rename(&fresh, path).map_err(failed("replace"))?;
        let mut journal = Self::open(path)?;
        journal.end = bytes.len() as u64;
        Ok(journal)
    }

    /// Whether the file at the journal's path is another one by now, or the journal shrank.
    pub fn is_replaced(&self) -> bool {
        let ours = self.file.metadata().map(|ours| (ours.ino(), ours.dev()));
        let there = std::fs::metadata(&self.path);
        let shrank = there.as_ref().is_ok_and(|there| there.len() < self.end);
        shrank || ours.ok() != there.map(|there| (there.ino(), there.dev())).ok()
    }

    /// Reads the records after those that were read or appended so far. Returns how many bytes of a
    /// torn record were cut off at the end; they are kept in a file that ends in `.torn`.
    pub fn catch_up(&mut self, mut apply: impl FnMut(&Change)) -> Result<u64, JournalError> {
        let path = self.path.clone();
        let failed = |what| io_error_of(what, &path);
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(self.end)).map_err(failed("read"))?;
        self.file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let mut at = 0;
        while at < bytes.len() {
            match read_record(&bytes[at..]) {
                Ok((change, taken)) => {
                    apply(&change);
                    at += taken;
                }
                Err(Unreadable::Torn) => break,
                Err(Unreadable::Damaged(why)) => {
                    return Err(JournalError::Damaged { path, at: self.end + at as u64, why });
                }
            }
        }
        self.end += at as u64;
        let torn = &bytes[at..];
        if !torn.is_empty() {
            std::fs::write(path.with_extension("torn"), torn).map_err(failed("copy the end of"))?;
            self.file.set_len(self.end).map_err(failed("cut"))?;
        }
        Ok(torn.len() as u64)
    }

    /// Appends a change. After an error nothing of it remains.
    pub fn append(&mut self, change: &Change) -> Result<(), JournalError> {
        let failed = |source| io_error("append to", &self.path, source);
        if self.broken {
            let why = "an earlier append failed half-way, restart the server when there is space";
            return Err(failed(io::Error::other(why)));
        }
        let mut bytes = Vec::new();
        push_record(&mut bytes, change);
        let written = self.file.seek(SeekFrom::Start(self.end));
        let written = written.and_then(|_| self.file.write_all(&bytes));
        if let Err(source) = written {
            self.broken = self.file.set_len(self.end).is_err();
            return Err(failed(source));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Length of the part that was read or written.
    pub const fn bytes(&self) -> u64 {
        self.end
    }
}

fn push_record(bytes: &mut Vec<u8>, change: &Change) {
    // A change is plain data with string keys, which always has a JSON form.
    let body = serde_json::to_vec(change).unwrap_or_default();
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&crate::crc::crc32c(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
}

enum Unreadable {
    Torn,
    Damaged(String),
}

/// The record at the start of `bytes`. An append that was cut short leaves the beginning of a good
/// record and nothing after it; anything else was not made by a crash of ours.
fn read_record(bytes: &[u8]) -> Result<(Change, usize), Unreadable> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Err(Unreadable::Torn);
    }
    let Some(([length, crc], rest)) = split_frame(bytes) else { return Err(Unreadable::Torn) };
    let length = length as usize;
    if length == 0 || length > MAX_RECORD_BYTES {
        return Err(Unreadable::Damaged(format!("a record of {length} bytes")));
    }
    let Some(body) = rest.get(..length) else { return Err(Unreadable::Torn) };
    let last = rest.len() == length;
    if crate::crc::crc32c(body) != crc {
        let why = "the checksum is wrong".to_owned();
        return Err(if last { Unreadable::Torn } else { Unreadable::Damaged(why) });
    }
    match serde_json::from_slice(body) {
        Ok(change) => Ok((change, FRAME_BYTES + length)),
        Err(error) => Err(Unreadable::Damaged(error.to_string())),
    }
}

fn split_frame(bytes: &[u8]) -> Option<([u32; 2], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    Some(([u32::from_le_bytes(*length), u32::from_le_bytes(*crc)], rest))
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::Io { what, path: path.to_owned(), source }
}

fn io_error_of(what: &'static str, path: &Path) -> impl Fn(io::Error) -> JournalError {
    move |source| io_error(what, path, source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Change::Extended;

    fn filled(path: &Path) -> Vec<Change> {
        let changes: Vec<_> =
            (1..20).map(|file| Extended { file, size_bytes: file * 1000 }).collect();
        let mut journal = Journal::open(path).unwrap();
        for change in &changes {
            journal.append(change).unwrap();
        }
        changes
    }

    fn read(path: &Path) -> Result<(Vec<Change>, u64), JournalError> {
        let mut changes = Vec::new();
        let torn = Journal::open(path)?.catch_up(|change| changes.push(change.clone()))?;
        Ok((changes, torn))
    }

    #[test]
    fn cut_anywhere_it_keeps_every_whole_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let changes = filled(&path);
        let whole = std::fs::read(&path).unwrap();
        let mut before = 0;
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (kept, torn) = read(&path).unwrap();
            assert_eq!(kept[..], changes[..kept.len()]);
            assert!(kept.len() >= before, "{cut}");
            before = kept.len();
            // What was dropped is gone from the journal, so that appending goes on behind the rest.
            assert_eq!(read(&path).unwrap(), (kept, 0), "{cut} {torn}");
        }
        assert_eq!(before, changes.len());
    }

    #[test]
    fn damage_in_the_middle_is_refused_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        filled(&path);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, b"AFXJNL3\n").unwrap();
        assert!(matches!(read(&path), Err(JournalError::Foreign(_))), "a later version");
        let mut bytes = whole;
        bytes[30] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("damaged at byte 8"), "{error}");
        std::fs::write(&path, "something else").unwrap();
        assert!(matches!(read(&path), Err(JournalError::Foreign(_))));
    }
}
