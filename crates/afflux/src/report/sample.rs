//! Small results for tests: made by hand, with all that a result can have.

use std::collections::BTreeMap;

use afflux_core::summary::Summary;

use super::schema::{
    ClientRecord, ComparedRecord, ComparisonRecord, FixedRecord, HitsRecord, IndicatorColumn,
    IntervalRecord, Machine, PlanRecord, Program, ResultFile, RulesRecord, RunPlace, RunRecord,
    SearchRecord, TraceRecord, TrialRecord, VERSION, WorkloadRecord,
};

/// A result without runs.
fn empty() -> ResultFile {
    let command = ["afflux", "bench", "a b.toml", "--compare", "fixed:4"].map(str::to_owned);
    ResultFile {
        afflux_result: VERSION,
        program: Program { version: "0.1.0".to_owned(), command: command.into() },
        machine: Machine {
            cores: 4,
            processor: "Test <1>".to_owned(),
            memory_bytes: 8 << 30,
            kernel: "6.1.0".to_owned(),
        },
        began_at: "2026-01-02T03:04:05Z".to_owned(),
        target: "lab".to_owned(),
        workload: WorkloadRecord {
            name: "mixed".to_owned(),
            about: "a sample".to_owned(),
            clients: 3,
            text: "afflux-workload = 1\n".to_owned(),
        },
        plan: PlanRecord { pairs: 3, settle_secs: 1.0, length_secs: 4.0, seed: 7 },
        runs: Vec::new(),
        comparisons: Vec::new(),
        survey: Vec::new(),
        rules: Vec::new(),
        search: None,
        world: None,
        sweep: None,
    }
}

fn trace(points: usize) -> TraceRecord {
    let wave = |scale: f64| (0..points).map(|at| (at % 17) as f64 * scale).collect::<Vec<f64>>();
    let column = |name: &str, unit: &str, scale| IndicatorColumn {
        name: name.to_owned(),
        unit: unit.to_owned(),
        values: wave(scale),
    };
    TraceRecord {
        client: 0,
        path: "server 1 write".to_owned(),
        replies: 5_000,
        at_secs: (0..points).map(|at| at as f64 * 4.0 / points as f64).collect(),
        indicators: vec![
            column("ack_ewma", "ms", 2.5),
            column("send_ewma", "ms", 2.0),
            column("pt_ratio", "", 0.5),
        ],
        window: wave(0.25),
        gap_ms: vec![0.0; points],
        in_flight: (0..points).map(|at| at as u32 % 5).collect(),
        slot_secs: 0.5,
        slot_bytes: (0..8).map(|slot| slot * 1_000_000).collect(),
    }
}

/// A run of three clients; `tilt` makes it differ from others.
pub(super) fn run(setting: &str, place: Option<RunPlace>, tilt: u64) -> RunRecord {
    let client = |index: u64| ClientRecord {
        write_bytes: (0..4).map(|second| (10 + index + second * tilt) * 1_000_000).collect(),
        operations: 40,
        ..ClientRecord::default()
    };
    let held = BTreeMap::from([
        ("window".to_owned(), vec![1.5, 2.0, 1.0, 0.5]),
        ("gap".to_owned(), vec![0.0, 0.25, 0.0, tilt as f64]),
    ]);
    let hits = HitsRecord { count: 10 * tilt, means: vec![45_000_000, 40_000_000, 3_200] };
    RunRecord {
        setting: setting.to_owned(),
        seed: 7,
        place,
        summary: Summary { total_mb_s: 40.0 + tilt as f64, ..Summary::default() },
        clients: (0..3).map(client).collect(),
        held_secs: held,
        rule_hits: BTreeMap::from([("write".to_owned(), vec![hits])]),
        trace: Some(trace(100 * tilt as usize)),
    }
}

fn compared_metric(metric: &str, mean: f64, low: Option<f64>, high: Option<f64>) -> ComparedRecord {
    ComparedRecord {
        metric: metric.to_owned(),
        unit: "MB/s".to_owned(),
        more_is_better: metric == "throughput",
        baseline: 40.0,
        setting: 40.0 * (1.0 + mean / 100.0),
        change_percent: IntervalRecord { mean, low, high },
        pairs_percent: vec![mean - 2.0, mean + 3.0, mean - 1.0],
    }
}

/// One setting against a baseline, with rules.
pub(super) fn compared() -> ResultFile {
    let mut result = empty();
    for pair in 0..3 {
        for (baseline, setting, tilt) in [(true, "none", 1), (false, "rules:x", 8)] {
            let place = Some(RunPlace { comparison: 0, pair, baseline });
            result.runs.push(run(setting, place, tilt));
        }
    }
    result.comparisons.push(ComparisonRecord {
        setting: "rules:x".to_owned(),
        baseline: "none".to_owned(),
        metrics: vec![
            compared_metric("throughput", 12.0, Some(8.0), Some(16.0)),
            compared_metric("deviation within clients", 300.0, Some(10.0), Some(700.0)),
            compared_metric("p99 process time", -3.0, None, None),
        ],
    });
    result.rules.push(RulesRecord {
        setting: "rules:x".to_owned(),
        name: "x".to_owned(),
        text: RULES.to_owned(),
        runs: 3,
    });
    result
}

const RULES: &str = "\
afflux rules 1
for read, write:
  ack_ewma < 48ms and send_ewma < 9ms and pt_ratio < 4.5 -> window * 1 - 1.7, gap 33ms; \
    hits 3011 at ack_ewma 45ms, send_ewma 8ms, pt_ratio 3.2
  ack_ewma < 48ms and send_ewma >= 9ms and pt_ratio < 4.5 -> window * 1 + 1
  ack_ewma >= 48ms and pt_ratio < 4.5 -> window * 1 + 0.9, gap 0.9 of ack_ewma; \
    hits 7426 at ack_ewma 60ms, send_ewma 58ms, pt_ratio 2.6
  pt_ratio >= 4.5 -> window * 0.5 + 1
";

/// A single run.
pub(super) fn single() -> ResultFile {
    let mut result = empty();
    result.runs.push(run("none", None, 2));
    result
}

/// A search, with the pairs that confirm it.
pub(super) fn searched() -> ResultFile {
    let mut result = compared();
    let mut best = 30.0;
    let trials = (1..=90).map(|number: u64| {
        let kind = match number {
            1..=14 => "grid",
            _ if number.is_multiple_of(9) => "repeat",
            _ => "candidate",
        };
        let score = 28.0 + (number * 7 % 11) as f64 + number as f64 / 15.0;
        best = f64::max(best, score);
        TrialRecord {
            number,
            kind: kind.to_owned(),
            epoch: (number > 14).then(|| 1 + (number / 40) as u32),
            round: Some((number / 20) as u32),
            setting: format!("<{number}>"),
            score: (number != 33).then_some(score),
            best: Some(best),
            at_secs: Some(number as f64 * 7.0),
            ..TrialRecord::default()
        }
    });
    result.search = Some(SearchRecord {
        method: "sharp".to_owned(),
        objective: "tp - 1.0*var".to_owned(),
        score_unit: "MB/s".to_owned(),
        budget: "2h".to_owned(),
        ended: "the budget was spent".to_owned(),
        trials: trials.collect(),
        baseline_score: Some(29.5),
        best_fixed: Some(FixedRecord { setting: "fixed:2".to_owned(), score: 36.0 }),
        found: Some("rules:x".to_owned()),
    });
    result
}
