//! The kernel's requests, and the answers to them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use afflux_node::clock;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::OFlags;

use super::files::{Files, Told};
use super::names::Node;
use super::removed::is_removed;
use crate::catalog::MAX_NAME_BYTES;
use crate::sync::lock;

/// Most bytes of one request of the kernel.
const REQUEST_BYTES: u32 = 1 << 20;

/// Requests that the kernel sends on before it waits for answers.
const REQUESTS: u16 = 64;

/// How long the kernel believes what it was told, so that another client's changes show after it at
/// the latest.
const BELIEVED: Duration = Duration::from_secs(1);

/// Blocks of 1 MiB that are told to be free; engines do not tell how many are.
const FREE_BLOCKS: u64 = 1 << 40;

/// Entries of a directory, and which are directories.
type Listing = Vec<(String, bool)>;

/// The file system that the kernel sees.
pub(super) struct Served {
    files: Files,
    listings: Mutex<BTreeMap<u64, Listing>>,
    next: AtomicU64,
    /// The time of all files, since 1970; catalogs keep none.
    since: Duration,
}

impl Served {
    pub(super) fn new(files: Files) -> Self {
        let (listings, next) = (Mutex::default(), AtomicU64::new(1));
        Self { files, listings, next, since: Duration::from_secs(clock::calendar_secs()) }
    }

    fn attributes(&self, number: u64, node: &Node) -> FileAttr {
        let (kind, perm, nlink, size) = match node {
            Node::Directory(_) => (FileType::Directory, 0o755, 2, 0),
            Node::File(record) => {
                let names = u32::from(!is_removed(&record.name));
                (FileType::RegularFile, 0o644, names, record.size_bytes)
            }
        };
        let since = UNIX_EPOCH + self.since;
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: since,
            mtime: since,
            ctime: since,
            crtime: since,
            kind,
            perm,
            nlink,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: REQUEST_BYTES,
            flags: 0,
        }
    }

    /// Tells the kernel of a node.
    fn enter(&self, told: Result<Told, Errno>, reply: ReplyEntry) {
        match told {
            Ok((number, node)) => {
                reply.entry(&BELIEVED, &self.attributes(number, &node), Generation(0));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn list(&self, number: u64) -> Result<Listing, Errno> {
        let Node::Directory(name) = self.files.node(number)? else { return Err(Errno::ENOTDIR) };
        let dots = [".", ".."].map(|name| (name.to_owned(), true));
        Ok(dots.into_iter().chain(self.files.entries(&name)?).collect())
    }
}

/// A name as the catalog keeps it.
fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn end(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that cannot do one of these does with less.
        let _ =
            config.add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_background(REQUESTS);
        let _ = config.set_congestion_threshold(REQUESTS);
        Ok(())
    }

    fn destroy(&mut self) {
        self.files.end();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.enter(text(name).and_then(|name| self.files.look(parent.0, name)), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.files.names.forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.files.node(number.0) {
            Ok(node) => reply.attr(&BELIEVED, &self.attributes(number.0, &node)),
            Err(errno) => reply.error(errno),
        }
    }

    /// Sizes are set as far as they can be; modes, owners and times are not kept.
    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let node = match size {
            Some(size_bytes) => self.files.resize(number.0, size_bytes).map(Node::File),
            None => self.files.node(number.0),
        };
        match node {
            Ok(node) => reply.attr(&BELIEVED, &self.attributes(number.0, &node)),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        self.enter(text(name).and_then(|name| self.files.make_directory(parent.0, name)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        end(text(name).and_then(|name| self.files.remove_directory(parent.0, name)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        end(text(name).and_then(|name| self.files.remove(parent.0, name)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        // Catalogs can do no more than this at one moment.
        let may_replace = match flags {
            flags if flags.is_empty() => Ok(true),
            RenameFlags::RENAME_NOREPLACE => Ok(false),
            _ => Err(Errno::EINVAL),
        };
        let renamed = may_replace.and_then(|may_replace| {
            let (from, to) = ((parent.0, text(name)?), (new_parent.0, text(new_name)?));
            self.files.rename(from, to, may_replace)
        });
        end(renamed, reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let or_open = !OFlags::from_bits_retain(flags as u32).contains(OFlags::EXCL);
        match text(name).and_then(|name| self.files.create(parent.0, name, or_open)) {
            Ok((number, node)) => {
                let attributes = self.attributes(number, &node);
                let (handle, flags) = (FileHandle(0), FopenFlags::empty());
                reply.created(&BELIEVED, &attributes, Generation(0), handle, flags);
            }
            Err(errno) => reply.error(errno),
        }
    }

    /// What others wrote before a file is opened is seen by who opens it.
    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.files.open(number.0) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.close(number.0);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.files.read(number.0, offset, length) {
            Ok(data) => reply.data(&data),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.files.write(number.0, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    /// What was answered is at the servers.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Makes a file longer, which keeps no room for it.
    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let grown = match (mode, self.files.node(number.0)) {
            (0, Ok(Node::File(record))) if record.size_bytes < offset + length => {
                self.files.resize(number.0, offset + length).map(drop)
            }
            (0, node) => node.map(drop),
            _ => Err(Errno::EOPNOTSUPP),
        };
        end(grown, reply);
    }

    /// Entries are those of the moment in which a directory is opened.
    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(number.0) {
            Ok(listing) => {
                let handle = self.next.fetch_add(1, Ordering::Relaxed);
                lock(&self.listings).insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        // Numbers are given when a name is looked up; until then each has this one.
        const UNKNOWN: INodeNo = INodeNo(u32::MAX as u64);
        let listings = lock(&self.listings);
        let listing = listings.get(&handle.0).map(Vec::as_slice).unwrap_or_default();
        for ((name, is_directory), next) in listing.iter().zip(1..).skip(offset as usize) {
            let kind = if *is_directory { FileType::Directory } else { FileType::RegularFile };
            if reply.add(UNKNOWN, next, kind, name) {
                break;
            }
        }
        drop(listings);
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        lock(&self.listings).remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (free, longest) = (FREE_BLOCKS, MAX_NAME_BYTES as u32);
        reply.statfs(free, free, free, 0, 0, REQUEST_BYTES, longest, REQUEST_BYTES);
    }
}
