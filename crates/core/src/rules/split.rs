//! Cutting the busiest rule, so that a search can treat its states differently.
//!
//! Source: ASCAR, section III-F, and the behaviour of its public code where the paper is silent.

use super::space::halves;
use super::{Hits, Region, Rule, RuleSet, UNBOUNDED};
use crate::indicator::{COUNT, INDICATORS, Signals, Unit};

/// The original's infinity, in its own units; our unbounded tops use it for midpoints only.
const ORIGINAL_INFINITY: u64 = 2_147_483_647;

/// Stands for an indicator's name where all of them are meant.
const EVERY_INDICATOR: &str = "every indicator";

/// A rule that cannot be split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// There is no rule of that number.
    #[error("there is no rule {number}: the set has {rules}; choose one from 1 to {rules}")]
    NoSuchRule {
        /// The rule asked for, from 1.
        number: usize,
        /// How many there are.
        rules: usize,
    },
    /// One side of the box holds a single value, so that one half would be empty.
    #[error(
        "rule {number} cannot be split: its box, {region}, is too narrow in {indicator}; \
         choose another rule, or widen its box"
    )]
    TooNarrow {
        /// The rule, from 1.
        number: usize,
        /// The indicator in which its box is too narrow, or `every indicator`.
        indicator: &'static str,
        /// Its box.
        region: String,
    },
}

/// The rule that matched most often, the first of several; none when no rule ever matched.
pub fn hottest(set: &RuleSet) -> Option<usize> {
    let mut hottest = None;
    let mut most = 0;
    for (index, rule) in set.rules.iter().enumerate() {
        if rule.hits.count > most {
            most = rule.hits.count;
            hottest = Some(index);
        }
    }
    hottest
}

/// Cuts the rule at `index` into eight, at the mean of each indicator over its hits.
///
/// Where a mean is not strictly inside the box, the box is cut in the middle, rounded down to the
/// indicator's unit. An unbounded top counts as 2,147,483,647 of the original's units for this
/// (microseconds, hundredths), so that the cut falls where the original's would; a box that begins
/// beyond that is cut at twice its lower bound. The original halves whole microseconds and
/// hundredths, ours nanoseconds and thousandths: where its division drops a half, ours keeps it.
///
/// The children stand where the rule stood, ordered by `ack_ewma`, then `send_ewma`, then
/// `pt_ratio`, the low half first. They inherit its action and have no hits.
///
/// # Errors
/// When there is no such rule, or its box holds a single value in some indicator.
pub fn split(set: &RuleSet, index: usize) -> Result<RuleSet, SplitError> {
    let rule = rule_at(set, index)?;
    let cuts = cuts(&rule.region, &rule.hits.means);
    match cuts.iter().position(Option::is_none) {
        Some(axis) => Err(too_narrow(rule, index, INDICATORS[axis].name)),
        None => Ok(cut_up(set, index, &cuts)),
    }
}

/// Cuts the rule at `index` in each indicator at the value given for it, such as its median, as
/// Remy does: an indicator in which its box holds a single value is left.
///
/// Otherwise as [`split()`]: a value that is not strictly inside gives way to the middle.
///
/// # Errors
/// When there is no such rule, or its box holds a single value in every indicator.
pub fn split_at(set: &RuleSet, index: usize, at: &Signals) -> Result<RuleSet, SplitError> {
    let rule = rule_at(set, index)?;
    let cuts = cuts(&rule.region, at);
    match cuts.iter().all(Option::is_none) {
        true => Err(too_narrow(rule, index, EVERY_INDICATOR)),
        false => Ok(cut_up(set, index, &cuts)),
    }
}

fn rule_at(set: &RuleSet, index: usize) -> Result<&Rule, SplitError> {
    let (number, rules) = (index.saturating_add(1), set.rules.len());
    set.rules.get(index).ok_or(SplitError::NoSuchRule { number, rules })
}

fn too_narrow(rule: &Rule, index: usize, indicator: &'static str) -> SplitError {
    SplitError::TooNarrow { number: index + 1, indicator, region: rule.region.to_string() }
}

/// Replaces a rule by the pieces into which the cuts of its sides part it.
fn cut_up(set: &RuleSet, index: usize, cuts: &[Option<u64>; COUNT]) -> RuleSet {
    let rule = set.rules[index];
    let mut children = vec![rule.region];
    for (axis, at) in cuts.iter().enumerate() {
        let Some(at) = *at else { continue };
        children = children.iter().flat_map(|child| halves(child, axis, at)).collect();
    }
    let child = |region| Rule { region, action: rule.action, hits: Hits::default() };
    let mut result = set.clone();
    result.rules.splice(index..=index, children.into_iter().map(child));
    result
}

/// Where to cut each side of a box that is best cut at `at`.
fn cuts(region: &Region, at: &Signals) -> [Option<u64>; COUNT] {
    std::array::from_fn(|axis| cut(region, axis, at[axis]))
}

/// Where to cut one side of a box; none when there is no value strictly inside.
fn cut(region: &Region, axis: usize, at: u64) -> Option<u64> {
    let (low, high) = (region.low[axis], region.high[axis]);
    let inside = |at: u64| low < at && at < high;
    if inside(at) {
        return Some(at);
    }
    let infinity = match INDICATORS[axis].unit {
        Unit::Nanos => ORIGINAL_INFINITY * 1_000,
        Unit::Milli => ORIGINAL_INFINITY * 10,
    };
    let middle = if high != UNBOUNDED {
        low.midpoint(high)
    } else if low < infinity {
        low.midpoint(infinity)
    } else {
        low.saturating_mul(2)
    };
    // One above the lower bound is the middle that rounding down has lost, next to infinity.
    [middle, low.saturating_add(1)].into_iter().find(|&at| inside(at))
}

#[cfg(test)]
mod tests {
    use super::super::space::testing::{corners, holders, partition};
    use super::*;
    use crate::rules::Action;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn children_stand_in_order_low_half_first() {
        let mut set = RuleSet::uniform(Action { add: 0.3, ..Action::NONE });
        set.rules[0].hits = Hits { count: 5, means: [40 * MS, 30 * MS, 3_250] };
        let result = split(&set, 0).unwrap();
        let lows: Vec<Signals> = result.rules.iter().map(|rule| rule.region.low).collect();
        let (a, s, r) = (40 * MS, 30 * MS, 3_250);
        let expected: [Signals; 8] = [
            [0, 0, 0],
            [0, 0, r],
            [0, s, 0],
            [0, s, r],
            [a, 0, 0],
            [a, 0, r],
            [a, s, 0],
            [a, s, r],
        ];
        assert_eq!(lows, expected);
        assert!(result.rules.iter().all(|rule| rule.action == set.rules[0].action));
        assert!(result.rules.iter().all(|rule| rule.hits == Hits::default()));
    }

    #[test]
    fn a_mean_outside_gives_the_middle_as_the_original_has_it() {
        let set = RuleSet::uniform(Action::NONE);
        let result = split(&set, 0).unwrap();
        // (0 + 2147483647) / 2, in halves of a microsecond and of a hundredth.
        assert_eq!(
            result.rules[0].region.high,
            [1_073_741_823_500, 1_073_741_823_500, 10_737_418_235]
        );
        let mut set = result;
        set.rules[0].region.high = [9, 8, 3];
        let first = split(&set, 0).unwrap().rules[0].region;
        assert_eq!(first.high, [4, 4, 1]);
    }

    #[test]
    fn a_box_of_one_value_is_refused() {
        let mut set = RuleSet::uniform(Action::NONE);
        set.rules[0].region.high[1] = 1;
        let error = split(&set, 0).unwrap_err();
        assert!(matches!(error, SplitError::TooNarrow { indicator: "send_ewma", .. }), "{error}");
        set.rules[0].region.low[1] = u64::MAX - 1;
        set.rules[0].region.high[1] = UNBOUNDED;
        assert!(split(&set, 0).is_err());
        assert!(split(&set, 3).unwrap_err().to_string().contains("from 1 to 1"));
    }

    #[test]
    fn at_given_values_a_side_of_one_value_is_left() {
        let mut set = RuleSet::uniform(Action { add: 0.3, ..Action::NONE });
        set.rules[0].hits = Hits { count: 5, means: [9, 9, 9] };
        set.rules[0].region.high = [100, 1, 100];
        // The value given for the last side is its lower bound, so that the middle is taken.
        let result = split_at(&set, 0, &[20, 0, 0]).unwrap();
        let sides: Vec<_> =
            result.rules.iter().map(|rule| (rule.region.low, rule.region.high)).collect();
        let expected: [(Signals, Signals); 4] = [
            ([0, 0, 0], [20, 1, 50]),
            ([0, 0, 50], [20, 1, 100]),
            ([20, 0, 0], [100, 1, 50]),
            ([20, 0, 50], [100, 1, 100]),
        ];
        assert_eq!(sides, expected);
        assert!(result.rules.iter().all(|rule| rule.action == set.rules[0].action));
        set.rules[0].region.high = [1, 1, 1];
        let error = split_at(&set, 0, &[0; 3]).unwrap_err().to_string();
        assert!(error.contains("too narrow in every indicator"), "{error}");
        assert!(split_at(&set, 1, &[0; 3]).is_err());
    }

    #[test]
    fn the_hottest_is_the_first_of_the_greatest_and_never_one_without_hits() {
        let mut set = RuleSet::uniform(Action::NONE);
        assert_eq!(hottest(&set), None);
        set = split(&set, 0).unwrap();
        set.rules[2].hits.count = 7;
        set.rules[5].hits.count = 7;
        assert_eq!(hottest(&set), Some(2));
    }

    proptest! {
        #[test]
        fn any_sequence_of_splits_leaves_a_partition(
            start in partition(6),
            steps in prop::collection::vec((any::<usize>(), any::<Signals>()), 1..6),
            points in prop::collection::vec(any::<Signals>(), 16),
        ) {
            let mut set = start;
            for (pick, means) in steps {
                let index = pick % set.rules.len();
                set.rules[index].hits.means = means;
                let at_values = split_at(&set, index, &means);
                match split(&set, index) {
                    Ok(result) => {
                        prop_assert_eq!(result.rules.len(), set.rules.len() + 7);
                        prop_assert_eq!(Ok(&result), at_values.as_ref());
                        set = result;
                    }
                    Err(SplitError::TooNarrow { .. }) if at_values.is_ok() => {
                        set = at_values.unwrap();
                    }
                    Err(SplitError::TooNarrow { .. }) => {}
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
            for state in points.iter().chain(&corners(&set)) {
                prop_assert_eq!(holders(&set, state), 1);
            }
        }
    }
}
