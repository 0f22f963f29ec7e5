//! Waiting in turn.
//!
//! Think of a baker's shop with tickets. Who waits takes a seat and a ticket; the least ticket is
//! called when something becomes free; who comes in while others wait takes a seat, too. Seats are
//! no locks: somebody who was called and does not come (dead, or stopped) is passed over by the
//! next in line after [`PATIENCE`], and sits down again with the old ticket if ever back.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use afflux_core::units::{Span, Time};
use rustix::thread::futex;

use super::Shared;
use super::image::{PATHS, SEATS, Seat};
use super::paths;
use super::thread::Thread;
use crate::{clock, signals};

/// After so long the next in line looks whether the first is asleep.
const PATIENCE: Span = Span::from_millis(10);

/// After so long, doubled each time up to [`LOOK_MAX`], the first in line looks in uncalled.
const LOOK: Span = Span::from_millis(100);
const LOOK_MAX: Span = Span::from_secs(1);

/// A seat that is taken.
pub(super) struct Sitting<'a> {
    shared: &'a Shared,
    thread: &'a Thread,
    path: usize,
    number: usize,
    ticket: u64,
    look: Span,
}

/// Where a thread sits.
#[derive(Clone, Copy)]
pub(super) struct Seated {
    path: usize,
    number: usize,
    ticket: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// It was called, or a signal came.
    Early,
    /// It slept as long as it wanted to.
    Late,
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        let _quiet = signals::hold_back();
        self.thread.seat.set(None);
        self.shared.leave_seat(self.path, self.number);
    }
}

impl Sitting<'_> {
    fn seat(&self) -> &'static Seat {
        &self.shared.memory.image.seats[self.path][self.number]
    }

    /// How many wait before this one; it sits down again if it was passed over.
    pub(super) fn rank(&self) -> usize {
        let bit = 1 << (self.number % 64);
        let word = &self.shared.memory.image.paths[self.path].waiting[self.number / 64];
        if word.load(SeqCst) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
        self.shared.seated(self.path).filter(|(_, ticket)| *ticket < self.ticket).count()
    }

    /// Takes the place of the first, who did not come. Called all the same, it sits down again if
    /// it only was not told.
    pub(super) fn pass_over(&self) {
        if let Some((number, ticket)) = self.shared.first(self.path)
            && ticket < self.ticket
        {
            self.shared.stand_up(self.path, number);
            self.shared.call(self.path, number);
        }
    }

    /// Waits to be called, until `wake` at the latest, or until it is time to look after those in
    /// front, of whom there are `rank`.
    pub(super) fn wait(&mut self, now: Time, wake: Time, rank: usize) -> Woken {
        let called = &self.seat().called;
        let look = match rank {
            0 => self.look,
            _ => Span::from_nanos(PATIENCE.as_nanos().saturating_mul(rank as u64)).min(LOOK_MAX),
        };
        let wake = wake.min(now + look);
        let woken = match called.load(SeqCst) {
            0 => clock::wait_until(called, 0, wake),
            _ => true,
        };
        called.store(0, SeqCst);
        if woken {
            return Woken::Early;
        }
        self.look = (self.look + self.look).min(LOOK_MAX);
        Woken::Late
    }
}

impl Shared {
    /// Takes a seat and a ticket; none when all seats of the path are taken.
    pub(super) fn sit_down<'a>(&'a self, thread: &'a Thread, path: usize) -> Option<Sitting<'a>> {
        let _quiet = signals::hold_back();
        let (image, me) = (self.memory.image, self.identity());
        let entry = &image.paths[path];
        let start = entry.tickets.load(Relaxed) as usize;
        for probe in 0..SEATS {
            let number = start.wrapping_add(probe) % SEATS;
            let seat = &image.seats[path][number];
            if seat.owner.load(Relaxed) != 0
                || seat.owner.compare_exchange(0, me, AcqRel, Relaxed).is_err()
            {
                continue;
            }
            seat.called.store(0, SeqCst);
            let ticket = entry.tickets.fetch_add(1, AcqRel).wrapping_add(1);
            seat.ticket.store(ticket, SeqCst);
            entry.waiting[number / 64].fetch_or(1 << (number % 64), SeqCst);
            thread.seat.set(Some(Seated { path, number, ticket }));
            return Some(Sitting { shared: self, thread, path, number, ticket, look: LOOK });
        }
        None
    }

    /// Gives up the seat of this thread, which left its wait by a long jump.
    pub(super) fn abandon_seat(&self, thread: &Thread) {
        let Some(Seated { path, number, ticket }) = thread.seat.take() else { return };
        let seat = &self.memory.image.seats[path][number];
        if seat.owner.load(Acquire) == self.identity() && seat.ticket.load(SeqCst) == ticket {
            self.leave_seat(path, number);
        }
    }

    fn leave_seat(&self, path: usize, number: usize) {
        let seat = &self.memory.image.seats[path][number];
        self.stand_up(path, number);
        // Called too late: it is somebody else's.
        if seat.called.load(SeqCst) != 0 {
            self.call_first(path);
        }
        seat.ticket.store(0, SeqCst);
        seat.owner.store(0, Release);
    }

    /// Whether anybody waits on a path.
    #[inline]
    pub(super) fn anybody_waits(&self, path: usize) -> bool {
        let waiting = &self.memory.image.paths[path].waiting;
        waiting.iter().fold(0, |all, word| all | word.load(SeqCst)) != 0
    }

    /// Calls who is first. Who leaves meanwhile either sees that it was called, or is seen to have
    /// left; then it is the next one's turn.
    #[cold]
    pub(super) fn call_first(&self, path: usize) {
        for _ in 0..SEATS {
            let Some((number, _)) = self.first(path) else { return };
            self.call(path, number);
            let waiting = &self.memory.image.paths[path].waiting[number / 64];
            if waiting.load(SeqCst) >> (number % 64) & 1 == 1 {
                return;
            }
        }
    }

    fn call(&self, path: usize, number: usize) {
        let called = &self.memory.image.seats[path][number].called;
        // Who was called already is awake, unless who called died before the wake; see `LOOK`.
        if called.swap(1, SeqCst) == 0 {
            let _ = futex::wake(called, futex::Flags::empty(), 1);
        }
    }

    /// Calls all who wait on a job's paths, since what holds them may have changed.
    pub(super) fn call_all(&self, tenant: u32) {
        for path in 0..PATHS {
            let key = paths::unpack(self.memory.image.paths[path].key.load(Acquire));
            if key.is_some_and(|key| key.tenant == tenant) {
                self.seated(path).for_each(|(number, _)| self.call(path, number));
            }
        }
    }

    fn stand_up(&self, path: usize, number: usize) {
        let word = &self.memory.image.paths[path].waiting[number / 64];
        word.fetch_and(!(1 << (number % 64)), SeqCst);
    }

    /// The seat and the ticket of who is first.
    fn first(&self, path: usize) -> Option<(usize, u64)> {
        self.seated(path).min_by_key(|(_, ticket)| *ticket)
    }

    /// The seats and the tickets of all who wait.
    fn seated(&self, path: usize) -> impl Iterator<Item = (usize, u64)> + use<> {
        let image = self.memory.image;
        let words = image.paths[path].waiting.iter().enumerate();
        let numbers = words.flat_map(|(at, word)| {
            let mut bits = word.load(SeqCst);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(64 * at + bit)
            })
        });
        // A seat without a ticket is just being left.
        numbers
            .map(move |number| (number, image.seats[path][number].ticket.load(SeqCst)))
            .filter(|(_, ticket)| *ticket != 0)
    }

    /// How many wait.
    pub(super) fn waiting(&self, path: usize) -> u32 {
        self.seated(path).count() as u32
    }

    /// Frees the seats of a process that is dead.
    pub(super) fn clear_seats(&self, path: usize, dead: u64) {
        for number in 0..SEATS {
            let seat = &self.memory.image.seats[path][number];
            if seat.owner.load(Acquire) == dead {
                self.stand_up(path, number);
                seat.ticket.store(0, Relaxed);
                let _ = seat.owner.compare_exchange(dead, 0, Release, Relaxed);
            }
        }
    }
}
