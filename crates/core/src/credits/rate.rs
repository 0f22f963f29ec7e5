//! The rate of a server: requests done by the time in which there was something to do.
//!
//! Source: the credits paper, section III-C: IOPS is "the division of finished I/O operations and
//! the efficient I/O time in certain time window", "measured periodically".

use crate::units::Span;

const STEPS: usize = 8;

/// Requests done and busy time, over a window of busy time that moves on in eighths.
///
/// Idle time does not move it, so that after a pause the last that was known still counts.
#[derive(Clone, Copy, Debug)]
pub struct BusyRate {
    step_nanos: u64,
    steps: [Counted; STEPS],
    at: usize,
    /// Of all steps but the one at `at`.
    ended: Counted,
}

/// How much was done in how much busy time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests done.
    pub done: u64,
    /// Busy time, in nanoseconds.
    pub busy_nanos: u64,
}

impl BusyRate {
    /// Nothing was done yet; averages will be over `window`.
    pub fn new(window: Span) -> Self {
        let step_nanos = (window.as_nanos() / STEPS as u64).max(1);
        let steps = [Counted::default(); STEPS];
        Self { step_nanos, steps, at: 0, ended: Counted::default() }
    }

    /// Length of a step of busy time.
    pub const fn step(&self) -> Span {
        Span::from_nanos(self.step_nanos)
    }

    /// There was something to do for `elapsed`; says whether a step of the window ended with it.
    pub fn busy(&mut self, elapsed: Span) -> bool {
        let step = &mut self.steps[self.at];
        step.busy_nanos = step.busy_nanos.saturating_add(elapsed.as_nanos());
        let ends = step.busy_nanos >= self.step_nanos;
        if ends {
            self.move_on();
        }
        ends
    }

    /// A request was done.
    pub const fn done(&mut self) {
        self.steps[self.at].done += 1;
    }

    /// What the window holds.
    pub fn counted(&self) -> Counted {
        self.ended.and(self.steps[self.at])
    }

    /// Requests a second of busy time, for people; zero before anything was done.
    pub fn per_second(&self) -> f64 {
        let Counted { done, busy_nanos } = self.counted();
        if busy_nanos == 0 { 0.0 } else { done as f64 * 1e9 / busy_nanos as f64 }
    }

    /// How many requests are done in `span` of busy time, rounded down. `None` before anything was
    /// done in measurable time.
    pub fn done_in(&self, span: Span) -> Option<u64> {
        let Counted { done, busy_nanos } = self.counted();
        if done == 0 || busy_nanos == 0 {
            return None;
        }
        let done = u128::from(span.as_nanos()) * u128::from(done) / u128::from(busy_nanos);
        Some(u64::try_from(done).unwrap_or(u64::MAX))
    }

    /// How long so many `requests` take, rounded up. `None` as in [`BusyRate::done_in`].
    pub fn time_for(&self, requests: u64) -> Option<Span> {
        let Counted { done, busy_nanos } = self.counted();
        if done == 0 || busy_nanos == 0 {
            return None;
        }
        let nanos = (u128::from(requests) * u128::from(busy_nanos)).div_ceil(u128::from(done));
        Some(Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn move_on(&mut self) {
        self.at = (self.at + 1) % STEPS;
        self.steps[self.at] = Counted::default();
        let all = self.steps.iter().fold(Counted::default(), |sum, step| sum.and(*step));
        self.ended = all;
    }
}

impl Counted {
    const fn and(self, other: Self) -> Self {
        Self {
            done: self.done.saturating_add(other.done),
            busy_nanos: self.busy_nanos.saturating_add(other.busy_nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_rate_and_idle_time_leaves_it() {
        let mut rate = BusyRate::new(Span::from_millis(800));
        assert_eq!((rate.done_in(Span::from_secs(1)), rate.time_for(1)), (None, None));
        let mut steps = 0;
        for _ in 0..200 {
            rate.done();
            steps += u32::from(rate.busy(Span::from_millis(10)));
        }
        assert_eq!(steps, 20);
        assert_eq!(rate.done_in(Span::from_secs(1)), Some(100));
        assert_eq!(rate.time_for(3), Some(Span::from_millis(30)));
        // Twice as fast: after a whole window nothing of the old rate is left.
        for _ in 0..200 {
            rate.done();
            rate.busy(Span::from_millis(5));
        }
        assert_eq!(rate.done_in(Span::from_secs(1)), Some(200));
    }

    #[test]
    fn a_stall_of_a_year_is_forgotten_after_one_window() {
        let mut rate = BusyRate::new(Span::from_millis(800));
        rate.busy(Span::from_secs(365 * 86_400));
        rate.busy(Span::MAX);
        rate.done();
        assert_eq!(rate.done_in(Span::from_secs(1)), Some(0));
        for _ in 0..100 {
            rate.done();
            rate.busy(Span::from_millis(10));
        }
        assert_eq!(rate.done_in(Span::from_secs(1)), Some(100));
    }
}
