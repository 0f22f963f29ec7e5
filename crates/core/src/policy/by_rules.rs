//! The policy that follows a rule set (ASCAR, section III-D).

use super::{Decision, Policy, Seen, Words, name_word};
use crate::rules::{Action, Compiled, Gap, LintError, RuleSet, walk};
use crate::units::Span;

/// Looks each reply up in a rule set and proposes its action.
///
/// It never changes: to put other rules in force, a driver swaps the whole controller and keeps the
/// states of its paths, as the window carries over from one rule set to the next.
pub struct ByRules {
    name: String,
    actions: Vec<Action>,
    lookup: Compiled,
    window_max: f64,
    window_interval: Span,
}

impl ByRules {
    /// The policy of `rules`, which reports call `name`.
    ///
    /// # Errors
    /// The rules leave a gap or overlap.
    pub fn new(name: &str, rules: &RuleSet) -> Result<Self, LintError> {
        Ok(Self {
            name: name.to_owned(),
            actions: rules.rules.iter().map(|rule| rule.action).collect(),
            lookup: Compiled::new(rules)?,
            window_max: rules.window_max,
            window_interval: Span::from_nanos(
                1_000_000_000 / u64::from(rules.window_changes_per_s.max(1)),
            ),
        })
    }
}

impl Policy for ByRules {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn words(&self) -> Vec<u64> {
        let (root, nodes) = self.lookup.words();
        let mut words = vec![
            NAME,
            self.window_max.to_bits(),
            self.window_interval.as_nanos(),
            root,
            self.lookup.node_count() as u64,
            self.actions.len() as u64,
        ];
        words.extend(nodes);
        for action in &self.actions {
            // Not a number stands for no factor, since no rule can have it.
            words.push(action.multiply.unwrap_or(f64::NAN).to_bits());
            words.push(action.add.to_bits());
            words.extend(action.gap.to_words());
        }
        words
    }

    fn on_reply(&self, _: &mut [u32; 2], seen: &Seen<'_>) -> Decision {
        let rule = self.lookup.lookup(seen.signals);
        let action = &self.actions[rule];
        Decision {
            window: Some(action.window_after(seen.window)),
            window_max: Some(self.window_max),
            gap: Some(action.gap),
            rule: Some(rule as u32),
        }
    }

    fn window_interval(&self) -> Span {
        self.window_interval
    }
}

/// The first of a rule set's words.
pub(super) const NAME: u64 = name_word("rules");

const NODES: usize = 6;
const ACTION: usize = 4;

/// The same policy, read from [`Policy::words`] of a [`ByRules`] each time.
pub(super) struct RulesIn<'a, W>(pub(super) &'a W);

impl<W: Words> Policy for RulesIn<'_, W> {
    fn name(&self) -> String {
        "rules".to_owned()
    }

    fn words(&self) -> Vec<u64> {
        let [nodes, actions] = [self.count(4), self.count(5)];
        (0..NODES + 2 * nodes + ACTION * actions).map(|at| self.0.word(at)).collect()
    }

    fn on_reply(&self, _: &mut [u32; 2], seen: &Seen<'_>) -> Decision {
        let [nodes, actions] = [self.count(4), self.count(5)];
        let node = |at| self.0.word(NODES + at);
        let rule = walk(self.0.word(3), nodes, node, seen.signals);
        if rule >= actions {
            return Decision::KEEP;
        }
        let at = NODES + 2 * nodes + ACTION * rule;
        let multiply = f64::from_bits(self.0.word(at));
        let action = Action {
            multiply: (!multiply.is_nan()).then_some(multiply),
            add: f64::from_bits(self.0.word(at + 1)),
            gap: Gap::from_words([self.0.word(at + 2), self.0.word(at + 3)]),
        };
        Decision {
            window: Some(action.window_after(seen.window)),
            window_max: Some(f64::from_bits(self.0.word(1))),
            gap: Some(action.gap),
            rule: Some(rule as u32),
        }
    }

    fn window_interval(&self) -> Span {
        Span::from_nanos(self.0.word(2))
    }
}

impl<W: Words> RulesIn<'_, W> {
    /// A number that others may have scribbled over, made small enough to count with.
    fn count(&self, at: usize) -> usize {
        self.0.word(at).min(1 << 20) as usize
    }
}
