//! Calls that change a file's size or a descriptor's position, map it, name it, or ask about it.
//! They move no bytes through the program, and are counted.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use afflux_node::calls::{Call, Cause, Kind};
use libc::{mode_t, off_t, size_t, ssize_t};

use crate::next::{counted, interpose};
use crate::{look, raw, run};

interpose! {
    mmap | mmap64 => mmap_with [libc::SYS_mmap]
        (at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int,
         offset: off_t) -> *mut c_void;
}

counted! {
    lseek | lseek64 | llseek | __lseek => lseek_with Seek
        (fd: c_int, offset: off_t, whence: c_int) -> off_t;
    ftruncate | ftruncate64 => ftruncate_with Truncate (fd: c_int, bytes: off_t) -> c_int;
    truncate | truncate64 => truncate_with Truncate (path: *const c_char, bytes: off_t) -> c_int;
    fallocate | fallocate64 => fallocate_with Allocate
        (fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int;
    posix_fallocate | posix_fallocate64 => posix_fallocate_with Allocate
        (fd: c_int, offset: off_t, bytes: off_t) -> c_int;
    posix_fadvise | posix_fadvise64 => fadvise_with Advise
        (fd: c_int, offset: off_t, bytes: off_t, advice: c_int) -> c_int;
    readahead => readahead_with Advise (fd: c_int, offset: off_t, bytes: size_t) -> ssize_t;
    munmap => munmap_with Map (at: *mut c_void, bytes: size_t) -> c_int;
    // The address is a variable argument, as `mmap` itself takes it.
    mremap => mremap_with Map
        (at: *mut c_void, bytes: size_t, new_bytes: size_t, flags: c_int, to: *mut c_void)
        -> *mut c_void;
    madvise => madvise_with Advise (at: *mut c_void, bytes: size_t, advice: c_int) -> c_int;
    stat | stat64 | lstat | lstat64 => stat_with Stat
        (path: *const c_char, to: *mut c_void) -> c_int;
    fstat | fstat64 => fstat_with Stat (fd: c_int, to: *mut c_void) -> c_int;
    fstatat | fstatat64 => fstatat_with Stat
        (folder: c_int, path: *const c_char, to: *mut c_void, flags: c_int) -> c_int;
    __xstat | __xstat64 | __lxstat | __lxstat64 => xstat_with Stat
        (version: c_int, path: *const c_char, to: *mut c_void) -> c_int;
    __fxstat | __fxstat64 => fxstat_with Stat
        (version: c_int, fd: c_int, to: *mut c_void) -> c_int;
    __fxstatat | __fxstatat64 => fxstatat_with Stat
        (version: c_int, folder: c_int, path: *const c_char, to: *mut c_void, flags: c_int)
        -> c_int;
    statx => statx_with Stat
        (folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut c_void) -> c_int;
    statfs | statfs64 | statvfs | statvfs64 => statfs_with Stat
        (path: *const c_char, to: *mut c_void) -> c_int;
    fstatfs | fstatfs64 | fstatvfs | fstatvfs64 => fstatfs_with Stat
        (fd: c_int, to: *mut c_void) -> c_int;
    rename | link => rename_with Name (from: *const c_char, to: *const c_char) -> c_int;
    renameat => renameat_with Name
        (old: c_int, from: *const c_char, new: c_int, to: *const c_char) -> c_int;
    renameat2 => renameat2_with Name
        (old: c_int, from: *const c_char, new: c_int, to: *const c_char, flags: c_uint) -> c_int;
    linkat => linkat_with Name
        (old: c_int, from: *const c_char, new: c_int, to: *const c_char, flags: c_int) -> c_int;
    unlink | remove | rmdir | chdir => unlink_with Name (path: *const c_char) -> c_int;
    unlinkat => unlinkat_with Name
        (folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    mkdir => mkdir_with Name (path: *const c_char, mode: mode_t) -> c_int;
    mkdirat => mkdirat_with Name
        (folder: c_int, path: *const c_char, mode: mode_t) -> c_int;
    fchdir => fchdir_with Name (fd: c_int) -> c_int;
}

/// Where the entries for submissions lie in a ring of io_uring: what a program maps first.
const RING_OFFSETS: [off_t; 3] = [0, 0x0800_0000, 0x1000_0000];

unsafe fn mmap_with(
    next: unsafe extern "C-unwind" fn(
        *mut c_void,
        size_t,
        c_int,
        c_int,
        c_int,
        off_t,
    ) -> *mut c_void,
    at: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the program's own call.
    let mapped = unsafe { next(at, bytes, protection, flags, fd, offset) };
    if run::active().is_some() {
        run::count_call(Call::Map);
        if flags & libc::MAP_ANONYMOUS == 0 && mapped != libc::MAP_FAILED {
            note_mapping(fd, bytes as u64, offset);
        }
    }
    mapped
}

/// Counts a mapping of a file, whose loads and stores nobody sees, and of a ring of io_uring.
fn note_mapping(fd: c_int, bytes: u64, offset: off_t) {
    let seen = look::at(fd).map(|(_, seen)| seen);
    if seen.is_some_and(|seen| seen.is_regulated()) {
        run::tally().escape(Cause::Mapped, bytes);
    } else if RING_OFFSETS.contains(&offset) {
        let mut name = [0; 64];
        if raw::name_of(fd, &mut name) == Some(b"anon_inode:[io_uring]") {
            run::count_call(Call::Ring);
            run::tally().escape(Cause::IoUring, 0);
        }
    }
}

/// Calls by number: they are made as they are, and those that move bytes are counted as escaped.
mod numbered {
    use super::*;

    type SyscallFn =
        unsafe extern "C-unwind" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

    interpose! {
        syscall => syscall_with []
            (number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
    }

    const READS: &[c_long] =
        &[libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2];
    const WRITES: &[c_long] = &[
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_writev,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_copy_file_range,
        libc::SYS_sendfile,
    ];

    #[allow(clippy::too_many_arguments, reason = "a system call has six, and its number")]
    unsafe fn syscall_with(
        next: SyscallFn,
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> c_long {
        // SAFETY: the program's own call.
        let result = unsafe { next(number, a, b, c, d, e, f) };
        if run::active().is_some() {
            note(number, a as c_int, result);
        }
        result
    }

    fn note(number: c_long, fd: c_int, result: c_long) {
        let call = if READS.contains(&number) {
            Call::NumberedRead
        } else if WRITES.contains(&number) {
            Call::NumberedWrite
        } else {
            run::count_call(Call::Numbered);
            if number == libc::SYS_close {
                crate::descriptors::forget(fd);
            } else if number == libc::SYS_io_uring_setup {
                run::count_call(Call::Ring);
                run::tally().escape(Cause::IoUring, 0);
            }
            return;
        };
        let kind = look::at(fd).map_or(Kind::Other, |(_, seen)| seen.kind());
        run::count(call, kind, result as isize);
        if kind == Kind::Regulated {
            run::tally().escape(Cause::ByNumber, result.max(0) as u64);
        }
    }
}
