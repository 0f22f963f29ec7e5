//! What a library under a program must not change, in every mode.

use crate::built::compile;
use crate::common::{on_disk, under};

/// The ways in which the library may be put under a program. In the narrow ones every request
/// waits.
const WAYS: &[&[&str]] = &[
    &["--observe"],
    &["--policy", "fixed:8"],
    &["--policy", "fixed:1,gap=1ms"],
    &["--mode", "write-behind", "--policy", "fixed:2"],
];

/// Each trap in each mode; `letter` is that of `traps.c`.
fn sprung(letter: &str) {
    let dir = on_disk();
    let program = compile(dir.path(), "traps", include_str!("traps.c"));
    for way in WAYS {
        let ran = under(dir.path(), way, &[program.to_str().unwrap(), letter]).expect_success();
        assert!(ran.bytes("write") > 0, "{way:?}: nothing was regulated");
        // What is written before the constructor and after the destructors is there.
        for (file, text) in [("early", "early\n"), ("late", "late\n")] {
            assert_eq!(std::fs::read_to_string(dir.path().join(file)).unwrap(), text, "{way:?}");
        }
    }
}

#[test]
fn error_numbers_are_those_of_the_kernel() {
    sprung("e");
}

#[test]
fn positions_are_shared_and_numbers_are_used_again() {
    sprung("d");
}

#[test]
fn children_of_all_kinds_leave_their_parent_alone() {
    sprung("c");
}

#[test]
fn signal_handlers_may_do_what_they_may_do() {
    sprung("s");
}

#[test]
fn threads_are_cancelled_and_leave_no_place_taken() {
    sprung("t");
}
