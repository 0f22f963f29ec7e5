//! The words between Afflux and a search method that runs as a program of its own.
//!
//! Both sides write JSON objects, one on each line, in UTF-8; a line has at most [`LINE_MAX`]
//! bytes. Afflux writes to the program's standard input, the program answers on its standard
//! output; what it has to say to people goes to its standard error. A conversation in version
//! [`PROTOCOL`], with `>` before what the program reads and `<` before what it writes:
//!
//! ```text
//! > {"hello":{"protocol":1,"seed":7,"earlier":0,"limits":{"m":[0.3,2.0],"b":[-2.34,2.34],
//!    "gap_us":[0,70000],"window":[1,256]}}}                                    (on one line)
//! > {"ask":2}
//! < {"trials":[{"id":0,"window":4,"gap_of_ack":0.9},{"id":"b","m":0.5,"b":2.25,"gap_us":5000}]}
//! > {"tell":{"id":0,"trial":{"id":0,"window":4,"gap_of_ack":0.9},"number":0,"score":118.5,
//!    "speed_mb_s":118.5,"speed_deviation_mb_s":3.25}}                          (on one line)
//! > {"tell":{"id":"b","trial":{"id":"b","m":0.5,"b":2.25,"gap_us":5000},"number":1,
//!    "fault":"server 2 went away"}}                                            (on one line)
//! > {"ask":2}
//! < {"finished":"the model sees no room for improvement"}
//! ```
//!
//! - `ask` wants at least one and at most so many trials, or `finished`. Every trial is told
//!   exactly once, in any order, before the next `ask`.
//! - A trial is one of four things. `window` is a fixed window; `gap_us` or `gap_of_ack`, a part of
//!   the measured `ack_ewma`, may be added. `m`, `b` or a gap without a window is a rule set of one
//!   rule: what is absent leaves the window unmultiplied, adds nothing, does not pace. `rules` is
//!   the text of a rule file, whose rules for reads hold for writes, too. `setting` is a setting as
//!   `--policy` takes it. Besides, `id` is a whole number or a text of the program's choice, new in
//!   each trial, and `fidelity`, 1 when absent, the part of the full length to run.
//! - `tell` has the trial as the program wrote it, and Afflux's own number of it. It has `score`
//!   (more is better) and what [`Outcome`] has, hits as `[count, ack_ewma in ns, send_ewma in ns,
//!   pt_ratio in thousandths]` of each rule, or `cost` (less is better), or `fault`.
//! - After a restart, `earlier` in `hello` says how many trials were told before; as many `tell`
//!   lines follow at once, so that a program can rebuild its model from the trials in them.
//! - When standard input ends, so does the program. A program that answers what cannot be read,
//!   ends too soon, or takes too long, ends the search with a clear word; its journal stays intact.

mod order;
mod strategy;

pub(super) use order::ENTRY;
pub use order::Order;
pub use strategy::{External, Program, ProgramError, Wrong};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::sharp::{ADD, GAP, MULTIPLY};
use super::{Candidate, Outcome, Told};
use crate::class::Class;
use crate::policy::{Policy, fixed::Fixed};
use crate::rules::{Action, Gap, RuleFile, RuleSet};
use crate::units::Span;

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// The longest line, in bytes, without its end.
pub const LINE_MAX: usize = 1 << 20;

/// What Afflux writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The first line.
    Hello {
        /// Seed of the program's choices.
        seed: u64,
        /// How many trials of an earlier life of the search follow as tells.
        earlier: u64,
    },
    /// So many trials at most are wanted now.
    Ask(usize),
    /// What a trial showed.
    Tell {
        /// What was tried.
        proposal: Proposal,
        /// The trial's number in the search.
        number: u64,
        /// What it showed.
        told: Told,
    },
}

/// What the program answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Trials; at least one.
    Trials(Vec<Proposal>),
    /// It has nothing more to try, and why.
    Finished(String),
}

/// A trial that the program wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// What is deployed.
    pub candidate: Candidate,
    /// The part of the full length, above 0 and at most 1.
    pub fidelity: f64,
    /// The trial as the program wrote it, its `id` included; told back, and kept in the journal.
    pub written: Value,
}

/// An answer that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// It is too long.
    #[error("the search program wrote a line of {bytes} bytes: a line has at most {LINE_MAX}")]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// It is no answer.
    #[error("the search program wrote {shown}, which is no answer: {why}")]
    Unreadable {
        /// The beginning of the line.
        shown: String,
        /// What is wrong with it.
        why: String,
    },
    /// There are more trials than were asked for, or none.
    #[error(
        "the search program answered {given} trials where 1 to {asked} were asked for; \
         one that has no more answers finished"
    )]
    Count {
        /// How many it wrote.
        given: usize,
        /// How many were asked for.
        asked: usize,
    },
    /// A trial is not what a trial can be.
    #[error("trial {id} of the search program: {why}")]
    Trial {
        /// As the program named it.
        id: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Said {
    /// The line, without its end.
    pub fn line(&self) -> String {
        let value = match self {
            Self::Hello { seed, earlier } => {
                let hundredths = |low: i64, high: i64| [low as f64 / 100.0, high as f64 / 100.0];
                json!({"hello": {"protocol": PROTOCOL, "seed": seed, "earlier": earlier, "limits": {
                    "m": hundredths(MULTIPLY.low, MULTIPLY.high),
                    "b": hundredths(ADD.low, ADD.high),
                    "gap_us": [GAP.low, GAP.high],
                    "window": WINDOWS,
                }}})
            }
            Self::Ask(most) => json!({"ask": most}),
            Self::Tell { proposal, number, told } => {
                json!({"tell": Tell {
                    id: proposal.written.get("id"),
                    trial: &proposal.written,
                    number: *number,
                    outcome: told.clone().into(),
                }})
            }
        };
        value.to_string()
    }
}

#[derive(Serialize)]
struct Tell<'a> {
    id: Option<&'a Value>,
    trial: &'a Value,
    number: u64,
    #[serde(flatten)]
    outcome: Flat,
}

/// What a tell says, without a level of its own for the kind.
#[derive(Serialize)]
#[serde(untagged)]
enum Flat {
    Outcome(Outcome),
    Cost { cost: f64 },
    Fault { fault: String },
}

impl From<Told> for Flat {
    fn from(told: Told) -> Self {
        match told {
            Told::Outcome(outcome) => Self::Outcome(outcome),
            Told::Cost(cost) => Self::Cost { cost },
            Told::Fault(fault) => Self::Fault { fault },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    trials: Option<Vec<Value>>,
    finished: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: Value,
    m: Option<f64>,
    b: Option<f64>,
    gap_us: Option<f64>,
    gap_of_ack: Option<f64>,
    window: Option<f64>,
    rules: Option<String>,
    setting: Option<String>,
    fidelity: Option<f64>,
}

/// Least and greatest fixed window.
const WINDOWS: [u32; 2] = [1, 256];

/// What may be written is wider than what is worth trying, but finite.
const FACTOR: [f64; 2] = [0.0, 100.0];
const ADDEND: [f64; 2] = [-1_000.0, 1_000.0];
const GAP_US: [f64; 2] = [0.0, 60e6];
const GAP_PARTS: [f64; 2] = [0.0, 100.0];

/// Reads the program's answer to an ask for `asked` trials.
///
/// ```
/// use afflux_core::search::external::{Heard, heard};
///
/// let line = r#"{"trials":[{"id":0,"window":4,"gap_of_ack":0.9}]}"#;
/// let Ok(Heard::Trials(trials)) = heard(line, 2) else { panic!() };
/// assert_eq!(trials[0].candidate.label(), "fixed:4,gap=0.9ack");
/// assert!(heard(r#"{"trials":[]}"#, 2).is_err());
/// ```
///
/// # Errors
/// The line is no answer, or one of its trials cannot be deployed.
pub fn heard(line: &str, asked: usize) -> Result<Heard, ProtocolError> {
    if line.len() > LINE_MAX {
        return Err(ProtocolError::Long { bytes: line.len() });
    }
    let unreadable = |why: String| ProtocolError::Unreadable { shown: shown(line), why };
    let answer: Answer =
        serde_json::from_str(line).map_err(|error| unreadable(error.to_string()))?;
    match answer {
        Answer { trials: Some(trials), finished: None } => {
            let given = trials.len();
            if given == 0 || given > asked {
                return Err(ProtocolError::Count { given, asked });
            }
            Ok(Heard::Trials(trials.into_iter().map(proposal).collect::<Result<_, _>>()?))
        }
        Answer { trials: None, finished: Some(why) } => Ok(Heard::Finished(shown(&why))),
        _ => Err(unreadable("it has either `trials` or `finished`".to_owned())),
    }
}

/// Reads a trial as the program wrote it; also how a journal's trials come back.
///
/// # Errors
/// It is not what a trial can be.
pub fn proposal(written: Value) -> Result<Proposal, ProtocolError> {
    let id = written.get("id").map_or_else(|| "without an id".to_owned(), Value::to_string);
    let wrong = |why: String| ProtocolError::Trial { id: shown(&id), why };
    let trial: Written =
        serde_json::from_value(written.clone()).map_err(|error| wrong(error.to_string()))?;
    if !(trial.id.is_u64() || trial.id.is_string()) {
        return Err(wrong("its `id` is neither a whole number nor a text".to_owned()));
    }
    let fidelity = trial.fidelity.unwrap_or(1.0);
    if !(fidelity > 0.0 && fidelity <= 1.0) {
        return Err(wrong(format!("its `fidelity` of {fidelity} is not above 0 and at most 1")));
    }
    let candidate = candidate(&trial).map_err(wrong)?;
    Ok(Proposal { candidate, fidelity, written })
}

fn candidate(trial: &Written) -> Result<Candidate, String> {
    let one_rule = trial.m.is_some() || trial.b.is_some();
    let gap = gap(trial)?;
    match (trial.window, &trial.rules, &trial.setting) {
        (Some(window), None, None) if !one_rule => {
            let window = within("window", window, WINDOWS.map(f64::from))?;
            Ok(Candidate::setting(&Fixed { window, gap: gap.unwrap_or(Gap::NONE) }.name()))
        }
        (None, None, None) if one_rule || gap.is_some() => {
            let multiply = trial.m.map(|m| within("m", m, FACTOR)).transpose()?;
            let add = within("b", trial.b.unwrap_or(0.0), ADDEND)?;
            let action = Action { multiply, add, gap: gap.unwrap_or(Gap::NONE) };
            Ok(Candidate::rules(RuleSet::uniform(action)))
        }
        (None, Some(text), None) if !one_rule && gap.is_none() => {
            let file = RuleFile::checked(text).map_err(|error| error.to_string())?;
            let rules = file.set(Class::Read).ok_or("its rules are not for reads")?;
            Ok(Candidate::rules(rules.clone()))
        }
        (None, None, Some(text)) if !one_rule && gap.is_none() => {
            let candidate = Candidate::setting(text);
            candidate.deployable().map_err(|error| error.to_string())?;
            Ok(candidate)
        }
        _ => Err("it is one of `window` with a gap, `m` and `b` with a gap, `rules`, or \
                  `setting`"
            .to_owned()),
    }
}

fn gap(trial: &Written) -> Result<Option<Gap>, String> {
    match (trial.gap_us, trial.gap_of_ack) {
        (None, None) => Ok(None),
        (Some(micros), None) => {
            let micros = within("gap_us", micros, GAP_US)?;
            Ok(Some(Gap::Time(Span::from_micros(libm::round(micros) as u64))))
        }
        (None, Some(part)) => Ok(Some(Gap::OfAck(within("gap_of_ack", part, GAP_PARTS)?))),
        (Some(_), Some(_)) => Err("it has both `gap_us` and `gap_of_ack`".to_owned()),
    }
}

fn within(name: &str, value: f64, [low, high]: [f64; 2]) -> Result<f64, String> {
    match (low..=high).contains(&value) {
        true => Ok(value),
        false => Err(format!("its `{name}` of {value} is not from {low} to {high}")),
    }
}

/// The beginning of what the program wrote, safe to show on a terminal.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Hits;
    use proptest::prelude::*;

    fn one(trial: &str) -> Result<Candidate, ProtocolError> {
        let line = format!("{{\"trials\":[{trial}]}}");
        heard(&line, 1).map(|heard| match heard {
            Heard::Trials(mut trials) => trials.remove(0).candidate,
            Heard::Finished(why) => panic!("{why}"),
        })
    }

    #[test]
    fn the_documented_conversation_is_what_is_spoken() {
        let documented: Vec<&str> = include_str!("mod.rs")
            .lines()
            .skip_while(|line| *line != "//! ```text")
            .skip(1)
            .take_while(|line| *line != "//! ```")
            .map(|line| line["//! ".len()..].trim_end_matches("(on one line)").trim())
            .collect();
        let mut lines: Vec<String> = Vec::new();
        for part in documented {
            match part.starts_with(['<', '>']) {
                true => lines.push(part.to_owned()),
                false => lines.last_mut().unwrap().push_str(part),
            }
        }
        let said = |line: usize| serde_json::from_str::<Value>(&lines[line][2..]).unwrap();
        let spoken = |said: &Said| serde_json::from_str::<Value>(&said.line()).unwrap();
        assert_eq!(said(0), spoken(&Said::Hello { seed: 7, earlier: 0 }));
        assert_eq!(said(1), spoken(&Said::Ask(2)));
        let Ok(Heard::Trials(trials)) = heard(&lines[2][2..], 2) else { panic!() };
        let outcome = Outcome {
            score: 118.5,
            speed_mb_s: 118.5,
            speed_deviation_mb_s: 3.25,
            ..Outcome::default()
        };
        let told = [Told::Outcome(outcome), Told::Fault("server 2 went away".to_owned())];
        for (number, (proposal, told)) in trials.into_iter().zip(told).enumerate() {
            let tell = Said::Tell { proposal, number: number as u64, told };
            assert_eq!(said(3 + number), spoken(&tell));
        }
        let end = heard(&lines[6][2..], 2);
        assert_eq!(end, Ok(Heard::Finished("the model sees no room for improvement".to_owned())));
    }

    #[test]
    fn the_four_kinds_of_trials_are_deployable() {
        let text = "afflux rules 1\nfor read:\n pt_ratio < 2 -> window + 1\n \
            pt_ratio >= 2 -> window * 0.5";
        let rules = json!(text);
        let cases = [
            (r#"{"id":1,"window":16}"#.to_owned(), "fixed:16"),
            (r#"{"id":1,"window":2.5,"gap_us":33000,"fidelity":0.1}"#.to_owned(), "gap=33ms"),
            (r#"{"id":"x","m":0.5,"b":1}"#.to_owned(), "window * 0.5 + 1 ("),
            (r#"{"id":1,"gap_of_ack":0.9}"#.to_owned(), "window unchanged, gap 0.9 of ack_ewma"),
            (format!("{{\"id\":1,\"rules\":{rules}}}"), "2 rules ("),
            (r#"{"id":1,"setting":"read=fixed:2+fan-in=16"}"#.to_owned(), "fan-in=16"),
        ];
        for (trial, label) in cases {
            let candidate = one(&trial).unwrap();
            assert!(candidate.label().contains(label), "{}", candidate.label());
            assert!(candidate.deployable().is_ok());
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_a_clear_word() {
        let trials = [
            (r#"{"window":4}"#, "missing field `id`"),
            (r#"{"id":1.5,"window":4}"#, "neither a whole number nor a text"),
            (r#"{"id":1,"window":0}"#, "`window` of 0 is not from 1 to 256"),
            (r#"{"id":1,"window":4,"m":1}"#, "it is one of"),
            (r#"{"id":1}"#, "it is one of"),
            (r#"{"id":1,"b":1e9}"#, "`b` of 1000000000"),
            (r#"{"id":1,"gap_us":1,"gap_of_ack":1,"b":1}"#, "both `gap_us` and `gap_of_ack`"),
            (r#"{"id":1,"window":4,"fidelity":0}"#, "`fidelity` of 0"),
            (r#"{"id":1,"windw":4}"#, "unknown field `windw`"),
            (r#"{"id":1,"rules":"afflux rules 1"}"#, "not for reads"),
            (r#"{"id":1,"rules":"x"}"#, "line 1"),
            (r#"{"id":1,"setting":"rules:/etc/passwd"}"#, "not those of a file"),
        ];
        for (trial, why) in trials {
            let error = one(trial).unwrap_err().to_string();
            assert!(error.contains(why), "{trial}: {error}");
        }
        let lines = [
            ("\u{1b}[2Jnonsense", "\\u{1b}[2Jnonsense, which is no answer"),
            ("{}", "either `trials` or `finished`"),
            (r#"{"trials":[{"id":1,"b":1},{"id":2,"b":1}]}"#, "2 trials where 1 to 1"),
            (r#"{"trials":[]}"#, "0 trials"),
            (r#"{"trials":[],"finished":"x"}"#, "either"),
        ];
        for (line, why) in lines {
            let error = heard(line, 1).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
        assert!(matches!(heard(&" ".repeat(LINE_MAX + 1), 1), Err(ProtocolError::Long { .. })));
    }

    #[test]
    fn a_tell_has_the_trial_and_what_it_showed() {
        let written = json!({"id": 3, "b": 1.0});
        let told = Told::Outcome(Outcome {
            score: 0.1,
            hits: vec![Hits { count: 2, means: [1, 2, 3] }],
            ..Outcome::default()
        });
        let tell = Said::Tell { proposal: proposal(written).unwrap(), number: 9, told };
        let line: Value = serde_json::from_str(&tell.line()).unwrap();
        assert_eq!(line["tell"]["trial"]["b"], 1.0);
        assert_eq!(line["tell"]["hits"], json!([[2, 1, 2, 3]]));
        let proposal = proposal(json!({"id": "k", "window": 2})).unwrap();
        let cost = Said::Tell { proposal, number: 9, told: Told::Cost(2.5) };
        assert!(cost.line().contains(r#""cost":2.5"#) && !cost.line().contains('\n'));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_fail_otherwise_than_by_an_error(
            line in r#"[{}\[\]":,a-z0-9 .\\-]{0,80}"#,
            inner in r#"("(id|m|b|window|gap_us|rules)":("x"|-?[0-9e.]{1,5}|null),?){0,4}"#,
        ) {
            let _ = heard(&line, 3);
            let _ = heard(&format!("{{\"trials\":[{{{inner}}}]}}"), 3);
        }
    }
}
