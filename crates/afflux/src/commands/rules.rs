//! `afflux rules`: check, show, convert and change rule files.

mod check;
mod show;

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::str::FromStr;

use afflux_core::class::{Class, Classes};
use afflux_core::rules::ascar_csv::{self, CsvError, ExportError};
use afflux_core::rules::{self, ParseErrors, RuleFile, RuleFileError, Section, SplitError};
use clap::{Args, Subcommand};

use crate::failure::{Failure, Status};

/// Check, show, convert and change rule files.
#[derive(Args, Debug)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    command: Command,
}

const SOURCE_HELP: &str = "A rule file, `-` for stdin, or shipped:NAME for one that comes along";
const OUT_HELP: &str = "Write here instead of to stdout";

#[derive(Subcommand, Debug)]
enum Command {
    /// Tell what is wrong or odd: syntax, gaps, overlaps, numbers out of range
    #[command(after_help = "Exit status: 0 when the rules can be used, warnings or not; 1 when \
        they cannot.\n\nExamples:\n  afflux rules check my.rules\n  \
        afflux rules check --json - < my.rules")]
    Check {
        #[arg(value_name = "FILE", help = SOURCE_HELP)]
        source: Source,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the rules as a table; without FILE, list those that come along
    #[command(after_help = "Examples:\n  afflux rules show\n  afflux rules show shipped:paced\n  \
        afflux rules show --json my.rules")]
    Show {
        #[arg(value_name = "FILE", help = SOURCE_HELP)]
        source: Option<Source>,
        /// Print as JSON; times are nanoseconds, ratios thousandths
        #[arg(long)]
        json: bool,
    },
    /// Turn a rule file of the original ASCAR client (CSV) into ours
    #[command(after_help = "Overlaps are cut and gaps filled so that the rules act as they did; \
        what was changed is told on stderr and in comments.\n\nExamples:\n  \
        afflux rules import best.csv --out best.rules")]
    Import {
        #[arg(value_name = "FILE", help = "The CSV file, or `-` for stdin")]
        source: Source,
        #[arg(long, value_name = "FILE", help = OUT_HELP)]
        out: Option<PathBuf>,
    },
    /// Turn a rule file into the CSV of the original ASCAR client
    #[command(after_help = "Examples:\n  afflux rules export shipped:calm-4 --out calm.csv\n  \
        afflux rules export --class write my.rules")]
    Export {
        #[arg(value_name = "FILE", help = SOURCE_HELP)]
        source: Source,
        /// Whose rules, where the file has several sections: read, write or metadata
        #[arg(long)]
        class: Option<Class>,
        #[arg(long, value_name = "FILE", help = OUT_HELP)]
        out: Option<PathBuf>,
    },
    /// Cut one rule, the most often hit unless named, into eight at its mean indicators
    #[command(after_help = "Comments of the file are not kept.\n\nExamples:\n  \
        afflux rules split seen.rules --out next.rules\n  afflux rules split --rule 3 seen.rules")]
    Split {
        #[arg(value_name = "FILE", help = SOURCE_HELP)]
        source: Source,
        /// The number of the rule, as `show` has it
        #[arg(long, value_name = "N")]
        rule: Option<usize>,
        /// Whose rules, where the file has several sections: read, write or metadata
        #[arg(long)]
        class: Option<Class>,
        #[arg(long, value_name = "FILE", help = OUT_HELP)]
        out: Option<PathBuf>,
    },
    /// Merge rules that do the same, and give boxes that were never hit to their neighbours
    #[command(after_help = "What is done is told on stderr. Comments of the file are not \
        kept.\n\nExamples:\n  afflux rules simplify seen.rules --out fewer.rules")]
    Simplify {
        #[arg(value_name = "FILE", help = SOURCE_HELP)]
        source: Source,
        #[arg(long, value_name = "FILE", help = OUT_HELP)]
        out: Option<PathBuf>,
    },
}

/// Where rules are read from.
#[derive(Clone, Debug)]
enum Source {
    Stdin,
    Shipped(String),
    File(PathBuf),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match (text, text.strip_prefix("shipped:")) {
            ("-", _) => Self::Stdin,
            (_, Some(name)) => Self::Shipped(name.to_owned()),
            _ => Self::File(PathBuf::from(text)),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("stdin"),
            Self::Shipped(name) => write!(f, "shipped:{name}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Source {
    fn read(&self) -> Result<String, RulesError> {
        let mut bytes = Vec::new();
        let read = match self {
            Self::Shipped(wanted) => {
                let names = || rules::SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>();
                return rules::shipped(wanted).map(str::to_owned).ok_or_else(|| {
                    RulesError::NotShipped { name: wanted.clone(), known: names().join(", ") }
                });
            }
            Self::Stdin => io::stdin().lock().read_to_end(&mut bytes).map(|_| ()),
            Self::File(path) => std::fs::read(path).map(|read| bytes = read),
        };
        let name = || self.to_string();
        read.map_err(|cause| RulesError::Read { name: name(), cause })?;
        String::from_utf8(bytes).map_err(|fault| {
            let at = fault.utf8_error().valid_up_to();
            let line = 1 + fault.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count();
            RulesError::NotText { name: name(), line }
        })
    }

    /// The rules, if they can be used.
    fn checked(&self) -> Result<RuleFile, RulesError> {
        let checked = RuleFile::checked(&self.read()?);
        checked.map_err(|cause| RulesError::Rules { name: self.to_string(), cause })
    }
}

/// Why the command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    /// The input cannot be read.
    #[error("cannot read {name}: {cause}; check the name, or use `-` for stdin")]
    Read {
        /// The input.
        name: String,
        /// What the system said.
        cause: io::Error,
    },
    /// No rules of that name come along.
    #[error("no rules named `{name}` come along: choose one of {known}")]
    NotShipped {
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The input is not UTF-8.
    #[error("{name} is no text: line {line} is not UTF-8; convert it to UTF-8")]
    NotText {
        /// The input.
        name: String,
        /// The line, from 1.
        line: usize,
    },
    /// The text is no rule file.
    #[error("{name}: {cause}")]
    Parse {
        /// The input.
        name: String,
        /// What cannot be read.
        cause: ParseErrors,
    },
    /// The rules cannot be used.
    #[error("{name}: {cause}")]
    Rules {
        /// The input.
        name: String,
        /// What is wrong with them.
        cause: RuleFileError,
    },
    /// The CSV cannot be read.
    #[error("{name}: {cause}")]
    Csv {
        /// The input.
        name: String,
        /// What is wrong with it.
        cause: CsvError,
    },
    /// The rules cannot be written as CSV.
    #[error("{name}: {cause}")]
    Export {
        /// The input.
        name: String,
        /// What is in the way.
        cause: ExportError,
    },
    /// The rule cannot be split.
    #[error("{name}: {cause}")]
    Split {
        /// The input.
        name: String,
        /// What is in the way.
        cause: SplitError,
    },
    /// The file has several sections, and one must be chosen.
    #[error("{name} has rules for {sections}; choose with --class, as in `--class {example}`")]
    WhichSection {
        /// The input.
        name: String,
        /// What sections there are.
        sections: String,
        /// A class that would do.
        example: Class,
    },
    /// The file has no rules for the class that was asked for.
    #[error("{name} has no rules for {class}; its sections are for {sections}")]
    NoSection {
        /// The input.
        name: String,
        /// The class asked for.
        class: String,
        /// What sections there are.
        sections: String,
    },
    /// Nothing says which rule to split.
    #[error("{name}: no rule was ever hit; say which one to split with --rule N")]
    NeverHit {
        /// The input.
        name: String,
    },
    /// The file asked for cannot be written.
    #[error(
        "cannot write {path}: {cause}; check that the directory is there and yours",
        path = .path.display()
    )]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The output or the terminal is gone.
    #[error("cannot write the output: {0}; check where it goes")]
    Output(#[from] io::Error),
}

impl From<RulesError> for Failure {
    fn from(error: RulesError) -> Self {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
        match error {
            RulesError::Output(error) => Self::from(error),
            RulesError::Read { ref cause, .. } | RulesError::WriteFile { ref cause, .. } => {
                match cause.kind() {
                    IsADirectory | NotADirectory | NotFound | PermissionDenied => {
                        Self::input(error)
                    }
                    _ => Self::broken(error),
                }
            }
            error => Self::input(error),
        }
    }
}

/// Runs the command: data goes to `out`, what there is to say about it to `talk`.
///
/// # Errors
/// Input that is wrong, and output that cannot be written; a reader that has gone away is neither.
pub(crate) fn run(
    args: &RulesArgs,
    out: &mut dyn Write,
    talk: &mut dyn Write,
) -> Result<Status, RulesError> {
    let done = match &args.command {
        Command::Check { source, json } => check::run(source, *json, out, talk),
        Command::Show { source, json } => show::run(source.as_ref(), *json, out, talk),
        Command::Import { source, out: to } => import(source, &mut Sink { to, out, talk }),
        Command::Export { source, class, out: to } => {
            export(source, *class, &mut Sink { to, out, talk })
        }
        Command::Split { source, rule, class, out: to } => {
            split(source, *rule, *class, &mut Sink { to, out, talk })
        }
        Command::Simplify { source, out: to } => simplify(source, &mut Sink { to, out, talk }),
    };
    match done {
        Err(RulesError::Output(cause)) if cause.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Status::Done)
        }
        other => other,
    }
}

/// Where the result of a command goes, and what there is to say about it.
struct Sink<'a> {
    to: &'a Option<PathBuf>,
    out: &'a mut dyn Write,
    talk: &'a mut dyn Write,
}

impl Sink<'_> {
    fn say(&mut self, text: &str) -> Result<(), RulesError> {
        Ok(writeln!(self.talk, "{text}")?)
    }

    fn finish(&mut self, text: &str) -> Result<Status, RulesError> {
        if let Some(path) = self.to {
            std::fs::write(path, text)
                .map_err(|cause| RulesError::WriteFile { path: path.clone(), cause })?;
            self.say(&format!("wrote {}", path.display()))?;
        } else {
            self.out.write_all(text.as_bytes())?;
            self.out.flush()?;
        }
        Ok(Status::Done)
    }
}

fn import(source: &Source, sink: &mut Sink<'_>) -> Result<Status, RulesError> {
    let imported = ascar_csv::import(&source.read()?)
        .map_err(|cause| RulesError::Csv { name: source.to_string(), cause })?;
    imported.notes.iter().try_for_each(|note| sink.say(&format!("note: {note}")))?;
    sink.finish(&imported.to_string())
}

fn export(
    source: &Source,
    class: Option<Class>,
    sink: &mut Sink<'_>,
) -> Result<Status, RulesError> {
    let file = source.checked()?;
    let section = match (class, file.sections.as_slice()) {
        (None, []) => None,
        (None, [only]) => Some(only),
        (None, _) => return Err(which_section(source, &file)),
        (Some(class), _) => Some(&file.sections[section_of(source, &file, class)?]),
    };
    let exported = ascar_csv::export(section.map(Section::set))
        .map_err(|cause| RulesError::Export { name: source.to_string(), cause })?;
    let both: Classes = [Class::Read, Class::Write].into_iter().collect();
    if let Some(section) = section
        && section.classes != both
    {
        sink.say(&format!(
            "note: the rules are for {}; the original takes them for reads and writes alike, and \
             for nothing else",
            section.classes
        ))?;
    }
    exported.notes.iter().try_for_each(|note| sink.say(&format!("note: {note}")))?;
    sink.finish(&exported.csv)
}

fn split(
    source: &Source,
    rule: Option<usize>,
    class: Option<Class>,
    sink: &mut Sink<'_>,
) -> Result<Status, RulesError> {
    let mut file = source.checked()?;
    let wanted = class.map(|class| section_of(source, &file, class)).transpose()?;
    let (section, number) = match (wanted, rule) {
        (Some(section), Some(rule)) => (section, rule),
        (None, Some(rule)) if file.sections.len() == 1 => (0, rule),
        (None, Some(_)) => return Err(which_section(source, &file)),
        (_, None) => {
            let hottest = hottest(&file, wanted);
            hottest.ok_or_else(|| RulesError::NeverHit { name: source.to_string() })?
        }
    };
    let section = &mut file.sections[section];
    let failed = |cause| RulesError::Split { name: source.to_string(), cause };
    let rules = section.set().rules.len();
    let index = number.checked_sub(1).ok_or(SplitError::NoSuchRule { number, rules });
    let set = index.and_then(|index| rules::split(section.set(), index)).map_err(failed)?;
    let last = number + set.rules.len() - rules;
    section.replace(set);
    let classes = section.classes;
    sink.say(&format!("rule {number} for {classes} became rules {number} to {last}"))?;
    sink.finish(&file.to_string())
}

/// Section and number of the rule that was hit most, in one section or in all.
fn hottest(file: &RuleFile, wanted: Option<usize>) -> Option<(usize, usize)> {
    let mut best = None;
    let mut most = 0;
    for (position, section) in file.sections.iter().enumerate() {
        if wanted.is_some_and(|wanted| wanted != position) {
            continue;
        }
        if let Some(index) = rules::hottest(section.set())
            && section.set().rules[index].hits.count > most
        {
            most = section.set().rules[index].hits.count;
            best = Some((position, index + 1));
        }
    }
    best
}

fn simplify(source: &Source, sink: &mut Sink<'_>) -> Result<Status, RulesError> {
    let mut file = source.checked()?;
    for section in &mut file.sections {
        let before = section.set().rules.len();
        let done = rules::simplify(section.set());
        done.steps.iter().try_for_each(|step| sink.say(&step.to_string()))?;
        let after = done.set.rules.len();
        sink.say(&format!("for {}: {before} rules became {after}", section.classes))?;
        section.replace(done.set);
    }
    sink.finish(&file.to_string())
}

fn sections(file: &RuleFile) -> String {
    let each: Vec<String> =
        file.sections.iter().map(|section| section.classes.to_string()).collect();
    if each.is_empty() { "no class".to_owned() } else { each.join("; ") }
}

fn which_section(source: &Source, file: &RuleFile) -> RulesError {
    let first = file.sections.first().and_then(|section| section.classes.iter().next());
    let example = first.unwrap_or(Class::Read);
    RulesError::WhichSection { name: source.to_string(), sections: sections(file), example }
}

fn section_of(source: &Source, file: &RuleFile, class: Class) -> Result<usize, RulesError> {
    let found = file.sections.iter().position(|section| section.classes.contains(class));
    found.ok_or_else(|| RulesError::NoSection {
        name: source.to_string(),
        class: class.to_string(),
        sections: sections(file),
    })
}
