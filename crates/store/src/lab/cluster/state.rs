//! The file that describes a lab, `lab.json` in its directory.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::process::ProcessMark;
use crate::engine::lab::LabAddresses;
use crate::lab::device::{LabDevice, LabDeviceError};

/// The version of the file's format.
pub const VERSION: u32 = 1;
/// The file's name.
pub const FILE: &str = "lab.json";

/// A lab, as it was started last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabState {
    /// The format's version.
    pub version: u32,
    /// The lab's name; drawn when it was first started.
    pub id: String,
    /// The storage servers' device, with its options.
    pub device: String,
    /// Most bytes on each storage server.
    pub capacity_bytes: Option<u64>,
    /// Service threads of each storage server.
    pub threads: usize,
    /// The credits that they grant, as they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<String>,
    /// The servers: storage servers by index, then the metadata server.
    pub servers: Vec<ServerState>,
}

/// One server of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerState {
    /// Its name, as in `storage 2`.
    pub name: String,
    /// Its directory, below the lab's.
    pub dir: PathBuf,
    /// Its log, below the lab's directory.
    pub log: PathBuf,
    /// Where it listens, when it was started.
    pub port: Option<u16>,
    /// Its process, when it was started.
    pub process: Option<ProcessMark>,
}

/// Why the state of a lab cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// There is none.
    #[error(
        "there is no lab in {}: start one with `afflux lab up --dir {}`",
        .0.display(), .0.display()
    )]
    NoLab(PathBuf),
    /// No server of it runs.
    #[error(
        "the lab in {} is not running: start it with `afflux lab up --dir {}`",
        .0.display(), .0.display()
    )]
    NotRunning(PathBuf),
    /// It cannot be read or written.
    #[error(
        "cannot {what} {}: {source}; make room or give rights there, or choose another --dir",
        path.display()
    )]
    Io {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no state of a lab.
    #[error(
        "{} cannot be read: {why}; if it is not a lab's, choose another --dir, else restore it",
        path.display()
    )]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// Another version wrote it.
    #[error(
        "{} has version {found}, this afflux reads version {VERSION}: use the one that wrote it",
        path.display()
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
}

impl LabState {
    /// Reads the state of the lab in `dir`.
    pub fn load(dir: &Path) -> Result<Self, StateError> {
        let path = dir.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StateError::NoLab(dir.to_owned()));
            }
            Err(source) => return Err(StateError::Io { what: "read", path, source }),
        };
        // The version is looked at first: another one may have other fields.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let unreadable = |path: &Path, error: serde_json::Error| {
            let why = error.to_string();
            StateError::Unreadable { path: path.to_owned(), why }
        };
        let Versioned { version: found } =
            serde_json::from_slice(&text).map_err(|error| unreadable(&path, error))?;
        if found != VERSION {
            return Err(StateError::Version { path, found });
        }
        let state: Self =
            serde_json::from_slice(&text).map_err(|error| unreadable(&path, error))?;
        if state.servers.len() < 2 {
            let why = "it names no storage server or no metadata server".to_owned();
            return Err(StateError::Unreadable { path, why });
        }
        Ok(state)
    }

    /// Reads the state of the lab in `dir`, at least one of whose servers runs.
    pub fn load_running(dir: &Path) -> Result<Self, StateError> {
        let state = Self::load(dir)?;
        if state.is_running() { Ok(state) } else { Err(StateError::NotRunning(dir.to_owned())) }
    }

    /// Writes the state, whole or not at all.
    pub fn save(&self, dir: &Path) -> Result<(), StateError> {
        let path = dir.join(FILE);
        let fresh = dir.join("lab.json.new");
        let failed = |source| StateError::Io { what: "write", path: path.clone(), source };
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &path));
        written.map_err(|source| {
            // Half of a file is of no use to anybody; that it cannot be removed is no worse.
            let _ = std::fs::remove_file(&fresh);
            failed(source)
        })
    }

    /// Whether any of its servers runs.
    pub fn is_running(&self) -> bool {
        self.servers.iter().any(ServerState::is_running)
    }

    /// How many storage servers it has.
    pub fn storage_servers(&self) -> u32 {
        self.servers.len() as u32 - 1
    }

    /// The storage servers' device.
    pub fn device(&self) -> Result<LabDevice, LabDeviceError> {
        self.device.parse()
    }

    /// Where the servers listen; port 0 for those that were not started.
    pub fn addresses(&self) -> LabAddresses {
        let mut all: Vec<_> = self.servers.iter().map(ServerState::address).collect();
        let metadata = all.pop().unwrap_or_else(|| local(0));
        LabAddresses { lab: Some(self.id.clone()), storage: all, metadata }
    }

    /// Where the server of that name listens, if it was started.
    pub fn address_of(&self, name: &str) -> Option<SocketAddr> {
        let server = self.servers.iter().find(|server| server.name == name)?;
        server.port.map(local)
    }
}

impl ServerState {
    /// Whether its process is there.
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(ProcessMark::is_alive)
    }

    /// Where it listens; port 0 when it was not started.
    pub fn address(&self) -> SocketAddr {
        local(self.port.unwrap_or(0))
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
