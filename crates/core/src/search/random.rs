//! Random rule sets: what any cleverer method has to beat with the same budget.
//!
//! Each candidate is drawn afresh. Its space is cut at random up to `cuts` times: each cut takes a
//! rule, an indicator and a place, all by chance, the place evenly on a logarithmic scale from an
//! eighth to eight times the mean that was last observed, so that cuts fall where states are
//! whatever the target's speed. Each rule gets an action drawn evenly from the ranges of the
//! paper's table II, in whole hundredths and microseconds. Not from the papers, but for the ranges.

use super::desk::{Duel, FAULTS, Standing};
use super::dice::{CUTS, Dice, WINDOW};
use super::walk::{REPEATS, Steps, Walk};
use super::{MethodEntry, Progress};
use crate::rules::RuleSet;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "random",
    about: "random actions over random small partitions of the indicator space",
    parameters: &[CUTS, WINDOW, REPEATS, FAULTS],
    build: |parameters, setup| Ok(Box::new(Walk::new(parameters, setup, Random)?)),
};

struct Random;

impl Steps for Random {
    fn next(&mut self, dice: &mut Dice, _: &mut Duel, _: &Standing, _: bool) -> RuleSet {
        dice.set()
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: "random rule sets",
            candidates: 1,
            candidates_left: 1,
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::{Action, Gap, Severity, lint};
    use crate::search::testing::{Oracle, drive, replays};
    use crate::search::{Candidate, Setup};
    use crate::units::Span;
    use proptest::prelude::*;

    #[test]
    fn every_set_is_a_partition_and_its_actions_are_within_the_limits() {
        let course = drive("random:cuts=12", &Setup::new(3), &Oracle::new(3), 300);
        let mut sizes = std::collections::BTreeSet::new();
        for trial in &course.trials {
            let set = trial.candidate.rule_set().unwrap();
            sizes.insert(set.rules.len());
            assert!(lint::set(set).iter().all(|finding| finding.severity != Severity::Error));
            for rule in &set.rules {
                let Action { multiply: Some(multiply), add, gap: Gap::Time(gap) } = rule.action
                else {
                    panic!("{rule}")
                };
                assert!((0.3..=2.0).contains(&multiply) && (-2.34..=2.34).contains(&add));
                assert!(gap <= Span::from_millis(70));
            }
        }
        assert!(sizes.len() > 5, "{sizes:?}");
    }

    #[test]
    fn the_best_ran_three_times_and_is_better_than_the_first() {
        let oracle = Oracle { noise_percent: 5.0, outlier_every: 3, ..Oracle::new(8) };
        let course = drive("random", &Setup::new(8), &oracle, 300);
        let best = course.strategy.best().unwrap();
        let clean = |candidate: &Candidate| oracle.of_rules(candidate.rule_set().unwrap()).0;
        assert_eq!(best.runs, 3);
        assert!(clean(&best.candidate) > clean(&course.trials[0].candidate) + 20.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_prefix_of_a_journal_leads_to_the_same_asks(seed in 0_u64..99, kept in 0_usize..200) {
            let fails = |number| number % 37 == 5;
            let oracle = Oracle { noise_percent: 9.0, fails, ..Oracle::new(seed) };
            let method = if seed % 2 == 0 { "random" } else { "random:cuts=9" };
            let course = drive(method, &Setup::new(seed), &oracle, 220);
            replays(method, &Setup::new(seed), &course, kept);
        }
    }
}
