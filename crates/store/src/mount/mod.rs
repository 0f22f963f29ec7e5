//! The striped store as a file system, by FUSE.
//!
//! Names of the catalog with slashes appear as files in directories. The threads that the kernel's
//! requests come in on hand operations to one thread that owns the client, so that a mount is one
//! client with one regulated path to each server. A write is answered when the servers have
//! acknowledged it, so a sync has nothing left to do. A file that is removed while somebody has it
//! open keeps its bytes under a name that no path leads to ([`removed`]).

mod driver;
mod files;
mod names;
mod removed;
mod serve;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use afflux_core::setting::Setting;
use fuser::{Config, MountOption, Session};

use self::files::Files;
use self::serve::Served;
use crate::engine::Engine;
use crate::served::Remover;

/// Threads that take requests from the kernel; each waits with its request.
const THREADS: usize = 32;

/// Hears of errors of the engine; programs are told no more than a number.
pub type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Why there is no mount, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The place is no directory.
    #[error("cannot mount at {at}: {why}; name a directory that is there")]
    Place {
        /// Where it was to be.
        at: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file system was not mounted.
    #[error(
        "cannot mount at {at}: {source}; it needs /dev/fuse and, without root, fusermount3 (apt-get \
         install fuse3)"
    )]
    Mount {
        /// Where.
        at: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be started, or the mount failed while it served.
    #[error("the mount failed: {0}")]
    Serve(io::Error),
}

impl MountError {
    /// Whether what was asked for is wrong, rather than the machine.
    pub const fn is_input(&self) -> bool {
        matches!(self, Self::Place { .. })
    }
}

/// A store that is mounted. It answers once [`Mount::serve`] is called.
pub struct Mount {
    session: Session<Served>,
    at: PathBuf,
}

impl Mount {
    /// Mounts the store behind `engine` over the directory `at`, as one client under `setting`.
    ///
    /// # Errors
    /// When the place is no directory, or the right to mount is missing.
    pub fn new(
        engine: Arc<dyn Engine>,
        setting: &Setting,
        at: &Path,
        log: Log,
    ) -> Result<Self, MountError> {
        let wrong = |why: String| MountError::Place { at: at.to_owned(), why };
        let place = at.canonicalize().map_err(|error| wrong(error.to_string()))?;
        if !place.is_dir() {
            return Err(wrong("it is no directory".to_owned()));
        }
        let files = Files::new(engine, setting, log).map_err(MountError::Serve)?;
        files.remove_left();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("afflux".to_owned())];
        config.n_threads = Some(THREADS);
        let session = Session::new(Served::new(files), &place, &config)
            .map_err(|source| MountError::Mount { at: place.clone(), source })?;
        Ok(Self { session, at: place })
    }

    /// Where it is, as the system names the place.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// What takes it away, from another thread.
    pub fn remover(&mut self) -> Remover {
        Remover::new(&mut self.session, &self.at)
    }

    /// Answers requests until it was taken away, by its [`Remover`] or by others, and nobody has a
    /// file of it open any more.
    ///
    /// # Errors
    /// When the kernel refuses to go on.
    pub fn serve(self) -> Result<(), MountError> {
        self.session.run().map_err(MountError::Serve)
    }
}
