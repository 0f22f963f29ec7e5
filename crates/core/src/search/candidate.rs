//! Candidates: what a trial deploys.

use std::fmt;
use std::sync::Arc;

use crate::class::{Class, Classes};
use crate::rules::{Gap, Region, RuleFile, RuleSet, Section};
use crate::setting::{Setting, SettingError};

/// A setting or a rule set, with an identity that depends on what it does alone. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    what: Arc<What>,
    digest: Digest,
}

#[derive(Debug, PartialEq)]
enum What {
    Setting(String),
    Rules(RuleSet),
}

/// The identity of a candidate, the same on every machine and in every version: FNV-1a, 64 bits,
/// over a setting's text, or over the regions, actions and bounds of a rule set. What rules have
/// seen is no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u64);

impl fmt::Display for Digest {
    /// Sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Candidate {
    /// The setting that is written as `text`, see [`Setting::parse`]; it names no files.
    pub fn setting(text: &str) -> Self {
        let mut digest = Fnv::new();
        digest.take(b"setting");
        digest.take(text.as_bytes());
        Self { what: Arc::new(What::Setting(text.to_owned())), digest: Digest(digest.0) }
    }

    /// Reads and writes under `rules`, as in the original, whose rules know no classes.
    pub fn rules(rules: RuleSet) -> Self {
        let digest = digest_of(&rules);
        Self { what: Arc::new(What::Rules(rules)), digest }
    }

    /// Its identity.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its rules, when it is a rule set.
    pub fn rule_set(&self) -> Option<&RuleSet> {
        match &*self.what {
            What::Rules(rules) => Some(rules),
            What::Setting(_) => None,
        }
    }

    /// Its setting's text, or a short name of its rule set: how many rules, and its digest.
    pub fn label(&self) -> String {
        match &*self.what {
            What::Setting(text) => text.clone(),
            What::Rules(rules) => match &rules.rules[..] {
                [rule] => format!("{} ({})", rule.action, self.digest),
                rules => format!("{} rules ({})", rules.len(), self.digest),
            },
        }
    }

    /// Its rule file, when it is a rule set: one section for reads and writes.
    pub fn rule_file(&self) -> Option<RuleFile> {
        let rules = self.rule_set()?.clone();
        let data: Classes = [Class::Read, Class::Write].into_iter().collect();
        Some(RuleFile { sections: vec![Section::new(data, rules)], ..RuleFile::default() })
    }

    /// What a target deploys.
    ///
    /// # Errors
    /// The text is no setting, or the rules are no partition; no strategy here makes such.
    pub fn deployable(&self) -> Result<Setting, SettingError> {
        match &*self.what {
            What::Setting(text) => Setting::parse(text, &|name| {
                Err(format!("{name}: a search deploys the rules that it has, not those of a file"))
            }),
            What::Rules(_) => Setting::rules(&self.label(), &self.rule_file().unwrap_or_default()),
        }
    }
}

fn digest_of(rules: &RuleSet) -> Digest {
    let mut digest = Fnv::new();
    digest.take(b"rules");
    digest.word(u64::from(rules.window_changes_per_s));
    digest.number(rules.window_max);
    for rule in &rules.rules {
        let Region { low, high } = rule.region;
        low.iter().chain(&high).for_each(|&bound| digest.word(bound));
        match rule.action.multiply {
            None => digest.word(0),
            Some(factor) => {
                digest.word(1);
                digest.number(factor);
            }
        }
        digest.number(rule.action.add);
        match rule.action.gap {
            Gap::Time(span) => {
                digest.word(0);
                digest.word(span.as_nanos());
            }
            Gap::OfAck(fraction) => {
                digest.word(1);
                digest.number(fraction);
            }
        }
    }
    Digest(digest.0)
}

/// FNV-1a: simple enough that no version of anything will change it.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn word(&mut self, word: u64) {
        self.take(&word.to_le_bytes());
    }

    fn number(&mut self, number: f64) {
        // Minus zero does what zero does.
        self.word(if number == 0.0 { 0 } else { number.to_bits() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Action;
    use crate::units::Span;

    fn uniform(add: f64) -> RuleSet {
        let gap = Gap::Time(Span::from_millis(20));
        RuleSet::uniform(Action { multiply: None, add, gap })
    }

    #[test]
    fn the_identity_is_what_it_does_and_never_changes() {
        let one = Candidate::rules(uniform(0.0));
        assert_eq!(one.digest().to_string(), "697fd0f04024d1eb");
        assert_eq!(one.digest(), Candidate::rules(uniform(-0.0)).digest());
        let mut seen = uniform(0.0);
        seen.rules[0].hits.count = 7;
        assert_eq!(one.digest(), Candidate::rules(seen).digest());
        let others = [uniform(0.1), RuleSet { window_max: 30.0, ..uniform(0.0) }];
        for other in others {
            assert_ne!(one.digest(), Candidate::rules(other).digest());
        }
        assert_ne!(Candidate::setting("fixed:4").digest(), Candidate::setting("fixed:8").digest());
    }

    #[test]
    fn every_candidate_can_be_deployed() {
        let rules = Candidate::rules(uniform(0.3));
        let setting = rules.deployable().unwrap();
        assert_eq!(setting.label, rules.label());
        assert!(setting.label.starts_with("window + 0.3, gap 20ms ("), "{}", setting.label);
        let fixed = Candidate::setting("fixed:4,gap=0.9ack");
        let controller = fixed.deployable().unwrap();
        assert_eq!(controller.controller(Class::Write).start().window(), 4.0);
        assert!(Candidate::setting("rules:x").deployable().is_err());
    }
}
