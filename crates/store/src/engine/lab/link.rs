//! One connection of a client to a server, made again when it breaks.
//!
//! A writing thread connects, sends what is to be sent and looks after deadlines; a reading thread
//! takes the answers. A request is pending from its submission until its one completion: by its
//! answer, its deadline, its cancellation, or the end of the engine, whichever takes it out first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use afflux_core::units::{Span, Time};
use afflux_node::clock;
use bytes::Bytes;

use crate::engine::{Answer, Completion, CompletionSender, EngineError, Place};
use crate::lab::cluster::state::LabState;
use crate::lab::stream::{self, FrameReader, Payload, ReadError};
use crate::lab::wire::{FrameError, Header, Hello, Kind, Status, Welcome};
use crate::sync::{lock, wait, wait_for};

const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const WELCOME_WITHIN: Span = Span::from_secs(5);
// How late a deadline may be noticed while the socket takes nothing.
const WRITE_STEP: Duration = Duration::from_millis(50);
const FIRST_PAUSE: Span = Span::from_millis(10);
const LONGEST_PAUSE: Span = Span::from_millis(500);
const STACK_BYTES: usize = 256 << 10;
const CREDIT_BITS: u32 = 16;

/// A request on its way to the wire.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) header: Header,
    pub(super) data: Bytes,
    pub(super) buffer: Vec<u8>,
    pub(super) deadline: Span,
    pub(super) sink: Sink,
}

/// Who waits for the end of a request.
#[derive(Debug)]
pub(super) enum Sink {
    /// A caller of the engine.
    Caller { tag: u64, place: Place, done: CompletionSender },
    /// The engine itself, for the text of an answer.
    Text { index: usize, done: mpsc::Sender<(usize, Result<Vec<u8>, EngineError>)> },
}

/// A connection to one server, over all the sockets that it takes.
#[derive(Debug)]
pub(super) struct Link {
    hello: Hello,
    server: String,
    dir: Option<PathBuf>,
    state: Mutex<State>,
    changed: Condvar,
    // The last connection's number, and below it the credits of its welcome.
    greeting: AtomicU64,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    address: SocketAddr,
    phase: Phase,
    // Counts the sockets, so that what a reader of an old one has to say is ignored.
    generation: u64,
    socket: Option<Arc<TcpStream>>,
    trouble: Option<EngineError>,
    tried: bool,
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    unsent: VecDeque<u64>,
    deadlines: BTreeSet<(Time, u64)>,
    writer_waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Down,
    Greeting,
    Up,
    Closed,
}

#[derive(Debug)]
struct Pending {
    ask: Ask,
    gives_up: Time,
}

impl Ask {
    pub(super) fn new(kind: Kind, sink: Sink) -> Self {
        let header = Header::request(kind, 0);
        let deadline = super::DEFAULT_DEADLINE;
        Self { header, data: Bytes::new(), buffer: Vec::new(), deadline, sink }
    }
}

impl Sink {
    /// Ends the request with an error.
    pub(super) fn fail(self, error: EngineError, at: Time) {
        match self {
            Self::Caller { tag, place, done } => done.send(Completion {
                tag,
                place,
                outcome: Err(error),
                arrived: at,
                access: Span::ZERO,
                queued: Span::ZERO,
                credit: 0,
            }),
            // Whoever asked has gone when nobody listens.
            Self::Text { index, done } => drop(done.send((index, Err(error)))),
        }
    }
}

impl Link {
    /// Starts connecting to the server that `hello` means.
    pub(super) fn start(
        hello: Hello,
        address: SocketAddr,
        dir: Option<PathBuf>,
    ) -> io::Result<Arc<Self>> {
        let state = State {
            address,
            phase: Phase::Down,
            generation: 0,
            socket: None,
            trouble: None,
            tried: false,
            next_id: 1,
            pending: BTreeMap::new(),
            unsent: VecDeque::new(),
            deadlines: BTreeSet::new(),
            writer_waits: false,
        };
        let server = hello.server.clone().unwrap_or_default();
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let (greeting, writer) = (AtomicU64::default(), Mutex::default());
        let link = Arc::new(Self { hello, server, dir, state, changed, greeting, writer });
        let writing = {
            let link = Arc::clone(&link);
            let builder = thread::Builder::new().name(format!("to {}", link.server));
            builder.stack_size(STACK_BYTES).spawn(move || link.run())?
        };
        *lock(&link.writer) = Some(writing);
        Ok(link)
    }

    /// The number of the last connection, and the credits that its welcome granted.
    pub(super) fn greeting(&self) -> (u64, u16) {
        let greeting = self.greeting.load(Ordering::Acquire);
        (greeting >> CREDIT_BITS, greeting as u16)
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(super) fn wait_for_first_try(&self) -> Result<(), EngineError> {
        let mut state = lock(&self.state);
        while !state.tried {
            state = wait(&self.changed, state);
        }
        match (state.phase, &state.trouble) {
            (Phase::Up, _) | (_, None) => Ok(()),
            (_, Some(trouble)) => Err(trouble.clone()),
        }
    }

    /// Takes a request.
    pub(super) fn submit(&self, mut ask: Ask) {
        let gives_up = clock::now() + ask.deadline;
        let mut state = lock(&self.state);
        if state.phase == Phase::Closed {
            drop(state);
            ask.sink.fail(EngineError::Cancelled, clock::now());
            return;
        }
        let id = state.next_id;
        state.next_id += 1;
        ask.header.id = id;
        state.deadlines.insert((gives_up, id));
        state.pending.insert(id, Pending { ask, gives_up });
        state.unsent.push_back(id);
        if state.writer_waits {
            state.writer_waits = false;
            self.changed.notify_all();
        }
    }

    /// Gives a caller's request up; false when it is not here.
    pub(super) fn cancel(&self, tag: u64) -> bool {
        let mut state = lock(&self.state);
        let is_it = |pending: &Pending| match &pending.ask.sink {
            Sink::Caller { tag: other, .. } => *other == tag,
            Sink::Text { .. } => false,
        };
        let found = state.pending.iter().find(|(_, pending)| is_it(pending)).map(|(&id, _)| id);
        let Some(id) = found else { return false };
        let Some(pending) = state.remove(id) else { return false };
        state.fence(id, &pending);
        drop(state);
        pending.ask.sink.fail(EngineError::Cancelled, clock::now());
        true
    }

    /// Ends the connection; what is pending is cancelled.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.phase = Phase::Closed;
        state.cut();
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        self.changed.notify_all();
        for pending in pending.into_values() {
            pending.ask.sink.fail(EngineError::Cancelled, clock::now());
        }
    }

    /// Waits for the threads after [`Link::close`].
    pub(super) fn join(&self) {
        if let Some(writer) = lock(&self.writer).take() {
            // A thread that panicked is through as well.
            let _ = writer.join();
        }
    }

    /// The writing thread: connects and sends, again and again, until the link is closed.
    fn run(self: &Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        while lock(&self.state).phase != Phase::Closed {
            match self.open() {
                Ok((socket, reader)) => {
                    let was_up = self.send_all(&socket);
                    let mut state = lock(&self.state);
                    state.cut();
                    drop(state);
                    let _ = reader.join();
                    if was_up {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(error) => self.failed(self.unreachable(&error)),
            }
            self.rest(pause);
            pause = pause.mul_f64(2.0).min(LONGEST_PAUSE);
        }
    }

    /// Connects, says hello, and starts a reading thread for the socket.
    fn open(self: &Arc<Self>) -> io::Result<(Arc<TcpStream>, JoinHandle<()>)> {
        let address = self.locate();
        let socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        stream::prepare(&socket)?;
        socket.set_write_timeout(Some(WRITE_STEP))?;
        let hello = serde_json::to_vec(&self.hello)?;
        let header = Header::request(Kind::Hello, 0);
        let patience = || Err(ErrorKind::TimedOut.into());
        stream::write_frame(&socket, header, &Payload::text(hello), patience)?;
        let socket = Arc::new(socket);
        let mut state = lock(&self.state);
        if state.phase == Phase::Closed {
            return Err(ErrorKind::Interrupted.into());
        }
        state.phase = Phase::Greeting;
        state.generation += 1;
        state.socket = Some(Arc::clone(&socket));
        // What had been sent over the last socket is sent again, in the old order.
        state.unsent = state.pending.keys().copied().collect();
        let generation = state.generation;
        drop(state);
        let reading = {
            let (link, socket) = (Arc::clone(self), Arc::clone(&socket));
            let builder = thread::Builder::new().name(format!("from {}", self.server));
            builder.stack_size(STACK_BYTES).spawn(move || link.read_all(&socket, generation))?
        };
        Ok((socket, reading))
    }

    /// The server's address, as the lab's state says now.
    fn locate(&self) -> SocketAddr {
        let mut address = lock(&self.state).address;
        if let Some(dir) = &self.dir
            && let Ok(lab) = LabState::load(dir)
            && Some(&lab.id) == self.hello.lab.as_ref()
            && let Some(now) = lab.address_of(&self.server)
        {
            address = now;
            lock(&self.state).address = now;
        }
        address
    }

    /// Sends requests until the socket fails or the link is closed; says whether it ever was up.
    fn send_all(&self, socket: &TcpStream) -> bool {
        let welcome_until = clock::now() + WELCOME_WITHIN;
        let mut was_up = false;
        let mut state = lock(&self.state);
        loop {
            let now = clock::now();
            state = self.expire(state, now);
            match state.phase {
                Phase::Down | Phase::Closed => return was_up,
                Phase::Greeting if now >= welcome_until => {
                    drop(state);
                    let why = io::Error::new(ErrorKind::TimedOut, "it accepts but says nothing");
                    self.failed(self.unreachable(&why));
                    return was_up;
                }
                Phase::Greeting => {
                    state = self.wait_until(state, welcome_until);
                    continue;
                }
                Phase::Up => was_up = true,
            }
            let Some(id) = state.unsent.pop_front() else {
                state = self.wait_until(state, Time::NEVER);
                continue;
            };
            let Some(pending) = state.pending.get(&id) else { continue };
            let left = pending.gives_up.since(now).as_nanos();
            let header = Header { deadline_ns: left.max(1), ..pending.ask.header };
            let payload = match pending.ask.data.clone() {
                data if data.is_empty() => Payload::Empty,
                data => Payload::One(data, None),
            };
            drop(state);
            let stalled = || {
                let state = self.expire(lock(&self.state), clock::now());
                if state.phase == Phase::Up { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) }
            };
            if let Err(error) = stream::write_frame(socket, header, &payload, stalled) {
                self.failed_unless_known(&error);
                return was_up;
            }
            state = lock(&self.state);
        }
    }

    /// Waits for news, a deadline or `until`, whichever is first.
    fn wait_until<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        until: Time,
    ) -> MutexGuard<'a, State> {
        let first = state.deadlines.first().map_or(Time::NEVER, |(deadline, _)| *deadline);
        let wake = first.min(until);
        state.writer_waits = true;
        let mut state = if wake == Time::NEVER {
            wait(&self.changed, state)
        } else {
            let left = wake.since(clock::now());
            wait_for(&self.changed, state, clock::std_duration(left))
        };
        state.writer_waits = false;
        state
    }

    /// Waits between two attempts to connect, and looks after deadlines meanwhile.
    fn rest(&self, pause: Span) {
        let until = clock::now() + pause;
        let mut state = lock(&self.state);
        while state.phase != Phase::Closed && clock::now() < until {
            state = self.expire(state, clock::now());
            state = self.wait_until(state, until);
        }
    }

    /// Ends requests whose deadlines have passed.
    fn expire<'a>(&'a self, mut state: MutexGuard<'a, State>, now: Time) -> MutexGuard<'a, State> {
        while let Some(&(deadline, id)) = state.deadlines.first()
            && deadline <= now
        {
            state.deadlines.pop_first();
            let Some(pending) = state.pending.remove(&id) else { continue };
            let late =
                EngineError::TimedOut { server: self.server.clone(), after: pending.ask.deadline };
            let error = match &state.trouble {
                Some(trouble) if state.phase != Phase::Up => trouble.clone(),
                _ => late,
            };
            state.fence(id, &pending);
            drop(state);
            pending.ask.sink.fail(error, clock::now());
            state = lock(&self.state);
        }
        state
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> EngineError {
        EngineError::Unreachable { server: self.server.clone(), why: why.to_string() }
    }

    /// Notes that the socket is of no use any more, and why.
    fn failed(&self, trouble: EngineError) {
        // A server that is another one than was meant will not do better in a moment.
        let final_for_all = matches!(trouble, EngineError::Protocol { .. });
        let mut state = lock(&self.state);
        state.tried = true;
        state.trouble = Some(trouble.clone());
        if state.phase != Phase::Closed {
            state.phase = Phase::Down;
        }
        state.cut();
        let lost = if final_for_all {
            state.deadlines.clear();
            std::mem::take(&mut state.pending)
        } else {
            BTreeMap::new()
        };
        drop(state);
        self.changed.notify_all();
        for pending in lost.into_values() {
            pending.ask.sink.fail(trouble.clone(), clock::now());
        }
    }

    /// The same for the writing thread: the reading one may know better what happened.
    fn failed_unless_known(&self, error: &io::Error) {
        let known = lock(&self.state).phase != Phase::Up;
        if !known {
            self.failed(self.unreachable(error));
        }
    }

    /// The reading thread of one socket.
    fn read_all(&self, socket: &TcpStream, generation: u64) {
        let mut frames = FrameReader::new(socket);
        let end = self.read_welcome(&mut frames, generation).and_then(|()| {
            loop {
                self.read_answer(&mut frames)?;
            }
        });
        let Err::<(), _>(end) = end else { return };
        let trouble = match end {
            End::Read(ReadError::Frame(
                error @ (FrameError::Magic(_) | FrameError::Version(_)),
            )) => EngineError::Protocol { server: self.server.clone(), why: error.to_string() },
            End::Refused(why) => EngineError::Protocol { server: self.server.clone(), why },
            End::Read(error) => self.unreachable(&error),
        };
        if lock(&self.state).generation == generation {
            self.failed(trouble);
        }
    }

    fn read_welcome(&self, frames: &mut FrameReader<'_>, generation: u64) -> Result<(), End> {
        let header = frames.header()?;
        let mut payload = vec![0; header.payload_bytes as usize];
        frames.payload(&header, &mut payload)?;
        if header.status != Status::Done || header.kind != Kind::Hello {
            return Err(End::Refused(text_of(&payload)));
        }
        let welcome = serde_json::from_slice::<Welcome>(&payload);
        let meant = |welcome: &Welcome| {
            self.hello.server.as_ref().is_none_or(|server| *server == welcome.server)
                && self.hello.lab.as_ref().is_none_or(|lab| *lab == welcome.lab)
        };
        match welcome {
            Ok(welcome) if meant(&welcome) => {}
            Ok(other) => {
                return Err(End::Refused(format!("this is {} of lab {}", other.server, other.lab)));
            }
            Err(error) => return Err(End::Refused(error.to_string())),
        }
        let mut state = lock(&self.state);
        if state.generation == generation && state.phase == Phase::Greeting {
            let greeting = generation << CREDIT_BITS | u64::from(header.credit);
            self.greeting.store(greeting, Ordering::Release);
            state.phase = Phase::Up;
            state.tried = true;
            state.trouble = None;
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn read_answer(&self, frames: &mut FrameReader<'_>) -> Result<(), End> {
        let header = frames.header()?;
        let mut payload = self.memory_for(&header);
        if let Err(error) = frames.payload(&header, &mut payload) {
            // The request will be sent again, and its buffer be used again.
            if let Some(pending) = lock(&self.state).pending.get_mut(&header.id) {
                pending.ask.buffer = payload;
            }
            return Err(error.into());
        }
        let arrived = clock::now();
        if header.status == Status::Refused {
            return Err(End::Refused(text_of(&payload)));
        }
        let pending = lock(&self.state).remove(header.id);
        // An answer that nobody waits for any more came too late.
        let Some(pending) = pending else { return Ok(()) };
        match pending.ask.sink {
            Sink::Caller { tag, place, done } => done.send(Completion {
                tag,
                place,
                outcome: self.outcome(&header, payload, pending.ask.deadline),
                arrived,
                access: Span::from_nanos(header.first),
                queued: Span::from_nanos(header.second),
                credit: header.credit,
            }),
            Sink::Text { index, done } => drop(done.send((index, Ok(payload)))),
        }
        Ok(())
    }

    /// Memory of just the payload's length: the caller's buffer for the answer to a read. A buffer
    /// that has been used before needs no clearing.
    fn memory_for(&self, header: &Header) -> Vec<u8> {
        let mut memory = Vec::new();
        if header.kind == Kind::Read
            && let Some(pending) = lock(&self.state).pending.get_mut(&header.id)
        {
            memory = std::mem::take(&mut pending.ask.buffer);
        }
        memory.resize(header.payload_bytes as usize, 0);
        memory
    }

    fn outcome(
        &self,
        header: &Header,
        payload: Vec<u8>,
        deadline: Span,
    ) -> Result<Answer, EngineError> {
        let server = self.server.clone();
        match header.status {
            Status::Done => match header.kind {
                Kind::Read => Ok(Answer::Read(payload)),
                Kind::Catalog => serde_json::from_slice(&payload).map_err(|error| {
                    EngineError::Protocol { server, why: format!("catalog answer: {error}") }
                }),
                _ => Ok(Answer::Done),
            },
            Status::NoSpace => Err(EngineError::NoSpace { server }),
            Status::NotFound => Err(EngineError::NotFound(text_of(&payload))),
            Status::Exists => Err(EngineError::Exists(text_of(&payload))),
            Status::Invalid => Err(EngineError::Invalid(text_of(&payload))),
            Status::Io => Err(EngineError::Io { server, what: text_of(&payload) }),
            Status::Expired => Err(EngineError::TimedOut { server, after: deadline }),
            Status::Refused => Err(EngineError::Protocol { server, why: text_of(&payload) }),
        }
    }
}

impl State {
    fn remove(&mut self, id: u64) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.deadlines.remove(&(pending.gives_up, id));
        Some(pending)
    }

    /// Sees to it that a request which was given up cannot overtake what the caller asks after
    /// this, though the server may be about to do it: a new connection has the server finish with
    /// the requests of the old one first.
    fn fence(&mut self, id: u64, given_up: &Pending) {
        let sent = self.phase == Phase::Up && !self.unsent.contains(&id);
        if sent && given_up.ask.header.kind != Kind::Read {
            self.phase = Phase::Down;
            // That the old socket ends is no news, and no trouble with the server.
            self.generation += 1;
            self.trouble = None;
            self.cut();
        }
    }

    /// Ends the socket, which ends the threads that wait on it.
    fn cut(&mut self) {
        if let Some(socket) = self.socket.take() {
            // One that is closed already needs no shutting down.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Why reading ended.
enum End {
    Read(ReadError),
    Refused(String),
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

fn text_of(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}
