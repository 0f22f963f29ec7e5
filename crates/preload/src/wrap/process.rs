//! Calls that make processes, turn them into other programs, and end them.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came.

use std::ffi::{c_char, c_int, c_void};

use afflux_node::calls::Call;
use afflux_node::tally::Word;
use libc::pid_t;

use crate::next::{counted, interpose, within};
use crate::{behind, gate, jump, raw, run, strangers};

type ForkFn = unsafe extern "C-unwind" fn() -> pid_t;
type Words = *const *const c_char;

interpose! {
    fork | __fork => fork_with [] () -> pid_t;
    execve => execve_with [libc::SYS_execve]
        (path: *const c_char, arguments: Words, environment: Words) -> c_int;
    execv | execvp => execv_with [] (path: *const c_char, arguments: Words) -> c_int;
    execvpe => execve_with []
        (file: *const c_char, arguments: Words, environment: Words) -> c_int;
    fexecve => fexecve_with [] (fd: c_int, arguments: Words, environment: Words) -> c_int;
    execveat => execveat_with []
        (folder: c_int, path: *const c_char, arguments: Words, environment: Words, flags: c_int)
        -> c_int;
    posix_spawn | posix_spawnp => spawn_with []
        (pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
         arguments: Words, environment: Words) -> c_int;
}

counted! {
    system => system_with Fork (command: *const c_char) -> c_int;
    popen => popen_with Fork (command: *const c_char, mode: *const c_char) -> *mut c_void;
    daemon => daemon_with Fork (keep_folder: c_int, keep_streams: c_int) -> c_int;
    clone => clone_with Fork
        (start: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void, a: usize,
         b: usize, c: usize) -> c_int;
}

within! {
    _exit | _Exit => exit_with [] (status: c_int) -> ()
        { real: {
            run::count_call(Call::Exit);
            run::count_own();
            real()
        } }
    longjmp | _longjmp | siglongjmp | __longjmp_chk => jump_with []
        (to: *mut c_void, value: c_int) -> ()
        { real: {
            gate::jumps(|| jump::target(to));
            real()
        } }
}

/// The C library's `fork` under the name `vfork`, which POSIX allows: the child of a true `vfork`
/// runs in its parent's memory, and what it closes would be forgotten there.
///
/// # Safety
/// As the C library documents it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn vfork() -> pid_t {
    // SAFETY: as it was called.
    unsafe { libc::fork() }
}

/// The same by the name that libraries use.
///
/// # Safety
/// As the C library documents it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __vfork() -> pid_t {
    // SAFETY: as it was called.
    unsafe { libc::fork() }
}

unsafe fn fork_with(next: ForkFn) -> pid_t {
    run::count_call(Call::Fork);
    // SAFETY: the program's own call; so below.
    let result = unsafe { next() };
    if result == 0 {
        behind::forked();
        run::forked();
    }
    result
}

/// Notes that this process is about to become another program: what the kernel has counted until
/// now, so that the reads of the loader can be told apart, and whether that program will be seen.
unsafe fn becomes(path: *const c_char, environment: Words) {
    if run::active().is_none() {
        return;
    }
    run::count_call(Call::Exec);
    run::count_own();
    run::hook((), |_| {
        let tally = run::tally();
        tally.add(Word::Execs, 1);
        // SAFETY: the program's own arguments, which the call itself will read.
        unsafe { strangers::note(path, environment) };
        // Last, and with the look itself: what comes after is taken for the next program's loader.
        if let Some(counts) = run::kernel_counts(&tally, run::PROCESS) {
            tally.set(Word::KernelReadAtExec, counts.read + counts.looked_at);
            tally.set(Word::KernelWrittenAtExec, counts.written);
        }
    });
}

/// Notes a program that a new process is made for.
unsafe fn spawns(path: *const c_char, environment: Words) {
    run::count_call(Call::Fork);
    // SAFETY: the program's own arguments, which the call itself will read.
    run::hook((), |_| unsafe { strangers::note(path, environment) });
}

unsafe fn execve_with(
    next: unsafe extern "C-unwind" fn(*const c_char, Words, Words) -> c_int,
    path: *const c_char,
    arguments: Words,
    environment: Words,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        becomes(path, environment);
        next(path, arguments, environment)
    }
}

unsafe fn execv_with(
    next: unsafe extern "C-unwind" fn(*const c_char, Words) -> c_int,
    path: *const c_char,
    arguments: Words,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        becomes(path, raw::environment());
        next(path, arguments)
    }
}

unsafe fn fexecve_with(
    next: unsafe extern "C-unwind" fn(c_int, Words, Words) -> c_int,
    fd: c_int,
    arguments: Words,
    environment: Words,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        becomes(std::ptr::null(), environment);
        next(fd, arguments, environment)
    }
}

unsafe fn execveat_with(
    next: unsafe extern "C-unwind" fn(c_int, *const c_char, Words, Words, c_int) -> c_int,
    folder: c_int,
    path: *const c_char,
    arguments: Words,
    environment: Words,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        becomes(std::ptr::null(), environment);
        next(folder, path, arguments, environment, flags)
    }
}

type SpawnFn = unsafe extern "C-unwind" fn(
    *mut pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    Words,
    Words,
) -> c_int;

unsafe fn spawn_with(
    next: SpawnFn,
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Words,
    environment: Words,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        spawns(path, environment);
        next(pid, path, actions, attributes, arguments, environment)
    }
}

/// `execl` and its like come here from the shim, their arguments as a list.
///
/// # Safety
/// As for `execve`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn afflux_exec_list(
    path: *const c_char,
    arguments: Words,
    environment: Words,
    searched: c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        match (searched != 0, environment.is_null()) {
            (true, _) => libc::execvp(path, arguments),
            (false, true) => libc::execv(path, arguments),
            (false, false) => libc::execve(path, arguments, environment),
        }
    }
}
