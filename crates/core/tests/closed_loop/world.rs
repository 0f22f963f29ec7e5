//! A small world in virtual time: the controllers of a setting against device models.
//!
//! It is a test harness and not the simulator: clients always have demand, a server is its device,
//! and the network is a constant delay. What it has of the real drivers is the way in which they
//! call the controllers, which is that of the store's client.

use std::collections::BTreeMap;
use std::sync::Arc;

use afflux_core::class::Class;
use afflux_core::device::placement::{Placement, PlacementPolicy};
use afflux_core::device::{Device, DeviceRequest, DeviceSpec};
use afflux_core::limits::{FanIn, Limits, Turn};
use afflux_core::path::{Controller, PathState, Reply};
use afflux_core::rng::Rng;
use afflux_core::rules::{RuleFile, shipped};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};

use crate::checks::Checks;

/// Network delay each way.
const NETWORK: Span = Span::from_micros(100);
/// What one client works on at one server; small enough to lie in one piece.
const FILE_BYTES: u64 = 1 << 30;

/// What one run is made of.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The setting, as on a command line; of rules only `shipped:NAME`.
    pub(crate) setting: String,
    /// The servers' device.
    pub(crate) device: &'static str,
    /// Clients at first.
    pub(crate) clients: usize,
    /// Servers, all used by every client.
    pub(crate) servers: usize,
    /// What the clients do.
    pub(crate) class: Class,
    /// Whether positions are random; sequential otherwise.
    pub(crate) random: bool,
    /// Size of every request.
    pub(crate) request_bytes: u32,
    /// How long it runs.
    pub(crate) length: Span,
    /// From when on only so many clients have demand.
    pub(crate) leave: Option<(Time, usize)>,
    /// From when to when no client has demand.
    pub(crate) pause: Option<(Time, Time)>,
    /// Replies are late by up to this, each on its own, so that they overtake one another.
    pub(crate) reply_jitter: Span,
    /// Decides positions, phases and start times.
    pub(crate) seed: u64,
}

impl Scenario {
    /// Random writes of 1 MiB by `clients` on two disks.
    pub(crate) fn new(setting: &str, clients: usize, seed: u64) -> Self {
        Self {
            setting: setting.to_owned(),
            device: "hdd",
            clients,
            servers: 2,
            class: Class::Write,
            random: true,
            request_bytes: 1 << 20,
            length: Span::from_secs(40),
            leave: None,
            pause: None,
            reply_jitter: Span::ZERO,
            seed,
        }
    }

    /// Whether client number `client` has something to send.
    pub(crate) fn has_demand(&self, client: usize, now: Time) -> bool {
        let gone = self.leave.is_some_and(|(at, stay)| now >= at && client >= stay);
        let resting = self.pause.is_some_and(|(from, to)| from <= now && now < to);
        !gone && !resting
    }
}

/// What came of a run.
pub(crate) struct Outcome {
    /// Bytes that were answered, by client and second.
    pub(crate) bytes: Vec<Vec<u64>>,
    /// A digest of every decision: who, when, and what came of it.
    pub(crate) digest: u64,
}

impl Outcome {
    /// MB/s of `clients` together, from second `from` to before second `to`.
    pub(crate) fn mb_s(&self, clients: std::ops::Range<usize>, from: usize, to: usize) -> f64 {
        let rows = &self.bytes[clients];
        let bytes: u64 = rows.iter().flat_map(|row| &row[from..to]).sum();
        bytes as f64 / 1e6 / (to - from) as f64
    }
}

/// The setting that `text` names, and the rule file behind it, if any.
pub(crate) fn setting(text: &str) -> (Setting, Option<RuleFile>) {
    let load = |name: &str| {
        let name = name.strip_prefix("shipped:").unwrap_or(name);
        let text = shipped(name).ok_or_else(|| format!("no rules called {name}"))?;
        RuleFile::checked(text).map_err(|error| error.to_string())
    };
    let rules = text.split('+').find(|item| item.starts_with("shipped:"));
    (Setting::parse(text, &load).unwrap(), rules.map(|name| load(name).unwrap()))
}

/// Runs `scenario`; panics where a controller breaks an invariant.
pub(crate) fn run(scenario: &Scenario) -> Outcome {
    let mut world = World::new(scenario);
    world.start();
    while world.step() {}
    world.checks.end(Time::ZERO + scenario.length);
    Outcome { bytes: world.bytes, digest: world.digest }
}

enum Event {
    /// A client may have something to send.
    Wake(usize),
    /// A request reaches its server.
    Arrive(usize, DeviceRequest),
    /// A reply reaches its client.
    Reply(Request),
}

#[derive(Clone, Copy)]
struct Request {
    client: usize,
    server: usize,
    sent: Time,
}

struct Client {
    paths: Vec<PathState>,
    next_offset: Vec<u64>,
    in_flight: u32,
    /// Where the next pass over the paths begins, so that a scarce fan-in goes round.
    first: usize,
    wake: Time,
    rng: Rng,
}

struct World<'a> {
    scenario: &'a Scenario,
    setting: Setting,
    controller: Arc<Controller>,
    clients: Vec<Client>,
    devices: Vec<Box<dyn Device>>,
    placements: Vec<Placement>,
    /// By time and then by order of creation, so that nothing is left to chance.
    events: BTreeMap<(Time, u64), Event>,
    requests: Vec<Request>,
    created: u64,
    jitter: Rng,
    bytes: Vec<Vec<u64>>,
    digest: u64,
    checks: Checks,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let (setting, rules) = setting(&scenario.setting);
        let controller = Arc::clone(setting.controller(scenario.class));
        let spec: DeviceSpec = scenario.device.parse().unwrap();
        let root = Rng::new(scenario.seed);
        let seeds: Vec<u64> =
            (0..scenario.servers).map(|server| root.fork(&format!("s{server}")).bits()).collect();
        let client = |number: usize| Client {
            paths: vec![controller.start(); scenario.servers],
            next_offset: vec![0; scenario.servers],
            in_flight: 0,
            first: number % scenario.servers,
            wake: Time::NEVER,
            rng: root.fork(&format!("c{number}")),
        };
        let capacity = spec.capacity_bytes();
        let placement = |seed: &u64| {
            let mut placement = Placement::new(PlacementPolicy::Apart, capacity, *seed);
            // In the order of the clients, so that a client's file lies at the same place however
            // many others there are: inner and outer tracks differ by half in speed.
            for file in 0..scenario.clients as u64 {
                placement.place(file, 0, FILE_BYTES, &mut Vec::new()).unwrap();
            }
            placement
        };
        let seconds = scenario.length.as_nanos().div_ceil(1_000_000_000) as usize;
        Self {
            clients: (0..scenario.clients).map(client).collect(),
            devices: seeds.iter().map(|seed| spec.build(*seed)).collect(),
            placements: seeds.iter().map(placement).collect(),
            events: BTreeMap::new(),
            requests: Vec::new(),
            created: 0,
            jitter: root.fork("jitter"),
            bytes: vec![vec![0; seconds]; scenario.clients],
            digest: 0xcbf2_9ce4_8422_2325,
            checks: Checks::new(scenario, &setting, rules.as_ref()),
            controller,
            setting,
            scenario,
        }
    }

    /// Wakes the clients, each at a moment of its own: starts in lockstep make gains of their own.
    fn start(&mut self) {
        for client in 0..self.scenario.clients {
            let late = Span::from_micros(self.clients[client].rng.below(100_000));
            self.schedule(Time::ZERO + late, Event::Wake(client));
            if let Some((_, end)) = self.scenario.pause {
                self.schedule(end + late, Event::Wake(client));
            }
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.created), event);
        self.created += 1;
    }

    /// Lets the next thing happen; false when the time is over.
    fn step(&mut self) -> bool {
        let done = self.devices.iter_mut().enumerate();
        let done = done.filter_map(|(server, device)| Some((device.next_done()?, server))).min();
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let end = Time::ZERO + self.scenario.length;
        match (done, event) {
            (Some((at, server)), event) if event.is_none_or(|event| at <= event) => {
                if at < end {
                    self.finish(at, server);
                }
                at < end
            }
            (_, Some(at)) if at < end => {
                if let Some((_, event)) = self.events.pop_first() {
                    self.happen(at, event);
                }
                true
            }
            _ => false,
        }
    }

    fn finish(&mut self, now: Time, server: usize) {
        let done = self.devices[server].poll(now).expect("the device said that it is done");
        let late = self.jitter.below(self.scenario.reply_jitter.as_nanos() + 1);
        let request = self.requests[done.id as usize];
        self.schedule(now + NETWORK + Span::from_nanos(late), Event::Reply(request));
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Wake(client) => {
                if self.clients[client].wake <= now {
                    self.clients[client].wake = Time::NEVER;
                }
                self.pump(now, client);
            }
            Event::Arrive(server, request) => self.devices[server].submit(now, request),
            Event::Reply(request) => {
                self.reply(now, request);
                self.pump(now, request.client);
            }
        }
    }

    fn reply(&mut self, now: Time, request: Request) {
        let Request { client, server, sent } = request;
        let size_bytes = self.scenario.request_bytes;
        let reply = Reply { built: sent, sent, arrived: now, size_bytes };
        let path = &mut self.clients[client].paths[server];
        let before = *path;
        let ruling = self.controller.reply(path, &reply);
        let path = *path;
        self.clients[client].in_flight -= 1;
        self.bytes[client][(now.as_nanos() / 1_000_000_000) as usize] += u64::from(size_bytes);
        self.checks.replied(now, (client, server), &before, &path);
        let rule = ruling.rule.map_or(u64::MAX, u64::from);
        self.log(now, client, server, [path.window().to_bits(), path.gap().as_nanos(), rule]);
    }

    /// Sends what the controllers admit.
    fn pump(&mut self, now: Time, client: usize) {
        if !self.scenario.has_demand(client, now) {
            return;
        }
        let servers = self.scenario.servers;
        let first = self.clients[client].first;
        self.clients[client].first = (first + 1) % servers;
        let mut wake = Time::NEVER;
        // One request a path and round, as an application that stripes its file would have them.
        let mut open: Vec<usize> = (0..servers).map(|turn| (first + turn) % servers).collect();
        while !open.is_empty() {
            open.retain(|&server| match self.send(now, client, server) {
                Ok(()) => true,
                Err(until) => {
                    wake = wake.min(until);
                    false
                }
            });
        }
        if wake < self.clients[client].wake {
            self.clients[client].wake = wake;
            self.schedule(wake, Event::Wake(client));
        }
    }

    /// Sends one request, or says when to ask again.
    fn send(&mut self, now: Time, client: usize, server: usize) -> Result<(), Time> {
        let scenario = self.scenario;
        let me = &mut self.clients[client];
        let limits = Limits {
            credits: None,
            cap: self.setting.cap,
            fan_in: self.setting.fan_in.map(|limit| FanIn { limit, in_flight: me.in_flight }),
            turn: self.setting.turn_slot.map(|slot| Turn {
                slot,
                of: scenario.clients as u32,
                mine: (client + server) as u32,
            }),
        };
        let before = me.paths[server];
        let size = scenario.request_bytes;
        let admitted = self.controller.admit(&mut me.paths[server], now, size, &limits);
        let path = me.paths[server];
        if let Err(hold) = admitted {
            self.checks.held(now, (client, server), &path, &hold);
            let until = hold.until.as_nanos();
            self.log(now, client, server, [hold.reason.index() as u64, until, 0]);
            return Err(hold.until);
        }
        me.in_flight += 1;
        self.checks.sent(now, (client, server), &before, &path);
        let request = self.request(client, server);
        self.requests.push(Request { client, server, sent: now });
        self.log(now, client, server, [request.offset_bytes, u64::from(path.in_flight()), 1]);
        self.schedule(now + NETWORK, Event::Arrive(server, request));
        Ok(())
    }

    /// The client's next request to a server.
    fn request(&mut self, client: usize, server: usize) -> DeviceRequest {
        let size = u64::from(self.scenario.request_bytes);
        let me = &mut self.clients[client];
        let offset = match self.scenario.random {
            true => me.rng.below(FILE_BYTES / size) * size,
            false => me.next_offset[server] % FILE_BYTES,
        };
        me.next_offset[server] = offset + size;
        let mut pieces = Vec::new();
        self.placements[server].place(client as u64, offset, size, &mut pieces).unwrap();
        assert_eq!(pieces.len(), 1, "the files of this world lie in one piece");
        DeviceRequest {
            id: self.requests.len() as u64,
            write: self.scenario.class == Class::Write,
            offset_bytes: pieces[0].offset_bytes,
            length_bytes: size,
        }
    }

    /// Takes a decision into the digest (FNV-1a).
    fn log(&mut self, now: Time, client: usize, server: usize, decided: [u64; 3]) {
        let who = (client as u64) << 32 | server as u64;
        for word in [now.as_nanos(), who].into_iter().chain(decided) {
            for byte in word.to_le_bytes() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
}
