//! How requests wait for a thread: in the order of arrival, or each client in a line of its own.
//!
//! With lines of their own a client has at most so many requests in the server; what it sends
//! beyond that waits at the door, where it takes no room and delays nobody.

use std::collections::{BTreeMap, VecDeque};

use afflux_core::credits::Options;
use afflux_core::credits::queue::{FairQueue, Next};
use afflux_core::units::Time;

use crate::events::Event;
use crate::invariants;
use crate::request::{NONE, Request};
use crate::scenario::Servers as ServerOptions;
use crate::world::World;

/// Lines of clients at all servers.
pub(crate) struct Lines {
    queues: Vec<FairQueue<u32>>,
    /// What waits outside, by path.
    doors: BTreeMap<u32, VecDeque<u32>>,
    /// Requests of one path that wait inside.
    bound: usize,
    /// When an event will look at a server again because of a cap.
    wakes: Vec<Time>,
}

/// The most that a request needs of a server's memory, as far as lines are concerned.
const USUAL_BYTES: u32 = 1 << 20;

impl Lines {
    /// The lines that `options` ask for, if any.
    pub(crate) fn new(options: &ServerOptions) -> Option<Self> {
        let credits = options.credits.as_ref().filter(|credits| credits.keeps_lines())?;
        let Options { contain, shares, .. } = credits;
        let count = options.count as usize;
        Some(Self {
            queues: vec![FairQueue::new(shares); count],
            doors: BTreeMap::new(),
            bound: contain.map_or(usize::MAX, |bound| bound as usize),
            wakes: vec![Time::NEVER; count],
        })
    }
}

impl World {
    /// A request that arrived waits; outside, where its client has enough inside.
    pub(super) fn wait(&mut self, now: Time, index: u32) {
        let Request { client, path, server, .. } = self.requests[index];
        if let Some(lines) = &mut self.servers.lines {
            let inside = lines.queues[server as usize].waiting(u64::from(path));
            if inside >= lines.bound {
                lines.doors.entry(path).or_default().push_back(index);
                return;
            }
        }
        self.let_in(now, index, client);
    }

    fn let_in(&mut self, now: Time, index: u32, client: u32) {
        let Request { path, server, length_bytes, .. } = self.requests[index];
        self.requests[index].queued = now.since(Time::ZERO);
        let pair = self.pair_of(client, path);
        let tenant = u32::from(self.clients.each[client as usize].application) + 1;
        if let Some(book) = &mut self.credits {
            book.arrive(now, index, pair, server, tenant);
        }
        let one = &mut self.servers.each[server as usize];
        one.waiting += 1;
        match &mut self.servers.lines {
            Some(lines) => {
                let bytes = u64::from(length_bytes);
                lines.queues[server as usize].push(u64::from(path), tenant, bytes, index);
            }
            None => one.queue.push(&mut self.requests, index),
        }
        self.totals.deepest = self.totals.deepest.max(self.servers.depth(server));
    }

    /// The next request that a free thread may take.
    pub(super) fn next_waiting(&mut self, now: Time, server: u32) -> Option<u32> {
        if self.servers.lines.is_none() {
            let first = self.servers.each[server as usize].queue.first;
            if first == NONE || !self.servers.may_start(server, self.requests[first].length_bytes) {
                return None;
            }
            let one = &mut self.servers.each[server as usize];
            invariants::less(&mut one.waiting, "requests in a queue");
            return self.servers.each[server as usize].queue.pop(&self.requests);
        }
        if !self.servers.may_start(server, USUAL_BYTES) {
            return None;
        }
        let lines = self.servers.lines.as_mut()?;
        let index = match lines.queues[server as usize].pop(now) {
            Next::Item(index) => index,
            Next::Nothing => return None,
            Next::At(time) => {
                if time < lines.wakes[server as usize] {
                    lines.wakes[server as usize] = time;
                    self.events.push(time, Event::Serve(server));
                }
                return None;
            }
        };
        invariants::less(&mut self.servers.each[server as usize].waiting, "requests in lines");
        let Request { client, path, .. } = self.requests[index];
        let next = lines.doors.get_mut(&path).and_then(VecDeque::pop_front);
        if let Some(next) = next {
            self.let_in(now, next, client);
        }
        Some(index)
    }

    /// A capped tenant may be served again.
    pub(crate) fn serve(&mut self, now: Time, server: u32) {
        if let Some(lines) = &mut self.servers.lines {
            lines.wakes[server as usize] = Time::NEVER;
        }
        self.start_services(now, server);
    }

    /// Takes out all that waits at a server, outside too.
    pub(super) fn drain(&mut self, server: u32) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(index) = self.servers.each[server as usize].queue.pop(&self.requests) {
            all.push(index);
        }
        self.servers.each[server as usize].queue = crate::request::Fifo::EMPTY;
        if let Some(lines) = &mut self.servers.lines {
            all.extend(lines.queues[server as usize].drain());
            for door in lines.doors.values_mut() {
                let here = |index: &u32| self.requests[*index].server == server;
                let (gone, stay) = door.drain(..).partition::<Vec<u32>, _>(here);
                all.extend(gone);
                door.extend(stay);
            }
        }
        all
    }
}
