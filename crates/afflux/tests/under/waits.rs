//! Signals that arrive while a request waits for its turn, or has it; and a node without memory for
//! what its processes share.

use crate::built::compile;
use crate::common::{Ran, on_disk, under};

fn waits(letter: &str, policy: &str) -> Ran {
    let dir = on_disk();
    let program = compile(dir.path(), "waits", include_str!("waits.c"));
    let ran = under(dir.path(), &["--policy", policy], &[program.to_str().unwrap(), letter]);
    let ran = ran.expect_success();
    println!("{letter}: {}{}", ran.stdout(), ran.report["escapes"]);
    ran
}

#[test]
fn a_signal_does_not_end_a_wait() {
    let ran = waits("i", "fixed:8,gap=1s");
    assert_eq!((ran.held("gap").0, ran.escapes("signal-handler")), (1, 0));
}

#[test]
fn a_jump_out_of_a_wait_or_of_a_call_gives_the_place_back() {
    let ran = waits("j", "fixed:1");
    assert!(ran.held("window").0 > 0, "{}", ran.report["paths"]);
    // No handler did anything inside; afterwards the thread is regulated as before.
    assert_eq!(ran.escapes("signal-handler"), 0, "{}", ran.report["escapes"]);
}

#[test]
fn a_handler_does_not_wait_for_the_call_that_it_interrupted() {
    let ran = waits("n", "fixed:1");
    assert!(ran.escapes("signal-handler") > 0, "{}", ran.report["escapes"]);
}
