//! Reading rule files: what stands where in the file, line by line.
//!
//! A line that cannot be read does not keep the others from being read, so that one run shows most
//! of what is wrong. The rules themselves are read in [`super::rule_text`].

use std::fmt;

use super::RuleSet;
use super::file::{Place, RuleFile, Section};
use super::lex::{Kind, Problem, Token, tokens};
use super::rule_text::{Cursor, rule, settings};
use crate::class::{Class, Classes};
use crate::indicator;
use crate::nearest::nearest;

/// More errors than this say no more about what is wrong with a file.
const ERRORS_MAX: usize = 20;

/// One place where a rule file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// How many characters are meant, at least 1.
    pub width: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// The line as it stands in the file.
    pub source: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Control characters would act on the terminal instead of being shown.
        let shown = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
        let source: String = self.source.chars().map(shown).collect();
        // Tabs are repeated so that the caret stands below its character whatever their width.
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let indent: String =
            source.chars().chain(std::iter::repeat(' ')).take(self.column - 1).map(blank).collect();
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.what)?;
        writeln!(f, "  {number} | {source}")?;
        writeln!(f, "  {margin} | {indent}{}", "^".repeat(self.width.max(1)))?;
        write!(f, "  {margin} = {}", self.remedy)
    }
}

impl std::error::Error for ParseError {}

/// Everything that could not be read in one file; never empty, in the order of the lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ParseErrors {
    /// The errors, at most twenty.
    pub errors: Vec<ParseError>,
}

impl fmt::Display for ParseErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if position == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// What a file has shown so far.
#[derive(Default)]
struct Reader {
    file: RuleFile,
    header_read: bool,
    /// Classes that a section has named, with the line that did.
    named: Vec<(Class, usize)>,
    /// Whether the current section may still take its settings line.
    settings_open: bool,
}

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<RuleFile, ParseErrors> {
    let mut reader = Reader::default();
    let mut errors = Vec::new();
    let mut lines = 0;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, source) in text.lines().enumerate() {
        lines = index + 1;
        let read = tokens(source).and_then(|tokens| reader.line(lines, source, &tokens));
        if let Err(problem) = read {
            errors.push(error(lines, source, problem));
            // Without its header nothing says that this is a rule file at all.
            if !reader.header_read || errors.len() == ERRORS_MAX {
                break;
            }
        }
    }
    if errors.is_empty() && !reader.header_read {
        errors.push(error(lines.max(1), "", no_header(1, 1, "the file has no rules in it")));
    }
    if errors.is_empty() { Ok(reader.file) } else { Err(ParseErrors { errors }) }
}

fn error(line: usize, source: &str, problem: Problem) -> ParseError {
    let Problem { column, width, what, remedy } = problem;
    ParseError { line, column, width, what, remedy, source: source.to_owned() }
}

fn no_header(column: usize, width: usize, what: &str) -> Problem {
    let remedy = format!("begin the file with `afflux rules {}`", RuleFile::VERSION);
    Problem { column, width, what: what.to_owned(), remedy }
}

impl Reader {
    fn line(&mut self, line: usize, source: &str, tokens: &[Token]) -> Result<(), Problem> {
        let mut cursor = Cursor::new(tokens, source);
        let Some(first) = cursor.peek() else {
            return Ok(());
        };
        let place = Place { line, column: first.column };
        if !self.header_read {
            self.header(&mut cursor)?;
        } else {
            match first.kind {
                Kind::Word(ref word) => match word.as_str() {
                    "name" | "about" | "provenance" => self.meta(&mut cursor)?,
                    "for" => self.head(&mut cursor, place)?,
                    "window" | "at" => self.settings(&mut cursor)?,
                    _ => self.rule(&mut cursor, place)?,
                },
                _ => self.rule(&mut cursor, place)?,
            }
        }
        cursor.end()
    }

    fn header(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let begins = cursor.take_word("afflux") && cursor.take_word("rules");
        if !begins {
            let (column, width) = cursor.place();
            return Err(no_header(column, width, "this is not the head of a rule file"));
        }
        let (column, width) = cursor.place();
        let version =
            cursor.count("the version of the format, as in `afflux rules 1`", u64::MAX)?;
        if version != RuleFile::VERSION {
            let known = RuleFile::VERSION;
            let (what, remedy) = if version > known {
                (
                    format!("version {version} is newer than this program, which knows {known}"),
                    "use a newer afflux, or write the file again in the older version".to_owned(),
                )
            } else {
                (format!("there is no version {version}"), format!("write `afflux rules {known}`"))
            };
            return Err(Problem { column, width, what, remedy });
        }
        self.header_read = true;
        Ok(())
    }

    fn meta(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        if !self.file.sections.is_empty() {
            return Err(cursor.problem(
                "this line belongs before the first section",
                "move it up, right below `afflux rules 1`",
            ));
        }
        let twice = |cursor: &Cursor<'_>, what: &str| {
            Err(cursor.problem(&format!("{what} is given twice"), "keep one of the two lines"))
        };
        if cursor.take_word("provenance") {
            let key_at = *cursor;
            let key = cursor.key()?;
            if self.file.provenance(&key).is_some() {
                return twice(&key_at, &format!("provenance `{key}`"));
            }
            let value = cursor.text("the value in quotes, as in `provenance seed \"7\"`")?;
            self.file.provenance.push((key, value));
        } else if self.file.name.is_some() && cursor.at_word("name") {
            return twice(cursor, "the name");
        } else if cursor.take_word("name") {
            self.file.name = Some(cursor.text("the name in quotes")?);
        } else if self.file.about.is_some() {
            return twice(cursor, "the description");
        } else if cursor.take_word("about") {
            self.file.about = Some(cursor.text("a description in quotes")?);
        }
        Ok(())
    }

    fn head(&mut self, cursor: &mut Cursor<'_>, place: Place) -> Result<(), Problem> {
        // The section begins even if its head is wrong, so that its rules are read on their own.
        self.file.sections.push(Section::begun(Classes::NONE, place));
        self.settings_open = true;
        cursor.take_word("for");
        let mut classes = Classes::NONE;
        loop {
            let (column, width) = cursor.place();
            let word = cursor.word("a class: read, write, metadata or all")?;
            for class in classes_named(&word, column, width)?.iter() {
                if let Some((_, first)) = self.named.iter().find(|(known, _)| *known == class) {
                    return Err(Problem {
                        column,
                        width,
                        what: format!("{class} already has rules, in the section on line {first}"),
                        remedy: "name each class in one section only".to_owned(),
                    });
                }
                self.named.push((class, place.line));
                classes.insert(class);
            }
            if !cursor.take_mark(",") {
                break;
            }
        }
        cursor.mark(":", "a colon after the classes")?;
        if let Some(section) = self.file.sections.last_mut() {
            section.classes = classes;
        }
        Ok(())
    }

    fn settings(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let open = std::mem::replace(&mut self.settings_open, false);
        let Some(section) = self.file.sections.last_mut() else {
            return Err(outside(cursor));
        };
        if !open {
            return Err(cursor.problem(
                "settings stand once, before the rules of their section",
                "move them right below `for ...:`; a rule begins with a condition or `any`",
            ));
        }
        let (window_max, rate) = settings(cursor)?;
        section.settings(
            window_max.unwrap_or(RuleSet::WINDOW_MAX),
            rate.unwrap_or(RuleSet::WINDOW_CHANGES_PER_S),
        );
        Ok(())
    }

    fn rule(&mut self, cursor: &mut Cursor<'_>, place: Place) -> Result<(), Problem> {
        let Some(section) = self.file.sections.last_mut() else {
            return Err(outside(cursor));
        };
        self.settings_open = false;
        section.push(rule(cursor)?, place);
        Ok(())
    }
}

/// The classes that one word of a section's head stands for.
fn classes_named(word: &str, column: usize, width: usize) -> Result<Classes, Problem> {
    if word == "all" {
        return Ok(Classes::ALL);
    }
    word.parse().map(|class: Class| [class].into_iter().collect()).map_err(|_| {
        let names = Class::ALL.map(Class::name).into_iter().chain(["all"]);
        let hint = nearest(word, names).map(|near| format!("; did you mean `{near}`?"));
        Problem {
            column,
            width,
            what: format!("`{word}` is not a class of requests"),
            remedy: format!(
                "the classes are read, write, metadata and all{}",
                hint.unwrap_or_default()
            ),
        }
    })
}

/// A line that only makes sense in a section, before the first one.
fn outside(cursor: &Cursor<'_>) -> Problem {
    if let Some(Token { kind: Kind::Word(word), .. }) = cursor.peek()
        && word != "any"
        && indicator::find(word).is_none()
    {
        let known = ["name", "about", "provenance", "for"];
        let hint = nearest(word, known).map(|near| format!("; did you mean `{near}`?"));
        return cursor.problem(
            &format!("no line begins with `{word}` here"),
            &format!("write name, about, provenance or for{}", hint.unwrap_or_default()),
        );
    }
    cursor
        .problem("this rule stands in no section", "write a line such as `for read, write:` first")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Action, Gap, Hits, Region, Rule, UNBOUNDED};
    use crate::units::Span;

    const MS: u64 = 1_000_000;

    fn errors(text: &str) -> Vec<ParseError> {
        parse(text).unwrap_err().errors
    }

    /// The one error of a rule line in an otherwise right file.
    fn in_rule(rule: &str) -> ParseError {
        let mut all = errors(&format!("afflux rules 1\nfor all:\n{rule}\n"));
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].line, 3);
        all.remove(0)
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = "\u{feff}# a comment first\r\nafflux rules 1\nname \"calm # disks\"\n\
            about \"two\\nlines\"\nprovenance workload \"random-read\"\nprovenance \"a b\" \"\"\n\n\
            for write, read: # the order does not matter\n\
            \twindow at most 30, at most 4 changes/s\n\
            \tack_ewma in [41ms, 48 ms) and pt_ratio < 4.5 -> window * 1 - 1.7, gap 33ms\n\
            \tany -> window + 0.3, gap 0.9 of ack_ewma; hits 12 at pt_ratio 3.25, ack_ewma 39.5us\n\
            for metadata:\nany -> window unchanged\n";
        let file = parse(text).unwrap();
        assert_eq!(file.name.as_deref(), Some("calm # disks"));
        assert_eq!(file.about.as_deref(), Some("two\nlines"));
        assert_eq!(file.provenance("a b"), Some(""));
        assert_eq!(file.sections[0].classes.to_string(), "read, write");
        let set = file.set(Class::Write).unwrap();
        assert_eq!((set.window_max, set.window_changes_per_s), (30.0, 4));
        let region = Region { low: [41 * MS, 0, 0], high: [48 * MS, UNBOUNDED, 4_500] };
        let gap = Gap::Time(Span::from_millis(33));
        let action = Action { multiply: Some(1.0), add: -1.7, gap };
        assert_eq!(set.rules[0], Rule { region, action, hits: Hits::default() });
        assert_eq!(set.rules[1].action.gap, Gap::OfAck(0.9));
        assert_eq!(set.rules[1].hits, Hits { count: 12, means: [39_500, 0, 3_250] });
        assert_eq!(file.sections[0].rule_place(1), Some(Place { line: 11, column: 2 }));
        let metadata = file.set(Class::Metadata).unwrap();
        assert_eq!(metadata.rules[0].action, Action::NONE);
        assert_eq!(metadata.window_max, RuleSet::WINDOW_MAX);
    }

    #[test]
    fn a_misspelt_indicator_is_shown_with_a_caret_and_a_guess() {
        let error = in_rule("  ack_ewma < 3ms and ack_ema >= 48ms -> window + 0.3");
        assert_eq!((error.column, error.width), (22, 7));
        let shown = "line 3, column 22: there is no indicator `ack_ema`\n  \
            3 |   ack_ewma < 3ms and ack_ema >= 48ms -> window + 0.3\n    \
              |                      ^^^^^^^\n    \
              = the indicators are ack_ewma, send_ewma, pt_ratio; did you mean `ack_ewma`?";
        assert_eq!(error.to_string(), shown);
    }

    #[test]
    fn each_mistake_in_a_rule_has_its_own_words() {
        let cases = [
            ("ack_ewma < 48 -> window + 1", 12, "no unit of time"),
            ("ack_ewma < 48mss -> window + 1", 12, "`mss` is not a unit"),
            ("ack_ewma < 0.5ns -> window + 1", 12, "finer than a nanosecond"),
            ("pt_ratio < 4ms -> window + 1", 12, "a ratio has none"),
            ("pt_ratio < 4.5001 -> window + 1", 12, "finer than a thousandth"),
            ("ack_ewma <= 48ms -> window + 1", 10, "leave out their upper"),
            ("ack_ewma in (1ms, 2ms) -> window + 1", 13, "lower bound is part"),
            ("ack_ewma in [1ms, 2ms] -> window + 1", 22, "upper bound is not part"),
            ("ack_ewma in [1ms, inf) -> window + 1", 19, "infinity is no bound"),
            ("ack_ewma < 18446744073709551615ns -> window + 1", 12, "too large"),
            ("ack_ewma < 1ms and ack_ewma < 2ms -> window + 1", 20, "twice on the same side"),
            ("ack_ewma < 1ms", 15, "ends too soon"),
            ("ack_ewma < 1ms or pt_ratio < 2 -> window + 1", 16, "`or` does not belong"),
            ("any -> window", 14, "ends too soon"),
            ("any -> cwnd + 1", 8, "`cwnd` does not belong"),
            ("any -> window * 0.5ms", 17, "a plain number belongs"),
            ("any -> window * 1e999", 17, "too large"),
            ("any -> window + 1 gap 3ms", 19, "`gap` does not belong"),
            ("any -> window + 1, gap 33", 24, "no unit of time"),
            ("any -> window + 1, gap 0.9 of pt_ratio", 31, "`pt_ratio` does not belong"),
            ("any -> window + .5", 17, "`.` has no meaning"),
            ("any -> window + 1; hits 2.5", 25, "not a whole number"),
            ("any -> window + 1; hits 2 at pt_ratio 1, pt_ratio 2", 42, "given twice"),
            ("48ms -> window + 1", 1, "`48ms` does not belong"),
        ];
        for (rule, column, what) in cases {
            let error = in_rule(rule);
            assert!(error.what.contains(what), "{rule}: {error}");
            assert_eq!(error.column, column, "{error}");
            assert!(!error.remedy.is_empty());
        }
    }

    #[test]
    fn the_head_of_the_file_decides_what_it_is() {
        let cases = [
            ("", "no rules in it"),
            ("# only a comment\n", "no rules in it"),
            ("[section]\nkey = 1\nkey = 2\n", "not the head"),
            ("afflux rules\n", "ends too soon"),
            ("afflux rules 2\nfor nobody: %\n", "version 2 is newer"),
            ("afflux rules 0\n", "no version 0"),
            ("afflux rules 1 please\n", "`please` does not belong"),
        ];
        for (text, what) in cases {
            let all = errors(text);
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].what.contains(what), "{}", all[0]);
        }
        assert!(parse("afflux rules 1\n").unwrap().sections.is_empty());
    }

    #[test]
    fn each_mistake_around_the_rules_has_its_own_words() {
        let cases = [
            ("nmae \"x\"\n", 2, "no line begins with `nmae`", "did you mean `name`"),
            ("name x\n", 2, "`x` does not belong", "in quotes"),
            ("name \"x\"\nname \"y\"\n", 3, "given twice", "keep one"),
            ("provenance a \"x\"\nprovenance a \"y\"\n", 3, "`a` is given twice", "keep one"),
            ("any -> window + 1\n", 2, "in no section", "for read, write:"),
            ("for reads:\n", 2, "`reads` is not a class", "did you mean `read`"),
            ("for read\n", 2, "ends too soon", "colon"),
            ("for read:\nfor all:\n", 3, "already has rules, in the section on line 2", "one"),
            ("for all:\nname \"x\"\n", 3, "before the first section", "move it up"),
            ("for all:\nwindow at most 3, window at most 4\n", 3, "twice", "keep one"),
            ("for all:\nat most 3\n", 3, "ends too soon", "changes/s"),
            ("for all:\nany -> window + 1\nwindow at most 3\n", 4, "stand once", "`any`"),
        ];
        for (text, line, what, remedy) in cases {
            let all = errors(&format!("afflux rules 1\n{text}"));
            assert_eq!((all.len(), all[0].line), (1, line), "{all:?}");
            assert!(all[0].what.contains(what), "{}", all[0]);
            assert!(all[0].remedy.contains(remedy), "{}", all[0]);
        }
    }

    #[test]
    fn several_errors_are_collected_in_order() {
        let mut text = "afflux rules 1\nfor all, red:\n".to_owned();
        (0..50).for_each(|_| text.push_str("any -> window ^ 2\n"));
        let all = errors(&text);
        assert_eq!(all.len(), ERRORS_MAX);
        assert_eq!((all[0].line, all[0].column), (2, 10));
        assert_eq!((all[19].line, all[19].column), (21, 15));
    }

    #[test]
    fn what_a_terminal_would_act_on_is_not_shown() {
        let shown = in_rule("any -> window \u{1b}[31m").to_string();
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_fail_otherwise_than_by_an_error(
            lines in proptest::collection::vec(r#"[a-z_ \[\]()<>=*+,.;:"\\#0-9µ-]{0,40}"#, 0..8),
        ) {
            let _ = parse(&format!("afflux rules 1\nfor all:\n{}", lines.join("\n")));
            let _ = parse(&lines.join("\n"));
        }
    }
}
