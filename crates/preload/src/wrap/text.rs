//! Calls on streams that format, scan, or handle wide characters; and the variadic names.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came. A gathered list
//! of arguments is a pointer on both supported machines.

use std::ffi::{c_char, c_int, c_void};

use afflux_node::calls::Call;
use libc::{FILE, size_t, wchar_t};

use crate::gate::{self, Transfer};
use crate::next::within;
use crate::stream::{self, Stream, Wants};

/// A gathered list of arguments.
type Rest = *mut c_void;
/// A character of a wide stream, or its end.
type Wide = u32;

within! {
    vfprintf => vfprintf_with [] (file: *mut FILE, format: *const c_char, rest: Rest) -> c_int
        { real: stream::write(Call::StreamPrint, file, None, real, printed) }
    vprintf => vprintf_with [] (format: *const c_char, rest: Rest) -> c_int
        { real: stream::write(Call::StreamPrint, stream::stdout, None, real, printed) }
    __vfprintf_chk => vfprintf_chk_with []
        (file: *mut FILE, flag: c_int, format: *const c_char, rest: Rest) -> c_int
        { real: stream::write(Call::StreamPrint, file, None, real, printed) }
    __vprintf_chk => vprintf_chk_with []
        (flag: c_int, format: *const c_char, rest: Rest) -> c_int
        { real: stream::write(Call::StreamPrint, stream::stdout, None, real, printed) }
    vdprintf => vdprintf_with [] (fd: c_int, format: *const c_char, rest: Rest) -> c_int
        { real: print_to(fd, real) }
    __vdprintf_chk => vdprintf_chk_with []
        (fd: c_int, flag: c_int, format: *const c_char, rest: Rest) -> c_int
        { real: print_to(fd, real) }
    vfwprintf => vfwprintf_with []
        (file: *mut FILE, format: *const wchar_t, rest: Rest) -> c_int
        { real: print_wide(file, real) }
    vwprintf => vwprintf_with [] (format: *const wchar_t, rest: Rest) -> c_int
        { real: print_wide(stream::stdout, real) }
    __vfwprintf_chk => vfwprintf_chk_with []
        (file: *mut FILE, flag: c_int, format: *const wchar_t, rest: Rest) -> c_int
        { real: print_wide(file, real) }
    __vwprintf_chk => vwprintf_chk_with []
        (flag: c_int, format: *const wchar_t, rest: Rest) -> c_int
        { real: print_wide(stream::stdout, real) }
    vfscanf | __isoc99_vfscanf | __isoc23_vfscanf => vfscanf_with []
        (file: *mut FILE, format: *const c_char, rest: Rest) -> c_int
        { real: stream::read(Call::StreamScan, file, Wants::Some, real, |_| None) }
    vscanf | __isoc99_vscanf | __isoc23_vscanf => vscanf_with []
        (format: *const c_char, rest: Rest) -> c_int
        { real: stream::read(Call::StreamScan, stream::stdin, Wants::Some, real, |_| None) }
    vfwscanf | __isoc99_vfwscanf | __isoc23_vfwscanf => vfwscanf_with []
        (file: *mut FILE, format: *const wchar_t, rest: Rest) -> c_int
        { real: stream::read(Call::StreamReadWide, file, Wants::Some, real, |_| None) }
    vwscanf | __isoc99_vwscanf | __isoc23_vwscanf => vwscanf_with []
        (format: *const wchar_t, rest: Rest) -> c_int
        { real: stream::read(Call::StreamReadWide, stream::stdin, Wants::Some, real, |_| None) }
    fgetwc | getwc | fgetwc_unlocked | getwc_unlocked => getwc_with [] (file: *mut FILE) -> Wide
        { real: stream::read(Call::StreamReadWide, file, Wants::Some, real, |_| None) }
    getwchar | getwchar_unlocked => getwchar_with [] () -> Wide
        { real: stream::read(Call::StreamReadWide, stream::stdin, Wants::Some, real, |_| None) }
    fgetws | fgetws_unlocked => fgetws_with []
        (to: *mut wchar_t, count: c_int, file: *mut FILE) -> *mut wchar_t
        { real: stream::read(Call::StreamReadWide, file, Wants::Some, real, |_| None) }
    __fgetws_chk | __fgetws_unlocked_chk => fgetws_chk_with []
        (to: *mut wchar_t, room: size_t, count: c_int, file: *mut FILE) -> *mut wchar_t
        { real: stream::read(Call::StreamReadWide, file, Wants::Some, real, |_| None) }
    fputwc | putwc | fputwc_unlocked | putwc_unlocked => putwc_with []
        (wide: wchar_t, file: *mut FILE) -> Wide
        { real: stream::write(Call::StreamWriteWide, file, None, real, put) }
    putwchar | putwchar_unlocked => putwchar_with [] (wide: wchar_t) -> Wide
        { real: stream::write(Call::StreamWriteWide, stream::stdout, None, real, put) }
    fputws | fputws_unlocked => fputws_with [] (text: *const wchar_t, file: *mut FILE) -> c_int
        { real: {
            let produced = |result: &c_int| if *result < 0 { 0 } else { encoded_text(text) };
            stream::write(Call::StreamWriteWide, file, None, real, produced)
        } }
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

/// A call that prints wide characters and says how many. What they are lies in the stream's buffer;
/// where it does not any more, since more were printed than it holds, each counts as one byte.
fn print_wide(file: *mut FILE, real: impl FnOnce() -> c_int) -> c_int {
    let place = || Stream::of(file).and_then(Stream::wide_place);
    let before = place();
    let produced = |result: &c_int| {
        let count = printed(result);
        let put = before.zip(place());
        let put = put.and_then(|(before, after)| after.put_since(before, count as usize));
        put.map_or(count, |parts| {
            parts.into_iter().flatten().map(|wide| encoded(*wide as u32)).sum()
        })
    };
    stream::write(Call::StreamWriteWide, file, None, real, produced)
}

/// A call that prints to a descriptor; its length shows when it has ended.
fn print_to(fd: c_int, real: impl FnOnce() -> c_int) -> c_int {
    let transfer = Transfer::here(Call::Print, fd, 0);
    // SAFETY: it has no list of buffers.
    unsafe { gate::pass(&transfer, || real() as isize) as c_int }
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

/// What a call has put that returns the character, or the end of the stream when it failed.
fn put(result: &Wide) -> u64 {
    if *result == Wide::MAX { 0 } else { encoded(*result) }
}

/// Bytes of a text in UTF-8.
///
/// # Safety
/// It must end with a zero.
unsafe fn encoded_text(text: *const wchar_t) -> u64 {
    let (mut at, mut bytes) = (text, 0);
    // SAFETY: as promised.
    while unsafe { *at } != 0 {
        // SAFETY: as above.
        bytes += encoded(unsafe { *at } as u32);
        at = at.wrapping_add(1);
    }
    bytes
}
