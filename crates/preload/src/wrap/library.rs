//! Calls within which the C library reads files for itself: locales, the names of users and hosts,
//! the mappings of the process, in which it looks for the stack of its first thread.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came.

use std::ffi::{c_char, c_int, c_void};

use libc::size_t;

use crate::next::within;
use crate::run::within_library;

within! {
    pthread_getattr_np => attributes_with [] (thread: usize, to: *mut c_void) -> c_int
        { real: within_library(real) }
    setlocale => setlocale_with [] (category: c_int, name: *const c_char) -> *mut c_char
        // To ask for its name is no more than that.
        { real: if name.is_null() { real() } else { within_library(real) } }
    newlocale => newlocale_with []
        (categories: c_int, name: *const c_char, base: *mut c_void) -> *mut c_void
        { real: within_library(real) }
    getpwnam | getgrnam => by_name_with [] (name: *const c_char) -> *mut c_void
        { real: within_library(real) }
    getpwuid | getgrgid => by_number_with [] (number: u32) -> *mut c_void
        { real: within_library(real) }
    getpwnam_r | getgrnam_r => by_name_into_with []
        (name: *const c_char, to: *mut c_void, buffer: *mut c_char, bytes: size_t,
         found: *mut *mut c_void) -> c_int
        { real: within_library(real) }
    getpwuid_r | getgrgid_r => by_number_into_with []
        (number: u32, to: *mut c_void, buffer: *mut c_char, bytes: size_t,
         found: *mut *mut c_void) -> c_int
        { real: within_library(real) }
    getaddrinfo => addresses_with []
        (host: *const c_char, service: *const c_char, wanted: *const c_void,
         found: *mut *mut c_void) -> c_int
        { real: within_library(real) }
}
