//! Caches of clients: writes that go behind, reads that go ahead.
//!
//! A write ends for its application as soon as its bytes are within the limit of what the client
//! holds for its servers; a sequential read lets its thread ask for the next as long as what was
//! asked for ahead is within the limit. Either way the requests go their way through the paths, and
//! the operation counts as ended when the last of them is answered. Limits hold for all paths of a
//! client together. Where files come and go, neither is done, since an operation must know what the
//! one before left behind. What a client keeps to read again is told in [`crate::pages`].

use std::collections::VecDeque;

use afflux_core::class::Class;
use afflux_core::units::{Span, Time};
use afflux_core::workload::{Kind, Placing};

use crate::events::Event;
use crate::request::{Operation, Request};
use crate::scenario::Scenario;
use crate::world::World;

/// What copying from memory to memory takes: 5 GB/s, a fraction of what one core can do.
const PICOS_PER_BYTE: u64 = 200;

/// What the cache of one client holds of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    /// Bytes of operations whose application has gone on, as far as they were not answered.
    covered_bytes: u64,
    /// Operations whose application waits for room.
    waiting: VecDeque<u32>,
}

/// Caches of all clients; none where nothing is cached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caches {
    /// Bytes for reads and writes: of a client, and of a path.
    limits: [u64; 2],
    /// For each client, reads and writes.
    each: Vec<[Cache; 2]>,
}

impl Caches {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let limits = [scenario.clients.read_ahead, scenario.clients.dirty];
        let cached = limits.iter().any(|limit| *limit > 0);
        let clients = if cached { scenario.client_count() as usize } else { 0 };
        Self { limits, each: vec![Default::default(); clients] }
    }

    /// A client has lost all that it held.
    pub(super) fn empty(&mut self, client: u32) {
        if let Some(caches) = self.each.get_mut(client as usize) {
            *caches = Default::default();
        }
    }
}

impl World {
    /// Keeps what an operation writes or asks for, and says whether its bytes were there already,
    /// so that it only takes the time of copying them. A client knows what others do to a file only
    /// where nobody else has it.
    pub(crate) fn is_at_hand(&mut self, now: Time, index: u32, class: Class) -> bool {
        let Operation { client, file, offset_bytes, length_bytes, .. } = self.operations[index];
        if self.cast_of(client).workload.files.placing == Placing::Shared {
            return false;
        }
        let file = u64::from(file);
        let there =
            class == Class::Read && self.pages.has(client, file, offset_bytes, length_bytes);
        if there {
            let copying = Span::from_nanos((length_bytes * PICOS_PER_BYTE).div_ceil(1_000));
            self.events.push(now + copying, Event::Copied(index));
        } else {
            self.pages.keep(client, file, offset_bytes, length_bytes);
        }
        there
    }

    /// The bytes of an operation came from memory.
    pub(crate) fn copied(&mut self, now: Time, index: u32) {
        let Operation { client, length_bytes, failed, .. } = self.operations[index];
        if !failed {
            self.clients.counts_of(client).recorder.transfer(now, Class::Read, length_bytes);
        }
        self.advance(now, index);
    }

    /// An operation's requests were queued: its application goes on if the cache has room.
    pub(crate) fn cover(&mut self, now: Time, index: u32, class: Class) {
        let operation = self.operations[index];
        let Some(caches) = self.caches.each.get_mut(operation.client as usize) else { return };
        let cast =
            &self.clients.casts[self.clients.each[operation.client as usize].application as usize];
        let goes = match operation.kind {
            Kind::Write => true,
            Kind::Read => cast.reads_ahead(operation.stream),
            _ => false,
        };
        let limit = self.caches.limits[class.index()];
        if !goes || limit == 0 || cast.workload.changes_files() {
            return;
        }
        let cache = &mut caches[class.index()];
        cache.waiting.push_back(index);
        self.release_covered(now, operation.client, class);
    }

    /// Lets applications go on, in order, as far as the cache has room. One operation is always
    /// let in, however large.
    fn release_covered(&mut self, now: Time, client: u32, class: Class) -> bool {
        let limit = match class {
            Class::Write => self.caches.limits[1] * u64::from(self.cast_of(client).data_paths()),
            _ => self.caches.limits[0],
        };
        let mut released = false;
        loop {
            let cache = &mut self.caches.each[client as usize][class.index()];
            let Some(&index) = cache.waiting.front() else { return released };
            let operation = &mut self.operations[index];
            let after = cache.covered_bytes + operation.left;
            if after > limit && cache.covered_bytes > 0 {
                return released;
            }
            cache.waiting.pop_front();
            cache.covered_bytes = after;
            operation.released = true;
            released = true;
            let thread = operation.thread;
            self.clients.complete(client, now, thread);
        }
    }

    /// A request of an operation was answered, so that there may be room for others. Gives whether
    /// an application may go on.
    pub(crate) fn uncover(&mut self, now: Time, request: &Request, ended: bool) -> bool {
        let Some(caches) = self.caches.each.get_mut(request.client as usize) else { return false };
        if request.class == Class::Metadata {
            return false;
        }
        let cache = &mut caches[request.class.index()];
        if self.operations[request.operation].released {
            cache.covered_bytes -= u64::from(request.length_bytes);
        } else if ended {
            cache.waiting.retain(|waiting| *waiting != request.operation);
        }
        self.release_covered(now, request.client, request.class)
    }
}
