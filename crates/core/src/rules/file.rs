//! A rule file: rule sets for classes of requests, and where they come from.

use super::lint::{self, Finding, LintError, Severity};
use super::text::ParseErrors;
use super::{Rule, RuleSet};
use crate::class::{Class, Classes};

/// What one rule file says.
///
/// Classes that no section names have no rules: their requests pass through.
///
/// ```
/// use afflux_core::class::Class;
/// use afflux_core::rules::RuleFile;
///
/// let file = RuleFile::checked("afflux rules 1\nfor read:\n  any -> window * 0.5 + 1\n").unwrap();
/// assert_eq!(file.set(Class::Read).unwrap().rules.len(), 1);
/// assert!(file.set(Class::Write).is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleFile {
    /// A short name for lists and reports.
    pub name: Option<String>,
    /// What the rules are for.
    pub about: Option<String>,
    /// Where the rules come from, as keys and values, in the order of the file; no key twice.
    pub provenance: Vec<(String, String)>,
    /// The rule sets; no class stands in two of them.
    pub sections: Vec<Section>,
}

/// A rule set and the classes of requests that it is for.
#[derive(Clone, Debug)]
pub struct Section {
    /// Which requests meet these rules; not empty.
    pub classes: Classes,
    set: RuleSet,
    place: Option<Place>,
    rule_places: Vec<Place>,
}

/// Where something stands in a text, in lines and characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl PartialEq for Section {
    /// Where a rule stood is no part of what it says.
    fn eq(&self, other: &Self) -> bool {
        self.classes == other.classes && self.set == other.set
    }
}

impl Section {
    /// A section that no text was read for.
    pub fn new(classes: Classes, set: RuleSet) -> Self {
        Self { classes, set, place: None, rule_places: Vec::new() }
    }

    /// An empty section whose head was read at `place`.
    pub(super) fn begun(classes: Classes, place: Place) -> Self {
        let set = RuleSet {
            rules: Vec::new(),
            window_changes_per_s: RuleSet::WINDOW_CHANGES_PER_S,
            window_max: RuleSet::WINDOW_MAX,
        };
        Self { classes, set, place: Some(place), rule_places: Vec::new() }
    }

    /// Adds a rule that was read at `place`.
    pub(super) fn push(&mut self, rule: Rule, place: Place) {
        self.set.rules.push(rule);
        self.rule_places.push(place);
    }

    /// Takes the section's settings as they were read.
    pub(super) fn settings(&mut self, window_max: f64, changes_per_s: u32) {
        self.set.window_max = window_max;
        self.set.window_changes_per_s = changes_per_s;
    }

    /// Its rules.
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Puts other rules in their place; findings about them no longer name lines.
    pub fn replace(&mut self, set: RuleSet) {
        self.set = set;
        self.rule_places.clear();
    }

    /// Where the head of the section stood, if it was read from a text.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// Where the rule of that index stood, if it was read from a text.
    pub fn rule_place(&self, index: usize) -> Option<Place> {
        self.rule_places.get(index).copied()
    }
}

impl RuleFile {
    /// The one version of the text format so far.
    pub const VERSION: u64 = 1;

    /// Reads the text format; what the rules mean is left to [`RuleFile::lint`].
    ///
    /// # Errors
    /// Everything that could not be read, line by line, with a remedy each.
    pub fn parse(text: &str) -> Result<Self, ParseErrors> {
        super::text::parse(text)
    }

    /// Reads the text format and refuses rules that are not a partition or otherwise wrong.
    ///
    /// # Errors
    /// What could not be read, or the findings that are errors.
    pub fn checked(text: &str) -> Result<Self, RuleFileError> {
        let file = Self::parse(text)?;
        let mut findings = file.lint();
        findings.retain(|finding| finding.severity == Severity::Error);
        if findings.is_empty() { Ok(file) } else { Err(LintError { findings }.into()) }
    }

    /// All that is wrong or odd about the rules, errors first within each section.
    pub fn lint(&self) -> Vec<Finding> {
        lint::file(self)
    }

    /// The rules for requests of `class`, if there are any.
    pub fn set(&self, class: Class) -> Option<&RuleSet> {
        self.section(class).map(Section::set)
    }

    /// The section that names `class`, if one does.
    pub fn section(&self, class: Class) -> Option<&Section> {
        self.sections.iter().find(|section| section.classes.contains(class))
    }

    /// The value kept under `key`.
    pub fn provenance(&self, key: &str) -> Option<&str> {
        let found = self.provenance.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    }
}

/// A rule file that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RuleFileError {
    /// It cannot be read.
    #[error(transparent)]
    Parse(#[from] ParseErrors),
    /// It can be read, but its rules are wrong.
    #[error(transparent)]
    Lint(#[from] LintError),
}
