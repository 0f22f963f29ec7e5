//! Where the bytes of objects are kept: in files or in memory.

pub mod buffer;
pub mod files;
pub mod memory;

use std::io;
use std::path::PathBuf;

/// Why an object could not be read, written or removed.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The capacity is used up, or the file system is full.
    #[error("no space left")]
    NoSpace,
    /// The range ends beyond what an object can have.
    #[error("bytes {offset_bytes} to {offset_bytes} + {length_bytes} are beyond any object's end")]
    Range {
        /// Its start.
        offset_bytes: u64,
        /// Its length.
        length_bytes: u64,
    },
    /// The system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

// Offsets of files are signed 64-bit numbers.
const MAX_OBJECT_BYTES: u64 = i64::MAX as u64;

/// The end of a range of an object.
fn end_of(offset_bytes: u64, length_bytes: u64) -> Result<u64, ObjectError> {
    offset_bytes
        .checked_add(length_bytes)
        .filter(|&end| end <= MAX_OBJECT_BYTES)
        .ok_or(ObjectError::Range { offset_bytes, length_bytes })
}
