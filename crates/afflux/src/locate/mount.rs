//! The mount that a file is on, as the kernel's table tells it.

use std::fmt;
use std::fs;
use std::io;

use rustix::fs::{major, minor};
use serde::Serialize;

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Mount {
    /// Its type, as in `fuse.ceph-fuse`.
    pub(crate) kind: String,
    /// What was mounted.
    pub(crate) source: String,
    /// Where.
    pub(crate) point: String,
}

impl Mount {
    /// The mount of a device; where there are several, the last. One that is not in the table,
    /// as in another process's name space, is told by its number.
    pub(crate) fn of(device: u64) -> io::Result<Self> {
        let number = format!("{}:{}", major(device), minor(device));
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        let found = table.lines().rev().find_map(|line| Self::read(line, &number));
        Ok(found.unwrap_or_else(|| Self { source: format!("device {number}"), ..Self::default() }))
    }

    /// A line such as `36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw`.
    fn read(line: &str, number: &str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let mut fields = place.split(' ');
        if fields.nth(2)? != number {
            return None;
        }
        let point = plain(fields.nth(1)?);
        let mut fields = what.split(' ');
        let (kind, source) = (fields.next()?.to_owned(), plain(fields.next()?));
        Some(Self { kind, source, point })
    }
}

impl fmt::Display for Mount {
    /// As paths are named in reports: type and source, or the mount point where the source says
    /// nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let telling = self.source.contains(['/', ':']) || self.point.is_empty();
        let place = if telling { &self.source } else { &self.point };
        write!(f, "{} {place}", self.kind)
    }
}

/// Spaces and the like stand in the table as octal numbers.
fn plain(field: &str) -> String {
    let mut pieces = field.split('\\');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                text.push(char::from(code));
                text.push_str(&piece[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(piece);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let line = "67 65 0:43 / /mnt/my\\040fs rw shared:1 - fuse.ceph-fuse ceph-fuse rw";
        let mount = Mount::read(line, "0:43").unwrap();
        assert_eq!((&mount.point[..], &mount.source[..]), ("/mnt/my fs", "ceph-fuse"));
        assert_eq!(mount.to_string(), "fuse.ceph-fuse /mnt/my fs");
        assert_eq!(Mount::read(line, "0:44"), None);
        let nfs = "36 35 98:0 / /mnt rw - nfs4 10.0.0.1:/export rw";
        assert_eq!(Mount::read(nfs, "98:0").unwrap().to_string(), "nfs4 10.0.0.1:/export");
        assert_eq!(plain("a\\b\\134"), "a\\b\\");
    }
}
