//! Files on storage that is really spread over servers.

use std::process::Command;

use crate::built::afflux_run;
use crate::common::{has, on_disk};

/// Whether this user may make namespaces with mounts; says so when not.
pub(crate) fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["-mnpf", "--mount-proc", "true"]).output();
    let may = tried.is_ok_and(|tried| tried.status.success());
    if !may {
        println!("SKIPPED: no right to make mount and network namespaces: run the tests as root");
    }
    may
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
    let locate = "for file in 1 2 3 4 5 6 7 8 9 10 11 12; do \
        \"$0\" engine locate --json $file 16384; done";
    let mut run = afflux_run(&["--quiet", "--policy", "fixed:2", "--report"]);
    run.arg(reports.path()).args(["--", "sh", "-c", &format!("{write}; {locate}")]);
    run.arg(env!("CARGO_BIN_EXE_afflux"));
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
    let located = String::from_utf8(ran.stdout).unwrap();
    let located: Vec<serde_json::Value> =
        located.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(located.len(), 12);
    for one in located {
        let server = one["offsets"][0]["server"].as_str().unwrap();
        let (_, brick) = server.strip_prefix("brick ").unwrap().split_once(':').unwrap();
        let file = std::path::Path::new(brick).join(one["file"].as_str().unwrap());
        assert_eq!(file.metadata().unwrap().len(), 5 * 4096, "{one}");
        assert_eq!(one["layout"], "glusterfs");
    }
}
