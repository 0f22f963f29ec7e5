//! The best fixed setting of a target, as a start for rules.

use crate::policy;
use crate::rules::{Action, Gap, RuleSet};
use crate::search::sharp::ADD;
use crate::units::Span;

/// The fixed setting that did best, as the grid found it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestFixed {
    /// Its window.
    pub window: f64,
    /// Its gap.
    pub gap: Gap,
    /// The mean time between two replies on a path under it, where it is known.
    pub fair_gap: Option<Span>,
}

impl BestFixed {
    /// The fixed setting written as `text`; none when it is no policy that names a window.
    pub fn of(text: &str, fair_gap: Option<Span>) -> Option<Self> {
        let start = policy::parse(text).ok()?.start();
        Some(Self { window: start.window?, gap: start.gap.unwrap_or(Gap::NONE), fair_gap })
    }

    /// One rule whose window settles at that of the setting, with its gap in time. A search from
    /// there may come to windows twice as large, and to the paper's 30 at least.
    pub fn rules(&self) -> RuleSet {
        let in_time = Action { multiply: Some(1.0), ..Action::NONE };
        let window_max = (2.0 * self.window).clamp(30.0, RuleSet::WINDOW_MAX);
        RuleSet { window_max, ..RuleSet::uniform(self.settling(in_time)) }
    }

    /// An action like `like` whose window settles at that of the setting, with its gap.
    ///
    /// The window becomes `m * window + b` on and on, which ends at `b / (1 - m)`. The factor stays
    /// within the range of a search, and the goal is half a request above the window, since one
    /// that is approached from below would else be rounded down for ever. An action without a
    /// factor cannot settle anywhere; it takes the gap alone.
    fn settling(&self, like: Action) -> Action {
        let goal = self.window + 0.5;
        // The least factor for which the addend stays within its limit, in hundredths.
        let steepest = libm::ceil(100.0 * (1.0 - ADD.high as f64 / 100.0 / goal));
        let factor = steepest.clamp(50.0, 99.0) / 100.0;
        let add = libm::round(goal * (1.0 - factor) * 100.0) / 100.0;
        let share = self.fair_gap.map_or(0.0, |gap| gap.as_nanos() as f64);
        let gap = match (like.gap, self.gap) {
            (Gap::Time(_), Gap::OfAck(part)) => {
                Gap::Time(Span::from_micros((share * part / 1e3) as u64))
            }
            (Gap::OfAck(_), Gap::Time(span)) if share > 0.0 => {
                Gap::OfAck(libm::round(span.as_nanos() as f64 / share * 100.0) / 100.0)
            }
            (Gap::OfAck(_), Gap::Time(_)) => Gap::OfAck(0.0),
            (_, gap) => gap,
        };
        match like.multiply {
            Some(_) => Action { multiply: Some(factor), add, gap },
            None => Action { gap, ..like },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_settles_at_the_window() {
        for window in [1_u32, 2, 4, 8, 16, 32, 64] {
            let fixed = BestFixed::of(&format!("fixed:{window}"), None).unwrap();
            let action = fixed.settling(Action { multiply: Some(1.0), ..Action::NONE });
            let settled = (0..2_000).fold(8.0, |window, _| action.window_after(window));
            assert_eq!(settled as u32, window, "{action}");
            assert!((0.3..=2.0).contains(&action.multiply.unwrap()) && action.add <= 2.34);
            let rules = fixed.rules();
            assert!(rules.window_max >= 30.0 && rules.window_max >= 2.0 * f64::from(window));
            assert_eq!((rules.rules.len(), rules.rules[0].action), (1, action));
        }
        assert_eq!(BestFixed::of("none", None), None);
    }

    #[test]
    fn gaps_carry_over_by_the_fair_share() {
        let fixed = BestFixed::of("fixed:4,gap=0.9ack", Some(Span::from_millis(47))).unwrap();
        let timed = Action { gap: Gap::Time(Span::ZERO), ..Action::NONE };
        assert_eq!(fixed.settling(timed).gap, Gap::Time(Span::from_micros(42_300)));
        let fixed = BestFixed { gap: Gap::Time(Span::from_micros(23_500)), ..fixed };
        let of_ack = Action { gap: Gap::OfAck(0.5), ..Action::NONE };
        assert_eq!(fixed.settling(of_ack).gap, Gap::OfAck(0.5));
    }
}
