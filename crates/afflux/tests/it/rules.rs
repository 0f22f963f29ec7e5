//! `afflux rules` on files, stdin and what comes along.

#![allow(clippy::unwrap_used, reason = "the helpers of these tests are tests themselves")]

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

const TWO: &str = "\
afflux rules 1
name \"two\"
provenance workload \"random-read\"

for read, write:
  window at most 30, at most 2 changes/s
  ack_ewma in [41ms, 48ms) and pt_ratio < 4.5 -> window - 1.7, gap 33ms; hits 3011 at ack_ewma 45ms, send_ewma 40.2ms, pt_ratio 3.25
  ack_ewma in [41ms, 48ms) and pt_ratio >= 4.5 -> window * 0.5
  ack_ewma >= 48ms -> window + 0.9, gap 40ms
  ack_ewma < 41ms -> window * 0.5
";

/// Exit status, stdout and stderr.
struct Ran(i32, String, String);

fn afflux(args: &[&str], stdin: &str) -> Ran {
    let mut command = Command::cargo_bin("afflux").unwrap();
    let output = command.arg("rules").args(args).write_stdin(stdin).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran(output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn written(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn check_passes_what_can_be_used_and_keeps_stdout_for_findings() {
    let Ran(status, out, talk) = afflux(&["check", "-"], TWO);
    assert_eq!((status, out.as_str()), (0, ""));
    assert_eq!(talk, "stdin: rules 4, errors 0, warnings 0\n");
    let Ran(status, out, _) = afflux(&["check", "-"], &TWO.replace("- 1.7", "- 17"));
    assert_eq!(status, 0);
    assert!(out.starts_with("stdin:7:3: warning: the term of rule 1 (line 7), -17"), "{out}");
}

#[test]
fn check_refuses_gaps_with_an_example() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), "gap.rules", &TWO.replace("< 41ms", "< 40ms"));
    let Ran(status, out, _) = afflux(&["check", &path], "");
    assert_eq!(status, 1);
    let expected = format!(
        "{path}:5:1: error: no rule covers ack_ewma in [40ms, 41ms), for example ack_ewma 40ms, \
         send_ewma 0ms, pt_ratio 1\n"
    );
    assert!(out.starts_with(&expected), "{out}");
    let Ran(status, out, _) = afflux(&["check", "--json", &path], "");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &json["usable"]), (1, &Value::Bool(false)));
    assert_eq!(json["findings"][0]["line"], 5);
}

#[test]
fn check_points_at_what_cannot_be_read() {
    let Ran(status, out, _) = afflux(&["check", "-"], &TWO.replace("48ms ->", "48 ->"));
    assert_eq!(status, 1);
    assert!(out.starts_with("stdin: line 9, column 15: `48` has no unit of time\n"), "{out}");
    assert!(out.contains("\n    |               ^^\n"), "{out}");
    let Ran(status, out, _) = afflux(&["check", "--json", "-"], "nonsense");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &json["findings"][0]["column"]), (1, &Value::from(1)));
}

#[test]
fn show_has_a_row_for_each_rule_and_lists_what_comes_along() {
    let Ran(status, out, _) = afflux(&["show", "-"], TWO);
    assert_eq!(status, 0);
    let row = out.lines().find(|line| line.trim_start().starts_with("1 ")).unwrap();
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let expected = [
        "1",
        "[41ms, 48ms)",
        "any",
        "< 4.5",
        "-",
        "-1.7",
        "33ms",
        "3011",
        "45ms",
        "40.2ms",
        "3.25",
    ];
    assert_eq!(cells, expected, "{out}");
    let Ran(_, out, _) = afflux(&["show", "--json", "-"], TWO);
    let json: Value = serde_json::from_str(&out).unwrap();
    let rule = &json["sections"][0]["rules"][0];
    assert_eq!(rule["box"]["ack_ewma"]["high"], 48_000_000);
    assert_eq!((&rule["gap_ns"], &rule["multiply"]), (&Value::from(33_000_000), &Value::Null));
    let Ran(status, out, _) = afflux(&["show"], "");
    assert!(status == 0 && out.contains("shipped:reads-first"), "{out}");
    let Ran(status, _, talk) = afflux(&["show", "shipped:nothing"], "");
    assert!(status == 1 && talk.contains("calm-2"), "{talk}");
}

#[test]
fn import_and_export_are_each_other_s_inverse() {
    let csv = "1,2\n0,2147483647,0,2147483647,0,2147483647,95,-20,20000\n";
    let Ran(status, rules, talk) = afflux(&["import", "-"], csv);
    assert_eq!((status, talk.as_str()), (0, ""));
    assert!(rules.contains("any -> window * 0.95 - 0.2, gap 20ms"), "{rules}");
    let Ran(status, back, talk) = afflux(&["export", "-"], &rules);
    assert_eq!((status, back.as_str(), talk.as_str()), (0, csv, ""));
    let Ran(status, _, talk) = afflux(&["import", "-"], &csv.replace("1,2", "2,2"));
    assert!(status == 1 && talk.contains("announces 2 rules"), "{talk}");
    let Ran(status, _, talk) = afflux(&["export", "shipped:paced"], "");
    assert!(status == 1 && talk.contains("0.9 of ack_ewma"), "{talk}");
    let Ran(status, out, talk) = afflux(&["export", "--class", "write", "shipped:reads-first"], "");
    assert!(status == 0 && out.starts_with("2,2\n"), "{out}");
    assert!(talk.contains("for reads and writes alike"), "{talk}");
}

#[test]
fn split_cuts_the_hottest_and_simplify_takes_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let next = dir.path().join("next.rules");
    let path = next.to_str().unwrap();
    let Ran(status, out, talk) = afflux(&["split", "--out", path, "-"], TWO);
    assert_eq!((status, out.as_str()), (0, ""));
    assert!(talk.starts_with("rule 1 for read, write became rules 1 to 8\n"), "{talk}");
    let text = std::fs::read_to_string(&next).unwrap();
    let cut = "ack_ewma in [41ms, 45ms) and send_ewma < 40.2ms and pt_ratio < 3.25 -> window - 1.7";
    assert!(text.contains(cut) && text.contains("provenance workload"), "{text}");
    let Ran(status, out, talk) = afflux(&["simplify", path], "");
    // The seven cuts are undone; nothing was hit any more, so that nothing else is dropped.
    assert_eq!((status, out.matches("->").count()), (0, 4), "{out}");
    assert!(talk.contains("for read, write: 11 rules became 4"), "{talk}");
}

#[test]
fn split_says_what_it_lacks() {
    let Ran(status, _, talk) = afflux(&["split", "shipped:two-step"], "");
    assert!(status == 1 && talk.contains("--rule N"), "{talk}");
    for rule in ["0", "3"] {
        let Ran(status, _, talk) = afflux(&["split", "--rule", rule, "shipped:two-step"], "");
        assert!(status == 1 && talk.contains("from 1 to 2"), "{talk}");
    }
    let two = "afflux rules 1\nfor read:\n any -> window + 1\nfor write:\n any -> window - 1\n";
    let Ran(status, _, talk) = afflux(&["split", "--rule", "1", "-"], two);
    assert!(status == 1 && talk.contains("--class read"), "{talk}");
    let Ran(status, _, talk) = afflux(&["split", "--class", "metadata", "-"], two);
    assert!(status == 1 && talk.contains("no rules for metadata"), "{talk}");
    let Ran(status, out, _) = afflux(&["split", "--class", "write", "--rule", "1", "-"], two);
    assert!(status == 0 && out.matches("window - 1").count() == 8, "{out}");
}

#[test]
fn input_that_is_not_there_or_no_text_is_wrong_input() {
    let Ran(status, _, talk) = afflux(&["check", "/nowhere/at.all"], "");
    assert!(status == 1 && talk.contains("/nowhere/at.all"), "{talk}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("binary");
    std::fs::write(&path, b"afflux rules 1\n\xff\xfe").unwrap();
    let Ran(status, _, talk) = afflux(&["show", path.to_str().unwrap()], "");
    assert!(status == 1 && talk.contains("line 2 is not UTF-8"), "{talk}");
    let Ran(status, _, talk) =
        afflux(&["split", "--out", "/nowhere/at.all", "--rule", "1", "-"], TWO);
    assert!(status == 1 && talk.contains("cannot write /nowhere/at.all"), "{talk}");
}

#[test]
fn the_example_in_the_readme_can_be_used() {
    let readme = include_str!("../../../../README.md");
    let from = readme.find("afflux rules 1\n").expect("README.md shows a rule file");
    let example = readme[from..].split("```").next().unwrap();
    let Ran(status, out, talk) = afflux(&["check", "-"], example);
    assert_eq!((status, out.as_str()), (0, ""), "{talk}");
    assert!(talk.contains("errors 0, warnings 0"), "{talk}");
}
