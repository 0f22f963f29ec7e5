//! Calls on streams: bytes, characters and lines; opening, closing, flushing, positions.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

use afflux_node::calls::Call;
use libc::{FILE, off_t, size_t, ssize_t};

use crate::next::{counted, interpose, within};
use crate::stream::{self, Stream, Wants};
use crate::{behind, descriptors, run, seek};

type FileFn<R> = unsafe extern "C-unwind" fn(*mut FILE) -> R;
type GetFn = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;
type PutFn = unsafe extern "C-unwind" fn(c_int, *mut FILE) -> c_int;
type LineFn = unsafe extern "C-unwind" fn(*mut c_char, c_int, *mut FILE) -> *mut c_char;
type TextFn = unsafe extern "C-unwind" fn(*const c_char, *mut FILE) -> c_int;

interpose! {
    fread | fread_unlocked => fread_with []
        (to: *mut c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t;
    __fread_chk | __fread_unlocked_chk => fread_chk_with []
        (to: *mut c_void, room: size_t, size: size_t, count: size_t, file: *mut FILE) -> size_t;
    fwrite | fwrite_unlocked => fwrite_with []
        (from: *const c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t;
    fgetc | getc | getc_unlocked | fgetc_unlocked | _IO_getc | __uflow | __underflow
        => getc_with [] (file: *mut FILE) -> c_int;
    getchar | getchar_unlocked => getchar_with [] () -> c_int;
    getw => getw_with [] (file: *mut FILE) -> c_int;
    fgets | fgets_unlocked => fgets_with []
        (to: *mut c_char, bytes: c_int, file: *mut FILE) -> *mut c_char;
    __fgets_chk | __fgets_unlocked_chk => fgets_chk_with []
        (to: *mut c_char, room: size_t, bytes: c_int, file: *mut FILE) -> *mut c_char;
    getline => getline_with []
        (line: *mut *mut c_char, room: *mut size_t, file: *mut FILE) -> ssize_t;
    getdelim | __getdelim => getdelim_with []
        (line: *mut *mut c_char, room: *mut size_t, end: c_int, file: *mut FILE) -> ssize_t;
    fputc | putc | putc_unlocked | fputc_unlocked | _IO_putc => putc_with []
        (byte: c_int, file: *mut FILE) -> c_int;
    __overflow => overflow_with [] (file: *mut FILE, byte: c_int) -> c_int;
    putchar | putchar_unlocked => putchar_with [] (byte: c_int) -> c_int;
    putw => putw_with [] (word: c_int, file: *mut FILE) -> c_int;
    fputs | fputs_unlocked => fputs_with [] (text: *const c_char, file: *mut FILE) -> c_int;
    puts => puts_with [] (text: *const c_char) -> c_int;
    fopen | fopen64 => fopen_with [] (path: *const c_char, mode: *const c_char) -> *mut FILE;
    freopen | freopen64 => freopen_with []
        (path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    tmpfile | tmpfile64 => tmpfile_with [] () -> *mut FILE;
    fclose => fclose_with [] (file: *mut FILE) -> c_int;
    pclose => pclose_with [] (file: *mut FILE) -> c_int;
    fflush | fflush_unlocked => fflush_with [] (file: *mut FILE) -> c_int;
    fseek => fseek_with [] (file: *mut FILE, offset: c_long, whence: c_int) -> c_int;
    fseeko | fseeko64 => fseeko_with [] (file: *mut FILE, offset: off_t, whence: c_int) -> c_int;
    fgetpos | fgetpos64 => fgetpos_with [] (file: *mut FILE, to: *mut c_void) -> c_int;
    fsetpos | fsetpos64 => fsetpos_with [] (file: *mut FILE, from: *const c_void) -> c_int;
    rewind => rewind_with [] (file: *mut FILE) -> ();
}

// A stream gets another buffer when the bytes in the one that it has are written, or given back.
within! {
    setvbuf => setvbuf_with []
        (file: *mut FILE, buffer: *mut c_char, mode: c_int, bytes: size_t) -> c_int
        { real: stream::write(Call::StreamSeek, file, None, real, |_| 0) }
    setbuf => setbuf_with [] (file: *mut FILE, buffer: *mut c_char) -> ()
        { real: stream::write(Call::StreamSeek, file, None, real, |()| 0) }
    setbuffer => setbuffer_with [] (file: *mut FILE, buffer: *mut c_char, bytes: size_t) -> ()
        { real: stream::write(Call::StreamSeek, file, None, real, |()| 0) }
    setlinebuf => setlinebuf_with [] (file: *mut FILE) -> ()
        { real: stream::write(Call::StreamSeek, file, None, real, |()| 0) }
    __fpurge => purge_with [] (file: *mut FILE) -> () { real: stream::purge(file, real) }
}

counted! {
    fdopen => fdopen_with StreamOpen (fd: c_int, mode: *const c_char) -> *mut FILE;
    fcloseall => fcloseall_with StreamClose () -> c_int;
    ftell => ftell_with StreamSeek (file: *mut FILE) -> c_long;
    ftello | ftello64 => ftello_with StreamSeek (file: *mut FILE) -> off_t;
}

unsafe fn fread_with(
    next: unsafe extern "C-unwind" fn(*mut c_void, size_t, size_t, *mut FILE) -> size_t,
    to: *mut c_void,
    size: size_t,
    count: size_t,
    file: *mut FILE,
) -> size_t {
    // SAFETY: the program's own call; so below.
    let real = || unsafe { next(to, size, count, file) };
    let wants = Wants::Bytes(size.saturating_mul(count));
    stream::read(Call::StreamRead, file, wants, real, |got| Some((*got * size) as u64))
}

unsafe fn fread_chk_with(
    next: unsafe extern "C-unwind" fn(*mut c_void, size_t, size_t, size_t, *mut FILE) -> size_t,
    to: *mut c_void,
    room: size_t,
    size: size_t,
    count: size_t,
    file: *mut FILE,
) -> size_t {
    // SAFETY: as above.
    let real = || unsafe { next(to, room, size, count, file) };
    let wants = Wants::Bytes(size.saturating_mul(count));
    stream::read(Call::StreamRead, file, wants, real, |got| Some((*got * size) as u64))
}

unsafe fn fwrite_with(
    next: unsafe extern "C-unwind" fn(*const c_void, size_t, size_t, *mut FILE) -> size_t,
    from: *const c_void,
    size: size_t,
    count: size_t,
    file: *mut FILE,
) -> size_t {
    // SAFETY: as above.
    let real = || unsafe { next(from, size, count, file) };
    let most = Some((size as u64).saturating_mul(count as u64));
    stream::write(Call::StreamWrite, file, most, real, |put| (*put * size) as u64)
}

/// One byte, unless it is the end of the file.
fn one(result: &c_int) -> Option<u64> {
    Some(u64::from(*result != libc::EOF))
}

unsafe fn getc_with(next: GetFn, file: *mut FILE) -> c_int {
    // SAFETY: as above.
    stream::read(Call::StreamRead, file, Wants::Bytes(1), || unsafe { next(file) }, one)
}

unsafe fn getchar_with(next: unsafe extern "C-unwind" fn() -> c_int) -> c_int {
    // SAFETY: as above; the variable is the C library's.
    unsafe { stream::read(Call::StreamRead, stream::stdin, Wants::Bytes(1), || next(), one) }
}

unsafe fn getw_with(next: GetFn, file: *mut FILE) -> c_int {
    let wants = Wants::Bytes(size_of::<c_int>());
    // SAFETY: as above. A word may look like the end of the file.
    stream::read(Call::StreamRead, file, wants, || unsafe { next(file) }, |_| Some(4))
}

/// The length of a line that was read; none when there was none.
unsafe fn length_of(line: *const c_char) -> Option<u64> {
    // SAFETY: the call has just ended the line with a zero byte.
    (!line.is_null()).then(|| unsafe { CStr::from_ptr(line) }.to_bytes().len() as u64)
}

unsafe fn fgets_with(next: LineFn, to: *mut c_char, bytes: c_int, file: *mut FILE) -> *mut c_char {
    // SAFETY: as above.
    let real = || unsafe { next(to, bytes, file) };
    let wants = Wants::Through(b'\n');
    // SAFETY: as above.
    stream::read(Call::StreamRead, file, wants, real, |line| unsafe { length_of(*line) })
}

unsafe fn fgets_chk_with(
    next: unsafe extern "C-unwind" fn(*mut c_char, size_t, c_int, *mut FILE) -> *mut c_char,
    to: *mut c_char,
    room: size_t,
    bytes: c_int,
    file: *mut FILE,
) -> *mut c_char {
    // SAFETY: as above.
    let real = || unsafe { next(to, room, bytes, file) };
    let wants = Wants::Through(b'\n');
    // SAFETY: as above.
    stream::read(Call::StreamRead, file, wants, real, |line| unsafe { length_of(*line) })
}

unsafe fn getline_with(
    next: unsafe extern "C-unwind" fn(*mut *mut c_char, *mut size_t, *mut FILE) -> ssize_t,
    line: *mut *mut c_char,
    room: *mut size_t,
    file: *mut FILE,
) -> ssize_t {
    // SAFETY: as above.
    let real = || unsafe { next(line, room, file) };
    let wants = Wants::Through(b'\n');
    stream::read(Call::StreamRead, file, wants, real, |got| u64::try_from(*got).ok())
}

unsafe fn getdelim_with(
    next: unsafe extern "C-unwind" fn(*mut *mut c_char, *mut size_t, c_int, *mut FILE) -> ssize_t,
    line: *mut *mut c_char,
    room: *mut size_t,
    end: c_int,
    file: *mut FILE,
) -> ssize_t {
    // SAFETY: as above.
    let real = || unsafe { next(line, room, end, file) };
    let wants = Wants::Through(end as u8);
    stream::read(Call::StreamRead, file, wants, real, |got| u64::try_from(*got).ok())
}

/// One byte, unless it failed.
fn put(result: &c_int) -> u64 {
    u64::from(*result != libc::EOF)
}

unsafe fn putc_with(next: PutFn, byte: c_int, file: *mut FILE) -> c_int {
    // SAFETY: as above.
    stream::write(Call::StreamWrite, file, Some(1), || unsafe { next(byte, file) }, put)
}

unsafe fn overflow_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, c_int) -> c_int,
    file: *mut FILE,
    byte: c_int,
) -> c_int {
    // SAFETY: as above.
    stream::write(Call::StreamWrite, file, Some(1), || unsafe { next(file, byte) }, put)
}

unsafe fn putchar_with(next: unsafe extern "C-unwind" fn(c_int) -> c_int, byte: c_int) -> c_int {
    // SAFETY: as above; the variable is the C library's.
    unsafe { stream::write(Call::StreamWrite, stream::stdout, Some(1), || next(byte), put) }
}

unsafe fn putw_with(next: PutFn, word: c_int, file: *mut FILE) -> c_int {
    // SAFETY: as above.
    stream::write(Call::StreamWrite, file, Some(4), || unsafe { next(word, file) }, |_| 4)
}

unsafe fn fputs_with(next: TextFn, text: *const c_char, file: *mut FILE) -> c_int {
    // SAFETY: as above.
    let length = unsafe { length_of(text) }.unwrap_or(0);
    let produced = |result: &c_int| if *result < 0 { 0 } else { length };
    // SAFETY: as above.
    let real = || unsafe { next(text, file) };
    stream::write(Call::StreamWrite, file, Some(length), real, produced)
}

unsafe fn puts_with(
    next: unsafe extern "C-unwind" fn(*const c_char) -> c_int,
    text: *const c_char,
) -> c_int {
    // SAFETY: as above; the variable is the C library's.
    let (length, file) = unsafe { (length_of(text).unwrap_or(0) + 1, stream::stdout) };
    let produced = |result: &c_int| if *result < 0 { 0 } else { length };
    // SAFETY: as above.
    let real = || unsafe { next(text) };
    stream::write(Call::StreamWrite, file, Some(length), real, produced)
}

/// Takes note of a stream that a call has opened.
fn opened(file: *mut FILE) -> *mut FILE {
    if let Some(stream) = Stream::of(file) {
        descriptors::forget(stream.fd());
    }
    run::count_call(Call::StreamOpen);
    file
}

unsafe fn fopen_with(
    next: unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut FILE,
    path: *const c_char,
    mode: *const c_char,
) -> *mut FILE {
    // SAFETY: as above.
    opened(unsafe { next(path, mode) })
}

unsafe fn freopen_with(
    next: unsafe extern "C-unwind" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE,
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    closes(file);
    // SAFETY: as above.
    opened(unsafe { next(path, mode, file) })
}

unsafe fn tmpfile_with(next: unsafe extern "C-unwind" fn() -> *mut FILE) -> *mut FILE {
    // SAFETY: as above.
    opened(unsafe { next() })
}

/// Takes note of a stream that will be closed, and its descriptor inside of the C library with it.
fn closes(file: *mut FILE) {
    if let Some(stream) = Stream::of(file).filter(|_| run::active().is_some()) {
        behind::closes(stream.fd());
    }
}

unsafe fn fclose_with(next: FileFn<c_int>, file: *mut FILE) -> c_int {
    let Some(stream) = Stream::of(file).filter(|_| run::active().is_some()) else {
        // SAFETY: as above.
        return unsafe { next(file) };
    };
    let fd = stream.fd();
    closes(file);
    // Its buffer is written first, and counted by what lies in it; then the stream is gone.
    stream::count_closing(stream);
    descriptors::forget(fd);
    // SAFETY: as above.
    unsafe { next(file) }
}

unsafe fn pclose_with(next: FileFn<c_int>, file: *mut FILE) -> c_int {
    // SAFETY: as above.
    unsafe { fclose_with(next, file) }
}

unsafe fn fflush_with(next: FileFn<c_int>, file: *mut FILE) -> c_int {
    let pending = Stream::of(file).map_or(0, Stream::pending);
    // SAFETY: as above.
    let real = || unsafe { next(file) };
    let most = if pending > 0 { Some(u64::MAX) } else { None };
    stream::write(Call::StreamFlush, file, most, real, |_| 0)
}

unsafe fn fseek_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, c_long, c_int) -> c_int,
    file: *mut FILE,
    offset: c_long,
    whence: c_int,
) -> c_int {
    // SAFETY: as above.
    seek::seek(file, offset, whence, || unsafe { next(file, offset, whence) })
}

unsafe fn fseeko_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, off_t, c_int) -> c_int,
    file: *mut FILE,
    offset: off_t,
    whence: c_int,
) -> c_int {
    // SAFETY: as above.
    seek::seek(file, offset, whence, || unsafe { next(file, offset, whence) })
}

unsafe fn fgetpos_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, *mut c_void) -> c_int,
    file: *mut FILE,
    to: *mut c_void,
) -> c_int {
    run::count_call(Call::StreamSeek);
    // SAFETY: as above.
    unsafe { next(file, to) }
}

unsafe fn fsetpos_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, *const c_void) -> c_int,
    file: *mut FILE,
    from: *const c_void,
) -> c_int {
    // SAFETY: the call will read the position, with which the structure begins.
    let offset = unsafe { from.cast::<i64>().read_unaligned() };
    // SAFETY: as above.
    seek::seek(file, offset, libc::SEEK_SET, || unsafe { next(file, from) })
}

unsafe fn rewind_with(next: FileFn<()>, file: *mut FILE) {
    // SAFETY: as above.
    let real = || unsafe { next(file) };
    stream::write(Call::StreamSeek, file, None, real, |()| 0);
}
