//! Files on storage that is really spread over servers.

use std::process::Command;

use crate::built::afflux_run;
use crate::common::{has, on_disk};

/// Whether this user may make namespaces with mounts; says so when not.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["-mnpf", "--mount-proc", "true"]).output();
    let may = tried.is_ok_and(|tried| tried.status.success());
    if !may {
        println!("SKIPPED: no right to make mount and network namespaces: run the tests as root");
    }
    may
}

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
fn on_cephfs(command: &Command) -> std::process::Output {
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
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report.path()).unwrap()).unwrap();
    let paths = report["paths"].as_array().unwrap();
    for (pool, blocks) in [("ga", 3_u64), ("gb", 5), ("srv3", 7), ("files", 9)] {
        let of = |class: &str, name: &str| {
            let is = |path: &&serde_json::Value| {
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
        assert_eq!(of("write", "gated_bytes"), 2 * blocks << 16, "{pool}");
        // Direct reads, and the one past the end; the cold ones go as far as the kernel reads ahead.
        let read = of("read", "requests");
        assert!((blocks + 1..=2 * (blocks + 1)).contains(&read), "{read} reads of {pool}");
        assert_eq!(of("read", "bytes"), 2 * blocks << 16, "{pool}");
    }
    let others = paths.iter().filter(|path| !path["server"].as_str().unwrap().contains("pool"));
    let requests: u64 = others
        .filter(|path| path["server"].as_str().unwrap().contains("ceph"))
        .map(|path| path["requests"].as_u64().unwrap())
        .sum();
    assert_eq!(requests, 0, "a file of CephFS was taken for one without a pool: {paths:?}");
    assert_eq!(report["faults"], 0);
}

#[test]
fn files_on_glusterfs_are_told_apart_by_their_bricks() {
    if !has("glusterd", "glusterfs-server") || !has("ip", "iproute2") || !may_mount() {
        return;
    }
    // Sockets have short names only; bricks need a file system with attributes.
    let (state, bricks, reports) =
        (tempfile::tempdir().unwrap(), on_disk(), tempfile::tempdir().unwrap());
    let write = "for file in 1 2 3 4 5 6 7 8 9 10 11 12; do \
        dd if=/dev/zero of=$file bs=4k count=5 oflag=dsync status=none; done";
    let mut run = afflux_run(&["--quiet", "--policy", "fixed:2", "--report"]);
    run.arg(reports.path()).args(["--", "sh", "-c", write]);
    let mut inside = Command::new("unshare");
    inside.args([
        "-mnpf",
        "--mount-proc",
        "--propagation",
        "private",
        "timeout",
        "120",
        "sh",
        "-c",
    ]);
    inside.arg(include_str!("gluster.sh")).arg("gluster.sh");
    inside.arg(state.path()).arg(bricks.path()).arg(run.get_program()).args(run.get_args());
    inside.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = inside.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{:?}\n{said}", ran.status);
    let report = std::fs::read_dir(reports.path()).unwrap().flatten().next().unwrap();
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report.path()).unwrap()).unwrap();
    let paths = report["paths"].as_array().unwrap();
    let of = |brick: u32| {
        let name = format!("{}/{brick}", bricks.path().display());
        let is = |path: &&serde_json::Value| {
            let server = path["server"].as_str().unwrap();
            server.contains("brick") && server.ends_with(&name) && path["class"] == "write"
        };
        paths.iter().find(is).map_or(0, |path| path["requests"].as_u64().unwrap())
    };
    let files = |brick: u32| {
        let folder = std::fs::read_dir(bricks.path().join(brick.to_string())).unwrap();
        folder.flatten().filter(|entry| entry.metadata().unwrap().len() == 5 * 4096).count() as u64
    };
    // Five requests for each file, told of the brick that really has it.
    assert_eq!((of(1), of(2)), (5 * files(1), 5 * files(2)), "{paths:?}");
    assert_eq!(files(1) + files(2), 12);
    assert!(files(1) > 0 && files(2) > 0, "twelve names on one brick");
}
