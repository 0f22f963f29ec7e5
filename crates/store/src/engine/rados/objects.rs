//! Objects of any length, over objects of the cluster, which have an end.
//!
//! A stripe is kept in chunks, `<file>.<stripe>.<chunk>`. The first one has an attribute that says
//! how many there may be; it is raised before a new chunk is written to, so that what is missing
//! before the last chunk is a hole, and what is missing behind it is the end.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use afflux_librados::{Errno, Pool};
use bytes::Bytes;

use super::Shared;
use super::under_way::Ticket;
use crate::engine::{Answer, EngineError, ObjectId};
use crate::sync::lock;

/// Length of a chunk; a cluster takes objects of up to 128 MiB unless it was told otherwise.
pub(super) const CHUNK_BYTES: u64 = 16 << 20;
const CHUNKS: &CStr = c"afflux.chunks";
/// Digits of that attribute, whose order must be that of the numbers.
const DIGITS: usize = 8;
/// How many chunks of an object are removed at once.
const REMOVED_AT_ONCE: u32 = 64;
/// Of so many objects it is remembered how many chunks they have.
const REMEMBERED: usize = 4096;

/// How many chunks objects have at least; only of those that have more than one.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<ObjectId, u32>>);

impl Known {
    fn has(&self, object: ObjectId, chunks: u32) -> bool {
        chunks <= 1 || lock(&self.0).get(&object).is_some_and(|&known| known >= chunks)
    }

    fn learn(&self, object: ObjectId, chunks: u32) {
        let mut known = lock(&self.0);
        if known.len() >= REMEMBERED {
            // Whatever is forgotten costs one more request when it is met again.
            known.clear();
        }
        let least = known.entry(object).or_default();
        *least = chunks.max(*least);
    }

    fn forget(&self, object: ObjectId) {
        lock(&self.0).remove(&object);
    }
}

/// A part of a request, which lies in one chunk.
#[derive(Clone, Copy, Debug)]
struct Part {
    chunk: u32,
    offset_bytes: u64,
    length: usize,
}

/// The only part of a range that was checked by [`check`], if it has but one, as most have.
fn only_part(offset_bytes: u64, length: usize) -> Option<Part> {
    let (chunk, offset_bytes) = ((offset_bytes / CHUNK_BYTES) as u32, offset_bytes % CHUNK_BYTES);
    let fits = length > 0 && offset_bytes + length as u64 <= CHUNK_BYTES;
    fits.then_some(Part { chunk, offset_bytes, length })
}

/// The parts of a range that was checked by [`check`].
fn parts(offset_bytes: u64, length: usize) -> Vec<Part> {
    let end = offset_bytes + length as u64;
    let mut parts = Vec::with_capacity(1);
    let mut at = offset_bytes;
    while at < end {
        let offset_bytes = at % CHUNK_BYTES;
        let length = (end - at).min(CHUNK_BYTES - offset_bytes);
        let chunk = (at / CHUNK_BYTES) as u32;
        parts.push(Part { chunk, offset_bytes, length: length as usize });
        at += length;
    }
    parts
}

/// Refuses ranges that no object reaches.
pub(super) fn check(offset_bytes: u64, length: usize) -> Result<(), EngineError> {
    let most = CHUNK_BYTES * u64::from(u32::MAX);
    match offset_bytes.checked_add(length as u64) {
        Some(end) if end <= most => Ok(()),
        _ => Err(EngineError::Invalid(format!(
            "{length} bytes at {offset_bytes}: an object ends at {most} at the latest"
        ))),
    }
}

/// The name of a chunk's object.
#[derive(Clone, Copy)]
struct Name([u8; 64]);

impl Name {
    fn of(object: ObjectId, chunk: u32) -> Self {
        let mut text = [0; 64];
        // Three numbers of at most 16, 10 and 10 digits leave room for the zero byte at the end.
        let _ = write!(&mut text[..63], "{:x}.{}.{chunk}", object.file, object.stripe);
        Self(text)
    }
}

impl std::ops::Deref for Name {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// A request to an object, as it goes from one call of the library to the next.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Arc<Pool>,
    pub(super) ticket: Arc<Ticket>,
    pub(super) object: ObjectId,
}

impl Work {
    fn end(&self, outcome: Result<Answer, EngineError>) {
        self.shared.under_way.end(&self.ticket, outcome);
    }

    fn fail(&self, doing: &str, errno: Errno) {
        self.end(Err(self.shared.error(&self.pool, &self.ticket.server, doing, errno)));
    }

    /// Writes `data`, whose range was checked.
    pub(super) fn write(self, offset_bytes: u64, data: Bytes) {
        if let Some(part) = only_part(offset_bytes, data.len())
            && self.shared.known.has(self.object, part.chunk + 1)
        {
            self.write_part(&part, &data);
            return;
        }
        let parts = parts(offset_bytes, data.len());
        let chunks = parts.last().map_or(0, |part| part.chunk + 1);
        if self.shared.known.has(self.object, chunks) {
            self.write_parts(&parts, &data);
            return;
        }
        let work = self.clone();
        self.raise(chunks, move || work.write_parts(&parts, &data));
    }

    /// Notes that there may be so many chunks, then goes on.
    fn raise(&self, chunks: u32, then: impl FnOnce() + Send + 'static) {
        let work = self.clone();
        let raised = move |raised: Result<bool, Errno>| match raised {
            Ok(_) => {
                work.shared.known.learn(work.object, chunks);
                then();
            }
            Err(Errno::NOENT) if work.pool.exists() => work.create(chunks, then),
            Err(errno) => work.fail("note a new chunk", errno),
        };
        let (head, value) = (Name::of(self.object, 0), digits(chunks));
        self.ticket.add(self.pool.raise_attribute(&head, CHUNKS, value.as_bytes(), raised));
    }

    /// Makes the first chunk, for an object that begins with a hole.
    fn create(&self, chunks: u32, then: impl FnOnce() + Send + 'static) {
        let work = self.clone();
        let created = move |created: Result<bool, Errno>| match created {
            // Whoever was faster may have noted fewer.
            Ok(_) => work.raise(chunks, then),
            Err(errno) => work.fail("make an object", errno),
        };
        let (head, value) = (Name::of(self.object, 0), digits(chunks));
        self.ticket.add(self.pool.create_with_attribute(&head, CHUNKS, value.as_bytes(), created));
    }

    fn write_part(&self, part: &Part, data: &Bytes) {
        let work = self.clone();
        let written = move |written: Result<(), Errno>| match written {
            Ok(()) => work.end(Ok(Answer::Done)),
            Err(errno) => work.fail("write", errno),
        };
        let object = Name::of(self.object, part.chunk);
        self.ticket.add(self.pool.write(&object, part.offset_bytes, data, written));
    }

    fn write_parts(&self, parts: &[Part], data: &Bytes) {
        if parts.is_empty() || self.ticket.has_ended() {
            self.end(Ok(Answer::Done));
            return;
        }
        let left = Arc::new(AtomicUsize::new(parts.len()));
        let mut start = 0;
        for part in parts {
            let range: Range<usize> = start..start + part.length;
            start = range.end;
            let (work, left) = (self.clone(), Arc::clone(&left));
            let written = move |written: Result<(), Errno>| match written {
                // The last one that is well ends the request; one that is not ended it before.
                Ok(()) if left.fetch_sub(1, Ordering::AcqRel) > 1 => {}
                Ok(()) => work.end(Ok(Answer::Done)),
                Err(errno) => work.fail("write", errno),
            };
            let object = Name::of(self.object, part.chunk);
            let call = self.pool.write(&object, part.offset_bytes, &data[range], written);
            self.ticket.add(call);
        }
    }

    /// Reads a range that was checked, into `buffer` if that is all one part.
    pub(super) fn read(self, offset_bytes: u64, length: usize, mut buffer: Vec<u8>) {
        if let Some(part) = only_part(offset_bytes, length) {
            let work = self.clone();
            let read = move |piece: Vec<u8>| match piece.len() == part.length {
                true => work.end(Ok(Answer::Read(piece))),
                false => work.keep(&Reads::of(vec![part]), 0, piece),
            };
            self.read_part(&part, buffer, read);
            return;
        }
        let reads = Reads::of(parts(offset_bytes, length));
        if reads.parts.is_empty() {
            buffer.clear();
            self.end(Ok(Answer::Read(buffer)));
            return;
        }
        for (index, part) in reads.parts.iter().enumerate() {
            let (work, all) = (self.clone(), Arc::clone(&reads));
            let memory = std::mem::take(&mut buffer);
            self.read_part(part, memory, move |piece| work.keep(&all, index, piece));
        }
    }

    /// Reads one part; what is not there is empty.
    fn read_part(
        &self,
        part: &Part,
        mut memory: Vec<u8>,
        then: impl FnOnce(Vec<u8>) + Send + 'static,
    ) {
        memory.resize(part.length, 0);
        let work = self.clone();
        let read = move |read: Result<Vec<u8>, Errno>| match read {
            Ok(piece) => then(piece),
            Err(Errno::NOENT) if work.pool.exists() => then(Vec::new()),
            Err(errno) => work.fail("read", errno),
        };
        let object = Name::of(self.object, part.chunk);
        self.ticket.add(self.pool.read(&object, part.offset_bytes, memory, read));
    }

    /// Keeps what one part's read gave. The last one to come answers the request.
    fn keep(&self, reads: &Arc<Reads>, index: usize, piece: Vec<u8>) {
        let mut pieces = lock(&reads.pieces);
        pieces[index] = Some(piece);
        if pieces.iter().any(Option::is_none) {
            return;
        }
        let pieces: Vec<_> = std::mem::take(&mut *pieces).into_iter().flatten().collect();
        let is_short = |(part, piece): (&Part, &Vec<u8>)| piece.len() < part.length;
        if !reads.parts.iter().zip(&pieces).any(is_short) {
            self.end(Ok(Answer::Read(joined(&reads.parts, pieces, 0))));
            return;
        }
        // Only the number of chunks tells a hole from the end.
        let (work, reads) = (self.clone(), Arc::clone(reads));
        self.count_chunks(move |chunks| {
            work.end(Ok(Answer::Read(joined(&reads.parts, pieces, chunks))));
        });
    }

    /// How many chunks there may be; zero when there is no object.
    fn count_chunks(&self, then: impl FnOnce(u32) + Send + 'static) {
        let work = self.clone();
        let told = move |value: Result<Vec<u8>, Errno>| match value {
            Ok(value) => match read_count(&value) {
                Some(chunks) => then(chunks),
                None => work.end(Err(EngineError::Io {
                    server: work.ticket.server.to_string(),
                    what: format!("{:?} has an attribute that is not ours", work.object),
                })),
            },
            Err(Errno::NODATA) => then(1),
            Err(Errno::NOENT) if work.pool.exists() => then(0),
            Err(errno) => work.fail("count the chunks of an object", errno),
        };
        self.ticket.add(self.pool.attribute(&Name::of(self.object, 0), CHUNKS, DIGITS, told));
    }

    /// Removes all chunks, the first one last: as long as it is there, so are its words about the
    /// others, and a removal that was cut short can be made again.
    pub(super) fn remove(self) {
        self.shared.known.forget(self.object);
        let work = self.clone();
        self.count_chunks(move |chunks| work.remove_below(chunks));
    }

    fn remove_below(self, chunks: u32) {
        if chunks == 0 || self.ticket.has_ended() {
            self.end(Ok(Answer::Done));
            return;
        }
        let first = if chunks == 1 { 0 } else { chunks.saturating_sub(REMOVED_AT_ONCE).max(1) };
        let left = Arc::new(AtomicUsize::new((chunks - first) as usize));
        for chunk in first..chunks {
            let (work, left) = (self.clone(), Arc::clone(&left));
            let removed = move |removed: Result<(), Errno>| match removed {
                Err(errno) if errno != Errno::NOENT || !work.pool.exists() => {
                    work.fail("remove", errno);
                }
                _ if left.fetch_sub(1, Ordering::AcqRel) > 1 => {}
                _ => work.remove_below(first),
            };
            self.ticket.add(self.pool.remove(&Name::of(self.object, chunk), removed));
        }
    }
}

/// The parts of a read, and what they gave so far.
#[derive(Debug)]
struct Reads {
    parts: Vec<Part>,
    pieces: Mutex<Vec<Option<Vec<u8>>>>,
}

impl Reads {
    fn of(parts: Vec<Part>) -> Arc<Self> {
        let pieces = Mutex::new(vec![None; parts.len()]);
        Arc::new(Self { parts, pieces })
    }
}

fn digits(chunks: u32) -> String {
    format!("{chunks:0DIGITS$x}")
}

fn read_count(value: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(value).ok()?, 16).ok()
}

/// Puts pieces together. What is missing of one is a hole if there are chunks behind it.
fn joined(parts: &[Part], pieces: Vec<Vec<u8>>, chunks: u32) -> Vec<u8> {
    let mut data = Vec::new();
    let mut length = 0;
    for (part, piece) in parts.iter().zip(pieces) {
        let is_short = piece.len() < part.length;
        if data.is_empty() {
            data = piece;
        } else {
            data.extend_from_slice(&piece);
        }
        length += part.length;
        if is_short && part.chunk + 1 >= chunks {
            return data;
        }
        data.resize(length, 0);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_chunks() {
        let cut = |offset, length| -> Vec<_> {
            let parts = parts(offset, length).into_iter();
            parts.map(|part| (part.chunk, part.offset_bytes, part.length)).collect()
        };
        let last = CHUNK_BYTES - 1;
        assert_eq!(cut(5, 10), [(0, 5, 10)]);
        for (offset, length) in [(5, 10), (CHUNK_BYTES, 1), (0, CHUNK_BYTES as usize), (3, 0)] {
            let only =
                only_part(offset, length).map(|part| (part.chunk, part.offset_bytes, part.length));
            assert_eq!(only.as_slice(), cut(offset, length));
        }
        assert!(only_part(CHUNK_BYTES - 1, 2).is_none());
        assert_eq!(cut(last, 3), [(0, last, 1), (1, 0, 2)]);
        assert_eq!(cut(CHUNK_BYTES, 0), []);
        let chunk = CHUNK_BYTES as usize;
        assert_eq!(cut(last, chunk + 2), [(0, last, 1), (1, 0, chunk), (2, 0, 1)]);
        assert!(check(CHUNK_BYTES * u64::from(u32::MAX) - 1, 1).is_ok());
        assert!(check(CHUNK_BYTES * u64::from(u32::MAX), 1).is_err());
        assert!(check(u64::MAX, 1).is_err());
    }

    #[test]
    fn what_is_missing_is_a_hole_or_the_end() {
        let parts = parts(CHUNK_BYTES - 2, CHUNK_BYTES as usize + 4);
        assert_eq!(parts.len(), 3);
        let whole = vec![1; CHUNK_BYTES as usize];
        let read =
            |pieces: [&[u8]; 3], chunks| joined(&parts, pieces.map(<[u8]>::to_vec).into(), chunks);
        assert_eq!(read([&[1], &[], &[]], 1), [1], "the first chunk is the last");
        assert_eq!(read([&[], &[], &[]], 0), b"");
        let holes = read([&[1], &[], &[9]], 3);
        assert_eq!(holes.len(), CHUNK_BYTES as usize + 3, "the last one is short by one");
        assert_eq!((holes[..3].to_vec(), holes.last()), (vec![1, 0, 0], Some(&9)));
        let full = read([&[1, 1], &whole, &[9, 9]], 3);
        assert!(full.len() == CHUNK_BYTES as usize + 4 && full.iter().all(|&byte| byte > 0));
    }
}
