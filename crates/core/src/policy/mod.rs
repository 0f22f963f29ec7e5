//! Policies: what says how large a path's window and gap should be.
//!
//! A policy is small and keeps nothing but the two words that each path lends it; the
//! [`Controller`](crate::path::Controller) clamps, counts and paces. [`POLICIES`] is the registry:
//! to add a policy, write one file beside this one and add its entry to the table.

pub mod aimd;
pub mod by_rules;
pub mod fixed;
pub mod gradient;
mod words;

pub use crate::parameters::{Parameter, ParameterError, Parameters};
pub use words::{Words, with};

use crate::indicator::Signals;
use crate::parameters::Named;
use crate::rules::Gap;
use crate::units::{Span, Time};

/// All policies that can be named on a command line; rule files come by their own option.
pub static POLICIES: &[PolicyEntry] =
    &[fixed::NONE_ENTRY, fixed::ENTRY, aimd::ENTRY, gradient::ENTRY];

/// How a policy is named, explained and built.
#[derive(Debug)]
pub struct PolicyEntry {
    /// Its name.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Its parameters, in the order in which they may be given without a name.
    pub parameters: &'static [Parameter],
    /// Builds it.
    pub build: fn(&Parameters) -> Result<Box<dyn Policy>, ParameterError>,
    /// Makes it of the words that [`Policy::words`] gave, and shows it to a visitor.
    pub read: Read,
}

/// Makes a policy of its words and shows it to a visitor.
pub type Read = fn(&[u64; PARAMETERS], &mut dyn FnMut(&dyn Policy));

/// How many words a policy that is no rule set may need besides its name.
pub const PARAMETERS: usize = 4;

/// What a policy is shown on each reply.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When the reply arrived.
    pub now: Time,
    /// The indicators, this reply included.
    pub signals: &'a Signals,
    /// The window as it is.
    pub window: f64,
    /// The request's process time.
    pub process_time: Span,
    /// The least process time of requests of its size.
    pub least_process_time: Span,
    /// Whether the window has held a sender back since it last changed.
    pub limited: bool,
}

/// What a policy wants. `None` leaves a thing as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decision {
    /// The window.
    pub window: Option<f64>,
    /// A bound on the window that belongs to the policy itself.
    pub window_max: Option<f64>,
    /// The gap.
    pub gap: Option<Gap>,
    /// The rule that decided, for its hit counter.
    pub rule: Option<u32>,
}

impl Decision {
    /// Leave everything as it is.
    pub const KEEP: Self = Self { window: None, window_max: None, gap: None, rule: None };
}

/// Says what the window and the gap should be.
pub trait Policy: Send + Sync {
    /// As it is written on a command line.
    fn name(&self) -> String;

    /// It as words, its name first ([`name_word`]), for memory that processes share; [`with`] reads
    /// them.
    fn words(&self) -> Vec<u64>;

    /// A reply came in. `memory` is the path's, zero at its start.
    fn on_reply(&self, memory: &mut [u32; 2], seen: &Seen<'_>) -> Decision;

    /// A request was not answered in time, or its connection was lost.
    fn on_fault(&self, _memory: &mut [u32; 2], _window: f64, _now: Time) -> Decision {
        Decision::KEEP
    }

    /// The window and gap that a path starts with.
    fn start(&self) -> Decision {
        Decision::KEEP
    }

    /// The least time between two changes of the window. Half a second unless the policy has its
    /// own cadence, since an action takes that long to show its effect (ASCAR III-D).
    fn window_interval(&self) -> Span {
        Span::from_millis(500)
    }
}

impl Policy for Box<dyn Policy> {
    fn name(&self) -> String {
        self.as_ref().name()
    }

    fn words(&self) -> Vec<u64> {
        self.as_ref().words()
    }

    fn on_reply(&self, memory: &mut [u32; 2], seen: &Seen<'_>) -> Decision {
        self.as_ref().on_reply(memory, seen)
    }

    fn on_fault(&self, memory: &mut [u32; 2], window: f64, now: Time) -> Decision {
        self.as_ref().on_fault(memory, window, now)
    }

    fn start(&self) -> Decision {
        self.as_ref().start()
    }

    fn window_interval(&self) -> Span {
        self.as_ref().window_interval()
    }
}

/// The word for a policy's name: its first eight letters.
pub const fn name_word(name: &str) -> u64 {
    let (bytes, mut word, mut at) = (name.as_bytes(), 0, 0);
    while at < bytes.len() && at < 8 {
        word |= (bytes[at] as u64) << (8 * at);
        at += 1;
    }
    word
}

/// The baseline: the default window, never changed, and no pacing.
pub fn none() -> Box<dyn Policy> {
    Box::new(fixed::Unregulated)
}

/// Builds the policy written as `text`, such as `none`, `fixed:8`, `fixed:8,gap=33ms`, `aimd`.
///
/// ```
/// use afflux_core::policy;
/// assert_eq!(policy::parse("fixed:4,gap=0.9ack").unwrap().name(), "fixed:4,gap=0.9ack");
/// assert!(policy::parse("fixd:4").err().unwrap().to_string().contains("fixed"));
/// ```
pub fn parse(text: &str) -> Result<Box<dyn Policy>, ParameterError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let entry = POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        ParameterError::UnknownName {
            kind: "policy",
            name: name.to_owned(),
            known: known.join(", "),
        }
    })?;
    let named = Named { kind: "policy", name: entry.name, parameters: entry.parameters };
    (entry.build)(&Parameters::parse(named, rest)?)
}
