//! Calls that make durable what was written.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;

use afflux_core::class::Class;
use afflux_node::calls::{Call, Kind};
use libc::{off_t, size_t};

use crate::gate::Passing;
use crate::next::{counted, interpose};
use crate::{behind, look, run, thread};

type OneFn = unsafe extern "C-unwind" fn(c_int) -> c_int;

interpose! {
    fsync => fsync_with [libc::SYS_fsync] (fd: c_int) -> c_int;
    fdatasync => fdatasync_with [libc::SYS_fdatasync] (fd: c_int) -> c_int;
}

counted! {
    sync => sync_with Sync () -> ();
    syncfs => syncfs_with Sync (fd: c_int) -> c_int;
    sync_file_range => sync_file_range_with SyncFileRange
        (fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int;
    msync => msync_with Msync (at: *mut c_void, bytes: size_t, flags: c_int) -> c_int;
}

/// A call that makes at most this much durable is one request, and takes its turn as one. More than
/// that the kernel cuts into many requests, of which nobody here sees the ends; it is only counted.
/// Write-behind is for programs that do so.
const ONE_REQUEST: u64 = 1 << 20;

unsafe fn fsync_with(next: OneFn, fd: c_int) -> c_int {
    // SAFETY: the program's own call.
    durable(Call::Fsync, fd, || unsafe { next(fd) })
}

unsafe fn fdatasync_with(next: OneFn, fd: c_int) -> c_int {
    // SAFETY: the program's own call.
    durable(Call::Fdatasync, fd, || unsafe { next(fd) })
}

fn durable(call: Call, fd: c_int, real: impl FnOnce() -> c_int) -> c_int {
    if run::active().is_none() {
        return real();
    }
    let regulated = look::at(fd).filter(|(_, seen)| seen.is_regulated());
    let Some((row, seen)) = regulated else {
        let result = real();
        run::count(call, Kind::Other, 0);
        return result;
    };
    let bytes = row.unsynced.load(Relaxed);
    let mut passing = Passing::none();
    let is_one = (1..=ONE_REQUEST).contains(&bytes);
    let holds = thread::hold_cancellation();
    if is_one {
        run::hook((), |run| passing.enter(run, Class::Write, seen, 0, bytes));
    }
    let result = real();
    run::count(call, Kind::Regulated, 0);
    if result == 0 {
        // What was written meanwhile by others stays noted.
        row.unsynced.fetch_sub(bytes, Relaxed);
        behind::synced(fd);
    }
    if is_one {
        run::hook((), |run| passing.leave_durable(run, result as isize, bytes));
    }
    if holds {
        thread::allow_cancellation();
    }
    result
}
