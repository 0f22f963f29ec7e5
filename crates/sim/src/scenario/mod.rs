//! Scenarios: what a world is made of, as TOML.
//!
//! ```
//! use afflux_sim::Scenario;
//! let text = "afflux-scenario = 1\nname = \"a\"\n[servers]\nthread = 4";
//! let error = Scenario::parse(text).unwrap_err();
//! assert!(error.to_string().contains("did you mean `threads`?"), "{error}");
//! ```
//!
//! All keys stand in the tables of [`keys`], which feed the parser, the errors and the manual
//! ([`manual`]). A key that is left out has its default; `section.key=value` overrides
//! ([`Scenario::with`]) go through the same tables.

pub mod keys;

mod error;
mod fault;
mod manual;
mod origin;
mod parse;
mod shipped;
mod value;

pub use error::ScenarioError;
pub(crate) use fault::FaultOf;
pub use fault::{Fault, FaultKind};
pub use manual::manual;
pub use origin::Origin;
pub(crate) use origin::{WATCHING, quoted};
pub use shipped::{SHIPPED, Shipped, shipped};
pub use value::Value;

use afflux_core::device::DeviceSpec;
use afflux_core::units::Span;
use afflux_core::workload::{PRESETS, Workload};

/// The version that this code reads.
pub const VERSION: i64 = 1;

/// Steps of a series at most.
const MOST_STEPS: u64 = 1_000_000;

/// What a world is made of, and what happens in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// A short name for reports.
    pub name: String,
    /// What it stands for, in a sentence.
    pub about: String,
    /// Links and switch.
    pub network: Network,
    /// Storage servers.
    pub servers: Servers,
    /// Clients.
    pub clients: Clients,
    /// The server of names.
    pub metadata: Metadata,
    /// Locks on shared files.
    pub locks: Locks,
    /// How long it runs, and what is written down.
    pub run: RunPlan,
    /// The setting of traffic control, as `afflux_core::setting` reads it.
    pub policy: Policy,
    /// Workloads that its applications may name, besides the presets.
    pub workloads: Vec<Workload>,
    /// What runs on it: one workload, or several with their own clients at the same time.
    pub applications: Vec<Application>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Keys whose values were fitted.
    pub free: Vec<Free>,
    /// Values of those keys that fit about equally well; the first is in force.
    pub models: Vec<Model>,
    /// Published figures that served to fit the scenario.
    pub fitted: Vec<Figure>,
    /// Published figures that it is to predict.
    pub published: Vec<Figure>,
    /// Where it came from.
    pub origin: Origin,
}

/// Links and switch: every node has one link to one switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Bytes a second of a client's link, each way.
    pub client_rate: u64,
    /// Bytes a second of a server's link, each way.
    pub server_rate: u64,
    /// From one node to another, besides the time that bytes take.
    pub latency: Span,
    /// Bytes that a port of the switch holds; `None` is without bound, and nothing is lost.
    pub buffer: Option<u64>,
    /// Bytes of a message that pass in one piece; `None` takes whole messages.
    pub segment: Option<u64>,
    /// Bytes that all ports of the switch share; `None` where each has its own.
    pub shared_buffer: Option<u64>,
    /// How many times what is free of them a port may hold.
    pub alpha: f64,
    /// Least time after which a sender repeats what was lost and not noticed otherwise.
    pub rto: Span,
    /// How senders notice losses before that.
    pub recovery: Recovery,
    /// Segments that a sender sends before it hears anything.
    pub initial_window: u32,
    /// Bytes of a request or a reply without its data.
    pub header: u64,
}

/// How the sender of a flow learns of losses before its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Three segments arrive that were sent later (RFC 6675).
    Sack,
    /// Anything arrives that was sent later (RFC 8985).
    Rack,
    /// As `Rack`, and when nothing comes back the last segment is sent again as a probe.
    RackTlp,
}

/// Storage servers, all alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Servers {
    /// How many.
    pub count: u32,
    /// Service threads of each.
    pub threads: u32,
    /// The device of a spindle.
    pub device: DeviceSpec,
    /// Devices of each server, over which objects are striped.
    pub spindles: u32,
    /// Bytes in a row on one spindle.
    pub chunk: u64,
    /// Where objects lie.
    pub placement: Placing,
    /// Bytes of each device in which objects lie, from its first block, where a disk is fastest;
    /// `None` takes all.
    pub region: Option<u64>,
    /// Whether a thread fetches the data of a write after it has started on the request, as Lustre
    /// does, or the data come with the request, as in the lab.
    pub bulk: bool,
    /// Work of a thread on each request, besides the device's.
    pub overhead: Span,
    /// Bytes of data that a server holds at once; threads wait for room. `None` is without bound.
    pub memory: Option<u64>,
    /// Bytes of an object in a row where objects take turns or are placed by arrival; `None` is
    /// what is usual: 4 MiB, and by arrival 4 MB as in the lab.
    pub turn: Option<u64>,
    /// Bytes of what was read and written lately that each keeps in memory.
    pub cache: u64,
    /// Bytes of writes that each acknowledges before they are on its devices.
    pub write_back: u64,
}

/// Where objects lie on a server's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// As the lab has it: `afflux_core::device::placement`, apart.
    Apart,
    /// The same, in chunks by order of arrival.
    Arrival,
    /// Files of fixed size evenly over the device; takes no memory, for large worlds.
    Even,
    /// Files in turns, as if they had been written at the same time before the run; takes no
    /// memory either.
    Interleaved,
}

/// Clients, all alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// How many, whatever the workload says. `None` takes the workload's word.
    pub count: Option<u32>,
    /// Threads of each of its streams, whatever the workload says.
    pub threads: Option<u32>,
    /// Whether units that follow each other in an object go in one request, as in Lustre and
    /// OrangeFS, or each in its own, as in the lab.
    pub join: bool,
    /// Requests that a path may have in flight, whatever its policy says.
    pub in_flight: Option<u32>,
    /// Requests that a client may have in flight over all its paths.
    pub fan_in: Option<u32>,
    /// Bytes written that a path may hold before the application waits; zero writes straight.
    pub dirty: u64,
    /// Bytes of sequential reads that a client asks for ahead of its application; zero for none.
    pub read_ahead: u64,
    /// Bytes of its files that each keeps in memory once it has read or written them.
    pub cache: u64,
    /// Time after which a request is sent again; `None` waits for ever.
    pub timeout: Option<Span>,
    /// How often a request is sent again before it fails.
    pub retries: u32,
    /// Clients start at random within this time.
    pub stagger: Span,
}

/// The server of names.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// Its threads.
    pub threads: u32,
    /// Work on one request.
    pub service: Span,
}

/// Locks on shared files: who holds one works, the others wait in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Locks {
    /// What one lock covers.
    pub scope: LockScope,
    /// Whether readers share a lock.
    pub shared_reads: bool,
    /// Time to hand a lock from one client to another.
    pub handover: Span,
    /// Operations that a client may do before it hands a lock on that others want; `None` lets it
    /// go on while it has any.
    pub batch: Option<u32>,
}

/// What one lock covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// There are no locks.
    None,
    /// A whole file.
    File,
    /// The object of a file on one server.
    Object,
}

/// How long a run is, and what is written down.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// Time at the start that is not counted.
    pub settle: Span,
    /// Counted time, in whole seconds; a run whose applications all end is shorter.
    pub length: Span,
    /// Step of the time series; `None` writes none down.
    pub series: Option<Span>,
    /// Clients whose measurements are added up to one; `None` decides by their number.
    pub merge: Option<u32>,
}

/// Traffic control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A setting, such as `none` or `fixed:4+fan-in=8`.
    pub setting: String,
}

/// A workload with clients of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// A short name; the workload's if not given.
    pub name: String,
    /// What its clients do.
    pub workload: Workload,
    /// When it starts.
    pub start: Span,
    /// Bytes after which each of its clients ends; `None` goes on.
    pub bytes: Option<u64>,
    /// Where the files of its first client begin, so that applications may share servers or not:
    /// added to the number of the first server.
    pub first_server: u32,
    /// The servers that its files may use, from `first_server` on; `None` means all.
    pub servers: Option<u32>,
}

/// A parameter that no source gives, so that it was fitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Section and key, as in overrides.
    pub key: String,
    /// Values that were tried.
    pub values: Vec<String>,
}

/// One set of values for the free parameters. Where several fit equally well, what they differ in
/// is not known, and every result is a range over them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// A short name.
    pub name: String,
    /// What it assumes, in a sentence.
    pub about: String,
    /// One override for each free parameter.
    pub set: Vec<String>,
}

/// A figure that somebody has published.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// The number of a summary that it is to be compared with, such as `total_mb_s`.
    pub metric: String,
    /// Overrides under which the scenario is run for it.
    pub set: Vec<String>,
    /// Overrides, after those of `set`, under which it is run for what the figure is divided by;
    /// empty where the figure is no ratio.
    pub against: Vec<String>,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Paper, and table or section.
    pub source: String,
    /// Why the simulator misses it; empty where it comes within a tenth under every model.
    pub misses: String,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            about: String::new(),
            network: Network::default(),
            servers: Servers::default(),
            clients: Clients::default(),
            metadata: Metadata { threads: 16, service: Span::from_micros(100) },
            locks: Locks {
                scope: LockScope::None,
                shared_reads: false,
                handover: Span::from_millis(1),
                batch: Some(1),
            },
            run: RunPlan {
                settle: Span::from_secs(5),
                length: Span::from_secs(20),
                series: None,
                merge: None,
            },
            policy: Policy { setting: "none".to_owned() },
            workloads: Vec::new(),
            applications: vec![Application::of(PRESETS[0].workload())],
            faults: Vec::new(),
            free: Vec::new(),
            models: Vec::new(),
            fitted: Vec::new(),
            published: Vec::new(),
            origin: Origin::default(),
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            client_rate: 125_000_000,
            server_rate: 125_000_000,
            latency: Span::from_micros(50),
            buffer: None,
            segment: None,
            shared_buffer: None,
            alpha: 1.0,
            rto: Span::from_millis(200),
            recovery: Recovery::Sack,
            initial_window: 10,
            header: 256,
        }
    }
}

impl Default for Servers {
    fn default() -> Self {
        Self {
            count: 4,
            threads: 128,
            device: DeviceSpec::default(),
            spindles: 1,
            chunk: 1 << 20,
            placement: Placing::Apart,
            region: None,
            bulk: false,
            overhead: Span::from_micros(20),
            memory: None,
            turn: None,
            cache: 0,
            write_back: 0,
        }
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            count: None,
            threads: None,
            join: false,
            in_flight: None,
            fan_in: None,
            dirty: 0,
            read_ahead: 0,
            cache: 0,
            timeout: None,
            retries: 8,
            stagger: Span::from_millis(10),
        }
    }
}

impl Application {
    /// A workload that starts at once and goes on.
    pub fn of(workload: Workload) -> Self {
        let name = workload.name.clone();
        Self { name, workload, start: Span::ZERO, bytes: None, first_server: 0, servers: None }
    }
}

impl Default for Application {
    fn default() -> Self {
        Self::of(PRESETS[0].workload())
    }
}

impl Scenario {
    /// Reads a scenario. Errors give line, column, the schema and a remedy.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let mut scenario = parse::scenario(text)?;
        scenario.check()?;
        scenario.check_models()?;
        if let Some(first) = scenario.models.first() {
            scenario = scenario.clone().with(&first.set)?;
            scenario.origin.changed.clear();
        }
        Ok(scenario)
    }

    /// This scenario with `section.key=value` overrides, such as `servers.count=8`.
    ///
    /// Keys of `workload` are those of an application: `workload.bytes=32MiB` sets it for all, and
    /// `workload=seq-read` takes another workload, the scenario's own or a preset.
    /// `applications=3` keeps the first three, or adds copies of the last; `model=b` takes the
    /// values of a model.
    pub fn with(mut self, overrides: &[impl AsRef<str>]) -> Result<Self, ScenarioError> {
        for text in overrides {
            parse::override_with(&mut self, text.as_ref())?;
            self.origin.changed.push(text.as_ref().to_owned());
        }
        self.check()?;
        Ok(self)
    }

    /// How many clients there are, over all applications.
    pub fn client_count(&self) -> u32 {
        self.applications.iter().map(|one| self.clients_of(one)).sum()
    }

    /// How many clients an application has.
    pub fn clients_of(&self, application: &Application) -> u32 {
        self.clients.count.unwrap_or(application.workload.clients)
    }

    /// This scenario with the values of one of its models.
    pub fn with_model(self, name: &str) -> Result<Self, ScenarioError> {
        self.with(&[format!("model={name}")])
    }

    /// Whether each model gives each free parameter one of the values that were tried, and all set
    /// the same keys, so that one can take the place of another.
    fn check_models(&self) -> Result<(), ScenarioError> {
        fn keys(model: &Model) -> impl Iterator<Item = &str> {
            model.set.iter().filter_map(|set| Some(set.split_once('=')?.0))
        }
        for model in &self.models {
            let tried = self.free.iter().all(|free| {
                let is_tried = |set: &String| {
                    let (key, value) = set.split_once('=').unwrap_or_default();
                    key == free.key && free.values.iter().any(|one| one == value)
                };
                model.set.iter().any(is_tried)
            });
            if !tried || !keys(model).eq(keys(&self.models[0])) {
                return Err(ScenarioError::Impossible {
                    scenario: self.name.clone(),
                    place: format!("model `{}`", model.name),
                    what: "its `set` lacks a tried value, or other keys than the first model's"
                        .to_owned(),
                    remedy: "write key=value for each [[free]], with one of its values, and the \
                             same keys in the same order in each model"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Contradictions between values.
    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |place: &str, what: String, remedy: &str| {
            let (scenario, place) = (self.name.clone(), place.to_owned());
            Err(ScenarioError::Impossible { scenario, place, what, remedy: remedy.to_owned() })
        };
        if self.applications.is_empty() {
            let what = "there is no workload, so nothing would be done".to_owned();
            return wrong("top", what, "write workload = \"seq-write\", or an [[application]]");
        }
        let servers = self.servers.count;
        for application in &self.applications {
            let place = format!("application `{}`", application.name);
            let used = application.first_server + application.servers.unwrap_or(1);
            if used > servers {
                let what = format!("it uses {used} servers and there are {servers}");
                return wrong(&place, what, "raise servers.count, or name fewer");
            }
        }
        for fault in &self.faults {
            fault.check(self).or_else(|(place, what, remedy)| wrong(place, what, remedy))?;
        }
        if self.network.port_bytes().is_some_and(|bytes| bytes < self.network.train()) {
            let what = format!("a port holds less than one segment of {} B", self.network.train());
            return wrong("network.buffer", what, "make segment smaller or buffer larger");
        }
        let second = Span::from_secs(1).as_nanos();
        let counted = self.run.length.as_nanos();
        if counted < second || !counted.is_multiple_of(second) {
            let what = format!("{} are counted", self.run.length);
            let remedy = "count in whole seconds, at least 1s, since throughput is by second";
            return wrong("run.length", what, remedy);
        }
        let whole = (self.run.settle + self.run.length).as_nanos();
        if self.run.series.is_some_and(|step| whole / step.as_nanos() > MOST_STEPS) {
            let what = "the series has more than a million steps".to_owned();
            return wrong("run.series", what, "make them longer");
        }
        Ok(())
    }
}

impl Network {
    /// Bytes that pass in one piece where a port's buffer is finite; with frames of jumbo size or a
    /// few frames that a network card sends in a row.
    pub(crate) fn train(&self) -> u64 {
        const TRAIN: u64 = 1_500;
        self.segment.unwrap_or(if self.is_lossy() { TRAIN } else { u64::MAX })
    }

    /// Whether a port can be full.
    pub(crate) const fn is_lossy(&self) -> bool {
        self.buffer.is_some() || self.shared_buffer.is_some()
    }

    /// What a port may hold while all others are empty.
    fn port_bytes(&self) -> Option<u64> {
        let shared = self.shared_buffer.map(|bytes| (bytes as f64 * self.alpha.min(1.0)) as u64);
        [self.buffer, shared].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
