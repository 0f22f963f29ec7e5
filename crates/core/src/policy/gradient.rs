//! A gradient limiter: the window follows the ratio of long-term to present process time.
//!
//! When process times are what they have long been, the window may grow by a small queue; when they
//! rise above a tolerance, it shrinks in proportion. The shape is that of the limiters used between
//! services: `new = window * clamp(tolerance * long / short, 0.5, 1) + queue`, smoothed.

use super::{Decision, Parameter, Policy, PolicyEntry, Seen, name_word};
use crate::units::Span;

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "gradient",
    about: "follows the ratio of the long-term to the present process time",
    parameters: &[
        Parameter { name: "tolerance", default: "1.5", about: "rise that is accepted, 1 to 10" },
        Parameter { name: "queue", default: "1", about: "growth when all is well, 0 to 32" },
    ],
    build: |parameters| {
        let tolerance = parameters.number("tolerance", 1.0, 10.0)?;
        Ok(Box::new(Gradient { tolerance, queue: parameters.number("queue", 0.0, 32.0)? }))
    },
    read: |&[tolerance, queue, ..], visit| {
        visit(&Gradient { tolerance: f64::from_bits(tolerance), queue: f64::from_bits(queue) });
    },
};

/// The long-term average has a weight of 1/512, so that it outlives a congested second.
const LONG_TERM_REPLIES: u64 = 512;

/// The part of the old window that a change keeps.
const SMOOTHING: f64 = 0.8;

/// A gradient limiter.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    /// By how much the present process time may exceed the long-term one.
    pub tolerance: f64,
    /// What is added when it does not.
    pub queue: f64,
}

impl Policy for Gradient {
    fn name(&self) -> String {
        format!("gradient:{},queue={}", self.tolerance, self.queue)
    }

    fn words(&self) -> Vec<u64> {
        vec![name_word(ENTRY.name), self.tolerance.to_bits(), self.queue.to_bits()]
    }

    /// `memory[0]` is the long-term and `memory[1]` the short-term process time, in microseconds.
    fn on_reply(&self, memory: &mut [u32; 2], seen: &Seen<'_>) -> Decision {
        let sample = (seen.process_time.as_nanos() / 1_000).clamp(1, u64::from(u32::MAX)) as u32;
        if memory[0] == 0 {
            *memory = [sample, sample];
        }
        memory[0] = average(memory[0], sample, LONG_TERM_REPLIES);
        memory[1] = average(memory[1], sample, 8);
        // A long-term time far above the present one is left over from a worse hour: let go of it.
        if memory[0] / 2 > memory[1] {
            memory[0] = memory[0] / 20 * 19;
        }
        let gradient = self.tolerance * f64::from(memory[0]) / f64::from(memory[1]);
        let target = seen.window * gradient.clamp(0.5, 1.0) + self.queue;
        let window = seen.window * SMOOTHING + target * (1.0 - SMOOTHING);
        Decision { window: Some(window), ..Decision::KEEP }
    }

    /// Every reply, as the method is defined; the smoothing is its cadence.
    fn window_interval(&self) -> Span {
        Span::ZERO
    }
}

fn average(old: u32, sample: u32, replies: u64) -> u32 {
    // Rounding up lets the average climb even when the difference is below one part in `replies`.
    let sum = u64::from(old) * (replies - 1) + u64::from(sample);
    let rounding = if sample > old { replies - 1 } else { 0 };
    ((sum + rounding) / replies) as u32
}
