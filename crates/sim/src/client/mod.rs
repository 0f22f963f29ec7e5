//! Clients: applications, the paths under the controllers of core, and what they send.
//!
//! Everything is in the order in which the lab's client does it: an operation is cut into requests
//! that queue at their paths, a request is sent when [`Controller::admit`] lets it go, and each
//! reply is handed to [`Controller::reply`] before anything else happens.

mod application;
mod cache;
mod calls;
mod cast;
mod death;
mod paths;
mod timer;

pub(crate) use application::Sizes;
pub(crate) use cache::Caches;
pub(crate) use cast::{Cast, Casting};
pub(crate) use timer::Timers;

use std::sync::Arc;

use afflux_core::class::Class;
use afflux_core::measure::{ClientMeasurement, Recorder};
use afflux_core::path::{Controller, DecisionLog, Held, HoldTotals, PathState};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};
use afflux_core::workload::{Generators, Next};

use crate::request::Fifo;
use crate::scenario::Scenario;
use crate::world::SimError;

/// What a path has besides its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// Requests that wait to be sent.
    pub(crate) queue: Fifo,
    /// What holds the first of them.
    pub(crate) held: Held,
    /// Its server; none for the catalog.
    pub(crate) server: u32,
    pub(crate) class: Class,
    /// Whether any reply came.
    pub(crate) answered: bool,
}

/// When an event will look at a path again. Most worlds know neither gaps nor turns, and keep
/// nothing here.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    times: Vec<Time>,
}

impl Wakes {
    /// The time for which an event is there.
    pub(crate) fn of(&self, path: u32) -> Time {
        self.times.get(path as usize).copied().unwrap_or(Time::NEVER)
    }

    pub(crate) fn set(&mut self, path: u32, time: Time) {
        if self.times.len() <= path as usize {
            self.times.resize(path as usize + 1, Time::NEVER);
        }
        self.times[path as usize] = time;
    }
}

/// A client besides its paths and its application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// When an event will look at its application again.
    pub(crate) wake: Time,
    /// Bytes of the operations that were begun.
    pub(crate) issued_bytes: u64,
    /// Requests in flight over all paths.
    pub(crate) in_flight: u32,
    /// Operations under way.
    pub(crate) under_way: u32,
    /// Where the next pass over the paths begins, so that a scarce fan-in goes round.
    pub(crate) first_path: u32,
    pub(crate) application: u16,
    pub(crate) stage: Stage,
    /// Whether it is dead, and begins nothing.
    pub(crate) dead: bool,
}

/// How far the application of a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not started.
    Waiting,
    AtWork,
    /// It has done all that it had to do.
    Ended,
}

/// What is counted for a group of clients; for one, unless there are very many.
pub(crate) struct Counts {
    pub(crate) recorder: Recorder,
    pub(crate) holds: [HoldTotals; Class::ALL.len()],
}

impl Counts {
    fn new(start: Time, length: Span) -> Self {
        let recorder = Recorder::new(start, length);
        Self { recorder, holds: Default::default() }
    }

    /// What was counted; from now on nothing is.
    pub(crate) fn finish(&mut self, now: Time) -> ClientMeasurement {
        let counted = std::mem::replace(self, Self::new(Time::NEVER, Span::ZERO));
        let mut client = counted.recorder.finish(now);
        client.holds = counted.holds;
        client
    }
}

/// All clients.
pub(crate) struct Clients {
    pub(crate) controllers: [Arc<Controller>; Class::ALL.len()],
    /// Limits that hold for every path or client; the lower of setting and scenario.
    pub(crate) cap: Option<u32>,
    pub(crate) fan_in: Option<u32>,
    pub(crate) turn_slot: Option<Span>,
    pub(crate) casts: Vec<Cast>,
    pub(crate) states: Vec<PathState>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) each: Vec<Client>,
    pub(crate) wakes: Wakes,
    /// For each application.
    generators: Vec<Generators>,
    pub(crate) counts: Vec<Counts>,
    pub(crate) timers: Timers,
    /// The decisions of one client, if they are written down.
    pub(crate) decisions: Option<(u32, DecisionLog)>,
}

impl Clients {
    /// All clients of `scenario` before their first operation.
    pub(crate) fn new(scenario: &Scenario, setting: &Setting, seed: u64) -> Result<Self, SimError> {
        let casting = Casting::of(scenario, seed);
        casting.check(scenario)?;
        let controllers = Class::ALL.map(|class| Arc::clone(setting.controller(class)));
        let least = |left: Option<u32>, right: Option<u32>| match (left, right) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
        let mut clients = Self {
            cap: least(setting.cap, scenario.clients.in_flight),
            fan_in: least(setting.fan_in, scenario.clients.fan_in),
            turn_slot: setting.turn_slot,
            states: Vec::with_capacity(casting.paths as usize),
            lanes: Vec::with_capacity(casting.paths as usize),
            each: Vec::with_capacity(casting.clients as usize),
            generators: Vec::with_capacity(casting.casts.len()),
            wakes: Wakes::default(),
            counts: Vec::with_capacity(casting.groups as usize),
            timers: Timers::new(scenario.clients.timeout),
            decisions: None,
            controllers,
            casts: casting.casts,
        };
        clients.people(seed);
        let start = Time::ZERO + scenario.run.settle;
        let fresh = |_| Counts::new(start, scenario.run.length);
        clients.counts.extend((0..casting.groups).map(fresh));
        Ok(clients)
    }

    /// Adds the clients of every application, with their paths.
    fn people(&mut self, seed: u64) {
        for (number, cast) in self.casts.iter().enumerate() {
            for local in 0..cast.clients {
                for slot in 0..cast.paths_per_client {
                    let (server, class) = cast.end_of(local, slot);
                    self.states.push(self.controllers[class.index()].start());
                    self.lanes.push(Lane {
                        queue: Fifo::EMPTY,
                        held: Held::default(),
                        server,
                        class,
                        answered: false,
                    });
                }
                self.each.push(Client {
                    wake: Time::NEVER,
                    issued_bytes: 0,
                    in_flight: 0,
                    under_way: 0,
                    first_path: 0,
                    application: number as u16,
                    stage: Stage::Waiting,
                    dead: false,
                });
            }
            let workload = Arc::clone(&cast.workload);
            self.generators.push(Generators::new(workload, 0..cast.clients, seed));
        }
    }

    /// What the application of `client` does next.
    pub(crate) fn next_operation(&mut self, client: u32, now: Time) -> Next {
        let application = self.each[client as usize].application as usize;
        let local = client - self.casts[application].first_client;
        self.generators[application].next(local, now)
    }

    /// An operation of `thread` of `client` is over, as far as its application is concerned.
    pub(crate) fn complete(&mut self, client: u32, now: Time, thread: u32) {
        let application = self.each[client as usize].application as usize;
        let local = client - self.casts[application].first_client;
        self.generators[application].complete(local, now, thread);
    }

    /// What is counted for `client`.
    pub(crate) fn counts_of(&mut self, client: u32) -> &mut Counts {
        let cast = &self.casts[self.each[client as usize].application as usize];
        let group = cast.first_group + (client - cast.first_client) / cast.merge;
        &mut self.counts[group as usize]
    }

    /// The first path of `client`, and how many it has.
    pub(crate) fn paths_of(&self, client: u32) -> (u32, u32) {
        let cast = &self.casts[self.each[client as usize].application as usize];
        let count = cast.paths_per_client;
        (cast.first_path + (client - cast.first_client) * count, count)
    }

    /// The client of a path.
    pub(crate) fn client_of(&self, path: u32) -> u32 {
        let cast = self.casts.iter().rev().find(|cast| cast.first_path <= path);
        let cast = cast.expect("the first application has the first paths");
        cast.first_client + (path - cast.first_path) / cast.paths_per_client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million clients of four paths each have to fit into a gigabyte.
    #[test]
    fn what_every_client_has_stays_small() {
        assert!(size_of::<Lane>() <= 24, "{}", size_of::<Lane>());
        assert!(size_of::<Client>() <= 32, "{}", size_of::<Client>());
    }
}
