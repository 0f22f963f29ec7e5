//! Which servers keep a file, as its file system tells it in an extended attribute.
//!
//! [`READERS`] is the registry: to teach Afflux another file system, write one file beside this one
//! and add its line to the table. A reader takes the bytes of the attribute apart and nothing else;
//! it allocates nothing, since it runs inside of programs. Where no reader fits, a mount counts as
//! one server.

pub mod cephfs;
pub mod glusterfs;
pub mod lustre;

use std::ffi::CStr;

/// All file systems whose layouts can be read.
pub static READERS: &[Reader] = &[lustre::READER, cephfs::READER, glusterfs::READER];

/// How the layout of files of one file system is read.
#[derive(Debug)]
pub struct Reader {
    /// The file system's name.
    pub name: &'static str,
    /// Its numbers, as `statfs` gives them: by the kernel's client, and through FUSE.
    pub file_systems: &'static [u64],
    /// The attribute that tells the layout. Other file systems with the same number do not know it.
    pub attribute: &'static CStr,
    /// Takes the attribute's bytes apart.
    pub read: fn(&[u8]) -> Result<Placement<'_>, PlacementError>,
}

/// The number of whatever is mounted through FUSE.
const FUSE: u64 = 0x6573_5546;

/// The readers for a file system of this number, in the order in which they are tried.
pub fn readers(file_system: u64) -> impl Iterator<Item = &'static Reader> {
    READERS.iter().filter(move |reader| reader.file_systems.contains(&file_system))
}

/// Stretches of a file that may be laid out differently, at most.
pub const PARTS: usize = 16;
/// Servers of a file, at most, over all stretches.
pub const SERVERS: usize = 256;

/// Where a file lies.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    parts: [Part; PARTS],
    part_count: usize,
    servers: [Server<'a>; SERVERS],
    server_count: usize,
}

/// A stretch of a file that is striped in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last; the greatest number when it has no end.
    pub end: u64,
    /// Bytes in a row on one server, counted from the file's start; not zero.
    pub unit_bytes: u64,
    /// Where its servers begin in the file's list.
    first: u16,
    /// How many servers it has; zero when they are not yet known.
    count: u16,
}

/// A server, as the layout names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server<'a> {
    /// A storage target of Lustre, by its index.
    Ost(u32),
    /// A pool of Ceph: which of its servers keeps which part is not told.
    Pool(&'a str),
    /// A brick of GlusterFS, as host and directory.
    Brick(&'a str),
}

impl std::fmt::Display for Server<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ost(index) => write!(f, "OST{index:04x}"),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Brick(name) => write!(f, "brick {name}"),
        }
    }
}

/// An attribute that tells no layout that is understood. The mount then counts as one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// It ends too early.
    #[error("the layout ends after {0} bytes, inside of a structure")]
    Short(usize),
    /// It is of a kind that is not known.
    #[error("the layout is of the unknown kind {0:#010x}")]
    Kind(u32),
    /// It says what cannot be.
    #[error("the layout says what cannot be: {0}")]
    Wrong(&'static str),
    /// It names more than there is room for.
    #[error("the layout has more than {0}")]
    Large(&'static str),
}

impl<'a> Placement<'a> {
    /// One that has no parts yet.
    const fn empty() -> Self {
        let part = Part { start: 0, end: 0, unit_bytes: 1, first: 0, count: 0 };
        Self {
            parts: [part; PARTS],
            part_count: 0,
            servers: [Server::Ost(0); SERVERS],
            server_count: 0,
        }
    }

    /// Adds a stretch; its servers are added by [`Placement::push_server`] afterwards.
    fn push_part(&mut self, start: u64, end: u64, unit: u64) -> Result<(), PlacementError> {
        if unit == 0 || start > end {
            return Err(PlacementError::Wrong("a stretch without bytes"));
        }
        let first = self.server_count as u16;
        let place = self.parts.get_mut(self.part_count);
        let place = place.ok_or(PlacementError::Large("16 stretches"))?;
        *place = Part { start, end, unit_bytes: unit, first, count: 0 };
        self.part_count += 1;
        Ok(())
    }

    /// Adds a server to the stretch that was added last.
    fn push_server(&mut self, server: Server<'a>) -> Result<(), PlacementError> {
        let part = self.part_count.checked_sub(1).and_then(|last| self.parts.get_mut(last));
        let part = part.ok_or(PlacementError::Wrong("a server without a stretch"))?;
        let place = self.servers.get_mut(self.server_count);
        *place.ok_or(PlacementError::Large("256 servers"))? = server;
        self.server_count += 1;
        part.count += 1;
        Ok(())
    }

    /// The stretches, in the order of the file.
    pub fn parts(&self) -> &[Part] {
        &self.parts[..self.part_count]
    }

    /// The servers of a stretch, in the order of its stripes.
    pub fn servers(&self, part: &Part) -> &[Server<'a>] {
        let first = usize::from(part.first);
        self.servers.get(first..first + usize::from(part.count)).unwrap_or_default()
    }

    /// The server that keeps the byte at `offset`; none when that is not yet known.
    pub fn server_at(&self, offset: u64) -> Option<Server<'a>> {
        let part = self.parts().iter().find(|part| (part.start..part.end).contains(&offset))?;
        let servers = self.servers(part);
        let stripe = (offset / part.unit_bytes).checked_rem(servers.len() as u64)?;
        servers.get(stripe as usize).copied()
    }
}
