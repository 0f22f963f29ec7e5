//! Which segment: one of the node, where somebody keeps it, else one of the user.
//!
//! The node's lies in a directory that only root can write, so that whoever finds it there knows
//! who put it there; its file is for all to write. The names of both contain the process namespace,
//! since processes are known by their numbers: what they mean in another namespace is somebody
//! else, who may well live when they are dead.

use std::ffi::{CStr, CString};

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::file::{create, failed, map, remove_if_unused};
use super::{AttachError, Shared};

/// Where the node's segments lie.
const DIRECTORY: &str = "/run/afflux";

/// What the directory and the file of the node's segment must be.
const MUST_BE_ITS: &str = "a directory of root that nobody else can write";
const MUST_BE_FOR_ALL: &str = "a file of root with mode 666";

/// Whose controllers a process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// Those of all users of this node, kept by root.
    Node,
    /// Those of all processes of this user.
    User,
    /// Its own, and those of its forked children.
    Private,
}

impl Segment {
    /// All of them, those that most share first.
    pub const ALL: [Self; 3] = [Self::Node, Self::User, Self::Private];

    /// Its name in reports and in the environment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::User => "user",
            Self::Private => "private",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|segment| segment.name() == name)
    }

    /// Its file, if it has one. Of the user: in `/dev/shm`, or where there is none in
    /// `$XDG_RUNTIME_DIR`. Allocates.
    pub fn path(self) -> Option<CString> {
        let namespace = rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino);
        let path = match self {
            Self::Private => return None,
            Self::Node => format!("{DIRECTORY}/controllers-{namespace}"),
            Self::User => {
                let user = rustix::process::geteuid().as_raw();
                let memory = rustix::fs::stat("/dev/shm").is_ok();
                let runtime = std::env::var("XDG_RUNTIME_DIR").ok().filter(|_| !memory);
                let directory = runtime.unwrap_or_else(|| "/dev/shm".to_owned());
                format!("{directory}/afflux-{user}-{namespace}")
            }
        };
        CString::new(path).ok()
    }
}

impl Shared {
    /// Attaches to a segment of this machine: to the node's only where one is kept, to the user's
    /// in any case. Allocates and uses system calls.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::NotKept`] when the node has none.
    pub fn of(segment: Segment) -> Result<Self, AttachError> {
        match (segment, segment.path()) {
            (Segment::Node, Some(path)) => Self::kept_at(&path),
            (Segment::User, Some(path)) => Self::attach(&path),
            (Segment::Private, _) | (_, None) => Self::private(),
        }
    }

    /// Attaches to a segment that is kept at `path` for all users, as the node's is.
    ///
    /// # Errors
    /// See [`AttachError`]; [`AttachError::NotKept`] when there is none.
    pub fn kept_at(path: &CStr) -> Result<Self, AttachError> {
        let directory = open_directory(path)?;
        let file = open_file(&directory, path)?;
        map(&file, path).and_then(Self::start)
    }
}

/// Keeps a segment for the node, until [`drop_kept`] or the end of the machine; whether there was
/// none yet. One that was left by another version is replaced when no program uses it. Only root
/// can. Allocates.
///
/// # Errors
/// See [`AttachError`].
pub fn keep() -> Result<bool, AttachError> {
    keep_in(&Segment::Node.path().unwrap_or_default())
}

/// The same at another `path`; whoever owns its directory can.
///
/// # Errors
/// See [`AttachError`].
pub fn keep_in(path: &CStr) -> Result<bool, AttachError> {
    let (directory, _) = parts(path)?;
    match rustix::fs::mkdir(&directory, Mode::from_raw_mode(0o755)) {
        // The mask of the process may have taken rights away.
        Ok(()) => {
            rustix::fs::chmod(&directory, Mode::from_raw_mode(0o755)).map_err(failed("make"))?;
        }
        Err(Errno::EXIST) => {}
        Err(error) => return Err(failed("make a directory for")(error)),
    }
    let is_new = match Shared::kept_at(path) {
        Ok(_) => return Ok(false),
        Err(AttachError::NotKept) => true,
        Err(AttachError::Version { .. } | AttachError::Foreign) => remove_if_unused(path),
        Err(error) => return Err(error),
    };
    if is_new {
        create(path, Mode::from_raw_mode(0o666))?;
    }
    Shared::kept_at(path).map(|_| is_new)
}

/// Removes the node's segment unless programs use it; whether there was one. Only root can.
/// Allocates.
///
/// # Errors
/// See [`AttachError`].
pub fn drop_kept() -> Result<bool, AttachError> {
    let path = Segment::Node.path().unwrap_or_default();
    match rustix::fs::lstat(&path) {
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(failed("look at")(error)),
        Ok(_) => {}
    }
    // Others may not look at all processes, nor remove it.
    if !rustix::process::geteuid().is_root() {
        return Err(failed("remove")(Errno::PERM));
    }
    if remove_if_unused(&path) { Ok(true) } else { Err(AttachError::InUse) }
}

/// The directory and the name of a path.
fn parts(path: &CStr) -> Result<(CString, CString), AttachError> {
    let split = path.to_str().ok().and_then(|path| path.rsplit_once('/'));
    let parts = split.map(|(directory, name)| (CString::new(directory), CString::new(name)));
    match parts {
        Some((Ok(directory), Ok(name))) => Ok((directory, name)),
        _ => Err(AttachError::Foreign),
    }
}

/// Opens the directory of a segment that is kept, if nobody could have changed what is in it.
fn open_directory(path: &CStr) -> Result<OwnedFd, AttachError> {
    let (directory, _) = parts(path)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(&directory, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Err(AttachError::NotKept),
        opened => opened.map_err(failed("open the directory of"))?,
    };
    let stat = rustix::fs::fstat(&opened).map_err(failed("look at"))?;
    let is_its = kind(&stat) == "directory" && is_keepers(&stat) && stat.st_mode & 0o022 == 0;
    if is_its { Ok(opened) } else { Err(untrusted("directory", &stat, MUST_BE_ITS)) }
}

/// Opens the file of a segment that is kept, if it is for all, and nobody else's.
fn open_file(directory: &OwnedFd, path: &CStr) -> Result<OwnedFd, AttachError> {
    let (_, name) = parts(path)?;
    // Looked at first, since to open what is no file may do something.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match rustix::fs::openat(directory, &name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Err(AttachError::NotKept),
        found => found.map_err(failed("open"))?,
    };
    let stat = rustix::fs::fstat(&found).map_err(failed("look at"))?;
    if kind(&stat) != "file" || !is_keepers(&stat) || stat.st_mode & 0o7777 != 0o666 {
        return Err(untrusted("file", &stat, MUST_BE_FOR_ALL));
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, &name, flags, Mode::empty()).map_err(failed("open"))
}

/// Whether it belongs to somebody who may keep a segment: to root, or to us.
fn is_keepers(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw()
}

fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        _ => "special file",
    }
}

fn untrusted(part: &'static str, stat: &Stat, must: &'static str) -> AttachError {
    let mode = stat.st_mode & 0o7777;
    AttachError::Untrusted { part, kind: kind(stat), owner: stat.st_uid, mode, must }
}
