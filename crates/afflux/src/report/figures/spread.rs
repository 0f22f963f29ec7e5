//! Distributions: process times, and what clients got.

use maud::{Markup, html};

use super::{COLOURS, greatest};
use crate::report::svg::{Axis, Frame, drawing, legend, round, short};
use crate::worlds::record::TimesRecord;

/// Which part of all replies took at most how long.
pub(in crate::report) fn process_times(all: &[TimesRecord]) -> Markup {
    let longest = greatest(all.iter().flat_map(|times| times.ms.iter().copied()));
    let some = all.iter().flat_map(|times| &times.ms).filter(|ms| **ms > 0.0);
    let shortest = some.copied().fold(longest, f64::min);
    let frame = frame(Axis::log(shortest * 0.9, longest * 1.1));
    let keys: Vec<_> =
        all.iter().enumerate().map(|(at, times)| (COLOURS[at], times.class.clone())).collect();
    let inside = html! {
        (frame.uprights())
        (frame.vertical("% of the replies took at most ..."))
        @for (at, times) in all.iter().enumerate() {
            @let points: Vec<_> =
                times.ms.iter().zip(&times.parts).map(|(ms, part)| (*ms, part * 100.0)).collect();
            path class={ "line " (COLOURS[at % COLOURS.len()]) }
                d=(frame.steps(&points, longest)) { title { (times.class) } }
        }
        (legend(15.0, &keys))
        (frame.horizontal("ms"))
    };
    drawing(262.0, "Distribution of process times", &inside)
}

/// Which part of all clients got at most how much.
pub(in crate::report) fn clients(mb_s: &[f64]) -> Markup {
    let mut sorted = mb_s.to_vec();
    sorted.sort_by(f64::total_cmp);
    let most = greatest(sorted.iter().copied());
    let frame = frame(Axis::linear(0.0, most));
    let count = sorted.len().max(1) as f64;
    let part = |at: usize| (at + 1) as f64 / count * 100.0;
    let points: Vec<_> = sorted.iter().enumerate().map(|(at, &mb_s)| (mb_s, part(at))).collect();
    let start = points.first().map(|(least, _)| (*least, 0.0));
    let mean = round(frame.x(afflux_core::summary::mean(&sorted)));
    let inside = html! {
        (frame.uprights())
        (frame.vertical("% of the clients got at most ..."))
        path class="line s0" d=(frame.steps(&start.into_iter().chain(points).collect::<Vec<_>>(),
            most)) {}
        line class="mean" x1=(mean) x2=(mean) y1=(round(frame.top)) y2=(round(frame.bottom())) {
            title { "mean: " (short(afflux_core::summary::mean(&sorted))) " MB/s" }
        }
        (legend(15.0, &[("mean", "fair share".to_owned())]))
        (frame.horizontal("MB/s"))
    };
    drawing(262.0, "Distribution of throughput over clients", &inside)
}

fn frame(x: Axis) -> Frame {
    Frame { top: 28.0, height: 190.0, x, y: Axis::exact(0.0, 100.0) }
}
