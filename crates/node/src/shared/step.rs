//! A step of a path: from one state to the next, whole or not at all.
//!
//! The head of a path names the block in which its state lies, and its version. A step copies the
//! state, has the controller change the copy, writes it to a spare block of its own lane and swaps
//! the head. If anybody else was faster, it begins anew. Nobody ever waits for anybody, and whoever
//! dies or is stopped in the middle has changed nothing.
//!
//! Each block also says, in its stamp, how many requests its lane has in flight on the path after
//! the step. Before a block of another lane is replaced, its stamp is recorded for that lane. So
//! what a lane holds is known exactly at every instant: it is in the stamp of the path's state when
//! that is the lane's own, and else in its record. That is how the slots of the dead are found.

use std::sync::atomic::{AtomicU64, Ordering::*, fence};

use afflux_core::path::PathState;
use afflux_core::policy::Words;

use super::image::{Block, GROUP, LANE_BITS, Path};
use super::{Refused, Shared, paths};

/// A head: whether the path begins anew, version, generation of the setting that the state follows
/// (its last eight bits), lane and block, from the highest bit to the lowest. Zero is a path on
/// which nothing ever happened.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Head(u64);

const GENERATION_SHIFT: u32 = 1 + LANE_BITS;
const VERSION_SHIFT: u32 = GENERATION_SHIFT + 8;
/// Versions last for weeks at four million steps a second on one path.
const VERSION_BITS: u32 = 44;

/// Set where a path was given away: whoever comes next starts with a state of its own.
const ANEW: u64 = 1 << 63;

const _: () = assert!(VERSION_SHIFT + VERSION_BITS <= 63);

impl Head {
    fn new(version: u64, generation: u8, lane: usize, block: usize) -> Self {
        let generation = u64::from(generation) << GENERATION_SHIFT;
        Self(version << VERSION_SHIFT | generation | (lane as u64) << 1 | block as u64)
    }

    const fn block(self) -> usize {
        (self.0 & 1) as usize
    }

    const fn lane(self) -> usize {
        (self.0 >> 1) as usize & ((1 << LANE_BITS) - 1)
    }

    const fn generation(self) -> u8 {
        (self.0 >> GENERATION_SHIFT) as u8
    }

    const fn version(self) -> u64 {
        (self.0 & !ANEW) >> VERSION_SHIFT
    }

    const fn is_anew(self) -> bool {
        self.0 & ANEW != 0
    }
}

/// The version of a block, and in the lower bits what its lane holds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(u64);

const HELD_BITS: u32 = 64 - VERSION_BITS;

impl Stamp {
    fn new(version: u64, held: i32) -> Self {
        Self(version << HELD_BITS | u64::from(held as u32) & ((1 << HELD_BITS) - 1))
    }

    /// May be negative: a process can end on one lane what it began on another.
    const fn held(self) -> i32 {
        ((self.0 << VERSION_BITS) as i64 >> VERSION_BITS) as i32
    }
}

/// A state that a step may change.
pub(super) struct Draft {
    /// Whether anything happened on the path yet; if not, the state is still to be made.
    pub(super) started: bool,
    /// The state, to be changed in place: copies of it would be half the cost of a step.
    pub(super) state: PathState,
    /// The last bits of the generation of the setting that it follows.
    pub(super) generation: u8,
    /// Requests that the lane of the step has in flight.
    pub(super) held: i32,
}

impl Draft {
    /// What is read of a path on which nothing happened yet. Apart, so that the usual case is not
    /// made to share its registers.
    #[cold]
    #[inline(never)]
    const fn empty() -> Self {
        Self { started: false, state: PathState::BLANK, generation: 0, held: 0 }
    }
}

impl Words for Block {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, |word| word.load(Relaxed))
    }
}

/// Which setting is in force on a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct InForce {
    /// One more than the job's index; zero when there is no setting.
    pub(super) job: u32,
    /// Its generation.
    pub(super) generation: u32,
}

/// What `change` of a step wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// The draft as the path's state.
    Publish,
    /// The same if it differs from what was read.
    PublishChanged,
    /// Nothing.
    Leave,
}

impl Shared {
    /// Makes one step on `path`, which must still have `key` (any, if none is given). `change` may
    /// be called several times; what it did last is what happened.
    #[inline(always)]
    pub(super) fn step(
        &self,
        lane: usize,
        path: usize,
        key: Option<u64>,
        mut change: impl FnMut(&InForce, &mut Draft) -> Want,
    ) -> Result<(), Refused> {
        let entry = &self.memory.image.paths[path];
        let mut lost = 0;
        loop {
            let head = Head(entry.head.load(SeqCst));
            if key.is_some_and(|key| entry.key.load(Acquire) != key) {
                return Err(Refused::Gone);
            }
            let in_force = self.in_force(entry);
            if let Some((mut draft, stamp)) = self.read(path, head, lane) {
                let is_done = match change(&in_force, &mut draft) {
                    Want::Publish => false,
                    Want::PublishChanged => self.is_as_before(path, head, &draft),
                    Want::Leave => true,
                };
                if is_done {
                    return Ok(());
                }
                if self.in_force(entry) == in_force
                    && self.publish(lane, path, (head, stamp), &draft)?
                {
                    return Ok(());
                }
            }
            lost += 1;
            pause(lost);
        }
    }

    /// Whether a draft of what `head` names is still what it was. If somebody has replaced that
    /// meanwhile, the answer may be wrong as it might have been then.
    #[cold]
    fn is_as_before(&self, path: usize, head: Head, draft: &Draft) -> bool {
        let block = &self.memory.image.cells[head.lane()][path].blocks[head.block()];
        let words = block.words.iter().map(|word| word.load(Relaxed));
        draft.started && words.eq(draft.state.to_words())
    }

    /// The state of a path at one moment, without a lane.
    pub(super) fn peek(&self, path: usize) -> Option<PathState> {
        for lost in 0..1_000 {
            let head = Head(self.memory.image.paths[path].head.load(SeqCst));
            if let Some((draft, _)) = self.read(path, head, 0) {
                return draft.started.then_some(draft.state);
            }
            pause(lost);
        }
        None
    }

    /// A number that differs whenever something happened on a path.
    pub(super) fn head_of(&self, path: usize) -> u64 {
        self.memory.image.paths[path].head.load(Relaxed)
    }

    #[inline]
    pub(super) fn in_force(&self, entry: &Path) -> InForce {
        let job = entry.job.load(Relaxed);
        let tenant = paths::tenant(entry.key.load(Relaxed)).map_or(0, |of| u64::from(of) + 1);
        match self.memory.image.jobs.get((job as usize).wrapping_sub(1)) {
            // Its place may have been given to another job.
            Some(of) if of.tenant.load(Relaxed) == tenant => {
                InForce { job, generation: of.generation.load(Acquire) }
            }
            _ => InForce { job: 0, generation: 0 },
        }
    }

    /// What `lane` has in flight on `path`; only steady for who owns the lane.
    pub(super) fn held(&self, lane: usize, path: usize) -> i32 {
        loop {
            let head = Head(self.memory.image.paths[path].head.load(SeqCst));
            if let Some((draft, _)) = self.read(path, head, lane) {
                return draft.held;
            }
        }
    }

    /// Copies what `head` names, unless it was replaced meanwhile.
    #[inline(always)]
    fn read(&self, path: usize, head: Head, lane: usize) -> Option<(Draft, Stamp)> {
        let image = self.memory.image;
        if head.version() == 0 {
            return Some((Draft::empty(), Stamp(0)));
        }
        let block = &image.cells[head.lane()][path].blocks[head.block()];
        let state = PathState::from_words(block);
        let stamp = Stamp(block.stamp.load(Relaxed));
        let own = match head.lane() == lane {
            true => stamp,
            false => Stamp(image.recorded[lane].stamps[path].load(Relaxed)),
        };
        fence(Acquire);
        if image.paths[path].head.load(Relaxed) != head.0 {
            return None;
        }
        let (started, generation) = (!head.is_anew(), head.generation());
        let draft = Draft { started, state, generation, held: own.held() };
        Some((draft, stamp))
    }

    /// Makes a draft the path's state, unless somebody was faster.
    #[inline(always)]
    fn publish(
        &self,
        lane: usize,
        path: usize,
        (head, stamp): (Head, Stamp),
        draft: &Draft,
    ) -> Result<bool, Refused> {
        let image = self.memory.image;
        if image.groups[lane].load(Relaxed) >> (path / GROUP) & 1 == 0 {
            self.back_cells(lane, path)?;
        }
        let own = head.version() > 0 && head.lane() == lane;
        let block = if own { 1 - head.block() } else { 0 };
        let version = head.version() + 1;
        if version >> VERSION_BITS != 0 {
            return Err(Refused::Gone);
        }
        // Who still copies an older state from this block must see that the head has moved on when
        // it sees any of what follows.
        fence(Release);
        let spare = &image.cells[lane][path].blocks[block];
        for (word, value) in spare.words.iter().zip(draft.state.to_words()) {
            word.store(value, Relaxed);
        }
        spare.stamp.store(Stamp::new(version, draft.held).0, Relaxed);
        if head.version() > 0 && !own {
            record(&image.recorded[head.lane()].stamps[path], stamp);
        }
        let next = Head::new(version, draft.generation, lane, block);
        let next = if draft.started { next.0 } else { next.0 | ANEW };
        Ok(image.paths[path].head.compare_exchange(head.0, next, SeqCst, Relaxed).is_ok())
    }

    #[cold]
    fn back_cells(&self, lane: usize, path: usize) -> Result<(), Refused> {
        let (image, group) = (self.memory.image, path / GROUP);
        let cells = &image.cells[lane][group * GROUP..(group + 1) * GROUP];
        self.memory.back(cells).map_err(|_| Refused::Memory)?;
        image.groups[lane].fetch_or(1 << group, Relaxed);
        Ok(())
    }
}

/// Keeps the newer of two stamps: whoever is late does no harm.
fn record(place: &AtomicU64, stamp: Stamp) {
    let mut known = place.load(Relaxed);
    while known >> HELD_BITS < stamp.0 >> HELD_BITS {
        match place.compare_exchange_weak(known, stamp.0, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => known = now,
        }
    }
}

/// Leaves the field to the others for a moment, longer the more often a step was lost.
#[cold]
fn pause(lost: u32) {
    for _ in 0..1_u32 << lost.min(6) {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_what_was_put_in() {
        let head = Head::new(12_345_678_901, 0xab, 511, 1);
        let parts = (head.version(), head.generation(), head.lane(), head.block());
        assert_eq!(parts, (12_345_678_901, 0xab, 511, 1));
        for held in [0, 1, -1, 256, -256, (1 << 19) - 1, -(1 << 19)] {
            let stamp = Stamp::new((1 << VERSION_BITS) - 1, held);
            assert_eq!((stamp.held(), stamp.0 >> HELD_BITS), (held, (1 << VERSION_BITS) - 1));
        }
    }

    #[test]
    fn a_record_never_goes_back() {
        let place = AtomicU64::new(0);
        for (version, held, expected) in [(5, 2, 2), (3, 9, 2), (5, 7, 2), (6, -1, -1)] {
            record(&place, Stamp::new(version, held));
            assert_eq!(Stamp(place.load(Relaxed)).held(), expected);
        }
    }
}
