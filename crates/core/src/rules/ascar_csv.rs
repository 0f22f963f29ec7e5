//! Rule files of the original ASCAR client, in and out.
//!
//! The format is integers in lines: `rules,changes/s`, then for each rule lower and upper bounds of
//! ack EWMA, send EWMA (microseconds) and process time ratio (hundredths), m and b (hundredths)
//! and the gap (microseconds); files read back from a client add how often the rule matched and
//! the means when it did. 2147483647 is infinity, a negative m means "do not multiply", and the
//! first rule that matches wins. Rules there hold for reads and writes, never for metadata.
//!
//! Source: ASCAR, section III-D; what the paper leaves open follows the public client.

use std::fmt;

pub use super::ascar_export::{ExportError, Exported, export};

use super::file::{RuleFile, Section};
use super::space::{is_empty, join_all, subtract};
use super::{Action, Gap, Hits, Region, Rule, RuleSet, UNBOUNDED};
use crate::class::{Class, Classes};
use crate::indicator::{COUNT, INDICATORS, Signals, Unit};
use crate::units::Span;

/// The greatest number of the format, which stands for infinity.
pub(super) const INFINITY: i64 = 2_147_483_647;
/// The original never lets the window pass this.
pub(super) const WINDOW_MAX: f64 = 30.0;
/// Columns of a rule as it is written, and as it is read back.
const COLUMNS: usize = 9;
const COLUMNS_WITH_HITS: usize = 13;
/// Overlapping rules can fall into more pieces than anyone would want to run.
const PIECES_MAX: usize = 10_000;

/// A file of the original client, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The same rules; no section at all when the file clears the rules.
    pub file: RuleFile,
    /// What had to be changed so that the rules are a partition that acts alike, in sentences.
    pub notes: Vec<String>,
}

/// A file of the original client that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; {remedy}")]
pub struct CsvError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

fn error(line: usize, what: String, remedy: &str) -> CsvError {
    CsvError { line, what, remedy: remedy.to_owned() }
}

// The format has columns for these three indicators, in this order, and for no others.
const _: () = assert!(COUNT == 3);

/// Nanoseconds or thousandths in one unit of the format.
pub(super) fn scale(axis: usize) -> u64 {
    match INDICATORS[axis].unit {
        Unit::Nanos => 1_000,
        Unit::Milli => 10,
    }
}

/// Reads a file of the original client.
///
/// Later rules lose the states that earlier ones match first, and states that no rule matches get
/// rules that leave the window alone, so that the result is a partition; the notes say so.
///
/// # Errors
/// A header or rule that is not integers, fewer rules than announced, or overlaps that fall into
/// more than 10,000 pieces.
pub fn import(text: &str) -> Result<Imported, CsvError> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let Some((_, header)) = lines.next() else {
        return Err(error(
            1,
            "the file is empty".to_owned(),
            "begin it with `<rules>,<changes/s>`",
        ));
    };
    let Some((count, changes)) = read_header(header)? else {
        let notes = vec!["the header clears all rules: the result has none".to_owned()];
        return Ok(Imported { file: RuleFile::default(), notes });
    };
    let mut notes = Notes::default();
    let mut rules = Vec::new();
    let mut last = 1;
    for (line, text) in lines.by_ref().take(count) {
        last = line;
        rules.push((line, read_rule(line, text, &mut notes)?));
    }
    if rules.len() < count {
        let what = format!("the header announces {count} rules, but there are {}", rules.len());
        return Err(error(last, what, "correct the number in line 1, or add the missing rules"));
    }
    let beyond = lines.filter(|(_, line)| !line.trim().is_empty()).count();
    if beyond > 0 {
        notes.add(format!("{beyond} lines after the {count} announced rules were left out"));
    }
    let rules = partition(rules, &mut notes)?;
    let set = RuleSet { rules, window_changes_per_s: changes, window_max: WINDOW_MAX };
    let classes: Classes = [Class::Read, Class::Write].into_iter().collect();
    let file = RuleFile { sections: vec![Section::new(classes, set)], ..RuleFile::default() };
    Ok(Imported { file, notes: notes.0 })
}

#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn add(&mut self, note: String) {
        self.0.push(note);
    }
}

/// Number of rules and of changes a second; none when one of them is zero.
fn read_header(text: &str) -> Result<Option<(usize, u32)>, CsvError> {
    let wrong = |what: String| error(1, what, "write `<rules>,<changes/s>`, as in `15,2`, or `0`");
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let number = |text: &str| -> Result<u32, CsvError> {
        text.parse().map_err(|_| wrong(format!("`{}` is not a number of the header", shown(text))))
    };
    let count = number(fields[0])?;
    let changes = match fields.get(1) {
        Some(text) => number(text)?,
        None if count == 0 => 0,
        None => return Err(wrong("the changes a second are missing".to_owned())),
    };
    Ok((count > 0 && changes > 0).then_some((count as usize, changes)))
}

/// A field as it can be shown in a message: short, and without control characters.
fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn read_rule(line: usize, text: &str, notes: &mut Notes) -> Result<Rule, CsvError> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    if fields.len() < COLUMNS {
        let what = format!("a rule has {COLUMNS} columns, but this line has {}", fields.len());
        let remedy =
            "write ack low, high, send low, high, ratio*100 low, high, m*100, b*100, gap us";
        return Err(error(line, what, remedy));
    }
    let mut numbers = [0_i64; COLUMNS];
    for (column, number) in numbers.iter_mut().enumerate() {
        *number = read_integer(line, column, fields[column])?;
    }
    let low = std::array::from_fn(|axis| from_units(axis, numbers[2 * axis]));
    let high = std::array::from_fn(|axis| match numbers[2 * axis + 1] {
        INFINITY => UNBOUNDED,
        bound => from_units(axis, bound),
    });
    let [multiply, add, gap] = [numbers[6], numbers[7], numbers[8]];
    if gap < 0 {
        let what = format!("the gap is {gap} us");
        return Err(error(line, what, "write 0 in column 9 to send without a gap"));
    }
    let action = Action {
        multiply: (multiply >= 0).then(|| multiply as f64 / 100.0),
        add: add as f64 / 100.0,
        gap: Gap::Time(Span::from_micros(gap.unsigned_abs())),
    };
    let hits = if fields.len() >= COLUMNS_WITH_HITS {
        read_hits(&fields[COLUMNS..COLUMNS_WITH_HITS]).unwrap_or_else(|| {
            notes.add(format!("line {line}: columns 10 to 13 are no counts and were left out"));
            Hits::default()
        })
    } else {
        Hits::default()
    };
    Ok(Rule { region: Region { low, high }, action, hits })
}

fn read_integer(line: usize, column: usize, text: &str) -> Result<i64, CsvError> {
    let number: Option<i64> = text.parse().ok();
    number.filter(|number| number.abs() <= INFINITY).ok_or_else(|| {
        let what =
            format!("column {}, `{}`, is not an integer of 32 bits", column + 1, shown(text));
        error(line, what, "write an integer; 2147483647 is infinity")
    })
}

/// A bound in our unit. No indicator is ever below zero, so that a bound there is as good as zero.
fn from_units(axis: usize, units: i64) -> u64 {
    u64::try_from(units).unwrap_or(0) * scale(axis)
}

/// Count and means; none when one of them is no such thing.
fn read_hits(fields: &[&str]) -> Option<Hits> {
    let count = fields[0].parse().ok()?;
    let mut means: Signals = [0; COUNT];
    for (axis, mean) in means.iter_mut().enumerate() {
        *mean = fields[axis + 1].parse::<u64>().ok()?.checked_mul(scale(axis))?;
    }
    Some(Hits { count, means })
}

/// The rules as a partition that acts as the first match among them does.
fn partition(rules: Vec<(usize, Rule)>, notes: &mut Notes) -> Result<Vec<Rule>, CsvError> {
    let mut result: Vec<Rule> = Vec::with_capacity(rules.len());
    let mut earlier: Vec<Region> = Vec::with_capacity(rules.len());
    for (line, rule) in rules {
        if is_empty(&rule.region) {
            notes.add(format!("line {line}: the box is empty; the rule was left out"));
            continue;
        }
        let pieces = remainder(rule.region, &earlier, line)?;
        if pieces.is_empty() {
            notes
                .add(format!("line {line}: earlier rules match first everywhere; it was left out"));
        } else if pieces != [rule.region] {
            let (count, s) = (pieces.len(), if pieces.len() == 1 { "" } else { "es" });
            notes.add(format!("line {line}: cut to the {count} box{s} that earlier rules leave"));
        }
        // Hits stay with the piece that holds their means, or with the first if none does.
        let holder = pieces.iter().position(|piece| piece.contains(&rule.hits.means)).unwrap_or(0);
        for (position, region) in pieces.into_iter().enumerate() {
            let hits = if position == holder { rule.hits } else { Hits::default() };
            result.push(Rule { region, hits, ..rule });
        }
        earlier.push(rule.region);
    }
    let uncovered = remainder(Region::ALL, &earlier, 1)?;
    if !uncovered.is_empty() {
        let (count, s) = match uncovered.len() {
            1 => (1, ""),
            count => (count, "es"),
        };
        notes.add(format!(
            "no rule covers {count} box{s}, where the original does nothing: rules were added that \
             leave the window alone and set no gap"
        ));
    }
    let added = |region| Rule { region, action: Action::NONE, hits: Hits::default() };
    result.extend(uncovered.into_iter().map(added));
    Ok(result)
}

/// What `holes` leave of `region`, in few boxes.
fn remainder(region: Region, holes: &[Region], line: usize) -> Result<Vec<Region>, CsvError> {
    let mut pieces = vec![region];
    for hole in holes {
        pieces = pieces.iter().flat_map(|piece| subtract(piece, hole)).collect();
        if pieces.len() > PIECES_MAX {
            let what = format!("the overlaps of the rules fall into over {PIECES_MAX} pieces");
            return Err(error(line, what, "make the boxes touch instead of overlap"));
        }
    }
    // Joining tries all pairs, which is only worth it, and only quick, for a few pieces.
    if pieces.len() <= 200 {
        join_all(&mut pieces);
    }
    Ok(pieces)
}

impl fmt::Display for Imported {
    /// The text format, with the notes as comments above it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.file.to_string();
        let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
        writeln!(f, "{head}")?;
        self.notes.iter().try_for_each(|note| writeln!(f, "# {note}"))?;
        f.write_str(rest)
    }
}
