//! System calls made directly: they neither touch `errno` nor pass through names that this library
//! itself defines.
//!
//! `unsafe` here: a system call is an instruction with its arguments in registers; what it does
//! with pointers is up to its callers, who say why theirs are good.

use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::ops::Range;
use std::sync::atomic::AtomicU64;

/// Makes a system call; a result from -4095 to -1 is a negated error number.
///
/// # Safety
/// The arguments must be what the call expects; pointers must be good for what it does with them.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11; the rest is the caller's word.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes a system call; a result from -4095 to -1 is a negated error number.
///
/// # Safety
/// The arguments must be what the call expects; pointers must be good for what it does with them.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but x0; the rest is the caller's word.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number, inlateout("x0") args[0] as isize => result,
            in("x1") args[1], in("x2") args[2], in("x3") args[3],
            in("x4") args[4], in("x5") args[5],
            options(nostack),
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the library knows how x86-64 and aarch64 make system calls and pass arguments");

/// A result as the C library gives it: -1 with `errno` set for an error.
pub(crate) fn to_c(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result
}

/// Sets `errno` of this thread.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the C library's own place for this thread's error number.
    unsafe { *libc::__errno_location() = error };
}

/// What `stat` says of a descriptor; `None` when it is not open.
pub(crate) fn stat(fd: c_int) -> Option<libc::stat> {
    let mut at = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills the structure, which has its size, before it returns 0.
    unsafe {
        let args = [fd as usize, at.as_mut_ptr() as usize, 0, 0, 0, 0];
        (call(libc::SYS_fstat, args) == 0).then(|| at.assume_init())
    }
}

/// The type and the identity of the file system of a descriptor.
pub(crate) fn file_system(fd: c_int) -> Option<u64> {
    let mut at = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel fills the structure, which has its size, before it returns 0.
    unsafe {
        let args = [fd as usize, at.as_mut_ptr() as usize, 0, 0, 0, 0];
        (call(libc::SYS_fstatfs, args) == 0).then(|| at.assume_init().f_type as u64)
    }
}

/// The status flags of a descriptor, such as `O_DIRECT`.
pub(crate) fn flags(fd: c_int) -> Option<c_int> {
    // SAFETY: no pointers.
    let got = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    (got >= 0).then_some(got as c_int)
}

/// The position of a descriptor; `None` where there is none, as in a pipe.
pub(crate) fn position(fd: c_int) -> Option<u64> {
    // SAFETY: no pointers.
    let at = unsafe { call(libc::SYS_lseek, [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) };
    u64::try_from(at).ok()
}

/// Where a descriptor leads by name, in `buffer`.
pub(crate) fn name_of(fd: c_int, buffer: &mut [u8]) -> Option<&[u8]> {
    let mut link = *b"/proc/self/fd/0000000000\0";
    let mut at = 14;
    let digits = decimal(fd.unsigned_abs().into());
    for digit in digits.iter().skip_while(|digit| **digit == 0) {
        link[at] = *digit;
        at += 1;
    }
    link[at] = 0;
    read_link(&link[..=at], buffer)
}

/// A number in decimal, its leading places zero bytes.
pub(crate) fn decimal(mut number: u64) -> [u8; 20] {
    let mut digits = [0; 20];
    for place in digits.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits
}

/// Where a symbolic link leads. `path` ends with a zero byte.
pub(crate) fn read_link<'b>(path: &[u8], buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    if path.last() != Some(&0) {
        return None;
    }
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the path ends with a zero byte, and the buffer is ours, with its length.
    let got = unsafe {
        let args = [here, path.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0];
        call(libc::SYS_readlinkat, args)
    };
    usize::try_from(got).ok().and_then(|length| buffer.get(..length))
}

/// Opens a file. `path` ends with a zero byte.
pub(crate) fn open(path: &[u8], flags: c_int, mode: u32) -> Option<c_int> {
    if path.last() != Some(&0) {
        return None;
    }
    let here = libc::AT_FDCWD as usize;
    // SAFETY: the path ends with a zero byte.
    let got = unsafe {
        let args = [here, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0];
        call(libc::SYS_openat, args)
    };
    (got >= 0).then_some(got as c_int)
}

/// Closes a descriptor of our own.
pub(crate) fn close(fd: c_int) {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Reads a file at an offset into `buffer`; how many bytes there were.
pub(crate) fn read_at(fd: c_int, buffer: &mut [u8], offset: u64) -> Option<usize> {
    let (at, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the buffer is ours, with its length.
    let got = unsafe { call(libc::SYS_pread64, [fd as usize, at, length, offset as usize, 0, 0]) };
    usize::try_from(got).ok()
}

/// The bytes of an extended attribute, in `buffer`.
pub(crate) fn attribute<'b>(
    fd: c_int,
    name: &std::ffi::CStr,
    buffer: &'b mut [u8],
) -> Option<&'b [u8]> {
    let (at, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the name ends with a zero byte, the buffer is ours, with its length.
    let got = unsafe {
        call(libc::SYS_fgetxattr, [fd as usize, name.as_ptr() as usize, at, length, 0, 0])
    };
    usize::try_from(got).ok().and_then(|length| buffer.get(..length))
}

/// Maps `words` 64-bit words of a file of our own, shared, or of memory when there is no file.
pub(crate) fn map_words(fd: Option<c_int>, words: usize) -> Option<&'static [AtomicU64]> {
    let (protection, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    let flags = shared | if fd.is_none() { libc::MAP_ANONYMOUS } else { 0 };
    let fd = fd.unwrap_or(-1) as usize;
    // SAFETY: a new mapping at a place that the kernel chooses; it is never unmapped, and words
    // that are accessed atomically only may be shared with anybody.
    unsafe {
        let args = [0, words * 8, protection as usize, flags as usize, fd, 0];
        let at = call(libc::SYS_mmap, args);
        (at > 0).then(|| std::slice::from_raw_parts(at as *const AtomicU64, words))
    }
}

/// Gives a file of our own this length.
pub(crate) fn set_length(fd: c_int, bytes: usize) -> bool {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_ftruncate, [fd as usize, bytes, 0, 0, 0, 0]) == 0 }
}

/// Has the file system keep memory for the first `bytes` of a file of our own. True also where it
/// cannot say: what is not known to be full is taken as roomy.
pub(crate) fn reserve(fd: c_int, bytes: usize) -> bool {
    // SAFETY: no pointers.
    let failed = unsafe { call(libc::SYS_fallocate, [fd as usize, 0, 0, bytes, 0, 0]) };
    failed == 0 || failed == -libc::EOPNOTSUPP as isize
}

/// Has the kernel find memory for a part of a mapping of our own. In a memory file system that is
/// full, touching it would end the program. True also where the kernel cannot do so (before 5.14).
pub(crate) fn back(words: &[AtomicU64]) -> bool {
    // SAFETY: no pointers; the C library knows it from the start of the program.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let from = words.as_ptr().addr() / page * page;
    let bytes = words.as_ptr_range().end.addr() - from;
    let advice = libc::MADV_POPULATE_WRITE as usize;
    // SAFETY: this writes no byte of a mapping that stays for as long as the process.
    let failed = unsafe { call(libc::SYS_madvise, [from, bytes, advice, 0, 0, 0]) };
    failed == 0 || failed == -libc::EINVAL as isize
}

/// Removes a file of our own. `path` ends with a zero byte.
pub(crate) fn remove(path: &[u8]) {
    if path.last() == Some(&0) {
        let here = libc::AT_FDCWD as usize;
        // SAFETY: the path ends with a zero byte.
        unsafe { call(libc::SYS_unlinkat, [here, path.as_ptr() as usize, 0, 0, 0, 0]) };
    }
}

/// This process, and the one that started it.
pub(crate) fn process() -> (u64, u64) {
    // SAFETY: no arguments.
    unsafe { (call(libc::SYS_getpid, [0; 6]) as u64, call(libc::SYS_getppid, [0; 6]) as u64) }
}

/// Writes a line to the descriptor of errors, for the rare cases in which people must be told.
pub(crate) fn tell(line: &str) {
    // SAFETY: the text is there with its length.
    unsafe { call(libc::SYS_write, [2, line.as_ptr() as usize, line.len(), 0, 0, 0]) };
}

/// The processor's counter: a third of the cost of a clock, and no clock.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every processor of this kind has it, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Where the processor's counter is slow, the clock in its stead.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn ticks() -> u64 {
    afflux_node::clock::now().as_nanos()
}

/// States of a thread: whether it may be cancelled.
pub(crate) const DISABLED: c_int = 1;
/// None of them.
pub(crate) const UNKNOWN: c_int = -1;

/// Sets whether this thread may be cancelled. What it was set to goes into `before`, and does so
/// before anything changes.
pub(crate) fn set_cancellation(state: c_int, before: Option<&Cell<c_int>>) {
    // SAFETY: the place for the old state is there, or none is asked for. The state is the thread's
    // own.
    unsafe { pthread_setcancelstate(state, before.map_or(std::ptr::null_mut(), Cell::as_ptr)) };
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// The stack that signal handlers of this thread run on, if it is in use.
pub(crate) fn signal_stack() -> Option<Range<usize>> {
    let mut stack = std::mem::MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: the kernel fills the structure, which has its size, before it returns 0.
    let stack = unsafe {
        let args = [0, stack.as_mut_ptr() as usize, 0, 0, 0, 0];
        (call(libc::SYS_sigaltstack, args) == 0).then(|| stack.assume_init())
    }?;
    let start = stack.ss_sp.addr();
    (stack.ss_flags & libc::SS_ONSTACK != 0).then(|| start..start.saturating_add(stack.ss_size))
}

/// Starts, or waits for, the write-back of a range of a file.
pub(crate) fn sync_range(fd: c_int, offset: u64, bytes: u64, flags: libc::c_uint) {
    let args = [fd as usize, offset as usize, bytes as usize, flags as usize, 0, 0];
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_sync_file_range, args) };
}

/// The bytes of a program's list of buffers; 0 for one that is not there, or too long to be one.
pub(crate) fn bytes_of(list: *const libc::iovec, count: c_int) -> usize {
    const PIECE: usize = 64;
    let mut buffers = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECE];
    let (mut at, mut left) = (list, usize::try_from(count).unwrap_or(0).min(1024));
    let mut sum = 0_usize;
    while left > 0 {
        let piece = left.min(PIECE);
        if !copy_from_program(&mut buffers[..piece], at) {
            return 0;
        }
        sum = buffers[..piece].iter().fold(sum, |sum, buffer| sum.saturating_add(buffer.iov_len));
        at = at.wrapping_add(piece);
        left -= piece;
    }
    sum
}

/// Copies from a pointer of the program, which may be bad: the kernel says so, where to follow it
/// would end the program.
pub(crate) fn copy_from_program<T: Copy>(to: &mut [T], from: *const T) -> bool {
    let bytes = size_of_val(to);
    let ours = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: bytes };
    let theirs = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: bytes };
    let (ours, theirs) = (&raw const ours as usize, &raw const theirs as usize);
    // SAFETY: what is written is ours and as long as said. Structures of the C library are valid
    // whatever their bytes are.
    unsafe {
        let process = call(libc::SYS_getpid, [0; 6]) as usize;
        call(libc::SYS_process_vm_readv, [process, ours, 1, theirs, 1, 0]) == bytes as isize
    }
}

/// A text of the program's in `text`, cut to fit; its length. A zero byte follows it.
pub(crate) fn text_of_program(from: *const std::ffi::c_char, text: &mut [u8; 256]) -> usize {
    if from.is_null() {
        return 0;
    }
    // Piece by piece, since it may end just before memory that is not there.
    let mut length = 0;
    while length < text.len() - 1 {
        let at = from.cast::<u8>().wrapping_add(length);
        let to_page_end = 4096 - at.addr() % 4096;
        let piece = to_page_end.min(text.len() - 1 - length).min(64);
        if !copy_from_program(&mut text[length..length + piece], at) {
            break;
        }
        if let Some(end) = text[length..length + piece].iter().position(|byte| *byte == 0) {
            return length + end;
        }
        length += piece;
    }
    text[length] = 0;
    length
}

/// The program's environment as it is now.
pub(crate) fn environment() -> *const *const std::ffi::c_char {
    unsafe extern "C" {
        static environ: *const *const std::ffi::c_char;
    }
    // SAFETY: the C library's own variable.
    unsafe { environ }
}
