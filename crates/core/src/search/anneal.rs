//! Simulated annealing.
//!
//! A neighbour that is better is always taken, a worse one with probability `exp(difference /
//! temperature)`; the temperature falls with every candidate. It is kept as a part of the score, so
//! that the method does not depend on the score's unit. When it is cold, the walk goes back to the
//! best that it knows and is heated again. Not from the papers, which only compare with such
//! methods.

use super::desk::{Desk, Duel, FAULTS, Standing};
use super::random::{CUTS, Dice, REPEATS, WINDOW};
use super::{
    Asked, Best, Candidate, End, MethodEntry, NotAwaited, Progress, Setup, Strategy, Told,
};
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
    build: |parameters, setup| Ok(Box::new(Anneal::new(parameters, setup)?)),
};

/// It is cold at this part of the first temperature.
const COLD: f64 = 0.01;

struct Anneal {
    dice: Dice,
    desk: Desk<()>,
    /// Judges what is the best; the walk itself may go down.
    duel: Duel,
    candidate: Standing,
    /// Where the walk stands, with its score.
    here: Option<(RuleSet, f64)>,
    /// In parts of the score.
    hottest: f64,
    temperature: f64,
    cooling: f64,
    heatings: u32,
    end: Option<End>,
}

impl Anneal {
    fn new(parameters: &Parameters, setup: &Setup) -> Result<Self, ParameterError> {
        let mut dice = Dice::new(parameters, setup)?;
        let first = Candidate::rules(setup.start.clone().unwrap_or_else(|| dice.set()));
        let hottest = parameters.number("temperature", 0.01, 100.0)? / 100.0;
        let mut anneal = Self {
            dice,
            desk: Desk::open(parameters, setup)?,
            duel: Duel::new(parameters.count(REPEATS.name, 1, 100)? as u32),
            candidate: Standing::new(first.clone()),
            here: None,
            hottest,
            temperature: hottest,
            cooling: parameters.number("cooling", 0.5, 0.9999)?,
            heatings: 0,
            end: None,
        };
        anneal.send(first);
        Ok(anneal)
    }

    fn send(&mut self, candidate: Candidate) {
        self.desk.post(&candidate, 0, 1.0, ());
        self.candidate = Standing::new(candidate.clone());
        self.duel.challenge(candidate);
    }

    /// Goes to the candidate, or stays, and picks the next one.
    fn step(&mut self) {
        if let (Some(score), Some(rules)) =
            (self.candidate.mean(), self.candidate.candidate.rule_set())
        {
            let goes = self.here.as_ref().is_none_or(|(_, before)| {
                let scale = (self.temperature * before.abs()).max(f64::MIN_POSITIVE);
                score >= *before || self.dice.part() < libm::exp((score - before) / scale)
            });
            if goes {
                self.here = Some((rules.clone(), score));
            }
            self.temperature *= self.cooling;
        }
        if self.temperature < self.hottest * COLD {
            self.temperature = self.hottest;
            self.heatings += 1;
            let best = self.duel.best();
            let rules =
                best.and_then(|best| Some((best.candidate.rule_set()?.clone(), best.score)));
            self.here = rules.or(self.here.take());
        }
        let next = match &self.here {
            Some((rules, _)) => self.dice.neighbour(rules),
            None => self.dice.set(),
        };
        self.send(Candidate::rules(next));
    }
}

impl Strategy for Anneal {
    fn ask(&mut self) -> Asked {
        self.desk.answer(self.end.as_ref())
    }

    fn tell(&mut self, trial: u64, told: Told) -> Result<(), NotAwaited> {
        let run = self.desk.take(trial, told)?;
        if let Ok(outcome) = &run.shown {
            self.dice.observe(outcome);
            self.candidate.take(run.number, outcome.score);
        }
        match self.duel.take(run.number, &run.shown) {
            Some(number) => self.desk.post(&run.candidate, number, 1.0, ()),
            None => self.step(),
        }
        self.end = self.end.take().or_else(|| self.desk.worn_out());
        Ok(())
    }

    fn best(&self) -> Option<Best> {
        self.duel.best()
    }

    fn progress(&self) -> Progress {
        let rules = self.candidate.candidate.rule_set().map_or(0, |set| set.rules.len());
        Progress {
            stage: "a walk that gets colder",
            epoch: self.heatings,
            candidates: 1,
            candidates_left: 1,
            rules: rules as u64,
            told: self.desk.told(),
            ..Progress::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
