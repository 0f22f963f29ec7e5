//! The client: files cut over servers, and one controller for each path.
//!
//! A [`Client`] is driven by one thread. It takes file operations, cuts them into requests, sends
//! those that the controllers admit, and tells which operations are done:
//!
//! ```
//! use std::sync::Arc;
//! use afflux_core::{layout::Layout, setting::Setting};
//! use afflux_store::client::{Client, Identity, Operation, Payload};
//! use afflux_store::engine::null::NullEngine;
//!
//! let engine = Arc::new(NullEngine::new(4));
//! let mut client = Client::new(engine, &Setting::none(), Identity::ALONE);
//! let layout = Layout { unit_bytes: 1 << 20, first_server: 0, count: 4 };
//! let payload = Payload::pattern(1 << 20);
//! let write = Operation::write(7, layout, 0, 10 << 20, &payload);
//! let outcome = client.finish(write).unwrap();
//! assert_eq!(outcome.bytes, 10 << 20);
//! ```

mod operation;
mod path;

use std::collections::BTreeMap;
use std::sync::Arc;

use afflux_core::class::Class;
use afflux_core::credits::import::Import;
use afflux_core::limits::{FanIn, Limits, Turn};
use afflux_core::measure::Recorder;
use afflux_core::path::{DecisionLog, HoldTotals, Reply};
use afflux_core::setting::Setting;
use afflux_core::units::Time;
use afflux_node::clock;

pub use operation::{Operation, Outcome, Payload};

use crate::engine::{
    Answer, Completion, CompletionQueue, CompletionSender, Engine, EngineError, Place, Request,
};
use operation::{Progress, Shape};
use path::{Path, Pending};

/// Which of several clients this is; it decides whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// This client's number, below `of`.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

impl Identity {
    /// The only client.
    pub const ALONE: Self = Self { index: 0, of: 1 };
}

/// An operation that is done.
#[derive(Debug)]
pub struct Finished {
    /// The caller's number for it.
    pub id: u64,
    /// When it was submitted.
    pub started: Time,
    /// When the first of its requests was sent, after what held it back.
    pub sent: Time,
    /// When its last reply arrived.
    pub ended: Time,
    /// What came of it.
    pub outcome: Result<Outcome, EngineError>,
}

/// Ends a [`Client::wait`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(CompletionSender);

impl Waker {
    /// Has the wait that goes on, or the next one, return at once.
    pub fn wake(&self) {
        self.0.send(Completion::failed(WAKE, Place::Metadata, EngineError::Cancelled));
    }
}

/// The tag that no request has.
const WAKE: u64 = 0;

/// One client of a striped store.
pub struct Client {
    engine: Arc<dyn Engine>,
    setting: Setting,
    identity: Identity,
    shape: Shape,
    queue: CompletionQueue,
    paths: Vec<Path>,
    /// Credits at each storage server and, last, at the catalog.
    imports: Vec<(u64, Import)>,
    /// Where the next pass over the paths begins, so that a scarce fan-in goes round.
    first_path: usize,
    in_flight: BTreeMap<u64, InFlight>,
    operations: BTreeMap<u64, Running>,
    next_tag: u64,
    /// Buffers of finished reads, for the next ones.
    buffers: Vec<Vec<u8>>,
    finished: Vec<Finished>,
    /// What its controllers decided, when that is written down.
    decisions: Option<DecisionLog>,
}

struct InFlight {
    path: usize,
    pending: Pending,
    sent: Time,
}

struct Running {
    started: Time,
    sent: Option<Time>,
    progress: Progress,
    left: usize,
    failure: Option<EngineError>,
}

impl Client {
    /// A client whose paths start afresh under `setting`.
    pub fn new(engine: Arc<dyn Engine>, setting: &Setting, identity: Identity) -> Self {
        // Each storage server and, last, the catalog.
        let places = (0..engine.servers()).map(Place::Storage).chain([Place::Metadata]);
        let paths = places
            .flat_map(|place| Class::ALL.map(|class| (place, class)))
            .map(|(place, class)| Path::new(place, class, setting.controller(class)))
            .collect();
        let engine_places = engine.servers() as usize + 1;
        let max_request_bytes = setting.controller(Class::Write).options().max_request_bytes;
        let shape = Shape { servers: engine.servers(), max_request_bytes };
        Self {
            engine,
            shape,
            setting: setting.clone(),
            identity,
            queue: CompletionQueue::new(),
            imports: vec![Default::default(); engine_places],
            paths,
            first_path: 0,
            in_flight: BTreeMap::new(),
            operations: BTreeMap::new(),
            next_tag: WAKE + 1,
            buffers: Vec::new(),
            finished: Vec::new(),
            decisions: None,
        }
    }

    /// The same client, which writes down what its controllers decide.
    #[must_use]
    pub fn deciding(mut self) -> Self {
        self.decisions = Some(DecisionLog::default());
        self
    }

    /// What was written down so far.
    pub fn decisions(&self) -> Option<&str> {
        self.decisions.as_ref().map(DecisionLog::as_str)
    }

    /// The same client, with requests of at most `max_request_bytes`.
    #[must_use]
    pub fn with_max_request(mut self, max_request_bytes: u32) -> Self {
        self.shape.max_request_bytes = max_request_bytes;
        self
    }

    /// Takes an operation; its end will come from [`Client::wait`] under the same `id`.
    pub fn submit(&mut self, now: Time, id: u64, operation: Operation) {
        let progress = operation.begin();
        let running = Running { started: now, sent: None, progress, left: 0, failure: None };
        self.operations.insert(id, running);
        self.advance(id, now);
    }

    /// Sends what the controllers admit. Returns when to call again even if no reply comes.
    pub fn pump(&mut self) -> Time {
        let mut wake = Time::NEVER;
        let count = self.paths.len();
        for turn in 0..count {
            let index = (self.first_path + turn) % count;
            if !self.paths[index].pending.is_empty() {
                wake = wake.min(self.pump_path(index));
            }
        }
        self.first_path = (self.first_path + 1) % count;
        wake
    }

    /// What wakes the thread that waits.
    pub fn waker(&self) -> Waker {
        Waker(self.queue.sender())
    }

    /// Sends what is admitted and waits for replies until `wake` at the latest; returns at once
    /// when an operation is done, or by a [`Waker`]. Requests and faults are told to `recorder`.
    pub fn wait(&mut self, wake: Time, recorder: Option<&mut Recorder>) -> Vec<Finished> {
        let mut unwatched = Recorder::new(Time::NEVER, afflux_core::units::Span::ZERO);
        let recorder = recorder.unwrap_or(&mut unwatched);
        let mut woken = false;
        while self.finished.is_empty() && !woken {
            let wake_to_send = self.pump();
            if !self.finished.is_empty() || clock::now() >= wake {
                break;
            }
            let Some(completion) = self.queue.wait(Some(wake.min(wake_to_send))) else { continue };
            woken = completion.tag == WAKE;
            self.take(completion, recorder);
            while let Some(completion) = self.queue.poll() {
                woken |= completion.tag == WAKE;
                self.take(completion, recorder);
            }
        }
        std::mem::take(&mut self.finished)
    }

    /// Runs one operation to its end.
    ///
    /// # Errors
    /// The first of its requests that failed.
    pub fn finish(&mut self, operation: Operation) -> Result<Outcome, EngineError> {
        const ALONE: u64 = u64::MAX;
        self.submit(clock::now(), ALONE, operation);
        loop {
            let ended = self.wait(Time::NEVER, None).into_iter().find(|done| done.id == ALONE);
            if let Some(done) = ended {
                return done.outcome;
            }
        }
    }

    /// Drops what was not sent yet, and waits until `deadline` for what was.
    pub fn drain(&mut self, deadline: Time, recorder: &mut Recorder) {
        for path in &mut self.paths {
            path.pending.clear();
            path.holds.note(clock::now(), None);
        }
        while !self.in_flight.is_empty() {
            let Some(completion) = self.queue.wait(Some(deadline)) else { break };
            self.take(completion, recorder);
            // What a reply led to is not sent any more.
            self.paths.iter_mut().for_each(|path| path.pending.clear());
        }
        for tag in self.in_flight.keys() {
            self.engine.cancel(*tag);
        }
    }

    /// Paths for reads and writes on which a reply came.
    pub fn data_paths(&self) -> u32 {
        let answered = |path: &&Path| path.takes_turns() && path.answered;
        self.paths.iter().filter(answered).count() as u32
    }

    /// What held requests back so far, by class.
    pub fn holds(&mut self) -> [HoldTotals; Class::ALL.len()] {
        let now = clock::now();
        let mut totals = <[HoldTotals; Class::ALL.len()]>::default();
        for path in &mut self.paths {
            totals[path.class.index()].add(&path.holds.totals(now));
        }
        totals
    }

    fn pump_path(&mut self, index: usize) -> Time {
        let waiting = self.waiting(index);
        let path = &mut self.paths[index];
        let (greeted, import) = &mut self.imports[index / Class::ALL.len()];
        let (greeting, least) = self.engine.greeting(path.place);
        if greeting != std::mem::replace(greeted, greeting) {
            import.welcome(u32::from(least), clock::now());
        }
        let tenant = self.setting.tenants.map_or(0, |tenants| 1 + self.identity.index % tenants);
        let mut sent = 0;
        while let Some(next) = path.pending.front() {
            let now = clock::now();
            let limits = Limits {
                credits: import.credits(now),
                cap: self.setting.cap,
                fan_in: self
                    .setting
                    .fan_in
                    .map(|limit| FanIn { limit, in_flight: self.in_flight.len() as u32 }),
                turn: self.setting.turn_slot.filter(|_| path.takes_turns()).map(|slot| Turn {
                    slot,
                    of: self.identity.of,
                    mine: self.identity.index + path.number(),
                }),
            };
            let size_bytes = next.request.data_bytes() as u32;
            let answer = path.controller.admit(&mut path.state, now, size_bytes, &limits);
            if let Some(log) = &mut self.decisions {
                log.ask(now, path.logged(), size_bytes, &limits, &answer, &path.state);
            }
            if let Err(hold) = answer {
                path.holds.note(now, Some(hold.reason));
                return hold.until;
            }
            path.holds.note(now, None);
            let Some(mut pending) = path.pending.pop_front() else { break };
            let tag = self.next_tag;
            self.next_tag += 1;
            let mut request = Request::new(tag, path.place, pending.request.take());
            import.sent();
            sent += 1;
            request.credit_wanted =
                u16::try_from(import.wanted(waiting - sent)).unwrap_or(u16::MAX);
            request.job = tenant;
            if let crate::engine::Operation::Read { buffer, .. } = &mut request.operation {
                *buffer = self.buffers.pop().unwrap_or_default();
            }
            if let Some(operation) = self.operations.get_mut(&pending.operation) {
                operation.sent.get_or_insert(now);
            }
            self.in_flight.insert(tag, InFlight { path: index, pending, sent: now });
            self.engine.submit(request, &self.queue.sender());
        }
        Time::NEVER
    }

    /// Requests that wait at the paths to the same server.
    fn waiting(&self, index: usize) -> u32 {
        let classes = Class::ALL.len();
        let first = index / classes * classes;
        let paths = self.paths[first..first + classes].iter();
        paths.map(|path| path.pending.len() as u32).sum()
    }

    fn take(&mut self, completion: Completion, recorder: &mut Recorder) {
        // A tag that is not under way was given up on before.
        let Some(ended) = self.in_flight.remove(&completion.tag) else { return };
        let path = &mut self.paths[ended.path];
        let size_bytes = ended.pending.size_bytes;
        let arrived = completion.arrived;
        let (_, import) = &mut self.imports[ended.path / Class::ALL.len()];
        // A server that answers grants, whatever it thinks of the request.
        match completion.outcome {
            Err(_) if completion.credit == 0 => import.lost(),
            _ => import.replied(u32::from(completion.credit), arrived),
        }
        match &completion.outcome {
            // The catalog's own words (no such file, name taken) are answers, too.
            Ok(_) | Err(EngineError::NotFound(_) | EngineError::Exists(_)) => {
                let (built, sent) = (ended.pending.built, ended.sent);
                let reply = Reply { built, sent, arrived, size_bytes };
                let ruling = path.controller.reply(&mut path.state, &reply);
                if let Some(log) = &mut self.decisions {
                    log.reply(path.logged(), &reply, &ruling, &path.state);
                }
                recorder.ruling(arrived, path.class, &ruling);
                let (access, queued) = (completion.access, completion.queued);
                path.answered = true;
                recorder.request(arrived, path.class, ended.sent, access, queued);
                recorder.transfer(arrived, path.class, u64::from(size_bytes));
                if recorder.traces() {
                    recorder.trace(arrived, path.key(), &path.state, u64::from(size_bytes));
                }
            }
            Err(error) => {
                path.controller.fault(&mut path.state, arrived);
                if let Some(log) = &mut self.decisions {
                    log.fault(arrived, path.logged(), &path.state);
                }
                recorder.fault(error);
            }
        }
        self.settle(ended.pending, completion.outcome, arrived);
    }

    /// Hands a request's end to its operation, which may have more to send.
    fn settle(&mut self, piece: Pending, outcome: Result<Answer, EngineError>, now: Time) {
        let id = piece.operation;
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.left -= 1;
        match outcome {
            Ok(answer) => {
                if let Some(buffer) = operation.progress.take(piece.file_offset_bytes, answer) {
                    self.buffers.push(buffer);
                }
            }
            Err(error) => {
                operation.failure.get_or_insert(error);
            }
        }
        if operation.left == 0 {
            self.advance(id, now);
        }
    }

    /// Starts the next phase of an operation, or ends it.
    fn advance(&mut self, id: u64, now: Time) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let requests = match operation.failure {
            None => operation.progress.next_phase(self.shape),
            Some(_) => None,
        };
        let Some(requests) = requests else {
            if let Some(operation) = self.operations.remove(&id) {
                let outcome = match operation.failure {
                    Some(error) => Err(error),
                    None => Ok(operation.progress.into_outcome()),
                };
                self.finished.push(Finished {
                    id,
                    started: operation.started,
                    sent: operation.sent.unwrap_or(now),
                    ended: now,
                    outcome,
                });
            }
            return;
        };
        operation.left = requests.len();
        for (place, file_offset_bytes, request) in requests {
            let index = Path::index(place, request.class(), self.shape.servers);
            let pending = Pending::new(id, now, file_offset_bytes, request);
            self.paths[index].pending.push_back(pending);
        }
    }
}
