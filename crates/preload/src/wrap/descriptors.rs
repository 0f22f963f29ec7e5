//! Calls that make, copy, change or end descriptors.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came. Functions that
//! the C library declares with a variable part take it as one machine word, which is how both
//! supported machines pass it; garbage that nobody passed is handed on as garbage that nobody
//! reads.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use afflux_node::calls::Call;
use libc::{mode_t, off_t};

use crate::next::{counted, interpose};
use crate::{behind, descriptors, run};

type OpenFn = unsafe extern "C-unwind" fn(*const c_char, c_int, usize) -> c_int;
type OpenAtFn = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, usize) -> c_int;
type OneFn = unsafe extern "C-unwind" fn(c_int) -> c_int;
type TwoFn = unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;

interpose! {
    open | open64 | __open | __open64 => open_with []
        (path: *const c_char, flags: c_int, mode: usize) -> c_int;
    openat | openat64 => open_at_with [libc::SYS_openat]
        (folder: c_int, path: *const c_char, flags: c_int, mode: usize) -> c_int;
    __open_2 | __open64_2 => open_2_with []
        (path: *const c_char, flags: c_int) -> c_int;
    __openat_2 | __openat64_2 => open_at_2_with [libc::SYS_openat]
        (folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    creat | creat64 => creat_with []
        (path: *const c_char, mode: mode_t) -> c_int;
    open_by_handle_at => open_by_handle_with []
        (mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    mkstemp | mkstemp64 => mkstemp_with []
        (template: *mut c_char) -> c_int;
    mkostemp | mkostemp64 | mkstemps | mkstemps64 => mkostemp_with []
        (template: *mut c_char, flags: c_int) -> c_int;
    mkostemps | mkostemps64 => mkostemps_with []
        (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    shm_open => shm_open_with []
        (name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    memfd_create => memfd_with []
        (name: *const c_char, flags: c_uint) -> c_int;
    close | __close => close_with [libc::SYS_close]
        (fd: c_int) -> c_int;
    close_range => close_range_with []
        (first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom => close_from_with []
        (first: c_int) -> ();
    dup => dup_with [libc::SYS_dup]
        (fd: c_int) -> c_int;
    dup2 | __dup2 => dup2_with []
        (fd: c_int, new: c_int) -> c_int;
    dup3 => dup3_with [libc::SYS_dup3]
        (fd: c_int, new: c_int, flags: c_int) -> c_int;
    fcntl | fcntl64 | __fcntl => fcntl_with [libc::SYS_fcntl]
        (fd: c_int, command: c_int, argument: usize) -> c_int;
    pipe => pipe_with []
        (ends: *mut c_int) -> c_int;
    pipe2 => pipe2_with []
        (ends: *mut c_int, flags: c_int) -> c_int;
    socketpair => socketpair_with []
        (domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int;
    pidfd_getfd => pidfd_getfd_with []
        (pidfd: c_int, fd: c_int, flags: c_uint) -> c_int;
    fdopendir => fdopendir_with []
        (fd: c_int) -> *mut c_void;
}

counted! {
    ioctl => ioctl_with DeviceControl (fd: c_int, request: c_ulong, argument: usize) -> c_int;
    flock => flock_with Lock (fd: c_int, operation: c_int) -> c_int;
    lockf | lockf64 => lockf_with Lock (fd: c_int, command: c_int, bytes: off_t) -> c_int;
    // Descriptors that come with a message have numbers that were closed before, and forgotten
    // then.
    recvmsg => recvmsg_with Message (fd: c_int, message: *mut c_void, flags: c_int) -> isize;
    sendmsg => sendmsg_with Message (fd: c_int, message: *const c_void, flags: c_int) -> isize;
}

/// Takes note of a descriptor that a call has made: whatever its number stood for is gone.
fn made(call: Call, fd: c_int) -> c_int {
    descriptors::forget(fd);
    run::count_call(call);
    fd
}

unsafe fn open_with(next: OpenFn, path: *const c_char, flags: c_int, mode: usize) -> c_int {
    // SAFETY: the program's own call; so below.
    made(Call::Open, unsafe { next(path, flags, mode) })
}

unsafe fn open_at_with(
    next: OpenAtFn,
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: usize,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(folder, path, flags, mode) })
}

unsafe fn open_2_with(
    next: unsafe extern "C-unwind" fn(*const c_char, c_int) -> c_int,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(path, flags) })
}

unsafe fn open_at_2_with(
    next: unsafe extern "C-unwind" fn(c_int, *const c_char, c_int) -> c_int,
    folder: c_int,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(folder, path, flags) })
}

unsafe fn creat_with(
    next: unsafe extern "C-unwind" fn(*const c_char, mode_t) -> c_int,
    path: *const c_char,
    mode: mode_t,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(path, mode) })
}

unsafe fn open_by_handle_with(
    next: unsafe extern "C-unwind" fn(c_int, *mut c_void, c_int) -> c_int,
    mount: c_int,
    handle: *mut c_void,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(mount, handle, flags) })
}

unsafe fn mkstemp_with(
    next: unsafe extern "C-unwind" fn(*mut c_char) -> c_int,
    template: *mut c_char,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(template) })
}

unsafe fn mkostemp_with(
    next: unsafe extern "C-unwind" fn(*mut c_char, c_int) -> c_int,
    template: *mut c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(template, flags) })
}

unsafe fn mkostemps_with(
    next: unsafe extern "C-unwind" fn(*mut c_char, c_int, c_int) -> c_int,
    template: *mut c_char,
    suffix: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(template, suffix, flags) })
}

unsafe fn shm_open_with(
    next: unsafe extern "C-unwind" fn(*const c_char, c_int, mode_t) -> c_int,
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(name, flags, mode) })
}

unsafe fn memfd_with(
    next: unsafe extern "C-unwind" fn(*const c_char, c_uint) -> c_int,
    name: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: as above.
    made(Call::Open, unsafe { next(name, flags) })
}

unsafe fn close_with(next: OneFn, fd: c_int) -> c_int {
    behind::closes(fd);
    // Forgotten before, since as soon as it is closed another thread may be given its number.
    descriptors::forget(fd);
    run::count_call(Call::Close);
    // SAFETY: as above.
    unsafe { next(fd) }
}

unsafe fn close_range_with(
    next: unsafe extern "C-unwind" fn(c_uint, c_uint, c_int) -> c_int,
    first: c_uint,
    last: c_uint,
    flags: c_int,
) -> c_int {
    // With flags they may only be marked to be closed; to look at them again does no harm.
    descriptors::forget_range(first, last);
    run::count_call(Call::Close);
    // SAFETY: as above.
    unsafe { next(first, last, flags) }
}

unsafe fn close_from_with(next: unsafe extern "C-unwind" fn(c_int), first: c_int) {
    descriptors::forget_range(first.max(0) as u32, u32::MAX);
    run::count_call(Call::Close);
    // SAFETY: as above.
    unsafe { next(first) }
}

unsafe fn dup_with(next: OneFn, fd: c_int) -> c_int {
    // SAFETY: as above.
    made(Call::Duplicate, unsafe { next(fd) })
}

unsafe fn dup2_with(next: TwoFn, fd: c_int, new: c_int) -> c_int {
    behind::closes(new);
    descriptors::forget(new);
    // SAFETY: as above.
    made(Call::Duplicate, unsafe { next(fd, new) })
}

unsafe fn dup3_with(
    next: unsafe extern "C-unwind" fn(c_int, c_int, c_int) -> c_int,
    fd: c_int,
    new: c_int,
    flags: c_int,
) -> c_int {
    behind::closes(new);
    descriptors::forget(new);
    // SAFETY: as above.
    made(Call::Duplicate, unsafe { next(fd, new, flags) })
}

unsafe fn fcntl_with(
    next: unsafe extern "C-unwind" fn(c_int, c_int, usize) -> c_int,
    fd: c_int,
    command: c_int,
    argument: usize,
) -> c_int {
    // SAFETY: as above.
    let result = unsafe { next(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => return made(Call::Duplicate, result),
        // Its flags say what reaches a server: it is looked at again.
        libc::F_SETFL => descriptors::forget(fd),
        _ => {}
    }
    run::count_call(Call::Control);
    result
}

/// Takes note of two descriptors that a call has made.
unsafe fn pair(ends: *const c_int, result: c_int) -> c_int {
    if result == 0 {
        // SAFETY: the call succeeded, so that the kernel has just written both numbers there.
        unsafe { (descriptors::forget(*ends), descriptors::forget(*ends.wrapping_add(1))) };
    }
    run::count_call(Call::Channel);
    result
}

unsafe fn pipe_with(
    next: unsafe extern "C-unwind" fn(*mut c_int) -> c_int,
    ends: *mut c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe { pair(ends, next(ends)) }
}

unsafe fn pipe2_with(
    next: unsafe extern "C-unwind" fn(*mut c_int, c_int) -> c_int,
    ends: *mut c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe { pair(ends, next(ends, flags)) }
}

unsafe fn socketpair_with(
    next: unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut c_int) -> c_int,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    ends: *mut c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe { pair(ends, next(domain, kind, protocol, ends)) }
}

unsafe fn pidfd_getfd_with(
    next: unsafe extern "C-unwind" fn(c_int, c_int, c_uint) -> c_int,
    pidfd: c_int,
    fd: c_int,
    flags: c_uint,
) -> c_int {
    // SAFETY: as above.
    made(Call::Duplicate, unsafe { next(pidfd, fd, flags) })
}

unsafe fn fdopendir_with(
    next: unsafe extern "C-unwind" fn(c_int) -> *mut c_void,
    fd: c_int,
) -> *mut c_void {
    // It will be closed inside the C library.
    descriptors::forget(fd);
    // SAFETY: as above.
    unsafe { next(fd) }
}
