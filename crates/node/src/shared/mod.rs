//! The controllers of a node, in memory that all its processes share.
//!
//! Think of one landing stage that many ferry companies use: whoever wants to send asks there, and
//! however many ask, the boats on the water are counted once. A [`Shared`] is one process's
//! attachment to it. All of its calls work in any thread and in a forked child, allocate nothing,
//! start no thread, hold no lock across a sleep and none at all besides, and use no system calls
//! but those of waiting, except where their documentation says so.
//!
//! ```no_run
//! use afflux_core::class::Class;
//! use afflux_core::path::{HoldTotals, PathKey};
//! use afflux_core::units::Time;
//! use afflux_node::{clock, shared::Shared};
//!
//! let shared = Shared::private()?;
//! let server = shared.name("ost:scratch-OST0003").unwrap();
//! let tenant = shared.name("job 4711").unwrap();
//! let path = shared.path(PathKey { server, class: Class::Write, tenant }).unwrap();
//!
//! let mut holds = HoldTotals::default();
//! let slot = shared.admit(path, clock::now(), 1 << 20, Time::NEVER, &mut holds).unwrap();
//! // ... the program's own call ...
//! let ruling = slot.reply(clock::now());
//! assert_eq!(ruling.unwrap().rule, None);
//! # Ok::<(), afflux_node::shared::AttachError>(())
//! ```

use std::ffi::CStr;
use std::marker::PhantomData;

use afflux_core::path::{HoldTotals, PathKey, PathState, Ruling};
use afflux_core::rules::Hits;
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};

/// One process's attachment to a segment. Made once, kept until the process ends; a forked child
/// goes on using its parent's and counts as a process of its own from its first call on.
///
/// A child of `vfork` shares its parent's memory and therefore acts in its name.
#[derive(Debug)]
pub struct Shared {
    never: std::convert::Infallible,
}

/// Why there is no segment to attach to. Whoever gets it can still use [`Shared::private`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Its layout is another version's.
    #[error(
        "the node's segment has layout {found} and this program {ours}: it regulates its own \
         requests only; end the programs of the other version and remove the segment"
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
}

impl PathId {
    /// A number that stands for it, for tables of words.
    pub const fn number(self) -> u32 {
        self.index
    }

    /// The path that [`PathId::number`] stood for.
    pub const fn from_number(index: u32) -> Self {
        Self { index }
    }
}

/// Why a request was not admitted. The caller sends it all the same, ungated, and counts it by
/// this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It was held until the deadline.
    Deadline,
    /// All of the process's lanes are in use, which only happens when signal handlers left calls
    /// of this module by a long jump.
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
/// never sent. The places of a process that dies are given back by the others.
#[must_use = "a slot that is dropped counts as a request that was not sent"]
#[derive(Debug)]
pub struct Slot<'s> {
    shared: PhantomData<&'s Shared>,
    path: PathId,
    sent: Time,
    size_bytes: u32,
}

impl Slot<'_> {
    /// When it was admitted: what process time is counted from.
    pub fn sent(&self) -> Time {
        self.sent
    }

    /// Its path.
    pub fn path(&self) -> PathId {
        self.path
    }

    /// The size that was asked for.
    pub fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    /// The request was answered at `arrived`. What the controller made of it; none when the reply
    /// could not be counted (see [`Refused`]), in which case the place is given back later.
    pub fn reply(self, arrived: Time) -> Option<Ruling> {
        let _ = arrived;
        None
    }

    /// The request failed without an answer of the server (a time-out, a lost connection).
    pub fn fault(self, now: Time) {
        let _ = now;
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

/// What was counted on a path since it was made, and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct PathReport {
    /// Which path.
    pub key: PathKey,
    /// Its controller's state at one moment.
    pub state: PathState,
    /// Requests that wait to be admitted.
    pub waiting: u32,
    /// Replies, and what they moved.
    pub replies: u64,
    /// Bytes that replies moved.
    pub bytes: u64,
    /// Process times of all replies together.
    pub process_time: Span,
    /// Hits of each rule of the setting in force, up to the last that decided.
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
        let _ = path;
        let error = rustix::io::Errno::NOSYS;
        Err(AttachError::System { doing: "attach to", error })
    }

    /// Controllers of this process and its forked children alone, for where no segment can be had.
    ///
    /// # Errors
    /// No memory.
    pub fn private() -> Result<Self, AttachError> {
        let error = rustix::io::Errno::NOSYS;
        Err(AttachError::System { doing: "make", error })
    }

    /// The number of a name (of a server, of a job), which is the same in all processes. Names
    /// are told apart by their first 112 bytes and a hash of all of them.
    ///
    /// # Errors
    /// There are too many names.
    pub fn name(&self, name: &str) -> Result<u32, Full> {
        let _ = name;
        match self.never {}
    }

    /// The path of `key`, made when there is none. May use system calls for memory.
    ///
    /// # Errors
    /// There are too many paths.
    pub fn path(&self, key: PathKey) -> Result<PathId, Full> {
        let _ = key;
        match self.never {}
    }

    /// Asks for a place in the window of `path` for a request of `size_bytes` at `now`, and waits
    /// for it in turn until `deadline`. What held it is added to `holds` and to the path's totals.
    ///
    /// A signal does not end the wait. Signal handlers may call this and may leave it by a long
    /// jump.
    ///
    /// # Errors
    /// See [`Refused`]: the request is then sent ungated.
    pub fn admit(
        &self,
        path: PathId,
        now: Time,
        size_bytes: u32,
        deadline: Time,
        holds: &mut HoldTotals,
    ) -> Result<Slot<'_>, Refused> {
        let _ = (path, now, size_bytes, deadline, holds);
        match self.never {}
    }

    /// Counts a request as sent at `now` whatever the window says: what an observer does.
    ///
    /// # Errors
    /// See [`Refused`]; never [`Refused::Deadline`].
    pub fn observe(&self, path: PathId, now: Time, size: u32) -> Result<Slot<'_>, Refused> {
        let _ = (path, now, size);
        match self.never {}
    }

    /// Puts `setting` in force for the job `tenant`, on its paths that are and will be; `text` is
    /// kept beside it for people. Their windows carry over unless `afresh`, which starts all
    /// controllers of the job anew.
    ///
    /// Returns the generation. Allocates and uses system calls.
    ///
    /// # Errors
    /// There are too many jobs, or the setting is too large.
    pub fn set(
        &self,
        tenant: u32,
        setting: &Setting,
        text: &str,
        afresh: bool,
    ) -> Result<u32, Full> {
        let _ = (tenant, setting, text, afresh);
        match self.never {}
    }

    /// Pauses or resumes the job `tenant`; who waits is let go.
    ///
    /// # Errors
    /// There are too many jobs.
    pub fn set_mode(&self, tenant: u32, mode: Mode) -> Result<(), Full> {
        let _ = (tenant, mode);
        match self.never {}
    }

    /// The credits that the server granted on a path; none do not limit.
    pub fn set_credits(&self, path: PathId, credits: Option<u32>) {
        let _ = (path, credits);
        match self.never {}
    }

    /// Gives back what dead processes held. Waiting requests do it themselves now and then; who
    /// starts programs may do it more often. Reads `/proc`. Returns how many processes were dead.
    pub fn sweep(&self) -> usize {
        match self.never {}
    }

    /// All paths of the segment, as they stand. Allocates.
    pub fn paths(&self) -> Vec<PathReport> {
        match self.never {}
    }

    /// The name behind a number of [`Shared::name`], as far as it was kept. Allocates.
    pub fn name_of(&self, number: u32) -> Option<String> {
        let _ = number;
        match self.never {}
    }

    /// The setting in force for a job: its generation, its mode and the text that was given with
    /// it. None when it has none of its own. Allocates.
    pub fn setting_of(&self, tenant: u32) -> Option<(u32, Mode, String)> {
        let _ = tenant;
        match self.never {}
    }
}

/// The file of the user's segment: in `/dev/shm`, by user and process namespace. Allocates.
pub fn default_path() -> std::ffi::CString {
    let user = rustix::process::geteuid().as_raw();
    std::ffi::CString::new(format!("/dev/shm/afflux-{user}")).unwrap_or_default()
}
