//! Where a scenario came from, so that a run of it can be told and made again.

use super::Scenario;

/// Where a scenario came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The shipped scenario or the file, as it was named; empty where it is neither.
    pub source: String,
    /// The overrides that were applied to it since it was read.
    pub changed: Vec<String>,
}

impl Scenario {
    /// The command that runs it again, in a build that watches the invariants.
    pub(crate) fn command(&self, setting: &str, seed: u64) -> String {
        let source = &self.origin.source;
        let seed = seed.to_string();
        let known = if source.is_empty() { "FILE" } else { source };
        let changed = self.origin.changed.iter().flat_map(|one| ["--set", one]);
        let rest = ["--policy", setting, "--seed", &seed];
        let words = ["sim", known].into_iter().chain(changed).chain(rest);
        let command = format!("{WATCHING} {}", words.map(quoted).collect::<Vec<_>>().join(" "));
        if source.is_empty() {
            return format!("{command}, where FILE holds the scenario called `{}`", self.name);
        }
        command
    }
}

/// A build that watches the invariants, and the program that it builds.
pub(crate) const WATCHING: &str = "cargo run --package afflux --";

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_all_that_was_changed() {
        let scenario = Scenario::default().with(&["servers.count=2"]).unwrap();
        let mut scenario = scenario.with(&["workload=seq-read", "run.length=2s"]).unwrap();
        let unknown = scenario.command("none", 7);
        assert!(unknown.ends_with("where FILE holds the scenario called `default`"), "{unknown}");
        scenario.origin.source = "it's mine.toml".to_owned();
        assert_eq!(
            scenario.command("fixed:4,gap=33ms+turn=1s", 7),
            "cargo run --package afflux -- sim 'it'\\''s mine.toml' --set servers.count=2 --set \
             workload=seq-read --set run.length=2s --policy fixed:4,gap=33ms+turn=1s --seed 7"
        );
    }

    #[test]
    fn the_model_in_force_is_no_change() {
        let shipped = super::super::shipped("ascar").unwrap().scenario();
        assert_eq!(shipped.origin.changed, [""; 0]);
        let other = shipped.with_model("b").unwrap();
        assert_eq!(other.origin.changed, ["model=b"]);
    }
}
