//! Object engines: where the stripes of files are kept.
//!
//! An [`Engine`] value is one client's connection to a set of servers. Requests are submitted with
//! a tag and end as exactly one [`Completion`] with that tag on the queue that was handed in with
//! them, whatever happens. The engine never holds a request back; that is the controller's affair.
//!
//! ```
//! use afflux_store::engine::{CompletionQueue, Engine, Operation, ObjectId, Place, Request};
//! use afflux_store::engine::null::NullEngine;
//!
//! let engine = NullEngine::new(4);
//! let queue = CompletionQueue::new();
//! let object = ObjectId { file: 1, stripe: 0 };
//! let write = Operation::Write { object, offset_bytes: 0, data: vec![7; 4096].into() };
//! engine.submit(Request::new(1, Place::Storage(0), write), &queue.sender());
//! assert_eq!(queue.wait(None).unwrap().tag, 1);
//! ```

pub mod conformance;
pub mod dirs;
pub mod lab;
pub mod null;
pub mod rados;
pub mod registry;
pub mod wrap;

use std::fmt;
use std::sync::{Arc, mpsc};

use afflux_core::class::Class;
use afflux_core::layout::Layout;
use afflux_core::units::{Span, Time};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Names one stripe's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The file, as the catalog numbered it; never reused.
    pub file: u64,
    /// The stripe of the file.
    pub stripe: u32,
}

/// The server that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A storage server, by index below [`Engine::servers`].
    Storage(u32),
    /// The catalog of names, layouts and sizes.
    Metadata,
}

/// What is asked of a server.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Read; a read past the object's end comes back shorter, holes read as zeros.
    Read {
        /// Which object.
        object: ObjectId,
        /// First byte within the object.
        offset_bytes: u64,
        /// How many bytes.
        length_bytes: u32,
        /// Memory to use for the answer; an empty one will do.
        buffer: Vec<u8>,
    },
    /// Write; creates the object when it is missing.
    Write {
        /// Which object.
        object: ObjectId,
        /// First byte within the object.
        offset_bytes: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Remove an object; one that is missing counts as removed.
    Remove {
        /// Which object.
        object: ObjectId,
    },
    /// An operation of the catalog; goes to [`Place::Metadata`] and nothing else does.
    Catalog(CatalogOperation),
}

/// What is asked of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CatalogOperation {
    /// A new file; an error when the name is taken.
    Create {
        /// Its name: 1 to 255 bytes of UTF-8 without a zero byte.
        name: String,
        /// Its striping.
        layout: Layout,
    },
    /// The record of a file.
    Open {
        /// Its name.
        name: String,
    },
    /// Raises the recorded size of a file to at least this; a smaller one changes nothing.
    Extend {
        /// The file's number.
        file: u64,
        /// The size that is now acknowledged.
        size_bytes: u64,
    },
    /// Removes a name; its objects are the client's to remove.
    Unlink {
        /// The name.
        name: String,
    },
    /// Gives a file another name: the old name goes and the new one comes at one moment. Number and
    /// size stay, so that who knows the file by its number need not hear of it. A file that is
    /// renamed to the name it has is left alone.
    Rename {
        /// The name that it has.
        from: String,
        /// The name that it gets.
        to: String,
        /// What becomes of another file that has the new name.
        taken: Taken,
    },
    /// Names in order, after a given one.
    List {
        /// Only names that start so.
        prefix: String,
        /// Only names greater than this.
        after: String,
        /// At most so many.
        limit: u32,
    },
}

/// What becomes of the file that has the new name of a rename.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Taken {
    /// Nothing: the rename is refused, also where both names are the same.
    Refused,
    /// It goes; its objects are the client's to remove.
    Replaced,
    /// It gets this name at the same moment, which must be free.
    Moved(String),
}

/// A file, as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its name.
    pub name: String,
    /// Its number, never reused.
    pub file: u64,
    /// Its striping.
    pub layout: Layout,
    /// The largest size that was acknowledged.
    pub size_bytes: u64,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Chosen by the caller; unique among its requests under way.
    pub tag: u64,
    /// Where it goes.
    pub place: Place,
    /// What it asks.
    pub operation: Operation,
    /// The job or tenant in whose name it is made.
    pub job: u32,
    /// How many requests the caller would like to have in flight at this server (RCC).
    pub credit_wanted: u16,
    /// After how long the caller gives up on it; `None` leaves it to the engine.
    pub deadline: Option<Span>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The bytes read, in the buffer that came with the request.
    Read(Vec<u8>),
    /// Written, or removed, or extended, or renamed to a name that was free.
    Done,
    /// A file's record: created, opened, just unlinked, or that of the file which had the new name
    /// of another that was renamed; under its next name if it got one.
    File(FileRecord),
    /// The records of a listing.
    Files(Vec<FileRecord>),
}

/// The end of a request.
#[derive(Debug)]
pub struct Completion {
    /// The caller's tag.
    pub tag: u64,
    /// Where it went.
    pub place: Place,
    /// The answer, or why there is none.
    pub outcome: Result<Answer, EngineError>,
    /// When the answer arrived, by the node's clock.
    pub arrived: Time,
    /// How long the server's device worked on it; zero when the engine cannot tell.
    pub access: Span,
    /// How long it waited at the server before that; zero when the engine cannot tell.
    pub queued: Span,
    /// How many requests the server lets this client have in flight; zero when it does not say.
    pub credit: u16,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The server is not there or went away; whether the request was done is unknown.
    #[error("{server} is unreachable: {why}; it is tried again by itself, see `afflux lab status`")]
    Unreachable {
        /// Which server.
        server: String,
        /// What the system said.
        why: String,
    },
    /// No answer came in time; whether the request was done is unknown.
    #[error("{server} did not answer within {after}; is it overloaded or stopped?")]
    TimedOut {
        /// Which server.
        server: String,
        /// How long was waited.
        after: Span,
    },
    /// The caller cancelled it; whether it was done is unknown.
    #[error("the request was cancelled")]
    Cancelled,
    /// The server is full.
    #[error(
        "{server} has no space left: remove files, or give it more room (a server of a lab: start it \
         with a larger --capacity)"
    )]
    NoSpace {
        /// Which server.
        server: String,
    },
    /// There is no such file.
    #[error("there is no file `{0}`")]
    NotFound(String),
    /// The name is taken.
    #[error("there is a file `{0}` already")]
    Exists(String),
    /// The request itself is wrong.
    #[error("bad request: {0}")]
    Invalid(String),
    /// The engine cannot do this.
    #[error("the {engine} engine cannot {operation}")]
    Unsupported {
        /// The engine's name.
        engine: &'static str,
        /// What was asked.
        operation: &'static str,
    },
    /// The server met an I/O error.
    #[error("{server}: {what}")]
    Io {
        /// Which server.
        server: String,
        /// What it was doing, where, and what the system said.
        what: String,
    },
    /// What came over the wire is not our protocol, or damaged.
    #[error("{server} sent what cannot be read: {why}")]
    Protocol {
        /// Which server.
        server: String,
        /// What was wrong with it.
        why: String,
    },
}

impl EngineError {
    /// Whether the server may do better if it is asked again.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Protocol { .. })
    }
}

/// What an engine can do; asked instead of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What was acknowledged is still there after all its processes were killed.
    pub durable: bool,
    /// Reads give back what was written.
    pub keeps_data: bool,
    /// Completions carry device and queue times.
    pub server_times: bool,
    /// A request under way can be given up before its server answers.
    pub cancels: bool,
}

/// What one server counted since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerStatistics {
    /// The server's name.
    pub server: String,
    /// Requests done.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests there now, waiting and in service.
    pub queue_depth: u64,
    /// The largest number there ever was.
    pub queue_depth_max: u64,
    /// Time that its device was at work, in seconds; zero when the engine cannot tell.
    pub busy_secs: f64,
    /// Time that requests waited before they were served, in seconds, summed over them; zero when
    /// the engine cannot tell.
    #[serde(default)]
    pub waited_secs: f64,
    /// Time from the arrival of requests to their answers, in seconds, summed over them; zero when
    /// the engine cannot tell.
    #[serde(default)]
    pub answered_secs: f64,
    /// Bytes kept; none when the engine cannot tell.
    pub stored_bytes: Option<u64>,
    /// Frames that could not be read.
    pub bad_frames: u64,
}

impl ServerStatistics {
    /// What was counted since `before`; what is there now, and its maximum, as they are now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            busy_secs: self.busy_secs - before.busy_secs,
            waited_secs: self.waited_secs - before.waited_secs,
            answered_secs: self.answered_secs - before.answered_secs,
            bad_frames: self.bad_frames.saturating_sub(before.bad_frames),
            ..self.clone()
        }
    }
}

/// An object engine, as one client sees it.
pub trait Engine: Send + Sync {
    /// The engine's name in the registry.
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// How many storage servers there are; at least one.
    fn servers(&self) -> u32;

    /// Hands a request over. Does not wait for the server, and puts exactly one completion on the
    /// queue, errors included.
    fn submit(&self, request: Request, done: &CompletionSender);

    /// Gives a request up: it completes with [`EngineError::Cancelled`] unless it already has.
    /// An engine that cannot does nothing.
    fn cancel(&self, _tag: u64) {}

    /// How the server at `place` greeted this client last: a number that is another one for each
    /// connection, and the credits that count until its first reply. Servers that know no
    /// connections or no credits have zeros.
    fn greeting(&self, _place: Place) -> (u64, u16) {
        (0, 0)
    }

    /// What the servers counted, storage servers first; asks them, so it may wait.
    fn statistics(&self) -> Result<Vec<ServerStatistics>, EngineError>;

    /// What users should hear of although no request failed by it; each is said once.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Where completions arrive.
#[derive(Debug)]
pub struct CompletionQueue {
    sender: mpsc::Sender<Completion>,
    receiver: mpsc::Receiver<Completion>,
}

/// Puts completions on a [`CompletionQueue`], or hands them to who asked for them.
#[derive(Clone, Debug)]
pub struct CompletionSender(Sink);

#[derive(Clone, Debug)]
enum Sink {
    Queue(mpsc::Sender<Completion>),
    Receiver(Arc<dyn Receive>),
}

/// Takes completions as they are delivered: what an engine around another one is to it.
pub trait Receive: fmt::Debug + Send + Sync {
    /// Takes one. It is called on a thread of the engine, which may hold its locks: it does not
    /// wait, and calls no engine.
    fn receive(&self, completion: Completion);
}

impl CompletionQueue {
    /// An empty queue.
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }

    /// A handle that engines deliver to.
    pub fn sender(&self) -> CompletionSender {
        CompletionSender(Sink::Queue(self.sender.clone()))
    }

    /// The next completion; waits until `wake`, or for ever when that is `None`.
    pub fn wait(&self, wake: Option<Time>) -> Option<Completion> {
        match wake {
            None => self.receiver.recv().ok(),
            Some(wake) => {
                let left = wake.since(afflux_node::clock::now());
                self.receiver.recv_timeout(afflux_node::clock::std_duration(left)).ok()
            }
        }
    }

    /// The next completion, if one is there.
    pub fn poll(&self) -> Option<Completion> {
        self.receiver.try_recv().ok()
    }
}

impl Default for CompletionQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl CompletionSender {
    /// Delivers to `receiver`.
    pub fn to(receiver: Arc<dyn Receive>) -> Self {
        Self(Sink::Receiver(receiver))
    }

    /// Delivers; a queue that is gone no longer cares.
    pub fn send(&self, completion: Completion) {
        match &self.0 {
            Sink::Queue(queue) => drop(queue.send(completion)),
            Sink::Receiver(receiver) => receiver.receive(completion),
        }
    }
}

impl Completion {
    /// The end of a request that has no answer: now, and without any times of a server.
    pub fn failed(tag: u64, place: Place, error: EngineError) -> Self {
        let (access, queued) = (Span::ZERO, Span::ZERO);
        let arrived = afflux_node::clock::now();
        Self { tag, place, outcome: Err(error), arrived, access, queued, credit: 0 }
    }
}

impl fmt::Display for Place {
    /// As servers are named that have no name of their own: `storage 0`, `metadata`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(index) => write!(f, "storage {index}"),
            Self::Metadata => f.write_str("metadata"),
        }
    }
}

impl Request {
    /// A request without job, credit or deadline.
    pub const fn new(tag: u64, place: Place, operation: Operation) -> Self {
        Self { tag, place, operation, job: 0, credit_wanted: 0, deadline: None }
    }
}

impl Operation {
    /// The class whose path and rules this operation comes under.
    pub const fn class(&self) -> Class {
        match self {
            Self::Read { .. } => Class::Read,
            Self::Write { .. } => Class::Write,
            Self::Remove { .. } | Self::Catalog(_) => Class::Metadata,
        }
    }

    /// Bytes of data that it moves.
    pub fn data_bytes(&self) -> u64 {
        match self {
            Self::Read { length_bytes, .. } => u64::from(*length_bytes),
            Self::Write { data, .. } => data.len() as u64,
            Self::Remove { .. } | Self::Catalog(_) => 0,
        }
    }
}
