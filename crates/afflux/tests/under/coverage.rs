//! What the library saw against what the kernel counted.

use crate::built::compile;
use crate::common::{on_disk, sh, under, under_with};

/// Whether at least this part of the bytes of files that the kernel counted was seen, and not more
/// than it counted.
fn is_covered((seen, counted): (u64, u64), part: f64) -> bool {
    seen as f64 >= part * counted as f64 && seen as f64 <= counted as f64 * 1.001 + 64.0
}

#[test]
fn what_the_c_library_writes_inside_of_itself_is_seen() {
    let dir = on_disk();
    let program = compile(dir.path(), "streams", include_str!("streams.c"));
    let ran = under(dir.path(), &["--observe"], &[program.to_str().unwrap()]).expect_success();
    let [(_, read), (_, written)] = ran.coverage();
    println!("{:?}", ran.coverage());
    assert!(written > 1_000_000 && read > 1_000_000, "{:?}", ran.coverage());
    assert!(is_covered(ran.coverage()[0], 0.99), "{:?}", ran.coverage());
    assert!(is_covered(ran.coverage()[1], 0.999), "{:?}", ran.coverage());
    assert_eq!(ran.escapes("syscall"), 0);
}

#[test]
fn what_programs_seldom_do_with_streams_is_counted_to_the_byte() {
    let dir = on_disk();
    compile(dir.path(), "rare", include_str!("rare.c"));
    let text = format!("number 42\n{}", "gr\u{fc}\u{df}e und k\u{fc}sse \u{1f600}\n".repeat(999));
    std::fs::write(dir.path().join("in"), &text).unwrap();
    let ran = under(dir.path(), &["--observe"], &sh("exec ./rare < in > out")).expect_success();
    assert_eq!(std::fs::read_to_string(dir.path().join("out")).unwrap(), text);
    let size = |name| std::fs::metadata(dir.path().join(name)).unwrap().len();
    let seen = &ran.report["seen"]["regulated"];
    println!("{seen} {}", ran.report["calls"]);
    // Of itself, the kernel reads and writes each byte once.
    assert_eq!(seen["written"], size("out") + size("buffers"));
    assert_eq!(seen["read"], 2 * size("in"));
    let (seen, counted) = ran.coverage()[1];
    assert_eq!(seen, counted, "the kernel's own count");
    // Mapped, grown, given back.
    assert!(ran.calls("mmap").0 >= 3, "{}", ran.report["calls"]);
}

#[test]
fn every_way_to_move_bytes_is_counted_with_its_bytes() {
    let dir = on_disk();
    let program = compile(dir.path(), "ways", include_str!("ways.c"));
    let ran = under(dir.path(), &["--observe"], &[program.to_str().unwrap()]).expect_success();
    // One of them as a list of requests.
    for class in ["aio_read", "aio_write"] {
        assert_eq!(ran.calls(class).1, 2 * 4_096, "{class}: {:?}", ran.calls(class));
    }
    for class in [
        "read",
        "readv",
        "pread",
        "preadv",
        "preadv2",
        "write",
        "writev",
        "pwrite",
        "pwritev",
        "pwritev2",
        "copy_file_range",
        "copied from",
        "sendfile",
        "sent from",
        "dprintf",
        "syscall read",
        "syscall write",
    ] {
        assert_eq!(ran.calls(class).1, 4_096, "{class}: {:?}", ran.calls(class));
    }
    // The file is given to a pipe and taken from it again.
    assert_eq!(ran.calls("splice").1, 4_096);
    assert_eq!(ran.calls("spliced from").1, 4_096);
    for cause in ["mmap", "aio", "syscall"] {
        assert!(ran.escapes(cause) > 0, "{cause}: {}", ran.report["escapes"]);
    }
    for coverage in ran.coverage() {
        // What went by aio and by number is known, but did not pass.
        assert!(coverage.0 <= coverage.1, "{coverage:?}");
    }
}

#[test]
fn a_shell_and_its_children_are_counted_through_forks_and_execs() {
    let dir = on_disk();
    let script = "head -c 3000000 /dev/zero > a; cat a > b; cp b c; cat a b c | wc -c; \
        (echo one; echo two) >> d; exec dd if=c of=e bs=64k status=none";
    let ran = under(dir.path(), &["--observe"], &sh(script)).expect_success();
    assert_eq!(ran.stdout().trim(), "9000000");
    let [read, written] = ran.coverage();
    println!("{read:?} {written:?}");
    assert!(is_covered(written, 0.999) && written.0 >= 12_000_000, "{written:?}");
    assert!(is_covered(read, 0.995) && read.0 >= 18_000_000, "{read:?}");
    assert!(ran.report["processes"].as_u64() > Some(5), "{}", ran.report["processes"]);
}

#[test]
fn a_static_program_is_named_and_spoils_the_coverage() {
    let dir = on_disk();
    let program = dir.path().join("alone");
    let source = dir.path().join("alone.c");
    std::fs::write(&source, "int main(){char b[4096]={0};for(int i=0;i<500;i++)write(1,b,4096);}")
        .unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-static", "-w", "-o"])
        .args([&program, &source])
        .status()
        .unwrap();
    if !compiled.success() {
        println!("SKIPPED: there is no static C library: apt-get install libc6-dev");
        return;
    }
    let required = ["--observe", "--require-coverage", "99%"];
    let ran = under(dir.path(), &required, &sh("./alone > out"));
    assert_eq!(ran.output.status.code(), Some(1), "{}", ran.stderr());
    assert!(ran.stderr().contains("of the bytes of files were seen, not 99%"), "{}", ran.stderr());
    let strangers = ran.report["strangers"].as_object().unwrap();
    assert!(strangers.keys().any(|name| name.ends_with("alone")), "{strangers:?}");
    let good = under(dir.path(), &required, &sh("cat out > out2")).expect_success();
    assert_eq!(good.output.status.code(), Some(0));
    // Its environment is gone, and the library with it.
    let cleared = under(dir.path(), &["--observe"], &sh("env -i /bin/cat out > out3"));
    let strangers = cleared.report["strangers"].as_object().unwrap();
    assert!(strangers.keys().any(|name| name.contains("cat")), "{strangers:?}");
}

#[test]
fn reports_of_ranks_add_up_and_exit_statuses_are_handed_on() {
    let dir = on_disk();
    let reports = tempfile::tempdir().unwrap();
    for (rank, status) in [(1, 0), (2, 7)] {
        let script = format!("head -c 1000000 /dev/zero > rank{rank}; exit {status}");
        let mut afflux = crate::built::afflux_run(&["--observe", "--quiet", "--root"]);
        afflux.arg(dir.path()).arg("--report").arg(reports.path()).arg("--");
        let ran = afflux.args(sh(&script)).current_dir(dir.path()).status().unwrap();
        assert_eq!(ran.code(), Some(status));
    }
    let mut why = std::process::Command::new(env!("CARGO_BIN_EXE_afflux"));
    let output = why.arg("why").arg(reports.path()).arg("--json").output().unwrap();
    let sum: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&sum["runs"], &sum["exits"]), (&2.into(), &serde_json::json!([0, 7])));
    assert_eq!(sum["paths"][0]["bytes"], 2_000_000, "{}", sum["paths"]);
    let killed = under(dir.path(), &["--observe"], &sh("kill -9 $$"));
    assert_eq!(killed.output.status.code(), Some(137));
}

#[test]
fn the_kill_switch_leaves_the_command_alone() {
    let dir = on_disk();
    let ran = under_with(dir.path(), &[], &sh("echo $AFFLUX_DISABLE > x; cat x"), |afflux| {
        afflux.env("AFFLUX_DISABLE", "1");
    });
    assert_eq!((ran.stdout().as_str(), ran.output.status.code()), ("1\n", Some(0)));
    assert_eq!(
        (&ran.report["programs"], ran.report["paths"].as_array().unwrap().len()),
        (&0.into(), 0)
    );
}
