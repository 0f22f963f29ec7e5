//! Scenarios that come with Afflux.
//!
//! To ship another, write its file in `scenarios` and add its line to [`SHIPPED`].

use super::Scenario;

/// A scenario that comes with Afflux.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// All of them, in the order in which they are listed.
pub static SHIPPED: &[Shipped] = &[
    Shipped { name: "contended", text: include_str!("../../../../scenarios/contended.toml") },
    Shipped { name: "incast", text: include_str!("../../../../scenarios/incast.toml") },
    Shipped { name: "ascar", text: include_str!("../../../../scenarios/ascar.toml") },
    Shipped { name: "burst-buffer", text: include_str!("../../../../scenarios/burst-buffer.toml") },
    Shipped { name: "credits-1024", text: include_str!("../../../../scenarios/credits-1024.toml") },
    Shipped {
        name: "server-grouping",
        text: include_str!("../../../../scenarios/server-grouping.toml"),
    },
    Shipped {
        name: "server-grouping-mix",
        text: include_str!("../../../../scenarios/server-grouping-mix.toml"),
    },
    Shipped {
        name: "server-grouping-popular",
        text: include_str!("../../../../scenarios/server-grouping-popular.toml"),
    },
    Shipped { name: "stcs", text: include_str!("../../../../scenarios/stcs.toml") },
];

/// The shipped scenario of that name.
pub fn shipped(name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|one| one.name == name)
}

impl Shipped {
    /// The scenario; the tests see to it that it can be read, so this has no error.
    pub fn scenario(&self) -> Scenario {
        let scenario = Scenario::parse(self.text);
        let mut scenario =
            scenario.expect("shipped scenarios are valid, as the tests below see to");
        self.name.clone_into(&mut scenario.origin.source);
        scenario
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers;

    #[test]
    fn every_shipped_scenario_is_valid_and_says_what_it_is() {
        for one in SHIPPED {
            let scenario =
                Scenario::parse(one.text).unwrap_or_else(|e| panic!("{}: {e}", one.name));
            assert_eq!(scenario.name, one.name);
            assert!(scenario.about.len() > 40, "{}", one.name);
            for figure in scenario.fitted.iter().chain(&scenario.published) {
                let said = format!("{}, {}", one.name, figure.name);
                let of =
                    scenario.clone().with(&figure.set).unwrap_or_else(|e| panic!("{said}: {e}"));
                numbers::check(&figure.metric, &of).unwrap_or_else(|e| panic!("{said}: {e}"));
                assert!(!figure.source.is_empty(), "{said}: no source");
            }
        }
        assert!(shipped("no-such").is_none());
    }
}
