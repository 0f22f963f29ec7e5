//! Where a file lies: its mount, its layout, and the server of a byte, by the same readers that the
//! library uses under programs.

pub(crate) mod ceph;
mod mount;

use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use afflux_node::placement::{Placement, Server, cephfs, readers};
use rustix::fs::{fgetxattr, fstatfs};
use serde::Serialize;

use ceph::{CephError, ObjectPlace};
pub(crate) use mount::Mount;

/// Where a file lies.
#[derive(Debug, Serialize)]
pub(crate) struct Located {
    pub(crate) file: PathBuf,
    pub(crate) size_bytes: u64,
    pub(crate) mount: Mount,
    /// Which file system told its layout; none where the mount counts as one server.
    pub(crate) layout: Option<&'static str>,
    pub(crate) stretches: Vec<Stretch>,
    /// The servers of the bytes that were asked for.
    pub(crate) offsets: Vec<At>,
}

/// A stretch of a file that is striped in one way.
#[derive(Debug, Serialize)]
pub(crate) struct Stretch {
    pub(crate) start: u64,
    /// The byte after its last; none when it has no end.
    pub(crate) end: Option<u64>,
    /// Bytes in a row on one server; none when all are.
    pub(crate) unit_bytes: Option<u64>,
    /// In the order of the stripes; empty before the first write.
    pub(crate) servers: Vec<String>,
}

/// The server of one byte.
#[derive(Debug, Serialize)]
pub(crate) struct At {
    pub(crate) offset: u64,
    /// None where the file system has not chosen one yet.
    pub(crate) server: Option<String>,
    /// On CephFS, where in the pool.
    #[serde(flatten)]
    pub(crate) object: Option<ObjectPlace>,
}

/// Why it is not known where a file lies.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocateError {
    /// It cannot be opened or asked about.
    #[error("cannot look at {}: {why}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// Directories have no bytes.
    #[error("{} is no file: name a file in it", .0.display())]
    NoFile(PathBuf),
    /// Ceph did not tell.
    #[error(transparent)]
    Ceph(#[from] CephError),
}

/// Layouts are longer than this on no file system that can be read.
const MOST_BYTES: usize = 64 << 10;

/// Finds out where `path` lies, and which servers keep its bytes at `offsets`.
pub(crate) fn locate(path: &Path, offsets: &[u64]) -> Result<Located, LocateError> {
    let failed = |why| LocateError::File { file: path.to_owned(), why };
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(LocateError::NoFile(path.to_owned()));
    }
    let mount = Mount::of(about.dev()).map_err(failed)?;
    let mut located = Located {
        file: path.to_owned(),
        size_bytes: about.len(),
        mount,
        layout: None,
        stretches: Vec::new(),
        offsets: Vec::new(),
    };
    let kind = fstatfs(&file).map_err(|error| failed(error.into()))?.f_type as u64;
    for reader in readers(kind) {
        let Some(bytes) = attribute(&file, reader.attribute) else { continue };
        // The library takes the mount for one server where it cannot read a layout, and so do we.
        let Ok(placement) = (reader.read)(&bytes) else { continue };
        located.layout = Some(reader.name);
        located.stretches = stretches(&placement);
        for &offset in offsets {
            let server = placement.server_at(offset);
            let object = match server {
                Some(Server::Pool(_)) => object(&bytes, about.ino(), offset)?,
                _ => None,
            };
            let server = server.map(|server| server.to_string());
            located.offsets.push(At { offset, server, object });
        }
        return Ok(located);
    }
    let server = located.mount.to_string();
    let (end, unit_bytes) = (None, None);
    located.stretches = vec![Stretch { start: 0, end, unit_bytes, servers: vec![server.clone()] }];
    let one = |&offset: &u64| At { offset, server: Some(server.clone()), object: None };
    located.offsets = offsets.iter().map(one).collect();
    Ok(located)
}

fn object(layout: &[u8], inode: u64, offset: u64) -> Result<Option<ObjectPlace>, CephError> {
    let Ok(striping) = cephfs::Striping::read(layout) else { return Ok(None) };
    ceph::place(&striping, inode, offset).map(Some)
}

fn attribute(file: &File, name: &CStr) -> Option<Vec<u8>> {
    let mut bytes = vec![0; MOST_BYTES];
    let length = fgetxattr(file, name, &mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

fn stretches(placement: &Placement<'_>) -> Vec<Stretch> {
    let finite = |number: u64| (number < u64::MAX).then_some(number);
    let one = |part: &afflux_node::placement::Part| Stretch {
        start: part.start,
        end: finite(part.end),
        unit_bytes: finite(part.unit_bytes),
        servers: placement.servers(part).iter().map(ToString::to_string).collect(),
    };
    placement.parts().iter().map(one).collect()
}
