//! Lanes: where a step is made. A process claims some. Its first threads keep one each; to others
//! it lends one for each step.
//!
//! A thread knows its own lane from memory that only it and its signal handlers touch, so that
//! taking it is no more than setting a flag. A handler that interrupts a step finds the flag set
//! and is lent another lane; one that leaves by a long jump frees what the step used. What says
//! which lanes are kept and lent lies in memory that the process keeps to itself. A forked child
//! finds that memory empty and claims lanes in its own name; what its thread remembers is then not
//! confirmed there. A thread that ends leaves its lane to the next.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

use rustix::io::Errno;
use rustix::process::Pid;

use super::image::LANES;
use super::memory::{Own, POOL};
use super::thread::Thread;
use super::{Refused, Shared, identity};
use crate::signals;

/// A lane, lent or in use until this is dropped.
pub(super) struct Lease<'a> {
    /// Where it is given back; none when its thread keeps it.
    place: Option<&'a AtomicU32>,
    keeping: &'a Keeping,
    /// Its number in the segment.
    pub(super) lane: usize,
    /// Its number among those that the process lends; of no use when it is kept.
    pub(super) hint: u8,
}

impl Drop for Lease<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.place {
            Some(place) => place.store(pack(self.lane), Release),
            None => self.keeping.rest(),
        }
    }
}

/// What a thread remembers of the lane that it keeps.
pub(super) struct Keeping {
    /// Whether the lane is in use, or these cells are being changed.
    busy: Cell<bool>,
    /// Which process' memory it is in.
    own: Cell<Option<&'static Own>>,
    /// Its place there; [`NOWHERE`] when the thread is lent lanes for good.
    at: Cell<usize>,
    /// Who the process was then; another one after a fork.
    identity: Cell<u64>,
    /// The thread's number, and who its process was when it was asked for.
    number: Cell<(u32, u64)>,
}

const NOWHERE: usize = usize::MAX;

/// Stands for a thread in a place that nobody keeps any more.
const RETIRED: u32 = u32::MAX;

/// How many requests may have begun on a kept lane that ended on others, or the other way round.
/// What a lane holds has few bits; lent lanes are found again at the end of a request.
const DRIFT: u32 = 1 << 16;

impl Keeping {
    pub(super) const fn none() -> Self {
        Self {
            busy: Cell::new(false),
            own: Cell::new(None),
            at: Cell::new(NOWHERE),
            identity: Cell::new(0),
            number: Cell::new((0, 0)),
        }
    }

    /// Whether the lane is free; it is in use then. A handler that comes between the two steps of
    /// this leaves the flag as it was.
    #[inline(always)]
    fn begin(&self) -> bool {
        let free = !self.busy.replace(true);
        compiler_fence(SeqCst);
        free
    }

    #[inline(always)]
    fn rest(&self) {
        compiler_fence(SeqCst);
        self.busy.set(false);
    }

    /// The lane that the thread keeps of this process.
    #[inline(always)]
    fn lane(&self, own: &'static Own) -> Option<usize> {
        let place = own.kept.get(self.at.get())?;
        let is_ours = self.is_of(own) && own.identity.load(Relaxed) == self.identity.get();
        is_ours.then(|| (place.lane.load(Relaxed) as usize).wrapping_sub(1) % LANES)
    }

    #[inline(always)]
    fn is_of(&self, own: &'static Own) -> bool {
        self.own.get().is_some_and(|known| ptr::eq(known, own))
    }

    /// Leaves the lane for another thread, or for none.
    fn leave(&self, to: u32) {
        if let Some(own) = self.own.get()
            && let Some(place) = own.kept.get(self.at.get())
            && own.identity.load(Relaxed) == self.identity.get()
        {
            place.thread.store(to, Release);
        }
        self.at.set(NOWHERE);
    }
}

/// A place of the pool holds zero, or this, and in the lower bits the number of the thread that it
/// is lent to: whoever leaves a step by a long jump finds its lane again by that.
const fn pack(lane: usize) -> u32 {
    (lane as u32 + 1) << NUMBER_BITS
}

/// Bits of the number of a thread, which Linux keeps below 2^22.
const NUMBER_BITS: u32 = 22;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

const _: () = assert!(LANES < 1 << (32 - NUMBER_BITS));

/// How often all lanes may be found lent. Steps are short, but a thread may be put aside in one.
const ROUNDS: usize = 10_000;

impl Shared {
    /// Who this process is.
    #[inline]
    pub(super) fn identity(&self) -> u64 {
        match self.memory.own.identity.load(Relaxed) {
            0 => self.introduce(),
            identity => identity,
        }
    }

    #[cold]
    fn introduce(&self) -> u64 {
        let identity = identity::own();
        self.memory.own.identity.store(identity, Relaxed);
        identity
    }

    /// A lane to work from: the thread's own, else a lent one, that of `hint` if it is free.
    #[inline(always)]
    pub(super) fn lane<'a>(&self, thread: &'a Thread, hint: u8) -> Result<Lease<'a>, Refused> {
        let keeping = &thread.keeping;
        if keeping.begin() {
            if let Some(lane) = keeping.lane(self.memory.own).or_else(|| self.own_lane(keeping)) {
                return Ok(Lease { place: None, keeping, lane, hint: u8::MAX });
            }
            keeping.rest();
        }
        self.lent_lane(keeping, hint)
    }

    /// Frees the lanes that this thread uses, which it left by a long jump.
    pub(super) fn free_lanes(&self, thread: &Thread) {
        let number = self.number_of(&thread.keeping);
        for place in &self.memory.own.lanes {
            let now = place.load(Relaxed);
            if now & NUMBER == number {
                place.store(now & !NUMBER, Release);
            }
        }
        thread.keeping.rest();
    }

    /// The number of this thread. A child of `vfork` acts for the thread that waits for it.
    fn number_of(&self, keeping: &Keeping) -> u32 {
        let (number, identity) = (keeping.number.get(), self.identity());
        if number.1 == identity {
            return number.0;
        }
        let number = rustix::thread::gettid().as_raw_nonzero().get() as u32 & NUMBER;
        keeping.number.set((number, identity));
        number
    }

    /// Has a thread keep a lane, if there is one for it.
    #[cold]
    fn own_lane(&self, keeping: &Keeping) -> Option<usize> {
        let (own, identity) = (self.memory.own, self.identity());
        // A child of `vfork` acts for the thread that waits for it, whose number it has not.
        if (keeping.is_of(own) && keeping.at.get() == NOWHERE) || !identity::is_own(identity) {
            return None;
        }
        let _quiet = signals::hold_back();
        keeping.leave(0);
        keeping.own.set(Some(own));
        let thread = self.number_of(keeping);
        let at = own.kept.iter().position(|place| {
            let known = place.thread.load(Acquire);
            is_free(known, thread)
                && place.thread.compare_exchange(known, thread, AcqRel, Relaxed).is_ok()
        })?;
        let place = &own.kept[at];
        if place.lane.load(Relaxed) == 0 {
            match self.claim_to_keep() {
                Some(lane) => place.lane.store(lane as u32 + 1, Relaxed),
                None => {
                    place.thread.store(0, Release);
                    return None;
                }
            }
        }
        keeping.identity.set(identity);
        keeping.at.set(at);
        keeping.lane(own)
    }

    /// A lane for a thread to keep, as long as there are plenty.
    fn claim_to_keep(&self) -> Option<usize> {
        let owners = self.memory.image.owners.iter();
        let free = owners.filter(|owner| owner.load(Relaxed) == 0).count();
        if free < LANES / 2 { None } else { self.claim().ok() }
    }

    /// Notes what a lane holds on a path after a step. A thread that begins what others end, or
    /// ends what others began, gives up its lane before that is too much.
    #[inline(always)]
    pub(super) fn note_drift(&self, lease: &Lease<'_>, held: i32) {
        if held.unsigned_abs() >= DRIFT && lease.place.is_none() {
            lease.keeping.leave(RETIRED);
        }
    }

    #[inline(never)]
    fn lent_lane<'a>(&self, keeping: &'a Keeping, hint: u8) -> Result<Lease<'a>, Refused> {
        match self.lend(keeping, usize::from(hint)) {
            Some(lease) => Ok(lease),
            None => self.any_lane(keeping),
        }
    }

    #[inline]
    fn lend<'a>(&self, keeping: &'a Keeping, at: usize) -> Option<Lease<'a>> {
        let place = self.memory.own.lanes.get(at)?;
        let now = place.load(Relaxed);
        if now == 0 || now & NUMBER != 0 {
            return None;
        }
        let lent = now | self.number_of(keeping);
        place.compare_exchange(now, lent, Acquire, Relaxed).ok()?;
        let lane = (now >> NUMBER_BITS) as usize - 1;
        Some(Lease { place: Some(place), keeping, lane, hint: at as u8 })
    }

    #[cold]
    fn any_lane<'a>(&self, keeping: &'a Keeping) -> Result<Lease<'a>, Refused> {
        let mut full = false;
        for round in 0..ROUNDS {
            for at in 0..POOL {
                if let Some(lease) = self.lend(keeping, at) {
                    return Ok(lease);
                }
                if full {
                    continue;
                }
                match self.claim_to_lend(keeping, at) {
                    Ok(Some(lease)) => return Ok(lease),
                    Ok(None) => {}
                    Err(refused) if at == 0 => return Err(refused),
                    Err(_) => full = true,
                }
            }
            if round % 16 == 15 {
                rustix::thread::sched_yield();
            }
        }
        Err(Refused::Busy)
    }

    /// Claims a lane for a place of the pool, unless somebody else has.
    fn claim_to_lend<'a>(
        &self,
        keeping: &'a Keeping,
        at: usize,
    ) -> Result<Option<Lease<'a>>, Refused> {
        let (place, number) = (&self.memory.own.lanes[at], self.number_of(keeping));
        let _quiet = signals::hold_back();
        if place.compare_exchange(0, number, Acquire, Relaxed).is_err() {
            return Ok(None);
        }
        let claimed = self.claim();
        let now = claimed.map_or(0, |lane| pack(lane) | number);
        place.store(now, Release);
        Ok(Some(Lease { place: Some(place), keeping, lane: claimed?, hint: at as u8 }))
    }

    /// Takes a lane of the segment that nobody owns.
    fn claim(&self) -> Result<usize, Refused> {
        let (image, identity) = (self.memory.image, self.identity());
        self.end_former_programs(identity);
        for attempt in 0..2 {
            for probe in 0..LANES {
                // Processes begin at different places, so that they seldom meet.
                let lane = (identity as usize).wrapping_mul(7).wrapping_add(probe) % LANES;
                let owner = &image.owners[lane];
                if owner.load(Relaxed) == 0
                    && owner.compare_exchange(0, identity, AcqRel, Relaxed).is_ok()
                {
                    let backed = self.memory.back(&image.tallies[lane]);
                    let backed = backed.and(self.memory.back(&image.recorded[lane]));
                    return match backed {
                        Ok(()) => Ok(lane),
                        Err(_) => {
                            owner.store(0, Release);
                            Err(Refused::Memory)
                        }
                    };
                }
            }
            if attempt == 0 {
                self.sweep();
            }
        }
        Err(Refused::Busy)
    }
}

/// Whether `thread` may have a place that `known` keeps: nobody, or a thread that has ended, as one
/// of its own number has.
fn is_free(known: u32, thread: u32) -> bool {
    if known == RETIRED {
        return false;
    }
    known == 0
        || known == thread
        || Pid::from_raw(known as i32)
            .is_none_or(|known| rustix::process::test_kill_process(known) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;

    use afflux_core::class::Class;
    use afflux_core::path::PathKey;
    use afflux_core::units::{Span, Time};

    use super::super::PathId;
    use super::super::memory::KEPT;
    use super::super::thread::THREAD;
    use super::*;

    fn segment() -> (Shared, PathId) {
        let shared = Shared::private().unwrap();
        let path = shared.path(PathKey { server: 0, class: Class::Write, tenant: 0 }).unwrap();
        (shared, path)
    }

    /// The lane that this thread gets, as it finds things.
    fn lane_is_kept(shared: &Shared) -> bool {
        THREAD.with(|thread| is_kept(&shared.lane(thread, 0).unwrap()))
    }

    fn is_kept(lease: &Lease<'_>) -> bool {
        lease.place.is_none()
    }

    fn in_flight(shared: &Shared) -> u32 {
        shared.paths()[0].state.unwrap().in_flight()
    }

    #[test]
    fn a_handler_is_lent_another_lane_and_a_long_jump_frees_all() {
        let (shared, _) = segment();
        THREAD.with(|thread| {
            let lane = || shared.lane(thread, 0).unwrap();
            let (own, handler) = (lane(), lane());
            assert!(is_kept(&own) && !is_kept(&handler) && own.lane != handler.lane);
            let (kept, lent) = (own.lane, handler.lane);
            std::mem::forget((own, handler));
            assert!((0..100).all(|_| !is_kept(&lane()) && lane().lane != lent));
            shared.abandon();
            let own = lane();
            assert!(is_kept(&own) && own.lane == kept && lane().lane == lent);
        });
    }

    #[test]
    fn a_thread_keeps_a_lane_of_the_segment_that_it_works_in() {
        let ((one, _), (other, _)) = (segment(), segment());
        for _ in 0..100 {
            for shared in [&one, &other] {
                THREAD.with(|thread| {
                    let lease = shared.lane(thread, 0).unwrap();
                    assert!(is_kept(&lease));
                    let owner = shared.memory.image.owners[lease.lane].load(Relaxed);
                    assert_eq!(owner, shared.identity());
                });
            }
        }
        let owned = |shared: &Shared| {
            let owners = shared.memory.image.owners.iter();
            owners.filter(|owner| owner.load(Relaxed) != 0).count()
        };
        assert_eq!((owned(&one), owned(&other)), (1, 1));
    }

    #[test]
    fn a_thread_that_ends_leaves_its_lane_to_the_next() {
        let (shared, _) = segment();
        for number in 0..4 * KEPT {
            let kept = thread::scope(|scope| scope.spawn(|| lane_is_kept(&shared)).join().unwrap());
            assert!(kept, "thread {number}");
        }
    }

    #[test]
    fn threads_without_a_lane_of_their_own_are_lent_some() {
        let (shared, path) = segment();
        let threads = KEPT + POOL;
        let all_are_there = Barrier::new(threads);
        let kept: usize = thread::scope(|scope| {
            let work = || {
                all_are_there.wait();
                let kept = lane_is_kept(&shared);
                for micros in 0..500 {
                    let now = Time::ZERO + Span::from_micros(micros);
                    shared.observe(path, now, 4096).unwrap().reply(now).unwrap();
                }
                all_are_there.wait();
                usize::from(kept)
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((kept, in_flight(&shared)), (KEPT, 0));
        assert_eq!(shared.paths()[0].counted.replies, 500 * threads as u64);
    }

    #[test]
    fn a_crowded_segment_has_lanes_for_lending_only() {
        let (shared, path) = segment();
        let owners = &shared.memory.image.owners;
        owners[..=LANES / 2].iter().for_each(|owner| owner.store(1, Relaxed));
        assert!(!lane_is_kept(&shared));
        let now = Time::from_nanos(1);
        assert!(shared.observe(path, now, 4096).unwrap().reply(now).is_some());
    }

    /// What one thread begins and another ends never fills the bits that a lane's count has.
    #[test]
    fn a_lane_that_only_begins_or_only_ends_is_given_up() {
        let (shared, path) = segment();
        let requests = 2 * DRIFT;
        let (begun, ends) = mpsc::sync_channel(100);
        let lent = thread::scope(|scope| {
            let ender = scope.spawn(|| {
                let begun: mpsc::Receiver<super::super::Slot<'_>> = ends;
                begun
                    .into_iter()
                    .for_each(|slot| assert!(slot.reply(Time::from_nanos(2)).is_some()));
                !lane_is_kept(&shared)
            });
            for _ in 0..requests {
                begun.send(shared.observe(path, Time::from_nanos(1), 4096).unwrap()).unwrap();
            }
            drop(begun);
            (!lane_is_kept(&shared), ender.join().unwrap())
        });
        assert_eq!((lent, in_flight(&shared)), ((true, true), 0));
        let held = (0..LANES)
            .filter(|lane| shared.memory.image.owners[*lane].load(Relaxed) != 0)
            .map(|lane| shared.held(lane, path.index as usize));
        let held: Vec<i32> = held.collect();
        assert_eq!(held.iter().sum::<i32>(), 0, "{held:?}");
        assert!(held.iter().all(|held| held.unsigned_abs() <= 2 * DRIFT), "{held:?}");
    }
}
