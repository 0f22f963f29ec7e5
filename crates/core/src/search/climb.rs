//! Hill climbing with random restarts.
//!
//! Source: ASCAR, section III-F names it as the obvious method. From a random rule set, one
//! variable of one rule changes at a time; what is better stays. After `patience` neighbours in a
//! row that were no better, it starts anew elsewhere.

use super::desk::{Duel, FAULTS, Standing};
use super::dice::{CUTS, Dice, WINDOW};
use super::walk::{REPEATS, Steps, Walk};
use super::{Best, MethodEntry, Progress, Setup, Strategy};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::RuleSet;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "climb",
    about: "hill climbing with random restarts",
    parameters: &[
        Parameter {
            name: "patience",
            default: "30",
            about: "neighbours in a row that are no better before a restart, 1 to 10000",
        },
        CUTS,
        WINDOW,
        REPEATS,
        FAULTS,
    ],
    build,
};

fn build(parameters: &Parameters, setup: &Setup) -> Result<Box<dyn Strategy>, ParameterError> {
    let climb = Climb {
        patience: parameters.count("patience", 1, 10_000)?,
        in_vain: 0,
        restarts: 0,
        summit: None,
    };
    Ok(Box::new(Walk::new(parameters, setup, climb)?))
}

/// The duel is the hill that is being climbed: its champion is where the climber stands.
struct Climb {
    patience: u64,
    /// Neighbours in a row that were no better.
    in_vain: u64,
    restarts: u32,
    /// The best of the hills before.
    summit: Option<Best>,
}

impl Steps for Climb {
    /// The next neighbour, or the foot of the next hill.
    fn next(&mut self, dice: &mut Dice, duel: &mut Duel, _: &Standing, won: bool) -> RuleSet {
        self.in_vain = if won { 0 } else { self.in_vain + 1 };
        match duel.champion() {
            Some(here) if self.in_vain < self.patience => dice.neighbour(here),
            _ => {
                self.summit = self.best(duel);
                *duel = Duel::new(duel.repeats());
                self.restarts += 1;
                self.in_vain = 0;
                dice.set()
            }
        }
    }

    fn best(&self, duel: &Duel) -> Option<Best> {
        match (self.summit.clone(), duel.best()) {
            // One lucky run at the foot of a hill is no summit.
            (Some(old), Some(new)) if new.runs < duel.repeats() || old.score >= new.score => {
                Some(old)
            }
            (old, new) => new.or(old),
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: "one variable of one rule at a time",
            epoch: self.restarts,
            candidates: self.patience,
            candidates_left: self.patience - self.in_vain.min(self.patience),
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Candidate;
    use crate::search::testing::{Oracle, drive, replays};

    #[test]
    fn it_climbs_and_starts_again() {
        let oracle = Oracle { noise_percent: 1.0, ..Oracle::new(2) };
        let course = drive("climb:patience=25", &Setup::new(2), &oracle, 800);
        let best = course.strategy.best().unwrap();
        let clean = |candidate: &Candidate| oracle.of_rules(candidate.rule_set().unwrap()).0;
        assert!(clean(&best.candidate) > clean(&course.trials[0].candidate) + 50.0, "{best:?}");
        assert!(course.strategy.progress().epoch >= 1);
        assert_eq!(best.runs, 3);
    }

    #[test]
    fn some_prefixes_of_a_journal_lead_to_the_same_asks() {
        let fails = |number| number % 41 == 5;
        let oracle = Oracle { noise_percent: 4.0, outlier_every: 3, fails, ..Oracle::new(4) };
        for method in ["climb:patience=9", "climb:patience=9,repeats=2"] {
            let course = drive(method, &Setup::new(4), &oracle, 200);
            let ends = course.tells.len();
            (0..ends).step_by(7).for_each(|kept| replays(method, &Setup::new(4), &course, kept));
        }
    }
}
