//! Where regulated files lie: places, each a stretch of stripes over servers, and the servers'
//! paths. Both are tables that only grow, written once and then read without a lock.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

use afflux_core::class::Class;
use afflux_core::path::PathKey;
use afflux_node::placement::{Placement, readers};
use afflux_node::shared::PathId;
use afflux_node::tally::PathBlock;

use crate::run::{self, Run};
use crate::{mounts, raw};

/// Servers of one process, at most.
const SERVERS: usize = 256;
/// Different lists of servers, at most.
const PLACES: usize = 4096;
/// Servers of one place, at most; a file that is striped over more counts as if its mount were one
/// server.
pub(crate) const STRIPES: usize = 32;

/// Bytes of a server's name that are kept.
pub(crate) const NAME: usize = 112;

/// States of a row: nobody's, being written, there.
const FREE: u8 = 0;
const WRITTEN: u8 = 1;
const THERE: u8 = 2;

struct ServerRow {
    state: AtomicU8,
    name: [AtomicU64; NAME / 8],
    /// For reads and for writes: the words of the shared path, the first and one, 0 for none; and
    /// the block and one.
    paths: [[AtomicU64; 2]; 2],
    blocks: [AtomicU16; 2],
}

/// A stretch of stripes, and the place of the bytes behind it.
struct PlaceRow {
    state: AtomicU8,
    count: AtomicU8,
    next: AtomicU16,
    end: AtomicU64,
    unit_bytes: AtomicU64,
    servers: [AtomicU16; STRIPES],
}

static SERVER_ROWS: [ServerRow; SERVERS] = [const {
    ServerRow {
        state: AtomicU8::new(FREE),
        name: [const { AtomicU64::new(0) }; NAME / 8],
        paths: [const { [const { AtomicU64::new(0) }; 2] }; 2],
        blocks: [const { AtomicU16::new(0) }; 2],
    }
}; SERVERS];

static PLACE_ROWS: [PlaceRow; PLACES] = [const {
    PlaceRow {
        state: AtomicU8::new(FREE),
        count: AtomicU8::new(0),
        next: AtomicU16::new(0),
        end: AtomicU64::new(u64::MAX),
        unit_bytes: AtomicU64::new(1),
        servers: [const { AtomicU16::new(0) }; STRIPES],
    }
}; PLACES];

/// A server, by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Server(u16);

/// Which servers a request touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) servers: [Server; STRIPES],
    pub(crate) count: usize,
}

/// Finds the place of the file behind `fd`, which lies on the file system `device`; `None` when a
/// table is full.
pub(crate) fn find(fd: c_int, device: u64) -> Option<u16> {
    let mut text = [0; NAME];
    let mount = mounts::server_name(fd, device, &mut text);
    let kind = raw::file_system(fd)?;
    let mut buffer = [0; 8192];
    for reader in readers(kind) {
        let Some(bytes) = raw::attribute(fd, reader.attribute, &mut buffer) else { continue };
        let placement = (reader.read)(bytes);
        if let Some(place) = placement.ok().and_then(|placement| laid_out(&placement, mount)) {
            return Some(place);
        }
    }
    place_of(&[server_called(mount)?], u64::MAX, u64::MAX, None)
}

/// The place of a file with this placement; later stretches first, since each names the next.
fn laid_out(placement: &Placement<'_>, mount: &[u8]) -> Option<u16> {
    let mut next = None;
    for part in placement.parts().iter().rev() {
        let mut servers = [Server(0); STRIPES];
        let named = placement.servers(part);
        let into = servers.get_mut(..named.len())?;
        for (place, server) in into.iter_mut().zip(named) {
            *place = server_called(mounts::join(&mut [0; NAME], mount, server))?;
        }
        // Not yet known: the file system chooses them at the first write.
        let count = if named.is_empty() {
            servers[0] = server_called(mount)?;
            1
        } else {
            named.len()
        };
        next = Some(place_of(&servers[..count], part.unit_bytes, part.end, next)?);
    }
    next
}

/// The row of the server of that name.
fn server_called(name: &[u8]) -> Option<Server> {
    let mut words = [0; NAME / 8];
    for (word, bytes) in words.iter_mut().zip(name.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
    for (number, row) in SERVER_ROWS.iter().enumerate() {
        if row.state.load(Ordering::Acquire) == THERE {
            if row.name.iter().zip(words).all(|(word, value)| word.load(Ordering::Relaxed) == value)
            {
                return Some(Server(number as u16));
            }
        } else if claim(&row.state) {
            for (word, value) in row.name.iter().zip(words) {
                word.store(value, Ordering::Relaxed);
            }
            row.state.store(THERE, Ordering::Release);
            return Some(Server(number as u16));
        }
    }
    None
}

/// The row of such a place. Two threads may make it twice, which costs a row and nothing else.
fn place_of(servers: &[Server], unit: u64, end: u64, next: Option<u16>) -> Option<u16> {
    let next = next.map_or(0, |next| next + 1);
    for (number, row) in PLACE_ROWS.iter().enumerate() {
        if row.state.load(Ordering::Acquire) == THERE {
            let listed = &row.servers[..servers.len().min(STRIPES)];
            let same = usize::from(row.count.load(Ordering::Relaxed)) == servers.len()
                && row.unit_bytes.load(Ordering::Relaxed) == unit
                && row.end.load(Ordering::Relaxed) == end
                && row.next.load(Ordering::Relaxed) == next
                && listed.iter().zip(servers).all(|(a, b)| a.load(Ordering::Relaxed) == b.0);
            if same {
                return Some(number as u16);
            }
        } else if claim(&row.state) {
            row.count.store(servers.len() as u8, Ordering::Relaxed);
            row.unit_bytes.store(unit, Ordering::Relaxed);
            row.end.store(end, Ordering::Relaxed);
            row.next.store(next, Ordering::Relaxed);
            for (place, server) in row.servers.iter().zip(servers) {
                place.store(server.0, Ordering::Relaxed);
            }
            row.state.store(THERE, Ordering::Release);
            return Some(number as u16);
        }
    }
    None
}

fn claim(state: &AtomicU8) -> bool {
    state.compare_exchange(FREE, WRITTEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// The servers of `length` bytes at `offset` of a file in `place`, in ascending order and each
/// once.
pub(crate) fn touched(mut place: u16, offset: u64, length: u64) -> Touched {
    let mut touched = Touched { servers: [Server(0); STRIPES], count: 0 };
    if !is_striped(place) {
        touched.insert(first(place, offset));
        return touched;
    }
    let end = offset.saturating_add(length.max(1));
    let mut at = offset;
    while let Some(row) = PLACE_ROWS.get(usize::from(place)) {
        let part_end = row.end.load(Ordering::Relaxed).min(end);
        let unit = row.unit_bytes.load(Ordering::Relaxed).max(1);
        let count = u64::from(row.count.load(Ordering::Relaxed).max(1));
        // After one round over the stripes all of them are touched.
        for _ in 0..count {
            if at >= part_end {
                break;
            }
            let stripe = at / unit % count;
            let server = row.servers[stripe as usize % STRIPES].load(Ordering::Relaxed);
            touched.insert(Server(server));
            at = (at / unit).saturating_add(1).saturating_mul(unit);
        }
        let next = row.next.load(Ordering::Relaxed);
        if part_end >= end || next == 0 {
            break;
        }
        (place, at) = (next - 1, part_end.max(offset));
    }
    touched
}

/// The server of the byte at `offset` of a file in `place`.
#[inline]
pub(crate) fn first(place: u16, offset: u64) -> Server {
    match PLACE_ROWS.get(usize::from(place)) {
        Some(row) if row.count.load(Ordering::Relaxed) == 1 => {
            Server(row.servers[0].load(Ordering::Relaxed))
        }
        _ => touched(place, offset, 1).servers[0],
    }
}

/// Whether it matters where in a file of this place a request lies.
#[inline]
pub(crate) fn is_striped(place: u16) -> bool {
    let row = PLACE_ROWS.get(usize::from(place));
    row.is_some_and(|row| {
        row.count.load(Ordering::Relaxed) > 1
            || row.next.load(Ordering::Relaxed) > 0
            || row.end.load(Ordering::Relaxed) < u64::MAX
    })
}

impl Touched {
    fn insert(&mut self, server: Server) {
        let found = self.servers[..self.count].binary_search_by_key(&server.0, |known| known.0);
        if let Err(at) = found
            && self.count < STRIPES
        {
            self.servers.copy_within(at..self.count, at + 1);
            self.servers[at] = server;
            self.count += 1;
        }
    }

    /// The servers.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers[..self.count]
    }
}

/// Reads and writes have paths of their own.
const fn lane(class: Class) -> usize {
    match class {
        Class::Read => 0,
        _ => 1,
    }
}

/// In a forked child that has no room for its parent's blocks: they are asked for again.
pub(crate) fn forget_blocks() {
    let blocks = SERVER_ROWS.iter().flat_map(|row| &row.blocks);
    blocks.for_each(|block| block.store(0, Ordering::Relaxed));
}

impl Server {
    fn row(self) -> Option<&'static ServerRow> {
        SERVER_ROWS.get(usize::from(self.0))
    }

    /// Its path under the shared controllers.
    pub(crate) fn path(self, run: &Run, class: Class) -> Option<PathId> {
        let kept = &self.row()?.paths[lane(class)];
        match kept[0].load(Ordering::Acquire) {
            0 => self.ask_path(run, class),
            first => Some(PathId::from_words([first - 1, kept[1].load(Ordering::Relaxed)])),
        }
    }

    /// Asks for its path, at first and when it is gone.
    #[cold]
    pub(crate) fn ask_path(self, run: &Run, class: Class) -> Option<PathId> {
        let shared = run.shared.as_ref()?;
        let mut text = [0; NAME];
        let name = std::str::from_utf8(self.name(&mut text)).ok()?;
        let server = shared.name(name).ok()?;
        let path = shared.path(PathKey { server, class, tenant: run.tenant }).ok()?;
        let (kept, words) = (&self.row()?.paths[lane(class)], path.words());
        kept[1].store(words[1], Ordering::Relaxed);
        kept[0].store(words[0] + 1, Ordering::Release);
        Some(path)
    }

    /// Its block among the counters.
    pub(crate) fn block(self, class: Class) -> Option<PathBlock> {
        let kept = &self.row()?.blocks[lane(class)];
        match kept.load(Ordering::Relaxed) {
            0 => {
                let mut text = [0; NAME];
                let block = run::tally().path(class, self.name(&mut text), raw::back)?;
                kept.store(block.number() + 1, Ordering::Relaxed);
                Some(block)
            }
            number => Some(PathBlock::of(number - 1)),
        }
    }

    fn name(self, text: &mut [u8; NAME]) -> &[u8] {
        let Some(row) = self.row() else { return &[] };
        for (bytes, word) in text.chunks_mut(8).zip(&row.name) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        &text[..end]
    }
}
