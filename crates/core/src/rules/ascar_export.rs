//! Writing rules for the original ASCAR client; the format is told in [`super::ascar_csv`].

use std::fmt::Write as _;

use super::ascar_csv::{INFINITY, WINDOW_MAX, scale};
use super::lint::{self, LintError, Severity};
use super::literal::write_number;
use super::{Gap, Region, Rule, RuleSet, UNBOUNDED};
use crate::indicator::{COUNT, Signals};

/// Rules in the format of the original client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub csv: String,
    /// What the format cannot say and how it was changed, in sentences.
    pub notes: Vec<String>,
}

/// Rules that the original client cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExportError {
    /// They are wrong to begin with.
    #[error(transparent)]
    Lint(#[from] LintError),
    /// One of them says something that the format has no place for.
    #[error("rule {number}: {what}; {remedy}")]
    Inexpressible {
        /// The rule, from 1.
        number: usize,
        /// What it says.
        what: String,
        /// What to write instead.
        remedy: &'static str,
    },
}

/// Writes one rule set in the format of the original client, with hits if any rule has some.
///
/// No set at all becomes a file that clears the client's rules. Bounds are rounded to whole
/// microseconds and hundredths, all alike, so that boxes that touched still do.
///
/// # Errors
/// Rules that are no partition, gaps as fractions of `ack_ewma`, factors below zero, and numbers
/// that do not fit into 32 bits.
pub fn export(set: Option<&RuleSet>) -> Result<Exported, ExportError> {
    let Some(set) = set else {
        return Ok(Exported { csv: "0\n".to_owned(), notes: Vec::new() });
    };
    let mut findings = lint::set(set);
    findings.retain(|finding| finding.severity == Severity::Error);
    if !findings.is_empty() {
        return Err(LintError { findings }.into());
    }
    let mut notes = Vec::new();
    if set.window_max != WINDOW_MAX {
        notes.push(format!(
            "the original holds the window to at most {WINDOW_MAX}; the limit of {} is lost",
            write_number(set.window_max)
        ));
    }
    let with_hits = set.rules.iter().any(|rule| rule.hits.count > 0);
    let mut lines = Vec::with_capacity(set.rules.len());
    for (index, rule) in set.rules.iter().enumerate() {
        lines.extend(line(index + 1, rule, with_hits, &mut notes)?);
    }
    let mut csv = format!("{},{}\n", lines.len(), set.window_changes_per_s);
    lines.into_iter().for_each(|line| csv.push_str(&line));
    Ok(Exported { csv, notes })
}

/// The line of one rule; none when rounding leaves nothing of its box.
fn line(
    number: usize,
    rule: &Rule,
    with_hits: bool,
    notes: &mut Vec<String>,
) -> Result<Option<String>, ExportError> {
    let Region { low, high } = rule.region;
    let (low, high) = (bounds(&low), bounds(&high));
    if (0..COUNT).any(|axis| low[axis] >= high[axis]) {
        notes.push(format!("rule {number} was left out: nothing of its box is left by rounding"));
        return Ok(None);
    }
    let exact = |bounds: &Signals, written: &[i64; COUNT]| {
        (0..COUNT).all(|axis| match bounds[axis] {
            UNBOUNDED => true,
            bound => {
                u64::try_from(written[axis]).ok() == Some(bound / scale(axis))
                    && bound % scale(axis) == 0
            }
        })
    };
    if !exact(&rule.region.low, &low) || !exact(&rule.region.high, &high) {
        notes.push(format!("rule {number}: bounds were rounded to microseconds and hundredths"));
    }
    let action = action(number, rule, notes)?;
    let mut text = String::new();
    for axis in 0..COUNT {
        let _ = write!(text, "{},{},", low[axis], high[axis]);
    }
    let _ = write!(text, "{},{},{}", action[0], action[1], action[2]);
    if with_hits {
        let _ = write!(text, ",{}", rule.hits.count);
        for axis in 0..COUNT {
            let _ = write!(text, ",{}", rule.hits.means[axis] / scale(axis));
        }
    }
    text.push('\n');
    Ok(Some(text))
}

/// Bounds in the units of the format, rounded to the nearest; what is too large is infinity.
fn bounds(bounds: &Signals) -> [i64; COUNT] {
    std::array::from_fn(|axis| {
        let scale = scale(axis);
        let rounded = bounds[axis].saturating_add(scale / 2) / scale;
        i64::try_from(rounded).map_or(INFINITY, |units| units.min(INFINITY))
    })
}

/// m, b and gap in the units of the format.
fn action(number: usize, rule: &Rule, notes: &mut Vec<String>) -> Result<[i64; 3], ExportError> {
    let refuse = |what: String, remedy| Err(ExportError::Inexpressible { number, what, remedy });
    let multiply = match rule.action.multiply {
        None => -1.0,
        Some(factor) if factor < 0.0 => {
            let what = format!("its factor is {}", write_number(factor));
            return refuse(what, "there a negative factor means none: write one of at least 0");
        }
        Some(factor) => factor * 100.0,
    };
    let add = rule.action.add * 100.0;
    let gap = match rule.action.gap {
        Gap::Time(span) => span,
        Gap::OfAck(_) => {
            let what = format!("its gap is {}", rule.action.gap);
            return refuse(
                what,
                "there a gap is a time: write one, such as that fraction of a mean",
            );
        }
    };
    let nanos = gap.as_nanos();
    let micros = nanos.saturating_add(500) / 1_000;
    let limit = INFINITY as f64;
    if multiply > limit || add.abs() > limit || micros > INFINITY.unsigned_abs() {
        return refuse(
            format!("`{}` does not fit into 32 bits", rule.action),
            "write smaller numbers",
        );
    }
    let written = [nearest(multiply), nearest(add), micros as i64];
    let same = |given: f64, written: i64| given == written as f64 / 100.0;
    let exact = rule.action.multiply.is_none_or(|factor| same(factor, written[0]))
        && same(rule.action.add, written[1])
        && nanos % 1_000 == 0;
    if !exact {
        notes.push(format!(
            "rule {number}: `{}` was rounded to hundredths and microseconds",
            rule.action
        ));
    }
    Ok(written)
}

/// The nearest integer, halves away from zero.
fn nearest(number: f64) -> i64 {
    (number + if number < 0.0 { -0.5 } else { 0.5 }) as i64
}
