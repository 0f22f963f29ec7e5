//! How long a path's next request was held back, and by what.

use serde::{Deserialize, Serialize};

use crate::limits::HoldReason;
use crate::units::{Span, Time};

/// Totals for each of [`HoldReason::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldTotals {
    /// How often something was held, by reason.
    pub holds: [u64; HoldReason::ALL.len()],
    /// For how long, in nanoseconds, by reason.
    pub held_nanos: [u64; HoldReason::ALL.len()],
}

impl HoldTotals {
    /// Adds `other` to these totals.
    pub fn add(&mut self, other: &Self) {
        for reason in 0..HoldReason::ALL.len() {
            self.holds[reason] += other.holds[reason];
            self.held_nanos[reason] += other.held_nanos[reason];
        }
    }

    /// Time held for `reason`.
    pub fn held(&self, reason: HoldReason) -> Span {
        Span::from_nanos(self.held_nanos[reason.index()])
    }
}

/// What holds the head of one path's queue, and since when: either it is free, or held for one
/// reason. Where there are many paths, several may add to the same totals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    current: Option<(HoldReason, Time)>,
}

impl Held {
    /// Notes that from `now` on the head of the queue is held for `reason`, or not held.
    pub fn note(&mut self, totals: &mut HoldTotals, now: Time, reason: Option<HoldReason>) {
        let before = self.current.map(|(reason, _)| reason);
        if before == reason {
            return;
        }
        self.settle(totals, now);
        self.current = reason.map(|reason| (reason, now));
        if let Some(reason) = reason {
            totals.holds[reason.index()] += 1;
        }
    }

    /// Adds the time up to `now`.
    pub fn settle(&mut self, totals: &mut HoldTotals, now: Time) {
        if let Some((reason, since)) = &mut self.current {
            totals.held_nanos[reason.index()] += now.since(*since).as_nanos();
            *since = now;
        }
    }
}

/// The clock of one path's holds, with totals of its own.
#[derive(Clone, Debug, Default)]
pub struct HoldLedger {
    totals: HoldTotals,
    held: Held,
}

impl HoldLedger {
    /// Notes that from `now` on the head of the queue is held for `reason`, or not held.
    pub fn note(&mut self, now: Time, reason: Option<HoldReason>) {
        self.held.note(&mut self.totals, now, reason);
    }

    /// The totals up to `now`.
    pub fn totals(&mut self, now: Time) -> HoldTotals {
        self.held.settle(&mut self.totals, now);
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_the_reason_that_stood() {
        let mut ledger = HoldLedger::default();
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        ledger.note(at(0), Some(HoldReason::Window));
        ledger.note(at(5), Some(HoldReason::Window));
        ledger.note(at(10), Some(HoldReason::Gap));
        ledger.note(at(13), None);
        ledger.note(at(50), Some(HoldReason::Window));
        let totals = ledger.totals(at(51));
        assert_eq!(totals.held(HoldReason::Window), Span::from_millis(11));
        assert_eq!(totals.held(HoldReason::Gap), Span::from_millis(3));
        assert_eq!(totals.holds[HoldReason::Window.index()], 2);
    }
}
