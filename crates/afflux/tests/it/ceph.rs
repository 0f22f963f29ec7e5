//! `bench/ceph/cluster.sh`: a real Ceph serves the command beside it, and nothing of it survives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use afflux_core::rng::Rng;
use afflux_core::units::Span;
use afflux_node::clock;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::waiting::eventually;

const AFFLUX: &str = env!("CARGO_BIN_EXE_afflux");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/ceph/cluster.sh");

/// Where a test has the state of its cluster, and the files of its disks. Its name is in all that a
/// cluster consists of.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("afflux-ceph-").tempdir().unwrap();
        std::fs::create_dir(root.path().join("disks")).unwrap();
        Self { root }
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn disks(&self) -> PathBuf {
        self.root.path().join("disks")
    }

    /// `cluster.sh` with these options, beside this command for a shell.
    fn cluster(&self, options: &[&str], command: &str) -> Command {
        let mut script = Command::new(SCRIPT);
        script.args(options).arg("--dir").arg(self.state()).args(["--", "sh", "-c", command]);
        script.env("TMPDIR", self.disks());
        script
    }

    /// Everything on this machine that has the place's name in it, but for the place itself.
    fn traces(&self) -> Vec<String> {
        let name = self.root.path().to_str().unwrap();
        let mut found = Vec::new();
        for (process, _) in processes_of(name) {
            found.push(format!("process {}", process.display()));
        }
        let loops = Command::new("losetup").arg("-a").output().unwrap();
        let loops = String::from_utf8_lossy(&loops.stdout).into_owned();
        found.extend(loops.lines().filter(|line| line.contains(name)).map(str::to_owned));
        let files = std::fs::read_dir(self.disks()).unwrap();
        found.extend(files.map(|file| format!("file {}", file.unwrap().path().display())));
        found
    }
}

/// Processes with `name` in their command line, their environment or their mounts, and the
/// namespaces that they are in.
fn processes_of(name: &str) -> Vec<(PathBuf, BTreeSet<PathBuf>)> {
    let has = |file: PathBuf| {
        let text = std::fs::read(file).unwrap_or_default();
        text.windows(name.len()).any(|part| part == name.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let theirs = processes
        .filter(|process| ["cmdline", "environ", "mounts"].iter().any(|of| has(process.join(of))));
    theirs.map(|process| (process.clone(), namespaces_of(&process))).collect()
}

/// The namespaces of a process, as in `net:[4026532281]`.
fn namespaces_of(process: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(process.join("ns")).into_iter().flatten().flatten();
    entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

/// Whether any process is in one of these namespaces, or any mount keeps one.
fn is_alive(namespaces: &BTreeSet<PathBuf>) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.into_iter().any(|process| {
        let mounts = std::fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        !namespaces_of(&process).is_disjoint(namespaces)
            || namespaces.iter().any(|space| mounts.contains(space.to_str().unwrap()))
    })
}

/// Runs it; none when this machine has no Ceph or this user no right, which is said.
fn run(mut cluster: Command) -> Option<Output> {
    let output = cluster.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lacks = ["missing:", "may not make namespaces", "to write to /dev/fuse", "needs root"];
    if output.status.code() == Some(2) && lacks.iter().any(|lack| said.contains(lack)) {
        println!("SKIPPED: {said}");
        return None;
    }
    println!("{said}");
    Some(output)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn objects_are_kept_on_the_server_of_their_pool() {
    let place = Place::new();
    let command = "ceph osd map srv1 greeting && rados --pool srv1 put greeting - \
        && rados --pool srv1 get greeting - && test -S /run/ceph/ceph-osd.1.asok && exit 7";
    let mut cluster = place.cluster(&["--osds", "2", "--verbose"], command);
    let words = place.root.path().join("words");
    std::fs::write(&words, "good morning").unwrap();
    cluster.stdin(std::fs::File::open(&words).unwrap());
    let Some(output) = run(cluster) else { return };
    assert_eq!(output.status.code(), Some(7), "the command's own");
    let out = stdout(&output);
    assert!(out.contains("acting ([1], p1)") && out.ends_with("good morning"), "{out}");
    eventually("nothing is left", || place.traces().is_empty());
    assert!(place.state().join("log/osd.1").exists(), "a named directory keeps its logs");
}

#[test]
fn programs_elsewhere_may_connect() {
    let place = Place::new();
    let ready = place.state().join("ready");
    let command = format!("touch {}; while [ -e {0} ]; do sleep 0.05; done", ready.display());
    if run(place.cluster(&["--osds", "1"], "true")).is_none() {
        return;
    }
    std::fs::remove_dir_all(place.state()).unwrap();
    let mut cluster = place.cluster(&["--osds", "1"], &command).spawn().unwrap();
    eventually("the command runs", || ready.exists());
    let mut rados = Command::new("rados");
    rados.args(["--pool", "srv0", "put", "from-elsewhere", "/etc/hostname"]);
    let put = rados.env("CEPH_CONF", place.state().join("ceph.conf")).output().unwrap();
    std::fs::remove_file(&ready).unwrap();
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    assert_eq!(cluster.wait().unwrap().code(), Some(0));
}

#[test]
fn files_of_cephfs_are_bound_to_servers() {
    let place = Place::new();
    let command = "cd $MOUNT && mkdir half one && setfattr -n ceph.dir.layout.pool -v gb half \
        && setfattr -n ceph.dir.layout.pool -v srv2 one && echo both >half/file \
        && echo alone >one/file && sync half/file one/file && cat half/file one/file \
        && rados --pool srv2 ls && rados --pool gb ls | wc -l";
    let Some(output) = run(place.cluster(&["--fs", "--osds", "3"], command)) else { return };
    assert_eq!(output.status.code(), Some(0));
    let out = stdout(&output);
    let lines: Vec<_> = out.lines().collect();
    assert!(lines.len() == 4 && lines[2].ends_with(".00000000") && lines[3] == "1", "{out}");
    eventually("nothing is left", || place.traces().is_empty());
}

#[test]
fn bluestore_pays_for_the_seeks_of_a_disk() {
    let place = Place::new();
    let command = "losetup --list --noheadings --output AUTOCLEAR,DIO,BACK-FILE \
        && rados --pool srv0 bench 3 write -b 1048576 -t 8 | grep ^Bandwidth";
    let mut options = vec!["--store", "bluestore", "--osds", "1", "--disk", "hdd"];
    options.extend(["--afflux", AFFLUX, "--verbose"]);
    let Some(output) = run(place.cluster(&options, command)) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let out = stdout(&output);
    assert!(out.contains("1   1 /run/disk0"), "{out}");
    let rate: f64 = out.split_whitespace().last().unwrap().parse().unwrap();
    assert!(rate > 0.0 && rate < 113.0, "{rate} MB/s on a disk that moves 113 at most");
    eventually("nothing is left", || place.traces().is_empty());
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let place = Place::new();
    let refused = |options: &[&str], remedy: &str| {
        let output = place.cluster(options, "true").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(remedy), "{options:?}: {said}");
    };
    refused(&["--osds", "many"], "a number from 1 to 64");
    refused(&["--store", "tape"], "mem or bluestore");
    refused(&["--net", "fast"], "as in 400mbit");
    refused(&["--disk", "hdd"], "--store bluestore");
    refused(&["--speed"], "see --help");
    // The last of two is taken.
    std::fs::create_dir(place.state()).unwrap();
    std::fs::write(place.state().join("mine"), "").unwrap();
    refused(&[], "take another");
    let help = Command::new(SCRIPT).arg("--help").output().unwrap();
    assert!(help.status.success() && stdout(&help).contains("examples:"));
}

/// Ends the script after `wait`, or 100 ms after its command started; then nothing may be left.
fn end_it(options: &[&str], wait: Option<Span>, signal: Signal) {
    let place = Place::new();
    let busy = format!(
        "touch {}; while :; do rados --pool srv0 put object /etc/hostname; \
         [ -z \"${{MOUNT:-}}\" ] || date >>$MOUNT/file; done",
        place.state().join("running").display()
    );
    let mut script: Child =
        place.cluster(options, &busy).stderr(Stdio::null()).spawn().expect("the script starts");
    match wait {
        Some(wait) => clock::sleep(wait),
        None => {
            eventually("the command runs", || place.state().join("running").exists());
            clock::sleep(Span::from_millis(100));
        }
    }
    let name = place.root.path().to_str().unwrap();
    let ours = namespaces_of(Path::new("/proc/self"));
    let theirs = processes_of(name).into_iter().flat_map(|(_, spaces)| spaces);
    let theirs: BTreeSet<PathBuf> = theirs.filter(|space| !ours.contains(space)).collect();
    if wait.is_none() {
        // What is looked for afterwards can be found.
        assert!(!place.traces().is_empty() && is_alive(&theirs), "{theirs:?}");
    }
    kill_process(Pid::from_child(&script), signal).unwrap();
    let status = script.wait().unwrap();
    assert!(!status.success(), "{status}");
    eventually(&format!("nothing is left of {options:?}, ended after {wait:?}"), || {
        place.traces().is_empty() && !is_alive(&theirs)
    });
    let devices = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    let devices: Vec<_> = devices.map(|entry| entry.file_name()).collect();
    assert!(!devices.iter().any(|device| device == "srv0"), "{devices:?}");
}

#[test]
fn ctrl_c_is_for_the_command() {
    let place = Place::new();
    if run(place.cluster(&["--osds", "1"], "true")).is_none() {
        return;
    }
    std::fs::remove_dir_all(place.state()).unwrap();
    let running = place.state().join("running");
    let command = format!(
        "trap 'rados --pool srv0 put late /etc/hostname && exit 5' INT; touch {}; \
         while :; do sleep 0.05; done",
        running.display()
    );
    let mut script = place.cluster(&["--osds", "1"], &command).process_group(0).spawn().unwrap();
    eventually("the command runs", || running.exists());
    kill_process_group(Pid::from_child(&script), Signal::INT).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(5), "the cluster was there to the end");
    eventually("nothing is left", || place.traces().is_empty());
}

#[test]
fn nothing_is_left_whenever_it_is_killed() {
    let kills: u64 = std::env::var("AFFLUX_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let mut rng = Rng::new(11);
    let disk = ["--store", "bluestore", "--osds", "2", "--disk", "ssd", "--afflux", AFFLUX];
    let kinds: [&[&str]; 4] = [&[], &["--fs"], &["--net", "1gbit", "--fs"], &disk];
    // Those that this machine and this user can have.
    let is_possible = |kind: &&&[&str]| run(Place::new().cluster(kind, "true")).is_some();
    let kinds: Vec<_> = kinds.iter().filter(is_possible).collect();
    for (_, kind) in (0..kills).zip(kinds.iter().cycle()) {
        end_it(kind, Some(Span::from_millis(rng.below(1200))), Signal::KILL);
    }
    for kind in &kinds {
        end_it(kind, None, Signal::KILL);
        end_it(kind, None, Signal::TERM);
    }
}
