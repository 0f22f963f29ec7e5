//! One number over a sweep: the first key along the axis, a line for each combination of others.

use afflux_core::units::{Span, parse_bytes};
use maud::{Markup, html};

use super::COLOURS;
use crate::report::svg::{Axis, Frame, LEFT, drawing, legend, round, short};
use crate::worlds::record::{Spread, SweepRecord};

/// Lines at most; a sweep with more combinations has its table and its CSV.
const LINES: usize = COLOURS.len();

/// Values at most that stand below an axis one by one.
const NAMED: usize = 12;

/// How the values of the first key lie along the axis.
struct Along {
    /// The place of each value.
    places: Vec<f64>,
    axis: Axis,
    /// Whether the places are the values; else they are numbered.
    measured: bool,
    /// Whether each value stands below its place; else the axis has ticks of its own.
    named: bool,
    /// What all values begin with, and what is left of each.
    begin: String,
    ends: Vec<String>,
}

impl Along {
    fn of(values: &[String]) -> Self {
        let begin = common(values);
        let ends: Vec<String> =
            values.iter().map(|value| value[begin.len()..].to_owned()).collect();
        let read: Option<Vec<f64>> = ends.iter().map(|end| quantity(end)).collect();
        let read = read.filter(|read| read.len() > 1);
        let Some(places) = read else {
            let places: Vec<f64> = (0..values.len()).map(|at| at as f64 + 0.5).collect();
            let axis = Axis::exact(0.0, places.len() as f64);
            return Self { axis, places, measured: false, named: true, begin, ends };
        };
        let least = places.iter().copied().fold(f64::INFINITY, f64::min);
        let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // What spans more than a decade is meant in ratios.
        let log = least > 0.0 && most / least > 10.0;
        let axis = if log { Axis::log(least, most) } else { Axis::linear(least.min(0.0), most) };
        let named = log && places.len() <= NAMED;
        Self { places, axis, measured: true, named, begin, ends }
    }
}

/// What all values begin with, up to a colon, as the `fixed:` of `fixed:1` and `fixed:2`.
fn common(values: &[String]) -> String {
    let first = values.first().map_or("", String::as_str);
    let ends = first.match_indices(':').map(|(at, _)| &first[..=at]);
    let shared = ends.rev().find(|begin| values.iter().all(|value| value.starts_with(begin)));
    shared.unwrap_or("").to_owned()
}

/// A plain number, a size, a time or a rate as a number.
fn quantity(text: &str) -> Option<f64> {
    let rate = || parse_bytes(text.strip_suffix("/s")?).ok();
    let span = || text.parse::<Span>().ok();
    (text.parse().ok())
        .or_else(|| span().map(Span::as_secs_f64))
        .or_else(|| parse_bytes(text).ok().map(|bytes| bytes as f64))
        .or_else(|| rate().map(|bytes| bytes as f64))
}

/// The plot of one number of a sweep; none where nothing is swept.
pub(in crate::report) fn plot(sweep: &SweepRecord, number: &str) -> Option<Markup> {
    let first = sweep.axes.first()?;
    let lines = lines(sweep);
    if lines.len() > LINES {
        return None;
    }
    let along = Along::of(&first.values);
    let key = match along.begin.as_str() {
        "" => first.key.clone(),
        begin => format!("{}={begin}", first.key),
    };
    let found = sweep.points().into_iter().filter_map(|point| sweep.spread(number, point));
    let beside = || sweep.published.iter().filter(|one| one.beside.metric == number);
    let most = found.map(|spread| spread.most).chain(beside().map(|one| one.beside.published));
    let most = super::greatest(most);
    let frame = Frame { top: 46.0, height: 220.0, x: along.axis, y: Axis::linear(0.0, most) };
    let keys: Vec<_> = lines
        .iter()
        .zip(COLOURS)
        .filter(|_| lines.len() > 1)
        .map(|(rest, class)| (class, name(sweep, rest)))
        .collect();
    let unit = sweep.unit(number);
    let title = if unit.is_empty() { number.to_owned() } else { format!("{number}, in {unit}") };
    let inside = html! {
        (frame.vertical(&title))
        @for (rest, class) in lines.iter().zip(COLOURS) {
            (line(sweep, number, rest, class, &along, &frame))
            @for one in beside().filter(|one| one.point[1..] == **rest) {
                @let (x, y) = (frame.x(along.places[one.point[0]]), frame.y(one.beside.published));
                circle class={ "mark open " (class) } cx=(round(x)) cy=(round(y)) r="5" {
                    title { "published: " (one.beside.name) ", " (short(one.beside.published)) }
                }
            }
        }
        (rows_of(&keys, beside().next().is_some()))
        @if along.named { (named(&frame, &key, &along.ends, &along.places)) } @else {
            (frame.horizontal(&key))
        }
    };
    Some(drawing(310.0, &format!("{number} over {}", first.key), &inside))
}

/// Keys on two rows, since they may be long.
fn rows_of(keys: &[(&str, String)], published: bool) -> Markup {
    let half = keys.len().div_ceil(2).max(4).min(keys.len());
    let mut second = keys[half..].to_vec();
    if published {
        second.push(("quiet", "open circles are published".to_owned()));
    }
    html! { (legend(12.0, &keys[..half])) (legend(28.0, &second)) }
}

/// The combinations of all keys but the first.
fn lines(sweep: &SweepRecord) -> Vec<&[usize]> {
    let mut lines: Vec<&[usize]> = Vec::new();
    for point in sweep.points() {
        if !lines.contains(&&point[1..]) {
            lines.push(&point[1..]);
        }
    }
    lines
}

fn name(sweep: &SweepRecord, rest: &[usize]) -> String {
    let values = sweep.axes[1..].iter().zip(rest).map(|(axis, &at)| match sweep.axes.len() {
        2 => axis.values[at].clone(),
        _ => format!("{} {}", axis.key, axis.values[at]),
    });
    values.collect::<Vec<_>>().join(", ")
}

fn line(
    sweep: &SweepRecord,
    number: &str,
    rest: &[usize],
    class: &str,
    along: &Along,
    frame: &Frame,
) -> Markup {
    let spread = |(at, &place): (usize, &f64)| -> Option<(f64, Spread)> {
        let point: Vec<usize> = [&[at], rest].concat();
        Some((place, sweep.spread(number, &point)?))
    };
    let found: Vec<(f64, Spread)> = along.places.iter().enumerate().filter_map(spread).collect();
    let band: Vec<_> = found.iter().map(|(place, s)| (*place, s.least, s.most)).collect();
    html! {
        @if sweep.seeds > 1 && along.measured {
            path class={ "band " (class) } d=(frame.band(&band)) {}
        }
        @if along.measured {
            path class={ "line " (class) }
                d=(frame.line(found.iter().map(|(place, spread)| (*place, spread.mean)))) {}
        }
        g class=(class) {
            @for (place, spread) in &found {
                @let x = round(frame.x(*place));
                @if sweep.seeds > 1 && !along.measured {
                    line class="whisker" x1=(x) x2=(x) y1=(round(frame.y(spread.least)))
                        y2=(round(frame.y(spread.most))) {}
                }
                circle class="dot" cx=(x) cy=(round(frame.y(spread.mean))) r="3" {
                    title { (short(spread.mean)) }
                }
            }
        }
    }
}

/// An axis whose values are words.
fn named(frame: &Frame, key: &str, values: &[String], places: &[f64]) -> Markup {
    let bottom = frame.bottom();
    html! {
        line class="base" x1=(LEFT) x2=(round(frame.right())) y1=(round(bottom))
            y2=(round(bottom)) {}
        @for (value, place) in values.iter().zip(places) {
            text class="tick" x=(round(frame.x(*place))) y=(round(bottom + 17.0))
                text-anchor="middle" { (value) }
        }
        text class="axis" x=(round(frame.right())) y=(round(bottom + 34.0)) text-anchor="end" {
            (key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_where_their_size_says() {
        assert_eq!(quantity("64KiB"), Some(65_536.0));
        assert_eq!(quantity("20ms"), Some(0.02));
        assert_eq!(quantity("125MB/s"), Some(125e6));
        assert_eq!((quantity("8"), quantity("none")), (Some(8.0), None));
        let along = |values: &[&str]| {
            Along::of(&values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>())
        };
        assert!(along(&["1", "2"]).measured && !along(&["1", "unlimited"]).measured);
        assert_eq!(along(&["a", "b"]).places, [0.5, 1.5]);
        let windows = along(&["fixed:1", "fixed:2", "fixed:4"]);
        assert!(windows.measured && windows.places == [1.0, 2.0, 4.0]);
        assert_eq!((windows.begin.as_str(), windows.ends[2].as_str()), ("fixed:", "4"));
        assert_eq!(along(&["none", "fixed:2"]).begin, "");
    }
}
