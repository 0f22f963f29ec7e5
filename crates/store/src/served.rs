//! Taking away what this crate serves by FUSE.

use std::io;
use std::path::{Path, PathBuf};

use fuser::{Filesystem, Session, SessionUnmounter};
use rustix::mount::UnmountFlags;

/// Takes what is served away from its place, from another thread than the one that serves it.
#[derive(Debug)]
pub struct Remover {
    unmounter: SessionUnmounter,
    at: PathBuf,
}

impl Remover {
    pub(crate) fn new<F: Filesystem>(session: &mut Session<F>, at: &Path) -> Self {
        Self { unmounter: session.unmount_callable(), at: at.to_owned() }
    }

    /// Takes it away. Who has a file of it open keeps that until it is closed.
    ///
    /// # Errors
    ///
    /// When the system refuses to unmount it.
    pub fn remove(&mut self) -> io::Result<()> {
        match self.unmounter.unmount() {
            Err(busy) if busy.kind() == io::ErrorKind::ResourceBusy => {
                Ok(rustix::mount::unmount(&self.at, UnmountFlags::DETACH)?)
            }
            done => done,
        }
    }
}
