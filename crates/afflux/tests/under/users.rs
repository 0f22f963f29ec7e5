//! Controllers that are kept for all users of a node, in a mount namespace of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::built::library;
use crate::common::{has, on_disk};
use crate::mounts::may_mount;

/// Users of no program.
const ANN: u32 = 61_001;
const BOB: u32 = 61_002;

/// A machine whose `/run` and `/dev/shm` are empty, and where all users may start Afflux.
struct Machine {
    keeper: Child,
    work: tempfile::TempDir,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

impl Machine {
    /// None where this user cannot make one, or act for others.
    fn new() -> Option<Self> {
        if !has("nsenter", "util-linux") || !has("setpriv", "util-linux") || !may_mount() {
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: no right to act for other users: run the tests as root");
            return None;
        }
        let work = on_disk();
        let script = "set -e; mount -t tmpfs -o mode=755 tmpfs /run
            mount -t tmpfs -o mode=1777 tmpfs /dev/shm
            mkdir /run/bin /run/work; mount --bind \"$1\" /run/work; chmod 777 /run/work
            cp \"$2\" \"$3\" /run/bin; chmod -R a+rX /run/bin; echo ready; exec sleep 600";
        let mut keeper = Command::new("unshare");
        keeper.args(["--mount", "sh", "-c", script, "sh"]).arg(work.path());
        keeper.arg(env!("CARGO_BIN_EXE_afflux")).arg(library()).stdout(Stdio::piped());
        let mut keeper = keeper.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Self { keeper, work })
    }

    /// A command of a user in it.
    fn command(&self, user: u32, command: &[&str]) -> Command {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.keeper.id().to_string(), "--mount"]);
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        enter.args(["setpriv", &user, &group, "--clear-groups", "--"]);
        enter.args(["sh", "-c", "cd /run/work && exec \"$0\" \"$@\""]).args(command);
        enter.env("XDG_STATE_HOME", "/nonexistent").env_remove("XDG_RUNTIME_DIR");
        enter
    }

    /// What `afflux` says for a user, in JSON, and what it says besides.
    fn said(&self, user: u32, arguments: &[&str]) -> (Value, Output) {
        let output = self.afflux(user, arguments).output().unwrap();
        (serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), output)
    }

    fn afflux(&self, user: u32, arguments: &[&str]) -> Command {
        self.command(user, &[&["/run/bin/afflux"], arguments].concat())
    }

    /// `afflux ctl segment`, which must end with this status.
    fn segment(&self, user: u32, action: &str, status: i32) -> String {
        let output = self.afflux(user, &["ctl", "segment", action]).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(output.status.code(), Some(status), "{action} of {user}: {said}");
        said
    }

    /// A short run of synchronous writes: its report, and what was said.
    fn run(&self, user: u32, job: &[&str]) -> (Value, String) {
        let (report, output) = self.said(user, &run(job, &writes(user, 50)));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (report, said)
    }
}

/// Arguments for a run with a window of one.
fn run<'a>(job: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let setting = ["run", "--policy", "fixed:1", "--root", "/run/work", "--quiet", "--json"];
    [&setting, job, &["--", "sh", "-c", script]].concat()
}

/// Synchronous writes of 4 KiB.
fn writes(user: u32, count: u32) -> String {
    format!("exec dd if=/dev/zero of=of-{user} bs=4k count={count} oflag=dsync status=none")
}

fn held(report: &Value) -> u64 {
    let paths = report["paths"].as_array().unwrap().iter();
    paths.map(|path| path["holds"]["window"]["count"].as_u64().unwrap_or(0)).sum()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run that does not end by itself.
struct Endless {
    run: Child,
}

impl Endless {
    fn start(machine: &Machine, user: u32, job: &[&str]) -> Self {
        let file = machine.work.path().join(format!("of-{user}"));
        let _ = fs::remove_file(&file);
        let mut run = machine.afflux(user, &run(job, &writes(user, 1_000_000)));
        let run = run.stdout(Stdio::null()).spawn().unwrap();
        until("it writes", || fs::metadata(&file).is_ok_and(|file| file.len() > 0));
        Self { run }
    }

    /// What is looked at of it by `afflux ctl`, for its user.
    fn paths(&self, machine: &Machine, user: u32) -> Value {
        let (listed, _) = machine.said(user, &["ctl", "list", "--json"]);
        assert_eq!((listed[0]["segment"].as_str(), listed[1].is_null()), (Some("node"), true));
        machine.said(user, &["ctl", "show", "--json"]).0
    }

    fn end(mut self) {
        signal(self.run.id(), "TERM");
        self.run.wait().unwrap();
    }
}

impl Drop for Endless {
    /// A test that fails leaves nothing that writes.
    fn drop(&mut self) {
        let _ = self.run.kill();
    }
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// The process of a user's writer.
fn writer(user: u32) -> u32 {
    let is_it = |process: &fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"dd\0") && String::from_utf8_lossy(&line).contains(&format!("of-{user}"))
    };
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    let process = processes.find(is_it).expect("it writes");
    process.file_name().to_string_lossy().parse().unwrap()
}

#[test]
fn users_share_the_windows_of_a_node_that_keeps_some() {
    let Some(machine) = Machine::new() else { return };
    let (report, said) = machine.run(ANN, &["--job", "both", "--common"]);
    assert_eq!(report["segments"], serde_json::json!(["user"]));
    assert!(said.contains("nothing is kept for the node"), "{said}");
    assert!(machine.segment(ANN, "keep", 1).contains("only root can"));
    assert!(machine.segment(0, "drop", 0).contains("no segment is kept"));
    assert!(machine.segment(0, "keep", 0).contains("from now on"));
    assert!(machine.segment(0, "keep", 0).contains("already"));
    assert!(machine.segment(ANN, "drop", 1).contains("only root can"));
    let ann = Endless::start(&machine, ANN, &["--job", "both", "--common"]);
    let (apart, said) = machine.run(BOB, &["--job", "both"]);
    assert_eq!(apart["segments"], serde_json::json!(["node"]), "{said}");
    let (common, said) = machine.run(BOB, &["--job", "both", "--common"]);
    assert_eq!(
        (&common["segments"], &common["private"]),
        (&apart["segments"], &0.into()),
        "{said}"
    );
    println!("held {} apart, {} in common", held(&apart), held(&common));
    assert!(held(&apart) == 0 && held(&common) > 0, "{said}");
    assert!(machine.segment(0, "drop", 1).contains("in use"));
    ann.end();
    assert!(machine.segment(0, "drop", 0).contains("is gone"));
    let (report, said) = machine.run(ANN, &[]);
    assert_eq!((&report["segments"][0], said.as_str()), (&"user".into(), ""));
}

#[test]
fn a_user_gets_the_slots_of_another_users_dead() {
    let Some(machine) = Machine::new() else { return };
    machine.segment(0, "keep", 0);
    let ann = Endless::start(&machine, ANN, &["--job", "both", "--common"]);
    let dd = writer(ANN);
    // Stopped with the only place of the window in its hand; it has it nearly always.
    until("it is stopped with a place", || {
        signal(dd, "STOP");
        let holds = ann.paths(&machine, ANN)[0]["in_flight"] == 1;
        if !holds {
            signal(dd, "CONT");
        }
        holds
    });
    let script = writes(BOB, 5);
    let mut bob = machine.afflux(BOB, &run(&["--job", "both", "--common"], &script));
    let bob = bob.stdout(Stdio::piped()).spawn().unwrap();
    until("the other one waits", || ann.paths(&machine, ANN)[0]["waiting"] == 1);
    let killed = Instant::now();
    signal(dd, "KILL");
    let ended = bob.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    // Long before it would have gone in any case.
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    assert!(ended.status.success() && held(&report) > 0, "{report}");
    ann.end();
}

#[test]
fn a_segment_that_cannot_be_trusted_is_refused_once_and_the_run_goes_on() {
    let Some(machine) = Machine::new() else { return };
    machine.segment(0, "keep", 0);
    let spoilt = [
        ("chmod 600 $FILE", "its file is a file of user 0 with mode 600"),
        ("chown 61002 $FILE", "its file is a file of user 61002 with mode 666"),
        ("mv $FILE /run/f && ln -s /run/f $FILE", "its file is a symbolic link of user 0"),
        ("chmod 777 /run/afflux", "its directory is a directory of user 0 with mode 777"),
        ("mv /run/afflux /run/a && ln -s a /run/afflux", "its directory is a symbolic link"),
        ("printf '\\377' | dd of=$FILE bs=1 seek=8 conv=notrunc status=none", "has layout 255"),
        ("truncate -s 4096 $FILE", "is no segment of Afflux"),
    ];
    for (spoil, why) in spoilt {
        let script = format!("FILE=$(echo /run/afflux/*); {spoil}");
        assert!(machine.command(0, &["sh", "-c", &script]).status().unwrap().success(), "{spoil}");
        let (report, said) = machine.run(ANN, &[]);
        println!("{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{spoil}: {said}");
        assert!(said.contains("the controllers of this user are used"), "{said}");
        assert_eq!((&report["segments"][0], &report["private"]), (&"user".into(), &0.into()));
        let again = "rm -r /run/afflux /run/a /run/f; /run/bin/afflux ctl segment keep";
        assert!(machine.command(0, &["sh", "-c", again]).output().unwrap().status.success());
        assert_eq!(machine.run(ANN, &[]).0["segments"][0], "node");
    }
}
