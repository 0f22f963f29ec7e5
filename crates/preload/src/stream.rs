//! Streams of the C library: what lies in their buffers, and what of a call goes through them.
//!
//! A call that the buffer answers moves nothing and is only counted. What the C library does when a
//! buffer is empty or full cannot be intercepted, so it is told from the buffer before and after
//! the call. Its layout is part of the C library's binary interface: old programs read it in line.
//!
//! `unsafe` here: the fields of a stream are read through the program's pointer, which the call
//! itself is about to follow. No lock is taken; another thread may change them at the same time,
//! and then a count is off by what that thread moved.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

use afflux_core::class::Class;
use afflux_node::calls::{Call, Kind};

use crate::descriptors::{Descriptor, Seen};
use crate::gate::{self, Passing, Transfer};
use crate::{look, run};

/// The head of the structure behind a stream, as `bits/types/struct_FILE.h` has it.
#[repr(C)]
struct Head {
    flags: c_int,
    read_ptr: *mut c_char,
    read_end: *mut c_char,
    read_base: *mut c_char,
    write_base: *mut c_char,
    write_ptr: *mut c_char,
    write_end: *mut c_char,
    buffer_base: *mut c_char,
    buffer_end: *mut c_char,
    save_base: *mut c_char,
    backup_base: *mut c_char,
    save_end: *mut c_char,
    markers: *mut c_void,
    chain: *mut c_void,
    fileno: c_int,
    more_flags: c_int,
    old_offset: i64,
    column: [u8; 4],
    lock: *mut c_void,
    offset: i64,
    codecs: *mut c_void,
    wide: *const Wide,
    lists: [*mut c_void; 3],
    /// Positive in a stream of wide characters, which are pushed back elsewhere.
    mode: c_int,
}

const _: () =
    assert!(!cfg!(target_pointer_width = "64") || std::mem::offset_of!(Head, mode) == 192);

/// The head of what a stream keeps of wide characters, in the same order.
#[repr(C)]
struct Wide {
    read_ptr: *mut libc::wchar_t,
    read_end: *mut libc::wchar_t,
    read_base: *mut libc::wchar_t,
    write_base: *mut libc::wchar_t,
    write_ptr: *mut libc::wchar_t,
    write_end: *mut libc::wchar_t,
    buffer_base: *mut libc::wchar_t,
    buffer_end: *mut libc::wchar_t,
    save_base: *mut libc::wchar_t,
    backup_base: *mut libc::wchar_t,
    save_end: *mut libc::wchar_t,
}

/// A stream of the program's.
#[derive(Clone, Copy)]
pub(crate) struct Stream(*const Head);

/// Set in a stream whose next bytes are those that the program has pushed back into it.
const IN_BACKUP: c_int = 0x100;

/// Set in a stream that cannot be read.
const NO_READS: c_int = 4;

/// What a stream's buffer holds of its file, and where: addresses, but for the last.
#[derive(Clone, Copy)]
pub(crate) struct Filled {
    /// Whether the stream can be read.
    pub(crate) reads: bool,
    pub(crate) buffer: usize,
    /// Bytes of the buffer; zero before there is one.
    pub(crate) size: usize,
    pub(crate) at: usize,
    /// Zero while what was pushed back is read.
    pub(crate) base: usize,
    pub(crate) end: usize,
    /// Where in the file the buffer ends, as far as the C library knows; else negative.
    pub(crate) position: i64,
}

/// The buffer of a stream's wide characters, and where the next one is put in it.
#[derive(Clone, Copy)]
pub(crate) struct WidePlace {
    base: *const libc::wchar_t,
    at: *const libc::wchar_t,
    end: *const libc::wchar_t,
}

impl WidePlace {
    /// The `count` characters that were put into the buffer since `before`, in one or two parts:
    /// once full, it is written and filled anew from its start, and keeps what is not overwritten.
    /// None when they are no longer there, or more were written than it keeps.
    pub(crate) fn put_since(
        self,
        before: Self,
        count: usize,
    ) -> Option<[&'static [libc::wchar_t]; 2]> {
        let from = if before.base == self.base { before.at } else { self.base };
        let wide = size_of::<libc::wchar_t>();
        let between = |one: *const libc::wchar_t, other: *const libc::wchar_t| {
            let bytes = other.addr().checked_sub(one.addr())?;
            bytes.is_multiple_of(wide).then_some(bytes / wide)
        };
        let [head, tail] = match between(from, self.at) {
            Some(put) if put == count => [(from, put), (from, 0)],
            Some(_) => return None,
            None => [(from, between(from, self.end)?), (self.base, between(self.base, self.at)?)],
        };
        if from.is_null() || head.1 + tail.1 != count {
            return None;
        }
        // SAFETY: the stream's own buffer, between its own marks; see the module. Nobody keeps it.
        Some([head, tail].map(|(at, length)| unsafe { std::slice::from_raw_parts(at, length) }))
    }
}

/// The part of a stream's buffer that was read and not yet asked for, and how many bytes that were
/// pushed back come before it.
#[derive(Clone, Copy)]
struct Ahead {
    at: usize,
    end: usize,
    base: usize,
    pushed: usize,
    wide: Option<WideAhead>,
}

/// The same of a stream's wide characters, made of what was read.
#[derive(Clone, Copy)]
struct WideAhead {
    at: usize,
    is_empty: bool,
}

impl Ahead {
    /// Bytes that can be had without reading.
    fn there(self) -> usize {
        self.end.saturating_sub(self.at) + self.pushed
    }

    /// Whether there are wide characters that can be had without reading.
    fn has_wide(self) -> bool {
        self.wide.is_some_and(|wide| !wide.is_empty)
    }
}

impl Stream {
    /// The stream behind a pointer; none behind a null one.
    #[inline]
    pub(crate) fn of(file: *mut libc::FILE) -> Option<Self> {
        (!file.is_null()).then_some(Self(file.cast_const().cast()))
    }

    /// Its descriptor; negative for streams that have none.
    #[inline]
    pub(crate) fn fd(self) -> c_int {
        // SAFETY: see the module.
        unsafe { (&raw const (*self.0).fileno).read_volatile() }
    }

    #[inline]
    fn ahead(self) -> Ahead {
        // SAFETY: see the module.
        unsafe {
            let at = (&raw const (*self.0).read_ptr).read_volatile().addr();
            let end = (&raw const (*self.0).read_end).read_volatile().addr();
            let in_backup = (&raw const (*self.0).flags).read_volatile() & IN_BACKUP != 0;
            let is_wide = (&raw const (*self.0).mode).read_volatile() > 0;
            if is_wide || !in_backup {
                let base = (&raw const (*self.0).read_base).read_volatile().addr();
                let wide = if is_wide { self.wide_ahead(in_backup) } else { None };
                return Ahead { at, end, base, pushed: 0, wide };
            }
            // The two areas have changed places until all that was pushed back is read again.
            let base = (&raw const (*self.0).save_base).read_volatile().addr();
            let pushed = end.saturating_sub(at);
            let end = (&raw const (*self.0).save_end).read_volatile().addr();
            Ahead { at: base, end, base, pushed, wide: None }
        }
    }

    #[cold]
    fn wide_ahead(self, in_backup: bool) -> Option<WideAhead> {
        // SAFETY: see the module; a stream of wide characters has this part.
        unsafe {
            let wide = (&raw const (*self.0).wide).read_volatile();
            if wide.is_null() {
                return None;
            }
            let at = (&raw const (*wide).read_ptr).read_volatile().addr();
            let is_empty = at >= (&raw const (*wide).read_end).read_volatile().addr();
            if !in_backup {
                return Some(WideAhead { at, is_empty });
            }
            let at = (&raw const (*wide).save_base).read_volatile().addr();
            let main = at < (&raw const (*wide).save_end).read_volatile().addr();
            Some(WideAhead { at, is_empty: is_empty && !main })
        }
    }

    /// What its buffer holds of the file, and where.
    pub(crate) fn filled(self) -> Filled {
        // SAFETY: see the module.
        unsafe {
            let flags = (&raw const (*self.0).flags).read_volatile();
            let buffer = (&raw const (*self.0).buffer_base).read_volatile().addr();
            let buffer_end = (&raw const (*self.0).buffer_end).read_volatile().addr();
            let at = (&raw const (*self.0).read_ptr).read_volatile().addr();
            let base = (&raw const (*self.0).read_base).read_volatile().addr();
            Filled {
                reads: flags & NO_READS == 0,
                buffer,
                size: buffer_end.saturating_sub(buffer),
                at,
                base: if flags & IN_BACKUP == 0 { base } else { 0 },
                end: (&raw const (*self.0).read_end).read_volatile().addr(),
                position: (&raw const (*self.0).offset).read_volatile(),
            }
        }
    }

    /// Where the next wide character is put in its buffer; none in a stream that has none.
    pub(crate) fn wide_place(self) -> Option<WidePlace> {
        // SAFETY: see the module; the part is there as long as the stream is.
        unsafe {
            let wide = (&raw const (*self.0).wide).read_volatile();
            (!wide.is_null()).then(|| WidePlace {
                base: (&raw const (*wide).buffer_base).read_volatile(),
                at: (&raw const (*wide).write_ptr).read_volatile(),
                end: (&raw const (*wide).buffer_end).read_volatile(),
            })
        }
    }

    /// Bytes that wait in the buffer to be written.
    #[inline]
    pub(crate) fn pending(self) -> u64 {
        // SAFETY: see the module.
        unsafe {
            let base = (&raw const (*self.0).write_base).read_volatile().addr();
            let at = (&raw const (*self.0).write_ptr).read_volatile().addr();
            at.saturating_sub(base) as u64
        }
    }

    /// Bytes that may still be put into the buffer.
    #[inline]
    fn room(self) -> u64 {
        // SAFETY: see the module.
        unsafe {
            let end = (&raw const (*self.0).write_end).read_volatile().addr();
            let at = (&raw const (*self.0).write_ptr).read_volatile().addr();
            end.saturating_sub(at) as u64
        }
    }
}

/// How much a call takes from a stream.
#[derive(Clone, Copy)]
pub(crate) enum Wants {
    /// So many bytes.
    Bytes(usize),
    /// All up to a byte, or so many.
    Through(u8),
    /// Nobody knows before.
    Some,
}

/// Makes a call that reads from a stream. `consumed` tells from its result how many bytes it took,
/// where that can be told.
#[inline]
pub(crate) fn read<R>(
    call: Call,
    file: *mut libc::FILE,
    wants: Wants,
    real: impl FnOnce() -> R,
    consumed: impl FnOnce(&R) -> Option<u64>,
) -> R {
    let stream = Stream::of(file).filter(|stream| run::active().is_some() && stream.fd() >= 0);
    let Some(stream) = stream else { return real() };
    let before = stream.ahead();
    let there = before.there();
    if let Wants::Bytes(wanted) = wants
        && wanted <= there
    {
        let result = real();
        run::count(call, Kind::Other, 0);
        return result;
    }
    refill(call, stream, before, wants, real, consumed)
}

fn refill<R>(
    call: Call,
    stream: Stream,
    before: Ahead,
    wants: Wants,
    real: impl FnOnce() -> R,
    consumed: impl FnOnce(&R) -> Option<u64>,
) -> R {
    let there = before.there();
    let bytes = match wants {
        Wants::Bytes(wanted) => wanted - there,
        _ => BUFFER,
    };
    let transfer = Transfer::here(call, stream.fd(), bytes);
    let regulated = look::at(stream.fd());
    // A regulated stream whose buffer may do is let pass; whether it does is asked where it can be.
    let sure = there == 0 || matches!(wants, Wants::Bytes(_)) || has_none(before, wants);
    let sure = sure && !before.has_wide();
    let regulated = regulated.filter(|(_, seen)| seen.is_regulated() && sure);
    let mut passing = Passing::none();
    let entry =
        regulated.map(|(row, seen)| (gate::enter(&transfer, row, seen, &mut passing), row, seen));
    let result = real();
    let fetched = fetched(before, stream.ahead(), consumed(&result)) as isize;
    match entry {
        Some((entry, row, seen)) => {
            gate::leave(&entry, &mut passing, &transfer, row, seen, fetched);
        }
        None => {
            let seen = look::at(stream.fd());
            run::count(call, seen.map_or(Kind::Other, |(_, seen)| seen.kind()), fetched);
        }
    }
    result
}

/// What the C library reads at once for a stream, unless it was told otherwise.
const BUFFER: usize = 4096;

/// Bytes of the longest character of any encoding.
const LONGEST: usize = 16;

/// Whether the byte that ends the call is known not to lie in the buffer.
fn has_none(ahead: Ahead, wants: Wants) -> bool {
    let (Wants::Through(byte), 0) = (wants, ahead.pushed) else { return false };
    let length = ahead.end.saturating_sub(ahead.at);
    // SAFETY: the stream's own buffer, between its own marks; see the module.
    let bytes = unsafe { std::slice::from_raw_parts(ahead.at as *const u8, length) };
    !bytes.contains(&byte)
}

/// Bytes that a call brought into the buffer, or past it to the program.
fn fetched(before: Ahead, after: Ahead, consumed: Option<u64>) -> u64 {
    match consumed {
        Some(consumed) => (consumed + after.there() as u64).saturating_sub(before.there() as u64),
        None if after.wide.is_some() && before.there() < LONGEST => {
            // All but the beginning of a character had been made wide.
            let is_new = match (before.wide, after.wide) {
                (Some(before), Some(after)) => before.is_empty || after.at < before.at,
                _ => true,
            };
            let filled = after.end.saturating_sub(after.base).saturating_sub(before.there());
            if is_new { filled as u64 } else { 0 }
        }
        // Filled anew at least once; a call that filled it more often is counted as if once.
        None if after.end != before.end || after.at < before.at => {
            after.end.saturating_sub(after.base) as u64
        }
        None => 0,
    }
}

/// Makes a call that writes to a stream, or to where it stands. `most` is what it will put there at
/// most, as far as that is known; `produced` tells from its result how many bytes it put there.
///
/// Bytes that the program put into the buffer in line, without a call, are counted with the next.
#[inline]
pub(crate) fn write<R>(
    call: Call,
    file: *mut libc::FILE,
    most: Option<u64>,
    real: impl FnOnce() -> R,
    produced: impl FnOnce(&R) -> u64,
) -> R {
    let stream = Stream::of(file).filter(|stream| run::active().is_some() && stream.fd() >= 0);
    let Some(stream) = stream else { return real() };
    let Some((row, seen)) = look::at(stream.fd()) else { return real() };
    let before = stream.pending();
    let in_line = before.saturating_sub(row.buffered.load(Relaxed).into());
    let reaches = seen.is_regulated() && (seen.is_synchronous() || seen.is_direct());
    if reaches && most.is_some_and(|most| most > stream.room()) {
        return write_through(call, stream, row, seen, real, produced);
    }
    let result = real();
    let produced = produced(&result);
    let after = stream.pending();
    row.buffered.store(u32::try_from(after).unwrap_or(u32::MAX), Relaxed);
    run::count(call, seen.kind(), (produced + in_line) as isize);
    let flushed = (before + produced).saturating_sub(after);
    if seen.is_regulated() && flushed > 0 {
        flush(stream.fd(), flushed);
    }
    result
}

/// Makes a call that throws away what waits in the buffer of a stream; nobody will write it.
pub(crate) fn purge(file: *mut libc::FILE, real: impl FnOnce()) {
    real();
    let stream = Stream::of(file).filter(|stream| run::active().is_some() && stream.fd() >= 0);
    if let Some((stream, (row, _))) = stream.and_then(|s| Some((s, look::at(s.fd())?))) {
        row.buffered.store(u32::try_from(stream.pending()).unwrap_or(u32::MAX), Relaxed);
        run::count_call(Call::StreamSeek);
    }
}

/// A call that empties the buffer of a stream whose writes reach the server.
#[inline(never)]
fn write_through<R>(
    call: Call,
    stream: Stream,
    row: &'static Descriptor,
    seen: Seen,
    real: impl FnOnce() -> R,
    produced: impl FnOnce(&R) -> u64,
) -> R {
    let before = stream.pending();
    let transfer = Transfer::here(call, stream.fd(), before.max(1) as usize);
    let mut passing = Passing::none();
    let entry = gate::enter(&transfer, row, seen, &mut passing);
    let result = real();
    let after = stream.pending();
    row.buffered.store(u32::try_from(after).unwrap_or(u32::MAX), Relaxed);
    let written = (before + produced(&result)).saturating_sub(after);
    gate::leave(&entry, &mut passing, &transfer, row, seen, written as isize);
    result
}

/// Counts what lies in the buffer of a stream that is about to be closed.
pub(crate) fn count_closing(stream: Stream) {
    let Some((row, seen)) = look::at(stream.fd()) else { return };
    let pending = stream.pending();
    let in_line = pending.saturating_sub(row.buffered.load(Relaxed).into());
    run::count(Call::StreamClose, seen.kind(), in_line as isize);
    if seen.is_regulated() && pending > 0 {
        flush(stream.fd(), pending);
    }
}

/// Notes bytes that left a stream's buffer for the page cache.
fn flush(fd: c_int, bytes: u64) {
    let Some((row, seen)) = look::at(fd) else { return };
    if let Some(run) = run::active() {
        gate::moved(run, Class::Write, seen.place(), 0, bytes);
        gate::wrote(run, row, seen, fd, None, bytes);
    }
}

/// At the end of the program: counts what was put in line into the buffers of the standard streams,
/// which the C library will write when nobody is there to see it.
pub(crate) fn count_last() {
    if run::active().is_none() {
        return;
    }
    // SAFETY: the C library's own variables, valid as long as it is.
    let streams = unsafe { [stdout, stderr] };
    for stream in streams.into_iter().filter_map(Stream::of) {
        if let Some((row, seen)) = look::at(stream.fd()) {
            let in_line = stream.pending().saturating_sub(row.buffered.load(Relaxed).into());
            run::count(Call::StreamFlush, seen.kind(), in_line as isize);
        }
    }
}

unsafe extern "C" {
    pub(crate) static stdin: *mut libc::FILE;
    pub(crate) static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}
