//! Scenarios from text, run and summed up.

use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::Unwatched;
use afflux_sim::{Outcome, Scenario, Simulation};

pub(crate) fn scenario<S: AsRef<str>>(text: &str, overrides: &[S]) -> Scenario {
    let text = format!("afflux-scenario = 1\nname = \"t\"\n{text}");
    Scenario::parse(&text).unwrap().with(overrides).unwrap()
}

pub(crate) fn run<S: AsRef<str>>(text: &str, overrides: &[S], control: &str, seed: u64) -> Outcome {
    let scenario = scenario(text, overrides);
    Simulation::new(&scenario, &setting(control), seed).unwrap().run(&Unwatched).unwrap()
}

pub(crate) fn setting(text: &str) -> Setting {
    Setting::parse(text, &|name| Err(name.to_owned())).unwrap()
}

/// MB/s of all clients together.
pub(crate) fn speed(outcome: &Outcome) -> f64 {
    Summary::of(&outcome.measurement).total_mb_s
}
