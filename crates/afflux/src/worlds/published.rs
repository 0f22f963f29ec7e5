//! Published figures beside simulated ones: what served to fit a scenario, and what it predicts.

use std::collections::BTreeMap;

use afflux_core::summary::Summary;
use afflux_sim::scenario::Figure;
use afflux_sim::{Scenario, numbers};
use serde::{Deserialize, Serialize};

use super::crew::{World, run_all};
use super::scenarios::setting_of;
use crate::failure::Failure;

/// What a published figure is to its scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Use {
    /// The scenario's parameters were chosen so that it comes out.
    Fit,
    /// The scenario knows nothing of it.
    Prediction,
}

impl Use {
    /// For people.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Fit => "served to fit",
            Self::Prediction => "prediction",
        }
    }
}

/// A published figure beside the simulated one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// What it is.
    pub(crate) name: String,
    /// The number of a run that it is compared with.
    pub(crate) metric: String,
    /// What it is to the scenario.
    #[serde(rename = "use")]
    pub(crate) use_: Use,
    /// Its unit.
    pub(crate) unit: String,
    /// As published.
    pub(crate) published: f64,
    /// As simulated; none where an application did not come to its end.
    pub(crate) simulated: Option<f64>,
    /// Least and most over the scenario's models, where it has several and none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<[f64; 2]>,
    /// By how much the simulated one is greater.
    pub(crate) difference_percent: Option<f64>,
    /// Overrides of the scenario for it.
    pub(crate) set: Vec<String>,
    /// Paper, and table or section.
    pub(crate) source: String,
}

impl Beside {
    /// `figure` beside what came out.
    pub(crate) fn of(figure: &Figure, use_: Use, simulated: Option<f64>) -> Self {
        let published = figure.value;
        let difference = |simulated: f64| (simulated / published - 1.0) * 100.0;
        Self {
            name: figure.name.clone(),
            metric: figure.metric.clone(),
            use_,
            unit: figure.unit.clone(),
            published,
            simulated,
            range: None,
            difference_percent: simulated.map(difference).filter(|value| value.is_finite()),
            set: figure.set.clone(),
            source: figure.source.clone(),
        }
    }
}

/// The figures of a scenario, each with what it is used for, those that served to fit first.
pub(crate) fn figures(scenario: &Scenario) -> impl Iterator<Item = (&Figure, Use)> {
    let fitted = scenario.fitted.iter().map(|figure| (figure, Use::Fit));
    fitted.chain(scenario.published.iter().map(|figure| (figure, Use::Prediction)))
}

/// Runs `scenario` for each of its published figures, with `overrides` above those of the figure,
/// and puts them side by side. Figures with the same overrides share a run; no figure, no run.
///
/// What a paper does not say leaves several models of its test bed open, and any may be the truth:
/// unless the overrides name one, all are run, and each figure has its range over them beside what
/// the first gives.
///
/// # Errors
/// A figure's overrides or its metric cannot be used, or a world cannot be run.
pub(crate) fn beside(
    scenario: &Scenario,
    overrides: &[String],
    seed: u64,
) -> Result<Vec<Beside>, Failure> {
    let mut found = under_one_model(scenario, overrides, seed)?;
    let named = overrides.iter().any(|text| text.starts_with("model="));
    if named || found.is_empty() || scenario.models.len() < 2 {
        return Ok(found);
    }
    for one in &mut found {
        one.range = one.simulated.map(|value| [value, value]);
    }
    for model in &scenario.models[1..] {
        let mut overrides = overrides.to_vec();
        overrides.push(format!("model={}", model.name));
        let others = under_one_model(scenario, &overrides, seed)?;
        for (one, other) in found.iter_mut().zip(others) {
            let wider =
                |([least, most], value): ([f64; 2], f64)| [least.min(value), most.max(value)];
            one.range = one.range.zip(other.simulated).map(wider);
        }
    }
    Ok(found)
}

/// The same under the model that the overrides name, or the first.
fn under_one_model(
    scenario: &Scenario,
    overrides: &[String],
    seed: u64,
) -> Result<Vec<Beside>, Failure> {
    let mut sets: Vec<Vec<String>> = Vec::new();
    let mut wanted: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut runs = Vec::new();
    for (figure, _) in figures(scenario) {
        let world = world(scenario, &figure.set, overrides, seed)?;
        let wrong = |why| Failure::input(format!("figure `{}`: {why}", figure.name));
        numbers::check(&figure.metric, &world.scenario).map_err(wrong)?;
        let mut run = |set: Vec<String>| {
            let at = sets.iter().position(|one| *one == set).unwrap_or(sets.len());
            if at == sets.len() {
                sets.push(set);
            }
            wanted.entry(at).or_default().push(&figure.metric);
            at
        };
        let divided = run(figure.set.clone());
        let both = || figure.set.iter().chain(&figure.against).cloned().collect();
        runs.push((divided, (!figure.against.is_empty()).then(|| run(both()))));
    }
    if sets.is_empty() {
        return Ok(Vec::new());
    }
    let values =
        run_all(sets.len(), &|at| world(scenario, &sets[at], overrides, seed), &|at, outcome| {
            let summary = Summary::of(&outcome.measurement);
            let value =
                |name: &&str| ((*name).to_owned(), numbers::value(name, &outcome, &summary));
            wanted[&at].iter().map(value).collect::<BTreeMap<_, _>>()
        })?;
    Ok(figures(scenario)
        .zip(runs)
        .map(|((figure, use_), (divided, divisor))| {
            let of = |at: usize| values[at].get(&figure.metric).copied().flatten();
            let simulated = match divisor {
                None => of(divided),
                Some(divisor) => of(divided).zip(of(divisor)).map(|(above, below)| above / below),
            };
            Beside::of(figure, use_, simulated)
        })
        .collect())
}

fn world(
    scenario: &Scenario,
    set: &[String],
    overrides: &[String],
    seed: u64,
) -> Result<World, Failure> {
    // A model is what the figure's overrides build upon; whatever else was asked for goes above.
    let (models, others): (Vec<_>, Vec<_>) =
        overrides.iter().partition(|text| text.starts_with("model="));
    let all: Vec<&String> = models.into_iter().chain(set).chain(others).collect();
    let scenario = scenario.clone().with(&all).map_err(Failure::input)?;
    let setting = setting_of(&scenario)?;
    let told = format!("{} with {}", scenario.name, set.join(" "));
    Ok(World { scenario, setting, seed, trace: None, told })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
afflux-scenario = 1
name = "t"
workload = "random-read"
[servers]
count = 1
[run]
settle = "100ms"
length = "1s"
[[fit]]
name = "one client"
metric = "total_mb_s"
set = ["clients.count=1"]
value = 1.0
unit = "MB/s"
[[published]]
name = "nobody"
metric = "lost"
value = 0
"#;

    #[test]
    fn figures_stand_beside_what_was_run_for_them() {
        let scenario = Scenario::parse(TEXT).unwrap();
        let found = beside(&scenario, &[], 1).unwrap();
        assert_eq!((found[0].use_, found[1].use_), (Use::Fit, Use::Prediction));
        let simulated = found[0].simulated.unwrap();
        assert!(simulated > 0.1, "{simulated}");
        let difference = found[0].difference_percent.unwrap();
        assert!((difference - (simulated - 1.0) * 100.0).abs() < 1e-9);
        // Of zero there is no percent.
        assert_eq!((found[1].simulated, found[1].difference_percent), (Some(0.0), None));
        assert_eq!(found[0].range, None, "there are no models");
        let wrong = TEXT.replace("\"lost\"", "\"list\"");
        let error = beside(&Scenario::parse(&wrong).unwrap(), &[], 1).unwrap_err().to_string();
        assert!(error.contains("nobody") && error.contains("did you mean `lost`?"), "{error}");
    }
    /// A figure is told with its range over the models, unless one of them was asked for.
    #[test]
    fn several_models_give_a_range() {
        let models = r#"
[[free]]
key = "servers.count"
values = ["1", "2"]
[[model]]
name = "a"
about = "one server"
set = ["servers.count=1"]
[[model]]
name = "b"
about = "two"
set = ["servers.count=2"]
"#;
        let scenario = Scenario::parse(&format!("{TEXT}{models}")).unwrap();
        let under = |model: &str| {
            let found = beside(&scenario, &[format!("model={model}")], 1).unwrap();
            assert_eq!(found[0].range, None);
            found[0].simulated.unwrap()
        };
        let (a, b) = (under("a"), under("b"));
        let both = beside(&scenario, &[], 1).unwrap();
        assert_eq!(both[0].simulated, Some(a));
        assert_eq!(both[0].range, Some([a.min(b), a.max(b)]));
        assert!(b > 1.2 * a, "{a} {b}");
    }
}
