//! What the program's descriptors stand for, as far as was found out: one word for each, changed
//! without a lock.
//!
//! A descriptor is looked at when it is first used, whoever opened it, and forgotten when it is
//! closed or replaced. The word carries a generation, so that what was found out about the old file
//! is never kept for a new one. A wrong word does no harm to data: the program's own call is made
//! on its own descriptor whatever stands here.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use afflux_node::calls::Kind;

/// Descriptors that are told apart; those above are counted as such.
const MOST: usize = 1 << 16;

/// What is kept of one descriptor.
pub(crate) struct Descriptor {
    /// Generation in the upper half; in the lower what a [`Seen`] holds.
    word: AtomicU64,
    /// Bytes that lay in the buffer of its stream after the last call.
    pub(crate) buffered: AtomicU32,
    /// Reads in a row that the page cache answered, see [`crate::cache`].
    pub(crate) cached_reads: AtomicU32,
    /// Bytes written since the last call that made them durable.
    pub(crate) unsynced: AtomicU64,
    /// What was written in a row, see [`crate::behind`]: its first byte, and how many.
    pub(crate) row_start: AtomicU64,
    pub(crate) row_bytes: AtomicU64,
}

static TABLE: [Descriptor; MOST] = [const {
    Descriptor {
        word: AtomicU64::new(0),
        buffered: AtomicU32::new(0),
        cached_reads: AtomicU32::new(0),
        unsynced: AtomicU64::new(0),
        row_start: AtomicU64::new(0),
        row_bytes: AtomicU64::new(0),
    }
}; MOST];

/// What was found out about a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u32);

const KNOWN: u32 = 1;
const REGULATED: u32 = 2;
const OTHER: u32 = 4;
const DIRECT: u32 = 8;
const SYNCHRONOUS: u32 = 16;
const NON_BLOCKING: u32 = 32;
const NO_PROBE: u32 = 64;
const NO_RESIDENCY: u32 = 128;
const PLACE_SHIFT: u32 = 16;

impl Seen {
    /// A file that is regulated, and where it lies.
    pub(crate) const fn regulated(place: u16, flags: c_int) -> Self {
        let mut word = KNOWN | REGULATED | (place as u32) << PLACE_SHIFT;
        if flags & libc::O_DIRECT != 0 {
            word |= DIRECT;
        }
        // O_SYNC contains the bit of O_DSYNC.
        if flags & libc::O_DSYNC != 0 {
            word |= SYNCHRONOUS;
        }
        if flags & libc::O_NONBLOCK != 0 {
            word |= NON_BLOCKING;
        }
        Self(word)
    }

    /// A file that is not.
    pub(crate) const FILE: Self = Self(KNOWN);
    /// No file.
    pub(crate) const OTHER: Self = Self(KNOWN | OTHER);

    pub(crate) const fn kind(self) -> Kind {
        if self.0 & REGULATED != 0 {
            Kind::Regulated
        } else if self.0 & OTHER != 0 {
            Kind::Other
        } else {
            Kind::File
        }
    }

    pub(crate) const fn is_regulated(self) -> bool {
        self.0 & REGULATED != 0
    }

    /// Past the page cache.
    pub(crate) const fn is_direct(self) -> bool {
        self.0 & DIRECT != 0
    }

    /// Every write is durable when it returns.
    pub(crate) const fn is_synchronous(self) -> bool {
        self.0 & SYNCHRONOUS != 0
    }

    pub(crate) const fn is_non_blocking(self) -> bool {
        self.0 & NON_BLOCKING != 0
    }

    /// Its file system does not know reads that end rather than wait.
    pub(crate) const fn lacks_probe(self) -> bool {
        self.0 & NO_PROBE != 0
    }

    /// The kernel does not say what of it lies in the page cache.
    pub(crate) const fn lacks_residency(self) -> bool {
        self.0 & NO_RESIDENCY != 0
    }

    /// Number of the place where it lies.
    pub(crate) const fn place(self) -> u16 {
        (self.0 >> PLACE_SHIFT) as u16
    }
}

/// The row of a descriptor; none above the table.
#[inline]
pub(crate) fn row(fd: c_int) -> Option<&'static Descriptor> {
    TABLE.get(usize::try_from(fd).ok()?)
}

impl Descriptor {
    /// What was found out, if anything was.
    #[inline]
    pub(crate) fn seen(&self) -> Option<Seen> {
        let seen = Seen(self.word.load(Relaxed) as u32);
        (seen.0 & KNOWN != 0).then_some(seen)
    }

    /// The generation, to be handed to [`Descriptor::learn`].
    pub(crate) fn generation(&self) -> u32 {
        (self.word.load(Relaxed) >> 32) as u32
    }

    /// Keeps what was found out, unless the descriptor was closed meanwhile.
    pub(crate) fn learn(&self, generation: u32, seen: Seen) {
        let old = self.word.load(Relaxed);
        if (old >> 32) as u32 == generation {
            let new = old & !0xffff_ffff | u64::from(seen.0);
            let _ = self.word.compare_exchange(old, new, Relaxed, Relaxed);
        }
    }

    /// Reads that end rather than wait are not known here.
    pub(crate) fn lacks_probe(&self) {
        self.word.fetch_or(u64::from(NO_PROBE), Relaxed);
    }

    /// What lies in the page cache is not told here.
    pub(crate) fn lacks_residency(&self) {
        self.word.fetch_or(u64::from(NO_RESIDENCY), Relaxed);
    }

    /// Forgets everything: the descriptor stands for something else from now on.
    pub(crate) fn forget(&self) {
        let old = self.word.load(Relaxed);
        // What was never looked at has nothing to forget but its generation, which a look that is
        // under way compares; so it moves on in any case.
        let next = ((old >> 32) + 1) << 32;
        self.word.store(next, Relaxed);
        if old as u32 != 0 {
            self.buffered.store(0, Relaxed);
            self.cached_reads.store(0, Relaxed);
            self.unsynced.store(0, Relaxed);
            self.row_bytes.store(0, Relaxed);
        }
    }
}

/// Forgets one descriptor.
#[inline]
pub(crate) fn forget(fd: c_int) {
    if let Some(row) = row(fd) {
        row.forget();
    }
}

/// Forgets all descriptors from `first` to `last`, both included.
pub(crate) fn forget_range(first: u32, last: u32) {
    let (first, last) = (first as usize, (last as usize).min(MOST - 1));
    for row in TABLE.get(first..=last).unwrap_or_default() {
        // Rows that were never used are not written: their pages need not exist.
        if row.word.load(Relaxed) as u32 != 0 {
            row.forget();
        }
    }
}
