//! Rule sets that come with Afflux.
//!
//! To ship another, write its file in `crates/core/rules` and add its line to [`SHIPPED`].

/// Names and texts of the rule files that come with Afflux.
///
/// Their factors are below 1: such a rule takes the window to `b / (1 - m)` from wherever it is, so
/// that all clients end up alike. Each aims a little above a whole number, since windows are used
/// rounded down and are approached from below as well.
pub static SHIPPED: &[(&str, &str)] = &[
    ("calm-2", include_str!("../../rules/calm-2.rules")),
    ("calm-4", include_str!("../../rules/calm-4.rules")),
    ("paced", include_str!("../../rules/paced.rules")),
    ("two-step", include_str!("../../rules/two-step.rules")),
    ("deep", include_str!("../../rules/deep.rules")),
    ("reads-first", include_str!("../../rules/reads-first.rules")),
];

/// The text of the shipped rule file of that name.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::rules::{Compiled, RuleFile};

    fn file(name: &str) -> RuleFile {
        RuleFile::checked(shipped(name).unwrap()).unwrap()
    }

    /// The window after 200 changes in one state.
    fn settles(name: &str, class: Class, pt_ratio: u64, start: f64) -> f64 {
        let file = file(name);
        let set = file.set(class).unwrap();
        let rule = &set.rules[Compiled::new(set).unwrap().lookup(&[0, 0, pt_ratio])];
        let changed = (0..200)
            .fold(start, |window, _| rule.action.window_after(window).clamp(1.0, set.window_max));
        changed.floor()
    }

    #[test]
    fn all_are_named_told_about_and_without_findings() {
        for (name, text) in SHIPPED {
            let file = RuleFile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(file.lint(), [], "{name}");
            assert_eq!(file.name.as_deref(), Some(*name));
            assert!(file.about.is_some_and(|about| about.len() > 40), "{name}");
        }
        assert_eq!(shipped("no-such"), None);
    }

    #[test]
    fn they_settle_where_they_say_from_both_sides() {
        let expected = [
            ("calm-2", 1_000, 2.0),
            ("calm-4", 1_000, 4.0),
            ("paced", 1_000, 8.0),
            ("two-step", 1_000, 8.0),
            ("two-step", 9_000, 3.0),
            ("deep", 1_000, 24.0),
            ("reads-first", 9_000, 2.0),
            ("reads-first", 1_000, 8.0),
        ];
        for (name, pt_ratio, window) in expected {
            for start in [1.0, 8.0, 200.0] {
                let settled = settles(name, Class::Write, pt_ratio, start);
                assert_eq!(settled, window, "{name} at {pt_ratio} from {start}");
            }
        }
        assert!(file("reads-first").set(Class::Read).is_none());
    }
}
