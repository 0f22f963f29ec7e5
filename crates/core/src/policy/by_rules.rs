//! The policy that follows a rule set (ASCAR, section III-D).

use super::{Decision, Policy, Seen};
use crate::rules::{Action, Compiled, LintError, RuleSet};
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
