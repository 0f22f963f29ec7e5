//! Reads scenarios: TOML with places, checked against the tables of [`keys`].

use afflux_core::nearest::nearest;
use afflux_core::workload::{PRESETS, Workload, preset};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table};

use super::keys::{self, Key};
use super::value::Value;
use super::{Application, Fault, Figure, Free, Model, Scenario, ScenarioError, VERSION};

/// What may stand at the top.
const TOP: &[&str] = &[
    "afflux-scenario",
    "name",
    "about",
    "workload",
    "workloads",
    "network",
    "servers",
    "clients",
    "metadata",
    "locks",
    "run",
    "policy",
    "application",
    "fault",
    "free",
    "model",
    "fit",
    "published",
];

/// What overrides may begin with.
const SECTIONS: &[&str] = &[
    "workload",
    "network",
    "servers",
    "clients",
    "metadata",
    "locks",
    "run",
    "policy",
    "application",
    "applications",
    "model",
];

/// A key and its value, with their places.
type Entry<'a, 'i> = (&'a Spanned<toml::de::DeString<'i>>, &'a Spanned<DeValue<'i>>);

/// Reads a scenario.
pub(super) fn scenario(text: &str) -> Result<Scenario, ScenarioError> {
    let syntax = |error: toml::de::Error| ScenarioError::Syntax(error.to_string());
    let document = DeTable::parse(text).map_err(syntax)?;
    // The same text once more without places: what workloads are cut out of.
    let plain: Table = toml::from_str(text).map_err(syntax)?;
    let mut reader = Reader { text, plain: &plain, scenario: Scenario::default() };
    reader.scenario.applications.clear();
    reader.version(document.get_ref())?;
    reader.workloads(document.get_ref())?;
    for entry in document.get_ref() {
        reader.top(entry)?;
    }
    Ok(reader.scenario)
}

struct Reader<'t> {
    text: &'t str,
    plain: &'t Table,
    scenario: Scenario,
}

impl Reader<'_> {
    fn version(&self, document: &DeTable<'_>) -> Result<(), ScenarioError> {
        let found = document.iter().find(|(key, _)| key.get_ref() == "afflux-scenario");
        let Some((_, value)) = found else {
            let what = format!("write afflux-scenario = {VERSION} at the top");
            return Err(ScenarioError::Schema { line: 1, column: 1, what });
        };
        match plain_value(value.get_ref()) {
            Some(Value::Integer(VERSION)) => Ok(()),
            _ => Err(self.at(
                value.span().start,
                format!("this version is not known here: this program reads version {VERSION}"),
            )),
        }
    }

    fn top(&mut self, (key, value): Entry<'_, '_>) -> Result<(), ScenarioError> {
        let name = key.get_ref().as_ref();
        match name {
            "afflux-scenario" | "workloads" => Ok(()),
            "name" => self.words(value, |scenario| &mut scenario.name),
            "about" => self.words(value, |scenario| &mut scenario.about),
            "workload" => {
                let workload = self.workload(value.span().start, self.plain.get("workload"))?;
                self.scenario.applications.push(Application::of(workload));
                Ok(())
            }
            "network" => self.section(name, value, keys::NETWORK, |to| &mut to.network),
            "servers" => self.section(name, value, keys::SERVERS, |to| &mut to.servers),
            "clients" => self.section(name, value, keys::CLIENTS, |to| &mut to.clients),
            "metadata" => self.section(name, value, keys::METADATA, |to| &mut to.metadata),
            "locks" => self.section(name, value, keys::LOCKS, |to| &mut to.locks),
            "run" => self.section(name, value, keys::RUN, |to| &mut to.run),
            "policy" => self.section(name, value, keys::POLICY, |to| &mut to.policy),
            "application" => self.applications(value),
            "fault" => {
                let faults = self.list(name, value, keys::FAULT, Fault::default)?;
                self.scenario.faults = faults;
                Ok(())
            }
            "free" => {
                self.scenario.free = self.list(name, value, keys::FREE, Free::default)?;
                Ok(())
            }
            "model" => {
                self.scenario.models = self.list(name, value, keys::MODEL, Model::default)?;
                Ok(())
            }
            "fit" => {
                self.scenario.fitted = self.list(name, value, keys::FIGURE, Figure::default)?;
                Ok(())
            }
            "published" => {
                self.scenario.published = self.list(name, value, keys::FIGURE, Figure::default)?;
                Ok(())
            }
            other => Err(self.at(key.span().start, unknown(other, "a scenario", TOP))),
        }
    }

    fn words(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        place: fn(&mut Scenario) -> &mut String,
    ) -> Result<(), ScenarioError> {
        let Some(text) = value.get_ref().as_str() else {
            return Err(self.at(value.span().start, "not a text in quotes".to_owned()));
        };
        *place(&mut self.scenario) = text.to_owned();
        Ok(())
    }

    /// One table of keys.
    fn section<T>(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        keys: &[Key<T>],
        place: fn(&mut Scenario) -> &mut T,
    ) -> Result<(), ScenarioError> {
        let Some(table) = value.get_ref().as_table() else {
            let what = format!("`{name}` is a table: write [{name}]");
            return Err(self.at(value.span().start, what));
        };
        for entry in table {
            let key = self.key(name, entry, keys)?;
            let read = self.value(entry, key)?;
            (key.set)(place(&mut self.scenario), &read)
                .map_err(|why| self.wrong(entry, key, why))?;
        }
        Ok(())
    }

    /// Any number of tables of the same keys.
    fn list<T>(
        &self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        keys: &[Key<T>],
        fresh: fn() -> T,
    ) -> Result<Vec<T>, ScenarioError> {
        let tables = self.tables(name, value)?;
        tables
            .into_iter()
            .map(|table| {
                let mut one = fresh();
                for entry in table {
                    let key = self.key(name, entry, keys)?;
                    let read = self.value(entry, key)?;
                    (key.set)(&mut one, &read).map_err(|why| self.wrong(entry, key, why))?;
                }
                Ok(one)
            })
            .collect()
    }

    fn tables<'a, 'i>(
        &self,
        name: &str,
        value: &'a Spanned<DeValue<'i>>,
    ) -> Result<Vec<&'a DeTable<'i>>, ScenarioError> {
        let tables = value.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>());
        let tables = tables.unwrap_or_default();
        let read: Vec<_> = tables.iter().filter_map(|table| table.get_ref().as_table()).collect();
        if read.is_empty() || read.len() < tables.len() {
            let what = format!("`{name}` is a list of tables: write [[{name}]] before each");
            return Err(self.at(value.span().start, what));
        }
        Ok(read)
    }

    fn applications(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), ScenarioError> {
        let tables = self.tables("application", value)?;
        let plain = self.plain.get("application").and_then(toml::Value::as_array);
        for (number, table) in tables.into_iter().enumerate() {
            let found = table.iter().find(|(key, _)| key.get_ref() == "workload");
            let place = found.map_or(value.span().start, |(key, _)| key.span().start);
            let text = plain.and_then(|all| all.get(number)).and_then(|one| one.get("workload"));
            let mut one = Application::of(self.workload(place, text)?);
            for entry in table.iter().filter(|(key, _)| key.get_ref() != "workload") {
                let key = self.key("application", entry, keys::APPLICATION)?;
                let read = self.value(entry, key)?;
                (key.set)(&mut one, &read).map_err(|why| self.wrong(entry, key, why))?;
            }
            self.scenario.applications.push(one);
        }
        Ok(())
    }

    /// Reads the workloads that others may name, before anything names them.
    fn workloads(&mut self, document: &DeTable<'_>) -> Result<(), ScenarioError> {
        let Some((_, place)) = document.iter().find(|(key, _)| key.get_ref() == "workloads") else {
            return Ok(());
        };
        let Some(toml::Value::Table(table)) = self.plain.get("workloads") else {
            let what = "`workloads` holds tables: write [workloads.NAME] before each";
            return Err(self.at(place.span().start, what.to_owned()));
        };
        for (name, value) in table {
            let mut workload = workload_of(value, name, &[]).map_err(|what| {
                self.at(place.span().start, format!("in [workloads.{name}]: {what}"))
            })?;
            workload.name.clone_from(name);
            self.scenario.workloads.push(workload);
        }
        Ok(())
    }

    fn workload(
        &self,
        place: usize,
        value: Option<&toml::Value>,
    ) -> Result<Workload, ScenarioError> {
        let Some(value) = value else {
            let what = "an application needs a `workload`: the name of a preset, or a table";
            return Err(self.at(place, what.to_owned()));
        };
        let Scenario { name, workloads, .. } = &self.scenario;
        workload_of(value, name, workloads).map_err(|what| self.at(place, what))
    }

    fn key<'k, T>(
        &self,
        section: &str,
        (key, _): Entry<'_, '_>,
        keys: &'k [Key<T>],
    ) -> Result<&'k Key<T>, ScenarioError> {
        let name = key.get_ref().as_ref();
        keys.iter().find(|known| known.name == name).ok_or_else(|| {
            let names: Vec<_> = keys.iter().map(|key| key.name).collect();
            self.at(key.span().start, unknown(name, &format!("[{section}]"), &names))
        })
    }

    fn value<T>(&self, entry: Entry<'_, '_>, key: &Key<T>) -> Result<Value, ScenarioError> {
        plain_value(entry.1.get_ref())
            .ok_or_else(|| self.wrong(entry, key, "not of the kind that is read here".to_owned()))
    }

    fn wrong<T>(&self, (_, value): Entry<'_, '_>, key: &Key<T>, why: String) -> ScenarioError {
        let written = plain_value(value.get_ref()).map_or(String::new(), |value| value.written());
        self.at(value.span().start, complaint(key, &written, &why))
    }

    fn at(&self, offset: usize, what: String) -> ScenarioError {
        let before = &self.text[..offset.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        ScenarioError::Schema { line, column, what }
    }
}

/// `thread` is unknown, what it may have been meant to be, and all that there is.
fn unknown(name: &str, section: &str, known: &[&str]) -> String {
    let meant = nearest(name, known.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
    format!("unknown key `{name}` in {section}: {meant}{section} has: {}", known.join(", "))
}

/// A value is wrong, why, and what its key takes.
fn complaint<T>(key: &Key<T>, written: &str, why: &str) -> String {
    let Key { name, takes, default, .. } = key;
    let otherwise =
        if default.is_empty() { String::new() } else { format!(" (left out: {default})") };
    format!("`{written}` cannot be the value of `{name}`: {why}; it takes {takes}{otherwise}")
}

fn plain_value(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            Value::Integer(i64::from_str_radix(&digits, number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Float(number.as_str().replace('_', "").parse().ok()?),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            Value::List(texts.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// A workload: the name of one of `own` or of a preset, or a table in the schema of workloads, in
/// which `preset` takes over what it leaves out.
fn workload_of(value: &toml::Value, name: &str, own: &[Workload]) -> Result<Workload, String> {
    let names = || {
        let presets = PRESETS.iter().map(|preset| preset.name);
        own.iter().map(|workload| workload.name.as_str()).chain(presets).collect::<Vec<_>>()
    };
    let unknown = |name: &str| {
        let meant = nearest(name, names());
        let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
        format!("there is no workload `{name}`: {meant}there are: {}", names().join(", "))
    };
    match value {
        toml::Value::String(name) => {
            let own = own.iter().find(|workload| workload.name == *name).cloned();
            let found = own.or_else(|| preset(name).map(|preset| preset.workload()));
            found.ok_or_else(|| unknown(name))
        }
        toml::Value::Table(table) => {
            let mut whole = match table.get("preset") {
                None => Table::new(),
                Some(toml::Value::String(name)) => {
                    let text = preset(name).ok_or_else(|| unknown(name))?.text;
                    toml::from_str(text).map_err(|error| error.to_string())?
                }
                Some(_) => return Err("`preset` is the name of a preset, in quotes".to_owned()),
            };
            let given = table.iter().filter(|(key, _)| *key != "preset");
            merge(&mut whole, given.map(|(key, value)| (key.clone(), value.clone())).collect());
            whole.entry("afflux-workload").or_insert(toml::Value::Integer(1));
            whole.entry("name").or_insert(toml::Value::String(name.to_owned()));
            let text = toml::to_string(&whole).map_err(|error| error.to_string())?;
            Workload::parse(&text).map_err(|error| format!("in the workload: {error}"))
        }
        _ => Err("a workload is a name in quotes, or a table".to_owned()),
    }
}

/// Puts the values of `over` into `table`, tables within tables too.
fn merge(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(over)) => merge(inner, over),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// Applies one `section.key=value`.
pub(super) fn override_with(scenario: &mut Scenario, text: &str) -> Result<(), ScenarioError> {
    let wrong = |what: String| ScenarioError::Override { text: text.to_owned(), what };
    let (path, value) =
        text.split_once('=').ok_or_else(|| wrong("write section.key=value".to_owned()))?;
    let value = Value::of_override(value);
    match path.trim() {
        "workload" => return set_workload(scenario, None, &value.written()).map_err(wrong),
        "applications" => return set_applications(scenario, &value).map_err(wrong),
        "model" => return set_model(scenario, &value.written(), wrong),
        _ => {}
    }
    let (section, name) = path
        .trim()
        .split_once('.')
        .ok_or_else(|| wrong("write section.key=value, as in servers.count=8".to_owned()))?;
    if let Some(number) = section.strip_prefix("application")
        && name == "workload"
        && !number.is_empty()
    {
        let number = number.parse().unwrap_or(0);
        return set_workload(scenario, Some(number), &value.written()).map_err(wrong);
    }
    match section {
        "network" => set(keys::NETWORK, section, name, &mut scenario.network, &value),
        "servers" => set(keys::SERVERS, section, name, &mut scenario.servers, &value),
        "clients" => set(keys::CLIENTS, section, name, &mut scenario.clients, &value),
        "metadata" => set(keys::METADATA, section, name, &mut scenario.metadata, &value),
        "locks" => set(keys::LOCKS, section, name, &mut scenario.locks, &value),
        "run" => set(keys::RUN, section, name, &mut scenario.run, &value),
        "policy" => set(keys::POLICY, section, name, &mut scenario.policy, &value),
        "workload" | "application" => scenario
            .applications
            .iter_mut()
            .try_for_each(|one| set(keys::APPLICATION, section, name, one, &value)),
        other => match other.strip_prefix("application").and_then(|n| n.parse::<usize>().ok()) {
            Some(number) => match scenario.applications.get_mut(number.wrapping_sub(1)) {
                Some(one) => set(keys::APPLICATION, section, name, one, &value),
                None => Err(no_application(number, scenario.applications.len())),
            },
            None => Err(unknown(other, "a scenario", SECTIONS)),
        },
    }
    .map_err(wrong)
}

fn set<T>(
    keys: &[Key<T>],
    section: &str,
    name: &str,
    to: &mut T,
    value: &Value,
) -> Result<(), String> {
    let key = keys.iter().find(|key| key.name == name).ok_or_else(|| {
        let names: Vec<_> = keys.iter().map(|key| key.name).collect();
        unknown(name, &format!("[{section}]"), &names)
    })?;
    (key.set)(to, value).map_err(|why| complaint(key, &value.written(), &why))
}

/// Gives all applications, or the one with a number from 1, another workload.
fn set_workload(scenario: &mut Scenario, number: Option<usize>, name: &str) -> Result<(), String> {
    let name = toml::Value::String(name.to_owned());
    let workload = workload_of(&name, &scenario.name, &scenario.workloads)?;
    let there = scenario.applications.len();
    let applications = scenario.applications.iter_mut().enumerate();
    let mut of_number =
        applications.filter(|(at, _)| number.is_none_or(|number| number == at + 1)).peekable();
    if of_number.peek().is_none() {
        return Err(no_application(number.unwrap_or_default(), there));
    }
    of_number.for_each(|(_, one)| one.workload = workload.clone());
    Ok(())
}

fn no_application(number: usize, there: usize) -> String {
    format!(
        "there is no application {number}: there are {there}, from 1; applications=N makes more"
    )
}

/// Keeps the first applications, or adds copies of the last.
fn set_applications(scenario: &mut Scenario, value: &Value) -> Result<(), String> {
    let count = super::value::count(value, 1, 1_000)? as usize;
    if let Some(last) = scenario.applications.last().cloned() {
        scenario.applications.resize(count, last);
    }
    Ok(())
}

fn set_model(
    scenario: &mut Scenario,
    name: &str,
    wrong: impl Fn(String) -> ScenarioError,
) -> Result<(), ScenarioError> {
    let Some(model) = scenario.models.iter().find(|model| model.name == name) else {
        let names: Vec<_> = scenario.models.iter().map(|model| model.name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(wrong(format!("there is no model `{name}`; there are: {there}")));
    };
    let set = model.set.clone();
    set.iter().try_for_each(|text| override_with(scenario, text))
}
