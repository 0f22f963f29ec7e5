//! Surveys: a dozen settings in short runs, to find what is worth confirming.
//!
//! A survey only proposes. Its best is the best of many noisy runs and looks better than it is, so
//! what it proposes is confirmed against the baseline by fresh runs.

use std::io::Write;

use afflux_core::measure::Measurement;
use afflux_core::objective::{self, Objective};
use afflux_core::setting::Setting;
use afflux_core::summary::Summary;
use afflux_core::target::{Target, TargetError};
use afflux_core::workload::Workload;
use serde::Serialize;

use crate::experiment::{Plan, trial};
use crate::failure::Failure;
use crate::progress::Watch;
use crate::settings;
use crate::tables::{number, table};

/// What is tried besides a gap at the fair share: fixed windows, gaps as a fraction of the time
/// between replies, limiters, shipped rule sets, fan-in and turns.
pub(crate) static CANDIDATES: &[&str] = &[
    "fixed:1",
    "fixed:2",
    "fixed:4",
    "fixed:16",
    "fixed:32",
    "fixed:16,gap=0.9ack",
    "aimd",
    "gradient",
    "shipped:two-step",
    "shipped:deep",
    "shipped:reads-first",
    "none+fan-in=8",
    "fixed:16+turn=300ms",
];

/// What is to be large in a survey, and in a quickstart.
pub(crate) const STEADY: &str = "steady";

/// How many settings a survey tries, the baseline and the fair gap included.
pub(crate) fn size() -> u32 {
    CANDIDATES.len() as u32 + 2
}

/// What a setting did in a survey.
#[derive(Debug, Serialize)]
pub(crate) struct Tried {
    /// The setting, as it was written.
    pub(crate) setting: String,
    /// Of its run.
    pub(crate) summary: Summary,
}

impl Tried {
    /// By the objective `steady`: fast, and evenly so.
    pub(crate) fn score(&self, workload: &Workload) -> f64 {
        let steady = STEADY.parse::<Objective>();
        let runs = std::slice::from_ref(&self.summary);
        steady.map_or(objective::WORST, |steady| steady.score_runs(runs, workload.is_bursty()))
    }

    /// Throughput, or the speed of the bursts where there are bursts.
    pub(crate) fn speed(&self, workload: &Workload) -> f64 {
        if workload.is_bursty() { self.summary.burst_mb_s } else { self.summary.total_mb_s }
    }
}

/// The setting that did best by `value`, the baseline left out.
pub(crate) fn best(tried: &[Tried], value: impl Fn(&Tried) -> f64) -> Result<Setting, Failure> {
    let candidates = tried.iter().skip(1);
    let best = candidates.max_by(|left, right| value(left).total_cmp(&value(right)));
    settings::parse(&best.ok_or_else(|| Failure::broken("nothing was tried"))?.setting)
}

/// What was tried, as a table.
pub(crate) fn print(
    out: &mut dyn Write,
    target: &str,
    workload: &Workload,
    plan: &Plan,
    tried: &[Tried],
) -> Result<(), Failure> {
    let (name, length) = (&workload.name, plan.length);
    writeln!(out, "{name} on {target}: one run of {length} each, so within noise of each other")?;
    let speed = if workload.is_bursty() { "MB/s in bursts" } else { "MB/s" };
    let heads = ["setting", speed, "between clients", "within clients", "p99 ms", "score"];
    let mut rows = table(&heads);
    for one in tried {
        let summary = &one.summary;
        rows.add_row([
            one.setting.clone(),
            number(one.speed(workload)),
            number(summary.between_mb_s),
            number(summary.within_mb_s),
            number(summary.operation_p99_ms),
            number(one.score(workload)),
        ]);
    }
    writeln!(out, "{rows}\n")?;
    Ok(())
}

/// Tries the baseline and all candidates once each, the baseline first.
pub(crate) fn survey(
    target: &mut dyn Target,
    workload: &Workload,
    plan: &Plan,
    watch: &Watch,
) -> Result<Vec<Tried>, Failure> {
    let baseline = Setting::none();
    let broken = |error: TargetError| Failure::broken(error);
    let measurement = trial(target, workload, &baseline, plan.seed, plan, watch).map_err(broken)?;
    // Slightly below the fair share, so that it smooths and does not starve; rounded for people.
    let gap = format!("fixed:8,gap={}ms", (fair_gap_micros(&measurement) * 95 / 100_000).max(1));
    let first = Tried { setting: baseline.label, summary: Summary::of(&measurement) };
    let mut tried = vec![first];
    for text in CANDIDATES.iter().copied().chain([gap.as_str()]) {
        let setting = settings::parse(text)?;
        let measurement =
            trial(target, workload, &setting, plan.seed, plan, watch).map_err(broken)?;
        tried.push(Tried { setting: setting.label, summary: Summary::of(&measurement) });
    }
    Ok(tried)
}

/// The gap that would give every path the rate that it had, in microseconds and for a full-size
/// request; a path that sends smaller ones waits accordingly less.
fn fair_gap_micros(measurement: &Measurement) -> u64 {
    let micros = measurement.fair_gap().map_or(0, |gap| gap.as_nanos() / 1_000);
    let bytes: u64 = measurement.clients.iter().flat_map(|client| &client.seconds).flatten().sum();
    // The controllers' own scaling of gaps by size, undone.
    let size = bytes as f64 / measurement.data_replies().max(1) as f64 / f64::from(1 << 20);
    (micros as f64 / (0.5 + 0.5 * size.min(1.0))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use afflux_core::measure::ClientMeasurement;
    use afflux_core::units::Span;

    #[test]
    fn candidates_can_be_read() {
        for text in CANDIDATES {
            settings::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn the_fair_gap_is_the_time_between_sends_of_a_path() {
        let mut client = ClientMeasurement { data_paths: 4, ..Default::default() };
        for _ in 0..100 {
            client.process_time[0].record(Span::from_millis(10));
        }
        client.seconds = vec![[100 << 20, 0]];
        let measurement = Measurement { counted_secs: 1.0, clients: vec![client] };
        // 25 requests a second on each of 4 paths.
        assert_eq!(fair_gap_micros(&measurement), 40_000);
    }
}
