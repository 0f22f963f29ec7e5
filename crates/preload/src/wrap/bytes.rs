//! Calls that move bytes between a descriptor and memory, or between two descriptors.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came.

use std::ffi::{c_int, c_void};

use afflux_core::class::Class;
use afflux_node::calls::{Call, Cause, Kind};
use libc::{iovec, off_t, size_t, ssize_t};

use crate::descriptors::Seen;
use crate::gate::{self, Transfer};
use crate::next::{counted, interpose, within};
use crate::{look, run};

type PreadFn = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, off_t) -> ssize_t;

interpose! {
    pread | pread64 | __pread64 => pread_with [libc::SYS_pread64]
        (fd: c_int, to: *mut c_void, bytes: size_t, offset: off_t) -> ssize_t;
    copy_file_range => copy_with []
        (from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t,
         flags: u32) -> ssize_t;
    sendfile | sendfile64 => sendfile_with [libc::SYS_sendfile]
        (to: c_int, from: c_int, from_at: *mut off_t, bytes: size_t) -> ssize_t;
    splice => splice_with []
        (from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t,
         flags: u32) -> ssize_t;
}

within! {
    read | __read => read_with [libc::SYS_read]
        (fd: c_int, to: *mut c_void, bytes: size_t) -> ssize_t
        { real: gate::pass(&Transfer::here(Call::Read, fd, bytes), real) }
    write | __write => write_with [libc::SYS_write]
        (fd: c_int, from: *const c_void, bytes: size_t) -> ssize_t
        { real: gate::pass(&Transfer::here(Call::Write, fd, bytes), real) }
    pwrite | pwrite64 | __pwrite64 => pwrite_with [libc::SYS_pwrite64]
        (fd: c_int, from: *const c_void, bytes: size_t, offset: off_t) -> ssize_t
        { real: gate::pass(&at(Call::Pwrite, fd, bytes, offset), real) }
    readv => readv_with [libc::SYS_readv] (fd: c_int, to: *const iovec, count: c_int) -> ssize_t
        { real: gate::pass(&listed(Call::Readv, fd, to, count, None), real) }
    writev => writev_with [libc::SYS_writev]
        (fd: c_int, from: *const iovec, count: c_int) -> ssize_t
        { real: gate::pass(&listed(Call::Writev, fd, from, count, None), real) }
    preadv | preadv64 => preadv_with [libc::SYS_preadv]
        (fd: c_int, to: *const iovec, count: c_int, offset: off_t) -> ssize_t
        { real: gate::pass(&triable(listed(Call::Preadv, fd, to, count, Some(offset))), real) }
    pwritev | pwritev64 => pwritev_with [libc::SYS_pwritev]
        (fd: c_int, from: *const iovec, count: c_int, offset: off_t) -> ssize_t
        { real: gate::pass(&listed(Call::Pwritev, fd, from, count, Some(offset)), real) }
    preadv2 | preadv64v2 => preadv2_with []
        (fd: c_int, to: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t
        { real: {
            // Its flags make it unlike the one that would be tried, so none is.
            let impatient = flags & libc::RWF_NOWAIT != 0;
            let transfer = listed(Call::Preadv2, fd, to, count, Some(offset));
            gate::pass(&Transfer { impatient, ..transfer }, real)
        } }
    pwritev2 | pwritev64v2 => pwritev2_with []
        (fd: c_int, from: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t
        { real: {
            let synchronous = flags & (libc::RWF_SYNC | libc::RWF_DSYNC) != 0;
            let transfer = listed(Call::Pwritev2, fd, from, count, Some(offset));
            gate::pass(&Transfer { synchronous, ..transfer }, real)
        } }
    // The checked ones may end the program where the buffer is too small, so that none is tried.
    __read_chk => read_chk_with []
        (fd: c_int, to: *mut c_void, bytes: size_t, room: size_t) -> ssize_t
        { real: gate::pass(&Transfer::here(Call::Read, fd, bytes), real) }
    __pread_chk | __pread64_chk => pread_chk_with []
        (fd: c_int, to: *mut c_void, bytes: size_t, offset: off_t, room: size_t) -> ssize_t
        { real: gate::pass(&at(Call::Pread, fd, bytes, offset), real) }
}

counted! {
    tee => tee_with Tee (from: c_int, to: c_int, bytes: size_t, flags: u32) -> ssize_t;
    vmsplice => vmsplice_with Vmsplice
        (fd: c_int, from: *const iovec, count: size_t, flags: u32) -> ssize_t;
}

/// A transfer at an offset.
const fn at(call: Call, fd: c_int, bytes: usize, offset: off_t) -> Transfer {
    let offset = if offset < 0 { None } else { Some(offset as u64) };
    Transfer { offset, ..Transfer::here(call, fd, bytes) }
}

/// A transfer from or to a list of buffers. The list is read by whoever wants its length, and only
/// with the kernel's help, since it may not be there.
const fn listed(
    call: Call,
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: Option<off_t>,
) -> Transfer {
    let transfer = match offset {
        Some(offset) => at(call, fd, 0, offset),
        None => Transfer::here(call, fd, 0),
    };
    Transfer { list: Some((list, count)), ..transfer }
}

/// A transfer whose buffers may be tried first.
const fn triable(transfer: Transfer) -> Transfer {
    Transfer { is_triable: true, ..transfer }
}

unsafe fn pread_with(
    next: PreadFn,
    fd: c_int,
    to: *mut c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    let one = iovec { iov_base: to, iov_len: bytes };
    let list = Some((&raw const one, 1));
    let transfer = triable(Transfer { list, ..at(Call::Pread, fd, bytes, offset) });
    // SAFETY: the program's own call, whose buffer may be tried first.
    unsafe { gate::pass(&triable(transfer), || next(fd, to, bytes, offset)) }
}

/// Counts a call between two descriptors: bytes as read from one and written to the other, which is
/// how the kernel counts them. `ended_at` is where the call left its own offset, if it had one.
fn across(calls: [Call; 2], from: c_int, to: c_int, ended_at: *const off_t, result: isize) {
    let Some(run) = run::active() else { return };
    let bytes = result.max(0) as u64;
    let (from, into) = (look::at(from), look::at(to));
    let kind = |seen: Option<Seen>| seen.map_or(Kind::Other, Seen::kind);
    run::count(calls[0], kind(into.map(|(_, seen)| seen)), result);
    run::count_bytes(calls[1], kind(from.map(|(_, seen)| seen)), bytes);
    if let Some((row, seen)) = into.filter(|(_, seen)| bytes > 0 && seen.is_regulated()) {
        // SAFETY: the call succeeded, so that the kernel has just written there.
        let end = (!ended_at.is_null()).then(|| unsafe { *ended_at } as u64);
        let offset = end.map(|end| end.saturating_sub(bytes));
        gate::moved(run, Class::Write, seen.place(), offset.unwrap_or(0), bytes);
        gate::wrote(run, row, seen, to, offset, bytes);
    }
    if let Some((_, seen)) = from.filter(|(_, seen)| bytes > 0 && seen.is_regulated()) {
        gate::moved(run, Class::Read, seen.place(), 0, bytes);
    }
}

unsafe fn copy_with(
    next: unsafe extern "C-unwind" fn(c_int, *mut off_t, c_int, *mut off_t, size_t, u32) -> ssize_t,
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    bytes: size_t,
    flags: u32,
) -> ssize_t {
    // SAFETY: the program's own call.
    let result = unsafe { next(from, from_at, to, to_at, bytes, flags) };
    across([Call::CopyFileRange, Call::CopiedFrom], from, to, to_at, result);
    result
}

unsafe fn sendfile_with(
    next: unsafe extern "C-unwind" fn(c_int, c_int, *mut off_t, size_t) -> ssize_t,
    to: c_int,
    from: c_int,
    from_at: *mut off_t,
    bytes: size_t,
) -> ssize_t {
    // SAFETY: the program's own call.
    let result = unsafe { next(to, from, from_at, bytes) };
    across([Call::Sendfile, Call::SentFrom], from, to, std::ptr::null(), result);
    result
}

unsafe fn splice_with(
    next: unsafe extern "C-unwind" fn(c_int, *mut off_t, c_int, *mut off_t, size_t, u32) -> ssize_t,
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    bytes: size_t,
    flags: u32,
) -> ssize_t {
    // SAFETY: the program's own call.
    let result = unsafe { next(from, from_at, to, to_at, bytes, flags) };
    across([Call::Splice, Call::SplicedFrom], from, to, to_at, result);
    let regulated = |fd| look::at(fd).is_some_and(|(_, seen)| seen.is_regulated());
    if run::active().is_some() && result > 0 && (regulated(from) || regulated(to)) {
        run::tally().escape(Cause::Spliced, result as u64);
    }
    result
}
