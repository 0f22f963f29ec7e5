//! One-way scan: upwards by position, then back to the lowest.

use super::{Elevator, Line, Queued};
use crate::device::disk::Aim;
use crate::units::Time;

/// Takes the nearest request at or above the end of the last one taken, or else the lowest; reads
/// and writes alike.
///
/// A stream that keeps writing just ahead of the scan would hold it back for ever, hence the bound
/// on passing over that the module's page gives.
#[derive(Debug)]
pub(super) struct CLook {
    line: Line,
    scan: u64,
}

impl CLook {
    pub(super) const fn new(passes: u32) -> Self {
        Self { line: Line::new(passes), scan: 0 }
    }
}

impl Elevator for CLook {
    fn insert(&mut self, queued: Queued) {
        self.line.insert(queued);
    }

    fn next(&mut self, _aim: &Aim<'_>, _now: Time) -> Option<Queued> {
        let by_scan = |queued: &Queued| {
            let offset = queued.request.offset_bytes;
            (offset < self.scan, offset)
        };
        let index = if self.line.is_overdue() {
            0
        } else {
            self.line.iter().enumerate().min_by_key(|(_, queued)| by_scan(queued))?.0
        };
        let taken = self.line.take(index);
        self.scan = taken.request.offset_bytes.saturating_add(taken.request.length_bytes);
        Some(taken)
    }

    fn len(&self) -> usize {
        self.line.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::device::elevator::tests::{order, queued};
    use crate::units::Time;

    #[test]
    fn scans_upwards_and_starts_again_at_the_bottom() {
        let requests = [(0, 300), (1, 100), (2, 200), (3, 0)]
            .map(|(id, mega)| queued(id, mega * 1_000_000, id == 1, Time::ZERO));
        assert_eq!(order("clook", &requests, Time::ZERO), [3, 1, 2, 0]);
    }
}
