//! How SHARP is set: the original is what its defaults give.

use super::actions::{ADD, Axes, Axis, GAP, GAP_OF_ACK, GapAxis, Growth, MULTIPLY};
use super::round::Judging;
use crate::parameters::{Parameter, ParameterError, Parameters};
use crate::rules::{Action, Gap, RuleSet};
use crate::search::desk::FAULTS;
use crate::units::Span;

/// The gap of the initial rule (algorithm 1).
const FIRST_GAP: Span = Span::from_millis(20);

/// The gap of the initial rule where gaps are parts of `ack_ewma`: hardly any pacing.
const FIRST_GAP_OF_ACK: f64 = 0.5;

const fn parameter(name: &'static str, default: &'static str, about: &'static str) -> Parameter {
    Parameter { name, default, about }
}

/// All of them; those from `keep` on are departures from the original.
pub(super) static PARAMETERS: &[Parameter] = &[
    parameter("m", "on", "vary the factor, from 1; off: never multiply, a seventh of the work"),
    parameter("gap", "time", "vary the gap as a time; ack: as a part of ack_ewma (ours); or off"),
    parameter("granularity", "1", "first steps, in those of the paper's table II, 0.1 to 20"),
    parameter("steps", "4", "steps across the ranges of m and b, 1 to 20"),
    parameter("gap_steps", "6", "steps across the range of the gap, 1 to 20"),
    parameter("window", "30", "largest window that rules may set, 1 to 256"),
    parameter("runs", "3", "runs of the top candidate, and of noisy ones, 1 to 100"),
    parameter("noise", "20", "percent of its speed by which the seconds of a noisy run deviate"),
    parameter("grain", "auto", "scores are compared in whole multiples; auto: in three digits"),
    parameter("keep", "off", "try the unchanged value of each variable, too, on or off"),
    parameter("racing", "off", "percent behind the best at which a candidate is dropped, or off"),
    parameter("short", "100", "length of a first look at each candidate, in percent, 5 to 100"),
    parameter("batch", "1", "candidates that are asked for at once, 1 to 1000"),
    FAULTS,
];

/// What `parameters` say.
pub(super) struct Options {
    /// How actions are varied.
    pub(super) axes: Axes,
    /// How runs are judged.
    pub(super) judging: Judging,
    /// The set that is measured first.
    pub(super) initial: RuleSet,
    /// Candidates that are asked for at once.
    pub(super) batch: usize,
}

impl Options {
    pub(super) fn read(parameters: &Parameters) -> Result<Self, ParameterError> {
        let (gap, gap_axis) = gap(parameters)?;
        let multiply = parameters.switch("m")?.then_some(1.0);
        let mut initial = RuleSet::uniform(Action { multiply, add: 0.0, gap });
        initial.window_max = parameters.number("window", 1.0, 256.0)?;
        let axes = Axes {
            multiply: scaled(MULTIPLY, "steps", parameters)?,
            add: scaled(ADD, "steps", parameters)?,
            gap: gap_axis,
            keep: parameters.switch("keep")?,
        };
        let judging = judging(parameters)?;
        let batch = parameters.count("batch", 1, 1_000)? as usize;
        Ok(Self { axes, judging, initial, batch })
    }
}

/// The gap of the initial rule, and how it is varied.
fn gap(parameters: &Parameters) -> Result<(Gap, Option<GapAxis>), ParameterError> {
    let axis = |axis| scaled(axis, "gap_steps", parameters);
    Ok(match parameters.choice("gap", &["time", "ack", "off"])? {
        "time" => (Gap::Time(FIRST_GAP), Some(GapAxis::Time(axis(GAP)?))),
        "ack" => (Gap::OfAck(FIRST_GAP_OF_ACK), Some(GapAxis::OfAck(axis(GAP_OF_ACK)?))),
        _ => (Gap::NONE, None),
    })
}

fn scaled(axis: Axis, steps: &'static str, values: &Parameters) -> Result<Axis, ParameterError> {
    let granularity = axis.granularity * values.number("granularity", 0.1, 20.0)?;
    let growth = Growth::Crossing(values.count(steps, 1, 20)? as u32);
    Ok(Axis { granularity, growth, ..axis })
}

fn judging(parameters: &Parameters) -> Result<Judging, ParameterError> {
    let is_off = parameters.choice("racing", &["off"]).is_ok();
    let racing = || parameters.number("racing", 0.0, 100.0);
    let is_auto = parameters.choice("grain", &["auto"]).is_ok();
    let grain = || parameters.number("grain", 1e-12, 1e12);
    Ok(Judging {
        runs: parameters.count("runs", 1, 100)? as u32,
        noise_percent: parameters.count("noise", 0, 1_000)? as i64,
        grain: if is_auto { None } else { Some(grain()?) },
        short: parameters.number("short", 5.0, 100.0)? / 100.0,
        racing_percent: if is_off { None } else { Some(racing()?) },
    })
}
