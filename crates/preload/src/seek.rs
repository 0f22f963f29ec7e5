//! Changing the position of a stream, for which the C library reads: it fills the buffer from the
//! nearest multiple of its size before the new position, unless that is just there, or in the
//! buffer already. A program that seeks and reads then finds all of its data in the buffer, so that
//! it is here that its requests are made.
//!
//! What will be read is told before the call from the buffer, as the C library does; what was read,
//! after it. A wrong guess holds a request in vain, or lets one pass; nothing else depends on it.

use std::ffi::c_int;

use afflux_core::class::Class;
use afflux_node::calls::Call;

use crate::descriptors::Seen;
use crate::gate::{self, Passing, Transfer};
use crate::stream::{self, Filled, Stream};
use crate::{look, raw, run};

/// Bytes of a buffer that is still to be made, unless the program chooses another size.
const BUFFER: usize = 4096;

/// Makes a call that sets the position of a stream.
pub(crate) fn seek<R>(
    file: *mut libc::FILE,
    offset: i64,
    whence: c_int,
    real: impl FnOnce() -> R,
) -> R {
    let stream = Stream::of(file).filter(|stream| run::active().is_some() && stream.fd() >= 0);
    let Some(stream) = stream else { return real() };
    let before = stream.filled();
    let looked = look::at(stream.fd());
    // What waits to be written is written first, and may be waited for with no place in the hand.
    let regulated = looked.filter(|(_, seen)| seen.is_regulated() && stream.pending() == 0);
    let reads = regulated.and_then(|(row, seen)| {
        let to = target(&before, stream.fd(), offset, whence)?;
        let (from, bytes) = will_read(&before, to)?;
        let here = Transfer::here(Call::StreamSeekRead, stream.fd(), bytes);
        Some((Transfer { offset: Some(from), ..here }, row, seen))
    });
    let mut passing = Passing::none();
    let entry = reads.as_ref().map(|(transfer, row, seen)| {
        let entry = gate::enter(transfer, row, *seen, &mut passing);
        (entry, transfer, *row, *seen)
    });
    let result = stream::write(Call::StreamSeek, file, None, real, |_| 0);
    let fetched = fetched(&before, &stream.filled()) as isize;
    match entry {
        Some((entry, transfer, row, seen)) => {
            // What was not read after all says nothing of the time that a server takes.
            let result = if fetched == 0 { -1 } else { fetched };
            gate::leave(&entry, &mut passing, transfer, row, seen, result);
        }
        None if fetched > 0 => count(looked.map(|(_, seen)| seen), fetched),
        None => {}
    }
    result
}

/// Counts what was read without being expected.
fn count(seen: Option<Seen>, fetched: isize) {
    let (Some(run), Some(seen)) = (run::active(), seen) else { return };
    run::count(Call::StreamSeekRead, seen.kind(), fetched);
    if seen.is_regulated() {
        gate::moved(run, Class::Read, seen.place(), 0, fetched as u64);
    }
}

/// The position that is asked for, where that can be told.
fn target(before: &Filled, fd: c_int, offset: i64, whence: c_int) -> Option<u64> {
    let from = match whence {
        libc::SEEK_SET => 0,
        // A position that the C library does not know is set without reading.
        libc::SEEK_CUR if before.position >= 0 => {
            before.position - before.end.saturating_sub(before.at) as i64
        }
        libc::SEEK_END => raw::stat(fd)?.st_size,
        _ => return None,
    };
    u64::try_from(from.checked_add(offset)?).ok()
}

/// Where the C library will read to set the position `to`, and how many bytes; none if it will not.
fn will_read(before: &Filled, to: u64) -> Option<(u64, usize)> {
    let size = if before.size == 0 { BUFFER } else { before.size };
    // A size that is no power of two does not make this a multiple of it, there as here.
    let from = to & !(size as u64 - 1);
    let ahead = to - from;
    if !before.reads || ahead == 0 || ahead > size as u64 {
        return None;
    }
    if let (Ok(end), 1..) = (u64::try_from(before.position), before.base) {
        let start = end.saturating_sub(before.end.saturating_sub(before.buffer) as u64);
        if (start..end).contains(&to) {
            return None;
        }
    }
    // From an empty buffer it only reads what lies before the position.
    Some((from, if before.base == before.end { ahead as usize } else { size }))
}

/// Bytes that a call has read into the buffer. Where the file ended before the position, the buffer
/// is emptied again, and what was read is not known.
fn fetched(before: &Filled, after: &Filled) -> usize {
    if after.position == before.position && after.end == before.end {
        return 0;
    }
    after.end.saturating_sub(after.base)
}
