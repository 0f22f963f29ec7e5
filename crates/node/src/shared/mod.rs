//! The controllers of a node, in memory that all its processes share.
//!
//! Think of one landing stage that many ferry companies use: whoever wants to send asks there, and
//! however many ask, the boats on the water are counted once. A [`Shared`] is one process's
//! attachment to it. All of its calls work in any thread and in a forked child, allocate nothing,
//! start no thread, hold no lock across a sleep and none at all besides, and use no system calls
//! but those of waiting, except where their documentation says so.
//!
//! ```
//! use afflux_core::class::Class;
//! use afflux_core::path::{HoldTotals, PathKey};
//! use afflux_core::units::Time;
//! use afflux_node::{clock, shared::Shared};
//!
//! let shared = Shared::private()?;
//! let server = shared.name("ost:scratch-OST0003").unwrap();
//! let tenant = shared.tenant("job 4711").unwrap();
//! let path = shared.path(PathKey { server, class: Class::Write, tenant }).unwrap();
//!
//! let mut holds = HoldTotals::default();
//! let slot = shared.admit(path, clock::now(), 1 << 20, Time::NEVER, &mut holds).unwrap();
//! // ... the program's own call ...
//! let ruling = slot.reply(clock::now());
//! assert_eq!(ruling.unwrap().rule, None);
//! # Ok::<(), afflux_node::shared::AttachError>(())
//! ```

mod file;
mod gate;
mod hand;
pub mod identity;
mod image;
mod jobs;
mod lanes;
mod memory;
mod names;
mod paths;
mod segment;
mod settings;
mod step;
mod sweep;
mod tally;
mod text;
mod thread;
mod turns;

use std::ffi::CStr;
use std::sync::atomic::Ordering::SeqCst;

use afflux_core::path::{HoldTotals, PathKey, PathState, Ruling};
use afflux_core::rules::Hits;
use afflux_core::units::{Span, Time};

pub use file::remove_if_unused;
pub use identity::take_bytes_read;
pub use jobs::FIRST_NAMED;
pub use segment::{Segment, drop_kept, keep, keep_in};

use gate::End;
use hand::Place;
use memory::Memory;

/// One process's attachment to a segment. Made once, kept until the process ends; a forked child
/// goes on using its parent's and counts as a process of its own from its first call on.
///
/// A child of `vfork` shares its parent's memory and therefore acts in its name.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    memory: Memory,
}

/// Why there is no segment to attach to. Whoever gets it can still use [`Shared::private`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Its layout is another version's.
    #[error(
        "the segment has layout {found} and this program knows {ours}: end the programs of the \
         other version and remove the segment"
    )]
    Version {
        /// The version that was found.
        found: u32,
        /// The version that this program knows.
        ours: u32,
    },
    /// The file is no segment, or was left half made and could not be made anew.
    #[error("the segment's file is no segment of Afflux: remove it")]
    Foreign,
    /// It belongs to somebody else, or others may read or write it.
    #[error("the segment's file is not ours alone (owner {owner}, mode {mode:o}): remove it")]
    NotOurs {
        /// User who owns it.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// Nobody keeps one for the node.
    #[error("no segment is kept for this node")]
    NotKept,
    /// Others than those who may keep the node's could have put it there, or change who may use it.
    #[error(
        "the node's segment is refused: its {part} is a {kind} of user {owner} with mode {mode:o}, \
         and must be {must}"
    )]
    Untrusted {
        /// The directory, or the file.
        part: &'static str,
        /// What it is.
        kind: &'static str,
        /// User who owns it.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// What it has to be.
        must: &'static str,
    },
    /// Programs use what was to be removed.
    #[error("the node's segment is in use: end the runs that use it first (`afflux ctl list`)")]
    InUse,
    /// A system call failed.
    #[error("cannot {doing} the segment: {error}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        error: rustix::io::Errno,
    },
}

/// A table of the segment is full. What does not fit in is not regulated by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the segment has no room for more {what}: at most {most}")]
pub struct Full {
    /// What there is no room for.
    pub what: &'static str,
    /// How many there may be.
    pub most: usize,
}

/// A path of the segment, as this process knows it. Cheap to copy; ask for it once for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathId {
    index: u32,
    key: u64,
}

impl PathId {
    /// Two words that stand for it, for tables of words that are read without a lock: words of two
    /// different paths together stand for one that is [`Refused::Gone`].
    pub const fn words(self) -> [u64; 2] {
        [self.index as u64, self.key]
    }

    /// The path that [`PathId::words`] stood for.
    pub const fn from_words([index, key]: [u64; 2]) -> Self {
        Self { index: index as u32, key }
    }
}

/// Why a request was not admitted. The caller sends it all the same, ungated, and counts it by
/// this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It was held until the deadline.
    Deadline,
    /// All of the process's lanes are in use for long, or all places of the thread's hand.
    Busy,
    /// The path is gone: it was idle for long and its place was given away. Ask
    /// [`Shared::path`] again.
    Gone,
    /// There is no memory left for what the segment keeps.
    Memory,
}

/// An admitted request: one of the places in a path's window.
///
/// It is given back by [`Slot::reply`], [`Slot::fault`] or, when dropped, as a request that was
/// never sent. The places of a process that dies are given back by the others. A long jump out of a
/// call that makes or ends one may lose it; see [`Shared::take`].
#[must_use = "a slot that is dropped counts as a request that was not sent"]
#[derive(Debug)]
pub struct Slot<'s> {
    shared: &'s Shared,
    place: Place,
    fan_in: Option<PathId>,
}

impl Slot<'_> {
    /// When it was admitted: what process time is counted from.
    pub fn sent(&self) -> Time {
        self.place.sent
    }

    /// Its path.
    pub fn path(&self) -> PathId {
        self.place.path
    }

    /// The size that was asked for.
    pub fn size_bytes(&self) -> u32 {
        self.place.size_bytes
    }

    /// The request was answered at `arrived`. What the controller made of it; none when the reply
    /// could not be counted (see [`Refused`]), in which case the place is given back later.
    #[inline]
    pub fn reply(self, arrived: Time) -> Option<Ruling> {
        self.end(End::Reply(arrived))
    }

    /// The request failed without an answer of the server (a time-out, a lost connection).
    pub fn fault(self, now: Time) {
        self.end(End::Fault(now));
    }

    #[inline]
    fn end(self, end: End) -> Option<Ruling> {
        let ruling = self.shared.end_request(&self, end);
        std::mem::forget(self);
        ruling
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.shared.end_request(self, End::Withdraw);
    }
}

/// How the requests of a job are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are held as its setting says.
    Gate,
    /// None is held; everything is counted as ever.
    Pause,
}

/// A path as it stands, and what was counted on it since it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct PathReport {
    /// Which path.
    pub key: PathKey,
    /// Its controller's state at one moment; none before the first request.
    pub state: Option<PathState>,
    /// Requests that wait to be admitted.
    pub waiting: u32,
    /// What was counted.
    pub counted: Counted,
}

/// What was counted on a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Replies.
    pub replies: u64,
    /// Bytes of the requests that they answered.
    pub bytes: u64,
    /// Their process times together.
    pub process_time: Span,
    /// Hits of each rule of the setting in force, up to the last that decided; of at most 122
    /// rules.
    pub hits: Vec<Hits>,
    /// What held requests back.
    pub holds: HoldTotals,
}

impl Shared {
    /// Attaches to the segment in the file `path` and makes it when there is none. Uses system
    /// calls, and allocates nothing.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(path: &CStr) -> Result<Self, AttachError> {
        file::open(path).and_then(Self::start)
    }

    /// Controllers of this process and its forked children alone, for where no segment can be had.
    ///
    /// # Errors
    /// No memory.
    pub fn private() -> Result<Self, AttachError> {
        let memory = Memory::without_file();
        memory.map_err(|error| AttachError::System { doing: "make", error }).and_then(Self::start)
    }

    fn start(memory: Memory) -> Result<Self, AttachError> {
        let image = memory.image;
        let backed = memory
            .back(&image.header)
            .and_then(|()| memory.back(&image.owners))
            .and_then(|()| memory.back(&image.groups))
            .and_then(|()| memory.back(&image.paths))
            .and_then(|()| memory.back(&image.jobs))
            .and_then(|()| memory.back(&image.names));
        backed.map_err(|error| AttachError::System { doing: "find memory for", error })?;
        Ok(Self { memory })
    }

    /// The credits that the server granted on a path; none do not limit.
    pub fn set_credits(&self, path: PathId, credits: Option<u32>) {
        let entry = &self.memory.image.paths[path.index as usize];
        entry.credits.store(credits.map_or(0, |credits| credits.max(1)), SeqCst);
        self.call_first(path.index as usize);
    }

    /// All paths of the segment, as they stand. Takes no lock; allocates.
    pub fn paths(&self) -> Vec<PathReport> {
        let keys = self.memory.image.paths.iter().enumerate();
        let live =
            keys.filter_map(|(at, entry)| Some((at, paths::unpack(entry.key.load(SeqCst))?)));
        live.filter(|(_, key)| key.server != paths::ALL_SERVERS)
            .map(|(at, key)| PathReport {
                key,
                state: self.peek(at),
                waiting: self.waiting(at),
                counted: self.counted(at),
            })
            .collect()
    }
}
