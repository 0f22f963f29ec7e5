//! The course of a search: every trial, and the best so far (ASCAR, figure 5).

use maud::{Markup, html};

use super::COLOURS;
use crate::report::schema::{SearchRecord, TrialRecord};
use crate::report::svg::{Axis, Frame, LEFT, drawing, legend, round, short};

/// The kinds of trials in the order in which they first come, each with a class of the style; the
/// eighth and later kinds share the last.
fn kinds(trials: &[TrialRecord]) -> Vec<(String, &'static str)> {
    let mut kinds: Vec<(String, &'static str)> = Vec::new();
    for trial in trials {
        if !kinds.iter().any(|(kind, _)| *kind == trial.kind) {
            let class = COLOURS[kinds.len().min(COLOURS.len() - 1)];
            kinds.push((trial.kind.clone(), class));
        }
    }
    kinds
}

/// Where a trial lies on the time axis: minutes when all trials have a time, else its number.
fn place(trial: &TrialRecord, timed: bool) -> f64 {
    if timed { trial.at_secs.unwrap_or(0.0) / 60.0 } else { trial.number as f64 }
}

/// The first trial of each epoch after the first.
fn epochs(trials: &[TrialRecord]) -> Vec<&TrialRecord> {
    let starts = trials.windows(2).filter(|pair| {
        pair[1].epoch.is_some() && pair[0].epoch.is_some() && pair[0].epoch != pair[1].epoch
    });
    starts.map(|pair| &pair[1]).collect()
}

/// The plot of a search.
pub(in crate::report) fn plot(search: &SearchRecord) -> Markup {
    let trials = &search.trials;
    let timed = trials.iter().all(|trial| trial.at_secs.is_some());
    let lines = [search.baseline_score, search.best_fixed.as_ref().map(|fixed| fixed.score)];
    let scores = trials.iter().filter_map(|trial| trial.score).chain(lines.into_iter().flatten());
    let scores: Vec<f64> = scores.filter(|score| score.is_finite()).collect();
    let low = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
    let start = if timed { 0.0 } else { trials.first().map_or(0.0, |trial| trial.number as f64) };
    let end = trials.last().map_or(1.0, |trial| place(trial, timed));
    let x = Axis::exact(start, end);
    let frame = Frame { top: 52.0, height: 230.0, x, y: Axis::linear(low, high) };
    let best: Vec<(f64, f64)> =
        trials.iter().filter_map(|trial| Some((place(trial, timed), trial.best?))).collect();
    let unit = if search.score_unit.is_empty() { "" } else { ", " };
    let kinds = kinds(trials);
    let inside = html! {
        (frame.vertical(&format!("score{unit}{}", search.score_unit)))
        @for trial in epochs(trials) {
            @let at = round(frame.x(place(trial, timed)));
            line class="epoch" x1=(at) x2=(at) y1=(frame.top) y2=(frame.bottom()) {
                title { "epoch " (trial.epoch.unwrap_or(0)) " begins" }
            }
        }
        @for (kind, class) in &kinds {
            g class=(class) {
                @for trial in trials.iter().filter(|trial| trial.kind == *kind) {
                    (dot(&frame, trial, timed))
                }
            }
        }
        path class="line best" d=(frame.steps(&best, end)) { title { "best so far" } }
        (level(&frame, search.baseline_score, "baseline", "before"))
        (level(&frame, lines[1], "best fixed setting", "s7"))
        (keys(&kinds, search))
        (frame.horizontal(if timed { "minutes" } else { "trial" }))
    };
    let about = format!("Course of the search by {}: {} trials", search.method, trials.len());
    drawing(326.0, &about, &inside)
}

fn dot(frame: &Frame, trial: &TrialRecord, timed: bool) -> Markup {
    let x = round(frame.x(place(trial, timed)));
    let said =
        |end: String| format!("trial {} ({}) {}: {end}", trial.number, trial.kind, trial.setting);
    match trial.score {
        Some(score) => html! {
            circle class="dot" cx=(x) cy=(round(frame.y(score))) r="2.2" {
                title { (said(short(score))) }
            }
        },
        // A trial that failed has no score; a cross at the foot tells that it was made.
        None => html! {
            path class="cross" d=(format!("M{} {}l5 5m0 -5l-5 5", x - 2.5, frame.bottom() - 8.0)) {
                title { (said("failed".to_owned())) }
            }
        },
    }
}

fn level(frame: &Frame, score: Option<f64>, name: &str, class: &str) -> Markup {
    let Some(score) = score else { return Markup::default() };
    let y = round(frame.y(score));
    html! {
        line class={ "level " (class) } x1=(LEFT) x2=(round(frame.right())) y1=(y) y2=(y) {
            title { (name) ": " (short(score)) }
        }
    }
}

fn keys(kinds: &[(String, &'static str)], search: &SearchRecord) -> Markup {
    let mut lines = vec![("line best", "best so far".to_owned())];
    if search.best_fixed.is_some() {
        lines.push(("level s7", "best fixed setting".to_owned()));
    }
    if search.baseline_score.is_some() {
        lines.push(("level before", "baseline".to_owned()));
    }
    let dots: Vec<(&str, String)> =
        kinds.iter().take(COLOURS.len()).map(|(kind, class)| (*class, kind.clone())).collect();
    html! { (legend(14.0, &lines)) (legend(32.0, &dots)) }
}
