//! Changes with their intervals, and the change of every pair.

use maud::{Markup, html};

use crate::interval::Verdict;
use crate::report::schema::{ComparedRecord, ComparisonRecord};
use crate::report::svg::{Axis, Frame, drawing, round, short};

/// Changes beyond this are drawn at the edge, with an arrow; with two pairs an interval may be
/// ten times as wide as what it is about.
const MOST_PERCENT: f64 = 150.0;

/// Height of a metric's row.
const ROW: f64 = 50.0;

/// The class of a verdict in the style.
pub(in crate::report) fn class_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifference => "same",
    }
}

/// The plot of one comparison.
pub(in crate::report) fn plot(comparison: &ComparisonRecord) -> Markup {
    let metrics = &comparison.metrics;
    let ends = metrics.iter().flat_map(|compared| {
        let change = compared.change_percent;
        let pairs = compared.pairs_percent.iter().copied();
        pairs.chain([change.low.unwrap_or(-MOST_PERCENT), change.high.unwrap_or(MOST_PERCENT)])
    });
    let (mut low, mut high) = (-5.0_f64, 5.0_f64);
    for end in ends.filter(|end| end.is_finite()) {
        low = low.min(end.max(-MOST_PERCENT));
        high = high.max(end.min(MOST_PERCENT));
    }
    let x = Axis::linear(low, high);
    let height = ROW * metrics.len() as f64;
    let frame = Frame { top: 12.0, height, x, y: Axis::exact(0.0, 1.0) };
    let zero = round(frame.x(0.0));
    let about = format!("Changes from {} to {}", comparison.baseline, comparison.setting);
    let inside = html! {
        (frame.uprights())
        line class="zero" x1=(zero) x2=(zero) y1="6" y2=(round(frame.bottom())) {}
        @for (row, compared) in metrics.iter().enumerate() {
            (interval(&frame, frame.top + ROW * row as f64, compared))
        }
        (frame.horizontal("change in % of the baseline, with 95 % intervals; small dots are pairs"))
    };
    drawing(frame.bottom() + 42.0, &about, &inside)
}

fn interval(frame: &Frame, top: f64, compared: &ComparedRecord) -> Markup {
    let change = compared.change_percent;
    let class = class_of(compared.verdict());
    let (low, high) = (change.low.unwrap_or(f64::MIN), change.high.unwrap_or(f64::MAX));
    let (left, right) = (round(frame.x(low)), round(frame.x(high)));
    let middle = round(top + 32.0);
    let mean = round(frame.x(change.mean));
    let better = if compared.more_is_better { "more is better" } else { "less is better" };
    html! {
        text class="row" x="2" y=(round(top + 15.0)) {
            (compared.metric) tspan class="quiet" dx="8" { (better) }
        }
        g class=(class) {
            line class="whisker" x1=(left) x2=(right) y1=(middle) y2=(middle) {}
            (end(left, middle, frame.x.holds(low), -1.0))
            (end(right, middle, frame.x.holds(high), 1.0))
            @for pair in &compared.pairs_percent {
                circle class="pair" cx=(round(frame.x(*pair))) cy=(round(middle + 9.0)) r="2.2" {
                    title { "one pair: " (short(*pair)) " %" }
                }
            }
            (mark(compared.verdict(), mean, middle))
        }
    }
}

/// The end of an interval: a bar, or an arrow where it goes on.
fn end(x: f64, y: f64, inside: bool, way: f64) -> Markup {
    let path = if inside {
        format!("M{x} {}V{}", y - 5.0, y + 5.0)
    } else {
        format!("M{} {}L{x} {y}L{0} {}", x - 6.0 * way, y - 4.0, y + 4.0)
    };
    html! { path class="whisker" d=(path) {} }
}

/// The mean: a shape for each verdict, so that no colour is needed to tell them apart.
fn mark(verdict: Verdict, x: f64, y: f64) -> Markup {
    match verdict {
        Verdict::Better => html! { circle class="mark" cx=(x) cy=(y) r="5.5" {} },
        Verdict::Worse => html! {
            path class="mark" d=(format!("M{x} {}l6.5 6.5l-6.5 6.5l-6.5 -6.5Z", y - 6.5)) {}
        },
        Verdict::NoDifference => html! { circle class="mark open" cx=(x) cy=(y) r="5" {} },
    }
}
