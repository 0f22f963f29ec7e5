//! What must hold whatever happens: watched in debug and test builds, and where the feature `watch`
//! asks for it.

use afflux_core::target::Unwatched;
use afflux_core::units::{Span, Time};

use crate::world::World;

/// Whether anything is watched.
pub(crate) const WATCHED: bool = cfg!(any(debug_assertions, feature = "watch"));

/// A device that does one thing at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneAtATime {
    /// End of the last work; never where several things may go on at once.
    until: Option<Time>,
}

impl OneAtATime {
    pub(crate) fn new(holds: bool) -> Self {
        Self { until: (WATCHED && holds).then_some(Time::ZERO) }
    }

    /// It has worked for `access` until `end`.
    pub(crate) fn worked(&mut self, end: Time, access: Span) {
        if let Some(until) = &mut self.until {
            assert!(end - access >= *until, "a device did two things at {until:?}");
            *until = end;
        }
    }
}

/// Bytes on their way from the applications to the devices and back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes that operations asked to be moved.
    pub(crate) asked_bytes: u64,
    /// Bytes that were answered.
    pub(crate) answered_bytes: u64,
    /// Bytes of requests that were given up, or not sent since their operation had failed.
    pub(crate) dropped_bytes: u64,
    /// Bytes that devices were asked to move.
    pub(crate) device_bytes: u64,
    /// Bytes that servers read from their memory instead.
    pub(crate) memory_bytes: u64,
}

impl World {
    /// Lets everything that is under way come to its end, and looks whether all of it did.
    pub(crate) fn audit(&mut self) {
        self.draining = true;
        // What was begun is over long before; a world that goes on for ever has lost something.
        self.end = self.now + Span::from_secs(1_000_000);
        let done = self.go(&Unwatched);
        assert!(done.is_ok(), "the end of a run failed: {done:?}");
        let Self { requests, operations, clients, servers, ledger, totals, .. } = self;
        assert_eq!((requests.len(), operations.len()), (0, 0), "left under way");
        for (number, client) in clients.each.iter().enumerate() {
            assert_eq!((client.in_flight, client.under_way), (0, 0), "client {number}");
        }
        assert!(clients.states.iter().all(|state| state.in_flight() == 0), "paths in flight");
        for (number, server) in servers.each.iter().enumerate() {
            let left = (server.busy, server.waiting, server.held_bytes);
            assert_eq!(left, (0, 0, 0), "server {number}");
        }
        servers.behind.assert_caught_up();
        let ended = ledger.answered_bytes + ledger.dropped_bytes;
        assert_eq!(ledger.asked_bytes, ended, "bytes came to no end");
        let moved = ledger.device_bytes + ledger.memory_bytes;
        assert!(moved >= ledger.answered_bytes, "bytes that no device saw");
        if totals.resent == 0 && totals.lost == 0 && totals.failed == 0 {
            assert_eq!(moved, ledger.asked_bytes, "bytes that nobody asked for");
        }
    }
}
