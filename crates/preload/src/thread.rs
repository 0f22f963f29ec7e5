//! What a thread remembers: that it is inside the library, that its cancellation is held back, and
//! which copy of the counters is its own.
//!
//! Constant at the start and without destructor, so that the first access allocates nothing and the
//! last may come after all destructors have run.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{jump, raw};

struct Thread {
    /// Where on the stack the library does work of its own; 0 when it does none.
    inside: Cell<usize>,
    /// Where on the stack cancellation was held back for a call of the program's; 0 when it is not.
    holding: Cell<usize>,
    /// Whether the program's thread could be cancelled before.
    before: Cell<c_int>,
    shard: Cell<u8>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            inside: Cell::new(0),
            holding: Cell::new(0),
            before: Cell::new(raw::UNKNOWN),
            shard: Cell::new(u8::MAX),
        }
    };
}

/// The copy of the counters that this thread adds to: one of its own, or the last.
#[inline]
pub(crate) fn shard() -> usize {
    THREAD.with(|thread| match thread.shard.get() {
        u8::MAX => new_shard(thread),
        shard => shard.into(),
    })
}

#[cold]
fn new_shard(thread: &Thread) -> usize {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let last = afflux_node::tally::SHARDS as u64 - 1;
    let shard = THREADS.fetch_add(1, Relaxed).min(last) as u8;
    thread.shard.set(shard);
    shard.into()
}

/// From now on this thread is not cancelled. Whether it was this that held it back, and
/// [`allow_cancellation`] is to be called.
#[inline]
pub(crate) fn hold_cancellation() -> bool {
    THREAD.with(|thread| {
        let here = 0_u8;
        if thread.holding.get() != 0 {
            return false;
        }
        // What was before is known before anything changes, so that a long jump can set it back.
        thread.before.set(raw::UNKNOWN);
        thread.holding.set((&raw const here).addr());
        raw::set_cancellation(raw::DISABLED, Some(&thread.before));
        true
    })
}

/// Sets it back as it was.
#[inline]
pub(crate) fn allow_cancellation() {
    THREAD.with(|thread| {
        let before = thread.before.get();
        if before != raw::UNKNOWN {
            raw::set_cancellation(before, None);
        }
        thread.holding.set(0);
    });
}

/// What a long jump leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Work of the library's own.
    pub(crate) work: bool,
    /// A call of the program's for which cancellation is held back.
    pub(crate) call: bool,
}

/// What a long jump to that frame would leave.
#[inline]
pub(crate) fn left_by(jump: impl Fn() -> usize) -> Left {
    THREAD.with(|thread| {
        let (inside, holding) = (thread.inside.get(), thread.holding.get());
        if inside | holding == 0 {
            return Left { work: false, call: false };
        }
        let to = jump();
        let leaves = |frame| frame != 0 && jump::leaves(frame, to);
        Left { work: leaves(inside), call: leaves(holding) }
    })
}

/// The work that this thread was doing does not go on.
pub(crate) fn leave_work() {
    THREAD.with(|thread| thread.inside.set(0));
}

/// Runs `work` unless this thread is inside already, as when a signal handler interrupted it.
#[inline]
pub(crate) fn once<R>(work: impl FnOnce() -> R) -> Option<R> {
    THREAD.with(|thread| {
        let here = 0_u8;
        if thread.inside.get() != 0 {
            return None;
        }
        thread.inside.set((&raw const here).addr());
        let result = work();
        thread.inside.set(0);
        Some(result)
    })
}
