//! `afflux rules show`: rules as a table, in the manner of ASCAR's Table V, or as JSON.

use std::io::Write;

use afflux_core::indicator::INDICATORS;
use afflux_core::rules::{
    Gap, ParseErrors, Rule, RuleFile, SHIPPED, Section, Severity, UNBOUNDED, value_text,
};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};

use super::{RulesError, Source, Status};

pub(super) fn run(
    source: Option<&Source>,
    as_json: bool,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, RulesError> {
    let Some(source) = source else {
        return list(as_json, out);
    };
    let parse = |cause: ParseErrors| RulesError::Parse { name: source.to_string(), cause };
    let file = RuleFile::parse(&source.read()?).map_err(parse)?;
    if file.lint().iter().any(|finding| finding.severity == Severity::Error) {
        writeln!(talk, "these rules cannot be used: `afflux rules check {source}` tells why")?;
    }
    if as_json {
        let provenance: Map<String, Value> =
            file.provenance.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let sections: Vec<Value> = file.sections.iter().map(section_json).collect();
        let all = json!({
            "name": file.name,
            "about": file.about,
            "provenance": provenance,
            "sections": sections,
        });
        writeln!(out, "{all:#}")?;
    } else {
        head(&file, out)?;
        file.sections.iter().try_for_each(|section| section_text(section, out))?;
    }
    out.flush()?;
    Ok(Status::Done)
}

/// The rules that come along.
fn list(as_json: bool, out: &mut dyn Write) -> Result<Status, RulesError> {
    let mut table = plain_table();
    table.set_header(["name", "for", "rules", "about"]);
    let mut listed = Vec::new();
    for (name, text) in SHIPPED {
        // Shipped files are read in core's tests; one that could not be would only be left out.
        let Ok(file) = RuleFile::parse(text) else {
            continue;
        };
        let classes: Vec<String> = file.sections.iter().map(|s| s.classes.to_string()).collect();
        let classes = classes.join("; ");
        let rules: usize = file.sections.iter().map(|s| s.set().rules.len()).sum();
        let about = file.about.unwrap_or_default();
        listed.push(json!({ "name": name, "for": classes, "rules": rules, "about": about }));
        table.add_row([format!("shipped:{name}"), classes, rules.to_string(), about]);
    }
    if as_json {
        writeln!(out, "{:#}", Value::Array(listed))?;
    } else {
        writeln!(out, "{}", table.trim_fmt())?;
    }
    out.flush()?;
    Ok(Status::Done)
}

fn head(file: &RuleFile, out: &mut dyn Write) -> Result<(), RulesError> {
    if let Some(name) = &file.name {
        writeln!(out, "{}", printable(name))?;
    }
    if let Some(about) = &file.about {
        writeln!(out, "{}", printable(about))?;
    }
    for (key, value) in &file.provenance {
        writeln!(out, "{}: {}", printable(key), printable(value))?;
    }
    if file.sections.is_empty() {
        writeln!(out, "no rules: requests of all classes pass through")?;
    }
    Ok(())
}

/// Texts come from anywhere; what a terminal would act on is not passed on to it.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

fn section_text(section: &Section, out: &mut dyn Write) -> Result<(), RulesError> {
    let set = section.set();
    writeln!(
        out,
        "\nfor {}: window at most {}, at most {} changes/s",
        section.classes, set.window_max, set.window_changes_per_s
    )?;
    let mut table = plain_table();
    let mut header = vec!["rule".to_owned()];
    header.extend(INDICATORS.iter().map(|indicator| indicator.name.to_owned()));
    header.extend(["m", "b", "gap", "times"].map(str::to_owned));
    header.extend(INDICATORS.iter().map(|indicator| format!("avg {}", indicator.name)));
    table.set_header(header);
    for (index, rule) in set.rules.iter().enumerate() {
        table.add_row(row(index + 1, rule));
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    Ok(writeln!(out, "{}", table.trim_fmt())?)
}

fn row(number: usize, rule: &Rule) -> Vec<String> {
    let axes = 0..INDICATORS.len();
    let action = &rule.action;
    let mut cells = vec![number.to_string()];
    cells.extend(axes.clone().map(|axis| rule.region.side_text(axis)));
    cells.push(action.multiply.map_or_else(|| "-".to_owned(), |factor| factor.to_string()));
    cells.push(action.add.to_string());
    cells.push(if action.gap == Gap::NONE { "-".to_owned() } else { action.gap.to_string() });
    cells.push(rule.hits.count.to_string());
    cells.extend(axes.map(|axis| match rule.hits.count {
        0 => "-".to_owned(),
        _ => value_text(axis, rule.hits.means[axis]),
    }));
    cells
}

fn section_json(section: &Section) -> Value {
    let set = section.set();
    let rules: Vec<Value> = set.rules.iter().enumerate().map(|(i, r)| rule_json(i, r)).collect();
    let classes: Vec<&str> = section.classes.iter().map(|class| class.name()).collect();
    json!({
        "classes": classes,
        "window_max": set.window_max,
        "window_changes_per_s": set.window_changes_per_s,
        "rules": rules,
    })
}

fn rule_json(index: usize, rule: &Rule) -> Value {
    let mut region = Map::new();
    let mut means = Map::new();
    for (axis, indicator) in INDICATORS.iter().enumerate() {
        let (low, high) = (rule.region.low[axis], rule.region.high[axis]);
        let high = (high != UNBOUNDED).then_some(high);
        if low > 0 || high.is_some() {
            region.insert(indicator.name.to_owned(), json!({ "low": low, "high": high }));
        }
        means.insert(indicator.name.to_owned(), json!(rule.hits.means[axis]));
    }
    let (time, fraction) = match rule.action.gap {
        Gap::Time(span) => (Some(span.as_nanos()), None),
        Gap::OfAck(fraction) => (None, Some(fraction)),
    };
    json!({
        "rule": index + 1,
        "box": region,
        "multiply": rule.action.multiply,
        "add": rule.action.add,
        "gap_ns": time,
        "gap_of_ack_ewma": fraction,
        "hits": rule.hits.count,
        "means": (rule.hits.count > 0).then_some(means),
        "text": rule.to_string(),
    })
}

/// Columns apart by spaces only, so that other programs can take the lines apart again.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}
