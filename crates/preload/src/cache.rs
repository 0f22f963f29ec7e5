//! Whether a read will be answered by the page cache, or must wait for a server.
//!
//! Asking costs a system call, more than a cached read can afford. So a descriptor whose last reads
//! were all cached is only clocked, by the processor's counter, and asked about again after one
//! that was slow. Where asking is worth it, the kernel is asked in the cheapest way that it knows:
//!
//! 1. a read at an offset is tried with the flag that makes it end rather than wait: if all is
//!    there, it was the read itself;
//! 2. else the kernel tells how many pages of a range are there (since Linux 6.5);
//! 3. else a read is expected to do what the last did.
//!
//! `docs/run.md` says how well each of them tells.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

use crate::descriptors::Descriptor;
use crate::raw;

/// After so many cached reads in a row the kernel is no longer asked.
const WARM: u32 = 8;

/// A read that took more ticks of the processor's counter than this, and one for each byte, has
/// waited: 30 to 50 µs on today's machines, and copies are faster than a byte a tick.
const TICKS: u64 = 100_000;

/// The system call that tells what of a file lies in the page cache; its number is the same on all
/// machines.
const CACHESTAT: libc::c_long = 451;

/// What was found out about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing was asked: the last reads were cached.
    Warm,
    /// The page cache has all of it.
    Cached,
    /// It was read, so many bytes.
    Read(isize),
    /// A server must answer.
    Missing,
}

/// A read that is about to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) fd: c_int,
    /// Where from; the descriptor's own position when `None`.
    pub(crate) offset: Option<u64>,
    pub(crate) bytes: usize,
    /// Where to, where the read may be tried.
    pub(crate) list: Option<(*const libc::iovec, c_int)>,
}

/// Whether the last reads of a descriptor were all cached.
#[inline]
pub(crate) fn is_warm(row: &Descriptor) -> bool {
    row.cached_reads.load(Relaxed) >= WARM
}

/// Finds out what will come of a read.
pub(crate) fn ask(row: &Descriptor, reading: &Reading) -> Answer {
    let cached_reads = row.cached_reads.load(Relaxed);
    let answer = by_trying(row, reading)
        .or_else(|| by_residency(row, reading))
        .unwrap_or(if cached_reads > 0 { Answer::Warm } else { Answer::Missing });
    match answer {
        Answer::Missing => row.cached_reads.store(0, Relaxed),
        Answer::Cached | Answer::Read(_) => row.cached_reads.store(cached_reads + 1, Relaxed),
        Answer::Warm => {}
    }
    answer
}

/// Notes how long a read took that nobody asked about, in ticks.
pub(crate) fn clocked(row: &Descriptor, ticks: u64, bytes: u64) {
    if ticks > TICKS + bytes {
        row.cached_reads.store(0, Relaxed);
    } else {
        let cached_reads = row.cached_reads.load(Relaxed);
        if cached_reads < WARM {
            row.cached_reads.store(cached_reads + 1, Relaxed);
        }
    }
}

/// A read at an offset that ends rather than waits. If it brought all, or all up to the file's end,
/// the work is done; a part of it is thrown away and read again by the program's own call, which
/// keeps that call whole.
fn by_trying(row: &Descriptor, reading: &Reading) -> Option<Answer> {
    let (offset, (buffers, count)) = (reading.offset?, reading.list?);
    if row.seen()?.lacks_probe() {
        return None;
    }
    let flags = libc::RWF_NOWAIT as usize;
    // SAFETY: the buffers are the program's, for a read of the same bytes; a bad pointer is an
    // error here as there.
    let got = unsafe {
        let fd = reading.fd as usize;
        raw::call(
            libc::SYS_preadv2,
            [fd, buffers as usize, count as usize, offset as usize, 0, flags],
        )
    };
    match got {
        0.. if got as usize == reading.bytes => Some(Answer::Read(got)),
        0.. => {
            let size = raw::stat(reading.fd)?.st_size as u64;
            Some(if offset + got as u64 >= size { Answer::Read(got) } else { Answer::Missing })
        }
        _ if got == -libc::EAGAIN as isize => Some(Answer::Missing),
        _ => {
            row.lacks_probe();
            None
        }
    }
}

/// Asks how many pages of the range are there.
fn by_residency(row: &Descriptor, reading: &Reading) -> Option<Answer> {
    if row.seen()?.lacks_residency() {
        return None;
    }
    let offset = match reading.offset {
        Some(offset) => offset,
        None => raw::position(reading.fd)?,
    };
    let mut pages = resident(reading.fd, offset, reading.bytes as u64);
    if let Some((there, wanted)) = pages
        && there < wanted
    {
        // The range may reach beyond the file's end, where no pages are.
        let size = raw::stat(reading.fd)?.st_size as u64;
        let bytes = size.saturating_sub(offset).min(reading.bytes as u64);
        let wanted = if bytes == 0 { 0 } else { pages_of(offset, bytes) };
        pages = Some((there, wanted));
    }
    match pages {
        Some((there, wanted)) if there >= wanted => Some(Answer::Cached),
        Some(_) => Some(Answer::Missing),
        None => {
            row.lacks_residency();
            None
        }
    }
}

fn pages_of(offset: u64, bytes: u64) -> u64 {
    // SAFETY: no pointers; the C library knows it from the start of the program.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64;
    offset.saturating_add(bytes - 1) / page - offset / page + 1
}

/// Pages of a range that are in the page cache, and how many it has.
fn resident(fd: c_int, offset: u64, bytes: u64) -> Option<(u64, u64)> {
    if bytes == 0 {
        return Some((0, 0));
    }
    // First byte and length; then pages cached, dirty, under write-back, evicted, evicted of late.
    let (range, mut told) = ([offset, bytes], [0_u64; 5]);
    // SAFETY: both structures are of the size that the call has documented.
    let failed = unsafe {
        let args = [fd as usize, range.as_ptr() as usize, told.as_mut_ptr() as usize, 0, 0, 0];
        raw::call(CACHESTAT, args)
    };
    (failed == 0).then(|| (told[0], pages_of(offset, bytes)))
}

/// Pages of a range that are dirty or under write-back; `None` where the kernel does not tell.
pub(crate) fn unwritten(fd: c_int, offset: u64, bytes: u64) -> Option<u64> {
    let (range, mut told) = ([offset, bytes], [0_u64; 5]);
    // SAFETY: as above.
    let failed = unsafe {
        let args = [fd as usize, range.as_ptr() as usize, told.as_mut_ptr() as usize, 0, 0, 0];
        raw::call(CACHESTAT, args)
    };
    (failed == 0).then(|| told[1] + told[2])
}
