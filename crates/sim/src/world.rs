//! The composition of a world, and the loop over its events.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use afflux_core::class::Class;
use afflux_core::device::placement::PlacementError;
use afflux_core::measure::{Measurement, TraceRequest};
use afflux_core::path::{DecisionLog, HoldTotals};
use afflux_core::rng::Rng;
use afflux_core::setting::Setting;
use afflux_core::target::Progress;
use afflux_core::units::{Span, Time};

use crate::client::{Caches, Clients, Counts, Sizes, Stage};
use crate::events::{Event, EventQueue};
use crate::invariants::{Ledger, WATCHED};
use crate::locks::Locks;
use crate::metadata::Metadata;
use crate::network::Network;
use crate::outcome::{ApplicationOutcome, Outcome, Totals};
use crate::pages::PageCache;
use crate::request::{Operation, Request, Slab};
use crate::scenario::Scenario;
use crate::series::Course;
use crate::server::{Places, Servers};

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The user ended it.
    #[error("ended before it was done")]
    Cancelled,
    /// The files do not fit on the servers.
    #[error("the files do not fit on the servers: {0}")]
    Full(#[from] PlacementError),
    /// There would be more of something than fits into a machine.
    #[error(
        "{count} {what} are needed and at most {most} fit: lower `clients`, `files.stripe_count` \
         or `servers.count`"
    )]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many are needed.
        count: u64,
        /// How many there may be.
        most: u64,
    },
}

/// How often a run looks whether somebody wants it to end, in events.
const LOOK: u64 = 16_384;

/// One world with its seed, ready to run once.
pub struct Simulation {
    pub(crate) world: World,
}

/// All that there is.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) events: EventQueue,
    pub(crate) requests: Slab<Request>,
    pub(crate) operations: Slab<Operation>,
    pub(crate) clients: Clients,
    pub(crate) network: Network,
    pub(crate) servers: Servers,
    pub(crate) metadata: Metadata,
    pub(crate) sizes: Sizes,
    pub(crate) caches: Caches,
    /// What clients keep of their own files.
    pub(crate) pages: PageCache,
    pub(crate) locks: Locks,
    pub(crate) progress: Vec<ApplicationProgress>,
    pub(crate) course: Course,
    pub(crate) totals: Totals,
    pub(crate) ledger: Ledger,
    /// How often a request is sent again.
    pub(crate) retries: u32,
    /// Why the run cannot go on.
    pub(crate) failure: Option<PlacementError>,
    /// The command that makes this run again.
    command: String,
    /// Clients of each application that have started or are the next to.
    started: Vec<u32>,
    /// What decides when each client starts.
    chance: Rng,
    /// Whether nothing new is begun any more.
    pub(crate) draining: bool,
    pub(crate) now: Time,
    pub(crate) end: Time,
    seed: u64,
}

/// How far an application has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplicationProgress {
    pub(crate) started: Option<Time>,
    pub(crate) last_end: Time,
    pub(crate) ended: Option<Time>,
    pub(crate) clients_left: u32,
    pub(crate) bytes: u64,
}

impl Simulation {
    /// The world of `scenario` under `setting`. The seed sets what chance decides: the choices of
    /// the workload, how platters stand, where objects lie, when clients start.
    ///
    /// # Errors
    /// [`SimError::Full`] when the files need more room than the devices have,
    /// [`SimError::TooLarge`] when there are more paths than fit into a machine.
    pub fn new(scenario: &Scenario, setting: &Setting, seed: u64) -> Result<Self, SimError> {
        let clients = Clients::new(scenario, setting, seed)?;
        let shapes: Vec<_> = clients.casts.iter().map(|cast| cast.file_shape()).collect();
        let places = Places::new(&scenario.servers, &shapes, seed)?;
        let progress = clients.casts.iter().map(|cast| ApplicationProgress {
            started: None,
            last_end: Time::ZERO,
            ended: None,
            clients_left: cast.clients,
            bytes: 0,
        });
        let mut world = World {
            events: EventQueue::default(),
            requests: Slab::default(),
            operations: Slab::default(),
            network: Network::new(scenario, seed),
            servers: Servers::new(&scenario.servers, places, seed),
            metadata: Metadata::new(&scenario.metadata, &scenario.faults),
            sizes: Sizes::new(),
            caches: Caches::new(scenario),
            pages: PageCache::new(scenario.client_count(), scenario.clients.cache),
            locks: Locks::new(&scenario.locks, &clients.casts),
            progress: progress.collect(),
            course: Course::new(scenario),
            totals: Totals::default(),
            ledger: Ledger::default(),
            retries: scenario.clients.retries,
            failure: None,
            command: scenario.command(&setting.label, seed),
            seed,
            started: vec![0; clients.casts.len()],
            chance: Rng::new(seed).fork("stagger"),
            draining: false,
            now: Time::ZERO,
            end: Time::ZERO + scenario.run.settle + scenario.run.length,
            clients,
            scenario: scenario.clone(),
        };
        world.start();
        Ok(Self { world })
    }

    /// Also traces: holds by second, and a path of the client that `request` names.
    #[must_use]
    pub fn tracing(mut self, request: Option<TraceRequest>) -> Self {
        let counts = std::mem::take(&mut self.world.clients.counts);
        self.world.clients.counts = (0..)
            .zip(counts)
            .map(|(index, mut counts)| {
                counts.recorder = counts.recorder.tracing(index, request);
                counts
            })
            .collect();
        if request.is_some() {
            let start = Time::ZERO + self.world.scenario.run.settle;
            self.world.events.push(start, Event::Holds);
        }
        self
    }

    /// Also writes down the decisions of one client.
    #[must_use]
    pub fn deciding(mut self, client: u32) -> Self {
        self.world.clients.decisions = Some((client, DecisionLog::default()));
        self
    }

    /// The command that makes this run again is another than `afflux sim` with the scenario.
    #[must_use]
    pub fn again_by(mut self, command: String) -> Self {
        self.world.command = command;
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// [`SimError::Cancelled`], or [`SimError::Full`] when files grew beyond the devices.
    ///
    /// # Panics
    /// When an invariant is broken where they are watched, or by any other mistake in this crate;
    /// what is said then names scenario, overrides, seed, time and the command that shows it again.
    pub fn run(mut self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let world = &mut self.world;
        let run = AssertUnwindSafe(|| {
            world.go(progress)?;
            let outcome = world.outcome();
            if WATCHED {
                world.audit();
            }
            Ok(outcome)
        });
        // The world is not used after a panic but for telling which it was.
        catch_unwind(run).unwrap_or_else(|panic| panic!("{}", self.world.told(panic.as_ref())))
    }
}

impl World {
    /// Puts in the events that nothing else leads to.
    fn start(&mut self) {
        for application in 0..self.clients.casts.len() {
            self.start_next(application);
        }
        if let Some(step) = self.scenario.run.series {
            self.events.push(Time::ZERO + step, Event::Step);
        }
        self.schedule_faults();
    }

    pub(crate) fn go(&mut self, progress: &dyn Progress) -> Result<(), SimError> {
        while let Some((now, event)) = self.events.pop_until(self.end) {
            if WATCHED {
                assert!(now >= self.now, "time goes back");
            }
            self.now = now;
            self.totals.events += 1;
            self.handle(now, event, progress);
            if self.totals.events.is_multiple_of(LOOK) {
                progress.reached(self.part_done());
                if progress.is_cancelled() {
                    return Err(SimError::Cancelled);
                }
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure.into());
            }
            if self.is_over() {
                self.end = now;
                break;
            }
        }
        self.now = self.end;
        Ok(())
    }

    /// All that tells a run that failed from others, and how it is made again.
    fn told(&self, panic: &(dyn Any + Send)) -> String {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let what = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let Self { scenario, seed, now, command, .. } = self;
        let changed = match scenario.origin.changed.as_slice() {
            [] => "as it is".to_owned(),
            changed => format!("with {}", changed.join(" ")),
        };
        format!(
            "{}\n  in scenario `{}` {changed}, seed {seed}, at {:.9} s of its time\n  again by: \
             {command}",
            what.unwrap_or("a panic without words"),
            scenario.name,
            secs(*now),
        )
    }

    /// Which part of the run is done: by time, or by bytes where those come to their end first.
    fn part_done(&self) -> f64 {
        let by_time = secs(self.now) / secs(self.end).max(1e-9);
        let parts = self.clients.casts.iter().zip(&self.progress).map(|(cast, progress)| {
            let all = cast.bytes.map(|bytes| bytes as f64 * f64::from(cast.clients));
            all.map_or(0.0, |all| progress.bytes as f64 / all)
        });
        parts.reduce(f64::min).unwrap_or(0.0).max(by_time).min(1.0)
    }

    /// Whether every application has come to its end, or everything was drained.
    fn is_over(&self) -> bool {
        if self.draining {
            return self.operations.len() == 0 && self.requests.len() == 0;
        }
        self.progress.iter().all(|one| one.ended.is_some())
    }

    /// Puts in the event of the client of an application that is the next to start.
    fn start_next(&mut self, application: usize) {
        let cast = &self.clients.casts[application];
        let started = &mut self.started[application];
        if *started < cast.clients {
            let stagger = self.scenario.clients.stagger;
            let (at, client) = cast.start_of(*started, stagger, &mut self.chance);
            *started += 1;
            self.clients.each[client as usize].wake = at;
            self.events.push(at, Event::Start(client));
        }
    }

    fn handle(&mut self, now: Time, event: Event, progress: &dyn Progress) {
        match event {
            Event::Start(client) => {
                self.start_next(self.clients.each[client as usize].application as usize);
                self.clients.each[client as usize].stage = Stage::AtWork;
                self.application_wakes(now, client);
            }
            Event::Application(client) => self.application_wakes(now, client),
            Event::Path(path) => self.path_wakes(now, path),
            Event::Arrive(request) => self.arrive(now, request),
            Event::Ready(request) => self.ready(now, request),
            Event::Device(spindle) => self.device(now, spindle),
            Event::Reply(request) => self.reply(now, request, progress),
            Event::Timer => self.timer(now),
            Event::FaultBegins(fault) => self.fault_begins(now, fault),
            Event::FaultEnds(fault) => self.fault_ends(now, fault),
            Event::Step => self.step(now),
            Event::Holds => self.take_holds(now),
            Event::Lock(operation) => self.locked(now, operation),
            Event::Copied(operation) => self.copied(now, operation),
            Event::Ask(request) => self.ask(now, request),
            Event::Fetch(request) => self.fetch(now, request),
            Event::Segment(segment) => self.segment_at_port(now, segment),
            Event::SegmentArrives(segment) => self.segment_arrives(now, segment),
            Event::Acknowledged(segment) => self.acknowledged(now, segment),
            Event::Retransmit(flow) => self.retransmit(now, flow),
        }
    }

    /// A second has ended, and traces want to know what held requests back in it.
    fn take_holds(&mut self, now: Time) {
        self.settle_holds(now);
        for counts in &mut self.clients.counts {
            let mut all = HoldTotals::default();
            counts.holds.iter().for_each(|totals| all.add(totals));
            counts.recorder.take_holds(now, &all);
        }
        if !self.draining {
            self.events.push(now + Span::from_secs(1), Event::Holds);
        }
    }

    fn settle_holds(&mut self, now: Time) {
        for path in 0..self.clients.lanes.len() {
            let lane = &self.clients.lanes[path];
            let (mut held, class) = (lane.held, lane.class.index());
            let client = self.clients.client_of(path as u32);
            held.settle(&mut self.clients.counts_of(client).holds[class], now);
            self.clients.lanes[path].held = held;
        }
    }

    /// What the run showed up to now; taken once.
    fn outcome(&mut self) -> Outcome {
        let now = self.now;
        self.settle_holds(now);
        for path in 0..self.clients.lanes.len() {
            let lane = &self.clients.lanes[path];
            if lane.answered && lane.class != Class::Metadata {
                let client = self.clients.client_of(path as u32);
                self.clients.counts_of(client).recorder.client.data_paths += 1;
            }
        }
        let applications =
            self.clients.casts.iter().zip(&self.progress).zip(&self.scenario.applications);
        let applications = applications.map(|((cast, progress), application)| ApplicationOutcome {
            name: application.name.clone(),
            first_client: cast.first_client,
            clients: cast.clients,
            started_secs: progress.started.map(secs),
            ended_secs: progress.ended.map(|_| secs(progress.last_end)),
            bytes: progress.bytes,
        });
        let settle = self.scenario.run.settle;
        let counted = now.since(Time::ZERO + settle).as_nanos() as f64 / 1e9;
        // What came in the last part of a second belongs to no second, unless there is no other.
        let finish = |counts: &mut Counts| {
            let mut client = counts.finish(now);
            client.seconds.truncate((counted as usize).max(1));
            client
        };
        let whole = (self.scenario.run.length.as_nanos() / 1_000_000_000) as f64;
        Outcome {
            seed: self.seed,
            applications: applications.collect(),
            merged: self.clients.casts.iter().map(|cast| cast.merge).max().unwrap_or(1),
            totals: self.totals,
            decisions: self.clients.decisions.take().map(|(_, log)| log.as_str().to_owned()),
            series: std::mem::take(&mut self.course.series),
            ended_secs: secs(now),
            measurement: Measurement {
                counted_secs: whole.min(counted),
                clients: self.clients.counts.iter_mut().map(finish).collect(),
            },
        }
    }
}

fn secs(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}
