//! The file of a segment: how it is made, and what is looked at before it is trusted.
//!
//! It gets its name only when it is whole, so that whoever dies while making it leaves nothing.

use std::ffi::CStr;

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::AttachError;
use super::image::{Image, LAYOUT, MAGIC};
use super::memory::Memory;
use super::text::Text;

/// Opens the segment at `path`, made when there is none.
pub(super) fn open(path: &CStr) -> Result<Memory, AttachError> {
    // Somebody may remove the file between two looks, but hardly does so for ever.
    for _ in 0..8 {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => {
                check_ours(&file)?;
                return map(&file, path);
            }
            Err(Errno::NOENT) => create(path, Mode::RUSR | Mode::WUSR)?,
            Err(error) => return Err(AttachError::System { doing: "open", error }),
        }
    }
    Err(AttachError::System { doing: "open", error: Errno::NOENT })
}

/// Maps `file`, which stands at `path` and is a segment of this version, whoever it belongs to.
pub(super) fn map(file: &OwnedFd, path: &CStr) -> Result<Memory, AttachError> {
    check_layout(file)?;
    Memory::of_file(file.as_fd(), path).map_err(failed("map"))
}

/// Removes the segment at `path` unless a process that can be looked at has it mapped; whether it
/// did. Reads `/proc`; allocates.
pub fn remove_if_unused(path: &CStr) -> bool {
    let name = path.to_bytes();
    let is_number = |name: &std::ffi::OsStr| name.as_encoded_bytes()[0].is_ascii_digit();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut maps = processes
        .filter(|process| is_number(&process.file_name()))
        .filter_map(|process| std::fs::read(process.path().join("maps")).ok());
    let is_used =
        maps.any(|maps| maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(name)));
    !is_used && rustix::fs::unlink(path).is_ok()
}

pub(super) fn failed(doing: &'static str) -> impl Fn(Errno) -> AttachError {
    move |error| AttachError::System { doing, error }
}

/// The words that a segment begins with, in the order of [`super::image::Header`].
fn head() -> [u8; 24] {
    let mut head = [0; 24];
    head[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    head[8..12].copy_from_slice(&LAYOUT.to_ne_bytes());
    head[16..].copy_from_slice(&(size_of::<Image>() as u64).to_ne_bytes());
    head
}

/// Whether nobody else can touch `file`.
fn check_ours(file: &OwnedFd) -> Result<(), AttachError> {
    let stat = rustix::fs::fstat(file).map_err(failed("look at"))?;
    let mode = stat.st_mode & 0o7777;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(AttachError::Foreign);
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() || mode != 0o600 {
        return Err(AttachError::NotOurs { owner: stat.st_uid, mode });
    }
    Ok(())
}

/// Whether `file` is a segment of this version.
fn check_layout(file: &OwnedFd) -> Result<(), AttachError> {
    let stat = rustix::fs::fstat(file).map_err(failed("look at"))?;
    let mut found = [0; 24];
    let read = rustix::io::pread(file, &mut found[..], 0).map_err(failed("read"))?;
    let expected = head();
    if read < found.len() || found[..8] != expected[..8] {
        return Err(AttachError::Foreign);
    }
    let layout = u32::from_ne_bytes([found[8], found[9], found[10], found[11]]);
    if layout != LAYOUT {
        return Err(AttachError::Version { found: layout, ours: LAYOUT });
    }
    if found != expected || stat.st_size as usize != size_of::<Image>() {
        return Err(AttachError::Foreign);
    }
    Ok(())
}

/// Makes an empty segment and gives it the name `path`, unless another has it by then.
pub(super) fn create(path: &CStr, mode: Mode) -> Result<(), AttachError> {
    let directory = Text::directory_of(path).ok_or(AttachError::Foreign)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    let file = rustix::fs::open(directory.as_str(), flags, Mode::RUSR | Mode::WUSR)
        .map_err(failed("make"))?;
    // The mask of the process may have taken rights away, also from ourselves.
    rustix::fs::fchmod(&file, mode).map_err(failed("make"))?;
    rustix::fs::ftruncate(&file, size_of::<Image>() as u64).map_err(failed("make"))?;
    let written = rustix::io::pwrite(&file, &head(), 0).map_err(failed("make"))?;
    if written != head().len() {
        return Err(failed("make")(Errno::NOSPC));
    }
    let mut own = Text::new("/proc/self/fd/");
    own.number(file.as_raw_fd() as u64);
    match rustix::fs::linkat(CWD, own.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(failed("name")(error)),
    }
}
