//! First come, first served: the order that every other one is compared with.

use std::collections::VecDeque;

use super::{Elevator, Queued};
use crate::device::disk::Aim;
use crate::units::Time;

/// Requests in order of arrival; nothing is ever passed over.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    waiting: VecDeque<Queued>,
}

impl Elevator for Fifo {
    fn insert(&mut self, queued: Queued) {
        self.waiting.push_back(queued);
    }

    fn next(&mut self, _aim: &Aim<'_>, _now: Time) -> Option<Queued> {
        self.waiting.pop_front()
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::device::elevator::tests::{order, queued};
    use crate::units::Time;

    #[test]
    fn keeps_the_order_of_arrival() {
        let requests = [(0, 900), (1, 5), (2, 400)]
            .map(|(id, mega)| queued(id, mega * 1_000_000, id == 1, Time::ZERO));
        assert_eq!(order("fifo", &requests, Time::ZERO), [0, 1, 2]);
    }
}
