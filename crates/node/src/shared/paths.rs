//! The table of paths: found by key, made by one compare-and-swap, given away after long idleness.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use afflux_core::class::Class;
use afflux_core::path::{PathKey, PathState};
use afflux_core::units::{Span, Time};

use super::image::{PATHS, Path};
use super::step::Want;
use super::thread::THREAD;
use super::{Full, PathId, Shared};
use crate::clock;

/// The place of a path that was given away; what lies behind it is still to be looked at.
const GIVEN_AWAY: u64 = 1;
/// Set in every key, so that none is zero or [`GIVEN_AWAY`].
const LIVE: u64 = 1 << 63;
/// Set while a path is given away.
const RETIRING: u64 = 1 << 62;
/// Numbers of servers and tenants lie below this.
const NUMBER_BITS: u32 = 30;

/// Stands for all servers together, where a job's fan-in is counted.
pub(super) const ALL_SERVERS: u32 = (1 << NUMBER_BITS) - 1;

/// How long nothing was sent on a path that is given away for want of room.
const IDLE: Span = Span::from_secs(60);

/// The job of a word that is a key, also while its path is given away.
#[inline]
pub(super) fn tenant(word: u64) -> Option<u32> {
    (word & LIVE != 0).then_some((word >> NUMBER_BITS) as u32 & ((1 << NUMBER_BITS) - 1))
}

/// A key as one word; none when a number in it is too large.
pub(super) fn pack(key: PathKey) -> Option<u64> {
    let fits = key.server >> NUMBER_BITS == 0 && key.tenant >> NUMBER_BITS == 0;
    let (server, tenant) = (u64::from(key.server), u64::from(key.tenant));
    let class = (key.class.index() as u64) << (2 * NUMBER_BITS);
    fits.then_some(LIVE | class | tenant << NUMBER_BITS | server)
}

/// The key of a word, if it is one.
#[inline]
pub(super) fn unpack(word: u64) -> Option<PathKey> {
    let number = |word: u64| word as u32 & ((1 << NUMBER_BITS) - 1);
    let class = *Class::ALL.get((word >> (2 * NUMBER_BITS)) as usize & 3)?;
    (word & LIVE != 0 && word & RETIRING == 0).then(|| PathKey {
        server: number(word),
        class,
        tenant: number(word >> NUMBER_BITS),
    })
}

impl Shared {
    /// The path of `key`, made when there is none. May use system calls for memory. Numbers of
    /// servers and tenants lie below 2^30 - 1.
    ///
    /// # Errors
    /// There are too many paths in use.
    pub fn path(&self, key: PathKey) -> Result<PathId, Full> {
        let word = pack(key).ok_or(Full { what: "numbers as great as this", most: 1 << 30 })?;
        for _ in 0..4 {
            if let Some(index) = self.find(word) {
                self.follow_job(index, key.tenant);
                return Ok(PathId { index: index as u32, key: word });
            }
            if !self.insert(word)? {
                // What the dead hold is not idle before it was given back.
                self.sweep();
                if self.retire_paths() == 0 {
                    break;
                }
            }
        }
        Err(Full { what: "paths", most: PATHS })
    }

    /// Where the path of `word` stands.
    pub(super) fn find(&self, word: u64) -> Option<usize> {
        for (index, entry) in self.probe(word) {
            match entry.key.load(Acquire) {
                0 => return None,
                found if found == word => return Some(index),
                // Whoever wanted to give it away may have died over it.
                found if found == word | RETIRING => _ = self.retire(index),
                _ => {}
            }
        }
        None
    }

    /// Enters `word`; whether there was a free place or it was entered meanwhile.
    fn insert(&self, word: u64) -> Result<bool, Full> {
        for (index, entry) in self.probe(word) {
            let found = entry.key.load(Acquire);
            if found == word {
                return Ok(true);
            }
            if found != 0 && found != GIVEN_AWAY {
                continue;
            }
            let image = self.memory.image;
            let backed = self.memory.back(&image.seats[index]);
            let backed = backed.and_then(|()| self.memory.back(&image.counts[index]));
            backed.map_err(|_| Full { what: "pages of memory", most: 0 })?;
            match entry.key.compare_exchange(found, word, SeqCst, Acquire) {
                // Another may have entered it before this place, where one was given away.
                Ok(_) if self.find(word) != Some(index) => entry.key.store(GIVEN_AWAY, Release),
                Ok(_) => entry.made.store(clock::now().as_nanos(), Relaxed),
                Err(now) if now == word => {}
                Err(_) => continue,
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn probe(&self, word: u64) -> impl Iterator<Item = (usize, &'static Path)> {
        let start = super::names::hash(&word.to_le_bytes()) as usize;
        let paths = &self.memory.image.paths;
        (0..PATHS).map(move |probe| {
            let index = start.wrapping_add(probe) % PATHS;
            (index, &paths[index])
        })
    }

    fn follow_job(&self, index: usize, tenant: u32) {
        let entry = &self.memory.image.paths[index];
        if entry.job.load(Relaxed) == 0
            && let Some(number) = self.job_of(tenant)
        {
            entry.job.store(number as u32 + 1, SeqCst);
        }
    }

    /// Gives away the paths on which nothing was sent for long. Returns how many places became
    /// free.
    pub(super) fn retire_paths(&self) -> usize {
        (0..PATHS).filter(|index| self.retire(*index)).count()
    }

    /// Gives one path away if it is idle. Nobody can be admitted meanwhile: who read the head
    /// before loses its step to the one that is made here, and who reads it after finds the key
    /// changed.
    fn retire(&self, index: usize) -> bool {
        let entry = &self.memory.image.paths[index];
        let word = entry.key.load(Acquire);
        let live = word & !RETIRING;
        let now = clock::now();
        if unpack(live).is_none() || !self.is_idle(index, now) {
            // Left behind by somebody who died, but not idle any more.
            if word != live {
                let _ = entry.key.compare_exchange(word, live, SeqCst, Relaxed);
            }
            return false;
        }
        let marked = live | RETIRING;
        if entry.key.compare_exchange(word, marked, SeqCst, Relaxed).is_err() {
            return false;
        }
        if !self.close_if_idle(index, marked, now) {
            let _ = entry.key.compare_exchange(marked, live, SeqCst, Relaxed);
            return false;
        }
        entry.job.store(0, SeqCst);
        entry.credits.store(0, Relaxed);
        self.clear_counts(index);
        entry.key.compare_exchange(marked, GIVEN_AWAY, SeqCst, Relaxed).is_ok()
    }

    /// Has the next request on a path that is marked as given away begin anew, if it is idle.
    fn close_if_idle(&self, index: usize, marked: u64, now: Time) -> bool {
        THREAD.with(|thread| {
            let Ok(lease) = self.lane(thread, 0) else { return false };
            let mut idle = false;
            let step = self.step(lease.lane, index, Some(marked), |_, draft| {
                let since = now.since(draft.state.last_send());
                idle = !draft.started || (draft.state.in_flight() == 0 && since >= IDLE);
                draft.started = false;
                if idle { Want::Publish } else { Want::Leave }
            });
            step.is_ok() && idle
        })
    }

    fn is_idle(&self, index: usize, now: Time) -> bool {
        let made = Time::from_nanos(self.memory.image.paths[index].made.load(Relaxed));
        let unused =
            |state: PathState| state.in_flight() == 0 && now.since(state.last_send()) >= IDLE;
        !self.anybody_waits(index) && now.since(made) >= IDLE && self.peek(index).is_none_or(unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_words_and_back() {
        for class in Class::ALL {
            for (server, tenant) in [(0, 0), (7, 1), (ALL_SERVERS, ALL_SERVERS - 1)] {
                let key = PathKey { server, class, tenant };
                assert_eq!(unpack(pack(key).unwrap()), Some(key));
            }
        }
        let key = PathKey { server: 1 << 30, class: Class::Read, tenant: 0 };
        assert_eq!((pack(key), unpack(0), unpack(GIVEN_AWAY)), (None, None, None));
    }
}
