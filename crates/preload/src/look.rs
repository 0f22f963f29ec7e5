//! Finding out what a descriptor stands for, when it is first used.

use std::ffi::c_int;

use afflux_node::calls::Cause;
use afflux_node::signals;

use crate::descriptors::{self, Descriptor, Seen};
use crate::run::{self, Run};
use crate::{mounts, places, raw};

/// What `fd` stands for; none above the table of descriptors, which is counted as such.
#[inline]
pub(crate) fn at(fd: c_int) -> Option<(&'static Descriptor, Seen)> {
    let row = descriptors::row(fd)?;
    match row.seen() {
        Some(seen) => Some((row, seen)),
        None => Some((row, closely(row, fd))),
    }
}

#[cold]
fn closely(row: &'static Descriptor, fd: c_int) -> Seen {
    let generation = row.generation();
    run::hook(Seen::OTHER, |run| {
        // Tables are written that a long jump out of a signal handler must not leave half done.
        let _quiet = signals::hold_back();
        let seen = find_out(run, fd);
        // A descriptor that is not open is looked at again when it is.
        if let Some(seen) = seen {
            row.learn(generation, seen);
        }
        seen.unwrap_or(Seen::OTHER)
    })
}

fn find_out(run: &Run, fd: c_int) -> Option<Seen> {
    let stat = raw::stat(fd)?;
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => {}
        // A disk without a file system is regulated when it is named as a root.
        libc::S_IFBLK if !run.roots.is_empty() => {}
        _ => return Some(Seen::OTHER),
    }
    if !is_regulated(run, fd)? {
        return Some(Seen::FILE);
    }
    match places::find(fd, stat.st_dev) {
        Some(place) => Some(Seen::regulated(place, raw::flags(fd)?)),
        None => {
            run::tally().escape(Cause::NoRoom, 0);
            Some(Seen::FILE)
        }
    }
}

/// Whether a file lies below a root; without roots, whether there is storage behind it.
fn is_regulated(run: &Run, fd: c_int) -> Option<bool> {
    if run.roots.is_empty() {
        return Some(mounts::has_storage(raw::file_system(fd)?));
    }
    let mut buffer = [0; libc::PATH_MAX as usize];
    let path = raw::name_of(fd, &mut buffer)?;
    let below = |root: &[u8]| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || root.ends_with(b"/") || rest.starts_with(b"/"))
    };
    Some(run.roots.iter().any(|root| below(root)))
}
