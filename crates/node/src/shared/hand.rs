//! The places that a thread holds in its hand, where a long jump does not lose them.
//!
//! A signal handler may leave a step by a long jump, before or after the instruction that publishes
//! it. So the hand says what it has and what it is just doing in one word, and beside it what the
//! lane of that step holds once it is published. A lane is nobody else's before the hand is done
//! with the step; whoever jumped therefore learns from the segment itself which of the two it was.

use std::cell::Cell;
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

use afflux_core::path::{HoldTotals, Ruling};
use afflux_core::units::Time;

use super::gate::{Ask, End, Request};
use super::thread::{THREAD, Thread};
use super::{PathId, Refused, Shared, Slot};

/// Places of one thread at most: on eight paths, and as often among all requests of a job.
const MOST: usize = 16;

/// A request's place in the window of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) path: PathId,
    /// Which process has it.
    pub(super) owner: u64,
    pub(super) sent: Time,
    pub(super) size_bytes: u32,
    /// The lane that counts it, as a number of its process.
    pub(super) hint: u8,
    /// Whether it is one among all requests of a job, and goes with the place before it.
    pub(super) is_of_all: bool,
}

impl Place {
    const NONE: Self = Self {
        path: PathId::from_words([0; 2]),
        owner: 0,
        sent: Time::ZERO,
        size_bytes: 0,
        hint: 0,
        is_of_all: false,
    };
}

/// Steps that may be under way: none, one after which the hand has one place more, or one less.
const NOTHING: u32 = 0;
const TAKING: u32 = 1;
const GIVING: u32 = 2;
const STEP_BITS: u32 = 2;

/// A stack of places.
pub(super) struct Hand {
    /// How many places there are, and in the lowest bits the step that is under way: one word, so
    /// that a handler finds both as they were at one instant.
    state: Cell<u32>,
    places: [Cell<Place>; MOST],
    /// The lane of the step that is under way, and how many requests it then has in flight.
    lane: Cell<usize>,
    held_after: Cell<i32>,
}

impl Hand {
    pub(super) const fn empty() -> Self {
        Self {
            state: Cell::new(NOTHING),
            places: [const { Cell::new(Place::NONE) }; MOST],
            lane: Cell::new(0),
            held_after: Cell::new(0),
        }
    }

    #[inline(always)]
    fn count(&self) -> usize {
        (self.state.get() >> STEP_BITS) as usize
    }

    /// Notes which place a step will take. Whether there is room for it.
    #[inline(always)]
    pub(super) fn will_take(&self, place: Place) -> bool {
        let room = self.places.get(self.count());
        room.inspect(|room| room.set(place)).is_some()
    }

    /// A step is about to take the place, after which its lane has so many requests in flight.
    #[inline(always)]
    pub(super) fn takes(&self, lane: usize, held_after: i32) {
        self.begin(TAKING, lane, held_after);
    }

    /// A step is about to give the last place back.
    #[inline(always)]
    pub(super) fn gives(&self, lane: usize, held_after: i32) {
        self.begin(GIVING, lane, held_after);
    }

    #[inline(always)]
    fn begin(&self, step: u32, lane: usize, held_after: i32) {
        self.lane.set(lane);
        self.held_after.set(held_after);
        compiler_fence(SeqCst);
        self.state.set(self.state.get() & !(TAKING | GIVING) | step);
        compiler_fence(SeqCst);
    }

    /// The step is done, if it was. Its lane must still be this thread's.
    #[inline(always)]
    pub(super) fn took(&self, is_taken: bool) {
        self.settle(self.count() + usize::from(is_taken));
    }

    /// The last place is given back, or cannot be.
    #[inline(always)]
    pub(super) fn gave(&self) {
        self.settle(self.count().saturating_sub(1));
    }

    #[inline(always)]
    fn settle(&self, count: usize) {
        compiler_fence(SeqCst);
        self.state.set((count as u32) << STEP_BITS | NOTHING);
    }

    fn last(&self) -> Option<Place> {
        let last = self.count().checked_sub(1)?;
        self.places.get(last).map(Cell::get)
    }

    /// Sets right what a step left that a long jump has ended. `held` says what a lane has in
    /// flight on a path.
    fn recover(&self, held: impl Fn(usize, PathId) -> i32) {
        let (count, step) = (self.count(), self.state.get() & (TAKING | GIVING));
        let at = match step {
            TAKING => count,
            GIVING => count.saturating_sub(1),
            _ => return,
        };
        let place = self.places.get(at).map(Cell::get);
        let is_done = |place: Place| held(self.lane.get(), place.path) == self.held_after.get();
        self.settle(match (step, place.is_some_and(is_done)) {
            (TAKING, true) => count + 1,
            (GIVING, true) => at,
            _ => count,
        });
    }
}

impl Shared {
    /// Like [`Shared::admit`], but the place is kept in the thread's hand, on top of those that it
    /// has there, until [`Shared::answer`], [`Shared::put_back`] or [`Shared::hand_over`] takes it
    /// from there. Returns when the request was admitted.
    ///
    /// A signal handler may leave this, and what takes the place from the hand, by a long jump: see
    /// [`Shared::abandon`].
    ///
    /// # Errors
    /// See [`Refused`]: the request is then sent ungated.
    #[inline]
    pub fn take(
        &self,
        path: PathId,
        now: Time,
        size_bytes: u32,
        deadline: Time,
        holds: &mut HoldTotals,
    ) -> Result<Time, Refused> {
        THREAD.with(|thread| {
            let hand = Some(&thread.hand);
            let request = Request { path, size_bytes, ask: Ask::Gate, hand };
            let entered = self.enter(thread, &request, now, deadline, holds)?;
            let Some(limit) = entered.fan_in else { return Ok(entered.at) };
            let at = self.enter_all_paths(thread, &request, (limit, entered.at), deadline, holds);
            match at {
                Ok((_, at)) => thread.hand.sent_at(at),
                Err(_) => _ = self.end_last(thread, End::Withdraw),
            }
            at.map(|(_, at)| at)
        })
    }

    /// Whether the thread has no place in its hand.
    #[inline]
    pub fn is_empty_handed(&self) -> bool {
        THREAD.with(|thread| thread.hand.count() == 0)
    }

    /// The request of the last place in the thread's hand was answered at `arrived`: gives it back.
    /// What the controller made of it, as [`Slot::reply`] says.
    #[inline]
    pub fn answer(&self, arrived: Time) -> Option<Ruling> {
        let mut ruling = None;
        THREAD.with(|thread| ruling = self.end_last(thread, End::Reply(arrived)));
        ruling
    }

    /// The request of the last place in the thread's hand was never sent: gives it back.
    pub fn put_back(&self) {
        THREAD.with(|thread| self.end_last(thread, End::Withdraw));
    }

    /// The last place in the thread's hand as one that can be given to another thread. Signals must
    /// be held back until it is where no long jump loses it.
    pub fn hand_over(&self) -> Option<Slot<'_>> {
        THREAD.with(|thread| {
            let mut place = thread.hand.last()?;
            let mut fan_in = None;
            if place.is_of_all {
                thread.hand.gave();
                fan_in = Some(place.path);
                place = thread.hand.last()?;
            }
            thread.hand.gave();
            Some(Slot { shared: self, place, fan_in })
        })
    }

    /// To be called before a long jump that leaves calls of this module, in the handler that makes
    /// it and with signals held back: sets right what they were doing. What the thread has in its
    /// hand stays there.
    pub fn abandon(&self) {
        THREAD.with(|thread| {
            thread.hand.recover(|lane, path| self.held(lane, path.index as usize));
            self.free_lanes(thread);
            self.abandon_seat(thread);
        });
    }

    /// Ends the request of the last place in the hand, and of what goes with it.
    #[inline(always)]
    fn end_last(&self, thread: &Thread, end: End) -> Option<Ruling> {
        let mut place = thread.hand.last()?;
        if place.is_of_all {
            self.end_of_all(thread, &place);
            place = thread.hand.last()?;
        }
        self.end_in_hand(thread, &place, end)
    }

    #[cold]
    fn end_of_all(&self, thread: &Thread, place: &Place) {
        self.end_in_hand(thread, place, End::Withdraw);
    }

    #[inline(always)]
    fn end_in_hand(&self, thread: &Thread, place: &Place, end: End) -> Option<Ruling> {
        // In a forked child the place is its parent's.
        if place.owner != self.identity() {
            thread.hand.gave();
            return None;
        }
        self.leave(thread, place, end, Some(&thread.hand))
    }
}

impl Hand {
    /// The request of the place below the last was sent later than it was admitted there.
    fn sent_at(&self, at: Time) {
        let below = self.count().checked_sub(2).and_then(|below| self.places.get(below));
        if let Some(below) = below {
            below.set(Place { sent: at, ..below.get() });
        }
    }
}
