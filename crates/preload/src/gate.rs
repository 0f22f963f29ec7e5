//! The passage of a call that moves bytes: whether it reaches a server, the places in the windows
//! of its paths, and what is counted.
//!
//! The program's own call is made outside of everything that can fail, exactly once, and what it
//! returns is returned. A call that holds places cannot be cancelled until it has given them back;
//! one that holds none runs in a frame without destructors, through which a cancelled thread may
//! unwind.

use std::ffi::c_int;

use afflux_core::class::Class;
use afflux_core::limits::HoldReason;
use afflux_core::path::HoldTotals;
use afflux_core::units::{Span, Time};
use afflux_node::calls::{Call, Cause, Kind, Moves};
use afflux_node::shared::Refused;
use afflux_node::tally::Ended;
use afflux_node::{clock, signals};

use crate::cache::{self, Answer, Reading};
use crate::descriptors::{Descriptor, Seen};
use crate::places::{self, Server};
use crate::run::{self, Mode, Run};
use crate::thread::{self, Left};
use crate::{behind, look, raw};

/// A call that moves bytes of one descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) call: Call,
    pub(crate) fd: c_int,
    /// Where in the file; the descriptor's own position when `None`.
    pub(crate) offset: Option<u64>,
    pub(crate) bytes: usize,
    /// Whether this call alone is synchronous (flags of `pwritev2`).
    pub(crate) synchronous: bool,
    /// Whether this call alone must not wait.
    pub(crate) impatient: bool,
    /// The program's list of buffers, if it has one; its length is then not in `bytes`.
    pub(crate) list: Option<(*const libc::iovec, c_int)>,
    /// Whether a read into that list may be tried before it is made.
    pub(crate) is_triable: bool,
}

impl Transfer {
    /// One at the descriptor's own position.
    pub(crate) const fn here(call: Call, fd: c_int, bytes: usize) -> Self {
        Self {
            call,
            fd,
            offset: None,
            bytes,
            synchronous: false,
            impatient: false,
            list: None,
            is_triable: false,
        }
    }

    /// Its length.
    fn length(&self) -> usize {
        match self.list {
            Some((list, count)) if self.bytes == 0 => raw::bytes_of(list, count),
            _ => self.bytes,
        }
    }
}

/// Makes the call, regulated and counted.
///
/// # Safety
/// `transfer.list` must be that of the call.
#[inline]
pub(crate) unsafe fn pass(transfer: &Transfer, real: impl FnOnce() -> isize) -> isize {
    let Some(run) = run::active() else { return real() };
    let Some((row, seen)) = look::at(transfer.fd) else {
        let result = real();
        beyond(transfer, result);
        return result;
    };
    if !seen.is_regulated() {
        let result = real();
        run::count(transfer.call, seen.kind(), result);
        return result;
    }
    let result = match course(transfer, row, seen) {
        Course::Remote => return through(transfer, row, seen, real),
        Course::Made(result) => result,
        Course::Local => real(),
        Course::Clocked(since) => {
            let result = real();
            clocked(row, since, result);
            result
        }
    };
    after_local(run, transfer, row, seen, result);
    result
}

/// A call that reaches servers: it holds places, and is not cancelled while it does.
#[inline(never)]
fn through(
    transfer: &Transfer,
    row: &'static Descriptor,
    seen: Seen,
    real: impl FnOnce() -> isize,
) -> isize {
    let mut passing = Passing::none();
    let entry = Entry { course: Course::Remote, holds: thread::hold_cancellation() };
    remote(transfer, seen, &mut passing);
    let result = real();
    leave(&entry, &mut passing, transfer, row, seen, result);
    result
}

/// A call on a descriptor that no table has room for.
#[cold]
fn beyond(transfer: &Transfer, result: isize) {
    run::count(transfer.call, Kind::Other, result);
    if transfer.fd >= 0 {
        run::tally().escape(Cause::HighDescriptor, result.max(0) as u64);
    }
}

/// A regulated call that is about to be made; [`leave`] must be told of its end.
pub(crate) struct Entry {
    course: Course,
    /// Whether it holds cancellation back.
    holds: bool,
}

/// What a regulated call will be.
enum Course {
    /// It reaches no server, and is counted.
    Local,
    /// The same; how long it takes, from this tick on, tells whether it was cached.
    Clocked(u64),
    /// It was made already, while it was found out.
    Made(isize),
    /// It reaches servers.
    Remote,
}

/// Prepares a regulated call: waits for its places, kept in `passing`, where it needs any. Until
/// its end the thread is not cancelled.
#[inline]
pub(crate) fn enter(
    transfer: &Transfer,
    row: &Descriptor,
    seen: Seen,
    passing: &mut Passing,
) -> Entry {
    let holds = thread::hold_cancellation();
    let course = course(transfer, row, seen);
    if matches!(course, Course::Remote) {
        remote(transfer, seen, passing);
    }
    Entry { course, holds }
}

/// Counts a regulated call that returned `result`, and gives its places back.
#[inline]
pub(crate) fn leave(
    entry: &Entry,
    passing: &mut Passing,
    transfer: &Transfer,
    row: &'static Descriptor,
    seen: Seen,
    result: isize,
) {
    if let Course::Clocked(since) = entry.course {
        clocked(row, since, result);
    }
    if let Course::Remote = entry.course {
        run::count(transfer.call, Kind::Regulated, result);
        run::hook((), |run| passing.leave(run, result));
    } else if let Some(run) = run::active() {
        after_local(run, transfer, row, seen, result);
    }
    if entry.holds {
        thread::allow_cancellation();
    }
}

/// Notes how long a call took that began at the tick `since`.
#[inline]
fn clocked(row: &Descriptor, since: u64, result: isize) {
    cache::clocked(row, raw::ticks().wrapping_sub(since), result.max(0) as u64);
}

#[inline]
fn course(transfer: &Transfer, row: &Descriptor, seen: Seen) -> Course {
    if seen.is_direct() {
        return Course::Remote;
    }
    if transfer.call.class().moves != Moves::In {
        let synchronous = seen.is_synchronous() || transfer.synchronous;
        return if synchronous { Course::Remote } else { Course::Local };
    }
    if transfer.impatient {
        return Course::Local;
    }
    if cache::is_warm(row) {
        return Course::Clocked(raw::ticks());
    }
    asked(transfer, row)
}

/// What a read will be, as the kernel tells. The thread is not cancelled meanwhile.
#[inline(never)]
fn asked(transfer: &Transfer, row: &Descriptor) -> Course {
    let list = if transfer.is_triable { transfer.list } else { None };
    let answer = uncancelled(|| {
        run::hook(Answer::Warm, |_| {
            let (fd, offset, bytes) = (transfer.fd, transfer.offset, transfer.length());
            cache::ask(row, &Reading { fd, offset, bytes, list })
        })
    });
    match answer {
        Answer::Warm => Course::Clocked(raw::ticks()),
        Answer::Cached => Course::Local,
        Answer::Read(result) => Course::Made(result),
        Answer::Missing => Course::Remote,
    }
}

/// Counts a call that reached no server.
#[inline]
fn after_local(
    run: &Run,
    transfer: &Transfer,
    row: &'static Descriptor,
    seen: Seen,
    result: isize,
) {
    run::count(transfer.call, Kind::Regulated, result);
    if result <= 0 {
        return;
    }
    let bytes = result as u64;
    moved(run, class_of(transfer.call), seen.place(), transfer.offset.unwrap_or(0), bytes);
    if transfer.call.class().moves == Moves::Out {
        wrote(run, row, seen, transfer.fd, transfer.offset, bytes);
    }
}

/// Notes bytes that were written into the page cache.
pub(crate) fn wrote(
    run: &Run,
    row: &'static Descriptor,
    seen: Seen,
    fd: c_int,
    offset: Option<u64>,
    bytes: u64,
) {
    row.unsynced.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
    if run.mode == Mode::WriteBehind {
        uncancelled(|| behind::wrote(fd, seen, offset, bytes));
    }
}

/// Does work during which the thread is not cancelled.
pub(crate) fn uncancelled<R>(work: impl FnOnce() -> R) -> R {
    let holds = thread::hold_cancellation();
    let result = work();
    if holds {
        thread::allow_cancellation();
    }
    result
}

/// Counts bytes on the path of the first server that they touch.
#[inline]
pub(crate) fn moved(run: &Run, class: Class, place: u16, offset: u64, bytes: u64) {
    let server = places::first(place, offset);
    if let Some(block) = server.block(class) {
        run::tally().moved(block, run::second(run), bytes);
    }
}

fn class_of(call: Call) -> Class {
    if call.class().moves == Moves::In { Class::Read } else { Class::Write }
}

/// A call that reaches servers takes a place on each path that it touches, in the order of the
/// servers so that two calls never wait for each other. It is never cut, since a program may count
/// on a call being one.
fn remote(transfer: &Transfer, seen: Seen, passing: &mut Passing) {
    run::hook((), |run| {
        let needs_place = transfer.offset.is_none() && places::is_striped(seen.place());
        let position = if needs_place { raw::position(transfer.fd) } else { None };
        let offset = transfer.offset.or(position).unwrap_or(0);
        passing.enter(run, class_of(transfer.call), seen, offset, transfer.length() as u64);
    });
}

/// The program is about to leave by a long jump whatever it is doing, which in a signal handler may
/// be a call that waits for its places, or has them: they are given back as if nothing had been
/// sent. A jump within the handler leaves nothing of ours, and the call goes on as ever.
#[inline]
pub(crate) fn jumps(to: impl Fn() -> usize) {
    let left = thread::left_by(to);
    if left.work || left.call {
        jumped(left);
    }
}

#[cold]
fn jumped(left: Left) {
    let _quiet = signals::hold_back();
    let shared = || run::active().and_then(|run| run.shared.as_ref());
    if left.work {
        thread::leave_work();
        run::hook((), |_| _ = shared().inspect(|shared| shared.abandon()));
    }
    if left.call {
        run::hook((), |_| {
            while let Some(shared) = shared().filter(|shared| !shared.is_empty_handed()) {
                shared.put_back();
            }
        });
        thread::allow_cancellation();
    }
}

/// Paths on which one request takes places; a wider one takes them on the first of its servers.
const WIDE: usize = 8;

/// A request on its way, or none. Its places are in the thread's hand.
pub(crate) struct Passing {
    class: Class,
    first: Option<Server>,
    sent: Time,
    places: u8,
}

impl Passing {
    /// Nothing is on its way.
    #[inline]
    pub(crate) const fn none() -> Self {
        Self { class: Class::Write, first: None, sent: Time::ZERO, places: 0 }
    }

    /// Takes the places, or goes without where there are none to be had.
    pub(crate) fn enter(
        &mut self,
        run: &'static Run,
        class: Class,
        seen: Seen,
        offset: u64,
        bytes: u64,
    ) {
        (self.class, self.sent) = (class, clock::now());
        self.first = Some(places::first(seen.place(), offset));
        let Some(shared) = &run.shared else { return };
        if !shared.is_empty_handed() {
            // A signal handler has interrupted a request that it would wait for.
            run::tally().escape(Cause::InSignal, bytes);
            return;
        }
        let waits = !seen.is_non_blocking();
        match self.first {
            Some(server) if !places::is_striped(seen.place()) => {
                self.take(run, server, bytes, waits)
            }
            _ => {
                let touched = places::touched(seen.place(), offset, bytes);
                let each = bytes / touched.servers().len().max(1) as u64;
                let servers = touched.servers().iter().take(WIDE);
                servers.for_each(|server| self.take(run, *server, each, waits));
            }
        }
        if !waits {
            run::tally().escape(Cause::NonBlocking, bytes);
        }
    }

    #[inline]
    fn take(&mut self, run: &'static Run, server: Server, bytes: u64, waits: bool) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(sent) = take(run, server, self.class, self.sent, bytes, waits) {
            (self.sent, self.places) = (sent, self.places + 1);
        }
    }

    /// Gives the places back and counts what came of the request. One that failed says nothing of
    /// the time that a server takes; its places are given back as if it had not been sent.
    pub(crate) fn leave(&mut self, run: &Run, result: isize) {
        match u64::try_from(result) {
            Ok(bytes) => self.answered(run, bytes, true),
            Err(_) => self.put_back(run),
        }
    }

    /// The same for a call that made `bytes` durable, which were counted when they were written.
    pub(crate) fn leave_durable(&mut self, run: &Run, result: isize, bytes: u64) {
        match result {
            0.. => self.answered(run, bytes, false),
            _ => self.put_back(run),
        }
    }

    fn answered(&mut self, run: &Run, bytes: u64, moves: bool) {
        let now = clock::now();
        let mut rule = None;
        if let Some(shared) = &run.shared {
            for _ in 0..std::mem::take(&mut self.places) {
                // The last is that of the first server, whose rule is the one that is counted.
                rule = shared.answer(now).and_then(|ruling| ruling.rule).or(rule);
            }
        }
        let block = self.first.and_then(|server| server.block(self.class));
        if let Some(block) = block {
            let process_time = now.since(self.sent);
            run::ended(block, &Ended { bytes, process_time, rule });
            if moves {
                run::tally().moved(block, run::second_of(run, now), bytes);
            }
        }
    }

    fn put_back(&mut self, run: &Run) {
        if let Some(shared) = &run.shared {
            (0..std::mem::take(&mut self.places)).for_each(|_| shared.put_back());
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.places > 0 {
            run::hook((), |run| self.put_back(run));
        }
    }
}

/// Asks for a place on one path, for the thread's hand, and when the request was admitted. Whatever
/// is refused goes all the same.
pub(crate) fn take(
    run: &'static Run,
    server: Server,
    class: Class,
    now: Time,
    size_bytes: u32,
    waits: bool,
) -> Option<Time> {
    let shared = run.shared.as_ref()?;
    let mut path = server.path(run, class)?;
    let deadline = if waits { now + run.patience } else { now };
    let mut holds = HoldTotals::default();
    let mut sent = None;
    for _ in 0..2 {
        match shared.take(path, now, size_bytes, deadline, &mut holds) {
            Ok(at) => sent = Some(at),
            Err(Refused::Gone) => {
                path = server.ask_path(run, class)?;
                continue;
            }
            Err(Refused::Deadline | Refused::Busy | Refused::Memory) => {}
        }
        break;
    }
    // A request that was let in at once was not held.
    if sent != Some(now) {
        count_holds(server, class, &holds);
    }
    sent
}

#[cold]
fn count_holds(server: Server, class: Class, holds: &HoldTotals) {
    let Some(block) = server.block(class) else { return };
    for reason in HoldReason::ALL {
        let held = holds.held_nanos[reason.index()];
        if held > 0 || holds.holds[reason.index()] > 0 {
            run::tally().held(block, reason, Span::from_nanos(held));
        }
    }
}
