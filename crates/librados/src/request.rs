//! One asynchronous request: how it starts, how its end comes back, how it is given up.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use rustix::io::Errno;

use crate::functions::{Handle, functions};
use crate::pool::Pool;

thread_local! {
    /// Whether this thread is one of the library's, and inside the end of a request.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread may not wait for the library, since it is the one that would be waited for.
pub(crate) fn is_inside_an_end() -> bool {
    INSIDE.get()
}

/// A request under way, by which it can be given up.
#[derive(Debug)]
pub struct Call {
    pool: Arc<Pool>,
    completion: Handle,
}

// SAFETY: a completion is a counted structure with a lock of its own; the library's functions on
// it may be called on any thread, also at once.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

impl Call {
    /// Starts a request by `submit`, which is handed the completion and returns what the library
    /// said. `finish` is called exactly once, at the request's end, or here when it was refused,
    /// with the library's return value: a count or a negative error number.
    ///
    /// # Safety
    /// `submit` starts at most one request, on `pool`, with the completion that it is handed; all
    /// memory that the request uses lives until `finish` was called.
    pub(crate) unsafe fn start<Finish: FnOnce(c_int) + Send + 'static>(
        pool: &Arc<Pool>,
        finish: Finish,
        submit: impl FnOnce(Handle) -> c_int,
    ) -> Option<Self> {
        let library = pool.library();
        let context = Box::into_raw(Box::new(finish));
        let mut completion: Handle = ptr::null_mut();
        // SAFETY: `context` is what `ended` expects, and `completion` is written to.
        let made = unsafe {
            (library.aio_create_completion2)(
                context.cast(),
                Some(ended::<Finish>),
                &raw mut completion,
            )
        };
        let answer = if made < 0 { made } else { submit(completion) };
        if answer >= 0 {
            return Some(Self { pool: Arc::clone(pool), completion });
        }
        if made >= 0 {
            // SAFETY: it was made above, and no request has it.
            unsafe { (library.aio_release)(completion) };
        }
        // SAFETY: no request was started, so that `ended` is not called and nobody else has it.
        let finish = unsafe { Box::from_raw(context) };
        finish(answer);
        None
    }

    /// Gives the request up; it ends soon, with [`Errno::CANCELED`] unless it already has. What
    /// it asked may have been done.
    pub fn cancel(&self) {
        // SAFETY: both were made by the library and are alive as long as this value is. That there
        // is nothing left to give up is no error.
        let _ = unsafe { (self.pool.library().aio_cancel)(self.pool.handle(), self.completion) };
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: this value's own count of the completion, given back once. A request that is
        // still under way holds another.
        unsafe { (self.pool.library().aio_release)(self.completion) };
    }
}

/// Called by the library at the end of a request.
unsafe extern "C" fn ended<Finish: FnOnce(c_int)>(completion: Handle, context: *mut c_void) {
    // SAFETY: `Call::start` made it from a box of this kind, and each request ends once.
    let finish = unsafe { Box::from_raw(context.cast::<Finish>()) };
    let Ok(library) = functions() else { return };
    // SAFETY: the completion is that of the request which has just ended.
    let value = unsafe { (library.aio_get_return_value)(completion) };
    INSIDE.set(true);
    // A panic must not pass through the library. It has been shown by the hook, and whoever waits
    // for this request finds that its sender is gone.
    let _ = catch_unwind(AssertUnwindSafe(|| finish(value)));
    INSIDE.set(false);
}

/// What the library returned, as a count or an error.
pub(crate) fn outcome(value: c_int) -> Result<usize, Errno> {
    usize::try_from(value).map_err(|_| Errno::from_raw_os_error(value.saturating_neg()))
}
