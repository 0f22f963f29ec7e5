//! What a thread remembers: that it is inside the library, and which copy of the counters is its
//! own.
//!
//! Constant at the start and without destructor, so that the first access allocates nothing and the
//! last may come after all destructors have run.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static SHARD: Cell<u8> = const { Cell::new(u8::MAX) };
}

/// The copy of the counters that this thread adds to: one of its own, or the last.
#[inline]
pub(crate) fn shard() -> usize {
    let shard = SHARD.get();
    if shard == u8::MAX { new_shard() } else { shard.into() }
}

#[cold]
fn new_shard() -> usize {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let last = afflux_node::tally::SHARDS as u64 - 1;
    let shard = THREADS.fetch_add(1, Relaxed).min(last) as u8;
    SHARD.set(shard);
    shard.into()
}

/// Notes whether this thread's cancellation is held back for a call of the program's.
#[inline]
pub(crate) fn note_cancellation(is_held: bool) {
    HELD.set(is_held);
}

/// The program leaves by a long jump whatever this thread was doing: it is no longer inside.
/// Whether its cancellation was held back, which nobody else will set back.
pub(crate) fn leave() -> bool {
    INSIDE.set(false);
    HELD.replace(false)
}

/// Runs `work` unless this thread is inside already, as when a signal handler interrupted it.
#[inline]
pub(crate) fn once<R>(work: impl FnOnce() -> R) -> Option<R> {
    if INSIDE.replace(true) {
        return None;
    }
    let result = work();
    INSIDE.set(false);
    Some(result)
}
