//! Where a scenario named on the command line comes from, and what is changed in it.

use afflux_core::nearest::nearest;
use afflux_core::setting::Setting;
use afflux_sim::Scenario;
use afflux_sim::scenario::{SHIPPED, shipped};

use crate::failure::Failure;
use crate::settings;

/// A scenario with its file.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// As it was named.
    pub(crate) name: String,
    /// The text of its file.
    pub(crate) text: String,
    /// What the text says.
    pub(crate) scenario: Scenario,
}

impl Loaded {
    /// With `section.key=value` overrides.
    pub(crate) fn with(self, overrides: &[impl AsRef<str>]) -> Result<Self, Failure> {
        let scenario = self.scenario.with(overrides).map_err(Failure::input)?;
        Ok(Self { scenario, ..self })
    }
}

/// The shipped scenario of that name, or the scenario file at that path.
pub(crate) fn load(name: &str) -> Result<Loaded, Failure> {
    let name = name.to_owned();
    if let Some(one) = shipped(&name) {
        return Ok(Loaded { name, text: one.text.to_owned(), scenario: one.scenario() });
    }
    let text = std::fs::read_to_string(&name).map_err(|error| {
        let known: Vec<_> = SHIPPED.iter().map(|one| one.name).collect();
        let meant = nearest(&name, known.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
        Failure::input(format!(
            "`{name}` is no shipped scenario, and as a file it cannot be read: {error}\n\
             hint: {meant}shipped are {}",
            known.join(", ")
        ))
    })?;
    let scenario = Scenario::parse(&text);
    let scenario = scenario.map_err(|error| Failure::input(format!("{name}: {error}")))?;
    Ok(Loaded { name, text, scenario })
}

/// What stands after `sim:` in a target: a scenario, and overrides after commas.
pub(crate) fn load_with(spec: &str) -> Result<Loaded, Failure> {
    let parts = parts(spec);
    let (name, overrides) =
        parts.split_first().filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Failure::input(
                "`sim:` needs a scenario: write sim:contended, sim:FILE or \
                 sim:contended,servers.count=2; `afflux sim` lists those that are shipped",
            )
        })?;
    load(name)?.with(overrides)
}

/// Cuts `contended,servers.count=2` at its commas. A piece that does not begin with a key belongs
/// to the piece before it, since values such as `hdd:elevator=fifo,depth=1` have commas too.
fn parts(spec: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in spec.split(',') {
        match parts.last_mut() {
            Some(last) if !begins_with_key(piece) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => parts.push(piece.to_owned()),
        }
    }
    parts
}

/// Whether `section.key=` stands at its beginning; `workload=` is a key without a section.
fn begins_with_key(piece: &str) -> bool {
    let Some((key, _)) = piece.split_once('=') else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    key == "workload" || (key.contains('.') && key.chars().all(is_plain))
}

/// The setting that a scenario names, with rule files read.
pub(crate) fn setting_of(scenario: &Scenario) -> Result<Setting, Failure> {
    let setting = &scenario.policy.setting;
    settings::parse(setting).map_err(|failure| match failure {
        Failure::Input(what) => Failure::input(format!("policy.setting = \"{setting}\": {what}")),
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_stand_after_commas_and_values_may_have_some() {
        let spec =
            "contended,servers.device=hdd:elevator=fifo,depth=1,workload=seq-read,run.length=3s";
        let expected = [
            "contended",
            "servers.device=hdd:elevator=fifo,depth=1",
            "workload=seq-read",
            "run.length=3s",
        ];
        assert_eq!(parts(spec), expected);
        assert_eq!(parts("a,b.toml"), ["a,b.toml"]);
        let loaded = load_with(spec).unwrap();
        assert_eq!(loaded.scenario.applications[0].workload.name, "seq-read");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        let said = |spec| load_with(spec).unwrap_err().to_string();
        assert!(said("").contains("sim:contended"), "{}", said(""));
        assert!(said("contented").contains("did you mean `contended`?"), "{}", said("contented"));
        assert!(said("contended,servers.conut=2").contains("did you mean `count`?"));
    }
}
