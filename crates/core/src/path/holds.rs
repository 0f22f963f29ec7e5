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
///
/// One word, since a million clients have four million of them: the reason and one in the lower
/// [`REASON_BITS`], which are zero while nothing is held, and the nanoseconds above, for 73 years.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held(u64);

const REASON_BITS: u32 = 3;

const _: () = assert!(HoldReason::ALL.len() < 1 << REASON_BITS, "a reason has no number");

impl Held {
    /// Notes that from `now` on the head of the queue is held for `reason`, or not held.
    pub fn note(&mut self, totals: &mut HoldTotals, now: Time, reason: Option<HoldReason>) {
        if self.reason() == reason {
            return;
        }
        self.settle(totals, now);
        *self = reason.map_or(Self::default(), |reason| Self::new(reason, now));
        if let Some(reason) = reason {
            totals.holds[reason.index()] += 1;
        }
    }

    /// Adds the time up to `now`.
    pub fn settle(&mut self, totals: &mut HoldTotals, now: Time) {
        if let Some(reason) = self.reason() {
            let since = Time::from_nanos(self.0 >> REASON_BITS);
            totals.held_nanos[reason.index()] += now.since(since).as_nanos();
            *self = Self::new(reason, now);
        }
    }

    const fn new(reason: HoldReason, since: Time) -> Self {
        Self(since.as_nanos() << REASON_BITS | (reason.index() as u64 + 1))
    }

    fn reason(self) -> Option<HoldReason> {
        let number = (self.0 & ((1 << REASON_BITS) - 1)).checked_sub(1)?;
        HoldReason::ALL.get(number as usize).copied()
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
