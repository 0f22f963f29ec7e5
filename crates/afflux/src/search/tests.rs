//! The driver on a target that is made up, so that its numbers repeat to the last digit.

use std::path::Path;

use afflux_core::class::Class;
use afflux_core::measure::{ClientMeasurement, HitCounters};
use afflux_core::rng::Rng;
use afflux_core::target::{Run, TargetError};

use super::journal::Again;
use super::*;

/// A made-up target: throughput is best at a window of 5, with noise from the seed.
#[derive(Clone, Default)]
struct MadeUp {
    window: f64,
    runs: u64,
    /// One in so many runs fails, by chance.
    fails_each: u64,
    /// So many runs are made before the user ends it; 0 for all.
    cancels_at: u64,
    /// Every so many runs, one carries a third of what it should.
    outlier_each: u64,
    /// Every run carries more than the one before, by this part.
    drift: f64,
    /// What its rules saw in each run of a rule set.
    hits: HitCounters,
    /// From this run on, requests get no answer; 0 for never.
    deaf_from: u64,
    has_rules: bool,
}

impl Target for MadeUp {
    fn name(&self) -> String {
        "made up".to_owned()
    }

    fn prepare(&mut self, _: &Workload) -> Result<(), TargetError> {
        Ok(())
    }

    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError> {
        self.has_rules = setting.label.starts_with("window") || setting.label.contains("rules");
        self.window = setting.controller(Class::Write).start().window();
        Ok(())
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError> {
        if self.cancels_at > 0 && self.runs >= self.cancels_at {
            return Err(TargetError::Cancelled);
        }
        self.runs += 1;
        let mut rng = Rng::new(run.seed ^ self.window.to_bits());
        if self.fails_each > 0 && rng.below(self.fails_each) == 0 {
            let (target, doing) = (self.name(), "running".to_owned());
            return Err(TargetError::Failed { target, doing, why: "no luck".to_owned() });
        }
        let best = 100e6 - (self.window - 5.0) * (self.window - 5.0) * 1e6;
        let is_outlier = self.outlier_each > 0 && self.runs.is_multiple_of(self.outlier_each);
        let part = if is_outlier { 1.0 / 3.0 } else { 1.0 };
        let part = part * (1.0 + self.drift).powi(self.runs as i32);
        let mut second = || [0, ((best.max(1e6) + rng.below(1_000_000) as f64) * part) as u64];
        let seconds = (0..run.length.as_secs_f64() as u64).map(|_| second()).collect();
        let is_deaf = self.deaf_from > 0 && self.runs >= self.deaf_from;
        let faults = if is_deaf { 3 } else { 0 };
        let mut client = ClientMeasurement { seconds, faults, ..Default::default() };
        if self.has_rules {
            client.rule_hits[Class::Write.index()] = self.hits.clone();
        }
        Ok(Measurement { counted_secs: run.length.as_secs_f64(), clients: vec![client] })
    }
}

fn head(method: &str, unpaired: bool) -> Head {
    Head {
        afflux_search: journal::VERSION,
        program: "test".to_owned(),
        workload: "seq-write".to_owned(),
        workload_text: "seq-write".to_owned(),
        clients: 1,
        target: "made up".to_owned(),
        scenario_text: String::new(),
        method: method.to_owned(),
        objective: "tp".to_owned(),
        seed: 3,
        settle: Span::ZERO,
        length: Span::from_secs(3),
        confirm_length: Span::from_secs(3),
        pairs: 3,
        runs: 1,
        unpaired,
        start: Start::Fixed,
    }
}

const BUDGET: Budget = Budget::Runs(120);

/// Runs a search, or goes on with it.
fn go(dir: &Path, head: &Head, mut target: MadeUp, budget: Budget) -> Result<Found, Failure> {
    let journal = Journal::open(dir, head)?;
    let workload = afflux_core::workload::preset("seq-write").unwrap().workload();
    let live = Live::new().unwrap();
    let objective = head.objective.parse().unwrap();
    let (target, workload) = (&mut target, &workload);
    Driver { head, journal, target, workload, objective, budget, live: &live }.run()
}

fn found_anew(method: &str, unpaired: bool, target: MadeUp) -> Found {
    let dir = tempfile::tempdir().unwrap();
    go(dir.path(), &head(method, unpaired), target, BUDGET).unwrap()
}

fn sides(found: &Found) -> Vec<(&str, &str, usize)> {
    let comparisons = found.comparisons.iter();
    comparisons.map(|c| (c.baseline.as_str(), c.setting.as_str(), c.pairs.len())).collect()
}

#[test]
fn what_is_found_is_the_best_and_is_compared_three_ways() {
    let found = found_anew("climb", false, MadeUp::default());
    assert_eq!(found.fixed.candidate.label(), "fixed:4");
    let best = found.best.candidate.label();
    let expected = [("none", best.as_str(), 3), ("fixed:4", &best, 3), ("none", "fixed:4", 3)];
    assert_eq!(sides(&found), expected);
    // A window of 8 makes 91 and one of 4 makes 99, but for noise of up to 1.
    let change = found.comparisons[2].metrics[0].change_percent;
    assert!(change.low > 6.0 && change.high < 11.0, "{change:?}");
    // The search itself alternated: half of its trials are the baseline's.
    let (mut baselines, mut trials) = (0, 0);
    for entry in found.entries.iter().filter(|entry| entry.stage != Stage::Confirm) {
        baselines += usize::from(entry.pair.unwrap().is_baseline);
        trials += 1;
    }
    assert!(trials - 2 * baselines <= 1 && trials > 60, "{baselines} of {trials}");
}

#[test]
fn the_grid_alone_is_confirmed_alone() {
    let found = found_anew("grid:gaps=off", true, MadeUp::default());
    assert_eq!(found.best, found.fixed);
    assert_eq!(sides(&found), [("none", "fixed:4", 3)]);
    assert!(found.entries.iter().all(|entry| entry.stage != Stage::Search));
}

/// The target gets faster by 6 % with every run, which a score that stands alone takes for a
/// gain; in pairs the drift goes out.
#[test]
fn drift_goes_out_of_pairs() {
    let best = |unpaired| {
        let target = MadeUp { drift: 0.06, ..MadeUp::default() };
        found_anew("grid", unpaired, target).fixed
    };
    // No window carries more than 100 MB/s before the drift begins.
    assert!(best(true).score > 250.0);
    // The first baseline has drifted by 6 % already, and within a pair there are 6 %, too.
    let paired = best(false);
    assert!(paired.candidate.label().starts_with("fixed:4") && paired.score < 115.0, "{paired:?}");
}

/// A candidate's very first run cannot be told from a bad candidate's, so with every third run an
/// outlier a good one may be missed; the search goes on, and the baseline stays right.
#[test]
fn outliers_are_made_again_and_kept() {
    for (outlier_each, least) in [(3, 20), (7, 5)] {
        let target = MadeUp { outlier_each, ..MadeUp::default() };
        let found = found_anew("climb", false, target);
        if outlier_each == 7 {
            assert!(found.fixed.candidate.label().starts_with("fixed:4"), "{:?}", found.fixed);
        }
        let searched = found.entries.iter().filter(|entry| entry.stage != Stage::Confirm);
        let again: Vec<_> = searched.clone().filter_map(|e| e.again.as_ref()).collect();
        assert!(again.len() >= least, "{again:?}");
        for Again { why, scores } in &again {
            assert!((2..=5).contains(&scores.len()) && why.contains("where"), "{why}: {scores:?}");
        }
        // No baseline that was told is an outlier: without one it makes 91 to 92.
        let baselines = searched.clone().filter(|entry| entry.label == "none");
        let told: Vec<f64> = baselines.filter_map(|e| trying::score_of(&e.told)).collect();
        assert!(
            told.len() > 20 && told.iter().all(|score| (91.0..92.0).contains(score)),
            "{told:?}"
        );
        // What is told is one of the times: the last, or the one in the middle.
        for entry in searched.filter(|entry| entry.again.is_some()) {
            let scores = &entry.again.as_ref().unwrap().scores;
            let told = trying::score_of(&entry.told);
            let above = scores.iter().filter(|score| **score > told).count();
            let below = scores.iter().filter(|score| **score < told).count();
            let is_middle = above <= scores.len() / 2 && below <= scores.len() / 2;
            assert!(scores.last() == Some(&told) || is_middle, "{told:?} of {scores:?}");
        }
    }
}

#[test]
fn an_interrupted_search_decides_as_one_that_was_not() {
    for (method, unpaired, fails_each) in
        [("grid", true, 9), ("climb", false, 0), ("sharp:m=off", false, 9)]
    {
        let head = head(method, unpaired);
        let target = MadeUp { fails_each, ..MadeUp::default() };
        let lines = |dir: &Path| -> Vec<String> {
            let entries = Journal::open(dir, &head).unwrap().entries;
            let line = |entry: &Entry| {
                format!("{:?} {} {} {:?}", entry.stage, entry.trial, entry.label, entry.told)
            };
            entries.iter().map(line).collect()
        };
        let best = |found: Result<Found, Failure>| found.map(|f| f.best.candidate).map_err(drop);
        let whole = tempfile::tempdir().unwrap();
        let expected_best = best(go(whole.path(), &head, target.clone(), BUDGET));
        for seed in 0..12 {
            let dir = tempfile::tempdir().unwrap();
            let mut rng = Rng::new(seed);
            let mut goes = 0;
            let found = loop {
                let target = MadeUp { cancels_at: 1 + rng.below(25), ..target.clone() };
                goes += 1;
                match go(dir.path(), &head, target, BUDGET) {
                    Err(Failure::Broken(why)) if why.contains("interrupted") => assert!(goes < 200),
                    found => break found,
                }
            };
            assert!(goes > 1, "it was not interrupted at all");
            assert_eq!(lines(dir.path()), lines(whole.path()), "{method}, seed {seed}");
            assert_eq!(best(found), expected_best);
        }
    }
}

#[test]
fn a_budget_below_one_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = go(dir.path(), &head("grid", true), MadeUp::default(), Budget::Secs(28.0));
    let Err(Failure::Input(why)) = refused.map(drop) else { panic!("it was accepted") };
    assert!(why.contains("9 confirming runs of 3 s"), "{why}");
}

#[test]
fn a_target_that_always_fails_ends_the_search_with_its_word() {
    let dir = tempfile::tempdir().unwrap();
    let target = MadeUp { fails_each: 1, ..MadeUp::default() };
    let Err(Failure::Broken(why)) = go(dir.path(), &head("climb", false), target, BUDGET) else {
        panic!("it went on")
    };
    assert!(why.contains("no run of the grid succeeded"), "{why}");
    let kept = Journal::open(dir.path(), &head("climb", false)).unwrap().entries;
    assert!(
        kept.iter().all(|entry| matches!(&entry.told, Told::Fault(why) if why.contains("luck")))
    );
}

/// The worst case: all of 29 rules are busy in every run. A real search begins with one rule.
#[test]
fn a_thousand_trials_take_a_megabyte_of_state_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let head = head("sharp:m=off", false);
    let mut hits = HitCounters::default();
    for reply in 0..29 * 12_345 {
        let state = [0, 1, 2].map(|axis| 10_000_000 + u64::from(reply * (7 + axis)));
        hits.count(reply % 29, &state);
    }
    let target = MadeUp { hits, ..MadeUp::default() };
    let found = go(dir.path(), &head, target, Budget::Runs(1_000)).unwrap();
    let searched = found.entries.iter().filter(|entry| entry.stage == Stage::Search).count();
    let bytes = std::fs::metadata(dir.path().join("search.jsonl")).unwrap().len();
    let each = bytes / found.entries.len() as u64;
    println!("{} trials, {bytes} bytes, {each} each", found.entries.len());
    assert!(searched > 900 && each <= 1_000, "{searched} trials of the method, {each} bytes each");
}

#[test]
fn a_target_that_stops_answering_is_no_measurement() {
    let dir = tempfile::tempdir().unwrap();
    let target = || MadeUp { deaf_from: 50, ..MadeUp::default() };
    let head = head("climb", false);
    let Err(Failure::Broken(why)) = go(dir.path(), &head, target(), BUDGET) else {
        panic!("it was confirmed")
    };
    assert!(why.contains("3 requests got no answer") && why.contains("tries again"), "{why}");
    // When the target answers again, the same command confirms what was found until then.
    let found = go(dir.path(), &head, MadeUp::default(), BUDGET).unwrap();
    assert!(
        found.ended.contains("11 trials failed") && !found.comparisons.is_empty(),
        "{}",
        found.ended
    );
    // Who scores such requests gets them measured.
    let dir = tempfile::tempdir().unwrap();
    let head = Head { objective: "tp - faults".to_owned(), ..head };
    assert!(go(dir.path(), &head, target(), BUDGET).is_ok());
}
