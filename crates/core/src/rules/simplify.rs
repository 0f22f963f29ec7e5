//! Fewer rules that do the same wherever the system has been.
//!
//! Splitting makes eight rules at a time, most of which few replies ever meet. Two kinds of steps
//! take some back: boxes with the same action that make up a box become one, which changes nothing
//! at all; and a box that was never met goes to a neighbour, which changes nothing that was seen.

use std::fmt;

use super::space::union;
use super::{Hits, Region, Rule, RuleSet};

/// A simplified set, and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Simplified {
    /// The rules that are left; a partition if the rules before were one.
    pub set: RuleSet,
    /// What was done, in order.
    pub steps: Vec<Step>,
}

/// One rule less. Rules are named by their numbers from 1 in the set before all steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Two rules with the same action became one.
    Merged {
        /// The rule that now has both boxes and both counts of hits.
        kept: usize,
        /// The rule that is gone.
        gone: usize,
        /// The box of both.
        region: Region,
    },
    /// A rule that was never hit left its box to a neighbour.
    Dropped {
        /// The rule that is gone.
        gone: usize,
        /// The neighbour that grew.
        grown: usize,
        /// The neighbour's box now.
        region: Region,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Merged { kept, gone, region } => {
                write!(f, "rule {gone} does the same as rule {kept}: rule {kept} now has {region}")
            }
            Self::Dropped { gone, grown, region } => {
                write!(
                    f,
                    "rule {gone} was never hit: its neighbour, rule {grown}, now has {region}"
                )
            }
        }
    }
}

/// Merges rules of equal action, then gives boxes that were never hit to their neighbours, until
/// neither is possible.
///
/// A set in which no rule was ever hit has not been measured; only equal actions are merged in it.
/// Of several neighbours that could grow, the one that was hit most does.
pub fn simplify(set: &RuleSet) -> Simplified {
    let numbered = |(index, rule): (usize, &Rule)| Numbered { number: index + 1, rule: *rule };
    let mut rules: Vec<Numbered> = set.rules.iter().enumerate().map(numbered).collect();
    let measured = rules.iter().any(|numbered| numbered.rule.hits.count > 0);
    let mut steps = Vec::new();
    loop {
        merge_equals(&mut rules, &mut steps);
        if !(measured && drop_one(&mut rules, &mut steps)) {
            break;
        }
    }
    let rules = rules.into_iter().map(|numbered| numbered.rule).collect();
    Simplified { set: RuleSet { rules, ..*set }, steps }
}

#[derive(Clone, Copy)]
struct Numbered {
    number: usize,
    rule: Rule,
}

/// Merges all pairs of equal action; the earlier rule of a pair keeps its place.
fn merge_equals(rules: &mut Vec<Numbered>, steps: &mut Vec<Step>) {
    let mut first = 0;
    while first < rules.len() {
        let a = rules[first];
        let partner = rules.iter().enumerate().find_map(|(second, b)| {
            let same = second != first && a.rule.action == b.rule.action;
            Some((second, union(&a.rule.region, &b.rule.region).filter(|_| same)?))
        });
        let Some((second, region)) = partner else {
            first += 1;
            continue;
        };
        let (kept, gone) = (first.min(second), first.max(second));
        let hits = Hits::together([&rules[kept].rule.hits, &rules[gone].rule.hits]);
        rules[kept].rule = Rule { region, hits, ..rules[kept].rule };
        let gone = rules.remove(gone).number;
        steps.push(Step::Merged { kept: rules[kept].number, gone, region });
        // Only the rule that grew can have new partners, and it looks for them next.
        first = kept;
    }
}

/// Gives the box of one rule that was never hit to a neighbour, if there is such a pair.
fn drop_one(rules: &mut Vec<Numbered>, steps: &mut Vec<Step>) -> bool {
    let never_hit = |rules: &[Numbered], index: usize| rules[index].rule.hits.count == 0;
    // Neighbours that were hit come first: what they do is at least known to work somewhere.
    for neighbour_hit in [true, false] {
        for gone in (0..rules.len()).filter(|&index| never_hit(rules, index)) {
            let neighbours = (0..rules.len()).filter_map(|grown| {
                if grown == gone || never_hit(rules, grown) == neighbour_hit {
                    return None;
                }
                union(&rules[grown].rule.region, &rules[gone].rule.region)
                    .map(|joined| (grown, joined))
            });
            let ranked = neighbours.map(|(grown, region)| {
                ((rules[grown].rule.hits.count, std::cmp::Reverse(grown)), region)
            });
            let Some(((_, grown), region)) = ranked.max_by_key(|&(rank, _)| rank) else {
                continue;
            };
            let grown = grown.0;
            rules[grown].rule.region = region;
            let grown = rules[grown].number;
            let gone = rules.remove(gone).number;
            steps.push(Step::Dropped { gone, grown, region });
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::space::testing::{corners, holders, partition};
    use super::*;
    use crate::indicator::Signals;
    use crate::rules::{Action, split};
    use proptest::prelude::*;

    fn read(rules: &str) -> RuleSet {
        let text = format!("afflux rules 1\nfor all:\n{rules}");
        crate::rules::RuleFile::checked(&text).unwrap().sections[0].set().clone()
    }

    fn action_at(set: &RuleSet, state: &Signals) -> Action {
        set.rules.iter().find(|rule| rule.region.contains(state)).unwrap().action
    }

    #[test]
    fn a_split_without_another_action_is_undone() {
        let mut set = RuleSet::uniform(Action::NONE);
        set.rules[0].hits.means = [5, 6, 2_000];
        let done = simplify(&split(&set, 0).unwrap());
        assert_eq!(done.set, RuleSet::uniform(Action::NONE));
        assert_eq!(done.steps.len(), 7);
    }

    #[test]
    fn hits_are_added_up_and_means_weighted() {
        let set = read(
            "pt_ratio < 2 -> window + 1; hits 3 at ack_ewma 10ms, pt_ratio 1.5\n\
             pt_ratio >= 2 -> window + 1; hits 1 at ack_ewma 20ms, pt_ratio 3",
        );
        let done = simplify(&set);
        let hits = Hits { count: 4, means: [12_500_000, 0, 1_875] };
        assert_eq!((done.set.rules.len(), done.set.rules[0].hits), (1, hits));
        let text = "rule 2 does the same as rule 1: rule 1 now has any";
        assert_eq!(done.steps[0].to_string(), text);
        let huge = Hits { count: u64::MAX, means: [u64::MAX; 3] };
        assert_eq!(Hits::together([&huge, &huge]).means, huge.means);
    }

    #[test]
    fn the_busiest_neighbour_takes_what_was_never_hit() {
        let set = read(
            "pt_ratio < 2 -> window + 1; hits 3\n\
             pt_ratio in [2, 3) -> window * 0.5\n\
             pt_ratio >= 3 -> window - 1; hits 9",
        );
        let done = simplify(&set);
        let texts: Vec<String> = done.set.rules.iter().map(ToString::to_string).collect();
        assert!(texts[0].starts_with("pt_ratio < 2 ->"), "{texts:?}");
        assert!(texts[1].starts_with("pt_ratio >= 2 -> window - 1"), "{texts:?}");
        let text = "rule 2 was never hit: its neighbour, rule 3, now has pt_ratio >= 2";
        assert_eq!(done.steps[0].to_string(), text);
    }

    #[test]
    fn what_was_never_measured_keeps_its_actions() {
        let set = read("pt_ratio < 2 -> window + 1\npt_ratio >= 2 -> window * 0.5");
        assert_eq!(simplify(&set), Simplified { set, steps: Vec::new() });
    }

    #[test]
    fn a_thousand_rules_take_no_time_to_speak_of() {
        let mut set = RuleSet::uniform(Action::NONE);
        for step in 0_usize..10_000 {
            // Hits on few rules and actions that all differ: the costliest kind.
            if set.rules.len() > 1_000 {
                break;
            }
            set = split(&set, step * 5 % set.rules.len()).unwrap_or(set);
        }
        assert!(set.rules.len() > 1_000);
        for (index, rule) in set.rules.iter_mut().enumerate() {
            rule.action.add = index as f64;
            rule.hits.count = u64::from(index % 50 == 0);
        }
        let done = simplify(&set);
        assert_eq!(set.rules.len() - done.set.rules.len(), done.steps.len());
        assert!(done.set.rules.len() < set.rules.len() / 4);
    }

    proptest! {
        #[test]
        fn the_result_is_a_partition_that_acts_alike_wherever_it_was(
            mut set in partition(24),
            alike in prop::collection::vec((0_u8..3, 0_u64..3), 25),
            points in prop::collection::vec(any::<Signals>(), 16),
        ) {
            for (rule, (add, count)) in set.rules.iter_mut().zip(alike) {
                rule.action = Action { add: f64::from(add), ..Action::NONE };
                rule.hits.count = count;
            }
            let done = simplify(&set);
            prop_assert_eq!(set.rules.len() - done.set.rules.len(), done.steps.len());
            for state in points.iter().chain(&corners(&set)) {
                prop_assert_eq!(holders(&done.set, state), 1);
                let before = set.rules.iter().find(|rule| rule.region.contains(state)).unwrap();
                if before.hits.count > 0 {
                    prop_assert_eq!(action_at(&done.set, state), before.action);
                }
            }
            let total = |set: &RuleSet| set.rules.iter().map(|rule| rule.hits.count).sum::<u64>();
            prop_assert_eq!(total(&set), total(&done.set));
            prop_assert!(simplify(&done.set).steps.is_empty());
        }
    }
}
