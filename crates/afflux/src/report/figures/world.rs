//! The course of a simulated run: throughput, queues, process time and windows over time.

use maud::{Markup, html};

use super::{COLOURS, Figure, greatest};
use crate::report::svg::{Axis, Frame, drawing, legend, round};
use crate::worlds::record::{SeriesRecord, ThroughputRecord};

/// A line of a plot: its class in the style, its name, its values.
struct Line {
    class: &'static str,
    name: String,
    values: Vec<f64>,
    /// Whether the ground below it is shaded.
    shaded: bool,
}

impl Line {
    fn new(class: &'static str, name: &str, values: &[f64]) -> Self {
        Self { class, name: name.to_owned(), values: values.to_vec(), shaded: false }
    }

    fn shaded(self) -> Self {
        Self { shaded: true, ..self }
    }
}

/// All plots of a course.
pub(in crate::report) fn plots(series: &SeriesRecord) -> Vec<Figure> {
    let figure = |name: &str, title: &str, unit: &str, lines: &[Line]| Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        side: None,
        svg: plot(series, title, unit, lines),
    };
    let most: Vec<f64> = series.queued_most.iter().map(|&queued| queued as f64).collect();
    let servers = f64::from(series.servers.max(1));
    let sent: Vec<f64> = series.in_flight.iter().map(|&sent| sent as f64 / servers).collect();
    let queues = [
        Line::new("s1", "in the fullest", &most),
        Line::new("s2", "on their way or in", &sent),
        Line::new("s0", "in", &series.queued).shaded(),
    ];
    let times = [
        Line::new("s1", "longest", &series.process_most_ms),
        Line::new("s0", "mean", &series.process_ms).shaded(),
    ];
    let windows = [Line::new("s0", "mean of all paths", &series.window)];
    let mut figures = vec![
        figure("throughput", "Throughput", "MB/s", &throughput(series)),
        figure("queues", "Requests at a server", "requests", &queues),
        figure("process-time", "Process time", "ms", &times),
        figure("windows", "Windows", "requests", &windows),
    ];
    if !series.credits.is_empty() {
        let active = [Line::new("s0", "of a server", &series.active)];
        let iops = [Line::new("s0", "of a server", &series.iops)];
        let credits = [Line::new("s0", "of a client", &series.credits)];
        figures.push(figure("active", "Active clients (C)", "clients", &active));
        figures.push(figure("iops", "Requests done (IOPS)", "a second", &iops));
        figures.push(figure("credits", "Credits (RCC)", "requests", &credits));
    }
    figures
}

/// One application has a line for what it reads and one for what it writes; of several, each has
/// one line.
fn throughput(series: &SeriesRecord) -> Vec<Line> {
    if let [one] = series.throughput.as_slice() {
        let ways = [("s0", "read", &one.read_mb_s), ("s1", "written", &one.write_mb_s)];
        let some = ways.into_iter().filter(|(_, _, mb_s)| mb_s.iter().any(|mb| *mb > 0.0));
        return some.map(|(class, name, mb_s)| Line::new(class, name, mb_s).shaded()).collect();
    }
    let of = |(at, one): (usize, &ThroughputRecord)| {
        let both = one.read_mb_s.iter().zip(&one.write_mb_s);
        let sums: Vec<f64> = both.map(|(read, write)| read + write).collect();
        Line::new(COLOURS[at % COLOURS.len()], &one.application, &sums)
    };
    series.throughput.iter().enumerate().map(of).collect()
}

fn plot(series: &SeriesRecord, title: &str, unit: &str, lines: &[Line]) -> Markup {
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
                title { (line.name) }
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
