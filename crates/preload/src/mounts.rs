//! What a mounted file system is called in reports, and which ones have no server behind them.

use std::ffi::c_int;
use std::io::Write;

use crate::places::NAME;
use crate::raw;

/// File systems that are memory, or no storage at all: nothing behind them can be congested.
const NO_STORAGE: &[u64] = &[
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x9584_58f6, // hugetlbfs
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x0000_1cd1, // devpts
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup 2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xcafe_4a11, // bpf
    0x1980_0202, // mqueue
];

/// Whether a file system has storage behind it that may be congested.
pub(crate) fn has_storage(file_system: u64) -> bool {
    !NO_STORAGE.contains(&file_system)
}

/// Bytes of the table of mounts that are looked at, a piece at a time.
const PIECE: usize = 4096;

/// The name of the server behind a mount: type and source, as in `nfs4 10.0.0.1:/export`; the mount
/// point where the source says nothing. Found in the process's table of mounts.
pub(crate) fn server_name(fd: c_int, device: u64, text: &mut [u8; NAME]) -> &[u8] {
    let length = match from_table(device, text) {
        Some(length) => length,
        None => {
            let kind = raw::file_system(fd).unwrap_or(0);
            let (major, minor) = (libc::major(device), libc::minor(device));
            print(text, format_args!("device {major}:{minor} of type {kind:#x}"))
        }
    };
    &text[..length]
}

/// A server's name within a file system: `mount server`.
pub(crate) fn join<'t>(
    text: &'t mut [u8; NAME],
    mount: &[u8],
    server: &impl std::fmt::Display,
) -> &'t [u8] {
    let mount = &mount[..mount.len().min(NAME / 2)];
    let length = print(text, format_args!("{} {server}", mount.escape_ascii()));
    &text[..length]
}

fn print(text: &mut [u8; NAME], what: std::fmt::Arguments<'_>) -> usize {
    let mut rest = text.as_mut_slice();
    // What does not fit is cut.
    let _ = rest.write_fmt(what);
    NAME - rest.len()
}

/// Looks the device up in the table of mounts, line by line; the last mount counts.
fn from_table(device: u64, text: &mut [u8; NAME]) -> Option<usize> {
    let fd = raw::open(b"/proc/self/mountinfo\0", libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
    let mut wanted = [0; NAME];
    let (major, minor) = (libc::major(device), libc::minor(device));
    let length = print(&mut wanted, format_args!("{major}:{minor}"));
    let wanted = &wanted[..length];
    let mut buffer = [0; 2 * PIECE];
    let (mut kept, mut offset, mut found) = (0, 0, None);
    while let Some(read @ 1..) = raw::read_at(fd, &mut buffer[kept..kept + PIECE], offset) {
        crate::run::tally().add(afflux_node::tally::Word::OwnRead, read as u64);
        offset += read as u64;
        let filled = &buffer[..kept + read];
        let end = filled.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in filled[..end].split(|byte| *byte == b'\n') {
            if let Some(length) = name_in(line, wanted, text) {
                found = Some(length);
            }
        }
        let rest = kept + read - end;
        // A line longer than a piece is no line of ours; it is dropped.
        kept = if rest > PIECE { 0 } else { rest };
        buffer.copy_within(end..end + kept, 0);
    }
    raw::close(fd);
    found
}

/// The name from a line such as `36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw`.
fn name_in(line: &[u8], wanted: &[u8], text: &mut [u8; NAME]) -> Option<usize> {
    let mut fields = line.split(|byte| *byte == b' ');
    if fields.nth(2)? != wanted {
        return None;
    }
    let point = fields.nth(1)?;
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (fields.next()?, fields.next()?);
    let telling = source.contains(&b'/') || source.contains(&b':');
    let place = if telling { source } else { point };
    let (kind, place) = (kind.escape_ascii(), place.escape_ascii());
    Some(print(text, format_args!("{kind} {place}")))
}
