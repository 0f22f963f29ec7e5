//! Published figures beside what a scenario gives.
//!
//! A scenario's `[[fit]]` and `[[published]]` tables say what a paper measured, and under which
//! overrides the scenario is run for it. The first kind served to choose the values of the free
//! parameters, the second is predicted.

use afflux_core::setting::{Setting, SettingError};
use afflux_core::summary::Summary;
use afflux_core::target::Unwatched;

use crate::numbers;
use crate::scenario::{Figure, Scenario, ScenarioError};
use crate::world::{SimError, Simulation};

/// How far from a published figure a simulated one may be and still count as reproduced.
pub const BOUND: f64 = 0.10;

/// Why there is no simulated figure.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// Its overrides are wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The setting of the scenario is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] SimError),
    /// The run did not come to what is measured.
    #[error("`{figure}`: the run ended before there was `{metric}`; make run.length longer")]
    Nothing {
        /// The figure.
        figure: String,
        /// Its metric.
        metric: String,
    },
}

/// What `scenario` gives for a figure: the mean over `seeds`.
pub fn simulated(
    scenario: &Scenario,
    figure: &Figure,
    seeds: &[u64],
) -> Result<f64, PublishedError> {
    let scenario = scenario.clone().with(&figure.set)?;
    let value = mean(&scenario, figure, seeds)?;
    if figure.against.is_empty() {
        return Ok(value);
    }
    Ok(value / mean(&scenario.with(&figure.against)?, figure, seeds)?)
}

/// How far a simulated figure is from the published one, as a fraction of that.
pub fn difference(figure: &Figure, simulated: f64) -> f64 {
    simulated / figure.value - 1.0
}

fn mean(scenario: &Scenario, figure: &Figure, seeds: &[u64]) -> Result<f64, PublishedError> {
    let setting = Setting::parse(&scenario.policy.setting, &|file| Err(file.to_owned()))?;
    let mut sum = 0.0;
    for &seed in seeds {
        let outcome = Simulation::new(scenario, &setting, seed)?.run(&Unwatched)?;
        let summary = Summary::of(&outcome.measurement);
        let value = numbers::value(&figure.metric, &outcome, &summary);
        sum += value.ok_or_else(|| PublishedError::Nothing {
            figure: figure.name.clone(),
            metric: figure.metric.clone(),
        })?;
    }
    Ok(sum / seeds.len() as f64)
}
