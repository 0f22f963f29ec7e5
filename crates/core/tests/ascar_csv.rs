//! The original client's rule files, in and out, against a scan in the original's own integers.

#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests themselves")]

use afflux_core::class::Class;
use afflux_core::indicator::Signals;
use afflux_core::rules::ascar_csv::{ExportError, export, import};
use afflux_core::rules::{Action, Compiled, Gap, Hits, RuleFile, RuleSet};
use afflux_core::units::Span;
use proptest::prelude::*;

const TWO_RULES: &str = include_str!("data/two-rules.csv");
const READ_BACK: &str = include_str!("data/read-back.csv");
const OVERLAPPING: &str = include_str!("data/overlapping.csv");

fn imported(text: &str) -> RuleSet {
    let file = import(text).unwrap().file;
    assert!(file.set(Class::Metadata).is_none());
    assert_eq!(file.set(Class::Read), file.set(Class::Write));
    file.set(Class::Read).unwrap().clone()
}

/// m, b and gap of the first line that matches, in the integers of the file.
fn scan(text: &str, state: [i64; 3]) -> Option<[i64; 3]> {
    text.lines().skip(1).find_map(|line| {
        let n: Vec<i64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let inside = (0..3).all(|axis| n[2 * axis] <= state[axis] && state[axis] < n[2 * axis + 1]);
        inside.then(|| [n[6].max(-1), n[7], n[8]])
    })
}

/// The same of our set, for the same state.
fn ours(set: &RuleSet, compiled: &Compiled, state: [i64; 3]) -> [i64; 3] {
    let [ack, send, ratio] = state.map(|value| value.unsigned_abs());
    let signals: Signals = [ack * 1_000 + 999, send * 1_000, ratio * 10 + 9];
    let Action { multiply, add, gap } = set.rules[compiled.lookup(&signals)].action;
    let Gap::Time(gap) = gap else { panic!("a gap of the original is a time") };
    let hundredths = |number: f64| (number * 100.0).round() as i64;
    [multiply.map_or(-1, hundredths), hundredths(add), (gap.as_nanos() / 1_000) as i64]
}

fn acts_alike(text: &str, states: impl IntoIterator<Item = [i64; 3]>) {
    let set = imported(text);
    let compiled = Compiled::new(&set).unwrap();
    for state in states {
        let expected = scan(text, state).unwrap_or([-1, 0, 0]);
        assert_eq!(ours(&set, &compiled, state), expected, "{text}\n{state:?}");
    }
}

/// States around all bounds of a file.
fn edges(text: &str) -> Vec<[i64; 3]> {
    let mut values: [Vec<i64>; 3] = Default::default();
    for line in text.lines().skip(1) {
        for (column, field) in line.split(',').take(6).enumerate() {
            let bound: i64 = field.parse().unwrap();
            values[column / 2].extend([bound - 1, bound]);
        }
    }
    for axis in &mut values {
        axis.retain(|value| (0..2_147_483_647).contains(value));
        axis.sort_unstable();
        axis.dedup();
    }
    let [acks, sends, ratios] = &values;
    let plane = |ack: &i64| {
        let ack = *ack;
        sends.iter().flat_map(move |send| ratios.iter().map(move |ratio| [ack, *send, *ratio]))
    };
    acks.iter().flat_map(plane).collect()
}

#[test]
fn a_file_as_it_is_written_is_understood() {
    let set = imported(TWO_RULES);
    assert_eq!((set.window_changes_per_s, set.window_max), (2, 30.0));
    let gap = Gap::Time(Span::from_micros(32_840));
    assert_eq!(set.rules[0].action, Action { multiply: None, add: -1.7, gap });
    let box_text = "ack_ewma in [41ms, 48ms) and pt_ratio < 4.5";
    assert_eq!(set.rules[0].region.to_string(), box_text);
    assert_eq!(set.rules[1].action.multiply, Some(0.95));
    assert_eq!(set.rules[2].action.multiply, Some(1.0));
    // One box is missing from the file, and named in the notes.
    assert_eq!(set.rules.len(), 4);
    assert_eq!(set.rules[3].action, Action::NONE);
    assert!(import(TWO_RULES).unwrap().notes[0].contains("no rule covers 1 box,"));
    acts_alike(TWO_RULES, edges(TWO_RULES));
}

#[test]
fn a_file_read_back_keeps_its_hits_and_goes_out_as_it_came() {
    let set = imported(READ_BACK);
    assert_eq!(set.rules[0].hits, Hits { count: 3_011, means: [45_120_000, 44_870_000, 2_710] });
    let out = export(Some(&set)).unwrap();
    assert_eq!((out.csv.as_str(), out.notes.len()), (READ_BACK, 0));
    let text = import(READ_BACK).unwrap().to_string();
    assert_eq!(RuleFile::checked(&text).unwrap().set(Class::Write), Some(&set));
}

#[test]
fn overlaps_are_cut_so_that_the_first_still_wins() {
    let read = import(OVERLAPPING).unwrap();
    assert!(read.file.lint().iter().all(|finding| !finding.message.contains("overlap")));
    assert!(read.notes.iter().any(|note| note.starts_with("line 3: cut to")), "{:?}", read.notes);
    let lost = "line 4: earlier rules match first everywhere";
    assert!(read.notes.iter().any(|note| note.starts_with(lost)), "{:?}", read.notes);
    let set = imported(OVERLAPPING);
    assert_eq!(set.rules[0].hits.count, 99);
    assert_eq!(set.rules.iter().map(|rule| rule.hits.count).sum::<u64>(), 111);
    acts_alike(OVERLAPPING, edges(OVERLAPPING));
}

#[test]
fn a_zero_in_the_header_clears() {
    for text in ["0", "0\n", "0,2\n", "3,0\n1,2\n"] {
        let read = import(text).unwrap();
        assert!(read.file.sections.is_empty() && read.notes.len() == 1, "{text}");
    }
    assert_eq!(export(None).unwrap().csv, "0\n");
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let rule = "0,2147483647,0,2147483647,0,2147483647,-1,0,20000";
    let cases = [
        (String::new(), 1, "empty"),
        ("x,2\n".to_owned(), 1, "`x` is not a number"),
        ("1\n".to_owned(), 1, "changes a second are missing"),
        (format!("2,2\n{rule}\n"), 2, "announces 2 rules, but there are 1"),
        (format!("2,2\n{rule}\n\n"), 3, "has 9 columns"),
        (format!("1,2\n{}\n", &rule[..20]), 2, "has 9 columns"),
        (format!("1,2\n{}\n", rule.replace("-1", "a")), 2, "column 7, `a`"),
        (format!("1,2\n{}\n", rule.replace("20000", "-5")), 2, "the gap is -5"),
        (format!("1,2\n{}\n", rule.replace("20000", "99999999999")), 2, "32 bits"),
        ("4000000000,2\n".to_owned(), 1, "announces 4000000000 rules"),
    ];
    for (text, line, what) in cases {
        let error = import(&text).unwrap_err();
        assert!(error.line == line && error.what.contains(what), "{text:?}: {error}");
        assert!(!error.remedy.is_empty());
    }
}

#[test]
fn what_the_format_cannot_say_is_refused_or_noted() {
    let mut set = RuleSet::uniform(Action { multiply: Some(0.333), ..Action::NONE });
    set.rules[0].action.gap = Gap::Time(Span::from_nanos(1_499));
    let out = export(Some(&set)).unwrap();
    let infinite = "0,2147483647,0,2147483647,0,2147483647";
    assert_eq!(out.csv, format!("1,2\n{infinite},33,0,1\n"));
    assert!(out.notes[0].contains("the limit of 256 is lost"), "{:?}", out.notes);
    assert!(out.notes[1].contains("rounded to hundredths and microseconds"), "{:?}", out.notes);
    for action in [
        Action { gap: Gap::OfAck(0.9), ..Action::NONE },
        Action { multiply: Some(-0.5), ..Action::NONE },
        Action { add: 1e12, ..Action::NONE },
    ] {
        let error = export(Some(&RuleSet::uniform(action))).unwrap_err();
        assert!(matches!(error, ExportError::Inexpressible { number: 1, .. }), "{error}");
    }
    set.rules.clear();
    assert!(matches!(export(Some(&set)), Err(ExportError::Lint(_))));
}

#[test]
fn rounding_moves_touching_bounds_together() {
    let text = "afflux rules 1\nfor read, write:\n window at most 30\n \
                ack_ewma < 1500ns -> window + 1\n \
                ack_ewma in [1500ns, 1501ns) -> window + 2\n ack_ewma >= 1501ns -> window + 3\n";
    let file = RuleFile::checked(text).unwrap();
    let out = export(file.set(Class::Read)).unwrap();
    assert!(out.csv.starts_with("2,2\n0,2,"), "{}", out.csv);
    assert!(
        out.notes.iter().any(|note| note.starts_with("rule 2 was left out")),
        "{:?}",
        out.notes
    );
    assert_eq!(imported(&out.csv).rules.len(), 2);
}

prop_compose! {
    fn interval()(
        low in 0_i64..30,
        width in 0_i64..30,
        open in prop::bool::weighted(0.3),
    ) -> [i64; 2] {
        [low, if open { 2_147_483_647 } else { low + width }]
    }
}

proptest! {
    #[test]
    fn any_legacy_file_acts_alike_and_its_partition_goes_out_and_in_unchanged(
        boxes in prop::collection::vec(prop::array::uniform3(interval()), 1..8),
        states in prop::collection::vec(prop::array::uniform3(0_i64..70), 64),
    ) {
        let mut text = format!("{},2\n", boxes.len());
        for (index, sides) in boxes.iter().enumerate() {
            let sides = sides.concat();
            let bounds: Vec<String> = sides.iter().map(ToString::to_string).collect();
            text.push_str(&format!("{},{},{index},{index}\n", bounds.join(","), index as i64 - 1));
        }
        acts_alike(&text, states);
        let set = imported(&text);
        let out = export(Some(&set)).unwrap();
        prop_assert!(out.notes.is_empty(), "{:?}", out.notes);
        let again = import(&out.csv).unwrap();
        prop_assert!(again.notes.is_empty(), "{:?}", again.notes);
        prop_assert_eq!(again.file.set(Class::Read), Some(&set));
    }
}
