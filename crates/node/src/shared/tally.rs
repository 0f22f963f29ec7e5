//! Statistics: what was counted on each path, kept apart from its state.
//!
//! A lane counts for itself, with plain stores, since nobody else counts there; now and then it
//! adds what it has to the rows of the path. Who reads adds up both. Counts are exact as long as
//! nobody dies and no setting changes; then at most what one lane had not added yet is lost.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use afflux_core::limits::HoldReason;
use afflux_core::path::{HoldTotals, Reply, Ruling};
use afflux_core::rules::Hits;
use afflux_core::units::Span;

use super::image::{LANES, PATHS, ROW_ALL, ROW_OTHER, ROWS, SUMS, TALLIES, Tally};
use super::{Counted, Shared};

const REASONS: usize = HoldReason::ALL.len();

/// Where a tally's replies belong: generation, path and row, and a one so that it is not zero.
fn place(generation: u32, path: usize, row: usize) -> u64 {
    u64::from(generation) << 32 | (path as u64) << 16 | (row as u64) << 1 | 1
}

impl Shared {
    /// Counts a reply on a lane of one's own.
    #[inline]
    pub(super) fn count(
        &self,
        lane: usize,
        path: usize,
        generation: u32,
        reply: &Reply,
        ruling: &Ruling,
    ) {
        let row = ruling.rule.map_or(ROW_OTHER, |rule| (rule as usize).min(ROW_OTHER));
        let place = place(generation, path, row);
        let tally = &self.memory.image.tallies[lane][(path * 5 + row) % TALLIES];
        if tally.key.load(Relaxed) != place {
            self.hand_in(tally);
            tally.key.store(place, Relaxed);
        }
        let [ack, send, ratio] = ruling.signals;
        let process_time = reply.arrived.since(reply.sent).as_nanos();
        let more = [1, ack, send, ratio, u64::from(reply.size_bytes), process_time];
        for (sum, more) in tally.sums.iter().zip(more) {
            sum.store(sum.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }

    /// Adds a tally to its rows and empties it.
    #[cold]
    fn hand_in(&self, tally: &Tally) {
        let place = tally.key.swap(0, Relaxed);
        let sums: [u64; SUMS] = std::array::from_fn(|sum| tally.sums[sum].swap(0, Relaxed));
        let (path, row) = ((place >> 16) as usize & 0xffff, (place >> 1) as usize & 0x7fff);
        if place == 0 || path >= PATHS || row >= ROWS {
            return;
        }
        let counts = &self.memory.image.counts[path];
        add(&counts.rows[ROW_ALL].sums, &sums);
        let generation = place >> 32;
        let counted = counts.generation.load(Acquire);
        if generation > counted
            && counts.generation.compare_exchange(counted, generation, AcqRel, Acquire).is_ok()
        {
            let rows = counts.rows[..ROW_ALL].iter().flat_map(|row| &row.sums);
            rows.for_each(|sum| sum.store(0, Relaxed));
        }
        if generation >= counted {
            add(&counts.rows[row].sums, &sums);
        }
    }

    /// Adds all tallies of a lane to their rows.
    pub(super) fn hand_in_all(&self, lane: usize) {
        self.memory.image.tallies[lane].iter().for_each(|tally| self.hand_in(tally));
    }

    /// Empties the statistics of a path.
    pub(super) fn clear_counts(&self, path: usize) {
        let counts = &self.memory.image.counts[path];
        let sums = counts.rows.iter().flat_map(|row| &row.sums);
        sums.chain(&counts.holds).chain([&counts.generation]).for_each(|sum| sum.store(0, Relaxed));
    }

    /// Adds what held a request back.
    pub(super) fn count_holds(&self, path: usize, holds: &HoldTotals) {
        let places = &self.memory.image.counts[path].holds;
        for (place, more) in places.iter().zip(holds.holds.iter().chain(&holds.held_nanos)) {
            if *more > 0 {
                place.fetch_add(*more, Relaxed);
            }
        }
    }

    /// What was counted on a path.
    pub(super) fn counted(&self, path: usize) -> Counted {
        let image = self.memory.image;
        let counts = &image.counts[path];
        let load = |sums: &[AtomicU64; SUMS]| sums.each_ref().map(|sum| sum.load(Relaxed));
        let mut rows: Vec<[u64; SUMS]> = counts.rows.iter().map(|row| load(&row.sums)).collect();
        // Lanes that were never used have no memory, and are not looked at so that they get none.
        let lanes = (0..LANES).filter(|lane| image.groups[*lane].load(Relaxed) != 0);
        let tallies = lanes.flat_map(|lane| &image.tallies[lane]);
        let here = tallies
            .map(|tally| (tally.key.load(Relaxed), load(&tally.sums)))
            .filter(|(place, _)| *place != 0 && (place >> 16) as usize & 0xffff == path);
        let here: Vec<(u64, [u64; SUMS])> = here.collect();
        let counted = counts.generation.load(Acquire);
        let newest = here.iter().map(|(place, _)| place >> 32).fold(counted, u64::max);
        if newest > counted {
            rows[..ROW_ALL].fill([0; SUMS]);
        }
        for (place, sums) in here {
            let row = (place >> 1) as usize & 0x7fff;
            let row = Some(row).filter(|row| place >> 32 == newest && *row < ROW_ALL);
            for row in row.into_iter().chain([ROW_ALL]) {
                let all = rows[row].iter_mut().zip(sums);
                all.for_each(|(all, sum)| *all = all.wrapping_add(sum));
            }
        }
        let [replies, .., bytes, process_time] = rows[ROW_ALL];
        let hits = rows[..ROW_OTHER].iter().map(|&[count, ack, send, ratio, ..]| {
            let mean = |sum: u64| sum.checked_div(count).unwrap_or(0);
            Hits { count, means: [mean(ack), mean(send), mean(ratio)] }
        });
        let mut hits: Vec<Hits> = hits.collect();
        let used = hits.iter().rposition(|hits| hits.count > 0).map_or(0, |last| last + 1);
        hits.truncate(used);
        let hold = |at: usize| counts.holds[at].load(Relaxed);
        let holds = HoldTotals {
            holds: std::array::from_fn(hold),
            held_nanos: std::array::from_fn(|reason| hold(REASONS + reason)),
        };
        Counted { replies, bytes, process_time: Span::from_nanos(process_time), hits, holds }
    }
}

fn add(sums: &[AtomicU64; SUMS], more: &[u64; SUMS]) {
    for (sum, more) in sums.iter().zip(more) {
        sum.fetch_add(*more, Relaxed);
    }
}
