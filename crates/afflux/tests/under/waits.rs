//! Signals that arrive while a request waits for its turn, or has it; and a node without memory for
//! what its processes share.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use afflux_node::shared::Shared;

use crate::built::{afflux_run, compile, library};
use crate::common::{Ran, controllers, on_disk, sh, tenant, under};
use crate::killed::of_job;

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

/// Runs a case that lives on when it is done until it was looked at, with a job's paths to look at
/// by then; what it printed.
fn looked_at(case: &[&str], look: impl FnOnce(&Shared, &str, u64)) {
    let dir = on_disk();
    let program = compile(dir.path(), "waits", include_str!("waits.c"));
    let job = format!("{case:?} of {}", std::process::id());
    let mut run = afflux_run(&["--policy", "fixed:1", "--job", &job, "--quiet", "--root"]);
    run.arg(dir.path()).arg("--").arg(program).args(case);
    run.current_dir(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let mut answer = String::new();
    BufReader::new(run.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    let shared = controllers();
    let done = answer.trim().parse();
    look(&shared, &job, done.unwrap_or_else(|_| panic!("{:?}", run.wait())));
    run.stdin.take().unwrap().write_all(b".").unwrap();
    assert!(run.wait().unwrap().success());
}

/// How many jumps: 3000, or what `AFFLUX_JUMPS` says.
fn jumps() -> String {
    std::env::var("AFFLUX_JUMPS").unwrap_or("3000".to_owned())
}

#[test]
fn a_jump_out_of_a_wait_or_of_a_call_gives_the_place_back() {
    looked_at(&["j", &jumps()], |shared, job, jumps| {
        // A sibling was killed, with or without a place.
        shared.sweep();
        let (in_flight, paths) = of_job(shared, job);
        let waiting: u32 = shared.paths().iter().map(|path| path.waiting).sum();
        println!("{jumps} jumps: {in_flight} in flight, {waiting} waiting, {} paths", paths.len());
        assert_eq!((in_flight, paths.len()), (0, 1));
    });
}

#[test]
fn a_jump_within_a_handler_leaves_the_interrupted_call_its_place() {
    for case in ["k", "l"] {
        looked_at(&[case], |shared, job, writes| {
            let tenant = tenant(shared, job);
            let path = shared.paths().into_iter().find(|path| path.key.tenant == tenant).unwrap();
            println!("{case}: {} replies to {writes} writes", path.counted.replies);
            assert_eq!(path.counted.replies, writes);
            assert_eq!(path.state.unwrap().in_flight(), 0);
        });
    }
}

#[test]
fn a_handler_does_not_wait_for_the_call_that_it_interrupted() {
    let ran = waits("n", "fixed:1");
    assert!(ran.escapes("signal-handler") > 0, "{}", ran.report["escapes"]);
}

/// Runs a command whose `/dev/shm` has `free` bytes left, in a mount namespace of its own; `None`
/// without the right to make one.
fn with_little_memory(dir: &Path, free: u32) -> Option<Ran> {
    let reports = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=8m tmpfs /dev/shm || exit 99
        dd if=/dev/zero of=/dev/shm/full bs=4k status=none 2> /dev/null
        [ $1 = 0 ] || truncate -s -$1 /dev/shm/full; shift; exec \"$@\"";
    let work = "dd if=/dev/zero of=a bs=4k count=8 oflag=dsync status=none && cp a b && cmp a b &&
        (cat b; cat a) | wc -c";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", script, "sh", &free.to_string()]);
    unshare.arg(env!("CARGO_BIN_EXE_afflux")).args(["run", "--quiet", "--policy", "fixed:1"]);
    unshare.arg("--root").arg(dir).arg("--report").arg(reports.path()).arg("--").args(sh(work));
    unshare.env("AFFLUX_LIBRARY", library()).env("XDG_STATE_HOME", "/nonexistent");
    let output = unshare.current_dir(dir).output().ok()?;
    let report = std::fs::read_dir(reports.path()).unwrap().flatten().next();
    match report {
        Some(file) => {
            let text = std::fs::read(file.path()).unwrap();
            Some(Ran { output, report: serde_json::from_slice(&text).unwrap() })
        }
        None if output.status.code() == Some(99) => None,
        None if String::from_utf8_lossy(&output.stderr).contains("unshare") => None,
        None => panic!("{free}: {output:?}"),
    }
}

#[test]
fn where_memory_is_full_programs_run_on_and_are_regulated_each_by_itself() {
    let dir = on_disk();
    let mut all = None;
    // From nothing at all to enough for all but the last.
    for free in [0, 4 << 10, 32 << 10, 64 << 10, 128 << 10, 384 << 10, 1 << 20, 4 << 20] {
        let Some(ran) = with_little_memory(dir.path(), free) else {
            println!(
                "SKIPPED: no mount namespace can be made (unshare --mount --map-root-user): \
                      apt-get install util-linux, or allow user namespaces"
            );
            return;
        };
        let (out, err) = (ran.stdout(), ran.stderr());
        assert!(ran.output.status.success(), "{free}: {:?} {out} {err}", ran.output.status);
        assert_eq!(out.trim(), "65536", "{free}: {err}");
        assert_eq!(ran.report["faults"], 0, "{free}: {err}");
        let said = |what| err.matches(what).count();
        let [programs, private, lost] =
            ["programs", "private", "lost"].map(|name| ran.report[name].as_u64().unwrap());
        println!("{free} free: {programs} programs, {private} private, {lost} lost, {err}");
        // Where the counters of a program are lost, that it was there is not, nor what it used.
        assert_eq!(*all.get_or_insert(programs + lost), programs + lost, "{err}");
        assert_eq!(lost > 0, said("no room for counters") > 0, "{err}");
        assert!(private > 0 || said("regulated by itself") == 0, "{err}");
        assert!(said("regulated by itself") <= 1 && said("no room for counters") <= 1, "{err}");
        if free == 0 {
            assert_eq!(said("regulated by itself"), 1, "{err}");
            assert_eq!((private, lost), (programs, 0), "{err}");
            // The counters found another place.
            assert_eq!(ran.requests("write"), 8, "{}", ran.report["paths"]);
        }
    }
}
