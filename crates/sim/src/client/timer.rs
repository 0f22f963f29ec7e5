//! Timers of requests: all run equally long, so that a line in order of sending is enough.

use std::collections::VecDeque;

use afflux_core::class::Class;
use afflux_core::units::{Span, Time};

use crate::events::Event;
use crate::invariants;
use crate::world::World;

/// Requests in order of sending, as far as they have a time-out.
#[derive(Debug)]
pub(crate) struct Timers {
    timeout: Option<Span>,
    /// When each was sent, and which.
    line: VecDeque<(Time, u32)>,
}

impl Timers {
    pub(crate) const fn new(timeout: Option<Span>) -> Self {
        Self { timeout, line: VecDeque::new() }
    }

    /// Starts the timer of a request that is sent `now`; gives the time for which an event is to be
    /// put in, if there is none yet.
    pub(crate) fn start(&mut self, now: Time, request: u32) -> Option<Time> {
        let timeout = self.timeout?;
        let first = self.line.is_empty();
        self.line.push_back((now, request));
        first.then(|| now + timeout)
    }
}

impl World {
    /// The oldest timer ends, and those with it.
    pub(crate) fn timer(&mut self, now: Time) {
        let Some(timeout) = self.clients.timers.timeout else { return };
        while let Some(&(sent, index)) = self.clients.timers.line.front() {
            let request = &self.requests[index];
            // A place in the table that was used again has a later time of sending.
            let waits = request.awaited && request.sent == sent;
            if waits && sent + timeout > now {
                break;
            }
            self.clients.timers.line.pop_front();
            if waits {
                self.timed_out(now, index);
            }
        }
        if let Some((sent, _)) = self.clients.timers.line.front() {
            self.events.push(*sent + timeout, Event::Timer);
        }
    }

    /// A request was not answered in time: it is sent again as if it had never been sent, unless
    /// that was done too often. What the server makes of the old one is lost.
    fn timed_out(&mut self, now: Time, index: u32) {
        let request = self.requests[index];
        let (client, path) = (request.client, request.path);
        invariants::less(&mut self.clients.each[client as usize].in_flight, "in flight");
        self.clients.fault(now, client, path);
        self.requests[index].awaited = false;
        if !request.under_way {
            self.requests.remove(index);
        }
        if u32::from(request.attempt) < self.retries {
            self.totals.resent += 1;
            let mut again = request;
            again.attempt += 1;
            (again.under_way, again.in_service, again.lost) = (false, false, false);
            again.behind = false;
            (again.parts, again.access, again.sent) = (0, Span::ZERO, Time::NEVER);
            let again = self.requests.insert(again);
            self.clients.lanes[path as usize].queue.push_front(&mut self.requests, again);
        } else {
            self.totals.failed += 1;
            self.count_lost(request.operation, request.class, u64::from(request.length_bytes));
            let what = format!("server {} did not answer in {}", request.server, self.patience());
            self.clients.counts_of(client).recorder.fault(what);
            self.operations[request.operation].failed = true;
            self.ledger.dropped_bytes += u64::from(request.length_bytes);
            self.settle(now, &request);
        }
        if self.clients.fan_in.is_some() {
            self.pump_all(now, client);
        } else {
            self.pump(now, client, path);
        }
    }

    /// Bytes of an operation will not be moved. Its application is told, unless it has gone on in
    /// the belief that they were written.
    pub(super) fn count_lost(&mut self, operation: u32, class: Class, bytes: u64) {
        match class {
            Class::Write if self.operations[operation].released => self.totals.lost_bytes += bytes,
            Class::Read | Class::Write => self.totals.failed_bytes += bytes,
            Class::Metadata => {}
        }
    }

    fn patience(&self) -> Span {
        self.clients.timers.timeout.unwrap_or(Span::ZERO)
    }
}
