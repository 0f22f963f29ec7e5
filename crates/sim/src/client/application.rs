//! Applications: which operation comes next, the phases in which it goes, and its end.

use std::collections::BTreeMap;

use afflux_core::class::Class;
use afflux_core::units::Time;
use afflux_core::workload::{AppOperation, Kind, Next};

use crate::client::{Cast, Stage};
use crate::events::Event;
use crate::invariants;
use crate::request::{NONE, Operation, Request};
use crate::world::World;

/// What an operation does in one of its phases; the next waits for all of its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// One question to the server of names.
    Catalog,
    /// Data from or to storage servers.
    Data(Class),
    /// The objects of a file are removed.
    Remove,
}

/// The phases of each kind, in the order in which the lab's client goes through them.
pub(super) const fn phases(kind: Kind) -> &'static [Phase] {
    match kind {
        Kind::Read => &[Phase::Data(Class::Read)],
        Kind::Write => &[Phase::Data(Class::Write)],
        Kind::Append => &[Phase::Data(Class::Write), Phase::Catalog],
        Kind::Create => &[Phase::Catalog, Phase::Data(Class::Write), Phase::Catalog],
        Kind::Delete => &[Phase::Catalog, Phase::Remove],
        Kind::Stat => &[Phase::Catalog],
    }
}

/// Sizes of the files that are not as large as the workload's files are at the start, by client and
/// file.
pub(crate) type Sizes = BTreeMap<(u32, u32), u64>;

impl World {
    /// A client looks whether its application has something to do.
    pub(crate) fn application_wakes(&mut self, now: Time, client: u32) {
        let one = &mut self.clients.each[client as usize];
        if one.wake == now {
            one.wake = Time::NEVER;
            self.start_operations(now, client);
        }
    }

    /// Starts what the application of a client begins now.
    pub(crate) fn start_operations(&mut self, now: Time, client: u32) {
        while !self.draining {
            let one = self.clients.each[client as usize];
            if one.dead {
                return;
            }
            let limit = self.cast_of(client).bytes;
            if limit.is_some_and(|limit| one.issued_bytes >= limit) {
                if one.under_way == 0 {
                    self.client_ends(now, client);
                }
                return;
            }
            match self.clients.next_operation(client, now) {
                Next::Start(asked) => self.start_operation(now, client, &asked),
                Next::At(time) => {
                    let one = &mut self.clients.each[client as usize];
                    if time < one.wake {
                        one.wake = time;
                        self.events.push(time, Event::Application(client));
                    }
                    return;
                }
                Next::AfterCompletion => return,
            }
        }
    }

    fn start_operation(&mut self, now: Time, client: u32, asked: &AppOperation) {
        let whole = self.cast_of(client).workload.files.size;
        let size = self.sizes.get(&(client, asked.file)).copied().unwrap_or(whole);
        let (offset_bytes, length_bytes) = match asked.kind {
            Kind::Read => {
                let there = size.saturating_sub(asked.offset_bytes);
                (asked.offset_bytes, asked.length_bytes.min(there).max(1))
            }
            Kind::Append => (size, asked.length_bytes),
            _ => (asked.offset_bytes, asked.length_bytes),
        };
        let index = self.operations.insert(Operation {
            client,
            thread: asked.thread,
            stream: asked.stream,
            file: asked.file,
            offset_bytes,
            length_bytes,
            started: now,
            left: 0,
            kind: asked.kind,
            phase: 0,
            released: false,
            failed: false,
            lock: NONE,
        });
        let one = &mut self.clients.each[client as usize];
        one.under_way += 1;
        one.issued_bytes += length_bytes;
        let application = one.application as usize;
        self.progress[application].started.get_or_insert(now);
        self.clients.counts_of(client).recorder.operation_started(now);
        if self.waits_for_lock(now, index) {
            return;
        }
        self.advance(now, index);
    }

    /// Starts the next phase of an operation, or ends it.
    pub(crate) fn advance(&mut self, now: Time, index: u32) {
        loop {
            let operation = self.operations[index];
            let phase = phases(operation.kind).get(operation.phase as usize);
            let Some(phase) = phase.filter(|_| !operation.failed) else {
                self.end_operation(now, index);
                return;
            };
            self.operations[index].phase += 1;
            let begun = match phase {
                Phase::Catalog => self.begin_catalog(now, index),
                Phase::Data(class) => self.begin_data(now, index, *class),
                Phase::Remove => self.begin_removal(now, index),
            };
            if begun {
                return;
            }
        }
    }

    fn begin_catalog(&mut self, now: Time, index: u32) -> bool {
        self.operations[index].left = 1;
        self.queue(now, index, NONE, Class::Metadata, None);
        true
    }

    /// Queues an operation's bytes at the paths to the servers that keep them, one entry for each
    /// stripe: requests are cut when they are sent.
    fn begin_data(&mut self, now: Time, index: u32, class: Class) -> bool {
        let operation = self.operations[index];
        if operation.length_bytes == 0 {
            return false;
        }
        if self.is_at_hand(now, index, class) {
            return true;
        }
        self.operations[index].left = operation.length_bytes;
        self.ledger.asked_bytes += operation.length_bytes;
        let cast = self.cast_of(operation.client);
        let layout = cast.layout();
        let (unit, count) = (u64::from(layout.unit_bytes), u64::from(layout.count));
        let end = operation.offset_bytes + operation.length_bytes;
        let first = operation.offset_bytes / unit;
        let last = (end - 1) / unit;
        let file = cast.file(operation.client - cast.first_client, operation.file);
        for number in first..=last.min(first + count - 1) {
            let stripe = (number % count) as u32;
            let server = self.cast_of(operation.client).server(file, stripe);
            let offset = operation.offset_bytes.max(number * unit);
            self.queue(now, index, server, class, Some(offset));
        }
        self.cover(now, index, class);
        true
    }

    fn begin_removal(&mut self, now: Time, index: u32) -> bool {
        let operation = self.operations[index];
        let cast = self.cast_of(operation.client);
        let count = cast.layout().count;
        let file = cast.file(operation.client - cast.first_client, operation.file);
        self.operations[index].left = u64::from(count);
        for stripe in 0..count {
            let server = self.cast_of(operation.client).server(file, stripe);
            self.queue(now, index, server, Class::Metadata, None);
        }
        true
    }

    /// Puts a request at the end of its path's queue, and sends what may be sent. Data begin at
    /// `offset` of the file.
    fn queue(&mut self, now: Time, operation: u32, server: u32, class: Class, offset: Option<u64>) {
        let Operation { client, file, .. } = self.operations[operation];
        let cast = self.cast_of(client);
        let local = client - cast.first_client;
        let (first, _) = self.clients.paths_of(client);
        let path = first + cast.slot(local, server, class);
        let request = Request {
            operation,
            client,
            file: cast.file(local, file),
            path,
            server,
            class,
            offset_bytes: offset.unwrap_or(0),
            cut: offset.is_none(),
            ..Self::fresh(now)
        };
        let index = self.requests.insert(request);
        self.clients.lanes[path as usize].queue.push(&mut self.requests, index);
        if self.clients.fan_in.is_some() {
            self.pump_all(now, client);
        } else {
            self.pump(now, client, path);
        }
    }

    /// Takes the end of a request: its operation may end by it.
    pub(crate) fn settle(&mut self, now: Time, request: &Request) {
        let weight =
            if request.class == Class::Metadata { 1 } else { u64::from(request.length_bytes) };
        let operation = &mut self.operations[request.operation];
        operation.left -= weight;
        let done = operation.left == 0;
        let released = self.uncover(now, request, done);
        if done {
            self.advance(now, request.operation);
        }
        if released {
            self.start_operations(now, request.client);
        }
    }

    fn end_operation(&mut self, now: Time, index: u32) {
        let operation = self.operations[index];
        let Operation { client, .. } = operation;
        self.remember(&operation);
        self.totals.operations += 1;
        let counts = self.clients.counts_of(client);
        counts.recorder.operation_ended(now, operation.started);
        let one = &mut self.clients.each[client as usize];
        invariants::less(&mut one.under_way, "operations under way");
        let progress = &mut self.progress[one.application as usize];
        progress.last_end = now;
        if !operation.failed {
            progress.bytes += operation.length_bytes;
        }
        if !operation.released {
            self.clients.complete(client, now, operation.thread);
        }
        self.operations[index].client = NONE;
        self.operations.remove(index);
        // What the client begins now may keep the lock.
        self.start_operations(now, client);
        self.release_lock(now, operation.lock);
    }

    /// Keeps the sizes of files that grow, come and go.
    fn remember(&mut self, operation: &Operation) {
        let file = (operation.client, operation.file);
        match operation.kind {
            Kind::Create => {
                self.sizes.insert(file, operation.length_bytes);
            }
            Kind::Append => {
                let end = operation.offset_bytes + operation.length_bytes;
                self.sizes.insert(file, end);
            }
            Kind::Delete => {
                self.sizes.remove(&file);
                self.pages.remove(operation.client, u64::from(operation.file));
            }
            Kind::Read | Kind::Write | Kind::Stat => {}
        }
    }

    /// A client has done all that it had to do.
    fn client_ends(&mut self, now: Time, client: u32) {
        let one = &mut self.clients.each[client as usize];
        if std::mem::replace(&mut one.stage, Stage::Ended) != Stage::Ended {
            let progress = &mut self.progress[one.application as usize];
            progress.clients_left -= 1;
            if progress.clients_left == 0 {
                progress.ended = Some(now);
            }
        }
    }

    /// The application of a client.
    pub(crate) fn cast_of(&self, client: u32) -> &Cast {
        &self.clients.casts[self.clients.each[client as usize].application as usize]
    }
}
