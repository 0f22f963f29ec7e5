//! Orders that know one expiry for all: what has waited too long goes first, at once.

use super::{Elevator, Queued};
use crate::device::disk::{Aim, DiskOptions};
use crate::units::{Span, Time};

/// What is taken next while nothing has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Else {
    /// The nearest at or above the end of the last one, or else the lowest: a one-way scan.
    Scan,
    /// What the heads reach first, seek and rotation together.
    Reach,
}

/// Reads and writes together; the oldest goes first at every pick once it has expired, and by scan
/// or by reach otherwise.
///
/// Under load that outlasts the expiry this is order of arrival, which is why a queue that is too
/// long costs throughput here and nowhere else. Bound: a request that has expired is served after
/// the one that the disk works on and those that came before it.
#[derive(Debug)]
pub(super) struct Strict {
    /// In order of arrival.
    waiting: Vec<Queued>,
    expire: [Span; 2],
    otherwise: Else,
    scan: u64,
}

impl Strict {
    pub(super) const fn new(options: &DiskOptions, otherwise: Else) -> Self {
        let expire = [options.read_expire, options.write_expire];
        Self { waiting: Vec::new(), expire, otherwise, scan: 0 }
    }

    /// The request whose deadline passed first, if any has.
    fn expired(&self, now: Time) -> Option<usize> {
        let deadline =
            |queued: &Queued| queued.since + self.expire[usize::from(queued.request.write)];
        let (index, oldest) =
            self.waiting.iter().enumerate().min_by_key(|(_, queued)| deadline(queued))?;
        (deadline(oldest) <= now).then_some(index)
    }

    fn by_scan(&self) -> Option<usize> {
        let place = |queued: &Queued| {
            let offset = queued.request.offset_bytes;
            (offset < self.scan, offset)
        };
        let nearest = self.waiting.iter().enumerate().min_by_key(|(_, queued)| place(queued));
        nearest.map(|(index, _)| index)
    }

    fn by_reach(&self, aim: &Aim<'_>) -> Option<usize> {
        let reached = self.waiting.iter().map(|queued| aim.positioning(queued)).enumerate();
        reached.min_by(|left, right| left.1.total_cmp(&right.1)).map(|(index, _)| index)
    }
}

impl Elevator for Strict {
    fn insert(&mut self, queued: Queued) {
        self.waiting.push(queued);
    }

    fn next(&mut self, aim: &Aim<'_>, now: Time) -> Option<Queued> {
        let index = self.expired(now).or_else(|| match self.otherwise {
            Else::Scan => self.by_scan(),
            Else::Reach => self.by_reach(aim),
        })?;
        let taken = self.waiting.remove(index);
        self.scan = taken.request.offset_bytes.saturating_add(taken.request.length_bytes);
        Some(taken)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::device::elevator::tests::{order, queued};
    use crate::units::{Span, Time};

    const MB: u64 = 1_000_000;

    #[test]
    fn nothing_expired_goes_by_scan_or_by_reach() {
        let requests = [(0, 300), (1, 100), (2, 200), (3, 0)]
            .map(|(id, mega)| queued(id, mega * MB, id == 1, Time::ZERO));
        assert_eq!(order("clook-strict", &requests, Time::ZERO), [3, 1, 2, 0]);
        // 400 GB and back costs more than any rotation.
        let far = [(0, 400_000), (1, 1), (2, 400_001), (3, 2)]
            .map(|(id, mega)| queued(id, mega * MB, false, Time::ZERO));
        let ids = order("sptf-strict", &far, Time::ZERO);
        assert!(ids[..2].contains(&1) && ids[..2].contains(&3), "{ids:?}");
    }

    #[test]
    fn what_has_expired_goes_in_order_of_arrival_reads_and_writes_alike() {
        let places = [900, 100, 800, 200, 700, 300];
        let requests: Vec<_> = (0..)
            .zip(places)
            .map(|(id, mega)| queued(id, mega * MB, id % 2 == 0, Time::from_nanos(id)))
            .collect();
        let late = Time::ZERO + Span::from_millis(501);
        for name in ["clook-strict", "sptf-strict"] {
            assert_eq!(order(name, &requests, late), [0, 1, 2, 3, 4, 5], "{name}");
        }
    }
}
