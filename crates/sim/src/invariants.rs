//! What must hold whatever happens: watched in debug and test builds, nothing in others.

use afflux_core::units::{Span, Time};

/// A device that does one thing at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneAtATime {
    /// End of the last work; `None` where several things may go on at once.
    #[cfg(debug_assertions)]
    until: Option<Time>,
}

impl OneAtATime {
    pub(crate) const fn new(_holds: bool) -> Self {
        Self {
            #[cfg(debug_assertions)]
            until: if _holds { Some(Time::ZERO) } else { None },
        }
    }

    /// It has worked for `access` until `end`.
    pub(crate) fn worked(&mut self, _end: Time, _access: Span) {
        #[cfg(debug_assertions)]
        if let Some(until) = &mut self.until {
            assert!(_end - _access >= *until, "a device did two things at {until:?}");
            *until = _end;
        }
    }
}

/// Bytes and requests on their way from the applications to the devices and back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes that operations asked to be moved.
    pub(crate) asked_bytes: u64,
    /// Bytes that were answered.
    pub(crate) answered_bytes: u64,
    /// Bytes of operations that ended or were given up without being answered.
    pub(crate) dropped_bytes: u64,
    /// Bytes that devices were asked to move.
    pub(crate) device_bytes: u64,
}
