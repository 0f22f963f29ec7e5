//! Lanes: where a step is made. A process claims some and lends one to a thread for each step.
//!
//! Lending is a flag in memory that the process keeps to itself. A signal handler that interrupts a
//! step takes another lane, and one that never returns costs its process one of its lanes. A
//! forked child finds that memory empty and claims lanes in its own name.

use std::sync::atomic::{AtomicU32, Ordering::*};

use super::image::LANES;
use super::{Refused, Shared, identity};

/// A lane, lent until this is dropped.
pub(super) struct Lease<'a> {
    place: &'a AtomicU32,
    /// Its number in the segment.
    pub(super) lane: usize,
    /// Its number in the process.
    pub(super) hint: u8,
}

impl Drop for Lease<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.store(pack(self.lane), Release);
    }
}

/// A place of the pool holds zero, or one of these, with [`LENT`] while it is lent.
const fn pack(lane: usize) -> u32 {
    (lane as u32 + 1) << 1
}

const LENT: u32 = 1;

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

    /// Lends a lane, that of `hint` if it is free.
    #[inline]
    pub(super) fn lane(&self, hint: u8) -> Result<Lease<'_>, Refused> {
        if let Some(lease) = self.lend(usize::from(hint)) {
            return Ok(lease);
        }
        self.any_lane()
    }

    #[inline]
    fn lend(&self, at: usize) -> Option<Lease<'_>> {
        let place = self.memory.own.lanes.get(at)?;
        let now = place.load(Relaxed);
        if now == 0 || now & LENT != 0 {
            return None;
        }
        place.compare_exchange(now, now | LENT, Acquire, Relaxed).ok()?;
        Some(Lease { place, lane: (now >> 1) as usize - 1, hint: at as u8 })
    }

    #[cold]
    fn any_lane(&self) -> Result<Lease<'_>, Refused> {
        let mut full = false;
        for round in 0..ROUNDS {
            for (at, place) in self.memory.own.lanes.iter().enumerate() {
                if let Some(lease) = self.lend(at) {
                    return Ok(lease);
                }
                if full || place.compare_exchange(0, LENT, Acquire, Relaxed).is_err() {
                    continue;
                }
                match self.claim() {
                    Ok(lane) => return Ok(Lease { place, lane, hint: at as u8 }),
                    Err(refused) => {
                        place.store(0, Release);
                        full = true;
                        if at == 0 {
                            return Err(refused);
                        }
                    }
                }
            }
            if round % 16 == 15 {
                rustix::thread::sched_yield();
            }
        }
        Err(Refused::Busy)
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
