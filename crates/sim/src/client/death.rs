//! Clients that die with requests in flight, and come back.
//!
//! What a client has sent goes its way: servers carry it out for nobody, but they cannot fetch data
//! from it any more. Its cache is gone, and with it what its applications believed written. Its
//! applications begin nothing until it is back; then each thread goes on with its next operation,
//! and of an application that ends with its bytes, those that it knows to be lost count as never
//! asked for. Its controllers begin anew.

use afflux_core::class::Class;
use afflux_core::path::Held;
use afflux_core::units::Time;

use super::Stage;
use super::application::{Phase, phases};
use crate::request::{Fifo, NONE};
use crate::world::World;

impl World {
    /// A client dies.
    pub(crate) fn client_dies(&mut self, now: Time, client: u32) {
        self.clients.each[client as usize].dead = true;
        let (first, count) = self.clients.paths_of(client);
        for path in first..first + count {
            self.clients.lanes[path as usize].queue = Fifo::EMPTY;
        }
        self.drop_requests(client);
        self.caches.empty(client);
        self.pages.clear(client);
        // A request that waits for its client's word has ended above: these wait for nothing but
        // locks, or have their bytes copied.
        for index in self.operations.indices() {
            let operation = &self.operations[index];
            let ends = operation.failed && (operation.phase == 0 || operation.left == 0);
            if operation.client == client && !ends {
                self.operation_dies(now, index);
            }
        }
        for path in first..first + count {
            self.note_hold(now, client, path, None);
            let class = self.clients.lanes[path as usize].class;
            self.clients.states[path as usize] = self.clients.controllers[class.index()].start();
            self.clients.lanes[path as usize].held = Held::default();
        }
        self.clients.each[client as usize].in_flight = 0;
        // What its controllers decide from here on is no answer to what the log has before.
        if let Some((logged, _)) = &mut self.clients.decisions
            && *logged == client
        {
            *logged = NONE;
        }
    }

    /// Nobody waits any more for the requests of a client.
    fn drop_requests(&mut self, client: u32) {
        let fetches = self.servers.options.bulk;
        for index in self.requests.indices() {
            let request = &mut self.requests[index];
            if request.client != client || !std::mem::take(&mut request.awaited) {
                continue;
            }
            if request.under_way {
                let at_device = request.parts > 0;
                request.lost |= fetches && request.class == Class::Write && !at_device;
            } else {
                self.requests.remove(index);
            }
        }
    }

    fn operation_dies(&mut self, now: Time, index: u32) {
        let operation = self.operations[index];
        self.totals.died += 1;
        self.operations[index].failed = true;
        let phase = usize::from(operation.phase).checked_sub(1);
        if let Some(Phase::Data(class)) = phase.map(|phase| phases(operation.kind)[phase]) {
            self.ledger.dropped_bytes += operation.left;
            self.count_lost(index, class, operation.left);
        }
        if !operation.released && !operation.failed {
            self.clients.each[operation.client as usize].issued_bytes -= operation.length_bytes;
        }
        let stood = self.leave_line(index);
        if stood {
            self.operations[index].lock = NONE;
        }
        // One to which a lock is on its way, or whose bytes are being copied, ends with that.
        if stood || phase.is_some() && operation.left > 0 {
            self.advance(now, index);
        }
    }

    /// A client is back.
    pub(crate) fn client_returns(&mut self, now: Time, client: u32) {
        let one = &mut self.clients.each[client as usize];
        if std::mem::take(&mut one.dead) && one.stage == Stage::AtWork {
            self.start_operations(now, client);
        }
    }
}
