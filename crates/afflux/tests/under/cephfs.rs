//! CephFS on a real cluster, through FUSE: which pool and which server a file's bytes go to, and a
//! command there as something to measure on.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::built::{self, afflux_run};
use crate::common::has;
use crate::mounts::may_mount;

/// Whether a Ceph cluster with CephFS can be started here; says so when not.
fn may_have_cephfs() -> bool {
    let programs = [
        ("ceph-mon", "ceph-mon"),
        ("ceph-osd", "ceph-osd"),
        ("ceph-mds", "ceph-mds"),
        ("ceph-fuse", "ceph-fuse"),
        ("ceph", "ceph-common"),
        ("setfattr", "attr"),
    ];
    programs.iter().all(|(program, package)| has(program, package)) && may_mount()
}

/// Runs a command beside a Ceph cluster of four servers, in the folder of its CephFS.
fn on_cephfs(command: &Command) -> Output {
    let cluster = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/ceph/cluster.sh");
    let mut inside = Command::new(cluster);
    inside.args(["--osds", "4", "--fs", "--", "timeout", "120", "sh", "-c"]);
    inside.args(["cd \"$MOUNT\" && exec \"$@\"", "sh"]).arg(command.get_program());
    inside.args(command.get_args());
    inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = inside.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{:?}\n{said}", ran.status);
    ran
}

/// Files on groups of servers, by a layout of their directory or their own, and by none.
const LAID_OUT: &str = "\
    mkdir a b; touch own; \
    setfattr -n ceph.dir.layout.pool -v ga a; \
    setfattr -n ceph.dir.layout -v \
        'stripe_unit=65536 stripe_count=2 object_size=131072 pool=gb' b; \
    setfattr -n ceph.file.layout.pool -v srv3 own;";

/// Writes that wait, reads past the cache, and cold ones through it: requests for each.
const USE: &str = "use() { \
    dd if=/dev/zero of=$1 bs=64k count=$2 oflag=dsync conv=notrunc status=none; \
    dd if=/dev/zero of=$1 bs=64k count=$2 oflag=direct conv=notrunc status=none; \
    dd if=$1 of=/dev/null bs=64k iflag=direct status=none; \
    dd if=$1 iflag=nocache count=0 status=none; \
    dd if=$1 of=/dev/null bs=64k status=none; };";

#[test]
fn files_on_cephfs_are_told_apart_by_their_pools() {
    if !may_have_cephfs() {
        return;
    }
    let script = format!("{LAID_OUT} {USE} use a/file 3; use b/file 5; use own 7; use plain 9");
    let reports = tempfile::tempdir().unwrap();
    let mut run = afflux_run(&["--quiet", "--policy", "fixed:2", "--report"]);
    run.arg(reports.path()).args(["--", "sh", "-c", &script]);
    on_cephfs(&run);
    let report = std::fs::read_dir(reports.path()).unwrap().flatten().next().unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(report.path()).unwrap()).unwrap();
    let paths = report["paths"].as_array().unwrap();
    for (pool, blocks) in [("ga", 3_u64), ("gb", 5), ("srv3", 7), ("files", 9)] {
        let of = |class: &str, name: &str| {
            let is = |path: &&Value| {
                let server = path["server"].as_str().unwrap();
                server.starts_with("fuse.ceph-fuse /")
                    && server.ends_with(&format!("/mount pool {pool}"))
                    && path["class"] == class
            };
            let mut mine = paths.iter().filter(is);
            let path = mine.next().unwrap_or_else(|| panic!("no {class} of {pool}: {paths:?}"));
            assert!(mine.next().is_none());
            path[name].as_u64().unwrap()
        };
        // Each write waits: one that is synchronous, and one that is direct.
        assert_eq!(of("write", "requests"), 2 * blocks, "{pool}");
        assert_eq!(of("write", "gated_bytes"), (2 * blocks) << 16, "{pool}");
        // Direct reads and the one past the end; cold ones as far as the kernel reads ahead.
        let read = of("read", "requests");
        assert!((blocks + 1..=2 * (blocks + 1)).contains(&read), "{read} reads of {pool}");
        assert_eq!(of("read", "bytes"), (2 * blocks) << 16, "{pool}");
    }
    let others = paths.iter().filter(|path| !path["server"].as_str().unwrap().contains("pool"));
    let requests: u64 = others
        .filter(|path| path["server"].as_str().unwrap().contains("ceph"))
        .map(|path| path["requests"].as_u64().unwrap())
        .sum();
    assert_eq!(requests, 0, "a file of CephFS was taken for one without a pool: {paths:?}");
    assert_eq!(report["faults"], 0);
}

/// The program itself, with the library for what it runs.
fn afflux() -> Command {
    let mut afflux = Command::new(env!("CARGO_BIN_EXE_afflux"));
    afflux.env("AFFLUX_LIBRARY", built::library()).env("XDG_STATE_HOME", "/nonexistent");
    afflux
}

fn json_in(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Every sixteen bytes of the file say where they are, so that the objects themselves tell whether
/// they were found; the monitor is asked about them once more, by the name that `ceph` users use.
#[test]
fn bytes_of_files_on_cephfs_are_found_on_their_servers() {
    if !may_have_cephfs() || !has("rados", "ceph-common") {
        return;
    }
    let found = tempfile::tempdir().unwrap();
    let offsets = [0_u64, 65_536, 131_072, 196_608 + 160, 393_216, 639_984];
    let list = offsets.map(|offset| offset.to_string()).join(" ");
    let script = format!(
        "set -e; {LAID_OUT} OUT={}; \
         seq -f %015.0f 0 39999 >lines; dd if=lines of=b/file bs=64k conv=fsync status=none; \
         cp b/file own; sync own; \
         for at in {list}; do \
             \"$0\" engine locate --json b/file $at >$OUT/located.$at; \
             object=$(sed 's/.*\"object\":\"\\([^\"]*\\)\".*/\\1/' $OUT/located.$at); \
             rados --pool gb get $object $OUT/object.$at; \
             ceph osd map gb $object --format json >$OUT/map.$at; \
         done; \
         \"$0\" engine locate own 4MiB >$OUT/words; \
         \"$0\" engine locate --json own >$OUT/pool; \
         PATH=/nonexistent \"$0\" engine locate own 0 2>$OUT/missing || echo $? >>$OUT/missing; \
         CEPH_CONF=/nonexistent \"$0\" engine locate own 0 2>$OUT/refused || \
             echo $? >>$OUT/refused",
        found.path().display()
    );
    let mut sh = Command::new("sh");
    sh.args(["-c", &script, env!("CARGO_BIN_EXE_afflux")]);
    on_cephfs(&sh);
    let at = |name: &str, offset: u64| found.path().join(format!("{name}.{offset}"));
    let mut primaries = std::collections::BTreeSet::new();
    for offset in offsets {
        let located = json_in(&at("located", offset));
        assert_eq!(located["layout"], "cephfs");
        let place = &located["offsets"][0];
        assert_eq!((&place["server"], &place["offset"]), (&"pool gb".into(), &offset.into()));
        let within = place["object_offset"].as_u64().unwrap() as usize;
        let object = std::fs::read(at("object", offset)).unwrap();
        let line = String::from_utf8_lossy(&object[within..within + 16]).into_owned();
        assert_eq!(line, format!("{:015}\n", offset / 16), "{place}");
        let map = json_in(&at("map", offset));
        assert_eq!((&place["osds"], &place["placement_group"]), (&map["acting"], &map["pgid"]));
        primaries.extend(place["osds"].as_array().unwrap().iter().map(|osd| osd.as_u64().unwrap()));
    }
    // The second half of four servers keeps the pool, and five objects are seldom on one of them.
    assert!(primaries.iter().all(|osd| (2..4).contains(osd)), "{primaries:?}");
    let text = |name: &str| std::fs::read_to_string(found.path().join(name)).unwrap();
    let words = text("words");
    assert!(words.contains("4 MiB in a row, pool srv3") && words.contains("osd.3"), "{words}");
    let pool = json_in(&found.path().join("pool"));
    assert_eq!(
        (&pool["stretches"][0]["servers"][0], &pool["offsets"]),
        (&"pool srv3".into(), &Value::Array(Vec::new()))
    );
    let missing = text("missing");
    assert!(missing.contains("install ceph-common") && missing.ends_with("2\n"), "{missing}");
    let refused = text("refused");
    assert!(refused.contains("hint: CEPH_CONF") && refused.ends_with("2\n"), "{refused}");
}

#[test]
fn a_command_on_cephfs_is_measured_by_its_pools() {
    if !may_have_cephfs() {
        return;
    }
    let script = format!("{LAID_OUT} exec \"$@\"");
    let command = "write() { while :; do \
        dd if=/dev/zero of=$1/$AFFLUX_CLIENT bs=64k count=16 oflag=dsync status=none; done; }; \
        write a & write b & wait";
    let mut bench = afflux();
    bench.args([
        "bench",
        "--on",
        &format!("cmd:{command}"),
        "--clients",
        "2",
        "--policy",
        "fixed:1",
    ]);
    bench.args(["--settle", "1s", "--length", "2s", "--json"]);
    let mut sh = Command::new("sh");
    sh.args(["-c", &script, "sh"]).arg(bench.get_program()).args(bench.get_args());
    sh.envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = on_cephfs(&sh);
    let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let clients = found["measurement"]["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 2);
    for client in clients {
        let seconds = client["seconds"].as_array().unwrap();
        assert_eq!(seconds.len(), 2);
        assert!(seconds.iter().all(|second| second[1].as_u64().unwrap() > 0), "{client}");
        // One path to each pool.
        assert_eq!(client["data_paths"], 2, "{client}");
        assert!(client["process_time"][1]["count"].as_u64().unwrap() > 16, "{client}");
    }
}
