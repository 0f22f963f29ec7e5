//! Rule files as text: what is printed reads back as the same rules, to the last digit.

use std::fmt;

use super::file::{RuleFile, Section};
use super::literal::{write, write_number, write_time};
use super::{Action, Gap, Hits, Region, Rule, UNBOUNDED};
use crate::indicator::{COUNT, INDICATORS, Signals};

impl fmt::Display for RuleFile {
    /// The text format. Numbers that are not finite do not read back; `lint` refuses them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "afflux rules {}", Self::VERSION)?;
        if let Some(name) = &self.name {
            writeln!(f, "name {}", Quoted(name))?;
        }
        if let Some(about) = &self.about {
            writeln!(f, "about {}", Quoted(about))?;
        }
        for (key, value) in &self.provenance {
            writeln!(f, "provenance {} {}", Key(key), Quoted(value))?;
        }
        self.sections.iter().try_for_each(|section| write!(f, "\n{section}"))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.set();
        writeln!(f, "for {}:", self.classes)?;
        let (most, rate) = (write_number(set.window_max), set.window_changes_per_s);
        writeln!(f, "  window at most {most}, at most {rate} changes/s")?;
        set.rules.iter().try_for_each(|rule| writeln!(f, "  {rule}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.region, self.action)?;
        if self.hits != Hits::default() {
            write!(f, "; hits {} at {}", self.hits.count, State(&self.hits.means))?;
        }
        Ok(())
    }
}

impl fmt::Display for Region {
    /// Only the indicators that it bounds: `ack_ewma in [41ms, 48ms) and pt_ratio < 4.5`, or `any`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (axis, indicator) in INDICATORS.iter().enumerate() {
            if self.low[axis] == 0 && self.high[axis] == UNBOUNDED {
                continue;
            }
            let side = self.side_text(axis);
            let within = if side.starts_with('[') { "in " } else { "" };
            write!(f, "{}{} {within}{side}", if first { "" } else { " and " }, indicator.name)?;
            first = false;
        }
        if first { f.write_str("any") } else { Ok(()) }
    }
}

impl Region {
    /// One side of the box as a table shows it: `[41ms, 48ms)`, `< 4.5`, `>= 48ms` or `any`.
    pub fn side_text(&self, axis: usize) -> String {
        let text = |value| value_text(axis, value);
        match (self.low[axis], self.high[axis]) {
            (0, UNBOUNDED) => "any".to_owned(),
            (0, high) => format!("< {}", text(high)),
            (low, UNBOUNDED) => format!(">= {}", text(low)),
            (low, high) => format!("[{}, {})", text(low), text(high)),
        }
    }
}

/// A value of the indicator at `axis` with its unit, as rule files have it: `28.512ms`, `4.5`.
pub fn value_text(axis: usize, value: u64) -> String {
    write(INDICATORS[axis].unit, value)
}

impl fmt::Display for Action {
    /// `window * 0.5 + 1, gap 33ms`; what is left out is left alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("window")?;
        if let Some(factor) = self.multiply {
            write!(f, " * {}", write_number(factor))?;
        }
        if self.add < 0.0 {
            write!(f, " - {}", write_number(-self.add))?;
        } else if self.add != 0.0 {
            write!(f, " + {}", write_number(self.add))?;
        } else if self.multiply.is_none() {
            f.write_str(" unchanged")?;
        }
        if self.gap == Gap::NONE { Ok(()) } else { write!(f, ", gap {}", self.gap) }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(span) => f.write_str(&write_time(span.as_nanos())),
            Self::OfAck(fraction) => write!(f, "{} of ack_ewma", write_number(*fraction)),
        }
    }
}

/// A point in indicator space, as `ack_ewma 39ms, send_ewma 40.2ms, pt_ratio 3.25`.
#[derive(Clone, Copy, Debug)]
pub struct State<'a>(pub &'a Signals);

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..COUNT).try_for_each(|axis| {
            let comma = if axis == 0 { "" } else { ", " };
            let indicator = &INDICATORS[axis];
            write!(f, "{comma}{} {}", indicator.name, write(indicator.unit, self.0[axis]))
        })
    }
}

/// A text in quotes, on one line.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A provenance key, in quotes only where it must be.
struct Key<'a>(&'a str);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let starts_well = self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if starts_well && self.0.chars().all(plain) {
            f.write_str(self.0)
        } else {
            write!(f, "{}", Quoted(self.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::testing::partition;
    use super::*;
    use crate::class::{Class, Classes};
    use crate::units::Span;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn files() -> impl Strategy<Value = RuleFile> {
        let sets = prop::collection::vec(partition(12), 3);
        let notes = prop::collection::btree_map(any::<String>(), any::<String>(), 0..4);
        let split = prop::collection::vec(0_usize..3, 3);
        (any::<Option<String>>(), any::<Option<String>>(), notes, split, sets).prop_map(
            |(name, about, notes, split, sets)| {
                let mut groups: BTreeMap<usize, Classes> = BTreeMap::new();
                for (class, group) in Class::ALL.into_iter().zip(split) {
                    groups.entry(group).or_default().insert(class);
                }
                let sections =
                    groups.into_values().zip(sets).map(|(c, set)| Section::new(c, set)).collect();
                RuleFile { name, about, provenance: notes.into_iter().collect(), sections }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(file in files()) {
            let text = file.to_string();
            let read = RuleFile::parse(&text);
            prop_assert_eq!(read.as_ref(), Ok(&file), "{}", text);
            prop_assert_eq!(read.unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_rule_reads_like_a_sentence() {
        let rule = Rule {
            region: Region { low: [41_000_000, 0, 0], high: [48_000_000, UNBOUNDED, 4_500] },
            action: Action { multiply: None, add: -1.7, gap: Gap::Time(Span::from_micros(32_840)) },
            hits: Hits { count: 3_011, means: [45_000_000, 40_200_000, 3_250] },
        };
        let text = "ack_ewma in [41ms, 48ms) and pt_ratio < 4.5 -> window - 1.7, gap 32.84ms; \
                    hits 3011 at ack_ewma 45ms, send_ewma 40.2ms, pt_ratio 3.25";
        assert_eq!(rule.to_string(), text);
        assert_eq!(Action::NONE.to_string(), "window unchanged");
    }
}
