//! What is wrong or odd about rules that could be read: gaps, overlaps, numbers out of range.
//!
//! Source of the usual ranges of m, b and gap: ASCAR, section III-F and Table II.

use std::fmt;

use super::compile::take_apart;
use super::file::{Place, RuleFile, Section};
use super::literal::write_number;
use super::print::State;
use super::space::{example, is_empty, join_all};
use super::{Gap, Region, Rule, RuleSet};
use crate::indicator::{COUNT, INDICATORS};
use crate::units::Span;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The rules cannot be used.
    Error,
    /// The rules can be used, but probably do not do what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One thing that is wrong or odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where it stands, if the rules were read from a text.
    pub place: Option<Place>,
    /// Index of the rule that it is about, if it is about one.
    pub rule: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        write!(f, "{}: {}; {}", self.severity, self.message, self.remedy)
    }
}

/// Rules that cannot be used, with the findings that say why; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LintError {
    /// The findings that are errors.
    pub findings: Vec<Finding>,
}

impl fmt::Display for LintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, finding) in self.findings.iter().enumerate() {
            write!(f, "{}{finding}", if position == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// The usual factors on the window.
pub const MULTIPLY_USUAL: [f64; 2] = [0.3, 2.0];
/// The usual amounts added to the window.
pub const ADD_USUAL: [f64; 2] = [-2.3, 2.3];
/// The longest usual gap.
pub const GAP_USUAL_MAX: Span = Span::from_millis(70);

/// More findings of one kind than this are only counted.
const OF_A_KIND_MAX: usize = 5;
/// Rules that overlap can make up more cells than can be looked at; the overlaps are then enough.
const OVERLAPPING_CELLS_MAX: usize = 20_000;

/// All findings about a file, section by section.
pub(super) fn file(file: &RuleFile) -> Vec<Finding> {
    file.sections.iter().flat_map(|section| Lint::of(section.set(), Some(section))).collect()
}

/// All findings about one rule set, errors first, in the order of its rules.
pub fn set(set: &RuleSet) -> Vec<Finding> {
    Lint::of(set, None)
}

/// A set that is right but cannot be numbered in the compiled form.
pub(super) fn too_large(rules: usize) -> Finding {
    Finding {
        severity: Severity::Error,
        place: None,
        rule: None,
        message: format!("{rules} rules lie so that no lookup can be made of them"),
        remedy: "use fewer rules: `afflux rules simplify` may help".to_owned(),
    }
}

struct Lint<'a> {
    set: &'a RuleSet,
    section: Option<&'a Section>,
    findings: Vec<Finding>,
}

impl<'a> Lint<'a> {
    fn of(set: &'a RuleSet, section: Option<&'a Section>) -> Vec<Finding> {
        let mut lint = Self { set, section, findings: Vec::new() };
        lint.settings();
        for (index, rule) in set.rules.iter().enumerate() {
            lint.region(index, &rule.region);
            lint.action(index, rule);
        }
        let overlapping = lint.overlaps();
        lint.gaps(overlapping);
        lint.findings.sort_by_key(|finding| (finding.severity, finding.place));
        lint.findings
    }

    fn add(&mut self, severity: Severity, rule: Option<usize>, message: String, remedy: &str) {
        let place = match (self.section, rule) {
            (Some(section), Some(index)) => section.rule_place(index),
            (Some(section), None) => section.place(),
            (None, _) => None,
        };
        self.findings.push(Finding { severity, place, rule, message, remedy: remedy.to_owned() });
    }

    fn error(&mut self, rule: Option<usize>, message: String, remedy: &str) {
        self.add(Severity::Error, rule, message, remedy);
    }

    fn warning(&mut self, rule: Option<usize>, message: String, remedy: &str) {
        self.add(Severity::Warning, rule, message, remedy);
    }

    /// The name of a rule in messages: its number, and its line if there is one.
    fn called(&self, index: usize) -> String {
        let place = self.section.and_then(|section| section.rule_place(index));
        let line = place.map(|place| format!(" (line {})", place.line));
        format!("rule {}{}", index + 1, line.unwrap_or_default())
    }

    fn settings(&mut self) {
        let most = self.set.window_max;
        if !most.is_finite() || most < 1.0 {
            let message = format!("the largest window is {}", write_number(most));
            self.error(None, message, "write a number of at least 1: a path may always send one");
        } else if most > RuleSet::WINDOW_MAX {
            let (most, usual) = (write_number(most), write_number(RuleSet::WINDOW_MAX));
            let message = format!("the largest window, {most}, is over {usual}");
            self.warning(None, message, "such windows hold nothing back; write a smaller one");
        }
        if self.set.window_changes_per_s == 0 {
            let remedy = "write at least 1 change/s; a window that never changes is written \
                          `window unchanged`";
            self.error(None, "the window may change 0 times a second".to_owned(), remedy);
        }
    }

    fn region(&mut self, index: usize, region: &Region) {
        let called = self.called(index);
        if is_empty(region) {
            let remedy = "put the smaller bound first, or remove the rule";
            self.error(Some(index), format!("{called} has an empty box: {region}"), remedy);
        } else if region.is_unreachable() {
            let below = (0..COUNT).filter(|&axis| region.high[axis] <= INDICATORS[axis].floor);
            let names: Vec<&str> = below.map(|axis| INDICATORS[axis].name).collect();
            let names = names.join(" and ");
            let message = format!("{called} never matches: {names} is never that small");
            let remedy = "let a neighbour's box take its place, or leave it: it does no harm";
            self.warning(Some(index), message, remedy);
        }
    }

    fn action(&mut self, index: usize, rule: &Rule) {
        let called = self.called(index);
        let numbers = [("factor", rule.action.multiply), ("term", Some(rule.action.add))];
        let usual = [MULTIPLY_USUAL, ADD_USUAL];
        for ((name, number), [least, most]) in numbers.into_iter().zip(usual) {
            let Some(number) = number else {
                continue;
            };
            let text = write_number(number);
            if !number.is_finite() {
                let message = format!("the {name} of {called} is {text}");
                self.error(Some(index), message, "write a finite number");
            } else if !(least..=most).contains(&number) {
                let message =
                    format!("the {name} of {called}, {text}, is outside [{least}, {most}]");
                let remedy = if name == "factor" && number < 0.0 {
                    "a factor below 0 sends the window to its least; to leave the window \
                     unmultiplied, write no `*`"
                } else {
                    "check that it is meant: the window then moves in leaps"
                };
                self.warning(Some(index), message, remedy);
            }
        }
        match rule.action.gap {
            Gap::OfAck(fraction) if !fraction.is_finite() || fraction < 0.0 => {
                let message = format!("the gap of {called} is {}", rule.action.gap);
                self.error(Some(index), message, "write a finite fraction of at least 0");
            }
            Gap::Time(span) if span > GAP_USUAL_MAX => {
                let message = format!("the gap of {called}, {}, is over 70ms", rule.action.gap);
                self.warning(Some(index), message, "check that so slow a pace is meant");
            }
            _ => {}
        }
    }

    /// Reports pairs of rules that share states, and says whether there are any.
    fn overlaps(&mut self) -> bool {
        let rules = &self.set.rules;
        let mut pairs = Vec::new();
        let mut count = 0_usize;
        for (second, rule) in rules.iter().enumerate() {
            for (first, other) in rules[..second].iter().enumerate() {
                if let Some(shared) = rule.region.intersection(&other.region) {
                    count += 1;
                    if pairs.len() < OF_A_KIND_MAX {
                        pairs.push((first, second, shared));
                    }
                }
            }
        }
        for &(first, second, shared) in &pairs {
            let (second_called, first_called) = (self.called(second), self.called(first));
            let state = example(&shared);
            let message = format!(
                "{second_called} overlaps {first_called} in {shared}, for example at {}",
                State(&state)
            );
            self.error(Some(second), message, "cut one of the two boxes so that they only touch");
        }
        if count > pairs.len() {
            let message = format!("{} more pairs of rules overlap", count - pairs.len());
            self.error(None, message, "correct those shown first, then check again");
        }
        count > 0
    }

    /// Reports boxes that no rule covers.
    fn gaps(&mut self, overlapping: bool) {
        let filled = self.set.rules.iter().map(|rule| rule.region);
        let boxes: Vec<Region> = filled.filter(|region| !is_empty(region)).collect();
        let cells_max = if overlapping { OVERLAPPING_CELLS_MAX } else { usize::MAX };
        let mut gaps = take_apart(&boxes, cells_max).gaps;
        // A gap comes in as many cells as its neighbours cut it into; a hundred show what is meant.
        gaps.truncate(100);
        join_all(&mut gaps);
        for gap in gaps.iter().take(OF_A_KIND_MAX) {
            let state = example(gap);
            let message = format!("no rule covers {gap}, for example {}", State(&state));
            let remedy = if gap.is_unreachable() {
                "let the rule above it begin at 0 (write `<` alone): boxes cover the whole space, \
                 even where the indicator never goes"
                    .to_owned()
            } else {
                format!("add a rule such as `{gap} -> window unchanged`, or let a neighbour grow")
            };
            self.error(None, message, &remedy);
        }
        if gaps.len() > OF_A_KIND_MAX {
            let message =
                format!("no rule covers at least {} more boxes", gaps.len() - OF_A_KIND_MAX);
            self.error(None, message, "add rules for those shown first, then check again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::testing::{corners, holders, partition};
    use super::*;
    use crate::indicator::Signals;
    use crate::rules::{Action, Hits, UNBOUNDED};
    use proptest::prelude::*;

    fn findings(rules: &str) -> Vec<Finding> {
        RuleFile::parse(&format!("afflux rules 1\nfor all:\n{rules}")).unwrap().lint()
    }

    fn only(rules: &str) -> Finding {
        let mut all = findings(rules);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn is_partition(set: &RuleSet) -> bool {
        let about_space = |finding: &Finding| {
            ["overlap", "no rule", "empty"].iter().any(|word| finding.message.contains(word))
        };
        !super::set(set).iter().any(about_space)
    }

    #[test]
    fn a_gap_is_shown_by_an_example() {
        let gap = only("ack_ewma < 41ms -> window + 1\nack_ewma >= 48ms -> window - 1\n");
        assert_eq!(
            (gap.severity, gap.place),
            (Severity::Error, Some(Place { line: 2, column: 1 }))
        );
        let message = "no rule covers ack_ewma in [41ms, 48ms), for example ack_ewma 41ms, \
                       send_ewma 0ms, pt_ratio 1";
        assert_eq!(gap.message, message);
        assert!(gap.remedy.contains("`ack_ewma in [41ms, 48ms) -> window unchanged`"));
    }

    #[test]
    fn a_gap_below_a_floor_says_how_to_write_it() {
        let gap = only("pt_ratio in [1, 2) -> window + 1\npt_ratio >= 2 -> window - 1\n");
        assert!(gap.message.contains("pt_ratio < 1"), "{gap}");
        assert!(gap.remedy.contains("begin at 0"), "{gap}");
    }

    #[test]
    fn an_overlap_names_both_lines() {
        let overlap = only("  pt_ratio < 3 -> window + 1\n  pt_ratio >= 2 -> window - 1\n");
        assert_eq!(overlap.place, Some(Place { line: 4, column: 3 }));
        let expected = "rule 2 (line 4) overlaps rule 1 (line 3) in pt_ratio in [2, 3), for \
                        example at ack_ewma 0ms, send_ewma 0ms, pt_ratio 2";
        assert_eq!(overlap.message, expected);
    }

    #[test]
    fn odd_numbers_are_warnings() {
        let text = "window at most 300, at most 2 changes/s\nany -> window * 3 - 9, gap 71ms\n";
        let all = findings(text);
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all.iter().all(|finding| finding.severity == Severity::Warning));
        assert!(only("any -> window * -1\n").remedy.contains("write no `*`"));
        assert!(findings("any -> window unchanged\n").is_empty());
        let text = "pt_ratio < 0.5 -> window + 1\npt_ratio >= 0.5 -> window - 1\n";
        assert!(only(text).message.contains("rule 1 (line 3) never matches: pt_ratio"));
    }

    #[test]
    fn impossible_numbers_are_errors() {
        let mut set = RuleSet::uniform(Action {
            multiply: Some(f64::NAN),
            add: f64::INFINITY,
            gap: Gap::OfAck(-0.5),
        });
        set.window_max = 0.5;
        set.window_changes_per_s = 0;
        let all = super::set(&set);
        assert_eq!(all.len(), 5, "{all:?}");
        assert!(all.iter().all(|finding| finding.severity == Severity::Error));
    }

    #[test]
    fn an_empty_box_and_an_empty_set_are_errors() {
        let all = findings("ack_ewma in [48ms, 41ms) -> window + 1\nany -> window - 1\n");
        assert!(all[0].message.contains("empty box: ack_ewma in [48ms, 41ms)"), "{all:?}");
        assert!(only("").message.contains("no rule covers any"));
    }

    #[test]
    fn a_thousand_rules_are_checked_quickly_even_when_they_overlap() {
        let rule = |low: Signals, high: Signals| Rule {
            region: Region { low, high },
            action: Action::NONE,
            hits: Hits::default(),
        };
        // Slabs across each other: their cells would be far more than the rules.
        let slab = |n: u64| {
            let mut region = Region::ALL;
            let axis = (n % 3) as usize;
            region.low[axis] = n * 10;
            region.high[axis] = n * 10 + 5;
            rule(region.low, region.high)
        };
        let mut set = RuleSet::uniform(Action::NONE);
        set.rules = (1..1_000).map(slab).collect();
        assert!(!is_partition(&set));
        // A comb of a thousand boxes, one of which is missing.
        let tooth = |n: u64| {
            let high = if n == 31 { UNBOUNDED } else { (n + 1) * 7 };
            (n * 7, high)
        };
        set.rules = (0..1_024)
            .map(|n| {
                let ((a, b), (c, d)) = (tooth(n % 32), tooth(n / 32));
                rule([a, c, 0], [b, d, UNBOUNDED])
            })
            .collect();
        assert!(is_partition(&set));
        let gone = set.rules.swap_remove(500);
        let shown = super::set(&set);
        assert_eq!(shown.len(), 1);
        assert!(shown[0].message.contains(&gone.region.to_string()), "{}", shown[0]);
    }

    proptest! {
        #[test]
        fn partitions_pass_and_anything_less_or_more_does_not(
            set in partition(30),
            pick in any::<usize>(),
            points in prop::collection::vec(any::<Signals>(), 16),
        ) {
            prop_assert!(is_partition(&set));
            for state in points.iter().chain(&corners(&set)) {
                prop_assert_eq!(holders(&set, state), 1);
            }
            let mut less = set.clone();
            let gone = less.rules.swap_remove(pick % set.rules.len());
            prop_assert!(!is_partition(&less));
            let mut more = set.clone();
            more.rules.push(gone);
            prop_assert!(!is_partition(&more));
        }
    }
}
