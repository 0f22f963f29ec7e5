//! Rule sets: a partition of the indicator space into boxes, each with an action.
//!
//! Source: ASCAR, section III-D. A rule set maps every congestion state to one action
//! `<m, b, gap>`: the window becomes `m * window + b`, and two sends keep at least the gap.
//!
//! A [`RuleFile`] is the text that people keep: it is parsed, linted and printed. [`Compiled`] is
//! what runs. [`split()`] and [`simplify()`] change a set and leave a partition a partition.
//! [`ascar_csv`] reads and writes the files of the original client.
//!
//! ```
//! use afflux_core::rules::{Action, Gap, RuleSet};
//!
//! let set = RuleSet::uniform(Action { multiply: None, add: 0.0, gap: Gap::NONE });
//! assert_eq!(set.rules.len(), 1);
//! ```

pub mod ascar_csv;
mod ascar_export;
mod compile;
mod file;
mod lex;
pub mod lint;
mod literal;
mod print;
mod rule_text;
mod shipped;
mod simplify;
mod space;
mod split;
mod text;

pub use compile::Compiled;
pub(crate) use compile::walk;
pub use file::{Place, RuleFile, RuleFileError, Section};
pub use lint::{Finding, LintError, Severity};
pub use print::{State, value_text};
pub use shipped::{SHIPPED, shipped};
pub use simplify::{Simplified, Step, simplify};
pub use split::{SplitError, hottest, split, split_at};
pub use text::{ParseError, ParseErrors};

use crate::indicator::{COUNT, INDICATORS, Signals};
use crate::units::Span;

/// The upper bound of an interval that has none.
pub const UNBOUNDED: u64 = u64::MAX;

/// A half-open box in indicator space: `low[i] <= signal[i] < high[i]`.
///
/// An upper bound of [`UNBOUNDED`] includes every value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Inclusive lower bounds, in the units of [`INDICATORS`].
    pub low: Signals,
    /// Exclusive upper bounds.
    pub high: Signals,
}

impl Region {
    /// The whole space.
    pub const ALL: Self = Self { low: [0; COUNT], high: [UNBOUNDED; COUNT] };

    /// Whether `signals` lies inside.
    pub fn contains(&self, signals: &Signals) -> bool {
        (0..COUNT).all(|axis| {
            self.low[axis] <= signals[axis]
                && (signals[axis] < self.high[axis] || self.high[axis] == UNBOUNDED)
        })
    }

    /// The part that both regions share, if any.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let shared = Self {
            low: std::array::from_fn(|axis| self.low[axis].max(other.low[axis])),
            high: std::array::from_fn(|axis| self.high[axis].min(other.high[axis])),
        };
        (0..COUNT).all(|axis| shared.low[axis] < shared.high[axis]).then_some(shared)
    }

    /// Whether no state that the indicators can take lies inside.
    pub fn is_unreachable(&self) -> bool {
        (0..COUNT).any(|axis| {
            self.high[axis] <= self.low[axis] || self.high[axis] <= INDICATORS[axis].floor
        })
    }
}

/// The least time between two sends of full-size requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gap {
    /// A fixed time, as in the paper.
    Time(Span),
    /// A fraction of the measured `ack_ewma`; it carries over to other numbers of clients.
    OfAck(f64),
}

impl Gap {
    /// No pacing.
    pub const NONE: Self = Self::Time(Span::ZERO);

    /// It as two words, for memory that processes share.
    pub fn to_words(self) -> [u64; 2] {
        match self {
            Self::Time(span) => [0, span.as_nanos()],
            Self::OfAck(fraction) => [1, fraction.to_bits()],
        }
    }

    /// The gap of two words, whatever they are.
    #[inline]
    pub fn from_words([kind, value]: [u64; 2]) -> Self {
        match kind {
            0 => Self::Time(Span::from_nanos(value)),
            _ => Self::OfAck(f64::from_bits(value)),
        }
    }
}

/// What a rule does on each reply that falls into its region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Action {
    /// Factor on the window; `None` leaves it unmultiplied (a negative `m` in the original CSV).
    pub multiply: Option<f64>,
    /// Added to the window after the factor.
    pub add: f64,
    /// Pacing.
    pub gap: Gap,
}

impl Action {
    /// Leaves window and pacing alone.
    pub const NONE: Self = Self { multiply: None, add: 0.0, gap: Gap::NONE };

    /// The window after this action, before any limit is applied.
    pub fn window_after(&self, window: f64) -> f64 {
        window * self.multiply.unwrap_or(1.0) + self.add
    }
}

/// What a rule saw: how often it matched, and the sums of the indicators when it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Hits {
    /// Replies that matched.
    pub count: u64,
    /// Mean of each indicator over those replies, in its own unit, rounded down.
    pub means: Signals,
}

impl Hits {
    /// What several rules, or one rule in several places, saw together: counts add up, means are
    /// weighted by them and rounded down once, as the original merges what its clients saw.
    pub fn together<'a>(all: impl IntoIterator<Item = &'a Self, IntoIter: Clone>) -> Self {
        let all = all.into_iter();
        let count: u128 = all.clone().map(|hits| u128::from(hits.count)).sum();
        let mean = |axis: usize| {
            let least = all.clone().map(|hits| hits.means[axis]).min().unwrap_or(0);
            // Only distances are weighted: the sum of whole products could pass 128 bits.
            let over = |hits: &Self| u128::from(hits.count) * u128::from(hits.means[axis] - least);
            let sum = all.clone().map(over).fold(0, u128::saturating_add);
            least + sum.checked_div(count).unwrap_or(0) as u64
        };
        let means = std::array::from_fn(mean);
        Self { count: u64::try_from(count).unwrap_or(u64::MAX), means }
    }
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Where it applies.
    pub region: Region,
    /// What it does there.
    pub action: Action,
    /// What it has seen so far; part of the file, since `split` and `simplify` need it.
    pub hits: Hits,
}

/// A rule set for one class of requests: its regions cover the space without gap or overlap.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// How often a second the window may change; 2 in the paper.
    pub window_changes_per_s: u32,
    /// The largest window that the rules may set.
    pub window_max: f64,
}

impl RuleSet {
    /// Window changes a second unless the file says otherwise (ASCAR III-D).
    pub const WINDOW_CHANGES_PER_S: u32 = 2;
    /// The largest window unless the file says otherwise.
    pub const WINDOW_MAX: f64 = 256.0;

    /// One rule over the whole space.
    pub fn uniform(action: Action) -> Self {
        Self {
            rules: vec![Rule { region: Region::ALL, action, hits: Hits::default() }],
            window_changes_per_s: Self::WINDOW_CHANGES_PER_S,
            window_max: Self::WINDOW_MAX,
        }
    }
}
