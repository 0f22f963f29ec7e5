//! The `dirs` engine: any set of directories or mounts, each taken as one server.
//!
//! An object is a file under `DIR/objects/`; the catalog is in the first directory, under
//! `catalog/`, and may be used by several processes at once. Each value has a few threads for each
//! directory.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use afflux_core::units::{Span, Time};
use afflux_node::clock;

use super::{
    Answer, Capabilities, Completion, CompletionSender, Engine, EngineError, ObjectId, Operation,
    Place, Request, ServerStatistics,
};
use crate::catalog::Origin;
use crate::catalog::journal::JournalError;
use crate::catalog::kept::KeptCatalog;
use crate::objects::ObjectError;
use crate::objects::files::{FileOptions, ObjectFiles};
use crate::sync::{lock, wait};

/// Threads for each directory, and so how many requests its file system sees from one client.
pub const THREADS: usize = 8;
const STACK_BYTES: usize = 256 << 10;

/// Why directories cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirsError {
    /// None was given.
    #[error("no directory is named: write dirs:DIR or dirs:DIR,DIR,...")]
    None,
    /// It is not there.
    #[error("{} is no directory: make it, or mount what belongs there", .0.display())]
    Missing(PathBuf),
    /// It was named twice.
    #[error("{} is named twice: each directory is one server", .0.display())]
    Twice(PathBuf),
    /// The objects in it cannot be used.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The catalog in it cannot be used.
    #[error(transparent)]
    Catalog(#[from] JournalError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A client of a set of directories.
#[derive(Debug)]
pub struct DirsEngine {
    servers: Vec<Arc<Server>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Server {
    name: String,
    keeps: Keeps,
    queue: Mutex<Queue>,
    work: Condvar,
    counters: Counters,
}

#[derive(Debug)]
enum Keeps {
    Objects(ObjectFiles),
    Names(Mutex<KeptCatalog>),
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Debug)]
struct Job {
    request: Request,
    done: CompletionSender,
    arrived: Time,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    depth: AtomicU64,
    depth_max: AtomicU64,
    busy_ns: AtomicU64,
}

impl DirsEngine {
    /// Takes each of `dirs` as one server; they must be there.
    pub fn open(dirs: &[PathBuf]) -> Result<Self, DirsError> {
        let first = dirs.first().ok_or(DirsError::None)?;
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut servers = Vec::new();
        for dir in dirs {
            let real = dir.canonicalize().ok().filter(|real| real.is_dir());
            let real = real.ok_or_else(|| DirsError::Missing(dir.clone()))?;
            if seen.contains(&real) {
                return Err(DirsError::Twice(dir.clone()));
            }
            seen.push(real);
            let options = FileOptions { capacity_bytes: u64::MAX, direct: false, shared: true };
            let objects = ObjectFiles::open(dir, options)?;
            servers.push(Server::new(dir.display().to_string(), Keeps::Objects(objects)));
        }
        servers.push(Self::open_catalog(first, dirs.len() as u32)?);
        let mut engine = Self { servers: Vec::new(), threads: Vec::new() };
        for server in servers {
            let server = Arc::new(server);
            engine.servers.push(Arc::clone(&server));
            let threads = if server.objects().is_some() { THREADS } else { 1 };
            for _ in 0..threads {
                let server = Arc::clone(&server);
                let builder = thread::Builder::new().name("dirs".into()).stack_size(STACK_BYTES);
                let thread = builder.spawn(move || server.serve_all());
                engine.threads.push(thread.map_err(DirsError::Thread)?);
            }
        }
        Ok(engine)
    }

    fn open_catalog(first: &Path, servers: u32) -> Result<Server, DirsError> {
        let dir = first.join("catalog");
        let name = dir.display().to_string();
        let catalog = KeptCatalog::open_shared(&dir, &name, servers)?;
        Ok(Server::new(name, Keeps::Names(Mutex::new(catalog))))
    }

    fn place(&self, request: &Request) -> Result<&Arc<Server>, EngineError> {
        let is_catalog = matches!(request.operation, Operation::Catalog(_));
        let (storage, metadata) = self.servers.split_at(self.servers.len() - 1);
        let found = match request.place {
            Place::Metadata if is_catalog => metadata.first(),
            Place::Storage(index) if !is_catalog => storage.get(index as usize),
            _ => {
                let why = "catalog operations, and no others, go to the catalog";
                return Err(EngineError::Invalid(why.to_owned()));
            }
        };
        let count = storage.len();
        found.ok_or_else(|| {
            EngineError::Invalid(format!("{:?} of {count}, counted from zero", request.place))
        })
    }
}

impl Server {
    fn new(name: String, keeps: Keeps) -> Self {
        let (queue, work) = (Mutex::default(), Condvar::new());
        Self { name, keeps, queue, work, counters: Counters::default() }
    }

    const fn objects(&self) -> Option<&ObjectFiles> {
        match &self.keeps {
            Keeps::Objects(objects) => Some(objects),
            Keeps::Names(_) => None,
        }
    }

    fn serve_all(&self) {
        while let Some(job) = self.next() {
            let Job { request, done, arrived } = job;
            let (tag, place) = (request.tag, request.place);
            let started = clock::now();
            let queued = started.since(arrived);
            let outcome = match request.deadline {
                Some(after) if queued > after => {
                    Err(EngineError::TimedOut { server: self.name.clone(), after })
                }
                _ => self.serve(request.operation),
            };
            let arrived = clock::now();
            let access = arrived.since(started);
            self.counters.depth.fetch_sub(1, Ordering::Relaxed);
            self.counters.requests.fetch_add(1, Ordering::Relaxed);
            self.counters.busy_ns.fetch_add(access.as_nanos(), Ordering::Relaxed);
            done.send(Completion { tag, place, outcome, arrived, access, queued, credit: 0 });
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            queue = wait(&self.work, queue);
        }
    }

    fn serve(&self, operation: Operation) -> Result<Answer, EngineError> {
        match (&self.keeps, operation) {
            (Keeps::Names(catalog), Operation::Catalog(operation)) => {
                // A local caller gets its answer and never asks twice.
                lock(catalog).serve(&operation, Origin::default())
            }
            (Keeps::Objects(objects), operation) => {
                self.transfer(objects, operation).map_err(|error| self.failed(&error))
            }
            (Keeps::Names(_), _) => {
                Err(EngineError::Invalid("the catalog keeps no objects".into()))
            }
        }
    }

    fn transfer(&self, objects: &ObjectFiles, operation: Operation) -> Result<Answer, ObjectError> {
        match operation {
            Operation::Read { object, offset_bytes, length_bytes, mut buffer } => {
                buffer.resize(length_bytes as usize, 0);
                let read = objects.read(object, offset_bytes, &mut buffer)?;
                buffer.truncate(read);
                self.counters.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
                Ok(Answer::Read(buffer))
            }
            Operation::Write { object, offset_bytes, data } => {
                objects.write(object, offset_bytes, &data)?;
                self.counters.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                Ok(Answer::Done)
            }
            Operation::Remove { object } => self.remove(objects, object),
            // The caller has sorted these out.
            Operation::Catalog(_) => Ok(Answer::Done),
        }
    }

    fn remove(&self, objects: &ObjectFiles, object: ObjectId) -> Result<Answer, ObjectError> {
        objects.remove(object)?;
        Ok(Answer::Done)
    }

    fn failed(&self, error: &ObjectError) -> EngineError {
        let server = self.name.clone();
        match error {
            ObjectError::NoSpace => EngineError::NoSpace { server },
            ObjectError::Range { .. } => EngineError::Invalid(error.to_string()),
            ObjectError::Io { .. } => EngineError::Io { server, what: error.to_string() },
        }
    }

    fn statistics(&self) -> Result<ServerStatistics, EngineError> {
        let counters = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stored_bytes = match &self.keeps {
            Keeps::Objects(objects) => {
                objects.stored_bytes().map_err(|error| self.failed(&error))?
            }
            Keeps::Names(catalog) => lock(catalog).journal_bytes(),
        };
        Ok(ServerStatistics {
            server: self.name.clone(),
            requests: get(&counters.requests),
            read_bytes: get(&counters.read_bytes),
            written_bytes: get(&counters.written_bytes),
            queue_depth: get(&counters.depth),
            queue_depth_max: get(&counters.depth_max),
            busy_secs: Span::from_nanos(get(&counters.busy_ns)).as_secs_f64(),
            stored_bytes,
            bad_frames: 0,
        })
    }
}

impl Engine for DirsEngine {
    fn name(&self) -> &'static str {
        "dirs"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { durable: true, keeps_data: true, server_times: true, cancels: true }
    }

    fn servers(&self) -> u32 {
        self.servers.len() as u32 - 1
    }

    fn submit(&self, request: Request, done: &CompletionSender) {
        let arrived = clock::now();
        let server = match self.place(&request) {
            Ok(server) => server,
            Err(error) => {
                done.send(Completion::failed(request.tag, request.place, error));
                return;
            }
        };
        let depth = server.counters.depth.fetch_add(1, Ordering::Relaxed) + 1;
        server.counters.depth_max.fetch_max(depth, Ordering::Relaxed);
        lock(&server.queue).jobs.push_back(Job { request, done: done.clone(), arrived });
        server.work.notify_one();
    }

    fn cancel(&self, tag: u64) {
        for server in &self.servers {
            let mut queue = lock(&server.queue);
            let found = queue.jobs.iter().position(|job| job.request.tag == tag);
            if let Some(job) = found.and_then(|at| queue.jobs.remove(at)) {
                drop(queue);
                server.counters.depth.fetch_sub(1, Ordering::Relaxed);
                let error = EngineError::Cancelled;
                job.done.send(Completion::failed(tag, job.request.place, error));
                return;
            }
        }
    }

    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError> {
        self.servers.iter().map(|server| server.statistics()).collect()
    }
}

impl Drop for DirsEngine {
    fn drop(&mut self) {
        for server in &self.servers {
            let mut queue = lock(&server.queue);
            queue.closed = true;
            let jobs = std::mem::take(&mut queue.jobs);
            drop(queue);
            server.work.notify_all();
            for job in jobs {
                let error = EngineError::Cancelled;
                let Request { tag, place, .. } = job.request;
                job.done.send(Completion::failed(tag, place, error));
            }
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked is through as well.
            let _ = thread.join();
        }
    }
}
