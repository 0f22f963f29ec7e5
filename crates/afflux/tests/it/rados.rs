//! The commands on a real Ceph cluster, and where there is none.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn afflux() -> &'static Path {
    assert_cmd::cargo::cargo_bin!("afflux")
}

/// Runs a shell command beside a cluster of two servers, with `afflux` on its path; says what is
/// missing where there cannot be one.
fn beside_a_cluster(dir: &Path, command: &str) -> Option<Output> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/ceph/cluster.sh");
    std::fs::write(dir.join("small.toml"), include_str!("small.toml")).unwrap();
    let mut beside = Command::new(script);
    let folder = afflux().parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    beside.args(["--osds", "2", "--", "sh", "-c", command]);
    let output = beside.env("PATH", path).current_dir(dir).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    if talk.contains("cluster.sh: missing:") || talk.contains("this user may not") {
        println!("SKIPPED: {talk}");
        return None;
    }
    assert!(output.status.success(), "{:?}: {talk}", output.status);
    Some(output)
}

#[test]
fn bench_search_and_probe_run_on_it_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let quick = "--length 1s --settle 50ms --json";
    let command = format!(
        "set -e
         afflux bench small.toml --on rados {quick} --compare fixed:2 --pairs 2 >compared
         afflux bench small.toml --on rados --policy fixed:4 --length 3s --json >alone &
         sleep 1
         afflux engine probe --on rados --for 1s --json >probed
         wait $!
         afflux search small.toml --on rados {quick} --method grid --budget 8runs --pairs 2 --out found \
             >searched
         afflux engine probe --on rados:$CEPH_CONF:srv0,srv1 >table
         ! afflux bench small.toml --on rados:$CEPH_CONF:srv1,srv0 {quick} 2>refused"
    );
    if beside_a_cluster(dir.path(), &command).is_none() {
        return;
    }
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&text(name)).unwrap();
    let compared = json("compared");
    let throughput = &compared[0]["metrics"][0];
    assert!(throughput["baseline"].as_f64().unwrap() > 0.0, "{throughput}");
    assert!(throughput["setting"].as_f64().unwrap() > 0.0, "{throughput}");
    let alone = json("alone");
    assert_eq!(alone["summary"]["faults"], 0, "{}", alone["summary"]);
    // The servers count what the clients do: within a second of the run.
    let probed = json("probed");
    let servers = probed["servers"].as_array().unwrap();
    let names: Vec<_> = servers.iter().map(|server| server["server"].as_str().unwrap()).collect();
    assert_eq!(names, ["srv0", "srv1", "srv0"]);
    for server in servers {
        let moved = |what: &str| server[what].as_f64().unwrap();
        assert!(moved("requests") > 0.0, "{server}");
        assert!(moved("read_bytes") + moved("written_bytes") > 0.0, "{server}");
        assert!(moved("answered_secs") > 0.0 && server["stored_bytes"].is_null(), "{server}");
    }
    assert_eq!(json("searched")["comparisons"].as_array().unwrap().len(), 1);
    assert!(dir.path().join("found/report.html").exists());
    assert!(text("table").contains("2 servers and a catalog"), "{}", text("table"));
    assert!(text("refused").contains("in the same order"), "{}", text("refused"));
}

#[test]
fn a_trace_is_replayed_on_it_and_it_is_mounted() {
    let dir = tempfile::tempdir().unwrap();
    let command = "set -e
         afflux bench small.toml --on trace:t.jsonl@rados --length 1s --settle 50ms --json >recorded
         afflux replay t.jsonl --on rados --policy fixed:4 --json >replayed
         if ! test -w /dev/fuse; then echo no right to mount >skipped; exit 0; fi
         mkdir mnt
         afflux mount --on rados --policy fixed:4 mnt 2>talk &
         until grep -q 'is mounted at' talk; do kill -0 $!; sleep 0.1; done
         head -c 9000001 /dev/urandom >from
         mkdir mnt/d && cp from mnt/d/copy && cmp from mnt/d/copy
         dd if=mnt/d/copy of=direct bs=1M iflag=direct 2>/dev/null && cmp from direct
         ls mnt/d >listed; test -d mnt/small
         kill $! && wait $!
         afflux mount --on rados mnt 2>again &
         until grep -q 'is mounted at' again; do kill -0 $!; sleep 0.1; done
         cmp from mnt/d/copy && rm -r mnt/d && ls mnt >left
         umount mnt && wait $!";
    if beside_a_cluster(dir.path(), command).is_none() {
        return;
    }
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let replayed: Value = serde_json::from_str(&text("replayed")).unwrap();
    assert_eq!(replayed["summary"]["faults"], 0, "{}", replayed["summary"]);
    assert_eq!(replayed["requests"], text("t.jsonl").lines().count() - 1);
    if dir.path().join("skipped").exists() {
        println!("SKIPPED: a mount of a cluster: run the tests as root");
        return;
    }
    // The replay has left nothing; the workload's files stay.
    assert_eq!((text("listed").trim(), text("left").trim()), ("copy", "small"));
}

#[test]
fn where_the_library_is_missing_its_package_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // One that cannot be loaded stands before any that could.
    std::fs::write(dir.path().join("librados.so.2"), "").unwrap();
    let mut command = Command::new(afflux());
    command.args(["bench", "random-read", "--on", "rados"]).env("LD_LIBRARY_PATH", dir.path());
    let output = command.output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{talk}");
    assert!(output.stdout.is_empty() && talk.contains("apt-get install librados2"), "{talk}");
}
