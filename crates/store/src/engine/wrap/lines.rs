//! One line of requests for each server, first come first served, each with a gate at its head.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use afflux_core::units::Time;

use super::relay::{Manner, Next};
use crate::engine::{Place, Request};

/// What says when the first in line may go.
pub(super) trait Gate: Clone + fmt::Debug + Send {
    /// When a request of so many bytes may go; at `now` or before means at once, and
    /// [`Time::NEVER`] not before another has ended.
    fn opens(&self, now: Time, bytes: u64) -> Time;

    /// A request of so many bytes went.
    fn passed(&mut self, now: Time, bytes: u64);

    /// A request that went has ended.
    fn ended(&mut self) {}
}

/// The lines at all servers. All gates begin as the same.
#[derive(Debug)]
pub(super) struct Lines<G> {
    fresh: G,
    lines: BTreeMap<Place, Line<G>>,
}

#[derive(Debug)]
struct Line<G> {
    gate: G,
    // Number and bytes.
    waiting: VecDeque<(u64, u64)>,
}

impl<G> Lines<G> {
    /// No lines yet; each will have a gate like `fresh`.
    pub(super) fn new(fresh: G) -> Self {
        Self { fresh, lines: BTreeMap::new() }
    }
}

impl<G: Gate> Manner for Lines<G> {
    fn came(&mut self, _: Time, number: u64, request: &Request) {
        let fresh = || Line { gate: self.fresh.clone(), waiting: VecDeque::new() };
        let line = self.lines.entry(request.place).or_insert_with(fresh);
        line.waiting.push_back((number, request.operation.data_bytes()));
    }

    fn next(&mut self, now: Time) -> Next {
        let mut wake = Time::NEVER;
        for line in self.lines.values_mut() {
            let Some(&(number, bytes)) = line.waiting.front() else { continue };
            let opens = line.gate.opens(now, bytes);
            if opens <= now {
                line.waiting.pop_front();
                line.gate.passed(now, bytes);
                return Next::Pass(number);
            }
            wake = wake.min(opens);
        }
        Next::At(wake)
    }

    fn left(&mut self, number: u64, place: Place) {
        if let Some(line) = self.lines.get_mut(&place) {
            line.waiting.retain(|(other, _)| *other != number);
        }
    }

    fn ended(&mut self, place: Place) {
        if let Some(line) = self.lines.get_mut(&place) {
            line.gate.ended();
        }
    }
}
