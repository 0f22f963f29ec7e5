//! A window and a gap that never change: the honest competitor of every rule set, and the baseline.

use super::{Decision, Parameter, Policy, PolicyEntry, Seen, name_word};
use crate::rules::Gap;
use crate::units::Span;

pub(super) const NONE_ENTRY: PolicyEntry = PolicyEntry {
    name: "none",
    about: "the baseline: the default window of 8 (Lustre's), never changed, no pacing",
    parameters: &[],
    build: |_| Ok(super::none()),
    read: |_, visit| visit(&Unregulated),
};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fixed",
    about: "one window and one gap, whatever the replies say",
    parameters: &[
        Parameter { name: "window", default: "", about: "requests in flight, from 1 to 256" },
        Parameter { name: "gap", default: "0ms", about: "least time between sends" },
    ],
    build: |parameters| {
        let window = parameters.number("window", 1.0, 256.0)?;
        Ok(Box::new(Fixed { window, gap: parameters.gap("gap")? }))
    },
    read: |&[window, kind, gap, ..], visit| {
        visit(&Fixed { window: f64::from_bits(window), gap: Gap::from_words([kind, gap]) });
    },
};

/// Leaves the path as it started.
#[derive(Clone, Copy, Debug)]
pub struct Unregulated;

impl Policy for Unregulated {
    fn name(&self) -> String {
        "none".to_owned()
    }

    fn words(&self) -> Vec<u64> {
        vec![name_word(NONE_ENTRY.name)]
    }

    fn on_reply(&self, _: &mut [u32; 2], _: &Seen<'_>) -> Decision {
        Decision::KEEP
    }
}

/// One window and one gap.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// The window.
    pub window: f64,
    /// The gap; a fraction of `ack_ewma` follows the replies.
    pub gap: Gap,
}

impl Policy for Fixed {
    fn name(&self) -> String {
        match self.gap {
            Gap::Time(Span::ZERO) => format!("fixed:{}", self.window),
            Gap::Time(span) => format!("fixed:{},gap={span}", self.window),
            Gap::OfAck(fraction) => format!("fixed:{},gap={fraction}ack", self.window),
        }
    }

    fn words(&self) -> Vec<u64> {
        let [kind, gap] = self.gap.to_words();
        vec![name_word(ENTRY.name), self.window.to_bits(), kind, gap]
    }

    fn on_reply(&self, _: &mut [u32; 2], _: &Seen<'_>) -> Decision {
        Decision { gap: Some(self.gap), ..Decision::KEEP }
    }

    fn start(&self) -> Decision {
        Decision { window: Some(self.window), gap: Some(self.gap), ..Decision::KEEP }
    }
}
