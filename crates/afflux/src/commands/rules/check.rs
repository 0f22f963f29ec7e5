//! `afflux rules check`: what is wrong or odd, where, and what to do.

use std::io::Write;

use afflux_core::rules::{Finding, ParseErrors, RuleFile, Severity};
use serde_json::{Value, json};

use super::{RulesError, Source, Status};

pub(super) fn run(
    source: &Source,
    as_json: bool,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, RulesError> {
    let text = source.read()?;
    let parsed = RuleFile::parse(&text);
    let findings = parsed.as_ref().map(RuleFile::lint).unwrap_or_default();
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let usable = parsed.is_ok() && errors == 0;
    if as_json {
        let listed = match &parsed {
            Ok(_) => findings.iter().map(finding).collect(),
            Err(errors) => unread(errors),
        };
        let answer = json!({ "source": source.to_string(), "usable": usable, "findings": listed });
        writeln!(out, "{answer:#}")?;
    } else {
        match &parsed {
            Ok(file) => {
                findings.iter().try_for_each(|finding| in_words(source, finding, out))?;
                let rules: usize = file.sections.iter().map(|s| s.set().rules.len()).sum();
                let warnings = findings.len() - errors;
                writeln!(talk, "{source}: rules {rules}, errors {errors}, warnings {warnings}")?;
            }
            Err(errors) => {
                errors.errors.iter().try_for_each(|error| writeln!(out, "{source}: {error}"))?;
                writeln!(talk, "{source}: cannot be read, errors {}", errors.errors.len())?;
            }
        }
    }
    out.flush()?;
    Ok(if usable { Status::Done } else { Status::No })
}

fn in_words(source: &Source, finding: &Finding, out: &mut dyn Write) -> Result<(), RulesError> {
    let place = finding.place.map(|at| format!(":{}:{}", at.line, at.column));
    let place = place.unwrap_or_default();
    writeln!(out, "{source}{place}: {}: {}", finding.severity, finding.message)?;
    Ok(writeln!(out, "  = {}", finding.remedy)?)
}

fn finding(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.to_string(),
        "line": finding.place.map(|place| place.line),
        "column": finding.place.map(|place| place.column),
        "rule": finding.rule.map(|index| index + 1),
        "message": finding.message,
        "remedy": finding.remedy,
    })
}

fn unread(errors: &ParseErrors) -> Vec<Value> {
    let each = errors.errors.iter().map(|error| {
        json!({
            "severity": Severity::Error.to_string(),
            "line": error.line,
            "column": error.column,
            "rule": null,
            "message": error.what,
            "remedy": error.remedy,
        })
    });
    each.collect()
}
