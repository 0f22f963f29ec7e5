//! Settings: everything that traffic control is set to for one trial.
//!
//! A setting is written as items joined by `+`, which a shell leaves alone:
//!
//! | item | means |
//! |---|---|
//! | `none`, `fixed:4`, `fixed:8,gap=33ms`, `aimd`, ... | a policy for reads and writes |
//! | `read=fixed:2`, `write=...`, `metadata=...` | a policy for one class |
//! | `rules:FILE`, `shipped:NAME` | the policies of a rule file, for the classes that it names |
//! | `fan-in=4` | requests in flight over all paths of a client |
//! | `cap=16` | requests in flight on each path |
//! | `tenants=2` | clients belong to tenants 1, 2, 1, 2, ..., for servers that grant shares |
//! | `turn=300ms` | clients take turns at a server, in slots of this length |
//!
//! ```
//! use afflux_core::{class::Class, setting::Setting};
//! let no_files = |name: &str| Err(format!("no rules in this example: {name}"));
//! let setting = Setting::parse("read=fixed:2+fan-in=16", &no_files).unwrap();
//! assert_eq!(setting.fan_in, Some(16));
//! assert_eq!(setting.controller(Class::Read).start().window(), 2.0);
//! assert_eq!(setting.controller(Class::Write).start().window(), 8.0);
//! ```

use std::sync::Arc;

use crate::class::Class;
use crate::path::{Controller, Options};
use crate::policy::{self, ParameterError, by_rules::ByRules};
use crate::rules::RuleFile;
use crate::units::Span;

/// What traffic control is set to.
#[derive(Clone)]
pub struct Setting {
    /// As it was written.
    pub label: String,
    /// Requests that a client may have in flight over all its paths.
    pub fan_in: Option<u32>,
    /// Requests that a path may have in flight whatever its policy says.
    pub cap: Option<u32>,
    /// Tenants that the clients belong to in turn; `None` leaves them without.
    pub tenants: Option<u32>,
    /// Length of a slot in which one client may send to a server.
    pub turn_slot: Option<Span>,
    controllers: [Arc<Controller>; Class::ALL.len()],
}

/// A setting that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A policy in it is wrong.
    #[error(transparent)]
    Policy(#[from] ParameterError),
    /// A rule file in it cannot be used.
    #[error("{0}")]
    Rules(String),
    /// An item is neither a policy nor a limit with a good value.
    #[error("`{item}` in the setting `{setting}`: {expected}")]
    Item {
        /// The item.
        item: String,
        /// All of it.
        setting: String,
        /// What it should be.
        expected: String,
    },
}

impl Setting {
    /// The baseline: nothing is regulated beyond the default window.
    pub fn none() -> Self {
        let controller = Arc::new(Controller::new(Options::default(), policy::none()));
        Self {
            label: "none".to_owned(),
            fan_in: None,
            cap: None,
            tenants: None,
            turn_slot: None,
            controllers: std::array::from_fn(|_| Arc::clone(&controller)),
        }
    }

    /// A setting that follows a rule file.
    pub fn rules(label: &str, file: &RuleFile) -> Result<Self, SettingError> {
        let mut setting = Self { label: label.to_owned(), ..Self::none() };
        setting.follow(label, file)?;
        Ok(setting)
    }

    /// Reads a setting. `load` reads the rule file behind `rules:FILE` or `shipped:NAME`.
    pub fn parse(
        text: &str,
        load: &dyn Fn(&str) -> Result<RuleFile, String>,
    ) -> Result<Self, SettingError> {
        let mut setting = Self { label: text.to_owned(), ..Self::none() };
        for item in text.split('+') {
            setting.take(item, text, load)?;
        }
        Ok(setting)
    }

    /// The controller of the paths of `class`.
    pub fn controller(&self, class: Class) -> &Arc<Controller> {
        &self.controllers[class.index()]
    }

    fn take(
        &mut self,
        item: &str,
        setting: &str,
        load: &dyn Fn(&str) -> Result<RuleFile, String>,
    ) -> Result<(), SettingError> {
        let wrong = |expected: &str| SettingError::Item {
            item: item.to_owned(),
            setting: setting.to_owned(),
            expected: expected.to_owned(),
        };
        let count = |text: &str| match text.parse::<u32>() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(wrong("write a whole number from 1, as in fan-in=4")),
        };
        if item.starts_with("rules:") || item.starts_with("shipped:") {
            let name = item.strip_prefix("rules:").unwrap_or(item);
            return self.follow(name, &load(name).map_err(SettingError::Rules)?);
        }
        // A policy's own parameters also contain `=`, but only after its colon.
        match item.split_once('=').filter(|(name, _)| !name.contains(':')) {
            Some(("fan-in", value)) => self.fan_in = Some(count(value)?),
            Some(("cap", value)) => self.cap = Some(count(value)?),
            Some(("tenants", value)) => self.tenants = Some(count(value)?),
            Some(("turn", value)) => {
                let slot: Span = value.parse().map_err(|error| wrong(&format!("{error}")))?;
                if slot < Span::from_millis(1) {
                    return Err(wrong("a slot is at least 1ms"));
                }
                self.turn_slot = Some(slot);
            }
            Some((class, text)) => {
                let class: Class = class.parse().map_err(|_| {
                    wrong("write read=, write=, metadata=, fan-in=, cap=, tenants= or turn=")
                })?;
                self.regulate(class, policy::parse(text)?);
            }
            None => {
                for class in [Class::Read, Class::Write] {
                    self.regulate(class, policy::parse(item)?);
                }
            }
        }
        Ok(())
    }

    fn regulate(&mut self, class: Class, policy: Box<dyn policy::Policy>) {
        self.controllers[class.index()] = Arc::new(Controller::new(Options::default(), policy));
    }

    fn follow(&mut self, name: &str, file: &RuleFile) -> Result<(), SettingError> {
        for class in Class::ALL {
            if let Some(rules) = file.set(class) {
                let policy = ByRules::new(name, rules)
                    .map_err(|error| SettingError::Rules(error.to_string()))?;
                self.regulate(class, Box::new(policy));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Setting").field(&self.label).finish()
    }
}
