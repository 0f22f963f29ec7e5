//! Caches of clients: writes that go behind, reads that go ahead.

use afflux_core::class::Class;
use afflux_core::units::Time;

use crate::request::Request;
use crate::world::World;

impl World {
    /// An operation's requests were queued: the application may go on without waiting for their
    /// end as far as a cache covers them.
    pub(crate) fn cover(&mut self, _now: Time, _operation: u32, _class: Class) {}

    /// A request was answered, so that there is room for others.
    pub(crate) fn uncover(&mut self, _now: Time, _request: &Request) {}
}
