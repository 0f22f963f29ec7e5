//! Paths: what is sent when, and what a reply leads to.

use afflux_core::class::Class;
use afflux_core::limits::{FanIn, HoldReason, Limits, Turn};
use afflux_core::path::{PathKey, Reply};
use afflux_core::target::Progress;
use afflux_core::units::{Span, Time};

use crate::events::Event;
use crate::invariants;
use crate::network::Node;
use crate::request::{NONE, Request};
use crate::world::World;

impl World {
    /// Sends what the controller of a path admits.
    pub(crate) fn pump(&mut self, now: Time, client: u32, path: u32) {
        loop {
            let lane = self.clients.lanes[path as usize];
            if lane.queue.is_empty() {
                return;
            }
            let size_bytes = self.next_size(lane.queue.first);
            let limits = self.limits(client, path);
            match self.clients.ask(now, client, path, size_bytes, &limits) {
                Ok(()) => {
                    invariants::within_window(&self.clients.states[path as usize]);
                    self.note_hold(now, client, path, None);
                    let index = self.take_piece(path);
                    self.send(now, index);
                }
                Err(hold) => {
                    self.note_hold(now, client, path, Some(hold.reason));
                    if hold.until < self.clients.wakes.of(path) {
                        self.clients.wakes.set(path, hold.until);
                        self.events.push(hold.until, Event::Path(path));
                    }
                    return;
                }
            }
        }
    }

    /// Sends what the controllers of all paths of a client admit, beginning each time with another.
    pub(crate) fn pump_all(&mut self, now: Time, client: u32) {
        let (first, count) = self.clients.paths_of(client);
        let turn = self.clients.each[client as usize].first_path;
        for path in 0..count {
            self.pump(now, client, first + (turn + path) % count);
        }
        self.clients.each[client as usize].first_path = (turn + 1) % count;
    }

    /// A path may send again.
    pub(crate) fn path_wakes(&mut self, now: Time, path: u32) {
        if self.clients.wakes.of(path) == now {
            self.clients.wakes.set(path, Time::NEVER);
            let client = self.clients.client_of(path);
            self.pump(now, client, path);
        }
    }

    fn limits(&self, client: u32, path: u32) -> Limits {
        let lane = &self.clients.lanes[path as usize];
        let number = if lane.server == NONE { 0 } else { lane.server };
        let in_flight = self.clients.each[client as usize].in_flight;
        Limits {
            credits: None,
            cap: self.clients.cap,
            fan_in: self.clients.fan_in.map(|limit| FanIn { limit, in_flight }),
            // Turns are for data: a name that must be looked up should not wait for them.
            turn: self.clients.turn_slot.filter(|_| lane.class != Class::Metadata).map(|slot| {
                Turn { slot, of: self.clients.each.len() as u32, mine: client + number }
            }),
        }
    }

    pub(super) fn note_hold(
        &mut self,
        now: Time,
        client: u32,
        path: u32,
        reason: Option<HoldReason>,
    ) {
        let lane = &mut self.clients.lanes[path as usize];
        let (mut held, class) = (lane.held, lane.class);
        held.note(&mut self.clients.counts_of(client).holds[class.index()], now, reason);
        self.clients.lanes[path as usize].held = held;
    }

    /// Bytes of the next piece of a request that waits.
    fn next_size(&self, index: u32) -> u32 {
        let request = &self.requests[index];
        if request.cut { request.length_bytes } else { self.next_piece(request).0 }
    }

    /// Bytes of the next piece of a request that is not cut yet, and where its operation goes on in
    /// the same stripe after it. A piece is of one unit, or of several where they are joined, since
    /// those of one stripe follow each other in its object.
    fn next_piece(&self, request: &Request) -> (u32, Option<u64>) {
        let cast = self.cast_of(request.client);
        let layout = cast.layout();
        let unit = u64::from(layout.unit_bytes);
        let operation = &self.operations[request.operation];
        let end = operation.offset_bytes + operation.length_bytes;
        let most = u64::from(cast.workload.max_request);
        let (mut at, mut length) = (request.offset_bytes, 0);
        loop {
            let room = (unit - at % unit).min(end - at).min(most - length);
            (at, length) = (at + room, length + room);
            if at.is_multiple_of(unit) {
                at += unit * u64::from(layout.count - 1);
            }
            if at >= end {
                return (length as u32, None);
            }
            if length == most || !self.scenario.clients.join {
                return (length as u32, Some(at));
            }
        }
    }

    /// Takes the next piece out of a path's queue; what is left of its operation stays in front.
    fn take_piece(&mut self, path: u32) -> u32 {
        let index = self.clients.lanes[path as usize].queue.first;
        let request = self.requests[index];
        let (length_bytes, next_offset) =
            if request.cut { (request.length_bytes, None) } else { self.next_piece(&request) };
        let mut piece = request;
        if !request.cut {
            let layout = self.cast_of(request.client).layout();
            let cut = layout.pieces(request.offset_bytes, u64::from(length_bytes), length_bytes);
            let object_offset = cut.map(|piece| piece.object_offset_bytes).next();
            piece.offset_bytes = object_offset.unwrap_or_default();
            (piece.length_bytes, piece.cut) = (length_bytes, true);
        }
        if let Some(next) = next_offset {
            self.requests[index].offset_bytes = next;
            return self.requests.insert(piece);
        }
        let lane = &mut self.clients.lanes[path as usize];
        lane.queue.pop(&self.requests);
        self.requests[index] = piece;
        index
    }

    fn send(&mut self, now: Time, index: u32) {
        let request = &mut self.requests[index];
        request.sent = now;
        request.under_way = true;
        let request = *request;
        self.totals.sent += 1;
        self.clients.each[request.client as usize].in_flight += 1;
        if let Some(first) = self.clients.timers.start(now, index) {
            self.events.push(first, Event::Timer);
        }
        if request.server == NONE {
            let there = now + self.network.latency();
            match self.metadata.serve(there) {
                Some(done) => self.events.push(done + self.network.latency(), Event::Reply(index)),
                None => {
                    self.totals.lost += 1;
                    self.forget(index);
                }
            }
            return;
        }
        let carries = request.class == Class::Write && !self.servers.options.bulk;
        let data_bytes = if carries { u64::from(request.length_bytes) } else { 0 };
        let (here, there) = (Node::Client(request.client), Node::Server(request.server));
        self.transmit(now, here, there, data_bytes, Event::Arrive(index));
    }

    /// The answer to a request arrives.
    pub(crate) fn reply(&mut self, now: Time, index: u32, progress: &dyn Progress) {
        self.requests[index].under_way = false;
        self.release_thread(now, index);
        let request = self.requests[index];
        self.requests[index].awaited = false;
        if !request.awaited {
            self.discard(index);
            return;
        }
        self.totals.replies += 1;
        invariants::less(&mut self.clients.each[request.client as usize].in_flight, "in flight");
        self.take_reply(now, &request);
        let bytes = u64::from(request.length_bytes);
        if request.class != Class::Metadata {
            progress.moved(bytes);
            self.ledger.answered_bytes += bytes;
            let application = self.clients.each[request.client as usize].application;
            self.course.reply(now.since(request.sent), request.class, bytes, application);
        }
        self.discard(index);
        self.settle(now, &request);
        if self.clients.fan_in.is_some() {
            self.pump_all(now, request.client);
        } else {
            self.pump(now, request.client, request.path);
        }
    }

    /// Hands a reply to its controller and to those who count.
    fn take_reply(&mut self, now: Time, request: &Request) {
        let Request { built, sent, length_bytes: size_bytes, class, .. } = *request;
        let reply = Reply { built, sent, arrived: now, size_bytes };
        let ruling = self.clients.hear(request.client, request.path, &reply);
        let state = self.clients.states[request.path as usize];
        let lane = &mut self.clients.lanes[request.path as usize];
        lane.answered = true;
        let server = if lane.server == NONE { 0 } else { lane.server };
        let counts = self.clients.counts_of(request.client);
        counts.recorder.ruling(now, class, &ruling);
        counts.recorder.request(now, class, sent, request.access, request.queued);
        counts.recorder.transfer(now, class, u64::from(size_bytes));
        if counts.recorder.traces() {
            let key = PathKey { server, class, tenant: 0 };
            counts.recorder.trace(now, key, &state, u64::from(size_bytes));
        }
    }

    /// Nobody waits for a request any more; a device may still work on it.
    fn discard(&mut self, index: u32) {
        if !self.requests[index].behind {
            self.requests.remove(index);
        }
    }

    /// A request leads to nothing more on its way: the client's timer is what is left.
    pub(crate) fn forget(&mut self, index: u32) {
        let request = &mut self.requests[index];
        request.under_way = false;
        if !request.awaited {
            self.requests.remove(index);
        }
    }

    /// A request that was built `now`, before anything is known of it.
    pub(crate) const fn fresh(now: Time) -> Request {
        Request {
            operation: NONE,
            client: NONE,
            file: 0,
            path: NONE,
            server: NONE,
            next: NONE,
            offset_bytes: 0,
            length_bytes: 0,
            built: now,
            sent: Time::NEVER,
            queued: Span::ZERO,
            access: Span::ZERO,
            parts: 0,
            class: Class::Metadata,
            attempt: 0,
            cut: true,
            awaited: true,
            under_way: false,
            in_service: false,
            lost: false,
            behind: false,
        }
    }
}
