//! Experiments: settings against a baseline, in alternating pairs of fresh runs.
//!
//! Machines and disks drift. So the baseline is run next to each setting, in changing order, and
//! only differences within a pair count.

use std::time::Duration;

use afflux_core::measure::{Measurement, TraceRequest};
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::{Run, Target, TargetError};
use afflux_core::units::Span;
use afflux_core::workload::Workload;
use serde::Serialize;

use crate::interval::Interval;
use crate::progress::Watch;

/// How runs are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Pairs of each setting with the baseline.
    pub(crate) pairs: u32,
    /// Time at the start of a run that is not counted.
    pub(crate) settle: Span,
    /// Counted time of a run.
    pub(crate) length: Span,
    /// Seed of the first run; each pair has a seed of its own, shared by both of its runs.
    pub(crate) seed: u64,
    /// What every run traces, those of the baseline too.
    pub(crate) trace: Option<TraceRequest>,
}

impl Plan {
    /// How long one run takes, preparing left out.
    pub(crate) fn run_time(&self) -> Duration {
        Duration::from_nanos((self.settle + self.length).as_nanos())
    }
}

/// A number of a summary that people compare.
pub(crate) struct Metric {
    /// Its name in tables and JSON.
    pub(crate) name: &'static str,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Whether more of it is better.
    pub(crate) more_is_better: bool,
    /// Its value.
    pub(crate) of: fn(&Summary) -> f64,
}

/// What is compared, in the order of the tables.
pub(crate) static METRICS: &[Metric] = &[
    Metric {
        name: "throughput",
        unit: "MB/s",
        more_is_better: true,
        of: |summary| summary.total_mb_s,
    },
    Metric {
        name: "deviation between clients",
        unit: "MB/s",
        more_is_better: false,
        of: |summary| summary.between_mb_s,
    },
    Metric {
        name: "deviation within clients",
        unit: "MB/s",
        more_is_better: false,
        of: |summary| summary.within_mb_s,
    },
    Metric {
        name: "p99 of operations",
        unit: "ms",
        more_is_better: false,
        of: |summary| summary.operation_p99_ms,
    },
    Metric {
        name: "p99 process time",
        unit: "ms",
        more_is_better: false,
        of: |summary| summary.p99_ms,
    },
];

/// Extra metric for bursty workloads: the speed of the bursts.
pub(crate) static BURST: Metric = Metric {
    name: "burst speed",
    unit: "MB/s",
    more_is_better: true,
    of: |summary| summary.burst_mb_s,
};

/// The metrics that say something about `workload`.
pub(crate) fn metrics(workload: &Workload) -> Vec<&'static Metric> {
    let burst = workload.is_bursty().then_some(&BURST);
    burst.into_iter().chain(METRICS).collect()
}

/// One setting against the baseline.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// The setting, as it was written.
    pub(crate) setting: String,
    /// The baseline.
    pub(crate) baseline: String,
    /// One entry for each metric.
    pub(crate) metrics: Vec<Compared>,
    /// The summaries of the pairs: baseline, setting.
    pub(crate) pairs: Vec<(Summary, Summary)>,
}

/// One metric, compared.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    /// The metric's name.
    pub(crate) metric: &'static str,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Whether more of it is better.
    pub(crate) more_is_better: bool,
    /// Mean over the baseline's runs.
    pub(crate) baseline: f64,
    /// Mean over the setting's runs.
    pub(crate) setting: f64,
    /// Mean change of the pairs in percent, with its 95% interval.
    pub(crate) change_percent: Interval,
    /// The change of each pair.
    pub(crate) pairs_percent: Vec<f64>,
}

impl Compared {
    /// Compares `metric` over `pairs` of (baseline, setting).
    pub(crate) fn of(metric: &Metric, pairs: &[(Summary, Summary)]) -> Self {
        let values: Vec<(f64, f64)> =
            pairs.iter().map(|(left, right)| ((metric.of)(left), (metric.of)(right))).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| {
            afflux_core::summary::mean(&values.iter().map(of).collect::<Vec<_>>())
        };
        Self {
            metric: metric.name,
            unit: metric.unit,
            more_is_better: metric.more_is_better,
            baseline: mean(|pair| pair.0),
            setting: mean(|pair| pair.1),
            change_percent: Interval::of_changes(&values),
            pairs_percent: Interval::changes(&values),
        }
    }

    /// Whether it got better, worse, or cannot be told.
    pub(crate) fn verdict(&self) -> &'static str {
        self.change_percent.verdict(self.more_is_better).words()
    }
}

/// Runs one trial: prepares, deploys, runs.
pub(crate) fn trial(
    target: &mut dyn Target,
    workload: &Workload,
    setting: &Setting,
    seed: u64,
    plan: &Plan,
    watch: &Watch,
) -> Result<Measurement, TargetError> {
    target.prepare(workload)?;
    target.deploy(setting)?;
    watch.begin(&setting.label, plan.run_time());
    let (settle, length, trace) = (plan.settle, plan.length, plan.trace);
    let run = Run { seed, settle, length, trace, progress: watch };
    let measurement = target.run(&run);
    watch.end();
    measurement
}

/// Traces in the runs to come the path that was traced in this one, so that like stands beside
/// like.
pub(crate) fn follow_on(trace: &mut Option<TraceRequest>, measurement: &Measurement) {
    let traced = measurement.clients.iter().find_map(|client| client.trace.as_ref());
    if let (Some(request), Some(trace)) = (trace, traced) {
        request.path = Some(trace.path);
    }
}

/// A run of a comparison that has ended.
pub(crate) struct Ended<'a> {
    /// The run's setting.
    pub(crate) setting: &'a Setting,
    /// Its seed.
    pub(crate) seed: u64,
    /// Index of the comparison, among the settings that are compared.
    pub(crate) comparison: usize,
    /// Number of the pair, from 0.
    pub(crate) pair: u32,
    /// Whether it is the baseline's run.
    pub(crate) is_baseline: bool,
    /// What it showed.
    pub(crate) measurement: &'a Measurement,
}

/// Runs each of `settings` against `baseline`, pair by pair, all settings in each round, and tells
/// of every run as it ends.
pub(crate) fn compare(
    target: &mut dyn Target,
    workload: &Workload,
    baseline: &Setting,
    settings: &[Setting],
    plan: &Plan,
    watch: &Watch,
    tell: &mut dyn FnMut(&Ended<'_>),
) -> Result<Vec<Comparison>, TargetError> {
    let mut pairs: Vec<Vec<(Summary, Summary)>> = vec![Vec::new(); settings.len()];
    let mut plan = *plan;
    for round in 0..plan.pairs {
        let seed = plan.seed + u64::from(round);
        for (comparison, (setting, pairs)) in settings.iter().zip(&mut pairs).enumerate() {
            let mut run = |setting, is_baseline| -> Result<Summary, TargetError> {
                let measurement = trial(target, workload, setting, seed, &plan, watch)?;
                let measurement = &measurement;
                follow_on(&mut plan.trace, measurement);
                tell(&Ended { setting, seed, comparison, pair: round, is_baseline, measurement });
                Ok(Summary::of(measurement))
            };
            // The order changes from pair to pair, so that going first gives no advantage.
            let pair = if round % 2 == 0 {
                let left = run(baseline, true)?;
                (left, run(setting, false)?)
            } else {
                let right = run(setting, false)?;
                (run(baseline, true)?, right)
            };
            pairs.push(pair);
        }
    }
    let metrics = metrics(workload);
    let comparisons = settings.iter().zip(pairs).map(|(setting, pairs)| Comparison {
        setting: setting.label.clone(),
        baseline: baseline.label.clone(),
        metrics: metrics.iter().map(|metric| Compared::of(metric, &pairs)).collect(),
        pairs,
    });
    Ok(comparisons.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_knows_whether_it_is_for_the_better() {
        let summary = |total_mb_s| Summary { total_mb_s, ..Summary::default() };
        let pairs = [(100.0, 110.0), (120.0, 132.0), (80.0, 88.0)]
            .map(|(left, right)| (summary(left), summary(right)));
        let compared = Compared::of(&METRICS[0], &pairs);
        assert!((compared.change_percent.mean - 10.0).abs() < 1e-9);
        assert_eq!(compared.verdict(), "better");
        let swapped: Vec<_> = pairs.into_iter().map(|(left, right)| (right, left)).collect();
        assert_eq!(Compared::of(&METRICS[0], &swapped).verdict(), "worse");
    }
}
