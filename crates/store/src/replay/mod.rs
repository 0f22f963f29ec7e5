//! Replay: the requests of a trace, made again on any object engine, through controllers.
//!
//! [`Recorded`] reads what the `trace` wrapper wrote; [`ReplayTarget`] makes the requests, with one
//! client for each client of the trace. Every object of the trace is a file of the replay's own, on
//! the same server, and every name stands under the replay's: nothing of others is touched.

mod recorded;
mod thread;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use afflux_core::layout::Layout;
use afflux_core::measure::{Latencies, Measurement};
use afflux_core::setting::Setting;
use afflux_core::target::{Run, Target, TargetError};
use afflux_core::units::{Span, Time};
use afflux_core::workload::Workload;
use afflux_node::clock;

pub use recorded::{Recorded, TraceError};

use crate::client::{Client, Identity, Operation, Payload};
use crate::engine::registry::ConnectError;
use crate::engine::{Engine, EngineError, FileRecord};
use crate::fileset::{list, run_all};
use crate::load::Connect;
use recorded::{MAX_PREFIX_BYTES, MAX_REQUEST_BYTES};
use thread::ReplayThread;

/// When requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At their recorded distance from the first of the trace, or later.
    Recorded,
    /// As soon as no more of the client's requests are under way than were then.
    Closed,
}

/// From the start of a run to its first request, so that all threads are there.
const LEAD: Span = Span::from_millis(50);

/// The requests of a trace on an object engine, as something to measure on. The workload of its
/// trials only says how many clients there are.
pub struct ReplayTarget {
    name: String,
    recorded: Recorded,
    pace: Pace,
    prefix: String,
    /// Makes and removes the replay's files, apart from the clients that are measured.
    own: Arc<dyn Engine>,
    engines: Vec<Arc<dyn Engine>>,
    // After the clients, since the servers may go with it.
    connect: Connect,
    setting: Setting,
    /// The file of each object of the trace.
    files: Vec<u64>,
    behind: Latencies,
    took: Span,
}

/// A file as it stands before the first request.
struct Wanted {
    layout: Layout,
    length_bytes: u64,
    /// Whether the trace changes it, so that each run needs another one.
    changes: bool,
}

impl ReplayTarget {
    /// What replays `recorded`, read from `file`, with clients from `connect`; `name` is as written
    /// after `--on`.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn new(
        name: &str,
        file: &Path,
        recorded: Recorded,
        pace: Pace,
        connect: Connect,
    ) -> Result<Self, ConnectError> {
        let own = connect()?;
        Ok(Self {
            name: name.to_owned(),
            recorded,
            pace,
            prefix: prefix(file),
            own,
            engines: Vec::new(),
            connect,
            setting: Setting::none(),
            files: Vec::new(),
            behind: Latencies::default(),
            took: Span::ZERO,
        })
    }

    /// What is replayed.
    pub const fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// How many storage servers there are. When the trace has more, they are folded onto these.
    pub fn servers(&self) -> u32 {
        self.own.servers()
    }

    /// How long after their recorded times the requests of the last run were sent; empty at the
    /// pace [`Pace::Closed`].
    pub const fn behind(&self) -> &Latencies {
        &self.behind
    }

    /// The time from the first recorded time of the last run to the end of its last request.
    pub const fn took(&self) -> Span {
        self.took
    }

    fn failed(&self, doing: &str, why: impl std::fmt::Display) -> TargetError {
        let (target, doing) = (self.name.clone(), doing.to_owned());
        TargetError::Failed { target, doing, why: why.to_string() }
    }

    fn client(&self) -> Client {
        Client::new(Arc::clone(&self.own), &Setting::none(), Identity::ALONE)
    }

    fn object_name(&self, object: &str) -> String {
        format!("{}objects/{object}", self.prefix)
    }

    fn wanted(&self) -> BTreeMap<String, Wanted> {
        let servers = self.own.servers();
        let on = |server: u32| Layout {
            unit_bytes: MAX_REQUEST_BYTES,
            first_server: server % servers,
            count: 1,
        };
        let objects = self.recorded.objects.iter().map(|object| {
            let (length_bytes, changes) = (object.length_bytes, object.changes);
            let wanted = Wanted { layout: on(object.server), length_bytes, changes };
            (self.object_name(&object.name), wanted)
        });
        let there = self.recorded.names.iter().filter(|(_, there)| **there);
        let names = there.map(|(name, _)| {
            let wanted = Wanted { layout: on(0), length_bytes: 0, changes: true };
            (thread::name(&self.prefix, name), wanted)
        });
        objects.chain(names).collect()
    }

    /// Brings the replay's files into the state before the first request.
    fn bring_about(&mut self) -> Result<(), EngineError> {
        let mut client = self.client();
        let wanted = self.wanted();
        let is_right = |record: &FileRecord| {
            wanted.get(&record.name).is_some_and(|wanted| {
                !wanted.changes
                    && (wanted.layout, wanted.length_bytes) == (record.layout, record.size_bytes)
            })
        };
        let found = list(&mut client, &self.prefix)?;
        let (right, wrong): (Vec<_>, Vec<_>) = found.into_iter().partition(is_right);
        run_all(&mut client, wrong.iter().map(|file| Operation::remove(&file.name)).collect())?;
        let mut files: BTreeMap<_, _> =
            right.into_iter().map(|record| (record.name, record.file)).collect();
        let payload = Payload::pattern(MAX_REQUEST_BYTES);
        let missing = wanted.iter().filter(|(name, _)| !files.contains_key(*name));
        let creates = missing.map(|(name, wanted)| {
            Operation::create(name, wanted.layout, wanted.length_bytes, &payload)
        });
        let made = run_all(&mut client, creates.collect())?;
        files.extend(made.into_iter().map(|record| (record.name, record.file)));
        let objects = self.recorded.objects.iter();
        let numbers = objects.filter_map(|object| files.get(&self.object_name(&object.name)));
        self.files = numbers.copied().collect();
        Ok(())
    }

    fn remove_all(&self) -> Result<(), EngineError> {
        let mut client = self.client();
        let found = list(&mut client, &self.prefix)?;
        let removals = found.iter().map(|file| Operation::remove(&file.name)).collect();
        run_all(&mut client, removals).map(drop)
    }
}

impl Target for ReplayTarget {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// Makes the files that the requests are for: what the trace read before it wrote it is there,
    /// so far as it was read.
    fn prepare(&mut self, _: &Workload) -> Result<(), TargetError> {
        while self.engines.len() < self.recorded.clients.len() {
            let engine = (self.connect)().map_err(|error| self.failed("connecting", error))?;
            self.engines.push(engine);
        }
        self.bring_about().map_err(|error| self.failed("preparing files", error))
    }

    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError> {
        self.setting = setting.clone();
        Ok(())
    }

    /// Removes all files of the replay.
    fn clear(&mut self, _: &Workload) -> Result<(), TargetError> {
        self.remove_all().map_err(|error| self.failed("removing files", error))
    }

    /// Makes all requests of the trace, however long that takes, and counts the whole seconds of
    /// it; what takes less than one counts as one.
    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError> {
        if self.files.len() < self.recorded.objects.len() {
            return Err(self.failed("replaying", "its files were not prepared"));
        }
        let start = clock::now() + LEAD;
        let of = self.recorded.clients.len() as u32;
        let ended = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..of)
                .zip(&self.engines)
                .map(|(index, engine)| {
                    let identity = Identity { index, of };
                    let client = Client::new(Arc::clone(engine), &self.setting, identity);
                    let thread = ReplayThread::new(self, client, index, start, run.progress);
                    scope.spawn(|| thread.go())
                })
                .collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.collect::<Result<Vec<_>, _>>()
        });
        for warning in self.engines.iter().flat_map(|engine| engine.warnings()) {
            run.progress.warned(&warning);
        }
        if run.progress.is_cancelled() {
            return Err(TargetError::Cancelled);
        }
        let ended = ended.map_err(|_| self.failed("replaying", "a client's thread panicked"))?;
        let last = ended.iter().map(|client| client.ended).max().unwrap_or(Time::ZERO);
        self.took = last.since(start);
        self.behind = Latencies::default();
        ended.iter().for_each(|client| self.behind.add(&client.behind));
        let mut clients: Vec<_> = ended.into_iter().map(|client| client.measured).collect();
        let seconds = (self.took.as_secs_f64() as usize).max(1);
        clients.iter_mut().for_each(|client| client.seconds.truncate(seconds));
        Ok(Measurement { counted_secs: self.took.as_secs_f64(), clients })
    }

    fn is_in_real_time(&self) -> bool {
        self.pace == Pace::Recorded
    }
}

/// What the names of a replay's files start with.
fn prefix(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || "-_".contains(*char);
    let stem: String = stem.chars().filter(is_plain).take(32).collect();
    debug_assert!("replay-/objects/.".len() + stem.len() <= MAX_PREFIX_BYTES);
    format!("replay-{stem}/")
}
