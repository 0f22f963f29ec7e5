//! The result of a search, for its page.

use afflux_core::search::Told;
use afflux_core::workload::Workload;

use crate::experiment::{Ended, Plan};
use crate::failure::Failure;
use crate::report::ResultFile;
use crate::report::schema::{FixedRecord, SearchRecord, TrialRecord};
use crate::search::Found;
use crate::search::budget::Budget;
use crate::search::journal::{Entry, Head, Stage};

/// What the page shows of a search.
pub(crate) fn of(
    head: &Head,
    target: &str,
    workload: &Workload,
    budget: Budget,
    found: &Found,
) -> Result<ResultFile, Failure> {
    let (settle, length) = (head.settle, head.length);
    let plan = Plan { pairs: head.pairs, settle, length, seed: head.seed, trace: None };
    let mut result = ResultFile::begin(target, workload, &head.workload_text, &plan);
    // Runs belong to the first comparison, what was found against the baseline. A resumed search
    // has not all of them, and a page with some would mislead.
    let shown: Vec<_> = found.fresh.iter().filter(|fresh| fresh.which != 1).collect();
    if shown.len() == 2 * head.pairs as usize {
        for fresh in shown {
            result.add_ended(&Ended {
                setting: &fresh.setting,
                seed: fresh.seed,
                comparison: 0,
                pair: fresh.round,
                is_baseline: fresh.which == 0,
                measurement: &fresh.measurement,
            });
        }
    }
    result.add_comparisons(&found.comparisons);
    let label = found.best.candidate.label();
    if let Some(file) = found.best.candidate.rule_file() {
        result.add_rules(&label, vec![(label.clone(), file)]);
    }
    result.search = Some(SearchRecord {
        method: head.method.clone(),
        objective: head.objective.clone(),
        budget: budget.to_string(),
        ended: found.ended.clone(),
        trials: trials(&found.entries),
        baseline_score: None,
        best_fixed: Some(FixedRecord {
            setting: found.fixed.candidate.label(),
            score: found.fixed.score,
        }),
        found: Some(label),
        score_unit: String::new(),
    });
    Ok(result)
}

fn trials(entries: &[Entry]) -> Vec<TrialRecord> {
    let (mut at_secs, mut best): (f64, Option<f64>) = (0.0, None);
    let record = |(number, entry): (u64, &Entry)| {
        at_secs += entry.secs;
        let score = match &entry.told {
            Told::Outcome(outcome) => Some(outcome.score),
            Told::Cost(cost) => Some(-cost),
            Told::Fault(_) => None,
        };
        let kind = match entry.stage {
            Stage::Grid => "grid",
            Stage::Search => "candidate",
            Stage::Confirm => "confirm",
        };
        // Confirming runs judge what was found; they find nothing.
        if entry.stage != Stage::Confirm {
            best = best.into_iter().chain(score).reduce(f64::max);
        }
        TrialRecord {
            number,
            kind: kind.to_owned(),
            setting: entry.label.clone(),
            score,
            best,
            at_secs: Some(at_secs),
            ..TrialRecord::default()
        }
    };
    (1..).zip(entries).map(record).collect()
}
