//! Simulated annealing.
//!
//! A neighbour that is better is always taken, a worse one with probability `exp(difference /
//! temperature)`; the temperature falls with every candidate. It is kept as a part of the score, so
//! that the method does not depend on the score's unit. When it is cold, the walk goes back to the
//! best that it knows and is heated again. Not from the papers, which only compare with such
//! methods.

use super::desk::{Duel, FAULTS, Standing};
use super::dice::{CUTS, Dice, WINDOW};
use super::walk::{REPEATS, Steps, Walk};
use super::{MethodEntry, Progress, Setup, Strategy};
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::RuleSet;

pub(super) const ENTRY: MethodEntry = MethodEntry {
    name: "anneal",
    about: "simulated annealing, heated again when it is cold",
    parameters: &[
        Parameter {
            name: "temperature",
            default: "5",
            about: "loss that is likely accepted at first, in percent of the score, 0.01 to 100",
        },
        Parameter {
            name: "cooling",
            default: "0.97",
            about: "what the temperature is multiplied by after each candidate, 0.5 to 0.9999",
        },
        CUTS,
        WINDOW,
        REPEATS,
        FAULTS,
    ],
    build,
};

/// It is cold at this part of the first temperature.
const COLD: f64 = 0.01;

fn build(parameters: &Parameters, setup: &Setup) -> Result<Box<dyn Strategy>, ParameterError> {
    let hottest = parameters.number("temperature", 0.01, 100.0)? / 100.0;
    let cooling = parameters.number("cooling", 0.5, 0.9999)?;
    let anneal = Anneal { here: None, hottest, temperature: hottest, cooling, heatings: 0 };
    Ok(Box::new(Walk::new(parameters, setup, anneal)?))
}

/// The duel judges what is the best; the walk itself may go down.
struct Anneal {
    /// Where the walk stands, with its score.
    here: Option<(RuleSet, f64)>,
    /// In parts of the score.
    hottest: f64,
    temperature: f64,
    cooling: f64,
    heatings: u32,
}

impl Steps for Anneal {
    /// Goes to what was tried, or stays, and picks a neighbour.
    fn next(&mut self, dice: &mut Dice, duel: &mut Duel, tried: &Standing, _: bool) -> RuleSet {
        if let (Some(score), Some(rules)) = (tried.mean(), tried.candidate.rule_set()) {
            let goes = self.here.as_ref().is_none_or(|(_, before)| {
                let scale = (self.temperature * before.abs()).max(f64::MIN_POSITIVE);
                score >= *before || dice.part() < libm::exp((score - before) / scale)
            });
            if goes {
                self.here = Some((rules.clone(), score));
            }
            self.temperature *= self.cooling;
        }
        if self.temperature < self.hottest * COLD {
            self.temperature = self.hottest;
            self.heatings += 1;
            let best = duel.best();
            let rules =
                best.and_then(|best| Some((best.candidate.rule_set()?.clone(), best.score)));
            self.here = rules.or(self.here.take());
        }
        match &self.here {
            Some((rules, _)) => dice.neighbour(rules),
            None => dice.set(),
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            stage: "a walk that gets colder",
            epoch: self.heatings,
            candidates: 1,
            candidates_left: 1,
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
    fn it_gets_better_and_is_heated_again() {
        let oracle = Oracle { noise_percent: 1.0, ..Oracle::new(2) };
        let course = drive("anneal", &Setup::new(2), &oracle, 600);
        let best = course.strategy.best().unwrap();
        let clean = |candidate: &Candidate| oracle.of_rules(candidate.rule_set().unwrap()).0;
        assert!(clean(&best.candidate) > clean(&course.trials[0].candidate) + 50.0, "{best:?}");
        assert!(course.strategy.progress().epoch >= 1);
    }

    #[test]
    fn some_prefixes_of_a_journal_lead_to_the_same_asks() {
        let fails = |number| number % 41 == 5;
        let oracle = Oracle { noise_percent: 4.0, outlier_every: 3, fails, ..Oracle::new(4) };
        for method in ["anneal:temperature=3", "anneal:cooling=0.8"] {
            let course = drive(method, &Setup::new(4), &oracle, 200);
            let ends = course.tells.len();
            (0..ends).step_by(7).for_each(|kept| replays(method, &Setup::new(4), &course, kept));
        }
    }
}
