//! What a thread remembers of the segment, in memory that only it and its signal handlers touch.
//!
//! Constant at the start and without destructor: the last step of a thread may come after all
//! destructors have run.

use std::cell::Cell;

use super::hand::Hand;
use super::lanes::Keeping;
use super::turns::Seated;

/// What a thread remembers. Asked for once for each request and handed down from there.
pub(super) struct Thread {
    /// The lane that it keeps.
    pub(super) keeping: Keeping,
    /// The places that it has in windows.
    pub(super) hand: Hand,
    /// Where it sits while it waits.
    pub(super) seat: Cell<Option<Seated>>,
}

thread_local! {
    pub(super) static THREAD: Thread = const {
        Thread { keeping: Keeping::none(), hand: Hand::empty(), seat: Cell::new(None) }
    };
}
