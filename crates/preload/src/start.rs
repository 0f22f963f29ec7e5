//! The beginning and the end of a process.
//!
//! `unsafe` here: the dynamic linker is told to call two functions of ours, and hands the first
//! what the program was started with.

use std::ffi::{CStr, c_char, c_int};

use crate::environment::Environment;
use crate::{jump, next, raw, run, stream};

#[used]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

unsafe extern "C" fn start(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    next::set_ready();
    jump::find_key();
    let began = std::panic::catch_unwind(|| {
        let mut at = environment;
        let variables = std::iter::from_fn(|| {
            // SAFETY: the list that the linker hands over ends with a null pointer.
            let variable = unsafe { *at };
            if variable.is_null() {
                return None;
            }
            at = at.wrapping_add(1);
            // SAFETY: its entries are texts that end with a zero byte.
            Some(unsafe { CStr::from_ptr(variable) }.to_bytes())
        });
        if let Some(environment) = Environment::read(variables) {
            run::join(&environment);
        }
    });
    if began.is_err() {
        raw::tell("afflux: an error at its start, which is a defect; it stands aside\n");
    }
}

extern "C" fn end() {
    // What comes after this, the C library's last writes, is counted as ever, in the mapped file.
    stream::count_last();
    run::count_own();
}
