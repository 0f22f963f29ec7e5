//! Load: one thread for each client of a workload, and the target that bench and search run on.
//!
//! [`EngineTarget`] makes any object engine a [`Target`]: it prepares the workload's files, starts
//! every client with fresh controllers, and measures.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

use afflux_core::measure::{ClientMeasurement, Measurement, Recorder};
use afflux_core::path::HoldTotals;
use afflux_core::setting::Setting;
use afflux_core::target::{Progress, Run, Target, TargetError};
use afflux_core::units::{Span, Time};
use afflux_core::workload::{AppOperation, Generator, Kind, Next, Workload};
use afflux_node::clock;

use crate::client::{Client, Identity, Operation, Payload};
use crate::engine::registry::ConnectError;
use crate::engine::{Engine, FileRecord};
use crate::fileset::{ClientFiles, FileSet};

/// Connects one more client.
pub type Connect = Box<dyn Fn() -> Result<Arc<dyn Engine>, ConnectError> + Send>;

/// How long requests that are under way at the end of a run may take.
const DRAIN: Span = Span::from_secs(20);

/// Any object engine, as something to measure on.
pub struct EngineTarget {
    name: String,
    engines: Vec<Arc<dyn Engine>>,
    // After the clients, since the servers may go with it.
    connect: Connect,
    setting: Setting,
    prepared: Option<(Workload, FileSet)>,
}

impl EngineTarget {
    /// A target that gets its clients from `connect`; `name` is as written after `--on`.
    pub fn new(name: &str, connect: Connect) -> Self {
        let setting = Setting::none();
        Self { name: name.to_owned(), engines: Vec::new(), connect, setting, prepared: None }
    }

    fn failed(&self, doing: &str, why: impl std::fmt::Display) -> TargetError {
        let (target, doing) = (self.name.clone(), doing.to_owned());
        TargetError::Failed { target, doing, why: why.to_string() }
    }

    /// Connects clients until there is one for each of the workload's.
    fn connect_clients(&mut self, clients: u32) -> Result<(), TargetError> {
        while self.engines.len() < clients as usize {
            let engine = (self.connect)().map_err(|error| self.failed("connecting", error))?;
            self.engines.push(engine);
        }
        Ok(())
    }
}

impl Target for EngineTarget {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// Creates the files that the workload finds at its start, and removes those that it does not.
    /// What is there already, at its size, is left as it is.
    fn prepare(&mut self, workload: &Workload) -> Result<(), TargetError> {
        self.connect_clients(workload.clients)?;
        let engine = Arc::clone(&self.engines[0]);
        let files = FileSet::prepare(engine, workload)
            .map_err(|error| self.failed("preparing files", error))?;
        self.prepared = Some((workload.clone(), files));
        Ok(())
    }

    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError> {
        self.setting = setting.clone();
        Ok(())
    }

    fn clear(&mut self, workload: &Workload) -> Result<(), TargetError> {
        self.connect_clients(1)?;
        self.prepared = None;
        FileSet::remove(Arc::clone(&self.engines[0]), workload)
            .map_err(|error| self.failed("removing files", error))
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError> {
        let Some((workload, files)) = &self.prepared else {
            return Err(self.failed("running", "no workload was prepared"));
        };
        let barrier = Barrier::new(workload.clients as usize);
        let clients = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workload.clients)
                .map(|index| {
                    let engine = Arc::clone(&self.engines[index as usize]);
                    let identity = Identity { index, of: workload.clients };
                    let client = Client::new(engine, &self.setting, identity)
                        .with_max_request(workload.max_request);
                    let records = files.of_client(index);
                    let generator = Generator::new(workload, index, run.seed);
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        let mut load = LoadThread::new(client, generator, records, workload, run);
                        load.recorder = load.recorder.tracing(index, run.trace);
                        load.go()
                    })
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
        let clients = clients.map_err(|_| self.failed("running", "a load thread panicked"))?;
        let counted_secs = (run.length.as_nanos() / 1_000_000_000) as f64;
        Ok(Measurement { counted_secs, clients })
    }
}

/// One client of the workload, on a thread of its own.
struct LoadThread<'a> {
    client: Client,
    generator: Generator,
    files: ClientFiles<'a>,
    under_way: BTreeMap<u64, AppOperation>,
    payload: Payload,
    recorder: Recorder,
    end: Time,
    progress: &'a dyn Progress,
}

impl<'a> LoadThread<'a> {
    fn new(
        client: Client,
        generator: Generator,
        files: ClientFiles<'a>,
        workload: &Workload,
        run: &Run<'a>,
    ) -> Self {
        let start = clock::now() + run.settle;
        let recorder = Recorder::new(start, run.length);
        Self {
            client,
            generator,
            files,
            under_way: BTreeMap::new(),
            payload: Payload::pattern(workload.max_request),
            recorder,
            end: start + run.length,
            progress: run.progress,
        }
    }

    fn go(mut self) -> ClientMeasurement {
        // A cancelled run must be noticed although no reply comes.
        const LOOK: Span = Span::from_millis(100);
        while clock::now() < self.end && !self.progress.is_cancelled() {
            self.take_holds();
            let mut wake = self.end.min(clock::now() + LOOK).min(self.recorder.holds_due());
            loop {
                match self.generator.next(clock::now()) {
                    Next::Start(operation) => self.start(operation),
                    Next::At(time) => {
                        wake = wake.min(time);
                        break;
                    }
                    Next::AfterCompletion => break,
                }
            }
            for done in self.client.wait(wake, Some(&mut self.recorder)) {
                self.ended(done);
            }
        }
        self.take_holds();
        self.recorder.client.holds = self.client.holds();
        // Somebody who pressed Ctrl-C does not want to wait for a full queue.
        let patience = if self.progress.is_cancelled() { Span::ZERO } else { DRAIN };
        self.client.drain(clock::now() + patience, &mut self.recorder);
        self.recorder.client.data_paths = self.client.data_paths();
        self.recorder.finish(clock::now())
    }

    /// Notes what held requests back in the second that has ended, when that is wanted.
    fn take_holds(&mut self) {
        let due = self.recorder.holds_due();
        if due == Time::NEVER {
            return;
        }
        let now = clock::now();
        if now >= due {
            let mut all = HoldTotals::default();
            self.client.holds().iter().for_each(|totals| all.add(totals));
            self.recorder.take_holds(now, &all);
        }
    }

    fn start(&mut self, operation: AppOperation) {
        let now = clock::now();
        let id = u64::from(operation.thread);
        self.recorder.operation_started(now);
        self.under_way.insert(id, operation);
        // Most operations go by the file's number, and have no use for its name.
        let (files, layout) = (&self.files, self.files.layout(operation.file));
        let name = || files.name(operation.file);
        let record = files.records.get(&operation.file);
        // Only a file of an interrupted run has no record; its operation asks for it and ends.
        let (file, size_bytes) = record.map_or((0, 0), |record| (record.file, record.size_bytes));
        let (offset, length) = (operation.offset_bytes, operation.length_bytes);
        let asked = match operation.kind {
            Kind::Create => Operation::create(&name(), layout, length, &self.payload),
            Kind::Delete => Operation::remove(&name()),
            Kind::Stat => Operation::open(&name()),
            _ if record.is_none() => Operation::open(&name()),
            Kind::Read => {
                let length = length.min(size_bytes.saturating_sub(offset)).max(1);
                Operation::read(file, layout, offset, length)
            }
            Kind::Write => Operation::write(file, layout, offset, length, &self.payload),
            Kind::Append => Operation::extend(file, layout, size_bytes, length, &self.payload),
        };
        self.client.submit(now, id, asked);
    }

    fn ended(&mut self, done: crate::client::Finished) {
        let Some(operation) = self.under_way.remove(&done.id) else { return };
        self.recorder.operation_ended(done.ended, done.started);
        if let Ok(outcome) = &done.outcome {
            self.progress.moved(outcome.bytes);
            self.remember(&operation, outcome.record.clone());
        }
        self.generator.complete(clock::now(), operation.thread);
    }

    fn remember(&mut self, operation: &AppOperation, record: Option<FileRecord>) {
        match operation.kind {
            Kind::Create => {
                if let Some(record) = record {
                    let size_bytes = operation.length_bytes;
                    self.files.records.insert(operation.file, FileRecord { size_bytes, ..record });
                }
            }
            Kind::Append => {
                if let Some(record) = self.files.records.get_mut(&operation.file) {
                    record.size_bytes += operation.length_bytes;
                }
            }
            Kind::Delete => {
                self.files.records.remove(&operation.file);
            }
            Kind::Read | Kind::Write | Kind::Stat => {}
        }
    }
}
