//! Storage servers: a queue, service threads, the transfer of data, and the devices behind.
//!
//! A request waits in order of arrival for a service thread. The thread does its own work, fetches
//! the data of a write where transfer is in bulk, and gives the request to the devices; it is free
//! again when the answer is on its way, or when the data of a bulk read have arrived.

mod behind;
mod devices;
mod places;

use behind::Behind;
pub(crate) use devices::Devices;
pub(crate) use places::{FileShape, Object, Places, golden_stride};

use afflux_core::class::Class;
use afflux_core::device::placement::Piece;
use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};

use crate::events::Event;
use crate::invariants;
use crate::network::Node;
use crate::pages::PageCache;
use crate::request::{Fifo, NONE, Request};
use crate::scenario::Servers as ServerOptions;
use crate::world::World;

/// A storage server besides its devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// Requests that wait for a thread.
    pub(crate) queue: Fifo,
    /// How many wait.
    pub(crate) waiting: u32,
    /// Threads that are busy.
    pub(crate) busy: u32,
    /// Data of requests in service.
    pub(crate) held_bytes: u64,
    /// Whether it starts nothing new.
    pub(crate) stalled: bool,
    /// Whether it is dead and takes nothing.
    pub(crate) dead: bool,
}

/// All storage servers.
pub(crate) struct Servers {
    pub(crate) options: ServerOptions,
    pub(crate) each: Vec<Server>,
    pub(crate) devices: Devices,
    pub(crate) places: Places,
    cache: PageCache,
    pub(crate) behind: Behind,
    /// Room for the pieces of one request.
    pieces: Vec<Piece>,
    rng: Rng,
}

impl Servers {
    pub(crate) fn new(options: &ServerOptions, places: Places, seed: u64) -> Self {
        let idle = Server {
            queue: Fifo::EMPTY,
            waiting: 0,
            busy: 0,
            held_bytes: 0,
            stalled: false,
            dead: false,
        };
        Self {
            options: options.clone(),
            each: vec![idle; options.count as usize],
            devices: Devices::new(options, seed),
            places,
            cache: PageCache::new(options.count, options.cache),
            behind: Behind::new(options.count, options.write_back),
            pieces: Vec::new(),
            rng: Rng::new(seed).fork("threads"),
        }
    }

    /// Requests that wait or are in service at `server`.
    pub(crate) fn depth(&self, server: u32) -> u64 {
        let server = &self.each[server as usize];
        u64::from(server.waiting) + u64::from(server.busy)
    }

    /// A thread's own work on a request: half to one and a half times its mean, since nothing on a
    /// real machine takes equally long each time, and what does moves in step with others.
    fn own_work(&mut self) -> Span {
        let mean = self.options.overhead.as_nanos();
        Span::from_nanos(mean / 2 + self.rng.below(mean + 1))
    }

    fn may_start(&self, server: u32, bytes: u32) -> bool {
        let one = &self.each[server as usize];
        let room = self.options.memory.is_none_or(|memory| {
            // One request is always let in, however large.
            one.held_bytes == 0 || one.held_bytes + u64::from(bytes) <= memory
        });
        one.busy < self.options.threads && room && !one.stalled && !one.dead
    }
}

impl World {
    /// A request arrives at its server.
    pub(crate) fn arrive(&mut self, now: Time, index: u32) {
        let server = self.requests[index].server;
        if self.servers.each[server as usize].dead {
            self.totals.lost += 1;
            self.forget(index);
            return;
        }
        self.requests[index].queued = now.since(Time::ZERO);
        let one = &mut self.servers.each[server as usize];
        one.queue.push(&mut self.requests, index);
        one.waiting += 1;
        self.totals.deepest = self.totals.deepest.max(self.servers.depth(server));
        self.start_services(now, server);
    }

    /// Gives waiting requests to threads that are free.
    pub(crate) fn start_services(&mut self, now: Time, server: u32) {
        loop {
            let first = self.servers.each[server as usize].queue.first;
            if first == NONE || !self.servers.may_start(server, self.requests[first].length_bytes) {
                return;
            }
            let one = &mut self.servers.each[server as usize];
            let Some(index) = one.queue.pop(&self.requests) else { return };
            let request = &mut self.requests[index];
            invariants::less(&mut one.waiting, "requests in a queue");
            one.busy += 1;
            one.held_bytes += u64::from(request.length_bytes);
            request.in_service = true;
            request.queued = now.since(Time::ZERO).saturating_sub(request.queued);
            let work = self.servers.own_work();
            if request.class != Class::Write || !self.servers.options.bulk {
                self.events.push(now + work, Event::Ready(index));
            } else if self.network.flows.is_some() {
                self.events.push(now + work, Event::Ask(index));
            } else {
                // The same without events for the question: it goes first, and the work comes last.
                let (here, there) = (Node::Server(server), Node::Client(request.client));
                let data_bytes = u64::from(request.length_bytes);
                let asked = self.network.send(now, here, there, 0);
                let come = self.network.send(asked, there, here, data_bytes);
                self.events.push(come + work, Event::Ready(index));
            }
        }
    }

    /// A thread asks a client for the data of a write.
    pub(crate) fn ask(&mut self, now: Time, index: u32) {
        let request = self.requests[index];
        let (here, there) = (Node::Server(request.server), Node::Client(request.client));
        self.transmit(now, here, there, 0, Event::Fetch(index));
    }

    /// A client is asked for the data of a write.
    pub(crate) fn fetch(&mut self, now: Time, index: u32) {
        let request = self.requests[index];
        let (here, there) = (Node::Client(request.client), Node::Server(request.server));
        let data_bytes = u64::from(request.length_bytes);
        self.transmit(now, here, there, data_bytes, Event::Ready(index));
    }

    /// A request goes to the devices.
    pub(crate) fn ready(&mut self, now: Time, index: u32) {
        let request = self.requests[index];
        if request.lost {
            // It had a thread if its data are gone with a client, none if the server died.
            self.totals.lost += u64::from(request.in_service);
            self.release_thread(now, index);
            return self.forget(index);
        }
        let object = self.object_of(&request);
        if request.class == Class::Metadata {
            self.servers.places.remove(request.server, object);
            self.servers.cache.remove(request.server, object.key());
            return self.answer(now, index);
        }
        let mut pieces = std::mem::take(&mut self.servers.pieces);
        pieces.clear();
        let (offset, length) = (request.offset_bytes, u64::from(request.length_bytes));
        let write = request.class == Class::Write;
        if write {
            self.servers.cache.keep(request.server, object.key(), offset, length);
        } else if self.servers.cache.has(request.server, object.key(), offset, length) {
            self.servers.pieces = pieces;
            self.ledger.memory_bytes += length;
            return self.answer(now, index);
        }
        let located =
            self.servers.places.locate(request.server, object, offset, length, &mut pieces);
        if let Err(source) = located {
            self.failure.get_or_insert(source);
        }
        let mut parts = 0;
        for piece in &pieces {
            for (spindle, part) in self.servers.devices.cut(request.server, *piece) {
                parts += 1;
                self.ledger.device_bytes += part.length_bytes;
                let due = self.servers.devices.submit(now, spindle, index, write, part);
                if let Some(due) = due {
                    self.events.push(due, Event::Device(spindle));
                }
            }
        }
        self.servers.pieces = pieces;
        self.requests[index].parts = parts;
        if parts == 0 {
            self.answer(now, index);
        } else if write {
            self.write_behind(now, index);
        }
    }

    /// A spindle has finished something.
    pub(crate) fn device(&mut self, now: Time, spindle: u32) {
        if !self.servers.devices.is_due(now, spindle) {
            return;
        }
        while let Some((index, access)) = self.servers.devices.poll(spindle) {
            let request = &mut self.requests[index];
            request.access += access;
            request.parts -= 1;
            if request.parts == 0 && !self.caught_up(now, index) {
                self.keep_read(index);
                self.answer(now, index);
            }
        }
        if let Some(due) = self.servers.devices.next_due(now, spindle) {
            self.events.push(due, Event::Device(spindle));
        }
    }

    /// What a device has read stays in memory.
    fn keep_read(&mut self, index: u32) {
        let request = self.requests[index];
        if request.class == Class::Read {
            let object = self.object_of(&request);
            let (offset, length) = (request.offset_bytes, u64::from(request.length_bytes));
            self.servers.cache.keep(request.server, object.key(), offset, length);
        }
    }

    /// The stripe of a file that a request is for.
    fn object_of(&self, request: &Request) -> Object {
        let application = u32::from(self.clients.each[request.client as usize].application);
        let stripe = self.cast_of(request.client).stripe(request.file, request.server);
        Object { application, file: request.file, stripe }
    }

    /// Sends the answer to a request.
    fn answer(&mut self, now: Time, index: u32) {
        let request = self.requests[index];
        if request.lost {
            return self.forget(index);
        }
        if !request.awaited {
            self.totals.wasted += 1;
        }
        let client = request.client;
        let data_bytes =
            if request.class == Class::Read { u64::from(request.length_bytes) } else { 0 };
        let (here, there) = (Node::Server(request.server), Node::Client(client));
        self.transmit(now, here, there, data_bytes, Event::Reply(index));
        // In bulk mode a thread sees its data to their end.
        if !(self.servers.options.bulk && request.class == Class::Read) {
            self.release_thread(now, index);
        }
    }

    /// The thread that was busy with a request takes the next one.
    pub(crate) fn release_thread(&mut self, now: Time, index: u32) {
        let request = &mut self.requests[index];
        if !std::mem::take(&mut request.in_service) {
            return;
        }
        let (server, bytes) = (request.server, u64::from(request.length_bytes));
        let one = &mut self.servers.each[server as usize];
        invariants::less(&mut one.busy, "busy threads");
        one.held_bytes -= bytes;
        self.start_services(now, server);
    }

    /// A server dies: what waits is gone, what is in service will lead to nothing.
    pub(crate) fn kill(&mut self, server: u32) {
        let mut queue =
            std::mem::replace(&mut self.servers.each[server as usize].queue, Fifo::EMPTY);
        while let Some(index) = queue.pop(&self.requests) {
            self.totals.lost += 1;
            self.forget(index);
        }
        self.servers.cache.clear(server);
        self.servers.behind.forget_waiting(server);
        let one = &mut self.servers.each[server as usize];
        (one.waiting, one.busy, one.held_bytes, one.dead) = (0, 0, 0, true);
        for index in self.requests.indices() {
            let request = &mut self.requests[index];
            if request.server == server && std::mem::take(&mut request.in_service) {
                request.lost = true;
                self.totals.lost += 1;
            }
        }
    }
}
