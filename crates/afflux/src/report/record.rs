//! Making a result file from what a command measured.

use std::collections::BTreeMap;

use afflux_core::class::Class;
use afflux_core::indicator::{INDICATORS, Unit};
use afflux_core::limits::HoldReason;
use afflux_core::measure::{self, Measurement, PathTrace};
use afflux_core::rules::{Hits, RuleFile};
use afflux_core::summary::Summary;
use afflux_core::workload::Workload;

use super::machine;
use super::schema::{
    ClientRecord, ComparedRecord, ComparisonRecord, HitsRecord, IndicatorColumn, PlanRecord,
    Program, ResultFile, RulesRecord, RunPlace, RunRecord, TraceRecord, TriedRecord, VERSION,
    WorkloadRecord,
};
use crate::experiment::{Comparison, Ended, Plan};
use crate::survey::Tried;

impl ResultFile {
    /// A result about `workload` on `target`, with what is known of this process and machine.
    ///
    /// `text` is the workload's file.
    pub(crate) fn begin(target: &str, workload: &Workload, text: &str, plan: &Plan) -> Self {
        let command = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let secs = afflux_node::clock::calendar_secs();
        let now = jiff::Timestamp::from_second(i64::try_from(secs).unwrap_or(0));
        Self {
            afflux_result: VERSION,
            program: Program { version: env!("CARGO_PKG_VERSION").to_owned(), command },
            machine: machine::this_machine(),
            began_at: now.unwrap_or_default().to_string(),
            target: target.to_owned(),
            workload: WorkloadRecord {
                name: workload.name.clone(),
                about: workload.about.clone(),
                clients: workload.clients,
                text: text.to_owned(),
            },
            plan: PlanRecord {
                pairs: plan.pairs,
                settle_secs: plan.settle.as_secs_f64(),
                length_secs: plan.length.as_secs_f64(),
                seed: plan.seed,
            },
            runs: Vec::new(),
            comparisons: Vec::new(),
            survey: Vec::new(),
            rules: Vec::new(),
            search: None,
            world: None,
            sweep: None,
        }
    }

    /// Adds a run that is in no comparison.
    pub(crate) fn add_run(&mut self, setting: &str, seed: u64, measurement: &Measurement) {
        self.runs.push(RunRecord::of(setting, seed, None, measurement));
    }

    /// Adds a run of a comparison.
    pub(crate) fn add_ended(&mut self, ended: &Ended<'_>) {
        let Ended { comparison, pair, is_baseline: baseline, .. } = *ended;
        let place = Some(RunPlace { comparison, pair, baseline });
        let setting = &ended.setting.label;
        self.runs.push(RunRecord::of(setting, ended.seed, place, ended.measurement));
    }

    /// Adds what was tried.
    pub(crate) fn add_survey(&mut self, workload: &Workload, tried: &[Tried]) {
        self.survey.extend(tried.iter().map(|tried| TriedRecord {
            setting: tried.setting.clone(),
            score: tried.score(workload),
            summary: tried.summary.clone(),
        }));
    }

    /// Adds what the runs that were added before say when they are compared. Traces are kept of the
    /// pairs that are shown.
    pub(crate) fn add_comparisons(&mut self, comparisons: &[Comparison]) {
        self.comparisons.extend(comparisons.iter().map(ComparisonRecord::of));
        let shown: Vec<Option<u32>> =
            (0..self.comparisons.len()).map(|index| self.shown_pair(index)).collect();
        for run in &mut self.runs {
            let Some(place) = run.place else { continue };
            if shown.get(place.comparison) != Some(&Some(place.pair)) {
                run.trace = None;
            }
        }
    }

    /// Adds the rule files that `setting` follows, with the hits of all runs that had it. Read them
    /// before the runs: a file may change meanwhile.
    pub(crate) fn add_rules(&mut self, setting: &str, files: Vec<(String, RuleFile)>) {
        let runs: Vec<&RunRecord> = self.runs.iter().filter(|run| run.setting == setting).collect();
        let mut taken: Vec<Class> = Vec::new();
        // A later file takes over the classes that it names.
        for (name, mut file) in files.into_iter().rev() {
            count_hits(&mut file, &runs, &mut taken);
            self.rules.push(RulesRecord {
                setting: setting.to_owned(),
                name,
                text: file.to_string(),
                runs: runs.len() as u32,
            });
        }
    }

    /// The pair that stands for a comparison: the one whose change of the first metric is the
    /// median, the lower of two.
    pub(crate) fn shown_pair(&self, comparison: usize) -> Option<u32> {
        let changes = &self.comparisons.get(comparison)?.metrics.first()?.pairs_percent;
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by(|&left, &right| changes[left].total_cmp(&changes[right]));
        order.get(order.len().checked_sub(1)? / 2).map(|&pair| pair as u32)
    }
}

/// Gives the rules of `file` the hits of `runs`, for the classes that are not taken yet.
fn count_hits(file: &mut RuleFile, runs: &[&RunRecord], taken: &mut Vec<Class>) {
    for section in &mut file.sections {
        let mut set = section.set().clone();
        set.rules.iter_mut().for_each(|rule| rule.hits = Hits::default());
        for class in Class::ALL {
            if !section.classes.contains(class) || taken.contains(&class) {
                continue;
            }
            taken.push(class);
            for hits in runs.iter().filter_map(|run| run.rule_hits.get(class.name())) {
                for (rule, hits) in set.rules.iter_mut().zip(hits) {
                    rule.hits = Hits::together([&rule.hits, &hits.hits()]);
                }
            }
        }
        section.replace(set);
    }
}

impl HitsRecord {
    fn of(hits: &Hits) -> Self {
        Self { count: hits.count, means: hits.means.to_vec() }
    }

    fn hits(&self) -> Hits {
        let mean = |axis: usize| self.means.get(axis).copied().unwrap_or(0);
        Hits { count: self.count, means: std::array::from_fn(mean) }
    }
}

impl RunRecord {
    fn of(setting: &str, seed: u64, place: Option<RunPlace>, measurement: &Measurement) -> Self {
        let mut held_secs = BTreeMap::new();
        for reason in HoldReason::ALL {
            let seconds = measurement.counted_secs as usize;
            let nanos = |second: usize| {
                let held = |client: &measure::ClientMeasurement| {
                    client.hold_seconds.get(second).map_or(0, |held| held[reason.index()])
                };
                measurement.clients.iter().map(held).sum::<u64>()
            };
            let held: Vec<f64> = (0..seconds).map(|at| rounded(nanos(at) as f64 / 1e9)).collect();
            if held.iter().any(|held| *held > 0.0) {
                held_secs.insert(reason.name().to_owned(), held);
            }
        }
        Self {
            setting: setting.to_owned(),
            seed,
            place,
            summary: Summary::of(measurement),
            clients: measurement.clients.iter().map(ClientRecord::of).collect(),
            held_secs,
            rule_hits: rule_hits(measurement),
            trace: measurement.clients.iter().find_map(|client| client.trace.as_ref()).map(trace),
        }
    }
}

impl ClientRecord {
    fn of(client: &measure::ClientMeasurement) -> Self {
        let bytes = |class: Class| {
            let bytes: Vec<u64> = client.seconds.iter().map(|row| row[class.index()]).collect();
            if bytes.iter().all(|&bytes| bytes == 0) { Vec::new() } else { bytes }
        };
        let mut record = Self {
            read_bytes: bytes(Class::Read),
            write_bytes: bytes(Class::Write),
            operations: client.operations,
            faults: client.faults,
            first_fault: client.first_fault.clone(),
        };
        // A client that moved nothing still had its seconds.
        if record.read_bytes.is_empty() && record.write_bytes.is_empty() {
            record.read_bytes = vec![0; client.seconds.len()];
        }
        record
    }
}

fn rule_hits(measurement: &Measurement) -> BTreeMap<String, Vec<HitsRecord>> {
    let classes = Class::ALL.into_iter().zip(measurement.rule_hits());
    let records = classes.map(|(class, counters)| {
        (class.name().to_owned(), counters.hits().iter().map(HitsRecord::of).collect())
    });
    records.filter(|(_, records): &(String, Vec<HitsRecord>)| !records.is_empty()).collect()
}

fn trace(trace: &PathTrace) -> TraceRecord {
    let points = &trace.points;
    let indicators = INDICATORS.iter().enumerate().map(|(axis, indicator)| {
        let (unit, scale) = match indicator.unit {
            Unit::Nanos => ("ms", 1e6),
            Unit::Milli => ("", 1e3),
        };
        let value = |point: &measure::TracePoint| rounded(point.signals[axis] as f64 / scale);
        IndicatorColumn {
            name: indicator.name.to_owned(),
            unit: unit.to_owned(),
            values: points.iter().map(value).collect(),
        }
    });
    TraceRecord {
        client: trace.client,
        path: trace.path.to_string(),
        replies: trace.replies,
        at_secs: points.iter().map(|point| rounded(point.at_nanos as f64 / 1e9)).collect(),
        indicators: indicators.collect(),
        window: points.iter().map(|point| rounded(point.window)).collect(),
        gap_ms: points.iter().map(|point| rounded(point.gap_nanos as f64 / 1e6)).collect(),
        in_flight: points.iter().map(|point| point.in_flight).collect(),
        slot_secs: trace.slot_secs,
        slot_bytes: trace.slot_bytes.clone(),
    }
}

/// To four digits after the point, which is more than a plot shows and far shorter.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

impl ComparisonRecord {
    /// As a comparison says it.
    pub(crate) fn of(comparison: &Comparison) -> Self {
        let metrics = comparison.metrics.iter().map(|compared| ComparedRecord {
            metric: compared.metric.to_owned(),
            unit: compared.unit.to_owned(),
            more_is_better: compared.more_is_better,
            baseline: compared.baseline,
            setting: compared.setting,
            change_percent: compared.change_percent.into(),
            pairs_percent: compared.pairs_percent.clone(),
        });
        Self {
            setting: comparison.setting.clone(),
            baseline: comparison.baseline.clone(),
            metrics: metrics.collect(),
        }
    }
}
