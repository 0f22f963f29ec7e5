//! Calls on streams that format, scan, or handle wide characters; and the variadic names.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came. A gathered list
//! of arguments is a pointer on both supported machines.

use std::ffi::{c_char, c_int, c_void};

use afflux_node::calls::Call;
use libc::{FILE, wchar_t};

use crate::gate::{self, Transfer};
use crate::next::interpose;
use crate::stream::{self, Wants};

/// A gathered list of arguments.
type Rest = *mut c_void;
/// A character of a wide stream, or its end.
type Wide = u32;

type PrintFn = unsafe extern "C-unwind" fn(*mut FILE, *const c_char, Rest) -> c_int;
type PrintChkFn = unsafe extern "C-unwind" fn(*mut FILE, c_int, *const c_char, Rest) -> c_int;

interpose! {
    vfprintf => vfprintf_with [] (file: *mut FILE, format: *const c_char, rest: Rest) -> c_int;
    vprintf => vprintf_with [] (format: *const c_char, rest: Rest) -> c_int;
    __vfprintf_chk => vfprintf_chk_with []
        (file: *mut FILE, flag: c_int, format: *const c_char, rest: Rest) -> c_int;
    __vprintf_chk => vprintf_chk_with []
        (flag: c_int, format: *const c_char, rest: Rest) -> c_int;
    vdprintf => vdprintf_with [] (fd: c_int, format: *const c_char, rest: Rest) -> c_int;
    __vdprintf_chk => vdprintf_chk_with []
        (fd: c_int, flag: c_int, format: *const c_char, rest: Rest) -> c_int;
    vfscanf | __isoc99_vfscanf | __isoc23_vfscanf => vfscanf_with []
        (file: *mut FILE, format: *const c_char, rest: Rest) -> c_int;
    vscanf | __isoc99_vscanf | __isoc23_vscanf => vscanf_with []
        (format: *const c_char, rest: Rest) -> c_int;
    vfwprintf => vfwprintf_with []
        (file: *mut FILE, format: *const wchar_t, rest: Rest) -> c_int;
    __vfwprintf_chk => vfwprintf_chk_with []
        (file: *mut FILE, flag: c_int, format: *const wchar_t, rest: Rest) -> c_int;
    vfwscanf | __isoc99_vfwscanf | __isoc23_vfwscanf => vfwscanf_with []
        (file: *mut FILE, format: *const wchar_t, rest: Rest) -> c_int;
    fgetwc | getwc | fgetwc_unlocked | getwc_unlocked => getwc_with [] (file: *mut FILE) -> Wide;
    fgetws | fgetws_unlocked => fgetws_with []
        (to: *mut wchar_t, count: c_int, file: *mut FILE) -> *mut wchar_t;
    fputwc | putwc | fputwc_unlocked | putwc_unlocked => putwc_with []
        (wide: wchar_t, file: *mut FILE) -> Wide;
    fputws | fputws_unlocked => fputws_with [] (text: *const wchar_t, file: *mut FILE) -> c_int;
}

/// The names whose arguments are gathered in C: a jump to the function that does so, which finds
/// registers and stack as they came.
macro_rules! variadic {
    ($($name:ident => $shim:ident;)*) => {
        unsafe extern "C" {
            $(fn $shim();)*
        }
        $(
            /// As the C library documents it.
            ///
            /// # Safety
            /// As the C library documents it.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub(crate) unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!("jmp {}", sym $shim);
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!("b {}", sym $shim);
            }
        )*
    };
}

variadic! {
    fprintf => afflux_fprintf;
    printf => afflux_printf;
    dprintf => afflux_dprintf;
    __fprintf_chk => afflux_fprintf_chk;
    __printf_chk => afflux_printf_chk;
    __dprintf_chk => afflux_dprintf_chk;
    fwprintf => afflux_fwprintf;
    wprintf => afflux_wprintf;
    __fwprintf_chk => afflux_fwprintf_chk;
    __wprintf_chk => afflux_wprintf_chk;
    fscanf => afflux_fscanf;
    scanf => afflux_scanf;
    fwscanf => afflux_fwscanf;
    wscanf => afflux_wscanf;
    __isoc99_fscanf => afflux_isoc99_fscanf;
    __isoc99_scanf => afflux_isoc99_scanf;
    __isoc99_fwscanf => afflux_isoc99_fwscanf;
    __isoc99_wscanf => afflux_isoc99_wscanf;
    __isoc23_fscanf => afflux_isoc23_fscanf;
    __isoc23_scanf => afflux_isoc23_scanf;
    __isoc23_fwscanf => afflux_isoc23_fwscanf;
    __isoc23_wscanf => afflux_isoc23_wscanf;
    execl => afflux_execl;
    execlp => afflux_execlp;
    execle => afflux_execle;
}

/// What a call that prints says it has printed.
fn printed(result: &c_int) -> u64 {
    u64::try_from(*result).unwrap_or(0)
}

unsafe fn vfprintf_with(
    next: PrintFn,
    file: *mut FILE,
    format: *const c_char,
    rest: Rest,
) -> c_int {
    // SAFETY: the program's own call; so below.
    let real = || unsafe { next(file, format, rest) };
    stream::write(Call::StreamPrint, file, None, real, printed)
}

unsafe fn vprintf_with(
    next: unsafe extern "C-unwind" fn(*const c_char, Rest) -> c_int,
    format: *const c_char,
    rest: Rest,
) -> c_int {
    // SAFETY: as above; the variable is the C library's.
    unsafe {
        stream::write(Call::StreamPrint, stream::stdout, None, || next(format, rest), printed)
    }
}

unsafe fn vfprintf_chk_with(
    next: PrintChkFn,
    file: *mut FILE,
    flag: c_int,
    format: *const c_char,
    rest: Rest,
) -> c_int {
    // SAFETY: as above.
    let real = || unsafe { next(file, flag, format, rest) };
    stream::write(Call::StreamPrint, file, None, real, printed)
}

unsafe fn vprintf_chk_with(
    next: unsafe extern "C-unwind" fn(c_int, *const c_char, Rest) -> c_int,
    flag: c_int,
    format: *const c_char,
    rest: Rest,
) -> c_int {
    // SAFETY: as above; the variable is the C library's.
    let (file, real) = unsafe { (stream::stdout, || next(flag, format, rest)) };
    stream::write(Call::StreamPrint, file, None, real, printed)
}

unsafe fn vdprintf_with(
    next: unsafe extern "C-unwind" fn(c_int, *const c_char, Rest) -> c_int,
    fd: c_int,
    format: *const c_char,
    rest: Rest,
) -> c_int {
    let transfer = Transfer::here(Call::Print, fd, 0);
    // SAFETY: as above.
    unsafe { gate::pass(&transfer, || next(fd, format, rest) as isize) as c_int }
}

unsafe fn vdprintf_chk_with(
    next: unsafe extern "C-unwind" fn(c_int, c_int, *const c_char, Rest) -> c_int,
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    rest: Rest,
) -> c_int {
    let transfer = Transfer::here(Call::Print, fd, 0);
    // SAFETY: as above.
    unsafe { gate::pass(&transfer, || next(fd, flag, format, rest) as isize) as c_int }
}

unsafe fn vfscanf_with(next: PrintFn, file: *mut FILE, format: *const c_char, rest: Rest) -> c_int {
    // SAFETY: as above.
    let real = || unsafe { next(file, format, rest) };
    stream::read(Call::StreamScan, file, Wants::Some, real, |_| None)
}

unsafe fn vscanf_with(
    next: unsafe extern "C-unwind" fn(*const c_char, Rest) -> c_int,
    format: *const c_char,
    rest: Rest,
) -> c_int {
    // SAFETY: as above; the variable is the C library's.
    let (file, real) = unsafe { (stream::stdin, || next(format, rest)) };
    stream::read(Call::StreamScan, file, Wants::Some, real, |_| None)
}

unsafe fn vfwprintf_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, *const wchar_t, Rest) -> c_int,
    file: *mut FILE,
    format: *const wchar_t,
    rest: Rest,
) -> c_int {
    // SAFETY: as above.
    let real = || unsafe { next(file, format, rest) };
    stream::write(Call::StreamWriteWide, file, None, real, printed)
}

unsafe fn vfwprintf_chk_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, c_int, *const wchar_t, Rest) -> c_int,
    file: *mut FILE,
    flag: c_int,
    format: *const wchar_t,
    rest: Rest,
) -> c_int {
    // SAFETY: as above.
    let real = || unsafe { next(file, flag, format, rest) };
    stream::write(Call::StreamWriteWide, file, None, real, printed)
}

unsafe fn vfwscanf_with(
    next: unsafe extern "C-unwind" fn(*mut FILE, *const wchar_t, Rest) -> c_int,
    file: *mut FILE,
    format: *const wchar_t,
    rest: Rest,
) -> c_int {
    // SAFETY: as above.
    let real = || unsafe { next(file, format, rest) };
    stream::read(Call::StreamReadWide, file, Wants::Some, real, |_| None)
}

unsafe fn getwc_with(
    next: unsafe extern "C-unwind" fn(*mut FILE) -> Wide,
    file: *mut FILE,
) -> Wide {
    // SAFETY: as above.
    stream::read(Call::StreamReadWide, file, Wants::Some, || unsafe { next(file) }, |_| None)
}

unsafe fn fgetws_with(
    next: unsafe extern "C-unwind" fn(*mut wchar_t, c_int, *mut FILE) -> *mut wchar_t,
    to: *mut wchar_t,
    count: c_int,
    file: *mut FILE,
) -> *mut wchar_t {
    // SAFETY: as above.
    let real = || unsafe { next(to, count, file) };
    stream::read(Call::StreamReadWide, file, Wants::Some, real, |_| None)
}

/// Bytes of a character in UTF-8, the encoding of nearly all wide streams.
const fn encoded(wide: u32) -> u64 {
    match wide {
        0..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    }
}

unsafe fn putwc_with(
    next: unsafe extern "C-unwind" fn(wchar_t, *mut FILE) -> Wide,
    wide: wchar_t,
    file: *mut FILE,
) -> Wide {
    let produced = |result: &Wide| if *result == Wide::MAX { 0 } else { encoded(wide as u32) };
    // SAFETY: as above.
    stream::write(Call::StreamWriteWide, file, None, || unsafe { next(wide, file) }, produced)
}

unsafe fn fputws_with(
    next: unsafe extern "C-unwind" fn(*const wchar_t, *mut FILE) -> c_int,
    text: *const wchar_t,
    file: *mut FILE,
) -> c_int {
    // SAFETY: as above.
    let real = || unsafe { next(text, file) };
    let produced = |result: &c_int| {
        let (mut at, mut bytes) = (text, 0);
        // SAFETY: the call has just read the text up to its zero.
        while *result >= 0 && unsafe { *at } != 0 {
            // SAFETY: as above.
            bytes += encoded(unsafe { *at } as u32);
            at = at.wrapping_add(1);
        }
        bytes
    };
    stream::write(Call::StreamWriteWide, file, None, real, produced)
}
