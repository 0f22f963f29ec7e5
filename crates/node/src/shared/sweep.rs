//! Giving back what dead processes held.
//!
//! Whoever sweeps takes over the lanes of a dead process by a compare-and-swap of their owner, and
//! then makes, in the lane of the dead, the step that the dead did not come to: so many requests
//! are no longer in flight. If the sweeper dies as well, the lanes are those of a dead process
//! again, in a state as exact as before.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use afflux_core::units::{Span, Time};

use super::Shared;
use super::identity;
use super::image::{GROUP, LANES, PATHS};
use super::step::Want;
use crate::{clock, signals};

/// How often those who wait look for dead processes.
const PERIOD: Span = Span::from_millis(100);

/// After so long somebody who sweeps is taken to be stopped for good.
const STUCK: Span = Span::from_secs(10);

impl Shared {
    /// Gives back what dead processes held. Waiting requests do it themselves now and then; who
    /// starts programs may do it more often. Reads `/proc`. Returns how many processes were dead.
    pub fn sweep(&self) -> usize {
        self.end(|owner| !identity::is_alive(owner))
    }

    /// Sweeps, unless that was just done.
    pub(super) fn sweep_if_due(&self, now: Time) {
        let swept = &self.memory.image.header.swept;
        let last = swept.load(Relaxed);
        if now.since(Time::from_nanos(last)) >= PERIOD
            && swept.compare_exchange(last, now.as_nanos(), Relaxed, Relaxed).is_ok()
        {
            self.sweep();
        }
    }

    /// Gives back what programs held that ran in this process before an `exec`.
    pub(super) fn end_former_programs(&self, me: u64) {
        let owners = &self.memory.image.owners;
        let former = |owner: u64| identity::same_process(owner, me) && owner != me;
        if owners.iter().any(|owner| former(owner.load(Relaxed))) {
            self.end(former);
        }
    }

    /// Gives back what the processes held that are `dead`.
    fn end(&self, dead: impl Fn(u64) -> bool) -> usize {
        let (image, me) = (self.memory.image, self.identity());
        let _quiet = signals::hold_back();
        if !self.begin_to_sweep(me) {
            return 0;
        }
        let (mut last, mut ended) = (0, 0);
        for lane in 0..LANES {
            let owner = image.owners[lane].load(Acquire);
            // A process has several lanes, and all of a dead one's are gone after the first.
            if owner != 0 && owner != me && owner != last {
                last = owner;
                if dead(owner) {
                    self.bury(owner, me);
                    ended += 1;
                }
            }
        }
        let _ = image.header.sweeper.compare_exchange(me, 0, Release, Relaxed);
        if ended > 0 {
            (0..PATHS)
                .filter(|path| self.anybody_waits(*path))
                .for_each(|path| self.call_first(path));
        }
        ended
    }

    /// One sweeps at a time, since what a dead process holds is a sum over its lanes.
    fn begin_to_sweep(&self, me: u64) -> bool {
        let header = &self.memory.image.header;
        let sweeper = header.sweeper.load(Acquire);
        let now = clock::now();
        let stuck = now.since(Time::from_nanos(header.swept.load(Relaxed))) > STUCK;
        let free = sweeper == 0 || stuck || (sweeper != me && !identity::is_alive(sweeper));
        if !free || header.sweeper.compare_exchange(sweeper, me, AcqRel, Relaxed).is_err() {
            return false;
        }
        header.swept.store(now.as_nanos(), Relaxed);
        true
    }

    fn bury(&self, dead: u64, me: u64) {
        let image = self.memory.image;
        // Seats first: when the lanes are free, nobody knows any more that the process was there.
        for path in (0..PATHS).filter(|path| image.paths[*path].key.load(Acquire) > 1) {
            self.clear_seats(path, dead);
        }
        let mut taken = [false; LANES];
        for (lane, taken) in taken.iter_mut().enumerate() {
            *taken = image.owners[lane].compare_exchange(dead, me, AcqRel, Relaxed).is_ok();
        }
        let lanes = || (0..LANES).filter(|lane| taken[*lane]);
        // What it ended on one lane and began on another is negative there. That comes first, so
        // that the path never seems to have fewer requests in flight than it has.
        for positive in [false, true] {
            for lane in lanes() {
                self.give_back(lane, positive);
            }
        }
        for lane in lanes() {
            self.hand_in_all(lane);
            image.owners[lane].store(0, Release);
        }
    }

    /// Gives back what a lane of a dead process holds on all paths, if it is of that sign.
    fn give_back(&self, lane: usize, positive: bool) {
        let groups = self.memory.image.groups[lane].load(Relaxed);
        let paths = (0..PATHS).filter(|path| groups >> (path / GROUP) & 1 == 1);
        for path in paths {
            let held = self.held(lane, path);
            if held == 0 || (held > 0) != positive {
                continue;
            }
            // It only fails when the path has used up its versions, and then nobody can use it.
            let _ = self.step(lane, path, None, |_, draft| {
                let in_flight = i64::from(draft.state.in_flight()) - i64::from(draft.held);
                draft.held = 0;
                let in_flight = u32::try_from(in_flight.max(0)).unwrap_or(u32::MAX);
                draft.state = draft.state.recounted(in_flight);
                Want::Publish
            });
        }
    }
}
