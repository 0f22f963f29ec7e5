//! Signals, held back for as long as rare work takes that a handler must not leave by a long jump.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// This thread's signals, held back until this is dropped. Costs two system calls, which is why
/// nothing on the usual way of a request does so.
///
/// ```
/// let quiet = afflux_node::signals::hold_back();
/// // ... several steps that belong together ...
/// drop(quiet);
/// ```
#[must_use = "signals are held back until it is dropped"]
pub struct HeldBack {
    before: libc::sigset_t,
}

/// Holds back all signals of this thread that can be.
pub fn hold_back() -> HeldBack {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the C library fills both sets, each of which has the size that it expects. It cannot
    // fail: the first argument is one that it knows.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        HeldBack { before: before.assume_init() }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: the set that was in force before; no place for the present one is asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}
