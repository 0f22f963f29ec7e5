//! Simulated figures as a part of those that were published.

use maud::{Markup, html};

use crate::report::svg::{Axis, Frame, drawing, round};
use crate::report::words::percent;
use crate::worlds::published::{Beside, Use};

/// What is further off is drawn at the edge.
const MOST_PERCENT: f64 = 100.0;

/// Height of a figure's row.
const ROW: f64 = 34.0;

/// A row for each figure: filled where it is a prediction, open where it served to fit.
pub(in crate::report) fn plot(figures: &[Beside]) -> Markup {
    let differences = || figures.iter().filter_map(|one| one.difference_percent);
    let end = |least: f64, of: fn(f64, f64) -> f64| {
        differences().map(|d| d.clamp(-MOST_PERCENT, MOST_PERCENT)).fold(least, of)
    };
    let x = Axis::linear(end(-15.0, f64::min), end(15.0, f64::max));
    let height = ROW * figures.len() as f64;
    let frame = Frame { top: 12.0, height, x, y: Axis::exact(0.0, 1.0) };
    let zero = round(frame.x(0.0));
    let within = [(-10.0, 0.0, 1.0), (10.0, 0.0, 1.0)];
    let inside = html! {
        path class="area same" d=(frame.band(&within)) { title { "within 10 %" } }
        (frame.uprights())
        line class="zero" x1=(zero) x2=(zero) y1="6" y2=(round(frame.bottom())) {}
        @for (row, one) in figures.iter().enumerate() {
            (mark(&frame, frame.top + ROW * row as f64, one))
        }
        (frame.horizontal("simulated against published, in %; filled are predictions"))
    };
    drawing(frame.bottom() + 42.0, "Simulated figures against published ones", &inside)
}

fn mark(frame: &Frame, top: f64, one: &Beside) -> Markup {
    let class = if one.use_ == Use::Prediction { "mark" } else { "mark open" };
    html! {
        text class="tick" x="2" y=(round(top + 12.0)) { (one.name) }
        @if let Some(difference) = one.difference_percent {
            circle class={ (class) " s0" } cx=(round(frame.x(difference))) cy=(round(top + 21.0))
                r="5" {
                title { (one.name) ": " (percent(difference)) ", " (one.use_.words()) }
            }
        }
    }
}
