//! Where a long jump leads.
//!
//! A signal handler may make one that leaves what it interrupted, or one within itself, after which
//! the interrupted call goes on. Which of the two it is, the stack tells: the jump leaves a frame
//! when it leads to an older one. The C library keeps the place on the stack garbled in the
//! program's buffer; the key is found by garbling a place that is known.
//!
//! `unsafe` here: the program's buffer is read, as the jump itself is about to.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::raw;

static KEY: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    /// A place on the stack, garbled by the C library, and the place itself.
    fn afflux_garbled_place(place: *mut usize) -> usize;
    /// What stands for a place on the stack in a buffer for long jumps.
    fn afflux_place_in(buffer: *const c_void) -> usize;
}

/// Finds the key, at the start of the program.
pub(crate) fn find_key() {
    let mut place = 0;
    // SAFETY: it writes the one word.
    let garbled = unsafe { afflux_garbled_place(&raw mut place) };
    KEY.store(garbled ^ place, Relaxed);
}

/// Where on the stack a jump leads.
///
/// # Safety
/// It must be the buffer of a long jump.
pub(crate) unsafe fn target(buffer: *const c_void) -> usize {
    // SAFETY: as above.
    unsafe { afflux_place_in(buffer) ^ KEY.load(Relaxed) }
}

/// Whether a jump to that place leaves a frame.
#[cold]
pub(crate) fn leaves(frame: usize, to: usize) -> bool {
    match raw::signal_stack() {
        // A stack of their own for handlers is newer than all that they may have interrupted.
        Some(stack) if stack.contains(&frame) != stack.contains(&to) => stack.contains(&frame),
        _ => to > frame,
    }
}
