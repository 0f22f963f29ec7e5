//! The shipped scenarios: all of them run, and what papers published is reproduced or missed as
//! their files say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "scenarios are files of the repository")]

use std::path::Path;

use afflux_core::setting::Setting;
use afflux_core::target::Unwatched;
use afflux_sim::published::{BOUND, difference, simulated};
use afflux_sim::scenario::Figure;
use afflux_sim::{Scenario, Simulation};

/// Seeds over which a figure is the mean, as in the tables of docs/testbeds.md; the first alone for
/// runs of half a million requests.
const SEEDS: [u64; 3] = [1, 2, 3];

/// All scenarios in the repository's directory, by name of the file.
fn shipped() -> Vec<(String, Scenario)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut scenarios: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, scenario)
        })
        .collect();
    scenarios.sort_by(|left, right| left.0.cmp(&right.0));
    scenarios
}

fn all_figures(scenario: &Scenario) -> impl Iterator<Item = &Figure> {
    scenario.fitted.iter().chain(&scenario.published)
}

#[test]
fn every_test_bed_is_there_and_named_like_its_file() {
    let names: Vec<_> =
        shipped().into_iter().map(|(file, scenario)| (file, scenario.name)).collect();
    for wanted in ["ascar", "burst-buffer", "credits-1024", "server-grouping", "stcs"] {
        assert!(names.iter().any(|(file, _)| file == wanted), "{wanted} is missing");
    }
    assert!(names.iter().all(|(file, name)| file == name), "{names:?}");
}

/// Each workload under each model, for some seconds, twice.
#[test]
fn every_scenario_runs_and_gives_the_same_bytes_again() {
    for (name, scenario) in shipped() {
        let short = scenario.with(&["run.settle=0s", "run.length=2s"]).unwrap();
        let models = short.models.iter().map(|model| format!("model={}", model.name));
        let workloads = short.workloads.iter().map(|one| format!("workload={}", one.name));
        for set in models.chain(workloads).chain(["run.series=1s".to_owned()]) {
            let one = short.clone().with(&[&set]).unwrap();
            let setting =
                Setting::parse(&one.policy.setting, &|file| Err(file.to_owned())).unwrap();
            let run = || Simulation::new(&one, &setting, 5).unwrap().run(&Unwatched).unwrap();
            let outcome = run();
            assert!(outcome.totals.replies > 0, "{name}, {set}: nothing was answered");
            assert_eq!(outcome.totals.failed, 0, "{name}, {set}");
            let text = |outcome| serde_json::to_string(&outcome).unwrap();
            assert_eq!(text(outcome), text(run()), "{name}, {set}");
        }
    }
}

/// A model that is fitted on as many figures as it has parameters explains nothing.
#[test]
fn free_parameters_are_fewer_than_half_of_the_baselines() {
    for (name, scenario) in shipped() {
        let (free, figures) = (scenario.free.len(), all_figures(&scenario).count());
        assert!(free == 0 || 2 * free < figures, "{name}: {free} for {figures} figures");
        assert!(free == 0 || !scenario.fitted.is_empty(), "{name}: nothing was fitted on");
        assert!(figures == 0 || !scenario.models.is_empty(), "{name}: figures without a model");
        for figure in all_figures(&scenario) {
            assert!(!figure.source.is_empty() && !figure.unit.is_empty(), "{}", figure.name);
        }
    }
}

/// Figures of a scenario that are not as its file says: reproduced under all models, or missed for
/// a reason that it gives.
fn surprises(scenario: &Scenario, seeds: &[u64]) -> Vec<String> {
    let mut surprises = Vec::new();
    for figure in all_figures(scenario) {
        let apart: Vec<f64> = scenario
            .models
            .iter()
            .map(|model| {
                let model = scenario.clone().with_model(&model.name).unwrap();
                difference(figure, simulated(&model, figure, seeds).unwrap())
            })
            .collect();
        let reproduced = apart.iter().all(|apart| apart.abs() <= BOUND);
        if reproduced != figure.misses.is_empty() {
            surprises.push(format!("{}: {apart:.3?}, misses = {:?}", figure.name, figure.misses));
        }
    }
    surprises
}

fn is_as_its_file_says(name: &str, seeds: &[u64]) {
    let (_, scenario) = shipped().into_iter().find(|(file, _)| file == name).unwrap();
    let surprises = surprises(&scenario, seeds);
    assert!(surprises.is_empty(), "{name}:\n{}", surprises.join("\n"));
}

#[test]
fn ascar_is_reproduced_as_its_file_says() {
    is_as_its_file_says("ascar", &SEEDS);
}

#[test]
fn burst_buffer_is_reproduced_as_its_file_says() {
    is_as_its_file_says("burst-buffer", &SEEDS);
}

#[test]
fn server_grouping_is_reproduced_as_its_file_says() {
    is_as_its_file_says("server-grouping", &SEEDS);
}

#[test]
fn stcs_is_reproduced_as_its_file_says() {
    is_as_its_file_says("stcs", &SEEDS);
}

#[test]
fn credits_is_reproduced_as_its_file_says() {
    is_as_its_file_says("credits-1024", &SEEDS[..1]);
}
