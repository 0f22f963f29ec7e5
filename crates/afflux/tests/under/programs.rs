//! Real programs, which check their own data: each must find it right, and must have been counted.

use std::collections::BTreeSet;
use std::process::Output;

use crate::common::{Ran, has, has_by, on_disk, sh, under};

/// Settings under which programs run: one that holds nothing back, and one in which most wait.
const SETTINGS: [&[&str]; 2] = [&["--policy", "fixed:8"], &["--policy", "fixed:1"]];

#[test]
fn fio_verifies_what_every_engine_wrote() {
    if !has("fio", "fio") {
        return;
    }
    // What each engine must have been: gated, or escaped by a cause.
    let engines = [
        ("sync", None),
        ("psync", None),
        ("vsync", None),
        ("pvsync2", None),
        ("posixaio", Some("aio")),
        ("libaio", Some("libaio")),
        ("io_uring", Some("io_uring")),
        ("mmap", Some("mmap")),
        ("splice", Some("splice")),
    ];
    for (engine, cause) in engines {
        let dir = on_disk();
        let direct = if matches!(engine, "mmap" | "splice") { 0 } else { 1 };
        let script = format!(
            "fio --name=job --filename=data --ioengine={engine} --direct={direct} --rw=randwrite \
             --bs=4k --size=2m --verify=crc32c --do_verify=1 --verify_fatal=1 --iodepth=4 \
             --fallocate=none --thread --minimal"
        );
        let ran = under(dir.path(), &["--policy", "fixed:2"], &sh(&script)).expect_success();
        let requests = (ran.requests("read"), ran.requests("write"));
        println!("{engine}: {requests:?}, {}", ran.report["escapes"]);
        match cause {
            // fio does not read back what it wrote with this engine.
            None if engine == "vsync" => assert!(requests.1 >= 512, "{requests:?}"),
            None => assert!(requests.0 >= 512 && requests.1 >= 512, "{engine}: {requests:?}"),
            Some("splice") => {
                assert!(ran.escapes("splice") + ran.calls("splice").0 > 0, "{engine}")
            }
            Some(cause) => assert!(ran.escapes(cause) > 0, "{engine}: {}", ran.report["escapes"]),
        }
    }
}

#[test]
fn stress_ng_finds_its_data_right() {
    if !has("stress-ng", "stress-ng") {
        return;
    }
    for setting in SETTINGS {
        let dir = on_disk();
        let script = "stress-ng --temp-path . --verify --metrics-brief --timeout 30 \
            --hdd 1 --hdd-ops 200 --hdd-bytes 4m --seek 1 --seek-ops 500 --copy-file 1 \
            --copy-file-ops 5 --copy-file-bytes 128m --readahead 1 --readahead-ops 50 \
            --readahead-bytes 4m --fallocate 1 --fallocate-ops 20 --rename 1 --rename-ops 200 \
            --sync-file 1 --sync-file-ops 20 --sync-file-bytes 2m \
            --dup 1 --dup-ops 50 --fcntl 1 --fcntl-ops 200 --sendfile 1 --sendfile-ops 50 \
            --splice 1 --splice-ops 50 --lockf 1 --lockf-ops 200";
        let ran = under(dir.path(), setting, &sh(script)).expect_success();
        assert!(
            ran.calls("write").1 + ran.calls("pwrite").1 > 1_000_000,
            "{}",
            ran.report["calls"]
        );
    }
}

/// Whether python has a module of its own tests.
fn python_has(module: &str) -> bool {
    let mut python = std::process::Command::new("python3");
    let output = python.args(["-c", &format!("import {module}")]).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn cpython_passes_its_own_tests() {
    if !has("python3", "python3") {
        return;
    }
    if !python_has("test.support") || !python_has("test.test_io") {
        println!("SKIPPED: there are no tests of python: apt-get install libpython3.11-testsuite");
        return;
    }
    let tests = "test_mmap test_shutil test_subprocess test_tarfile test_largefile test_sqlite3 \
                 test_io test_os";
    let script = format!("TMPDIR=$PWD python3 -m test --timeout 500 --tempdir . {tests}");
    let dir = on_disk();
    let ran = under(dir.path(), &["--policy", "fixed:4"], &sh(&script));
    if !ran.output.status.success() {
        // Some may fail on this machine in any case; the library must not add to them.
        let alone = on_disk();
        let mut command = std::process::Command::new("sh");
        let plain = command.args(["-c", &script]).current_dir(alone.path()).output().unwrap();
        let (with, without) = (failures(&ran.output), failures(&plain));
        println!("these fail without the library, too: {without:?}");
        let fail = !with.is_empty() && with.is_subset(&without);
        assert!(fail, "{with:?}\n{}\n{}", ran.stdout(), ran.stderr());
    }
    assert_eq!(ran.report["faults"], 0);
    assert!(ran.calls("write").1 > 100_000, "{}", ran.report["calls"]["write"]);
}

/// The cases of which python's tests say that they failed.
fn failures(output: &Output) -> BTreeSet<String> {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let cases = text
        .lines()
        .filter_map(|line| line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")));
    cases.map(str::to_owned).collect()
}

#[test]
fn cargo_builds_what_it_builds_without() {
    // The cargo that runs this test, with no network and nothing to fetch.
    let cargo = std::env::var("CARGO").unwrap_or("cargo".to_owned());
    let script = format!(
        "mkdir src && printf '[package]\\nname = \"small\"\\nedition = \"2021\"\\n[workspace]\\n' \
         > Cargo.toml && printf 'pub fn double(of: u32) -> u32 {{ 2 * of }}\\n' > src/lib.rs && \
         printf 'fn main() {{ println!(\"{{}}\", small::double(21)); }}\\n' > src/main.rs && \
         env -u CARGO_TARGET_DIR -u RUSTFLAGS '{cargo}' build --offline --quiet && \
         target/debug/small && ls target/debug | sort && \
         env -u CARGO_TARGET_DIR -u RUSTFLAGS '{cargo}' build --offline 2>&1 | grep -c Compiling; true"
    );
    for arguments in [&["--policy", "fixed:2"][..], &["--mode", "write-behind"]] {
        let ran = same_as_without(&script, arguments);
        assert!(ran.stdout().starts_with("42\n") && ran.stdout().ends_with("\n0\n"));
        let [read, written] = ran.coverage();
        println!("{arguments:?}: {read:?} {written:?}, {}", ran.report["escapes"]);
        // What the linker and the compiler map is counted by nobody, but said.
        assert!(ran.escapes("mmap") > 0, "{}", ran.report["escapes"]);
        assert!(ran.bytes("write") > 100_000, "{}", ran.report["paths"]);
        assert!(written.0 as f64 >= 0.99 * written.1 as f64, "{written:?}");
        // Each of these programs has the C library look for its stack in its table of mappings,
        // which is a tenth of what so small a build reads.
        assert!(ran.escapes("c-library") >= 5, "{}", ran.report["escapes"]);
        let [known, _] = ran.accounted();
        assert!(known.0 as f64 >= 0.99 * known.1 as f64 && known.0 <= known.1, "{known:?}");
    }
}

#[test]
fn a_database_survives_kills() {
    if !has("sqlite3", "sqlite3") {
        return;
    }
    let dir = on_disk();
    let make = "sqlite3 db 'pragma journal_mode=wal; create table t(n integer primary key, x);'";
    under(dir.path(), &["--policy", "fixed:2"], &sh(make)).expect_success();
    let mut before = 0;
    for round in 1..=6 {
        let script = format!(
            "(for i in $(seq 3000); do echo \"insert into t(x) values(randomblob(500)); select \
             count(*) from t;\"; done) | timeout -s KILL 0.{round} sqlite3 db | tail -1"
        );
        let ran = under(dir.path(), &["--policy", "fixed:2"], &sh(&script));
        let acknowledged: u64 = ran.stdout().trim().parse().unwrap_or(before);
        let check = "sqlite3 db 'pragma integrity_check; select count(*) from t;'";
        let checked = under(dir.path(), &["--policy", "fixed:2"], &sh(check)).expect_success();
        let text = checked.stdout();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("ok"), "{text}");
        let kept: u64 = lines.next().unwrap().parse().unwrap();
        assert!(kept >= acknowledged && kept >= before, "{kept} of {acknowledged}");
        before = kept;
    }
    println!("{before} rows");
    assert!(before > 0);
}

/// Fails unless a script gives the same with the library and without.
fn same_as_without(script: &str, arguments: &[&str]) -> Ran {
    let (dir, alone) = (on_disk(), on_disk());
    let ran = under(dir.path(), arguments, &sh(script)).expect_success();
    let mut command = std::process::Command::new("sh");
    let plain = command.args(["-c", script]).current_dir(alone.path()).output().unwrap();
    assert_eq!(ran.stdout(), String::from_utf8_lossy(&plain.stdout), "{}", ran.stderr());
    ran
}

#[test]
fn everyday_programs_give_the_same_as_without() {
    if !has("git", "git") || !has("bash", "bash") {
        return;
    }
    let script = r#"
        seq 50000 > a; sort -R --random-source=a a > b; sort -n b | cmp - a && echo sorted
        cp a c; cat a b > d; cmp a c && wc -c d
        bash -c 'exec 3> e; echo one >&3; exec 3>> e; printf "%s\n" two >&3; cat < e; read x < e; echo $x'
        tar cf t.tar a b c && mkdir u && tar xf t.tar -C u && cmp u/b b && echo unpacked
        gzip -c a | gunzip | cmp - a && echo zipped
        git init -q r && cd r && cp ../a ../b . && git add . && \
        git -c user.name=n -c user.email=e@e commit -qm m && git fsck 2>/dev/null && git show --stat --format=%s
        git clone -q . ../s && cmp ../s/a ../a && echo cloned
        printf 'int main(void){return 0;}' > m.c && cc -o m m.c && ./m && echo compiled
        dd if=../a of=../f bs=1k conv=fsync status=none && cmp ../a ../f && echo copied
    "#;
    for arguments in [&["--policy", "fixed:1"][..], &["--mode", "write-behind"], &["--observe"]] {
        let ran = same_as_without(script, arguments);
        let [read, written] = ran.coverage();
        println!("{arguments:?}: {read:?} {written:?}");
        assert!(written.0 as f64 >= 0.99 * written.1 as f64, "{written:?}");
        assert!(read.0 as f64 >= 0.97 * read.1 as f64, "{read:?}");
        let [known, _] = ran.accounted();
        assert!(known.0 as f64 >= 0.99 * known.1 as f64, "{known:?} {}", ran.report["escapes"]);
    }
}

#[test]
fn fsx_finds_its_file_as_it_should_be() {
    if !has_by("fsx", "cargo install fsx") {
        return;
    }
    for arguments in [&["--policy", "fixed:2"][..], &["--mode", "write-behind"]] {
        let dir = on_disk();
        let ran = under(dir.path(), arguments, &["fsx", "-N", "20000", "-S", "7", "file"]);
        let ran = ran.expect_success();
        println!("{arguments:?}: {}", ran.report["calls"]);
        assert!(ran.calls("pwrite").0 + ran.calls("write").0 > 1_000, "{}", ran.report["calls"]);
    }
}
