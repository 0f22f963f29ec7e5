//! Candidate actions around an action: near ones densely, far ones thinly.
//!
//! Source: ASCAR, section III-F with table II, and the behaviour of the public code. Values are
//! integers in the original's units: hundredths for `m` and `b`, microseconds for the gap.

use crate::rules::{Action, Gap};
use crate::units::Span;

/// The range of one action variable, and how it is stepped through.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) struct Axis {
    /// Least value.
    pub(in crate::search) low: i64,
    /// Greatest value.
    pub(in crate::search) high: i64,
    /// The first step.
    pub(in crate::search) granularity: f64,
    /// How the steps grow.
    pub(in crate::search) growth: Growth,
}

/// By what factor each step is greater than the one before.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) enum Growth {
    /// The one by which so many steps lead from the first step to the whole range, as in SHARP.
    Crossing(u32),
    /// A fixed one, as in Remy.
    Ratio(f64),
}

/// What the gap of a rule is varied in.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) enum GapAxis {
    /// Microseconds.
    Time(Axis),
    /// Hundredths of `ack_ewma`.
    OfAck(Axis),
}

/// How the three variables of an action are varied.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) struct Axes {
    /// The factor on the window, in hundredths.
    pub(in crate::search) multiply: Axis,
    /// What is added to it, in hundredths.
    pub(in crate::search) add: Axis,
    /// The gap; absent when it is left alone.
    pub(in crate::search) gap: Option<GapAxis>,
    /// Try the unchanged value of each variable, too, before all others. The original never does.
    pub(in crate::search) keep: bool,
}

/// Table II: `m` from 0.3 to 2 by 0.05 in 4 steps.
pub(in crate::search) const MULTIPLY: Axis =
    Axis { low: 30, high: 200, granularity: 5.0, growth: Growth::Crossing(4) };

/// Table II: `b` from -2.3 to 2.3 by 0.3 in 4 steps; the code's limit is 2.34, Remy's 20 of 256
/// for a window of 30.
pub(in crate::search) const ADD: Axis =
    Axis { low: -234, high: 234, granularity: 30.0, growth: Growth::Crossing(4) };

/// Table II: the gap from 0 to 70 ms by 0.5 ms in 6 steps.
pub(in crate::search) const GAP: Axis =
    Axis { low: 0, high: 70_000, granularity: 500.0, growth: Growth::Crossing(6) };

/// Ours: the gap from 0 to 1.5 of `ack_ewma` by 0.02 in 6 steps.
pub(in crate::search) const GAP_OF_ACK: Axis =
    Axis { low: 0, high: 150, granularity: 2.0, growth: Growth::Crossing(6) };

impl Axis {
    /// The values that are tried instead of `value`, nearest first, the lower one before the
    /// higher; none at all when `value` is out of range, as an `m` of -1 is: then it is left alone.
    ///
    /// The steps grow while the longest way to a limit lasts. From a value that is itself a limit,
    /// the last digits of a float decide whether the last step still reaches the other limit, in
    /// the original as here.
    pub(in crate::search) fn values(&self, value: i64, keep: bool) -> Option<Vec<i64>> {
        if value < self.low || value > self.high {
            return None;
        }
        let factor = match self.growth {
            Growth::Ratio(ratio) => ratio,
            Growth::Crossing(steps) => {
                let crossing = (self.high - self.low) as f64 / self.granularity;
                // Of a first step almost as great as the range, the next would hardly differ.
                libm::pow(crossing, 1.0 / f64::from(steps)).max(1.1)
            }
        };
        let farthest = (self.high - value).max(value - self.low) as f64;
        let mut values = if keep { vec![value] } else { Vec::new() };
        let mut delta = self.granularity;
        while delta <= farthest {
            for moved in [value as f64 - delta, value as f64 + delta] {
                // The cast drops the fraction, towards zero, as the original does.
                let whole = moved as i64;
                let inside = moved >= self.low as f64 && moved <= self.high as f64;
                if inside && whole != value && !values.contains(&whole) {
                    values.push(whole);
                }
            }
            delta *= factor;
        }
        Some(values)
    }
}

impl Axes {
    /// All actions around `action`: the product of the values of each variable, `m` outermost, the
    /// gap innermost.
    pub(in crate::search) fn around(&self, action: &Action) -> Vec<Action> {
        let mut actions = Vec::new();
        for multiply in self.multiplies(action) {
            for add in self.adds(action) {
                actions.extend(self.gaps(action).into_iter().map(|gap| Action {
                    multiply,
                    add,
                    gap,
                }));
            }
        }
        actions
    }

    /// The actions that differ from `action` in one variable: one list for each of the three, whose
    /// only entry is `action` where its variable is left alone.
    pub(in crate::search) fn each(&self, action: &Action) -> [Vec<Action>; 3] {
        let multiplies = self.multiplies(action).into_iter();
        let (adds, gaps) = (self.adds(action).into_iter(), self.gaps(action).into_iter());
        [
            multiplies.map(|multiply| Action { multiply, ..*action }).collect(),
            adds.map(|add| Action { add, ..*action }).collect(),
            gaps.map(|gap| Action { gap, ..*action }).collect(),
        ]
    }

    fn multiplies(&self, action: &Action) -> Vec<Option<f64>> {
        let values = action.multiply.and_then(|m| self.multiply.values(hundredths(m), self.keep));
        values.map_or_else(
            || vec![action.multiply],
            |values| values.into_iter().map(|value| Some(value as f64 / 100.0)).collect(),
        )
    }

    fn adds(&self, action: &Action) -> Vec<f64> {
        let values = self.add.values(hundredths(action.add), self.keep);
        values.map_or_else(
            || vec![action.add],
            |values| values.into_iter().map(|value| value as f64 / 100.0).collect(),
        )
    }

    fn gaps(&self, action: &Action) -> Vec<Gap> {
        let varied = match (self.gap, action.gap) {
            (Some(GapAxis::Time(axis)), Gap::Time(span)) => {
                let micros = i64::try_from(span.as_nanos() / 1_000).unwrap_or(i64::MAX);
                let time = |value: i64| Gap::Time(Span::from_micros(value as u64));
                axis.values(micros, self.keep).map(|values| values.into_iter().map(time).collect())
            }
            (Some(GapAxis::OfAck(axis)), Gap::OfAck(fraction)) => {
                let part = |value: i64| Gap::OfAck(value as f64 / 100.0);
                let values = axis.values(hundredths(fraction), self.keep);
                values.map(|values| values.into_iter().map(part).collect())
            }
            _ => None,
        };
        varied.unwrap_or_else(|| vec![action.gap])
    }
}

/// The nearest whole number of hundredths.
fn hundredths(number: f64) -> i64 {
    libm::round(number * 100.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes =
        Axes { multiply: MULTIPLY, add: ADD, gap: Some(GapAxis::Time(GAP)), keep: false };

    fn action(m100: i64, b100: i64, micros: u64) -> Action {
        Action {
            multiply: (m100 >= 0).then_some(m100 as f64 / 100.0),
            add: b100 as f64 / 100.0,
            gap: Gap::Time(Span::from_micros(micros)),
        }
    }

    #[test]
    fn values_around_the_start_are_those_of_the_original() {
        let gaps =
            [19500, 20500, 18860, 21139, 17403, 22596, 14083, 25916, 6519, 33480, 50719].to_vec();
        assert_eq!(GAP.values(20_000, false), Some(gaps));
        // By hand: steps of 5, 12.07, 29.15, 70.39 and of 30, 59.62, 118.49.
        assert_eq!(MULTIPLY.values(100, false), Some(vec![95, 105, 87, 112, 70, 129, 170]));
        assert_eq!(ADD.values(0, false), Some(vec![-30, 30, -59, 59, -118, 118]));
        // Truncation goes towards zero, so that it goes up below zero.
        assert_eq!(ADD.values(-29, false), Some(vec![-59, 1, -88, 30, -147, 89, 206]));
        assert_eq!(MULTIPLY.values(-1, false), None);
        assert_eq!(MULTIPLY.values(201, false), None);
    }

    #[test]
    fn counts_are_those_of_the_original() {
        assert_eq!(AXES.around(&action(100, 0, 20_000)).len(), 462);
        assert_eq!(AXES.around(&action(-1, 0, 20_000)).len(), 66);
        assert_eq!(AXES.around(&action(99, -29, 28_512)).len(), 539);
        // Eight by seven by twelve, less nothing: the unchanged action is one of them.
        let kept = Axes { keep: true, ..AXES }.around(&action(100, 0, 20_000));
        assert_eq!((kept.len(), kept[0]), (8 * 7 * 12, action(100, 0, 20_000)));
    }

    #[test]
    fn the_product_varies_the_gap_fastest_and_the_factor_slowest() {
        let actions = AXES.around(&action(100, 0, 20_000));
        assert_eq!(actions[0], action(95, -30, 19_500));
        assert_eq!(actions[1], action(95, -30, 20_500));
        assert_eq!(actions[11], action(95, 30, 19_500));
        assert_eq!(actions[66], action(105, -30, 19_500));
        assert_eq!(actions[461], action(170, 118, 50_719));
        let unmultiplied = AXES.around(&action(-1, 0, 20_000));
        assert_eq!(unmultiplied[65], action(-1, 118, 50_719));
    }

    #[test]
    fn a_variable_of_another_kind_is_left_alone() {
        let fraction = Action { gap: Gap::OfAck(0.9), ..action(-1, 0, 0) };
        assert!(AXES.around(&fraction).iter().all(|action| action.gap == Gap::OfAck(0.9)));
        let axes = Axes { gap: Some(GapAxis::OfAck(GAP_OF_ACK)), ..AXES };
        let gaps = axes.gaps(&fraction);
        assert_eq!(gaps[..2], [Gap::OfAck(0.88), Gap::OfAck(0.92)]);
        let frozen = Axes { gap: None, ..AXES };
        assert_eq!(frozen.around(&action(-1, 0, 20_000)).len(), 6);
    }

    #[test]
    fn every_value_in_range_has_neighbours_in_range() {
        for axis in [MULTIPLY, ADD, GAP_OF_ACK] {
            for value in axis.low..=axis.high {
                let values = axis.values(value, false).unwrap();
                assert!(!values.is_empty() && !values.contains(&value));
                assert!(values.iter().all(|value| (axis.low..=axis.high).contains(value)));
            }
        }
    }
}
