//! The names of servers, numbered alike in all processes.
//!
//! A name is entered with one compare-and-swap of its hash. Whoever enters or finds it writes the
//! text if it is not there yet, so that nobody's death leaves half of one.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::image::{NAME_BYTES, NAMES, Name};
use super::{Full, Shared};

/// FNV-1a of 64 bits.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Shared {
    /// The number of a server's name, which is the same in all processes. Names are told apart by
    /// a hash; their first 112 bytes are kept.
    ///
    /// # Errors
    /// There are too many names.
    pub fn name(&self, name: &str) -> Result<u32, Full> {
        let hash = hash(name.as_bytes()).max(1);
        for probe in 0..NAMES {
            let at = (hash as usize).wrapping_add(probe) % NAMES;
            let entry = &self.memory.image.names[at];
            let found = match entry.hash.load(Acquire) {
                0 => {
                    entry.hash.compare_exchange(0, hash, AcqRel, Acquire).unwrap_or_else(|now| now)
                }
                found => found,
            };
            if found == 0 || found == hash {
                write_text(entry, name);
                return Ok(at as u32 + 1);
            }
        }
        Err(Full { what: "names", most: NAMES })
    }

    /// The name behind a number of [`Shared::name`], as far as it was kept. Allocates.
    pub fn name_of(&self, number: u32) -> Option<String> {
        text(self.memory.image.names.get((number as usize).checked_sub(1)?)?)
    }
}

/// What is kept of a name. Allocates.
pub(super) fn text(entry: &Name) -> Option<String> {
    let length = (entry.length.load(Acquire) as usize).min(NAME_BYTES);
    let bytes: Vec<u8> =
        entry.text.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    (length > 0).then(|| String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// Writes another name over the one that is there. Only for who has it to itself.
pub(super) fn write(entry: &Name, hash: u64, name: &str) {
    entry.hash.store(hash, Relaxed);
    entry.length.store(0, Relaxed);
    write_text(entry, name);
}

fn write_text(entry: &Name, name: &str) {
    if entry.length.load(Acquire) != 0 {
        return;
    }
    let bytes = &name.as_bytes()[..name.len().min(NAME_BYTES)];
    for (word, part) in entry.text.iter().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..part.len()].copy_from_slice(part);
        word.store(u64::from_le_bytes(eight), Relaxed);
    }
    entry.length.store(bytes.len() as u64, Release);
}
