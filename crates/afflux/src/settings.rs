//! Settings as the command line gives them, rule files included.

use std::cell::RefCell;

use afflux_core::rules::{RuleFile, SHIPPED, shipped};
use afflux_core::setting::Setting;

use crate::failure::Failure;

/// Flags that say how traffic is regulated.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SettingFlags {
    /// Policy: none, fixed:8, fixed:4,gap=33ms, aimd, gradient, or a whole setting such as
    /// read=fixed:2+fan-in=8
    #[arg(long, value_name = "POLICY", default_value = "none")]
    policy: String,
    /// Rule file, or shipped:NAME for one that comes with Afflux
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    rules: Option<String>,
    /// Requests that a client may have in flight over all its servers
    #[arg(long, value_name = "N")]
    fan_in: Option<u32>,
}

impl SettingFlags {
    /// The setting that the flags make.
    pub(crate) fn setting(&self) -> Result<Setting, Failure> {
        let mut text = match &self.rules {
            Some(name) if name.starts_with("shipped:") => name.clone(),
            Some(path) => format!("rules:{path}"),
            None => self.policy.clone(),
        };
        if let Some(fan_in) = self.fan_in {
            text = format!("{text}+fan-in={fan_in}");
        }
        parse(&text)
    }
}

/// Reads a setting; rule files in it are read, too.
pub(crate) fn parse(text: &str) -> Result<Setting, Failure> {
    Setting::parse(text, &load_rules).map_err(Failure::input)
}

/// The rule files in a setting, with their names and in the order in which they are followed.
pub(crate) fn rule_files(text: &str) -> Result<Vec<(String, RuleFile)>, Failure> {
    let found = RefCell::new(Vec::new());
    let load = |name: &str| {
        let file = load_rules(name)?;
        found.borrow_mut().push((name.to_owned(), file.clone()));
        Ok(file)
    };
    Setting::parse(text, &load).map_err(Failure::input)?;
    Ok(found.into_inner())
}

/// The rules behind a file name or `shipped:NAME`, refused unless they are a partition.
fn load_rules(name: &str) -> Result<RuleFile, String> {
    let text = match name.strip_prefix("shipped:") {
        Some(name) => {
            let known: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
            let unknown =
                || format!("no rules `{name}` are shipped: use one of {}", known.join(", "));
            shipped(name).ok_or_else(unknown)?.to_owned()
        }
        None => std::fs::read_to_string(name)
            .map_err(|error| format!("cannot read the rules in {name}: {error}"))?,
    };
    RuleFile::checked(&text).map_err(|error| format!("{name}: {error}"))
}
