//! The result file: all that a command measured, as it lies in `result.json` of its directory.
//!
//! Version 1 of the format. Throughputs are in MB/s (10^6 bytes), times in the unit that the
//! field's name ends in. What a command has nothing to say about is left out. Readers ignore fields
//! that they do not know; a change that they could not ignore raises [`VERSION`].

use std::collections::BTreeMap;

use afflux_core::summary::Summary;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::worlds::record::{SweepRecord, WorldRecord};

/// The version that this code writes, and the greatest that it reads.
pub(crate) const VERSION: u32 = 1;

/// Everything in a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResultFile {
    /// Version of the format, [`VERSION`].
    pub(crate) afflux_result: u32,
    /// What was started.
    pub(crate) program: Program,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// When it began, as RFC 3339 in UTC.
    pub(crate) began_at: String,
    /// What it ran on, as after `--on`.
    pub(crate) target: String,
    /// What was run.
    pub(crate) workload: WorkloadRecord,
    /// How runs were made.
    pub(crate) plan: PlanRecord,
    /// All full runs, in the order in which they were made. Of a search, those that confirm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<RunRecord>,
    /// Settings against a baseline, in pairs of the runs above. Of a search, its confirming pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) comparisons: Vec<ComparisonRecord>,
    /// Settings that were tried once each to find what is worth a comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) survey: Vec<TriedRecord>,
    /// The rule sets behind the settings that follow rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules: Vec<RulesRecord>,
    /// How a search went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<SearchRecord>,
    /// What a simulated world showed besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) world: Option<WorldRecord>,
    /// A sweep over simulated worlds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sweep: Option<SweepRecord>,
}

/// The program and how it was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Its version.
    pub(crate) version: String,
    /// Its command line, program name first; what is not UTF-8 is replaced.
    pub(crate) command: Vec<String>,
}

/// The machine of the clients; what it does not tell is left empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    /// Cores that the program may use.
    pub(crate) cores: u32,
    /// Model of the processor.
    pub(crate) processor: String,
    /// Main memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Release of the kernel.
    pub(crate) kernel: String,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkloadRecord {
    /// Its name.
    pub(crate) name: String,
    /// What it stands for.
    #[serde(default)]
    pub(crate) about: String,
    /// How many clients ran it; `--clients` goes before the file.
    pub(crate) clients: u32,
    /// Its file.
    #[serde(default)]
    pub(crate) text: String,
}

/// How runs were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanRecord {
    /// Pairs of each setting with the baseline; 0 where nothing was compared.
    pub(crate) pairs: u32,
    /// Time at the start of a run that was not counted.
    pub(crate) settle_secs: f64,
    /// Counted time of a run.
    pub(crate) length_secs: f64,
    /// Seed of the first run.
    pub(crate) seed: u64,
}

/// One full run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// Its setting.
    pub(crate) setting: String,
    /// Its seed.
    pub(crate) seed: u64,
    /// Its place in a comparison, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<RunPlace>,
    /// Its numbers.
    pub(crate) summary: Summary,
    /// What each client moved.
    pub(crate) clients: Vec<ClientRecord>,
    /// Seconds that paths were held in each second of the run, summed over all paths, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) held_secs: BTreeMap<String, Vec<f64>>,
    /// Which rules decided, by class of requests and in the order of the rules.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rule_hits: BTreeMap<String, Vec<HitsRecord>>,
    /// One path from reply to reply; kept of the runs that are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<TraceRecord>,
}

/// Which run of a comparison it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunPlace {
    /// Index of the comparison.
    pub(crate) comparison: usize,
    /// Number of the pair, from 0.
    pub(crate) pair: u32,
    /// Whether it is the baseline's run.
    pub(crate) baseline: bool,
}

/// What one client did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClientRecord {
    /// Bytes read in each second; empty when there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) read_bytes: Vec<u64>,
    /// Bytes written in each second; empty when there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) write_bytes: Vec<u64>,
    /// Operations of the application that ended.
    pub(crate) operations: u64,
    /// Requests that ended without an answer.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) faults: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_fault: Option<String>,
}

/// Replies for which one rule decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HitsRecord {
    /// How many.
    pub(crate) count: u64,
    /// Means of the indicators over them, in the indicators' own units, in the order of
    /// `afflux rules show --json`.
    pub(crate) means: Vec<u64>,
}

/// One path over time, in columns of equal length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TraceRecord {
    /// The client.
    pub(crate) client: u32,
    /// The path, for people.
    pub(crate) path: String,
    /// Replies that came in; the columns hold some of them, evenly spread.
    pub(crate) replies: u64,
    /// When the replies came, in seconds since counting began.
    pub(crate) at_secs: Vec<f64>,
    /// The indicators.
    pub(crate) indicators: Vec<IndicatorColumn>,
    /// The window.
    pub(crate) window: Vec<f64>,
    /// The gap for a full-size request.
    pub(crate) gap_ms: Vec<f64>,
    /// Requests in flight.
    pub(crate) in_flight: Vec<u32>,
    /// Length of the slots below.
    pub(crate) slot_secs: f64,
    /// Bytes moved in each slot.
    pub(crate) slot_bytes: Vec<u64>,
}

/// One indicator over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndicatorColumn {
    /// Its name.
    pub(crate) name: String,
    /// Unit of the values: `ms`, or empty for a plain number.
    pub(crate) unit: String,
    /// Its values.
    pub(crate) values: Vec<f64>,
}

/// One setting against a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ComparisonRecord {
    /// The setting.
    pub(crate) setting: String,
    /// The baseline.
    pub(crate) baseline: String,
    /// One entry for each number that was compared, the most telling first.
    pub(crate) metrics: Vec<ComparedRecord>,
}

/// One number, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ComparedRecord {
    /// What it is.
    pub(crate) metric: String,
    /// Its unit.
    pub(crate) unit: String,
    /// Whether more of it is better.
    pub(crate) more_is_better: bool,
    /// Mean over the baseline's runs.
    pub(crate) baseline: f64,
    /// Mean over the setting's runs.
    pub(crate) setting: f64,
    /// Change in percent of the baseline's mean.
    pub(crate) change_percent: IntervalRecord,
    /// The change of each pair.
    #[serde(default)]
    pub(crate) pairs_percent: Vec<f64>,
}

/// A mean with its 95 % interval; a missing end is infinitely far off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IntervalRecord {
    /// The mean.
    pub(crate) mean: f64,
    /// Lower end.
    pub(crate) low: Option<f64>,
    /// Upper end.
    pub(crate) high: Option<f64>,
}

/// A setting that was tried once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TriedRecord {
    /// The setting.
    pub(crate) setting: String,
    /// By what the best was chosen.
    pub(crate) score: f64,
    /// Its numbers.
    pub(crate) summary: Summary,
}

/// A rule set, with what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RulesRecord {
    /// The setting that follows it.
    pub(crate) setting: String,
    /// The name of its file.
    pub(crate) name: String,
    /// The rule file; its hits and means are those of the runs below.
    pub(crate) text: String,
    /// Runs over which its hits were counted.
    pub(crate) runs: u32,
}

/// How a search for rules went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SearchRecord {
    /// The method.
    pub(crate) method: String,
    /// What was to be made great, as it was written.
    pub(crate) objective: String,
    /// The unit of the scores; empty for a plain number.
    #[serde(default)]
    pub(crate) score_unit: String,
    /// The budget, for people.
    #[serde(default)]
    pub(crate) budget: String,
    /// Why it ended, for people.
    #[serde(default)]
    pub(crate) ended: String,
    /// All trials in the order in which they were told.
    pub(crate) trials: Vec<TrialRecord>,
    /// Score of the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) baseline_score: Option<f64>,
    /// The best of the fixed settings, which is what a search must beat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) best_fixed: Option<FixedRecord>,
    /// The setting that was found. Its rules are in [`ResultFile::rules`] under the same setting,
    /// and what fresh runs say about it in [`ResultFile::comparisons`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<String>,
}

/// One trial of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TrialRecord {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// What it was for, such as `grid`, `candidate`, `repeat`, `confirm`.
    pub(crate) kind: String,
    /// The epoch that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<u32>,
    /// The round that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round: Option<u32>,
    /// What was tried, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) setting: String,
    /// Its score; none when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) score: Option<f64>,
    /// The best score so far, as the search judges it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) best: Option<f64>,
    /// When it ended, in seconds since the search began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_secs: Option<f64>,
    /// Why it was made again, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) doubt: Option<String>,
    /// The scores of all times that it was made, the doubted one first; empty when made once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) made: Vec<Option<f64>>,
}

/// A fixed setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FixedRecord {
    /// The setting.
    pub(crate) setting: String,
    /// Its score.
    pub(crate) score: f64,
}

impl From<Interval> for IntervalRecord {
    fn from(interval: Interval) -> Self {
        let finite = |end: f64| end.is_finite().then_some(end);
        Self { mean: interval.mean, low: finite(interval.low), high: finite(interval.high) }
    }
}

impl From<IntervalRecord> for Interval {
    fn from(record: IntervalRecord) -> Self {
        let low = record.low.unwrap_or(f64::NEG_INFINITY);
        Self { mean: record.mean, low, high: record.high.unwrap_or(f64::INFINITY) }
    }
}

impl ComparedRecord {
    /// Whether it got better, worse, or cannot be told.
    pub(crate) fn verdict(&self) -> Verdict {
        Interval::from(self.change_percent).verdict(self.more_is_better)
    }
}

impl ClientRecord {
    /// Bytes read and written in each second.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        let seconds = self.read_bytes.len().max(self.write_bytes.len());
        let at = |bytes: &[u64], second: usize| bytes.get(second).copied().unwrap_or(0);
        (0..seconds).map(|s| at(&self.read_bytes, s) + at(&self.write_bytes, s)).collect()
    }
}

pub(crate) use crate::interval::Verdict;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
