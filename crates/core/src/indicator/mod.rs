//! Congestion indicators: what a path's replies say about the queue in front of its server.
//!
//! [`INDICATORS`] is the registry. It feeds the rule parser, the rule space, traces and help. To
//! add an indicator, write one file beside this one and add its line to the table; a rule names the
//! indicators that it bounds, so older rule files keep their meaning. Values are integers in the
//! indicator's own unit (nanoseconds, or thousandths of a ratio).
//!
//! Source: ASCAR, section III-C and Table I.

mod ack_ewma;
mod pt_ratio;
mod send_ewma;

use crate::units::Span;

/// All indicators, in the order of [`Signals`].
pub const INDICATORS: [Indicator; COUNT] =
    [ack_ewma::INDICATOR, send_ewma::INDICATOR, pt_ratio::INDICATOR];

/// How many indicators there are.
pub const COUNT: usize = 3;

/// Index of `ack_ewma`, which gaps given as a fraction refer to.
pub const ACK_EWMA: usize = 0;

/// Index of `pt_ratio`.
pub const PT_RATIO: usize = 2;

/// One value for each of [`INDICATORS`].
pub type Signals = [u64; COUNT];

/// One congestion indicator.
#[derive(Debug)]
pub struct Indicator {
    /// Its name in rule files.
    pub name: &'static str,
    /// What its integer values count.
    pub unit: Unit,
    /// One line for help and reports.
    pub about: &'static str,
    /// The least value it takes; rules that lie wholly below it are unreachable.
    pub floor: u64,
    /// Takes one reply into the 64 bits of memory that a path keeps for this indicator.
    pub observe: fn(memory: u64, sample: &Sample) -> u64,
    /// The indicator's value, read from that memory.
    pub value: fn(memory: u64) -> u64,
}

/// What an indicator's integer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds; written with a unit of time.
    Nanos,
    /// Thousandths of a plain number; written as a decimal.
    Milli,
}

/// What one reply tells the indicators.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time between this reply and the one before; none for the first, or after a long silence.
    pub ack_gap: Option<Span>,
    /// Time between the sends of the requests that this reply and the one before answer.
    pub send_gap: Option<Span>,
    /// Process time of the request.
    pub process_time: Span,
    /// The least process time known for requests of its size; never zero.
    pub least_process_time: Span,
    /// Keep the truncating integer EWMA of the original code.
    pub truncate: bool,
}

/// Index of the indicator named `name`.
pub fn find(name: &str) -> Option<usize> {
    INDICATORS.iter().position(|indicator| indicator.name == name)
}

/// An EWMA of weight 1/8, kept as eight times its value so that integers lose little.
///
/// The original divides first, `ea / 8 * 7 + gap`, and drops up to seven units at every step;
/// `truncate` keeps that.
#[inline]
fn ewma(memory: u64, gap: Span, truncate: bool) -> u64 {
    let kept = if truncate { memory / 8 * 7 } else { memory - memory.div_ceil(8) };
    kept.saturating_add(gap.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ewma_settles_on_a_steady_gap_and_forgets_by_an_eighth() {
        let gap = Span::from_millis(40);
        let settled = (0..200).fold(0, |memory, _| ewma(memory, gap, false));
        assert!((settled / 8).abs_diff(gap.as_nanos()) <= 8);
        let after = ewma(settled, Span::ZERO, false) / 8;
        assert!(after.abs_diff(gap.as_nanos() * 7 / 8) <= 8);
    }

    #[test]
    fn names_are_unique_and_found() {
        for (index, indicator) in INDICATORS.iter().enumerate() {
            assert_eq!(find(indicator.name), Some(index));
        }
        assert_eq!(INDICATORS[ACK_EWMA].name, "ack_ewma");
        assert_eq!(INDICATORS[PT_RATIO].name, "pt_ratio");
    }
}
