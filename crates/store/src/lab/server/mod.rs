//! One server of a lab: accept loop, a reader and a writer thread for each connection, a bounded
//! queue, service threads, and the service itself: objects ([`storage`]) or names ([`metadata`]).

mod connection;
mod credits;
pub mod metadata;
mod queue;
pub mod storage;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use afflux_core::credits::Options as CreditOptions;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use self::connection::Connection;
pub use self::credits::CreditReport;
use self::credits::Desk;
use self::queue::{Job, RequestQueue};
use super::device::LabDevice;
use super::stream::{self, Payload};
use super::wire::{Header, Status, Welcome};
use crate::engine::ServerStatistics;
use crate::objects::buffer::BufferPool;
use crate::sync::lock;

// Each has two threads.
const MOST_CONNECTIONS: usize = 512;
const STACK_BYTES: usize = 256 << 10;
const IDLE_BUFFER_BYTES: usize = 64 << 20;

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Its part in the lab.
    pub role: Role,
    /// The lab it belongs to.
    pub lab: String,
    /// Where its data are.
    pub dir: PathBuf,
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Service threads.
    pub threads: usize,
    /// Requests that may wait for a service thread; past it, connections are not read from.
    pub queue_requests: usize,
    /// Bytes of data of these.
    pub queue_bytes: usize,
    /// What it may have its clients send; `None` leaves that to them.
    pub credits: Option<CreditOptions>,
    /// How long a client may take no replies before it is disconnected.
    pub stall: Duration,
    /// Where the server says what happens.
    pub log: Log,
}

/// The parts that servers have.
#[derive(Clone, Debug)]
pub enum Role {
    /// Keeps objects.
    Storage {
        /// Its index.
        index: u32,
        /// On what.
        device: LabDevice,
        /// How many bytes at most; `None` takes what the device has.
        capacity_bytes: Option<u64>,
    },
    /// Keeps names, layouts and sizes.
    Metadata {
        /// How many storage servers the lab has.
        servers: u32,
    },
}

/// Where a server says what happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// To standard error, one line for each event.
    #[default]
    Stderr,
    /// Nowhere.
    Silent,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port is taken or not ours to take.
    #[error("cannot listen on {address}: {source}; choose another --port, or leave it out")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread or a socket could not be had.
    #[error("cannot start a {what}: {source}")]
    Start {
        /// What was to be started.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The objects cannot be used.
    #[error("the objects in {}: {source}", dir.display())]
    Objects {
        /// Where they are.
        dir: PathBuf,
        /// What is wrong.
        source: crate::objects::ObjectError,
    },
    /// The catalog cannot be used.
    #[error(transparent)]
    Catalog(#[from] crate::catalog::journal::JournalError),
}

/// What a server answers to a statistics request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// What every engine can tell.
    #[serde(flatten)]
    pub statistics: ServerStatistics,
    /// The device with its options, and how it is accessed.
    pub device: String,
    /// Bytes that it takes at most; `None` when only the device sets a limit.
    pub capacity_bytes: Option<u64>,
    /// Service threads.
    pub threads: u64,
    /// Connections there now.
    pub connections: u64,
    /// Clients that were disconnected because they took no replies.
    pub slow_clients: u64,
    /// Requests not begun because their deadline had passed.
    pub expired: u64,
    /// Its credits, if it grants any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<CreditReport>,
}

/// A server that runs in threads of this process. Dropping it ends them.
#[derive(Debug)]
pub struct LabServer {
    address: SocketAddr,
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

/// What a service makes of a request.
#[derive(Debug)]
struct Reply {
    status: Status,
    payload: Payload,
    access: Span,
}

/// What a server does with the requests that its connections deliver.
trait Service: Send + Sync + std::fmt::Debug {
    /// Carries a request out.
    fn serve(&self, request: &Header, payload: Bytes, client: u64) -> Reply;

    /// Bytes kept.
    fn stored_bytes(&self) -> u64;

    /// The device, for people.
    fn device(&self) -> String;

    /// Most bytes kept, if there is a limit.
    fn capacity_bytes(&self) -> Option<u64>;
}

#[derive(Debug)]
struct Core {
    options: ServerOptions,
    identity: Welcome,
    service: Box<dyn Service>,
    queue: RequestQueue,
    desk: Option<Desk>,
    buffers: BufferPool,
    counters: Counters,
    connections: Mutex<BTreeMap<u64, Arc<Connection>>>,
    started: Time,
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    queue_depth: AtomicU64,
    queue_depth_max: AtomicU64,
    busy_ns: AtomicU64,
    waited_ns: AtomicU64,
    answered_ns: AtomicU64,
    bad_frames: AtomicU64,
    slow_clients: AtomicU64,
    expired: AtomicU64,
}

impl ServerOptions {
    /// Options with the usual sizes: 128 service threads, 1024 requests or 256 MiB in the queue,
    /// ten seconds of patience.
    pub fn new(role: Role, dir: impl Into<PathBuf>) -> Self {
        Self {
            role,
            lab: String::new(),
            dir: dir.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            threads: 128,
            queue_requests: 1024,
            queue_bytes: 256 << 20,
            credits: None,
            stall: Duration::from_secs(10),
            log: Log::default(),
        }
    }
}

impl Role {
    /// The server's name in messages and in the hello.
    pub fn name(&self) -> String {
        match self {
            Self::Storage { index, .. } => format!("storage {index}"),
            Self::Metadata { .. } => "metadata".to_owned(),
        }
    }
}

/// Runs a server until the process ends; `ready` is told its address once it listens.
pub fn run(options: ServerOptions, ready: impl FnOnce(SocketAddr)) -> Result<(), ServerError> {
    let server = LabServer::spawn(options)?;
    ready(server.address());
    server.join();
    Ok(())
}

impl LabServer {
    /// Starts a server in threads of this process; it listens when this returns.
    pub fn spawn(options: ServerOptions) -> Result<Self, ServerError> {
        let wanted = options.listen;
        let listener = TcpListener::bind(wanted)
            .map_err(|source| ServerError::Listen { address: wanted, source })?;
        let address = listener
            .local_addr()
            .map_err(|source| ServerError::Start { what: "listening socket", source })?;
        let core = Arc::new(Core::new(options)?);
        let mut server = Self { address, core, threads: Vec::new() };
        for number in 0..server.core.options.threads.max(1) {
            server.start(format!("service {number}"), Core::serve_all)?;
        }
        server.start("accept".to_owned(), move |core| core.accept_all(&listener))?;
        Ok(server)
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counted.
    pub fn report(&self) -> ServerReport {
        self.core.report()
    }

    /// Ends it: connections are cut, requests in service are finished.
    pub fn stop(self) {
        drop(self);
    }

    fn join(mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked is through as well.
            let _ = thread.join();
        }
    }

    fn start(
        &mut self,
        name: String,
        body: impl FnOnce(&Arc<Core>) + Send + 'static,
    ) -> Result<(), ServerError> {
        let core = Arc::clone(&self.core);
        let builder = thread::Builder::new().name(name).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || body(&core));
        let thread = thread.map_err(|source| ServerError::Start { what: "thread", source })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for LabServer {
    fn drop(&mut self) {
        self.core.stopping.store(true, Ordering::Release);
        self.core.queue.close();
        // The accept loop looks up when somebody knocks.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let connections = std::mem::take(&mut *lock(&self.core.connections));
        for connection in connections.values() {
            connection.close();
        }
        drop(connections);
        // The threads of the connections hold the core. A successor may want its files, so they are
        // waited for, within reason.
        let patience = clock::now() + Span::from_secs(5);
        while Arc::strong_count(&self.core) > 1 && clock::now() < patience {
            clock::sleep(Span::from_millis(1));
        }
    }
}

impl Core {
    fn new(options: ServerOptions) -> Result<Self, ServerError> {
        let buffers = BufferPool::new(IDLE_BUFFER_BYTES);
        let name = options.role.name();
        let service: Box<dyn Service> = match &options.role {
            Role::Storage { index, device, capacity_bytes } => {
                let seed = u64::from(*index);
                let dir = &options.dir;
                let pool = buffers.clone();
                Box::new(storage::Storage::open(dir, device, *capacity_bytes, seed, pool)?)
            }
            Role::Metadata { servers } => {
                Box::new(metadata::Metadata::open(&options.dir, &name, *servers)?)
            }
        };
        let incarnation = clock::now().as_nanos();
        let core = Self {
            identity: Welcome { lab: options.lab.clone(), server: name, incarnation },
            service,
            desk: options.credits.as_ref().map(|credits| Desk::new(credits, options.threads)),
            queue: RequestQueue::new(
                options.queue_requests,
                options.queue_bytes,
                options.credits.as_ref(),
            ),
            buffers,
            counters: Counters::default(),
            connections: Mutex::default(),
            started: clock::now(),
            stopping: AtomicBool::new(false),
            options,
        };
        core.say(&format!("{} starts on {}", core.identity.server, core.service.device()));
        Ok(core)
    }

    /// Puts a line into the log.
    fn say(&self, what: &str) {
        if self.options.log == Log::Stderr {
            let at = clock::now().since(self.started).as_secs_f64();
            // One write for a line, so that lines of several threads stay whole; a log that cannot
            // be written is no reason to stop serving.
            let line = format!("{at:.3} {}: {what}\n", self.identity.server);
            let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
        }
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        for number in 1.. {
            let accepted = listener.accept();
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            let started = accepted.and_then(|(stream, peer)| {
                if lock(&self.connections).len() >= MOST_CONNECTIONS {
                    self.say(&format!("{peer} is one connection too many: refused"));
                    return Ok(());
                }
                self.connect(number, stream, peer)
            });
            if let Err(error) = started {
                self.say(&format!("a connection could not be taken: {error}"));
                // Out of descriptors or threads; others may end in the meantime.
                clock::sleep(Span::from_millis(20));
            }
        }
    }

    fn connect(
        self: &Arc<Self>,
        number: u64,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        stream::prepare(&stream)?;
        stream.set_write_timeout(Some((self.options.stall / 4).max(Duration::from_millis(1))))?;
        let connection = Arc::new(Connection::new(number, peer.to_string(), stream));
        lock(&self.connections).insert(number, Arc::clone(&connection));
        let builder = |name: &str| thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
        let writing = {
            let (core, connection) = (Arc::clone(self), Arc::clone(&connection));
            builder("write").spawn(move || connection.write_replies(&core))
        };
        let reading = writing.and_then(|_| {
            let (core, connection) = (Arc::clone(self), Arc::clone(&connection));
            builder("read").spawn(move || {
                connection.read_requests(&core);
                if let Some(desk) = &core.desk {
                    desk.gone(&connection, clock::now());
                }
                lock(&core.connections).remove(&connection.number());
            })
        });
        if let Err(error) = reading {
            connection.close();
            lock(&self.connections).remove(&number);
            return Err(error);
        }
        Ok(())
    }

    /// Makes `connection` the only one of its client.
    fn enrol(&self, connection: &Arc<Connection>) {
        let earlier: Vec<_> = lock(&self.connections)
            .values()
            .filter(|other| {
                other.client() == connection.client()
                    && connection.client() != 0
                    && other.number() < connection.number()
            })
            .cloned()
            .collect();
        for other in earlier {
            self.say(&format!("{} is back", connection.describe()));
            other.retire();
        }
    }

    fn serve_all(self: &Arc<Self>) {
        while let Some(job) = self.queue.take() {
            self.serve(job);
        }
    }

    fn serve(&self, job: Job) {
        let Job { header, payload, arrived, connection } = job;
        if !connection.begin() {
            self.counters.leave();
            return;
        }
        let deadline = header.deadline_ns;
        let late = deadline > 0 && clock::now().since(arrived) > Span::from_nanos(deadline);
        let reply = if late {
            self.counters.expired.fetch_add(1, Ordering::Relaxed);
            Reply::error(Status::Expired, "the deadline passed in the server's queue")
        } else {
            let written = payload.len() as u64;
            let reply = self.service.serve(&header, payload, connection.client());
            self.counters.count(&header, &reply, written);
            reply
        };
        // What passed here and was not the device's work was spent waiting.
        let now = clock::now();
        let queued = now.since(arrived).saturating_sub(reply.access);
        self.counters.answer(now.since(arrived), queued);
        let credit = self.desk.as_ref().map_or(0, |desk| match late {
            true => desk.withdraw(&connection, now),
            false => desk.reply(&connection, &header, arrived, now),
        });
        let answer = Header {
            credit,
            first: reply.access.as_nanos(),
            second: queued.as_nanos(),
            ..header.answer(reply.status)
        };
        self.counters.leave();
        connection.end(&header, answer, reply.payload);
    }

    fn connected(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).values().cloned().collect()
    }

    fn report(&self) -> ServerReport {
        let counters = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let statistics = ServerStatistics {
            server: self.identity.server.clone(),
            requests: get(&counters.requests),
            read_bytes: get(&counters.read_bytes),
            written_bytes: get(&counters.written_bytes),
            queue_depth: get(&counters.queue_depth),
            queue_depth_max: get(&counters.queue_depth_max),
            busy_secs: Span::from_nanos(get(&counters.busy_ns)).as_secs_f64(),
            waited_secs: Span::from_nanos(get(&counters.waited_ns)).as_secs_f64(),
            answered_secs: Span::from_nanos(get(&counters.answered_ns)).as_secs_f64(),
            stored_bytes: Some(self.service.stored_bytes()),
            bad_frames: get(&counters.bad_frames),
        };
        let connected = self.connected();
        ServerReport {
            statistics,
            device: self.service.device(),
            capacity_bytes: self.service.capacity_bytes(),
            threads: self.options.threads as u64,
            connections: connected.len() as u64,
            slow_clients: get(&counters.slow_clients),
            expired: get(&counters.expired),
            credits: self.desk.as_ref().map(|desk| desk.report(&connected)),
        }
    }
}

impl Counters {
    fn enter(&self) {
        let depth = self.queue_depth.fetch_add(1, Ordering::Relaxed) + 1;
        self.queue_depth_max.fetch_max(depth, Ordering::Relaxed);
    }

    fn answer(&self, after: Span, queued: Span) {
        self.answered_ns.fetch_add(after.as_nanos(), Ordering::Relaxed);
        self.waited_ns.fetch_add(queued.as_nanos(), Ordering::Relaxed);
    }

    fn leave(&self) {
        self.queue_depth.fetch_sub(1, Ordering::Relaxed);
    }

    fn count(&self, request: &Header, reply: &Reply, written: u64) {
        use super::wire::Kind;
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.busy_ns.fetch_add(reply.access.as_nanos(), Ordering::Relaxed);
        match (request.kind, reply.status) {
            (Kind::Read, Status::Done) => {
                self.read_bytes.fetch_add(reply.payload.len() as u64, Ordering::Relaxed)
            }
            (Kind::Write, Status::Done) => self.written_bytes.fetch_add(written, Ordering::Relaxed),
            _ => 0,
        };
    }
}

impl Reply {
    const fn done(payload: Payload, access: Span) -> Self {
        Self { status: Status::Done, payload, access }
    }

    fn error(status: Status, why: &str) -> Self {
        Self { status, payload: Payload::text(why), access: Span::ZERO }
    }
}
