//! Programs that the library cannot be loaded into: static ones, privileged ones, and those that
//! are started with an environment that does not name it.
//!
//! `unsafe` here: the path and the environment are the program's arguments of a call that will read
//! them, too; they are read with the kernel's help, since they may be bad.

use std::ffi::{c_char, c_int};

use afflux_node::tally::Word;

use crate::{raw, run};

/// Notes the program at `path` if it will not be seen.
///
/// # Safety
/// Nothing is asked of the pointers.
pub(crate) unsafe fn note(path: *const c_char, environment: *const *const c_char) {
    let mut text = [0; 256];
    let length = raw::text_of_program(path, &mut text);
    // A name without a slash is searched for; what it leads to is not known here.
    let is_path = text[..length].contains(&b'/') && length < text.len();
    let loads = !is_path || takes_libraries(&text[..=length]);
    if !loads || !names_library(environment) {
        run::tally().note_stranger(&text[..length]);
    }
}

/// Whether a file is a program that a loader prepares, or a script, or nothing that can be read.
fn takes_libraries(path: &[u8]) -> bool {
    let Some(fd) = raw::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) else { return true };
    let takes = raw::stat(fd).is_none_or(|stat| {
        let privileged = stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0;
        !privileged && has_loader(fd)
    });
    raw::close(fd);
    takes
}

/// Whether an ELF file of 64 bits asks for a loader; anything else is taken as one that does.
fn has_loader(fd: c_int) -> bool {
    const INTERPRETER: u32 = 3;
    const HEAD: usize = 64;
    const ENTRY: usize = 56;
    let mut head = [0; HEAD];
    let read = read_own(fd, &mut head, 0);
    if read != Some(HEAD) || !head.starts_with(b"\x7fELF\x02") {
        return true;
    }
    let u16_at = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let table = u64::from_ne_bytes(std::array::from_fn(|byte| head[32 + byte]));
    (0..u64::from(u16_at(56).min(64))).any(|number| {
        let mut entry = [0; ENTRY];
        let at = table + number * u64::from(u16_at(54));
        let read = read_own(fd, &mut entry, at);
        read == Some(ENTRY)
            && u32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]) == INTERPRETER
    })
}

/// A read of the library's own, which the kernel counts, too.
fn read_own(fd: c_int, buffer: &mut [u8], at: u64) -> Option<usize> {
    let read = raw::read_at(fd, buffer, at);
    run::tally().add(Word::OwnRead, read.unwrap_or(0) as u64);
    read
}

/// Whether an environment names a library of ours to be loaded first.
fn names_library(environment: *const *const c_char) -> bool {
    const VARIABLES: usize = 4096;
    if environment.is_null() {
        return false;
    }
    for index in 0..VARIABLES {
        let mut variable = [std::ptr::null::<c_char>()];
        let read = raw::copy_from_program(&mut variable, environment.wrapping_add(index));
        if !read || variable[0].is_null() {
            return false;
        }
        let mut text = [0; 256];
        let length = raw::text_of_program(variable[0], &mut text);
        if let Some(libraries) = text[..length].strip_prefix(b"LD_PRELOAD=") {
            return libraries.windows(9).any(|part| part == b"libafflux")
                || length == text.len() - 1;
        }
    }
    true
}
