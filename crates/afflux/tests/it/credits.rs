//! Credits on the command line: what `lab up` refuses, and what `lab status` and `sim` tell.

use std::path::Path;
use std::process::{Command, Output};

const AFFLUX: &str = env!("CARGO_BIN_EXE_afflux");

fn afflux(arguments: &[&str]) -> Output {
    Command::new(AFFLUX).args(arguments).output().expect("afflux runs")
}

fn lab(dir: &Path, arguments: &[&str]) -> Output {
    let dir = dir.to_str().unwrap();
    afflux(&[&["lab"], arguments, &["--dir", dir]].concat())
}

#[test]
fn credits_that_make_no_sense_are_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    for (wrong, remedy) in [
        ("RCC_max=4", "begin with it, as in L_max=200ms"),
        ("L_max=1s,shares=3:0", "leave it out for weight 1"),
        ("L_max=1s,RCC_min=9,RCC_max=8", "lower RCC_min or raise RCC_max"),
    ] {
        let up = ["up", "--servers", "1", "--device", "mem", "--credits", wrong];
        let refused = lab(&dir.path().join("lab"), &up);
        let talk = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{wrong}: {talk}");
        assert!(talk.contains(remedy), "{wrong}: {talk}");
    }
}

#[test]
fn a_lab_says_what_its_credits_come_to() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("lab");
    let up = ["up", "--servers", "1", "--device", "mem", "--credits", "L_max=200ms"];
    assert_eq!(lab(&dir, &up).status.code(), Some(0));
    let status = lab(&dir, &["status"]);
    let down = lab(&dir, &["down", "--wipe"]);
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains("storage 0: 0 active clients"), "{text}");
    assert!(text.contains("the bound of 0.2 s"), "{text}");
    assert_eq!((status.status.code(), down.status.code()), (Some(0), Some(0)));
}

#[test]
fn a_world_says_who_ignored_credits_and_which_bound_is_broken() {
    let greedy = afflux(&["sim", "credits-greedy"]);
    let text = String::from_utf8(greedy.stdout).unwrap();
    assert!(text.contains("1 of the clients ignored credits: 15"), "{text}");
    assert!(text.contains(" credits "), "holds are told by reason: {text}");
    let credits = "servers.credits=L_max=100ms";
    let broken = afflux(&["sim", "credits-collapse", "--set", credits]);
    let text = String::from_utf8(broken.stdout).unwrap();
    assert!(text.contains("broken: 1."), "{text}");
}
