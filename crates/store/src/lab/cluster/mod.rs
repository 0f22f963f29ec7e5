//! The processes of a lab: starting, looking at and ending them.
//!
//! A lab lives in a directory: `lab.json` ([`state`]), `storage.N/` and `metadata/` with the
//! servers' data, `log/` with what they say. Nothing else in there is touched.

pub mod process;
pub mod serve;
mod start;
pub mod state;
pub mod status;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use self::state::{LabState, StateError};
use super::device::LabDevice;

const GRACE: Duration = Duration::from_secs(5);
const LOCK: &str = "lab.lock";

/// What lab to start.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Its directory.
    pub dir: PathBuf,
    /// How many storage servers; at least one.
    pub servers: u32,
    /// What they keep objects on.
    pub device: LabDevice,
    /// Most bytes on each; `None` leaves it to the device.
    pub capacity_bytes: Option<u64>,
    /// Service threads of each.
    pub threads: usize,
    /// The credits that they grant, as in `L_max=200ms`; `None` grants none.
    pub credits: Option<String>,
    /// The first port, the others follow; `None` takes free ones.
    pub port: Option<u16>,
    /// The program whose processes the servers are.
    pub executable: PathBuf,
    /// The arguments that make it a server; the order follows as the last one.
    pub arguments: Vec<OsString>,
}

/// A lab that ends with this value, or with this process in whatever way that ends.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    state: LabState,
    children: Vec<Child>,
    wipe: bool,
}

/// Why a lab could not be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// It runs already.
    #[error(
        "the lab in {dir} is running already: use it, or end it with `afflux lab down --dir {dir}`; \
         `afflux lab status --dir {dir}` says whether one of its servers has died, in which case \
         down and up bring it back with its data", dir = .0.display()
    )]
    Running(PathBuf),
    /// Somebody else starts or ends it right now.
    #[error(
        "another process is starting or ending the lab in {}: try again in a moment",
        .0.display()
    )]
    Busy(PathBuf),
    /// The directory has other people's files.
    #[error("{} is not empty and holds no lab: choose another --dir, or empty it", .0.display())]
    NotEmpty(PathBuf),
    /// The directory holds a lab of another shape.
    #[error(
        "{} holds the data of a lab of another shape: start it with `{there}` instead of \
         `{asked}`, or remove it with `afflux lab down --wipe --dir {}`",
        dir.display(), dir.display()
    )]
    Shape {
        /// The directory.
        dir: PathBuf,
        /// What is there.
        there: String,
        /// What was asked for.
        asked: String,
    },
    /// A number that makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// The directory cannot be used.
    #[error("cannot {what} {}: {source}; choose another --dir", path.display())]
    Dir {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The port that a server was to take is not to be had.
    #[error("{server} did not start: {why}")]
    Port {
        /// Which one.
        server: String,
        /// Why.
        why: String,
    },
    /// A server did not start.
    #[error("{server} did not start: {why}{}", tail_text(.log))]
    Server {
        /// Which one.
        server: String,
        /// Why.
        why: String,
        /// The end of its log.
        log: String,
    },
    /// A server did not end.
    #[error("{0} does not end, not even when killed: is it stuck in a system call?")]
    Stuck(String),
}

fn tail_text(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; its log ends with:\n{log}") }
}

impl ClusterError {
    /// Whether what was asked for is wrong, rather than something broken.
    pub const fn is_input(&self) -> bool {
        !matches!(self, Self::Server { .. } | Self::Stuck(_) | Self::State(StateError::Io { .. }))
    }
}

impl ClusterOptions {
    /// Four disks under this very program, on free ports.
    pub fn new(dir: impl Into<PathBuf>) -> io::Result<Self> {
        Ok(Self {
            dir: dir.into(),
            servers: 4,
            device: LabDevice::Model(Default::default()),
            capacity_bytes: None,
            threads: 128,
            credits: None,
            port: None,
            executable: std::env::current_exe()?,
            arguments: vec!["lab".into(), "serve".into()],
        })
    }
}

/// Where a lab is when nobody says: a directory of the user's that goes away with the session.
pub fn default_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => PathBuf::from(runtime).join("afflux-lab"),
        _ => {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("afflux-lab-{user}"))
        }
    }
}

/// Starts a lab that lives on when this process ends; [`down`] ends it.
pub fn up(options: &ClusterOptions) -> Result<LabState, ClusterError> {
    // The children are this process's until it ends, and then the system's.
    Ok(start::start(options, true)?.0)
}

/// Ends the lab in `dir`: asks its servers, and kills those that do not end in five seconds. Their
/// data stay, unless `wipe` says otherwise; then the lab's own files go, and the directory when
/// nothing else is in it. Says which servers had been running.
pub fn down(dir: &Path, wipe: bool) -> Result<Vec<String>, ClusterError> {
    let _lock = if dir.join(state::FILE).exists() { Some(lock_dir(dir)?) } else { None };
    let mut state = LabState::load(dir)?;
    let running = end_all(&state)?;
    if wipe {
        remove_files(dir, &state);
    } else {
        for server in &mut state.servers {
            (server.port, server.process) = (None, None);
        }
        // A full disk must not keep a lab from ending. What stays written then names processes that
        // are gone, which is seen by their start times.
        let _ = state.save(dir);
    }
    Ok(running)
}

fn end_all(state: &LabState) -> Result<Vec<String>, ClusterError> {
    let running: Vec<_> = state.servers.iter().filter(|server| server.is_running()).collect();
    let marks = || running.iter().filter_map(|server| server.process.as_ref());
    marks().for_each(process::ProcessMark::terminate);
    if !marks().all(|mark| mark.wait(GRACE)) {
        marks().for_each(process::ProcessMark::kill);
    }
    let stuck =
        running.iter().find(|server| server.process.as_ref().is_some_and(|mark| !mark.wait(GRACE)));
    match stuck {
        Some(server) => Err(ClusterError::Stuck(server.name.clone())),
        None => Ok(running.iter().map(|server| server.name.clone()).collect()),
    }
}

/// Removes the files of a lab that does not run. What cannot be removed stays, and is found by the
/// next start.
fn remove_files(dir: &Path, state: &LabState) {
    for server in &state.servers {
        let _ = std::fs::remove_dir_all(dir.join(&server.dir));
    }
    let _ = std::fs::remove_dir_all(dir.join("log"));
    let _ = std::fs::remove_file(dir.join(state::FILE));
    let _ = std::fs::remove_file(dir.join(LOCK));
    // Fails when something else is in it, as it should.
    let _ = std::fs::remove_dir(dir);
}

/// Keeps others from starting or ending the lab in `dir` while the value lives.
fn lock_dir(dir: &Path) -> Result<File, ClusterError> {
    let path = dir.join(LOCK);
    let failed = |source| ClusterError::Dir { what: "write to", path: path.clone(), source };
    let file = File::create(&path).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ClusterError::Busy(dir.to_owned())),
        Err(errno) => Err(failed(errno.into())),
    }
}

impl Cluster {
    /// Starts a lab. Its servers end when this value is dropped, and also when this process is
    /// killed.
    pub fn start(options: &ClusterOptions) -> Result<Self, ClusterError> {
        let (state, children) = start::start(options, false)?;
        Ok(Self { dir: options.dir.clone(), state, children, wipe: false })
    }

    /// Has the lab's files removed when this value is dropped.
    #[must_use]
    pub fn wiped_on_drop(mut self) -> Self {
        self.wipe = true;
        self
    }

    /// Its directory, for [`crate::engine::lab::LabEngine::connect`].
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where its servers are.
    pub const fn state(&self) -> &LabState {
        &self.state
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // An error here means a process that cannot be killed; there is nobody to tell.
        let _ = end_all(&self.state);
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.wipe {
            remove_files(&self.dir, &self.state);
        } else {
            for server in &mut self.state.servers {
                (server.port, server.process) = (None, None);
            }
            let _ = self.state.save(&self.dir);
        }
    }
}
