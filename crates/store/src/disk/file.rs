//! The one file that the kernel sees: its requests, answered in the time of the model.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, UNIX_EPOCH};

use afflux_core::device::placement::Piece;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use crate::held::{HeldDevice, Submitted};
use crate::objects::buffer::BufferPool;

/// Most bytes of one request, as with the lab's servers.
const REQUEST_BYTES: u32 = 1 << 20;

/// Requests that the kernel sends on before it waits for answers.
const REQUESTS: u16 = 128;

const IDLE_BUFFER_BYTES: usize = 64 << 20;

/// Nothing about the file changes, so the kernel need not ask twice.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A file system whose root is the disk.
#[derive(Debug)]
pub(super) struct DiskFile {
    back: File,
    size_bytes: u64,
    model: HeldDevice,
    buffers: BufferPool,
}

impl DiskFile {
    pub(super) fn new(back: File, size_bytes: u64, model: HeldDevice) -> Self {
        Self { back, size_bytes, model, buffers: BufferPool::new(IDLE_BUFFER_BYTES) }
    }

    /// What lies within the disk of a range.
    fn within(&self, offset_bytes: u64, length: usize) -> Piece {
        let left = self.size_bytes.saturating_sub(offset_bytes);
        Piece { offset_bytes, length_bytes: (length as u64).min(left) }
    }

    fn submit(&self, write: bool, piece: Piece) -> Submitted {
        let pieces = if piece.length_bytes > 0 { &[piece][..] } else { &[] };
        self.model.submit(write, pieces)
    }

    fn attributes(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo::ROOT,
            size: self.size_bytes,
            blocks: self.size_bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o600,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: REQUEST_BYTES,
            flags: 0,
        }
    }
}

impl Filesystem for DiskFile {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that cannot do one of these does with less.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_background(REQUESTS);
        let _ = config.set_congestion_threshold(REQUESTS);
        Ok(())
    }

    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let piece = self.within(offset_bytes, length as usize);
        let submitted = self.submit(false, piece);
        let mut buffer = self.buffers.take(piece.length_bytes as usize);
        let read = self.back.read_exact_at(&mut buffer, offset_bytes);
        submitted.wait();
        match read {
            Ok(()) => reply.data(&buffer),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let piece = self.within(offset_bytes, data.len());
        let length = piece.length_bytes as usize;
        if length == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        let submitted = self.submit(true, piece);
        let written = self.back.write_all_at(&data[..length], offset_bytes);
        submitted.wait();
        match written {
            Ok(()) => reply.written(length as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // What was answered is kept by the backing, whose length never changes.
        match self.back.sync_data() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }
}
