//! What is kept of simulated worlds, in `result.json` and in what is printed for programs.

use serde::{Deserialize, Serialize};

use super::published::Beside;

/// A sweep and all of its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepRecord {
    /// What was swept; each combination of their values is a point.
    pub(crate) axes: Vec<AxisRecord>,
    /// Seeds of each point.
    pub(crate) seeds: u32,
    /// The numbers of every row, in the order of its values.
    pub(crate) numbers: Vec<NumberRecord>,
    /// Names of those that are shown.
    pub(crate) shown: Vec<String>,
    /// One for each point and seed, in the order of the product: the last axis turns fastest.
    pub(crate) rows: Vec<PointRecord>,
    /// Published figures at points of the sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) published: Vec<PublishedRecord>,
}

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AxisRecord {
    /// The key, such as `servers.count`.
    pub(crate) key: String,
    /// Its values, as they were written.
    pub(crate) values: Vec<String>,
}

/// The name of a number, and its unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NumberRecord {
    /// Its name.
    pub(crate) name: String,
    /// Its unit; empty for a plain number.
    pub(crate) unit: String,
}

/// One world of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PointRecord {
    /// Which value of each axis it has.
    pub(crate) point: Vec<usize>,
    /// Its seed.
    pub(crate) seed: u64,
    /// Its numbers; none of what it does not have.
    pub(crate) values: Vec<Option<f64>>,
}

/// A published figure at a point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PublishedRecord {
    /// Which value of each axis it has.
    pub(crate) point: Vec<usize>,
    /// The figure beside the mean of the point's seeds.
    #[serde(flatten)]
    pub(crate) beside: Beside,
}

impl SweepRecord {
    /// The mean over the seeds of one number at a point, with its least and its most; none where no
    /// seed has it.
    pub(crate) fn spread(&self, number: &str, point: &[usize]) -> Option<Spread> {
        let at = self.numbers.iter().position(|one| one.name == number)?;
        let rows = self.rows.iter().filter(|row| row.point == point);
        let values: Vec<f64> = rows.filter_map(|row| row.values[at]).collect();
        (!values.is_empty()).then(|| Spread {
            mean: afflux_core::summary::mean(&values),
            deviation: afflux_core::summary::deviation(&values),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// All points in their order.
    pub(crate) fn points(&self) -> Vec<&[usize]> {
        let seeds = self.seeds.max(1) as usize;
        self.rows.iter().step_by(seeds).map(|row| row.point.as_slice()).collect()
    }

    /// The unit of a number.
    pub(crate) fn unit(&self, number: &str) -> &str {
        let found = self.numbers.iter().find(|one| one.name == number);
        found.map_or("", |one| one.unit.as_str())
    }
}

/// A number over some seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Its mean.
    pub(crate) mean: f64,
    /// Its standard deviation.
    pub(crate) deviation: f64,
    /// Its least value.
    pub(crate) least: f64,
    /// Its greatest value.
    pub(crate) most: f64,
}
