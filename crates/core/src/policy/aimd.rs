//! Additive increase, multiplicative decrease: what TCP would do with process times.
//!
//! The window grows by one for each window's worth of replies, and shrinks by a factor when a reply
//! took longer than a multiple of the least process time, or did not come at all; at most once for
//! each window's worth of replies, as one queue is one event.

use super::{Decision, Parameter, Policy, PolicyEntry, Seen, name_word};
use crate::indicator::PT_RATIO;
use crate::units::{Span, Time};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "aimd",
    about: "additive increase, multiplicative decrease on the ratio of process times",
    parameters: &[
        Parameter {
            name: "ratio",
            default: "4",
            about: "pt_ratio above which it shrinks, 1 to 1000",
        },
        Parameter {
            name: "factor",
            default: "0.7",
            about: "what the window shrinks by, 0.1 to 0.99",
        },
    ],
    build: |parameters| {
        let ratio = parameters.number("ratio", 1.0, 1000.0)?;
        Ok(Box::new(Aimd { ratio, factor: parameters.number("factor", 0.1, 0.99)? }))
    },
    read: |&[ratio, factor, ..], visit| {
        visit(&Aimd { ratio: f64::from_bits(ratio), factor: f64::from_bits(factor) });
    },
};

/// Additive increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct Aimd {
    /// `pt_ratio` above which the path counts as congested.
    pub ratio: f64,
    /// What the window is multiplied by then.
    pub factor: f64,
}

impl Policy for Aimd {
    fn name(&self) -> String {
        format!("aimd:{},factor={}", self.ratio, self.factor)
    }

    fn words(&self) -> Vec<u64> {
        vec![name_word(ENTRY.name), self.ratio.to_bits(), self.factor.to_bits()]
    }

    /// `memory[0]` counts the replies for which no further decrease is due.
    fn on_reply(&self, memory: &mut [u32; 2], seen: &Seen<'_>) -> Decision {
        memory[0] = memory[0].saturating_sub(1);
        let congested = seen.signals[PT_RATIO] as f64 > self.ratio * 1_000.0;
        let window = if !congested {
            seen.window + 1.0 / seen.window.max(1.0)
        } else if memory[0] == 0 {
            memory[0] = seen.window as u32 + 1;
            seen.window * self.factor
        } else {
            return Decision::KEEP;
        };
        Decision { window: Some(window), ..Decision::KEEP }
    }

    fn on_fault(&self, memory: &mut [u32; 2], window: f64, _now: Time) -> Decision {
        memory[0] = window as u32 + 1;
        Decision { window: Some(window * self.factor), ..Decision::KEEP }
    }

    /// Every reply, as the method is defined.
    fn window_interval(&self) -> Span {
        Span::ZERO
    }
}
