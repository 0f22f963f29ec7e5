//! The result of a search, for its page.

use afflux_core::workload::Workload;

use crate::experiment::Ended;
use crate::failure::Failure;
use crate::report::ResultFile;
use crate::report::schema::{FixedRecord, SearchRecord, TrialRecord};
use crate::search::Found;
use crate::search::budget::Budget;
use crate::search::journal::{Entry, Head, Stage};
use crate::search::standing::Standings;
use crate::search::trying::score_of;

/// What the page shows of a search.
pub(crate) fn of(
    head: &Head,
    target: &str,
    workload: &Workload,
    budget: Budget,
    found: &Found,
) -> Result<ResultFile, Failure> {
    let mut result = ResultFile::begin(target, workload, &head.workload_text, &head.plan());
    // Runs belong to the first comparison, what was found against the baseline. A resumed search
    // has not all of them, and a page with some would mislead.
    let shown: Vec<_> = found.fresh.iter().filter(|fresh| fresh.which != 2).collect();
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
    let (trials, baseline_score) = trials(&found.entries);
    result.search = Some(SearchRecord {
        method: head.method.clone(),
        objective: head.objective.clone(),
        budget: budget.to_string(),
        ended: found.ended.clone(),
        trials,
        baseline_score,
        best_fixed: Some(FixedRecord {
            setting: found.fixed.candidate.label(),
            score: found.fixed.score,
        }),
        found: Some(label),
        score_unit: String::new(),
    });
    Ok(result)
}

/// The trials, scored as the search judged them, and the score of the baseline that scores of pairs
/// refer to.
fn trials(entries: &[Entry]) -> (Vec<TrialRecord>, Option<f64>) {
    let mut standings = Standings::default();
    let mut records: Vec<TrialRecord> = Vec::new();
    let (mut at_secs, mut best): (f64, Option<f64>) = (0.0, None);
    for (number, entry) in (1..).zip(entries) {
        at_secs += entry.secs;
        let is_baseline = entry.pair.is_some_and(|pair| pair.is_baseline);
        let kind = match (entry.stage, is_baseline) {
            (Stage::Confirm, _) => "confirm",
            (_, true) => "baseline",
            (Stage::Grid, _) => "grid",
            (Stage::Search, _) => "candidate",
        };
        // Confirming runs judge what was found; they find nothing.
        let judged = match entry.stage {
            Stage::Confirm => None,
            _ => standings.take(entry),
        };
        best = best.into_iter().chain(judged).reduce(f64::max);
        let again = entry.again.clone();
        records.push(TrialRecord {
            number,
            kind: kind.to_owned(),
            epoch: entry.round.map(|(epoch, _)| epoch),
            round: entry.round.map(|(_, round)| round),
            setting: entry.label.clone(),
            score: score_of(&entry.told),
            best,
            at_secs: Some(at_secs),
            doubt: again.as_ref().map(|again| again.why.clone()),
            made: again.map(|again| again.scores).unwrap_or_default(),
        });
        // The second trial of a pair says what its candidate is worth, whichever of them it is.
        if let (Some(pair), Some(judged)) = (entry.pair, judged) {
            let candidate = if pair.is_baseline { records.len() - 2 } else { records.len() - 1 };
            records[candidate].score = Some(judged);
        }
    }
    (records, standings.reference)
}
