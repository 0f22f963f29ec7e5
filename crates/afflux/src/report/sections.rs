//! What the page tells, section by section: words, plots, tables.

use afflux_core::indicator::{INDICATORS, Unit};
use afflux_core::rules::{Gap, Rule, RuleFile};
use maud::{Markup, html};

use super::figures::{Figure, Side, clients, course, forest, holds, path, plane};
use super::schema::{
    ComparisonRecord, ResultFile, RulesRecord, RunRecord, SearchRecord, TraceRecord,
};
use super::words::{count, interval, percent, quantity, replies as told_replies};
use super::worlds;
use crate::tables::measured::all_clients;
use crate::tables::number;

/// Comparisons that have figures of their own; of the others there are the tables.
const DETAILED: usize = 4;

/// A part of the page.
#[derive(Default)]
pub(super) struct Section {
    /// A heading above the section's own, where several settings are told one after the other.
    pub(super) part: Option<String>,
    /// Its heading.
    pub(super) title: String,
    /// What is to be seen, in a sentence or two.
    pub(super) lead: Markup,
    /// Its plots.
    pub(super) figures: Vec<Figure>,
    /// What stands below the plots.
    pub(super) after: Markup,
}

/// All sections, in the order of the page.
pub(super) fn sections(result: &ResultFile) -> Vec<Section> {
    let mut sections = Vec::new();
    let several = result.comparisons.len() > 1;
    for (index, comparison) in result.comparisons.iter().enumerate() {
        let first = sections.len();
        let shown = shown(result, index);
        sections.push(compared(index, comparison));
        if index < DETAILED
            && let Some((pair, runs)) = shown
        {
            let told = told_pair(result, comparison, pair);
            sections.extend(of_runs(result, &runs, &format!("{}-", index + 1), &told));
        }
        if several {
            let title = format!("{} against {}", comparison.setting, comparison.baseline);
            sections[first].part = Some(title);
        }
    }
    if let Some(run) = result.runs.iter().find(|run| run.place.is_none()) {
        sections.push(alone(run));
        sections.extend(of_runs(result, &[run], "", &html! {}));
    }
    sections.extend(worlds::sections(result));
    for (index, record) in result.rules.iter().enumerate() {
        sections.extend(rules(index, record));
    }
    if !result.survey.is_empty() {
        sections.push(survey(result));
    }
    sections.extend(result.search.as_ref().map(search));
    sections
}

/// The pair that stands for a comparison: its number, and its runs of baseline and setting.
fn shown(result: &ResultFile, comparison: usize) -> Option<(u32, [&RunRecord; 2])> {
    let pair = result.shown_pair(comparison)?;
    let run = |baseline: bool| {
        result.runs.iter().find(|run| {
            run.place.is_some_and(|place| {
                (place.comparison, place.pair, place.baseline) == (comparison, pair, baseline)
            })
        })
    };
    Some((pair, [run(true)?, run(false)?]))
}

fn told_pair(result: &ResultFile, comparison: &ComparisonRecord, pair: u32) -> Markup {
    let metric = comparison.metrics.first().map_or("", |compared| compared.metric.as_str());
    html! {
        " Shown is pair " (pair + 1) " of " (result.plan.pairs) ", whose change in " (metric)
        " is the median of all pairs."
    }
}

/// Sections on one run, or on a baseline's and a setting's side by side.
fn of_runs(result: &ResultFile, runs: &[&RunRecord], prefix: &str, told: &Markup) -> Vec<Section> {
    let side = |at: usize| if at == 0 { Side::Before } else { Side::After };
    let name = |what: &str, at: usize| match runs.len() {
        1 => format!("{prefix}{what}"),
        _ => format!("{prefix}{what}-{}", side(at).word()),
    };
    let mut sections = Vec::new();
    let scale = clients::Scale::of(runs);
    let figures = runs.iter().enumerate().map(|(at, run)| Figure {
        name: name("clients", at),
        title: run.setting.clone(),
        side: Some(side(at)),
        svg: clients::plot(run, side(at), scale),
    });
    sections.push(Section {
        title: "Throughput over time".to_owned(),
        lead: html! {
            "What the clients moved in each second, by the arrival of replies." (told)
        },
        figures: figures.collect(),
        ..Section::default()
    });
    let traces: Vec<_> = runs.iter().filter_map(|run| run.trace.as_ref()).collect();
    if traces.len() == runs.len() {
        let tops = path::scale(&traces);
        let figures = runs.iter().zip(&traces).enumerate().map(|(at, (run, trace))| Figure {
            name: name("path", at),
            title: format!("{}: client {}, {}", run.setting, trace.client, trace.path),
            side: Some(side(at)),
            svg: path::plot(trace, side(at), &tops, result.plan.length_secs),
        });
        sections.push(Section {
            title: "One path from reply to reply".to_owned(),
            lead: path_lead(&traces),
            figures: figures.collect(),
            ..Section::default()
        });
    }
    sections.extend(held(runs, &name, &side));
    sections
}

fn path_lead(traces: &[&TraceRecord]) -> Markup {
    let replies: u64 = traces.iter().map(|trace| trace.replies).sum();
    let points: u64 = traces.iter().map(|trace| trace.at_secs.len() as u64).sum();
    html! {
        "What the controller of client " (traces.first().map_or(0, |trace| trace.client))
        "'s busiest path saw and did. "
        @for indicator in &INDICATORS { b { (indicator.name) } " is the " (indicator.about) ". " }
        @if points == replies {
            "Drawn are all " (told_replies(replies)) "; a value stands until the next. "
        } @else {
            "Of " (told_replies(replies)) ", " (points) " are drawn, evenly spread. "
        }
        "Where they are dense, the line is the median, and the band reaches from the least to the "
        "greatest."
    }
}

fn held(
    runs: &[&RunRecord],
    name: &dyn Fn(&str, usize) -> String,
    side: &dyn Fn(usize) -> Side,
) -> Option<Section> {
    let reasons = holds::reasons(runs);
    if reasons.is_empty() {
        return None;
    }
    let top = holds::scale(runs);
    let figures = runs.iter().enumerate().map(|(at, run)| Figure {
        name: name("holds", at),
        title: run.setting.clone(),
        side: Some(side(at)),
        svg: holds::plot(run, &reasons, top),
    });
    let after = html! {
        div class="scroll" { table {
            thead { tr { th { "held by" } @for run in runs { th { (run.setting) } } } }
            tbody {
                @for (reason, _) in &reasons {
                    tr {
                        td { (reason) }
                        @for run in runs { td { (quantity(holds::total(run, reason), "s")) } }
                    }
                }
            }
        } }
    };
    Some(Section {
        title: "What held requests back".to_owned(),
        lead: html! {
            "How many paths of all clients had a request ready and were not allowed to send it, "
            "by the limit that said so. The table adds their times up."
        },
        figures: figures.collect(),
        after,
        ..Section::default()
    })
}

fn compared(index: usize, comparison: &ComparisonRecord) -> Section {
    let after = html! {
        div class="scroll" { table {
            thead { tr {
                th {} th { (comparison.baseline) } th { (comparison.setting) } th { "change" }
                th { "95 % interval" } th class="left" { "verdict" }
            } }
            tbody {
                @for compared in &comparison.metrics {
                    tr {
                        td { (compared.metric) }
                        td { (quantity(compared.baseline, &compared.unit)) }
                        td { (quantity(compared.setting, &compared.unit)) }
                        td { (percent(compared.change_percent.mean)) }
                        td { (interval(compared.change_percent)) }
                        td class={ "left " (forest::class_of(compared.verdict())) } {
                            (compared.verdict().words())
                        }
                    }
                }
            }
        } }
    };
    Section {
        title: "What changed".to_owned(),
        lead: html! {
            "Each mark is the mean change over the pairs, its line the 95 % interval. A filled "
            "circle is better, a diamond worse; an open circle cannot be told from no change."
        },
        figures: vec![Figure {
            name: format!("{}-changes", index + 1),
            title: format!("{} against {}", comparison.setting, comparison.baseline),
            side: None,
            svg: forest::plot(comparison),
        }],
        after,
        ..Section::default()
    }
}

/// The numbers of a run that is not compared with any.
fn alone(run: &RunRecord) -> Section {
    let after = html! {
        div class="scroll" { table {
            thead { tr { th { "all clients" } th { (run.setting) } } }
            tbody {
                @for (name, value, unit) in all_clients(&run.summary) {
                    tr { td { (name) } td { (quantity(value, unit)) } }
                }
            }
        } }
    };
    Section { title: "The run in numbers".to_owned(), after, ..Section::default() }
}

fn rules(index: usize, record: &RulesRecord) -> Vec<Section> {
    // A file of another version may say what this one cannot read; it is then shown as it is.
    let Ok(file) = RuleFile::parse(&record.text) else {
        let title = format!("The rules of {}", record.name);
        let after = html! { pre { (record.text) } };
        return vec![Section { title, after, ..Section::default() }];
    };
    let section = |(number, section): (usize, &afflux_core::rules::Section)| {
        let set = section.set();
        let hits: u64 = set.rules.iter().map(|rule| rule.hits.count).sum();
        Section {
            title: format!("The rules of {} for {}", record.name, section.classes),
            lead: html! {
                (count(set.rules.len() as u64, "rule")) ", "
                (told_replies(hits)) " in "
                (count(record.runs.into(), "run")) ". On a reply that falls into a rule's box the "
                "window becomes m × window + b, at most "
                (count(set.window_changes_per_s.into(), "time"))
                " a second; two sends keep the gap."
                @for name in plane::hidden(set) {
                    " Boxes that differ in " (name) " only lie on each other in the plot."
                }
            },
            figures: vec![Figure {
                name: format!("rules-{}-{}", index + 1, number + 1),
                title: "Boxes, shaded by hits; dots are the means of what was seen".to_owned(),
                side: None,
                svg: plane::plot(set),
            }],
            after: rule_table(&set.rules, hits),
            ..Section::default()
        }
    };
    file.sections.iter().enumerate().map(section).collect()
}

/// Rules with hits and means (ASCAR, table V).
fn rule_table(rules: &[Rule], all_hits: u64) -> Markup {
    let dash = || "–".to_owned();
    html! {
        div class="scroll" { table {
            thead { tr {
                th { "rule" }
                @for indicator in &INDICATORS { th { (indicator.name) } }
                th { "m" } th { "b" } th { "gap" } th { "times" } th { "share" }
                @for indicator in &INDICATORS { th { "avg. " (indicator.name) } }
            } }
            tbody {
                @for (index, rule) in rules.iter().enumerate() {
                    @let seen = rule.hits.count > 0;
                    @let share = rule.hits.count as f64 / all_hits.max(1) as f64 * 100.0;
                    tr {
                        td { (index + 1) }
                        @for axis in 0..INDICATORS.len() { td { (rule.region.side_text(axis)) } }
                        td { (rule.action.multiply.map_or_else(dash, |m| m.to_string())) }
                        td { (rule.action.add) }
                        td {
                            @if rule.action.gap == Gap::NONE { (dash()) }
                            @else { (rule.action.gap.to_string()) }
                        }
                        td { (rule.hits.count) }
                        td { @if seen { (format!("{share:.1} %")) } @else { (dash()) } }
                        @for axis in 0..INDICATORS.len() {
                            td {
                                @if seen { (mean_text(axis, rule.hits.means[axis])) }
                                @else { (dash()) }
                            }
                        }
                    }
                }
            }
        } }
    }
}

/// A mean as a table shows it; the CSV has it to the last digit.
fn mean_text(axis: usize, mean: u64) -> String {
    match INDICATORS[axis].unit {
        Unit::Nanos => quantity(mean as f64 / 1e6, "ms"),
        Unit::Milli => number(mean as f64 / 1e3),
    }
}

fn survey(result: &ResultFile) -> Section {
    let picked = |setting: &str| result.comparisons.iter().any(|one| one.setting == setting);
    let after = html! {
        div class="scroll" { table {
            thead { tr {
                th { "setting" } th { "MB/s" } th { "between clients" } th { "within clients" }
                th { "p99 of operations" } th { "score" }
            } }
            tbody {
                @for tried in &result.survey {
                    tr class=[picked(&tried.setting).then_some("picked")] {
                        td { (tried.setting) }
                        td { (number(tried.summary.total_mb_s)) }
                        td { (number(tried.summary.between_mb_s)) }
                        td { (number(tried.summary.within_mb_s)) }
                        td { (quantity(tried.summary.operation_p99_ms, "ms")) }
                        td { (number(tried.score)) }
                    }
                }
            }
        } }
    };
    Section {
        title: "What was tried".to_owned(),
        lead: html! {
            "One run each, so within noise of each other: this only proposes. The best of many "
            "noisy runs looks better than it is; what counts are the pairs of fresh runs above."
        },
        after,
        ..Section::default()
    }
}

fn search(search: &SearchRecord) -> Section {
    let failed = search.trials.iter().filter(|trial| trial.score.is_none()).count() as u64;
    let after = html! {
        dl {
            dt { "method" } dd { (search.method) }
            dt { "objective" } dd { code { (search.objective) } }
            @if !search.budget.is_empty() { dt { "budget" } dd { (search.budget) } }
            @if !search.ended.is_empty() { dt { "ended" } dd { (search.ended) } }
            dt { "trials" }
            dd {
                (search.trials.len())
                @if failed > 0 { ", of which " (count(failed, "run")) " failed" }
            }
            @if let Some(score) = search.baseline_score {
                dt { "baseline" } dd { (quantity(score, &search.score_unit)) }
            }
            @if let Some(fixed) = &search.best_fixed {
                dt { "best fixed setting" }
                dd { (fixed.setting) ": " (quantity(fixed.score, &search.score_unit)) }
            }
            @if let Some(best) = search.trials.iter().rev().find_map(|trial| trial.best) {
                dt { "best in the search" } dd { (quantity(best, &search.score_unit)) }
            }
            @if let Some(found) = &search.found { dt { "found" } dd { (found) } }
        }
    };
    Section {
        title: "Course of the search".to_owned(),
        lead: html! {
            "Every trial and the best so far. A trial's score is one noisy run, and the best of "
            "many looks better than it is; what counts is how the found setting did in fresh runs, "
            "and whether it beats the best fixed window and gap."
        },
        figures: vec![Figure {
            name: "search".to_owned(),
            title: format!("{}, objective {}", search.method, search.objective),
            side: None,
            svg: course::plot(search),
        }],
        after,
        ..Section::default()
    }
}
