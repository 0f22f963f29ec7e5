//! Shortest positioning time first: what a drive does that knows its own heads and platters.

use super::{Elevator, Line, Queued};
use crate::device::disk::Aim;
use crate::units::Time;

/// Takes the request that the heads reach first, seek and rotation together; the oldest of equals.
///
/// Greedy, so that a sequential stream would keep the disk for itself, hence the bound on passing
/// over that the module's page gives.
#[derive(Debug)]
pub(super) struct Sptf {
    line: Line,
}

impl Sptf {
    pub(super) const fn new(passes: u32) -> Self {
        Self { line: Line::new(passes) }
    }
}

impl Elevator for Sptf {
    fn insert(&mut self, queued: Queued) {
        self.line.insert(queued);
    }

    fn next(&mut self, aim: &Aim<'_>, _now: Time) -> Option<Queued> {
        if self.len() <= 1 || self.line.is_overdue() {
            return (self.len() > 0).then(|| self.line.take(0));
        }
        let mut nearest = (f64::INFINITY, 0);
        for (index, queued) in self.line.iter().enumerate() {
            let positioning = aim.positioning(queued);
            if positioning < nearest.0 {
                nearest = (positioning, index);
            }
        }
        Some(self.line.take(nearest.1))
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
    fn goes_to_what_is_near() {
        // 400 GB and back costs more than any rotation, wherever the platters stand.
        let requests = [(0, 400_000), (1, 1), (2, 400_001), (3, 2)]
            .map(|(id, mega)| queued(id, mega * 1_000_000, false, Time::ZERO));
        let ids = order("sptf", &requests, Time::ZERO);
        assert!(ids[..2].contains(&1) && ids[..2].contains(&3), "{ids:?}");
    }
}
