//! The memory of a segment, and the only unsafe code of the shared controllers.
//!
//! It is sound because all that is ever made of the memory is a shared reference to a structure of
//! atomic integers: any bytes are valid values of it, any number of processes may change them at
//! any time, and no reference outlives its mapping, which is never removed. What the values mean is
//! checked where they are used, by code that is safe.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::image::{Image, LAYOUT, MAGIC};

/// Lanes that one process lends to its threads at most.
pub(super) const POOL: usize = 32;

/// Threads of one process that keep a lane to themselves at most.
pub(super) const KEPT: usize = 16;

/// What a process keeps to itself; all zeros again in a forked child.
#[repr(C, align(4096))]
pub(super) struct Own {
    /// Who this process is, see [`super::identity`]; zero before it was asked.
    pub(super) identity: AtomicU64,
    /// The lanes that it lends, see [`super::lanes`].
    pub(super) lanes: [AtomicU32; POOL],
    /// Those that threads keep.
    pub(super) kept: [KeptLane; KEPT],
}

/// A lane that a thread keeps.
#[repr(C)]
pub(super) struct KeptLane {
    /// The thread's number, or one of the states in [`super::lanes`].
    pub(super) thread: AtomicU32,
    /// One more than the lane; zero before it was claimed.
    pub(super) lane: AtomicU32,
}

/// A mapped segment. It stays mapped until the process ends, since others in the process may be
/// inside at any time.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) image: &'static Image,
    pub(super) own: &'static Own,
    file: FileName,
}

/// Where the segment's file is, for kernels that cannot promise memory for a mapping: none for
/// memory without a file, or a name that is too long.
#[derive(Clone, Copy)]
struct FileName {
    bytes: [u8; 256],
}

impl Memory {
    /// Maps `file`, which is a segment of the right size and stands under `name`.
    pub(super) fn of_file(file: BorrowedFd<'_>, name: &CStr) -> Result<Self, Errno> {
        let (size, access) = (size_of::<Image>(), ProtFlags::READ | ProtFlags::WRITE);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), size, access, flags, file, 0) }?;
        let mut bytes = [0; 256];
        if let Some(room) = bytes.get_mut(..name.count_bytes()) {
            room.copy_from_slice(name.to_bytes());
        }
        // SAFETY: `start` is page-aligned, readable and writable for `size` bytes for ever, and any
        // bytes are an `Image`, which has no fields but atomic integers.
        let image = unsafe { &*start.cast::<Image>() };
        Self::with(image, bytes)
    }

    /// Memory that this process and its forked children share, with an empty segment in it.
    pub(super) fn without_file() -> Result<Self, Errno> {
        let (size, access) = (size_of::<Image>(), ProtFlags::READ | ProtFlags::WRITE);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: as above.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), size, access, flags) }?;
        // SAFETY: as above.
        let image = unsafe { &*start.cast::<Image>() };
        image.header.size.store(size as u64, Relaxed);
        image.header.layout.store(LAYOUT, Relaxed);
        image.header.magic.store(MAGIC, Relaxed);
        Self::with(image, [0; 256])
    }

    fn with(image: &'static Image, bytes: [u8; 256]) -> Result<Self, Errno> {
        let start = ptr::from_ref(image).cast_mut().cast();
        // SAFETY: only keeps the mapping out of core files; where that is unknown, it is no harm.
        let _ = unsafe { rustix::mm::madvise(start, size_of::<Image>(), Advice::LinuxDontDump) };
        let (size, access) = (size_of::<Own>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: as above, a new mapping.
        let own = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), size, access, MapFlags::PRIVATE)
        }?;
        // SAFETY: the mapping was just made and nobody knows it. The kernel clears it in a forked
        // child, before any code of that child runs.
        unsafe { rustix::mm::madvise(own, size, Advice::LinuxWipeOnFork) }?;
        // SAFETY: as above; `Own` has no fields but atomic integers.
        let own = unsafe { &*own.cast::<Own>() };
        Ok(Self { image, own, file: FileName { bytes } })
    }

    /// Makes sure that touching `part` finds memory: in a memory file system that is full, it would
    /// end the process.
    pub(super) fn back<T: ?Sized>(&self, part: &T) -> Result<(), Errno> {
        let image = ptr::from_ref(self.image).addr();
        let from = (ptr::from_ref(part).addr() - image) / 4096 * 4096;
        let to = (ptr::from_ref(part).addr() - image + size_of_val(part)).next_multiple_of(4096);
        let start = ptr::from_ref(self.image).cast_mut().wrapping_byte_add(from).cast();
        // SAFETY: this writes no byte, it only has the kernel find pages for a part of a mapping
        // that exists for as long as the process does.
        let backed = unsafe { rustix::mm::madvise(start, to - from, Advice::LinuxPopulateWrite) };
        match backed {
            // The kernel is older than 5.14.
            Err(Errno::INVAL) => self.file.allocate(from, to - from),
            // What touching it would find: no room.
            Err(Errno::FAULT) => Err(Errno::NOSPC),
            other => other,
        }
    }
}

impl FileName {
    fn allocate(&self, from: usize, length: usize) -> Result<(), Errno> {
        let name = CStr::from_bytes_until_nul(&self.bytes).map_err(|_| Errno::NAMETOOLONG)?;
        if name.is_empty() {
            return Ok(());
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(name, flags, Mode::empty())?;
        let (from, length) = (from as u64, length as u64);
        rustix::fs::fallocate(file.as_fd(), FallocateFlags::empty(), from, length)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Memory").field(&ptr::from_ref(self.image)).finish()
    }
}
