//! The manual of the schema, made of its tables.

use std::fmt::Write;

use afflux_core::credits::PARAMETERS;
use afflux_core::parameters::Parameter;

use super::keys::{self, Key};

/// All sections and keys of a scenario, as Markdown tables.
pub fn manual() -> String {
    let mut text = String::new();
    section(&mut text, "[network]", keys::NETWORK);
    section(&mut text, "[servers]", keys::SERVERS);
    credits(&mut text);
    section(&mut text, "[clients]", keys::CLIENTS);
    section(&mut text, "[metadata]", keys::METADATA);
    section(&mut text, "[locks]", keys::LOCKS);
    section(&mut text, "[run]", keys::RUN);
    section(&mut text, "[policy]", keys::POLICY);
    section(&mut text, "[[application]]", keys::APPLICATION);
    section(&mut text, "[[fault]]", keys::FAULT);
    section(&mut text, "[[free]]", keys::FREE);
    section(&mut text, "[[model]]", keys::MODEL);
    section(&mut text, "[[fit]] and [[published]]", keys::FIGURE);
    text
}

fn section<T>(text: &mut String, name: &str, keys: &[Key<T>]) {
    // Writing into a String cannot fail.
    let _ = write!(text, "### `{name}`\n\n| key | takes | left out | means |\n|---|---|---|---|\n");
    for Key { name, takes, default, about, .. } in keys {
        let _ = writeln!(text, "| `{name}` | {takes} | {default} | {about} |");
    }
    text.push('\n');
}

/// What `credits` takes.
fn credits(text: &mut String) {
    text.push_str("### Options of `credits`\n\n| option | left out | means |\n|---|---|---|\n");
    for Parameter { name, default, about } in PARAMETERS {
        let default = if *name == "L_max" { "must be given" } else { default };
        let _ = writeln!(text, "| `{name}` | {default} | {about} |");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::value::Value;
    use super::super::{Application, Fault, Scenario};
    use super::*;

    #[test]
    fn every_key_is_told() {
        let manual = manual();
        for name in ["client_rate", "spindles", "fan_in", "handover", "settle", "factor", "source"]
        {
            assert!(manual.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn the_document_has_the_tables_as_they_are() {
        let document = include_str!("../../../../docs/scenarios.md");
        assert!(document.contains(&manual()), "put this into docs/scenarios.md:\n{}", manual());
    }

    /// A key set to the default that the table tells changes nothing.
    fn defaults<T: PartialEq + std::fmt::Debug + Clone>(keys: &[Key<T>], default: &T) {
        for key in keys.iter().filter(|key| !key.default.is_empty()) {
            let mut set = default.clone();
            (key.set)(&mut set, &Value::of_override(key.default))
                .unwrap_or_else(|error| panic!("{}: {error}", key.name));
            assert_eq!(set, *default, "{}", key.name);
        }
    }

    #[test]
    fn the_defaults_in_the_tables_are_the_defaults() {
        let scenario = Scenario::default();
        defaults(keys::NETWORK, &scenario.network);
        defaults(keys::SERVERS, &scenario.servers);
        defaults(keys::CLIENTS, &scenario.clients);
        defaults(keys::METADATA, &scenario.metadata);
        defaults(keys::LOCKS, &scenario.locks);
        defaults(keys::RUN, &scenario.run);
        defaults(keys::POLICY, &scenario.policy);
        defaults(keys::APPLICATION, &Application::default());
        defaults(keys::FAULT, &Fault::default());
    }
}
