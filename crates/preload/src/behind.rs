//! Write-behind: what a program writes into the page cache is sent to the server in full-size parts
//! while the program goes on, a window's worth at a time.
//!
//! After each full part its write-back is started, and it keeps a place in the window of its path
//! until it is on the server. Is the window full, the writer waits for the oldest of its own parts.
//! So the kernel never has more of the program's data to write at once than the window allows, and
//! a final `fsync` finds nearly nothing to do. Data is written by the kernel as ever: nothing is
//! kept, copied or put in another order here.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use afflux_core::class::Class;
use afflux_core::path::Ruling;
use afflux_core::units::{Span, Time};
use afflux_node::shared::{Shared, Slot};
use afflux_node::tally::Ended;
use afflux_node::{clock, signals};

use crate::descriptors::{self, Descriptor, Seen};
use crate::places::Server;
use crate::run::{self, Run};
use crate::{cache, gate, places, raw};

/// Bytes of a full part, which is the largest request.
const PART: u64 = 1 << 20;

/// Parts of one process that are under way at once.
const PARTS: usize = 256;

/// A part whose write-back was started.
struct Part {
    fd: c_int,
    offset: u64,
    bytes: u64,
    server: Server,
    slot: Slot<'static>,
}

/// What tells a part from others: its descriptor, where it lies, its bytes, when it was sent.
type Key = (c_int, u64, u64, Time);

impl Part {
    fn key(&self) -> Key {
        (self.fd, self.offset, self.bytes, self.slot.sent())
    }
}

/// Oldest first among those of a descriptor. Taken by attempt only: who finds it taken goes
/// without, so that nobody waits for it, in a signal handler or after a fork.
static UNDER_WAY: Mutex<[Option<Part>; PARTS]> = Mutex::new([const { None }; PARTS]);

/// How many parts there are, so that those who have none need not look.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes note of bytes written into the page cache, at `offset` or just before the descriptor's
/// position.
pub(crate) fn wrote(fd: c_int, seen: Seen, offset: Option<u64>, bytes: u64) {
    let Some(row) = descriptors::row(fd) else { return };
    if let Some((from, to)) = full_parts(row, fd, offset, bytes) {
        run::hook((), |run| {
            let mut at = from;
            while at < to {
                let end = ((at / PART + 1) * PART).min(to);
                start(run, fd, seen, at, end - at);
                at = end;
            }
        });
    }
}

/// The full parts, if any, that these bytes complete; parts end where multiples of their size are.
fn full_parts(row: &Descriptor, fd: c_int, offset: Option<u64>, bytes: u64) -> Option<(u64, u64)> {
    let before = row.row_bytes.load(Relaxed);
    let follows = match offset {
        Some(offset) => row.row_start.load(Relaxed).wrapping_add(before) == offset,
        None => true,
    };
    if let (false, Some(offset)) = (follows, offset) {
        row.row_start.store(offset, Relaxed);
    }
    let in_a_row = if follows { before + bytes } else { bytes };
    row.row_bytes.store(in_a_row, Relaxed);
    if in_a_row < PART {
        return None;
    }
    let end = match offset {
        Some(offset) => offset + bytes,
        None => raw::position(fd)?,
    };
    let (start, whole) = (end.saturating_sub(in_a_row), end / PART * PART);
    row.row_start.store(whole.max(start), Relaxed);
    row.row_bytes.store(end - whole.max(start), Relaxed);
    (whole > start).then_some((start, whole))
}

/// Starts the write-back of a part, once there is room in the window.
fn start(run: &'static Run, fd: c_int, seen: Seen, offset: u64, bytes: u64) {
    let server = places::first(seen.place(), offset);
    settle(fd, false);
    let ask = |waits| gate::take(run, server, Class::Write, clock::now(), bytes as u32, waits);
    let sent = loop {
        if let Some(sent) = ask(false) {
            break Some(sent);
        }
        // The window is full: of our own parts, or of others' requests.
        if !finish_oldest(|part| part.server == server) {
            break ask(true);
        }
    };
    // Where there is no room for it among the parts, it is waited for with its place in the hand.
    if let (Some(sent), Some(shared)) = (sent, &run.shared)
        && !keep(shared, |slot| Part { fd, offset, bytes, server, slot })
    {
        write_out(fd, offset, bytes);
        let now = clock::now();
        count(server, bytes, now.since(sent), shared.answer(now));
        return;
    }
    raw::sync_range(fd, offset, bytes, libc::SYNC_FILE_RANGE_WRITE);
}

/// Waits until the oldest `wanted` part is on the server, and gives its place back. False when
/// there is none. It stays among the others meanwhile: a signal handler may jump out of the wait.
fn finish_oldest(wanted: impl Fn(&Part) -> bool) -> bool {
    let Some(oldest) = key_of_oldest(wanted) else { return false };
    let (fd, offset, bytes, _) = oldest;
    write_out(fd, offset, bytes);
    // Another thread may have been here before.
    end(oldest);
    true
}

/// Waits until a range of a file is on the server.
fn write_out(fd: c_int, offset: u64, bytes: u64) {
    let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    raw::sync_range(fd, offset, bytes, all);
}

/// Keeps a part that is made of the last place in the thread's hand, unless there is no room.
fn keep(shared: &'static Shared, part: impl FnOnce(Slot<'static>) -> Part) -> bool {
    let _quiet = signals::hold_back();
    let Ok(mut parts) = UNDER_WAY.try_lock() else { return false };
    let Some(room) = parts.iter_mut().find(|room| room.is_none()) else { return false };
    *room = shared.hand_over().map(part);
    COUNT.fetch_add(room.is_some().into(), Relaxed);
    room.is_some()
}

/// Gives the place of that part back, if it is still there.
fn end(key: Key) {
    let _quiet = signals::hold_back();
    let part = with_oldest(
        |part| part.key() == key,
        |place| {
            COUNT.fetch_sub(1, Relaxed);
            place.take()
        },
    );
    if let Some(part) = part.flatten() {
        let now = clock::now();
        let process_time = now.since(part.slot.sent());
        count(part.server, part.bytes, process_time, part.slot.reply(now));
    }
}

/// Counts a part that is on the server.
fn count(server: Server, bytes: u64, process_time: Span, ruling: Option<Ruling>) {
    if let Some(block) = server.block(Class::Write) {
        let rule = ruling.and_then(|ruling| ruling.rule);
        run::ended(block, &Ended { bytes, process_time, rule });
    }
}

fn key_of_oldest(wanted: impl Fn(&Part) -> bool) -> Option<Key> {
    with_oldest(wanted, |place| place.as_ref().map(Part::key)).flatten()
}

/// Does something with the place of the oldest part that is `wanted`, if there is one. Signals are
/// held back meanwhile: a handler that left by a long jump would leave the parts locked.
fn with_oldest<R>(
    wanted: impl Fn(&Part) -> bool,
    work: impl FnOnce(&mut Option<Part>) -> R,
) -> Option<R> {
    if COUNT.load(Relaxed) == 0 {
        return None;
    }
    let _quiet = signals::hold_back();
    let mut parts = UNDER_WAY.try_lock().ok()?;
    let age =
        |place: &Option<Part>| place.as_ref().filter(|part| wanted(part)).map(|p| p.slot.sent());
    let oldest =
        parts.iter_mut().filter(|place| age(place).is_some()).min_by_key(|place| age(place))?;
    Some(work(oldest))
}

/// Gives back the places of all parts of a descriptor, or of those only that are on the server. The
/// kernel is asked with nothing held: a signal handler may jump out of that.
fn settle(fd: c_int, all: bool) {
    let mut after = Time::ZERO;
    while let Some(next) = key_of_oldest(|part| part.fd == fd && part.slot.sent() > after) {
        after = next.3;
        if all || cache::unwritten(next.0, next.1, next.2) == Some(0) {
            end(next);
        }
    }
}

/// The program made the file durable: all of its parts are on the server.
pub(crate) fn synced(fd: c_int) {
    if COUNT.load(Relaxed) > 0 {
        run::hook((), |_| settle(fd, true));
    }
}

/// The program closes the descriptor: its parts are waited for, at most a window's worth, since
/// afterwards nobody could tell when they end.
pub(crate) fn closes(fd: c_int) {
    if COUNT.load(Relaxed) > 0 {
        run::hook((), |_| while finish_oldest(|part| part.fd == fd) {});
    }
}

/// In a forked child: the parts are its parent's.
pub(crate) fn forked() {
    if let Ok(mut parts) = UNDER_WAY.try_lock() {
        parts.iter_mut().filter_map(Option::take).for_each(std::mem::forget);
    }
    COUNT.store(0, Relaxed);
}
