//! The course of a simulated run: throughput, queues, process time and windows over time.

use maud::{Markup, html};

use super::{COLOURS, Figure, greatest};
use crate::report::svg::{Axis, Frame, drawing, legend, round};
use crate::worlds::record::SeriesRecord;

/// A line of a plot: its class in the style, its name, its values.
struct Line<'a> {
    class: &'static str,
    name: String,
    values: Vec<f64>,
    /// Whether the ground below it is shaded.
    shaded: bool,
    about: &'a str,
}

impl<'a> Line<'a> {
    fn new(class: &'static str, name: &str, values: Vec<f64>, about: &'a str) -> Self {
        Self { class, name: name.to_owned(), values, shaded: false, about }
    }

    fn shaded(self) -> Self {
        Self { shaded: true, ..self }
    }
}

/// All plots of a course.
pub(in crate::report) fn plots(series: &SeriesRecord) -> Vec<Figure> {
    let figure = |name: &str, title: &str, unit: &str, lines: &[Line<'_>]| Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        side: None,
        svg: plot(series, title, unit, lines),
    };
    let whole = |values: &[u64]| values.iter().map(|&value| value as f64).collect::<Vec<_>>();
    vec![
        figure("throughput", "Throughput", "MB/s", &throughput(series)),
        figure(
            "queues",
            "Requests at a server",
            "requests",
            &[
                Line::new("s1", "the fullest", whole(&series.queued_most), "the fullest server"),
                Line::new("s0", "mean", series.queued.clone(), "mean of all servers").shaded(),
            ],
        ),
        figure(
            "process-time",
            "Process time",
            "ms",
            &[
                Line::new(
                    "s1",
                    "longest",
                    series.process_most_ms.clone(),
                    "the longest in each step",
                ),
                Line::new("s0", "mean", series.process_ms.clone(), "the mean of each step")
                    .shaded(),
            ],
        ),
        figure(
            "windows",
            "Windows",
            "requests",
            &[Line::new("s0", "mean window of a path", series.window.clone(), "mean of all paths")],
        ),
        figure(
            "in-flight",
            "Requests in flight",
            "requests",
            &[Line::new("s2", "all paths", whole(&series.in_flight), "all paths together")
                .shaded()],
        ),
    ]
}

/// One application has a line for what it reads and one for what it writes; of several, each has
/// one line.
fn throughput(series: &SeriesRecord) -> Vec<Line<'_>> {
    match series.throughput.as_slice() {
        [one] => {
            let ways = [("s0", "read", &one.read_mb_s), ("s1", "written", &one.write_mb_s)];
            let some = ways.into_iter().filter(|(_, _, mb_s)| mb_s.iter().any(|mb| *mb > 0.0));
            some.map(|(class, name, mb_s)| Line::new(class, name, mb_s.clone(), name).shaded())
                .collect()
        }
        several => {
            let of = |(at, one): (usize, &'_ crate::worlds::record::ThroughputRecord)| {
                let both = one.read_mb_s.iter().zip(&one.write_mb_s);
                let sums = both.map(|(read, write)| read + write).collect();
                Line::new(COLOURS[at % COLOURS.len()], &one.application, sums, "its application")
            };
            several.iter().enumerate().map(of).collect()
        }
    }
}

fn plot(series: &SeriesRecord, title: &str, unit: &str, lines: &[Line<'_>]) -> Markup {
    let steps = lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
    let top = greatest(lines.iter().flat_map(|line| line.values.iter().copied()));
    let end = steps as f64 * series.step_secs;
    let frame =
        Frame { top: 28.0, height: 150.0, x: Axis::exact(0.0, end), y: Axis::linear(0.0, top) };
    let place = |step: usize| (step as f64 + 0.5) * series.step_secs;
    let keys: Vec<_> = lines.iter().map(|line| (line.class, line.name.clone())).collect();
    let inside = html! {
        (settling(&frame, series.settle_secs))
        (frame.vertical(unit))
        @for line in lines {
            @let points = line.values.iter().enumerate().map(|(step, &value)| (place(step), value));
            @if line.shaded {
                @let area: Vec<_> =
                    points.clone().map(|(second, value)| (second, 0.0, value)).collect();
                path class={ "area " (line.class) } d=(frame.band(&area)) {}
            }
            path class={ "line " (line.class) } d=(frame.line(points)) {
                title { (line.name) ": " (line.about) }
            }
        }
        (legend(15.0, &keys))
        (frame.horizontal("seconds"))
    };
    drawing(222.0, &format!("{title} over time, in {unit}"), &inside)
}

/// A line where counting begins.
fn settling(frame: &Frame, settle_secs: f64) -> Markup {
    if settle_secs <= 0.0 || !frame.x.holds(settle_secs) {
        return Markup::default();
    }
    let x = round(frame.x(settle_secs));
    html! {
        line class="epoch" x1=(x) x2=(x) y1=(frame.top) y2=(round(frame.bottom())) {
            title { "counted from here" }
        }
        text class="tick" x=(round(x + 5.0)) y=(round(frame.top + 10.0)) { "counted from here" }
    }
}
