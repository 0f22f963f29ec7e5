//! The model of a device as a file, for storage servers that are not ours: they put a loop device
//! on it, and pay for seeks what the lab's servers pay.
//!
//! The file is served by FUSE. Its bytes are real, and are kept in a sparse file or in memory; they
//! lie on the model at the offsets that they have in the file, so that a file smaller than the
//! device is its outer edge. There is no cache above it, and requests of up to 1 MiB reach the
//! model as they are asked, 128 at a time; the elevator sees them all.
//!
//! A write is answered when the bytes are kept and the model is through with it. The models have no
//! write-back cache, so a sync costs them nothing; it asks what keeps the bytes, and takes as long
//! as that does. Like a disk it cannot grow, shrink or discard.

mod file;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use afflux_core::device::DeviceSpec;
use afflux_core::units::display_bytes;
use fuser::{Config, MountOption, Session};
use rustix::fs::{FlockOperation, MemfdFlags};

use self::file::DiskFile;
use crate::held::HeldDevice;
use crate::served::Remover;

/// Threads that answer, as many as a server of the lab has; each waits with its request.
const THREADS: usize = 128;

/// What a disk is to be.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The model, whose time requests take.
    pub device: DeviceSpec,
    /// Sets what differs between two devices of a kind.
    pub seed: u64,
    /// Length of the file in bytes; `None` is all that the model holds.
    pub size_bytes: Option<u64>,
    /// The file that keeps the bytes, made where there is none; `None` keeps them in memory until
    /// the disk ends.
    pub back: Option<PathBuf>,
}

/// Why there is no disk, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The size cannot be.
    #[error(
        "a disk of {} cannot be: `{device}` holds {}; give less, and more than nothing",
        display_bytes(*.asked_bytes), display_bytes(*.held_bytes)
    )]
    Size {
        /// What was asked for.
        asked_bytes: u64,
        /// What the model holds.
        held_bytes: u64,
        /// The model.
        device: String,
    },
    /// The backing file cannot be used.
    #[error("cannot keep bytes in {path}: {source}; name another file")]
    Back {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another disk keeps its bytes there.
    #[error("{path} is in use by another disk: end that one, or name another file")]
    BackInUse {
        /// The file.
        path: PathBuf,
    },
    /// The backing file holds more than the disk.
    #[error(
        "{path} holds {}, more than a disk of {}: raise the size, or name another file",
        display_bytes(*.there_bytes), display_bytes(*.size_bytes)
    )]
    BackTooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        there_bytes: u64,
        /// That of the disk.
        size_bytes: u64,
    },
    /// The place cannot be a file.
    #[error("the disk cannot be at {at}: {why}; name a file, which is made where there is none")]
    Place {
        /// Where the disk was to be.
        at: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file system was not mounted.
    #[error(
        "cannot mount the disk at {at}: {source}; it needs /dev/fuse and, without root, fusermount3 \
         (apt-get install fuse3)"
    )]
    Mount {
        /// Where.
        at: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The thread of the model could not be started, or the disk failed while it served.
    #[error("the disk failed: {0}")]
    Serve(io::Error),
}

impl DiskError {
    /// Whether what was asked for is wrong, rather than the machine.
    pub const fn is_input(&self) -> bool {
        !matches!(self, Self::Mount { .. } | Self::Serve(_))
    }
}

/// A disk that is mounted. It answers once [`Disk::serve`] is called.
#[derive(Debug)]
pub struct Disk {
    session: Session<DiskFile>,
    at: PathBuf,
    size_bytes: u64,
}

impl Disk {
    /// Mounts a disk over the file `at`.
    ///
    /// # Errors
    ///
    /// When the size cannot be, the bytes cannot be kept, or the place or the right to mount is
    /// missing.
    pub fn mount(options: &DiskOptions, at: &Path) -> Result<Self, DiskError> {
        let held_bytes = options.device.capacity_bytes();
        let size_bytes = options.size_bytes.unwrap_or(held_bytes);
        if size_bytes == 0 || size_bytes > held_bytes {
            let device = options.device.to_string();
            return Err(DiskError::Size { asked_bytes: size_bytes, held_bytes, device });
        }
        let at = place(at)?;
        let back = match &options.back {
            Some(path) => open_back(path, size_bytes)?,
            None => in_memory(size_bytes)
                .map_err(|source| DiskError::Back { path: "memory".into(), source })?,
        };
        let model =
            HeldDevice::start(options.device.build(options.seed)).map_err(DiskError::Serve)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("afflux-devdisk".to_owned())];
        config.n_threads = Some(THREADS);
        let session = Session::new(DiskFile::new(back, size_bytes, model), &at, &config)
            .map_err(|source| DiskError::Mount { at: at.clone(), source })?;
        Ok(Self { session, at, size_bytes })
    }

    /// Where it is, as the system names the place.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Its length.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What takes it away, from another thread.
    pub fn remover(&mut self) -> Remover {
        Remover::new(&mut self.session, &self.at)
    }

    /// Answers requests until the disk was taken away, by its [`Remover`] or by others, and nobody
    /// has it open any more.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to go on.
    pub fn serve(self) -> Result<(), DiskError> {
        self.session.run().map_err(DiskError::Serve)
    }
}

/// The file to mount over, made if need be.
fn place(at: &Path) -> Result<PathBuf, DiskError> {
    let wrong = |why: String| DiskError::Place { at: at.to_owned(), why };
    let made = OpenOptions::new().read(true).append(true).create(true).open(at);
    let is_file = made.and_then(|file| file.metadata()).map(|about| about.is_file());
    match is_file.and_then(|is_file| Ok((is_file, at.canonicalize()?))) {
        Ok((true, at)) => Ok(at),
        Ok((false, _)) => Err(wrong("it is no file".to_owned())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The file that keeps the bytes, for this disk alone.
fn open_back(path: &Path, size_bytes: u64) -> Result<File, DiskError> {
    let wrong = |source| DiskError::Back { path: path.to_owned(), source };
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let file = options.open(path).map_err(wrong)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| DiskError::BackInUse { path: path.to_owned() })?;
    let there_bytes = file.metadata().map_err(wrong)?.len();
    if there_bytes > size_bytes {
        return Err(DiskError::BackTooLong { path: path.to_owned(), there_bytes, size_bytes });
    }
    file.set_len(size_bytes).map_err(wrong)?;
    Ok(file)
}

fn in_memory(size_bytes: u64) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("afflux-devdisk", MemfdFlags::CLOEXEC)?);
    file.set_len(size_bytes)?;
    Ok(file)
}
