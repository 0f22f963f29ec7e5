//! One path over time: indicators, window, gap, requests in flight, throughput (ASCAR, figure 3).

use afflux_core::summary::median;
use maud::{Markup, html};

use super::{Side, greatest};
use crate::report::schema::TraceRecord;
use crate::report::svg::{Axis, Frame, drawing, legend, short};

/// With more points than this, a line is drawn through the medians of stretches of time, and a band
/// from the least to the greatest in each.
const POINTS: usize = 360;

/// Stretches of time, then.
const STRETCHES: usize = 180;

/// Height of a row, and of the room above it.
const ROW: f64 = 72.0;
const ABOVE: f64 = 38.0;

/// A curve: its name, its unit, its points, and whether it changes seldom however many there are.
struct Curve {
    name: String,
    unit: String,
    points: Vec<(f64, f64)>,
    holds: bool,
}

/// The curves of a trace, row by row.
fn curves(trace: &TraceRecord) -> Vec<Vec<Curve>> {
    let with_time = |values: Vec<f64>| trace.at_secs.iter().copied().zip(values).collect();
    let curve = |name: &str, unit: &str, values: Vec<f64>, holds: bool| Curve {
        name: name.to_owned(),
        unit: unit.to_owned(),
        points: with_time(values),
        holds,
    };
    let mut rows: Vec<Vec<Curve>> = Vec::new();
    for indicator in &trace.indicators {
        let values = indicator.values.clone();
        rows.push(vec![curve(&indicator.name, &indicator.unit, values, false)]);
    }
    let in_flight = trace.in_flight.iter().map(|&count| f64::from(count)).collect();
    rows.push(vec![
        curve("in flight", "", in_flight, false),
        curve("window", "", trace.window.clone(), true),
    ]);
    rows.push(vec![curve("gap", "ms", trace.gap_ms.clone(), true)]);
    let rate = |bytes: &u64| *bytes as f64 / 1e6 / trace.slot_secs.max(1e-9);
    let slots = trace.slot_bytes.iter().enumerate();
    let points = slots.map(|(slot, bytes)| (slot as f64 * trace.slot_secs, rate(bytes))).collect();
    let (name, unit) = ("throughput".to_owned(), "MB/s".to_owned());
    rows.push(vec![Curve { name, unit, points, holds: true }]);
    rows
}

/// The greatest value of each row, over all of `traces`, so that plots can be compared.
pub(in crate::report) fn scale(traces: &[&TraceRecord]) -> Vec<f64> {
    let mut tops: Vec<f64> = Vec::new();
    for rows in traces.iter().map(|trace| curves(trace)) {
        tops.resize(tops.len().max(rows.len()), 0.0);
        for (top, row) in tops.iter_mut().zip(&rows) {
            let values = row.iter().flat_map(|curve| &curve.points).map(|point| point.1);
            *top = top.max(greatest(values));
        }
    }
    tops
}

/// The plot of one trace, over `length_secs` of time.
pub(in crate::report) fn plot(
    trace: &TraceRecord,
    side: Side,
    tops: &[f64],
    length_secs: f64,
) -> Markup {
    let rows = curves(trace);
    let x = Axis::exact(0.0, length_secs);
    let frames: Vec<Frame> = (0..rows.len())
        .map(|row| Frame {
            top: ABOVE + row as f64 * (ROW + ABOVE),
            height: ROW,
            x,
            y: Axis::linear_in(3.0, 0.0, tops.get(row).copied().unwrap_or(1.0)),
        })
        .collect();
    let about =
        format!("Client {}, {}, over time: {} replies", trace.client, trace.path, trace.replies);
    let inside = html! {
        @for (row, frame) in rows.iter().zip(&frames) {
            (frame.uprights())
            (frame.vertical(&title(row)))
            @for (number, curve) in row.iter().enumerate() {
                (line(frame, curve, class_of(number, row.len(), side), length_secs))
            }
            @if row.len() > 1 {
                (legend(frame.top - 13.0, &[("s4", row[0].name.clone()),
                    (side.word(), row[1].name.clone())]))
            }
        }
        @if let Some(last) = frames.last() { (last.horizontal("seconds")) }
    };
    let height = frames.last().map_or(0.0, Frame::bottom) + 42.0;
    drawing(height, &about, &inside)
}

/// Of two curves in a row, the first is the background of the second.
fn class_of(number: usize, curves: usize, side: Side) -> &'static str {
    if number + 1 == curves { side.word() } else { "s4" }
}

fn title(row: &[Curve]) -> String {
    let Some(last) = row.last() else { return String::new() };
    match last.unit.as_str() {
        "" if row.len() > 1 => format!("{} and requests in flight", last.name),
        "" => last.name.clone(),
        unit => format!("{}, {unit}", last.name),
    }
}

fn line(frame: &Frame, curve: &Curve, class: &str, length_secs: f64) -> Markup {
    let values: Vec<f64> = curve.points.iter().map(|point| point.1).collect();
    let said = format!("{}: median {}", curve.name, short(median(values)));
    // What a reply brought stands until the next; a slope would tell of what nobody saw.
    if curve.holds || curve.points.len() <= POINTS {
        return html! {
            path class={ "line " (class) } d=(frame.steps(&curve.points, length_secs)) {
                title { (said) }
            }
        };
    }
    let stretches = stretches(&curve.points, length_secs);
    let band: Vec<(f64, f64, f64)> = stretches.iter().map(|s| (s[0], s[1], s[3])).collect();
    html! {
        path class={ "band " (class) } d=(frame.band(&band)) {}
        path class={ "line " (class) } d=(frame.line(stretches.iter().map(|s| (s[0], s[2])))) {
            title { (said) }
        }
    }
}

/// Time, least, median and greatest of each stretch of time in which there are points.
fn stretches(points: &[(f64, f64)], length_secs: f64) -> Vec<[f64; 4]> {
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); STRETCHES];
    for (at, value) in points {
        let stretch = (at / length_secs.max(1e-9) * STRETCHES as f64) as usize;
        values[stretch.min(STRETCHES - 1)].push(*value);
    }
    let middle = |stretch: usize| (stretch as f64 + 0.5) / STRETCHES as f64 * length_secs;
    let filled = values.into_iter().enumerate().filter(|(_, values)| !values.is_empty());
    filled
        .map(|(stretch, values)| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = greatest(values.iter().copied());
            [middle(stretch), least, median(values), most]
        })
        .collect()
}
