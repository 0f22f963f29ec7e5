//! Drawing: axes, frames and lines as SVG that takes its colours from the page's style.
//!
//! Written here rather than taken from a plotting library, since those paint fixed colours, which
//! cannot follow a dark theme, and fixed text sizes, which a phone makes unreadable. Shapes name
//! classes of `style.css` only.

use maud::{Markup, html};

/// Width of every plot, in its own units.
pub(super) const WIDTH: f64 = 520.0;

/// Room for the labels of the vertical axis.
pub(super) const LEFT: f64 = 54.0;

/// Room to the right, so that the last label fits.
const RIGHT: f64 = 14.0;

/// A range of values, and how they lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// Into about how many parts its ticks cut it.
    parts: f64,
}

impl Axis {
    /// From `low` to `high`, extended to whole ticks.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        Self::linear_in(5.0, low, high)
    }

    /// As [`Axis::linear`], with ticks for about `parts` parts.
    pub(super) fn linear_in(parts: f64, low: f64, high: f64) -> Self {
        let high = if high > low && (high - low).is_finite() { high } else { low + 1.0 };
        let step = step_of((high - low) / parts);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low, high, log: false, parts }
    }

    /// From `low` to `high` as they are.
    pub(super) fn exact(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, log: false, parts: 5.0 }
    }

    /// From `low` to `high`, both above zero, by their logarithms.
    pub(super) fn log(low: f64, high: f64) -> Self {
        let low = low.max(1e-9);
        Self { low, high: high.max(low * 2.0), log: true, parts: 5.0 }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end; what lies beyond is at the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            let ln = |value: f64| libm::log(value.max(f64::MIN_POSITIVE));
            (ln(value) - ln(self.low)) / (ln(self.high) - ln(self.low))
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) }
    }

    /// Whether a value lies within.
    pub(super) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Values worth a line.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            return self.log_ticks();
        }
        let step = step_of((self.high - self.low) / self.parts);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|count| count as f64 * step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = libm::log10(self.high / self.low);
        let factors: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let range = libm::log10(self.low).floor() as i32..=libm::log10(self.high).ceil() as i32;
        let decade = |power: i32| factors.iter().map(move |f| f * libm::pow(10.0, power.into()));
        let all = range.flat_map(decade);
        all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect()
    }
}

/// The step of 1, 2 or 5 times a power of ten that is nearest to `rough`.
fn step_of(rough: f64) -> f64 {
    let power = libm::pow(10.0, libm::log10(rough).floor());
    match rough / power {
        part if part < 1.42 => power,
        part if part < 3.17 => 2.0 * power,
        part if part < 7.08 => 5.0 * power,
        _ => 10.0 * power,
    }
}

/// A plot's area and its axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Its upper edge.
    pub(super) top: f64,
    /// Its height.
    pub(super) height: f64,
    /// Left to right.
    pub(super) x: Axis,
    /// Bottom to top.
    pub(super) y: Axis,
}

impl Frame {
    /// Its right edge.
    pub(super) fn right(&self) -> f64 {
        WIDTH - RIGHT
    }

    /// Its lower edge.
    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Horizontal place of a value.
    pub(super) fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (self.right() - LEFT)
    }

    /// Vertical place of a value.
    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom() - self.y.place(value) * self.height
    }

    /// Lines and labels of the vertical axis; `title` stands above it.
    pub(super) fn vertical(&self, title: &str) -> Markup {
        html! {
            @for tick in self.y.ticks() {
                @let y = round(self.y(tick));
                line class="grid" x1=(LEFT) x2=(round(self.right())) y1=(y) y2=(y) {}
                text class="tick" x=(LEFT - 6.0) y=(round(self.y(tick) + 4.0))
                    text-anchor="end" { (short(tick)) }
            }
            text class="axis" x="2" y=(round(self.top - 13.0)) { (title) }
        }
    }

    /// The horizontal axis with its labels; `title` stands below its end.
    pub(super) fn horizontal(&self, title: &str) -> Markup {
        let bottom = self.bottom();
        html! {
            line class="base" x1=(LEFT) x2=(round(self.right())) y1=(round(bottom))
                y2=(round(bottom)) {}
            @for tick in self.x.ticks() {
                @let x = round(self.x(tick));
                line class="base" x1=(x) x2=(x) y1=(round(bottom)) y2=(round(bottom + 4.0)) {}
                text class="tick" x=(x) y=(round(bottom + 17.0)) text-anchor="middle" {
                    (short(tick))
                }
            }
            text class="axis" x=(round(self.right())) y=(round(bottom + 34.0))
                text-anchor="end" { (title) }
        }
    }

    /// The upright lines of the horizontal axis alone.
    pub(super) fn uprights(&self) -> Markup {
        html! {
            @for tick in self.x.ticks() {
                @let x = round(self.x(tick));
                line class="grid" x1=(x) x2=(x) y1=(round(self.top)) y2=(round(self.bottom())) {}
            }
        }
    }

    /// The path of a line through `points`.
    pub(super) fn line(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let letter = if path.is_empty() { 'M' } else { 'L' };
            path.push(letter);
            path.push_str(&format!("{} {}", round(self.x(x)), round(self.y(y))));
        }
        path
    }

    /// The path of a line that keeps each value until the next point, and the last to `end`.
    pub(super) fn steps(&self, points: &[(f64, f64)], end: f64) -> String {
        let Some((first, last)) = points.first().zip(points.last()) else { return String::new() };
        let mut height = round(self.y(first.1));
        let mut path = format!("M{} {height}", round(self.x(first.0)));
        for (x, y) in points {
            let y = round(self.y(*y));
            if y != height {
                path.push_str(&format!("H{}V{y}", round(self.x(*x))));
                height = y;
            }
        }
        path.push_str(&format!("H{}", round(self.x(end.max(last.0)))));
        path
    }

    /// The path around what lies between two lines over the same `x`.
    pub(super) fn band(&self, points: &[(f64, f64, f64)]) -> String {
        let upper = points.iter().map(|(x, _, high)| (*x, *high));
        let mut path = self.line(upper);
        for (x, low, _) in points.iter().rev() {
            path.push_str(&format!("L{} {}", round(self.x(*x)), round(self.y(*low))));
        }
        path.push('Z');
        path
    }
}

/// A drawing of the given height; `about` is read out to those who cannot see it.
pub(super) fn drawing(height: f64, about: &str, inside: &Markup) -> Markup {
    html! {
        svg class="plot" xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(about)
            viewBox={ "0 0 " (WIDTH) " " (height) } { (inside) }
    }
}

/// Names of lines above a plot: a class of the style, and the text. They stay on one row.
pub(super) fn legend(top: f64, entries: &[(&str, String)]) -> Markup {
    let width = |text: &str| 30.0 + 7.4 * text.chars().count() as f64;
    let all: f64 = entries.iter().map(|(_, text)| width(text)).sum();
    let mut next = (WIDTH - RIGHT - all).max(LEFT);
    let placed = entries.iter().map(|(class, text)| {
        let left = next;
        next += width(text);
        (round(left), class, text)
    });
    html! {
        @for (left, class, text) in placed {
            line class={ "key " (class) } x1=(left) x2=(left + 14.0) y1=(round(top - 4.0))
                y2=(round(top - 4.0)) {}
            text class="tick" x=(left + 19.0) y=(round(top)) { (text) }
        }
    }
}

/// A coordinate to a tenth, which no eye tells from the exact one.
pub(super) fn round(value: f64) -> f64 {
    let tenth = (value * 10.0).round() / 10.0;
    // So that no `-0` is written.
    if tenth == 0.0 { 0.0 } else { tenth }
}

/// A number for a label: no more digits than it needs.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size == 0.0 => return "0".to_owned(),
        _ if size >= 1e9 => return format!("{value:.0e}"),
        _ if size >= 10_000.0 => return format!("{}k", trimmed(format!("{:.1}", value / 1e3))),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 0.1 => format!("{value:.2}"),
        _ if size >= 0.001 => format!("{value:.4}"),
        _ => return format!("{value:.0e}"),
    };
    trimmed(text)
}

/// Without the zeros that a fraction ends in.
fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_few_round_ticks_and_hold_their_values() {
        for (low, high) in [(0.0, 1.0), (0.0, 97.3), (-12.0, 44.0), (0.0, 0.0), (3.0, 2.0)] {
            let axis = Axis::linear(low, high);
            let ticks = axis.ticks();
            assert!((2..=9).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            assert!(axis.holds(low) && axis.holds(high.max(low)), "{axis:?}");
        }
        assert_eq!(Axis::linear(0.0, 97.3).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let log = Axis::log(0.3, 30.0).ticks();
        let labels: Vec<String> = log.iter().map(|tick| short(*tick)).collect();
        assert_eq!(labels, ["0.5", "1", "2", "5", "10", "20"]);
        assert!((Axis::log(1.0, 100.0).place(10.0) - 0.5).abs() < 1e-12);
        assert_eq!(Axis::exact(0.0, 4.0).place(f64::NAN), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, -0.5, 1.25, 12.0, 150.4, 25_000.0, 0.005].map(short);
        assert_eq!(shown, ["0", "-0.5", "1.25", "12", "150", "25k", "0.005"]);
        assert_eq!(round(-0.01).to_string(), "0");
    }

    #[test]
    fn lines_stay_inside_their_frame() {
        let axis = Axis::exact(0.0, 1.0);
        let frame = Frame { top: 10.0, height: 100.0, x: axis, y: axis };
        let path = frame.line([(0.0, 0.0), (2.0, 5.0)]);
        assert_eq!(path, format!("M{LEFT} 110L{} 10", frame.right()));
        assert!(frame.steps(&[(0.0, 0.5), (0.5, 1.0)], 1.0).ends_with(&format!("H{}", 506)));
    }
}
