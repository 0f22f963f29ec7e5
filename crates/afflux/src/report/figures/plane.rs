//! The boxes of a rule set in the plane of two indicators, shaded by how often they were hit.

use afflux_core::indicator::{ACK_EWMA, INDICATORS, PT_RATIO, Unit};
use afflux_core::rules::{Rule, RuleSet, UNBOUNDED};
use maud::{Markup, html};

use crate::report::svg::{Axis, Frame, drawing, round, short};

/// The indicator from left to right, and the one upwards.
const ACROSS: usize = ACK_EWMA;
const UP: usize = PT_RATIO;

/// Rules whose boxes look the same in the plane, as they differ in other indicators only.
struct Patch {
    rules: Vec<usize>,
    low: [u64; 2],
    high: [u64; 2],
    hits: u64,
}

/// Other indicators that the rules bound; boxes that differ in those only lie on each other.
pub(in crate::report) fn hidden(set: &RuleSet) -> Vec<&'static str> {
    let bounds = |axis: usize| {
        set.rules
            .iter()
            .any(|rule| rule.region.low[axis] > 0 || rule.region.high[axis] != UNBOUNDED)
    };
    let others = (0..INDICATORS.len()).filter(|axis| ![ACROSS, UP].contains(axis));
    others.filter(|&axis| bounds(axis)).map(|axis| INDICATORS[axis].name).collect()
}

/// What a plot counts in, for people: milliseconds, or plain numbers.
fn scaled(axis: usize, value: u64) -> f64 {
    match INDICATORS[axis].unit {
        Unit::Nanos => value as f64 / 1e6,
        Unit::Milli => value as f64 / 1e3,
    }
}

fn patches(set: &RuleSet) -> Vec<Patch> {
    let mut patches: Vec<Patch> = Vec::new();
    for (index, rule) in set.rules.iter().enumerate() {
        let low = [rule.region.low[ACROSS], rule.region.low[UP]];
        let high = [rule.region.high[ACROSS], rule.region.high[UP]];
        match patches.iter_mut().find(|patch| patch.low == low && patch.high == high) {
            Some(patch) => {
                patch.rules.push(index);
                patch.hits += rule.hits.count;
            }
            None => {
                patches.push(Patch { rules: vec![index], low, high, hits: rule.hits.count });
            }
        }
    }
    patches
}

/// An axis that shows all bounds and means with room around them.
fn axis_of(set: &RuleSet, axis: usize) -> Axis {
    let floor = scaled(axis, INDICATORS[axis].floor.max(1));
    let mean = |rule: &Rule| (rule.hits.count > 0).then(|| rule.hits.means[axis]);
    let values = set.rules.iter().flat_map(|rule| {
        let bounds = [rule.region.low[axis], rule.region.high[axis]];
        bounds.into_iter().chain(mean(rule)).filter(|value| *value > 0 && *value != UNBOUNDED)
    });
    let values: Vec<f64> = values.map(|value| scaled(axis, value)).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let (low, high) = if low <= high { (low, high) } else { (floor.max(1.0), floor.max(1.0)) };
    let floor = if INDICATORS[axis].floor > 0 { floor } else { 0.0 };
    Axis::log((low / 3.0).max(floor), high * 3.0)
}

/// The plot of one set of rules.
pub(in crate::report) fn plot(set: &RuleSet) -> Markup {
    let frame = Frame { top: 28.0, height: 300.0, x: axis_of(set, ACROSS), y: axis_of(set, UP) };
    let patches = patches(set);
    let most = patches.iter().map(|patch| patch.hits).max().unwrap_or(0).max(1) as f64;
    let name = |axis: usize| match INDICATORS[axis].unit {
        Unit::Nanos => format!("{}, ms", INDICATORS[axis].name),
        Unit::Milli => INDICATORS[axis].name.to_owned(),
    };
    let inside = html! {
        @for patch in &patches { (area(&frame, patch, most)) }
        (frame.vertical(&name(UP)))
        (frame.uprights())
        @for patch in &patches { (outline(&frame, patch)) }
        @for (index, rule) in set.rules.iter().enumerate().filter(|(_, rule)| rule.hits.count > 0) {
            @let (x, y) = (frame.x(scaled(ACROSS, rule.hits.means[ACROSS])),
                frame.y(scaled(UP, rule.hits.means[UP])));
            circle class="seen" cx=(round(x)) cy=(round(y)) r="3" {
                title { "rule " (index + 1) ": " (rule) }
            }
            text class="number" x=(round(x + 6.0)) y=(round(y - 5.0)) { (index + 1) }
        }
        (frame.horizontal(&name(ACROSS)))
    };
    drawing(372.0, "The boxes of the rules, and where replies fell", &inside)
}

/// Left, top, width and height of a patch.
fn bounds(frame: &Frame, patch: &Patch) -> [f64; 4] {
    let left = frame.x(scaled(ACROSS, patch.low[0]));
    let right = frame.x(scaled(ACROSS, patch.high[0]));
    let (bottom, top) = (frame.y(scaled(UP, patch.low[1])), frame.y(scaled(UP, patch.high[1])));
    [round(left), round(top), round(right - left), round(bottom - top)]
}

/// The shade: no hits, no colour; the most hits, the strongest.
fn area(frame: &Frame, patch: &Patch, most: f64) -> Markup {
    let [x, y, width, height] = bounds(frame, patch);
    let part = patch.hits as f64 / most;
    let shade = if patch.hits == 0 { 0.0 } else { 0.06 + 0.5 * part };
    html! {
        rect class="shade" x=(x) y=(y) width=(width) height=(height)
            fill-opacity=(format!("{shade:.2}")) {}
    }
}

fn outline(frame: &Frame, patch: &Patch) -> Markup {
    let [x, y, width, height] = bounds(frame, patch);
    let rules: Vec<String> = patch.rules.iter().map(|rule| (rule + 1).to_string()).collect();
    let many = if rules.len() == 1 { "rule" } else { "rules" };
    html! {
        rect class="box" x=(x) y=(y) width=(width) height=(height) {
            title { (many) " " (rules.join(", ")) ": " (short(patch.hits as f64)) " hits" }
        }
        @if patch.hits == 0 && width > 20.0 && height > 16.0 {
            text class="number quiet" x=(round(x + 6.0)) y=(round(y + 15.0)) { (rules.join(", ")) }
        }
    }
}
