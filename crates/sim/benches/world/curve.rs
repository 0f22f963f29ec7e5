//! Worlds from a hundred clients to a million: what a request costs, and what a client takes.
//!
//! Each run is a process of its own, so that its memory is told from that of others, and each point
//! is the cheapest of some runs: whatever else the machine does only makes them dearer.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::many;

/// Clients, servers, counted seconds. A server of one disk has as much to do in every world.
const WORLDS: [(u32, u32, u32); 9] = [
    (100, 1, 4_000),
    (300, 3, 2_000),
    (1_000, 10, 800),
    (3_000, 30, 240),
    (10_000, 100, 80),
    (30_000, 300, 24),
    (100_000, 1_000, 8),
    (300_000, 3_000, 4),
    (1_000_000, 10_000, 2),
];

/// Runs of each.
const RUNS: usize = 3;

/// What a request of the largest world may cost, in those of the smallest.
const MOST_RELATIVE: f64 = 8.0;

/// Bytes that a client may take.
const MOST_BYTES: f64 = 1_024.0;

/// What a world cost.
#[derive(Clone, Copy)]
struct Point {
    clients: f64,
    servers: f64,
    requests_s: f64,
    events_s: f64,
    bytes_a_client: f64,
    build_secs: f64,
}

impl Point {
    fn of_line(line: &str) -> Option<Self> {
        let read: Option<Vec<f64>> = line.split(',').map(|value| value.parse().ok()).collect();
        let [clients, servers, requests_s, events_s, bytes_a_client, build_secs] =
            read?.try_into().ok()?;
        Some(Self { clients, servers, requests_s, events_s, bytes_a_client, build_secs })
    }

    /// What a request cost, as a part of what one of `small` did.
    fn relative(&self, small: &Self) -> f64 {
        small.requests_s / self.requests_s
    }
}

/// Runs the world of so many clients, and prints what it cost as a line of numbers.
pub(crate) fn point(clients: u32) {
    let world = WORLDS.iter().find(|(known, ..)| *known == clients);
    let (clients, servers, secs) = *world.expect("1024, or the clients of a point of the curve");
    let one = many(clients, servers, 1, secs);
    println!(
        "{clients},{servers},{},{},{},{}",
        one.requests_s(),
        one.events_s(),
        one.bytes as f64 / f64::from(clients),
        one.build_secs,
    );
}

/// Measures all points, prints them, and leaves them in `out/` as data and as a plot.
pub(crate) fn draw() {
    let points: Vec<Point> = WORLDS.iter().map(|(clients, ..)| measured(*clients)).collect();
    for point in &points {
        println!(
            "result: sim/curve {} clients, {} server{} | {:.0} requests/s, {:.2} M events/s, {:.0} \
             ns/request, {:.2} x the first, {:.0} B/client, built in {:.2} s",
            point.clients,
            point.servers,
            if point.servers == 1.0 { "" } else { "s" },
            point.requests_s,
            point.events_s / 1e6,
            1e9 / point.requests_s,
            point.relative(&points[0]),
            point.bytes_a_client,
            point.build_secs,
        );
    }
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out");
    std::fs::create_dir_all(&out).expect("out/ can be made");
    std::fs::write(out.join("scale.csv"), table(&points)).expect("it can be written");
    plot(&out.join("scale.svg"), &points).expect("it can be drawn");
    println!("result: sim/curve | drawn in out/scale.svg, data in out/scale.csv");
}

/// The cheapest of some runs of a world.
fn measured(clients: u32) -> Point {
    let program = std::env::current_exe().expect("this program runs");
    let run = |_| {
        let output = Command::new(&program).arg(clients.to_string()).output();
        let output = output.expect("it runs once more");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Point::of_line(String::from_utf8_lossy(&output.stdout).trim()).expect("a line of numbers")
    };
    let runs = (0..RUNS).map(run);
    runs.max_by(|left, right| left.requests_s.total_cmp(&right.requests_s)).expect("some runs")
}

fn table(points: &[Point]) -> String {
    let mut text = "clients,servers,requests_s,events_s,ns_a_request,relative_cost,\
                    bytes_a_client,build_secs\n"
        .to_owned();
    for one in points {
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{},{},{:.0},{:.0},{:.1},{:.3},{:.0},{:.3}",
            one.clients,
            one.servers,
            one.requests_s,
            one.events_s,
            1e9 / one.requests_s,
            one.relative(&points[0]),
            one.bytes_a_client,
            one.build_secs,
        );
    }
    text
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A panel of the plot.
struct Panel {
    title: &'static str,
    values: Vec<f64>,
    /// What it must not exceed, where there is such a bound.
    bound: Option<f64>,
}

fn plot(path: &Path, points: &[Point]) -> Result<(), Box<dyn std::error::Error>> {
    let panel = |title, bound, of: &dyn Fn(&Point) -> f64| {
        let values = points.iter().map(of).collect();
        Panel { title, values, bound }
    };
    let panels = [
        panel("requests a second, in thousands", None, &|one| one.requests_s / 1e3),
        panel("cost of a request, in those of 100 clients", Some(MOST_RELATIVE), &|one| {
            one.relative(&points[0])
        }),
        panel("bytes a client", Some(MOST_BYTES), &|one| one.bytes_a_client),
    ];
    let root = SVGBackend::new(path, (640, 780)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(&panels) {
        draw_panel(area, points, panel)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    points: &[Point],
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || panel.values.iter().copied().chain(panel.bound);
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    // What spans more than a decade is meant in ratios.
    if most > 10.0 * least {
        draw_lines(area, points, panel, (least / 1.5..most * 1.5).log_scale())
    } else {
        draw_lines(area, points, panel, 0.0..most * 1.08)
    }
}

fn draw_lines<Y>(
    area: &Area<'_>,
    points: &[Point],
    panel: &Panel,
    vertical: Y,
) -> Result<(), Box<dyn std::error::Error>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let (first, last) = (points[0].clients, points[points.len() - 1].clients);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(36)
        .caption(panel.title, ("sans-serif", 16))
        .x_label_area_size(34)
        .y_label_area_size(56)
        .build_cartesian_2d((first..last).log_scale(), vertical)?;
    chart
        .configure_mesh()
        .x_desc("clients")
        .x_label_formatter(&|clients| format!("{clients}"))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    if let Some(bound) = panel.bound {
        let ends = [(first, bound), (last, bound)];
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, RED.into()))?;
    }
    let line = || points.iter().zip(&panel.values).map(|(point, value)| (point.clients, *value));
    chart.draw_series(LineSeries::new(line(), BLUE.stroke_width(2)))?;
    chart.draw_series(line().map(|place| Circle::new(place, 3, BLUE.filled())))?;
    Ok(())
}
