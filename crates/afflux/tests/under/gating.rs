//! What reaches a server waits its turn, and nothing else does.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::built::{afflux_run, compile};
use crate::common::{has, on_disk, sh, under};

/// Synchronous writes of 4 KiB by `dd`.
fn synchronous(count: u32) -> String {
    format!("dd if=/dev/zero of=out bs=4k count={count} oflag=dsync status=none")
}

#[test]
fn synchronous_writes_wait_for_the_window_and_the_gap() {
    let dir = on_disk();
    let script = synchronous(50);
    let free = under(dir.path(), &["--policy", "fixed:8"], &sh(&script)).expect_success();
    assert_eq!(free.requests("write"), 50, "{}", free.report["paths"]);
    assert_eq!(free.held("gap"), (0, 0));
    // A request of 4 KiB waits for little more than half of the gap of a full one. In memory, so
    // that the gap is what is waited for, and not a slow disk.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let start = Instant::now();
    let paced = under(memory.path(), &["--policy", "fixed:8,gap=20ms"], &sh(&script));
    let paced = paced.expect_success();
    assert!(start.elapsed() >= Duration::from_millis(49 * 10), "{:?}", start.elapsed());
    let (count, nanos) = paced.held("gap");
    assert!(count >= 40 && nanos > 200_000_000, "{count} {nanos}");
    // The second program meets the first at its work: one starts when the other has written, and
    // that other does not end before it.
    let both = format!(
        "dd if=/dev/zero of=o2 bs=4k count=20000 oflag=dsync status=none & first=$!
         until [ -s o2 ]; do sleep 0.01; done; {script}; kill $first"
    );
    let narrow = under(dir.path(), &["--policy", "fixed:1"], &sh(&both)).expect_success();
    assert!(narrow.requests("write") > 50, "{}", narrow.report["paths"]);
    assert!(narrow.held("window").0 > 0, "{}", narrow.report["paths"]);
}

#[test]
fn limits_that_programs_cannot_keep_are_refused() {
    for setting in ["none+turn=300ms", "fixed:4+tenants=2"] {
        let ran = afflux_run(&["--policy", setting, "--", "true"]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains(setting) && said.contains("leave it out"), "{said}");
    }
}

#[test]
fn runs_of_one_job_share_a_window() {
    let dir = on_disk();
    let mut first = afflux_run(&["--policy", "fixed:1", "--job", "ranks of one", "--quiet"]);
    let endless = sh("exec dd if=/dev/zero of=o2 bs=4k count=20000 oflag=dsync status=none");
    first.arg("--root").arg(dir.path()).arg("--").args(endless).current_dir(dir.path());
    let mut first = first.spawn().unwrap();
    let start = Instant::now();
    while std::fs::metadata(dir.path().join("o2")).map_or(0, |of| of.len()) == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "the first one never wrote");
        std::thread::sleep(Duration::from_millis(5));
    }
    let script = synchronous(50);
    let run = |job| under(dir.path(), &["--policy", "fixed:1", "--job", job], &sh(&script));
    let (other, same) = (run("somebody else").expect_success(), run("ranks of one"));
    let same = same.expect_success();
    assert!(first.try_wait().unwrap().is_none(), "the first one ended early");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&first),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    first.wait().unwrap();
    assert_eq!(other.held("window").0, 0, "{}", other.report["paths"]);
    assert!(same.held("window").0 > 0, "{}", same.report["paths"]);
}

#[test]
fn reads_are_held_when_the_page_cache_lacks_them_and_only_then() {
    let dir = on_disk();
    let program = compile(dir.path(), "reads", include_str!("reads.c"));
    let program = program.to_str().unwrap();
    std::fs::write(dir.path().join("data"), vec![7; 4 << 20]).unwrap();
    for how in ["read", "pread", "fread", "fseek"] {
        let cold = under(dir.path(), &["--policy", "fixed:8"], &[program, how, "cold"]);
        let cold = cold.expect_success();
        // Read outside of the library, so that the page cache has all of it.
        assert_eq!(std::fs::read(dir.path().join("data")).unwrap().len(), 4 << 20);
        let warm = under(dir.path(), &["--policy", "fixed:8"], &[program, how, "warm"]);
        let warm = warm.expect_success();
        println!("{how}: {} cold, {} warm", cold.requests("read"), warm.requests("read"));
        // The program jumps about, and turns read-ahead off, so that each of 64 reads must wait.
        assert!(cold.requests("read") >= 58, "{how}: {}", cold.report["paths"]);
        assert!(warm.requests("read") <= 6, "{how}: {}", warm.report["paths"]);
        assert!(warm.bytes("read") >= 64 * 4096, "{how}: {}", warm.report["paths"]);
    }
}

#[test]
fn reads_at_offsets_are_tried_where_the_kernel_does_not_tell() {
    let dir = on_disk();
    let program = compile(dir.path(), "reads", include_str!("reads.c"));
    std::fs::write(dir.path().join("data"), vec![7; 4 << 20]).unwrap();
    let run = |how| {
        let command = [program.to_str().unwrap(), how, "untold"];
        under(dir.path(), &["--policy", "fixed:8"], &command).expect_success()
    };
    // All is in the page cache. A read that cannot be tried is taken for a server's, at first.
    let (tried, untried) = (run("pread"), run("read"));
    assert!(tried.requests("read") <= 3, "{}", tried.report["paths"]);
    assert!(untried.requests("read") > 3, "{}", untried.report["paths"]);
    assert!(tried.bytes("read") >= 64 * 4096, "{}", tried.report["paths"]);
}

#[test]
fn writes_into_the_page_cache_touch_no_window() {
    let dir = on_disk();
    let script = "head -c 20000000 /dev/zero > a; cp a b; cat a >> b";
    let ran = under(dir.path(), &["--policy", "fixed:1,gap=1s"], &sh(script)).expect_success();
    assert_eq!(ran.requests("write"), 0, "{}", ran.report["paths"]);
    assert_eq!(ran.held("gap").0, 0);
}

#[test]
fn write_behind_sends_full_parts_and_never_more_than_the_window() {
    let dir = on_disk();
    let script = "dd if=/dev/urandom of=a bs=300k count=200 status=none; cp a b; cmp a b; sync b";
    let ran = under(dir.path(), &["--mode", "write-behind", "--policy", "fixed:2"], &sh(script));
    let ran = ran.expect_success();
    // 58.6 MiB each: all full parts of both files are sent, and of their ends less than one.
    let requests = ran.requests("write");
    assert!((114..=119).contains(&requests), "{requests}: {}", ran.report["paths"]);
    assert_eq!(ran.bytes("write"), 2 * 200 * 300 * 1024);
}

/// The most bytes of a file that the kernel had under write-back at once while `work` was done,
/// and how often it was seen to have any; `None` where the kernel does not tell.
fn under_write_back(dir: &Path, file: &str, work: impl FnOnce()) -> Option<(u64, u64)> {
    let mut watch = Command::new(compile(dir, "writeback", include_str!("writeback.c")));
    watch.arg(file).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    work();
    drop(watch.stdin.take());
    let told = watch.wait_with_output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let (most, often) = told.trim().split_once(' ').unwrap();
    Some((most.parse().ok()?, often.parse().unwrap()))
}

#[test]
fn the_kernel_never_has_more_than_the_window_under_write_back() {
    const WINDOW: u64 = 3;
    let dir = on_disk();
    let write =
        |file: &str| format!("dd if=/dev/zero of={file} bs=1M count=150 conv=fsync status=none");
    let alone = under_write_back(dir.path(), "alone", || {
        let mut command = Command::new("sh");
        command.args(["-c", &write("alone")]).current_dir(dir.path());
        assert!(command.status().unwrap().success());
    });
    let Some((most, _)) = alone.filter(|(most, _)| *most > (2 * WINDOW) << 20) else {
        println!(
            "SKIPPED: this kernel does not tell what is under write-back (cachestat, Linux \
                  6.5), or there is no disk behind this directory: {alone:?}"
        );
        return;
    };
    println!("without: {most} bytes at once");
    let behind = under_write_back(dir.path(), "behind", || {
        let arguments = ["--mode", "write-behind", "--policy", &format!("fixed:{WINDOW}")];
        let ran = under(dir.path(), &arguments, &sh(&write("behind"))).expect_success();
        assert_eq!(ran.requests("write"), 150, "{}", ran.report["paths"]);
    });
    let (most, often) = behind.unwrap();
    println!("with a window of {WINDOW} MiB: {most} bytes at once, seen {often} times");
    assert!(often > 20 && most > 0 && most <= WINDOW << 20, "{most} {often}");
}

#[test]
fn a_run_is_paused_resumed_and_given_other_rules_while_it_lives() {
    let dir = on_disk();
    let mut run = afflux_run(&["--policy", "fixed:1,gap=1s", "--quiet", "--root"]);
    run.arg(dir.path()).arg("--").args(sh(&synchronous(60))).current_dir(dir.path());
    let start = Instant::now();
    let mut child = run.stdout(Stdio::null()).spawn().unwrap();
    let (pid, pid_of_run) = (child.id().to_string(), u64::from(child.id()));
    let ctl = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_afflux"));
        let output = command.arg("ctl").args(arguments).args(["--run", &pid, "--json"]).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), serde_json::from_slice::<serde_json::Value>(&output.stdout), text)
    };
    let there = || {
        ctl(&["list"]).1.is_ok_and(|runs| {
            runs.as_array().unwrap().iter().any(|run| run["pid"].as_u64() == Some(pid_of_run))
        })
    };
    while !there() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(1_200));
    assert!(child.try_wait().unwrap().is_none(), "a gap of a second holds it for half a minute");
    let (done, state, text) = ctl(&["set", "--policy", "fixed:2,gap=20ms"]);
    assert!(done, "{text}");
    assert_eq!(state.unwrap()["setting"], "fixed:2,gap=20ms");
    let (done, state, text) = ctl(&["pause"]);
    assert!(done && state.unwrap()["paused"] == true, "{text}");
    assert!(child.wait().unwrap().success());
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let (done, _, text) = ctl(&["pause"]);
    assert!(!done && text.contains("is under way"), "{text}");
}

#[test]
fn programs_that_are_killed_leave_no_place_taken() {
    let dir = on_disk();
    if !has("timeout", "coreutils") {
        return;
    }
    let script = "for i in 1 2 3 4 5 6 7 8; do \
        timeout -s KILL 0.2 dd if=/dev/zero of=k$i bs=4k count=100000 oflag=dsync status=none; \
        done; dd if=/dev/zero of=last bs=4k count=20 oflag=dsync status=none";
    let start = Instant::now();
    let ran = under(dir.path(), &["--policy", "fixed:1"], &sh(script));
    assert!(ran.output.status.success(), "{}", ran.stderr());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(ran.requests("write") > 20);
}
