//! Throughput over time: all clients together, and each of them (ASCAR, figure 1).

use afflux_core::summary::{deviation, mean};
use maud::{Markup, html};

use super::{COLOURS, Side, greatest};
use crate::report::schema::RunRecord;
use crate::report::svg::{Axis, Frame, drawing, legend, short};

/// Ends of the vertical axes, shared by the plots that are to be compared. In MB/s.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Scale {
    total: f64,
    client: f64,
}

impl Scale {
    /// Room for all of `runs`.
    pub(in crate::report) fn of(runs: &[&RunRecord]) -> Self {
        let total = greatest(runs.iter().flat_map(|run| totals(&rows(run))));
        let client = greatest(runs.iter().flat_map(|run| rows(run)).flatten());
        Self { total, client }
    }
}

/// MB/s of each client in each second.
fn rows(run: &RunRecord) -> Vec<Vec<f64>> {
    let row = |bytes: Vec<u64>| bytes.iter().map(|&bytes| bytes as f64 / 1e6).collect();
    run.clients.iter().map(|client| row(client.bytes())).collect()
}

fn totals(rows: &[Vec<f64>]) -> Vec<f64> {
    let seconds = rows.iter().map(Vec::len).max().unwrap_or(0);
    let at = |second: usize| rows.iter().filter_map(|row| row.get(second)).sum();
    (0..seconds).map(at).collect()
}

/// Values by second as points in the middle of their seconds, from edge to edge.
fn points(values: &[f64]) -> Vec<(f64, f64)> {
    values.iter().enumerate().map(|(second, &value)| (second as f64 + 0.5, value)).collect()
}

/// The plot of one run.
pub(in crate::report) fn plot(run: &RunRecord, side: Side, scale: Scale) -> Markup {
    let rows = rows(run);
    let totals = totals(&rows);
    let x = Axis::exact(0.0, totals.len() as f64);
    let top = Frame { top: 28.0, height: 110.0, x, y: Axis::linear_in(3.0, 0.0, scale.total) };
    let low = Frame { top: 186.0, height: 170.0, x, y: Axis::linear(0.0, scale.client) };
    let average = mean(&totals);
    let count = rows.len();
    let about = format!(
        "Throughput by second under {}: {} clients, together {} MB/s on average",
        run.setting,
        count,
        short(average)
    );
    let area: Vec<(f64, f64, f64)> =
        points(&totals).into_iter().map(|(second, total)| (second, 0.0, total)).collect();
    let keys = if count > LINES {
        let band = "four fifths, least and most".to_owned();
        vec![("thin s0", band), ("mean", "mean".to_owned())]
    } else if count > COLOURS.len() {
        vec![("thin s0", "each client".to_owned()), ("mean", "their mean".to_owned())]
    } else {
        let key = |client: usize| (COLOURS[client], client.to_string());
        (0..count).map(key).chain([("mean", "mean".to_owned())]).collect()
    };
    let inside = html! {
        (top.vertical("all clients together, MB/s"))
        path class={ "area " (side.word()) } d=(top.band(&area)) {}
        path class={ "line " (side.word()) } d=(top.line(points(&totals))) {}
        path class="mean" d=(top.line([(0.0, average), (totals.len() as f64, average)])) {}
        (legend(15.0, &[("mean", format!("mean {}", short(average)))]))
        (low.vertical("each client, MB/s"))
        (lines(&low, &rows))
        (legend(173.0, &keys))
        (low.horizontal("seconds"))
    };
    drawing(400.0, &about, &inside)
}

/// Clients that have a line each; of more, the band holds the middle four fifths.
const LINES: usize = 128;

/// The least, a tenth, nine tenths and the most of all clients in each second.
fn spreads(rows: &[Vec<f64>]) -> Vec<[f64; 4]> {
    let seconds = rows.iter().map(Vec::len).max().unwrap_or(0);
    let spread = |second: usize| {
        let mut all: Vec<f64> = rows.iter().filter_map(|row| row.get(second).copied()).collect();
        all.sort_by(f64::total_cmp);
        let at = |part: f64| all[((all.len() - 1) as f64 * part).round() as usize];
        [0.0, 0.1, 0.9, 1.0].map(at)
    };
    (0..seconds).map(spread).collect()
}

/// What many clients moved: a band, and the edges of what anybody moved.
fn bands(frame: &Frame, rows: &[Vec<f64>]) -> Markup {
    let spreads = spreads(rows);
    let edge = |which: usize| points(&spreads.iter().map(|s| s[which]).collect::<Vec<_>>());
    let band: Vec<_> = edge(1).into_iter().zip(edge(2)).map(|(l, h)| (l.0, l.1, h.1)).collect();
    html! {
        path class="band s0" d=(frame.band(&band)) { title { "four fifths of the clients" } }
        path class="line thin s0" d=(frame.line(edge(0))) { title { "the least" } }
        path class="line thin s0" d=(frame.line(edge(3))) { title { "the most" } }
    }
}

fn lines(frame: &Frame, rows: &[Vec<f64>]) -> Markup {
    let many = rows.len() > COLOURS.len();
    let means: Vec<f64> =
        totals(rows).iter().map(|total| total / rows.len().max(1) as f64).collect();
    html! {
        @if rows.len() > LINES { (bands(frame, rows)) }
        @for (client, row) in rows.iter().enumerate().filter(|_| rows.len() <= LINES) {
            @let class = if many { "thin s0" } else { COLOURS[client % COLOURS.len()] };
            path class={ "line " (class) } d=(frame.line(points(row))) {
                title {
                    "client " (client) ": " (short(mean(row))) " MB/s on average, deviation "
                    (short(deviation(row)))
                }
            }
        }
        path class="mean" d=(frame.line(points(&means))) {}
    }
}
