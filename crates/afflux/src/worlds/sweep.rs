//! Sweeps: a scenario under every combination of some values, with some seeds each.

use std::collections::BTreeSet;

use afflux_core::summary::Summary;
use afflux_sim::scenario::Figure;
use afflux_sim::{Outcome, Scenario, ScenarioError, numbers};

use super::crew::{World, run_until_ended};
use super::published::{Beside, Use, figures};
use super::record::{AxisRecord, NumberRecord, PointRecord, PublishedRecord, SweepRecord};
use super::scenarios::{Loaded, setting_of};
use crate::failure::Failure;

/// More worlds than that are a mistake rather than a plan.
const MOST: usize = 100_000;

/// What is shown of each world when nothing else is asked for.
pub(crate) const SHOWN: &str = "total_mb_s,between_mb_s,p50_ms,p99_ms";

/// A sweep, checked: all of its worlds can be made.
pub(crate) struct Sweep<'a> {
    loaded: &'a Loaded,
    /// Overrides of every world.
    fixed: &'a [String],
    axes: Vec<AxisRecord>,
    seed: u64,
    seeds: u32,
    shown: Vec<String>,
}

impl<'a> Sweep<'a> {
    /// The sweep over `axes`, written `key=a,b,c`, above `fixed`, with seeds from `seed` on.
    /// `shown` names the numbers that are shown, with commas.
    ///
    /// # Errors
    /// A key or a value that cannot be, twice the same, too many worlds, or a number that no run
    /// has.
    pub(crate) fn new(
        loaded: &'a Loaded,
        fixed: &'a [String],
        axes: &[String],
        (seed, seeds): (u64, u32),
        shown: &str,
    ) -> Result<Self, Failure> {
        let axes = axes.iter().map(|text| axis(text)).collect::<Result<Vec<_>, _>>()?;
        let shown = shown.split(',').map(|name| name.trim().to_owned()).collect();
        let sweep = Self { loaded, fixed, axes, seed, seeds, shown };
        sweep.check()?;
        Ok(sweep)
    }

    /// Says what is wrong with it, before anything runs.
    fn check(&self) -> Result<(), Failure> {
        let mut keys: BTreeSet<String> = BTreeSet::new();
        for axis in &self.axes {
            if !keys.insert(canonical(&axis.key)) {
                return Err(wrong(
                    axis,
                    "is swept twice, so that each value would meet itself: write all its values \
                     into one --sweep",
                ));
            }
        }
        for text in self.fixed {
            let key = text.split_once('=').map_or(text.as_str(), |(key, _)| key);
            if let Some(axis) = self.axes.iter().find(|a| canonical(&a.key) == canonical(key)) {
                return Err(wrong(axis, &format!("is also fixed, to `{text}`: leave one out")));
            }
        }
        if self.seed.checked_add(u64::from(self.seeds) - 1).is_none() {
            return Err(Failure::input(format!(
                "--seed {} and the {} after it: the last one is {}; begin with a lower one",
                self.seed,
                self.seeds - 1,
                u64::MAX
            )));
        }
        let worlds = self.axes.iter().try_fold(self.seeds as usize, |worlds, axis| {
            worlds.checked_mul(axis.values.len()).filter(|worlds| *worlds <= MOST)
        });
        if worlds.is_none() {
            return Err(Failure::input(format!(
                "this sweep has more than {MOST} worlds: give fewer values or fewer --seeds, or \
                 sweep one key after the other"
            )));
        }
        self.check_values()?;
        for at in (0..self.len()).step_by(self.seeds as usize) {
            let world = self.world(at)?;
            for name in &self.shown {
                let said = |why| Failure::input(format!("--show: {why}"));
                numbers::check(name, &world.scenario).map_err(said)?;
            }
        }
        Ok(())
    }

    /// Each value alone, so that a wrong one is told by itself. What is wrong with a combination
    /// only is told of that one.
    fn check_values(&self) -> Result<(), Failure> {
        let base = self.loaded.scenario.clone();
        for axis in &self.axes {
            for value in &axis.values {
                let one = format!("{}={value}", axis.key);
                let all: Vec<&str> = self.fixed.iter().map(String::as_str).chain([&*one]).collect();
                match base.clone().with(&all) {
                    Ok(_) | Err(ScenarioError::Impossible { .. }) => {}
                    Err(error) => return Err(Failure::input(format!("--sweep: {error}"))),
                }
            }
        }
        Ok(())
    }

    /// How many worlds there are.
    pub(crate) fn len(&self) -> usize {
        let points: usize = self.axes.iter().map(|axis| axis.values.len()).product();
        points * self.seeds as usize
    }

    /// Which value of each axis the world numbered `at` has. Seeds turn fastest, then the last
    /// axis.
    fn point(&self, at: usize) -> Vec<usize> {
        let mut rest = at / self.seeds as usize;
        let mut point: Vec<usize> = Vec::new();
        for axis in self.axes.iter().rev() {
            point.push(rest % axis.values.len());
            rest /= axis.values.len();
        }
        point.reverse();
        point
    }

    fn world(&self, at: usize) -> Result<World, Failure> {
        let values = self.axes.iter().zip(self.point(at));
        let own: Vec<String> =
            values.map(|(axis, value)| format!("{}={}", axis.key, axis.values[value])).collect();
        let all: Vec<&String> = self.fixed.iter().chain(&own).collect();
        let told = format!("{} with {}", self.loaded.name, own.join(" "));
        let scenario = self.loaded.scenario.clone().with(&all);
        let scenario = scenario.map_err(|error| Failure::input(format!("{told}: {error}")))?;
        let setting = setting_of(&scenario)?;
        let seed = self.seed + (at % self.seeds as usize) as u64;
        Ok(World { scenario, setting, seed, trace: None, told })
    }

    /// Runs all of it on all cores. When the user ends it, the record has the points before the
    /// first that lacks a seed.
    ///
    /// # Errors
    /// A world cannot be run.
    pub(crate) fn run(self) -> Result<SweepRecord, Failure> {
        let names = numbers::names(&self.world(0)?.scenario);
        let keep = |at: usize, outcome: Outcome| {
            let summary = Summary::of(&outcome.measurement);
            PointRecord {
                point: self.point(at),
                seed: outcome.seed,
                values: names
                    .iter()
                    .map(|name| numbers::value(name, &outcome, &summary).filter(|v| v.is_finite()))
                    .collect(),
            }
        };
        let mut rows = run_until_ended(self.len(), &|at| self.world(at), &keep)?;
        rows.truncate(rows.len() / self.seeds as usize * self.seeds as usize);
        let number = |name: String| {
            let (about, unit) = numbers::told(&name);
            NumberRecord { name, about, unit: unit.to_owned() }
        };
        let placed = self.published()?;
        let mut record = SweepRecord {
            axes: self.axes,
            seeds: self.seeds,
            numbers: names.into_iter().map(number).collect(),
            shown: self.shown,
            rows,
            published: Vec::new(),
        };
        for Placed { point, against, figure, use_ } in placed {
            let mean = |at: &[usize]| record.spread(&figure.metric, at).map(|spread| spread.mean);
            // A ratio stands on the axis of its runs as that many times the run it is taken of.
            let figure = match against.map(|against| mean(&against)) {
                None => figure.clone(),
                Some(None) => continue,
                Some(Some(divisor)) => Figure {
                    name: format!("{}, {} times", figure.name, figure.value),
                    value: figure.value * divisor,
                    unit: record.unit(&figure.metric).to_owned(),
                    ..figure.clone()
                },
            };
            let beside = Beside::of(&figure, use_, mean(&point));
            record.published.push(PublishedRecord { point, beside });
        }
        Ok(record)
    }

    /// The published figures that points of the sweep are run for; how long they run is left to the
    /// sweep. Of a ratio both runs must be points.
    fn published(&self) -> Result<Vec<Placed>, Failure> {
        let scenario = &self.loaded.scenario;
        if figures(scenario).next().is_none() {
            return Ok(Vec::new());
        }
        let what = |one: Scenario| Scenario {
            run: scenario.run.clone(),
            origin: scenario.origin.clone(),
            ..one
        };
        let points: Vec<(Vec<usize>, Scenario)> = (0..self.len())
            .step_by(self.seeds as usize)
            .map(|at| Ok((self.point(at), what(self.world(at)?.scenario))))
            .collect::<Result<_, Failure>>()?;
        let point_of = |set: &[&String]| {
            let wanted = what(scenario.clone().with(set).ok()?);
            points.iter().find(|(_, one)| *one == wanted).map(|(point, _)| point.clone())
        };
        let placed = figures(scenario).filter_map(|(figure, use_)| {
            let set: Vec<&String> = figure.set.iter().collect();
            let point = point_of(&set)?;
            let against = match figure.against.is_empty() {
                true => None,
                false => {
                    Some(point_of(&set.into_iter().chain(&figure.against).collect::<Vec<_>>())?)
                }
            };
            Some(Placed { point, against, figure: figure.clone(), use_ })
        });
        Ok(placed.collect())
    }
}

/// A published figure at a point of a sweep.
struct Placed {
    point: Vec<usize>,
    /// The point that a ratio is taken of.
    against: Option<Vec<usize>>,
    figure: Figure,
    use_: Use,
}

/// Reads `key=a,b,c`; values that have commas themselves are parted by semicolons.
fn axis(text: &str) -> Result<AxisRecord, Failure> {
    let said = |what: &str| {
        Failure::input(format!("--sweep {text}: {what}: write it as in servers.count=1,2,4"))
    };
    let (key, values) = text.split_once('=').ok_or_else(|| said("there is no `=`"))?;
    let key = key.trim().to_owned();
    if key.is_empty() {
        return Err(said("there is no key"));
    }
    let comma = if values.contains(';') { ';' } else { ',' };
    let values: Vec<String> = values.split(comma).map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        let what = if values.len() == 1 { "there are no values" } else { "a value is empty" };
        return Err(said(what));
    }
    let twice = (0..values.len()).find(|&at| values[..at].contains(&values[at]));
    if let Some(at) = twice {
        return Err(said(&format!("`{}` stands in it twice", values[at])));
    }
    Ok(AxisRecord { key, values })
}

/// `workload.bytes` and `application.bytes` are two names of one key.
fn canonical(key: &str) -> String {
    match key.trim().strip_prefix("workload.") {
        Some(rest) => format!("application.{rest}"),
        None => key.trim().to_owned(),
    }
}

fn wrong(axis: &AxisRecord, what: &str) -> Failure {
    Failure::input(format!("--sweep: `{}` {what}", axis.key))
}

#[cfg(test)]
mod tests {
    use super::super::scenarios::load;
    use super::*;

    fn sweep_error(axes: &[&str], fixed: &[&str], shown: &str) -> String {
        let loaded = load("contended").unwrap();
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let fixed = owned(fixed);
        Sweep::new(&loaded, &fixed, &owned(axes), (1, 2), shown).err().unwrap().to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_place_and_remedy() {
        let many = format!(
            "clients.retries={}",
            (0..251).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
        );
        let also = many.replace("retries", "count").replace("=0,", "=");
        for (axes, fixed, says) in [
            (&["servers.count"][..], &[][..], "there is no `=`"),
            (&["=1,2"], &[], "there is no key"),
            (&["servers.count="], &[], "there are no values"),
            (&["servers.count=1,,2"], &[], "a value is empty"),
            (&["servers.count=1,2,1"], &[], "`1` stands in it twice"),
            (&["servers.count=1", "servers.count=2"], &[], "is swept twice"),
            (&["workload.bytes=1MiB", "application.bytes=1MiB"], &[], "is swept twice"),
            (&["servers.count=1,2"], &["servers.count=3"], "leave one out"),
            (&["servers.conut=1,2"], &[], "did you mean `count`?"),
            (&["servers.count=1,none"], &[], "servers.count=none"),
            (&["servers.count=0,1"], &[], "servers.count=0"),
            (&["policy.setting=fixd:3"], &[], "fixed"),
            (&[&many, &also], &[], "more than 100000 worlds"),
        ] {
            let said = sweep_error(axes, fixed, SHOWN);
            assert!(said.contains(says), "{axes:?}: {said}");
        }
        let loaded = load("contended").unwrap();
        let last = Sweep::new(&loaded, &[], &[], (u64::MAX, 2), SHOWN).err().unwrap().to_string();
        assert!(last.contains("begin with a lower one"), "{last}");
        assert!(sweep_error(&[], &[], "p99_s").contains("did you mean `p99_ms`?"));
    }

    #[test]
    fn it_is_the_product_in_order() {
        let loaded = load("contended").unwrap();
        let axes = ["servers.count=1,2", "policy.setting=none;fixed:4,gap=33ms"].map(str::to_owned);
        let fixed = ["run.length=1s", "run.settle=10ms", "clients.count=2"].map(str::to_owned);
        let sweep = Sweep::new(&loaded, &fixed, &axes, (5, 2), "total_mb_s").unwrap();
        assert_eq!(sweep.axes[1].values, ["none", "fixed:4,gap=33ms"]);
        let found = sweep.run().unwrap();
        let all: Vec<_> = found.rows.iter().map(|row| (row.point.clone(), row.seed)).collect();
        let expected = [[0, 0], [0, 1], [1, 0], [1, 1]]
            .into_iter()
            .flat_map(|point| [5, 6].map(|seed| (point.to_vec(), seed)));
        assert_eq!(all, expected.collect::<Vec<_>>());
        let speeds: Vec<f64> = (0..8).map(|row| found.rows[row].values[0].unwrap()).collect();
        assert!(speeds.iter().all(|speed| *speed > 0.0), "{speeds:?}");
        assert!(speeds[0] != speeds[1], "two seeds are two worlds");
    }

    #[test]
    fn published_figures_are_found_at_their_points() {
        let mut loaded = load("contended").unwrap();
        let set = ["servers.count=2", "run.length=9s", "clients.count=2"].map(str::to_owned);
        let metric = "total_mb_s".to_owned();
        let figure = Figure { metric, set: set.to_vec(), value: 50.0, ..Figure::default() };
        let elsewhere = Figure { set: vec!["servers.count=4".to_owned()], ..figure.clone() };
        let against = vec!["servers.count=1".to_owned()];
        let ratio = Figure { value: 1.5, against, ..figure.clone() };
        let no_divisor = Figure { against: elsewhere.set.clone(), ..figure.clone() };
        loaded.scenario.published = vec![elsewhere, figure, ratio, no_divisor];
        let fixed = ["run.length=1s", "run.settle=10ms", "workload.clients=2"].map(str::to_owned);
        let axes = ["servers.count=1,2".to_owned()];
        let found_under = |fixed: &[String]| {
            let sweep = Sweep::new(&loaded, fixed, &axes, (1, 1), "total_mb_s").unwrap();
            sweep.run().unwrap()
        };
        assert_eq!(found_under(&fixed).published, [], "the number of clients is another key");
        let fixed = ["run.length=1s", "run.settle=10ms", "clients.count=2"].map(str::to_owned);
        let found = found_under(&fixed);
        assert_eq!(found.published.len(), 2, "{:?}", found.published);
        assert!(found.published.iter().all(|one| one.point == [1]));
        let [plain, ratio] = [0, 1].map(|at| &found.published[at].beside);
        assert_eq!(plain.published, 50.0);
        assert!(plain.simulated.unwrap() > 1.0);
        let of_one = found.spread("total_mb_s", &[0]).unwrap().mean;
        assert_eq!(ratio.published, 1.5 * of_one);
        assert!(ratio.name.ends_with(", 1.5 times"), "{}", ratio.name);
        // A default that is spelt out is the same world.
        let fixed = [&fixed[..], &["policy.setting=none".to_owned()]].concat();
        assert_eq!(found_under(&fixed).published.len(), 2);
    }
}
