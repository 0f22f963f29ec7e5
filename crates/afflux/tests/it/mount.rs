//! `afflux mount`: programs read and write the store as files.

mod names;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use afflux_core::rng::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::waiting::eventually;

const AFFLUX: &str = env!("CARGO_BIN_EXE_afflux");

/// Directories that are servers.
struct Store {
    root: tempfile::TempDir,
}

impl Store {
    /// None when this user cannot mount, which is said.
    fn new() -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        (0..3).for_each(|dir| std::fs::create_dir(root.path().join(format!("s{dir}"))).unwrap());
        may_mount().then_some(Self { root })
    }

    fn dirs(&self) -> String {
        let dirs = (0..3).map(|dir| self.root.path().join(format!("s{dir}")).display().to_string());
        format!("dirs:{}", dirs.collect::<Vec<_>>().join(","))
    }

    /// A mount in a directory of this name.
    fn mount(&self, name: &str) -> Mounted {
        Mounted::start(&self.root.path().join(name), &self.dirs(), &[])
    }
}

/// A mount that goes when a test ends, in whatever way.
struct Mounted {
    at: PathBuf,
    command: Child,
    talk: Arc<Mutex<String>>,
}

impl Mounted {
    fn start(at: &Path, on: &str, options: &[&str]) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let mut command = Command::new(AFFLUX);
        command.args(["mount", "--on", on]).args(options).arg(at).stderr(Stdio::piped());
        let mut command = command.spawn().unwrap();
        let talk = Arc::new(Mutex::new(String::new()));
        let (errors, heard) = (command.stderr.take().unwrap(), Arc::clone(&talk));
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                heard.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let mounted = Self { at: at.to_owned(), command, talk };
        eventually("it is mounted", || mounted.is_mounted() && mounted.said("is mounted at"));
        mounted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    fn said(&self, what: &str) -> bool {
        self.talk.lock().unwrap().contains(what)
    }

    fn is_mounted(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(&format!(" {} ", self.at.display()))
    }

    /// The exit code after a signal.
    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.command), signal).unwrap();
        self.command.wait().unwrap().code()
    }

    /// Kills it, and takes away what is left of the mount.
    fn kill(&mut self) {
        assert_eq!(self.end(Signal::KILL), None);
        self.unmount();
    }

    fn unmount(&self) {
        for unmount in [&["umount", "--lazy"][..], &["fusermount3", "-u", "-z", "-q"]] {
            if self.is_mounted() {
                // What is wrong shows where it is still mounted.
                let _ = Command::new(unmount[0]).args(&unmount[1..]).arg(&self.at).output();
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.unmount();
        // Most tests have waited for it.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

/// Whether FUSE is there for this user; says so when not.
fn may_mount() -> bool {
    let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let helped = Command::new("fusermount3").arg("--version").output().is_ok();
    let may = fuse.is_ok() && (rustix::process::geteuid().is_root() || helped);
    if !may {
        println!("SKIPPED: no FUSE for this user: apt-get install fuse3, or run the tests as root");
    }
    may
}

fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| rng.bits().to_le_bytes()).take(length).collect()
}

/// Runs a shell command to exit 0.
fn shell(command: &str) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command}: {said}{talk}");
}

fn names(at: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(at).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn programs_copy_list_and_remove_files() {
    let Some(store) = Store::new() else { return };
    let mut mounted = store.mount("mnt");
    let from = store.root.path().join("from");
    std::fs::write(&from, random(1, 5_000_017)).unwrap();
    let (from, at) = (from.display(), mounted.at.display());
    shell(&format!(
        "set -e; mkdir -p {at}/a/b {at}/empty; cp {from} {at}/a/b/copy; cmp {from} {at}/a/b/copy
         cp {from} {at}/top; touch {at}/top; test $(stat -c %s {at}/top) = 5000017
         echo more >>{at}/top; test $(stat -c %s {at}/top) = 5000022
         echo short >{at}/top; test \"$(cat {at}/top)\" = short
         truncate -s 70000 {at}/top; test $(tr -d '\\0' <{at}/top) = short; df {at} >/dev/null"
    ));
    assert_eq!(names(&mounted.at), ["a", "empty", "top"]);
    assert_eq!(names(&mounted.path("a")), ["b"]);
    let kind = |error: std::io::Error| error.kind();
    let top = OpenOptions::new().write(true).open(mounted.path("top")).unwrap();
    assert_eq!(kind(top.set_len(10).unwrap_err()), ErrorKind::Unsupported);
    drop(top);
    assert_eq!(kind(File::create_new(mounted.path("top")).unwrap_err()), ErrorKind::AlreadyExists);
    assert_eq!(kind(File::open(mounted.path("none")).unwrap_err()), ErrorKind::NotFound);
    let error = std::fs::remove_dir(mounted.path("a")).unwrap_err();
    assert_eq!(kind(error), ErrorKind::DirectoryNotEmpty);
    shell(&format!("rm -r {at}/a {at}/empty {at}/top"));
    assert_eq!(names(&mounted.at), Vec::<String>::new());
    assert_eq!(mounted.end(Signal::TERM), Some(0));
    assert!(!mounted.is_mounted());
}

#[test]
fn random_writes_and_reads_agree_with_a_model() {
    let Some(store) = Store::new() else { return };
    let mounted = store.mount("mnt");
    let path = mounted.path("file");
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let file = options.open(&path).unwrap();
    let (mut model, mut rng) = (Vec::<u8>::new(), Rng::new(7));
    for step in 0..400 {
        let offset = rng.below(6 << 20) as usize;
        let length = 1 + rng.below(200_000) as usize;
        if rng.below(2) == 0 {
            let data = random(step, length);
            file.write_all_at(&data, offset as u64).unwrap();
            model.resize(model.len().max(offset + length), 0);
            model[offset..offset + length].copy_from_slice(&data);
        } else {
            let mut read = vec![1; length];
            let count = file.read_at(&mut read, offset as u64).unwrap();
            let expected = &model[offset.min(model.len())..(offset + length).min(model.len())];
            assert!(read[..count] == *expected, "step {step}: {length} bytes at {offset}");
        }
    }
    drop(file);
    assert!(std::fs::read(&path).unwrap() == model);
}

#[test]
fn two_mounts_see_each_others_files() {
    let Some(store) = Store::new() else { return };
    let (left, right) = (store.mount("left"), store.mount("right"));
    std::fs::create_dir(left.path("d")).unwrap();
    for generation in 0..3 {
        let data = random(generation, 300_000 + generation as usize);
        std::fs::write(left.path("d/file"), &data).unwrap();
        eventually("the other mount has it", || {
            std::fs::read(right.path("d/file")).is_ok_and(|read| read == data)
        });
    }
    std::fs::remove_file(right.path("d/file")).unwrap();
    eventually("it is gone", || !left.path("d/file").exists());
}

#[test]
fn what_fio_writes_it_reads_back() {
    let Some(store) = Store::new() else { return };
    if Command::new("fio").arg("--version").output().is_err() {
        println!("SKIPPED: fio against a mount: apt-get install fio");
        return;
    }
    let options = ["--policy", "fixed:2"];
    let mounted = Mounted::start(&store.root.path().join("mnt"), &store.dirs(), &options);
    for direct in [0, 1] {
        shell(&format!(
            "cd {} && fio --name=verify --directory={} --rw=randwrite --bsrange=4k-300k \
             --blockalign=4k --size=24m --numjobs=2 --iodepth=8 --ioengine=libaio --direct={direct} \
             --verify=crc32c --do_verify=1 --verify_fatal=1 --fallocate=none",
            store.root.path().display(),
            mounted.at.display()
        ));
        shell(&format!("rm {}/verify.*", mounted.at.display()));
    }
}

#[test]
fn what_was_synced_outlives_the_mount() {
    let Some(store) = Store::new() else { return };
    let mut mounted = store.mount("mnt");
    let data = random(3, 3_000_001);
    let file = File::create(mounted.path("kept")).unwrap();
    file.write_all_at(&data, 0).unwrap();
    file.sync_all().unwrap();
    mounted.kill();
    drop(file);
    let mounted = store.mount("mnt");
    assert!(std::fs::read(mounted.path("kept")).unwrap() == data);
}

#[test]
fn an_engine_that_fails_gives_errors_and_lives_on() {
    let Some(store) = Store::new() else { return };
    let plain = store.mount("plain");
    std::fs::write(plain.path("file"), random(5, 4 << 20)).unwrap();
    let on = format!("fault:seed=3,fail=0.2,server=1@{}", store.dirs());
    let faulty = Mounted::start(&store.root.path().join("faulty"), &on, &[]);
    let file = OpenOptions::new().read(true).write(true).open(faulty.path("file")).unwrap();
    let (mut failed, mut done) = (0, 0);
    for at in 0..64 {
        match file.write_all_at(&[at; 65_536], u64::from(at) * 65_536) {
            Ok(()) => done += 1,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "{error}");
                failed += 1;
            }
        }
    }
    println!("{done} writes done, {failed} failed");
    assert!(failed > 0 && done > failed, "{done} done, {failed} failed");
    eventually("the error is told", || faulty.said("cannot write `file`: "));
    drop(file);
    let nothing = Mounted::start(&store.root.path().join("null"), "null", &[]);
    std::fs::write(nothing.path("file"), b"gone").unwrap();
    let mut read = Vec::new();
    File::open(nothing.path("file")).unwrap().take(10).read_to_end(&mut read).unwrap();
    assert_eq!(read.len(), 4, "a size is kept, bytes are not");
}

#[test]
fn what_cannot_be_mounted_is_said() {
    for (args, code, says) in [
        (&["mount", "--on", "null", "/no/such/place"][..], 1, "/no/such/place"),
        (&["mount", "--on", "null", "/etc/hostname"], 1, "it is no directory"),
        (&["mount", "--on", "sim:contended", "/tmp"], 1, "there is no engine `sim`"),
        (&["mount", "--on", "null", "--policy", "fixed", "/tmp"], 1, "needs `window`"),
    ] {
        let output = Command::new(AFFLUX).args(args).output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {talk}");
        assert!(talk.contains(says), "{args:?}: {talk}");
    }
}
