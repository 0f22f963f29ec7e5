//! What held requests back, second by second.

use maud::{Markup, html};

use super::greatest;
use crate::report::schema::RunRecord;
use crate::report::svg::{Axis, Frame, drawing, legend, round, short};

/// Bars at most; a longer run has a bar for several seconds.
const BARS: usize = 120;

/// Reasons of some runs, in the order of their names, each with a class of the style. Those that no
/// run had are left out, and a reason has the same colour in all plots.
pub(in crate::report) fn reasons(runs: &[&RunRecord]) -> Vec<(String, &'static str)> {
    let mut names: Vec<String> =
        runs.iter().flat_map(|run| run.held_secs.keys().cloned()).collect();
    names.sort();
    names.dedup();
    let colour = |name: &str| match name {
        "window" => "s0",
        "gap" => "s1",
        "credits" => "s2",
        "cap" => "s3",
        "fan-in" => "s4",
        "turn" => "s5",
        _ => "s6",
    };
    names.into_iter().map(|name| (name.clone(), colour(&name))).collect()
}

/// Seconds held for a reason in a run, over its counted time.
pub(in crate::report) fn total(run: &RunRecord, reason: &str) -> f64 {
    run.held_secs.get(reason).map_or(0.0, |held| held.iter().sum())
}

/// Held seconds in each second, bar by bar: one entry for each reason.
fn bars(run: &RunRecord, reasons: &[(String, &'static str)]) -> (f64, Vec<Vec<f64>>) {
    let seconds = run.held_secs.values().map(Vec::len).max().unwrap_or(0);
    let each = seconds.div_ceil(BARS).max(1);
    let of = |reason: &str, bar: usize| {
        let held = run.held_secs.get(reason).map_or(&[][..], Vec::as_slice);
        let part = held.iter().skip(bar * each).take(each);
        let count = part.len().max(1);
        part.sum::<f64>() / count as f64
    };
    let bar = |bar: usize| reasons.iter().map(|(reason, _)| of(reason, bar)).collect();
    (each as f64, (0..seconds.div_ceil(each)).map(bar).collect())
}

/// The greatest sum of a bar, over all of `runs`.
pub(in crate::report) fn scale(runs: &[&RunRecord]) -> f64 {
    let reasons = reasons(runs);
    let sums = runs.iter().flat_map(|run| bars(run, &reasons).1);
    greatest(sums.map(|parts| parts.iter().sum()))
}

/// The plot of one run.
pub(in crate::report) fn plot(
    run: &RunRecord,
    reasons: &[(String, &'static str)],
    top: f64,
) -> Markup {
    let (each, bars) = bars(run, reasons);
    let x = Axis::exact(0.0, bars.len() as f64 * each);
    let frame = Frame { top: 28.0, height: 150.0, x, y: Axis::linear(0.0, top) };
    let keys: Vec<(&str, String)> =
        reasons.iter().map(|(reason, class)| (*class, reason.clone())).collect();
    let inside = html! {
        (frame.vertical("paths held at a time"))
        @for (bar, parts) in bars.iter().enumerate() {
            @for (number, part) in parts.iter().enumerate().filter(|(_, part)| **part > 0.0) {
                @let below: f64 = parts[..number].iter().sum();
                @let (upper, lower) = (round(frame.y(below + part)), round(frame.y(below)));
                @let left = frame.x(bar as f64 * each) + 0.5;
                @let width = (frame.x((bar + 1) as f64 * each) - left - 0.5).max(0.5);
                rect class={ "bar " (reasons[number].1) } x=(round(left)) y=(upper)
                    width=(round(width)) height=(round(lower - upper)) {
                    title { (reasons[number].0) ": " (short(*part)) }
                }
            }
        }
        (legend(15.0, &keys))
        (frame.horizontal("seconds"))
    };
    let about = format!("Paths held back under {}, by reason and second", run.setting);
    drawing(222.0, &about, &inside)
}
