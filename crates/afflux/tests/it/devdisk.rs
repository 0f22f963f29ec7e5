//! `afflux devdisk`: its bytes are real, and its time is the model's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use afflux_core::device::{Device, DeviceRequest, DeviceSpec};
use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};
use afflux_node::clock;
use afflux_store::objects::buffer::BufferPool;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::waiting::eventually;

const AFFLUX: &str = env!("CARGO_BIN_EXE_afflux");
const SIZE_BYTES: u64 = 4 << 30;
const READ_BYTES: u64 = 256 << 10;

/// A disk in a directory of its own, unmounted and ended when a test ends, in whatever way.
struct Served {
    root: tempfile::TempDir,
    disk: Child,
}

impl Served {
    /// A disk of 4 GiB of this device; none when this user cannot mount, which is said.
    fn start(device: &str) -> Option<Self> {
        if !may_mount() {
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let disk = devdisk(root.path(), &["--device", device, "--size", "4GiB"]).spawn().unwrap();
        let served = Self { root, disk };
        eventually("the disk is mounted", || served.at().metadata().is_ok_and(|at| at.len() > 0));
        Some(served)
    }

    fn at(&self) -> PathBuf {
        self.root.path().join("disk")
    }

    fn back(&self) -> PathBuf {
        self.root.path().join("back")
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.at()).unwrap()
    }

    /// The exit code after a signal.
    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.disk), signal).unwrap();
        self.disk.wait().unwrap().code()
    }

    fn is_mounted(&self) -> bool {
        is_mounted(&self.at())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        unmount(&self.at());
        // Most tests have waited for it.
        let _ = self.disk.kill();
        let _ = self.disk.wait();
    }
}

/// The command for the disk of a directory, kept in a file beside it.
fn devdisk(root: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(AFFLUX);
    command.arg("devdisk").arg("--back").arg(root.join("back")).args(options);
    command.arg(root.join("disk")).stderr(Stdio::piped());
    command
}

fn is_mounted(at: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(&format!(" {} ", at.display()))
}

/// Unmounts it, in use or not; root does so itself.
fn unmount(at: &Path) {
    for unmount in [&["umount", "--lazy"][..], &["fusermount3", "-u", "-z", "-q"]] {
        if is_mounted(at) {
            // What is wrong shows where it is still mounted.
            let _ = Command::new(unmount[0]).args(&unmount[1..]).arg(at).output();
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether FUSE is there for this user; says so when not.
fn may_mount() -> bool {
    let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let helped = Command::new("fusermount3").arg("--version").output().is_ok();
    let may = fuse.is_ok() && (is_root() || helped);
    if !may {
        println!("SKIPPED: no FUSE for this user: apt-get install fuse3, or run the tests as root");
    }
    may
}

/// Bytes that are different for each offset and each generation.
fn pattern(offset_bytes: u64, generation: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(offset_bytes ^ (generation << 48));
    (0..length / 8).flat_map(|_| rng.bits().to_le_bytes()).collect()
}

fn offsets(seed: u64, count: usize, length_bytes: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    (0..count).map(|_| rng.below(SIZE_BYTES / length_bytes) * length_bytes).collect()
}

/// Readers at random places, who read so often all together.
fn random(readers: usize, reads: usize) -> Vec<Vec<u64>> {
    let places = offsets(5, reads, READ_BYTES);
    places.chunks(reads / readers).map(<[u64]>::to_vec).collect()
}

/// Readers of consecutive stretches, each in a part of the disk of its own.
fn sequential(readers: u64, reads: u64) -> Vec<Vec<u64>> {
    let of = |reader| {
        let start = SIZE_BYTES / 8 * reader;
        (0..reads / readers).map(|read| start + read * READ_BYTES).collect()
    };
    (0..readers).map(of).collect()
}

/// What readers take on the model when each asks for the next as soon as it has one.
fn predicted(device: &str, readers: &[Vec<u64>]) -> Span {
    let mut device: Box<dyn Device> = device.parse::<DeviceSpec>().unwrap().build(1);
    let mut left: Vec<_> = readers.iter().map(|places| places.iter()).collect();
    let mut end = Time::ZERO;
    let mut ask = |device: &mut dyn Device, reader: usize, at: Time| {
        if let Some(place) = left[reader].next() {
            let (offset_bytes, length_bytes) = (*place, READ_BYTES);
            let id = reader as u64;
            device.submit(at, DeviceRequest { id, write: false, offset_bytes, length_bytes });
        }
    };
    (0..readers.len()).for_each(|reader| ask(&mut *device, reader, end));
    while let Some(next) = device.next_done() {
        let done = device.poll(next).unwrap();
        end = done.at;
        ask(&mut *device, done.id as usize, end);
    }
    end.since(Time::ZERO)
}

/// What they take really.
fn measured(disk: &File, readers: &[Vec<u64>]) -> Span {
    let buffers = BufferPool::new(0);
    let before = clock::now();
    std::thread::scope(|scope| {
        for places in readers {
            scope.spawn(|| {
                let mut buffer = buffers.take(READ_BYTES as usize);
                places.iter().for_each(|at| disk.read_exact_at(&mut buffer, *at).unwrap());
            });
        }
    });
    clock::now().since(before)
}

/// Fails unless readers take what the model says; gives that.
fn take_their_time(disk: &File, what: &str, readers: &[Vec<u64>]) -> Span {
    let model = predicted("hdd", readers);
    // Nothing is faster than the platters; what reads once more sees no cache.
    let reads = readers.iter().map(Vec::len).sum::<usize>() as u64;
    let least = Span::from_secs_f64((reads * READ_BYTES) as f64 / 113e6);
    // A reader whom the machine holds up makes it longer, or spares the others the seeks.
    eventually(&format!("{what} take what the model says"), || {
        let took = measured(disk, readers);
        println!("{what}: {took} measured, {model} predicted");
        assert!(took >= least.mul_f64(0.9), "{what}: {took}, faster than any disk");
        took >= model.mul_f64(0.75) && took <= model.mul_f64(1.5)
    });
    model
}

#[test]
fn bytes_come_back_from_the_disk_and_from_what_keeps_them() {
    let Some(mut served) = Served::start("ssd") else { return };
    let disk = served.open();
    for offset in offsets(3, 16, 1 << 20) {
        disk.write_all_at(&pattern(offset, 0, 1 << 20), offset).unwrap();
    }
    disk.write_all_at(&pattern(17, 0, 104), 17).unwrap();
    let mut read = vec![0; 104];
    disk.read_exact_at(&mut read, 17).unwrap();
    assert_eq!(read, pattern(17, 0, 104));
    let beyond = disk.write_all_at(&[1], SIZE_BYTES).unwrap_err();
    assert_eq!(beyond.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(disk.read_at(&mut read, SIZE_BYTES - 4).unwrap(), 4, "no further than its end");
    assert!(disk.set_len(5).is_err(), "a disk does not shrink");
    drop(disk);
    assert_eq!(served.end(Signal::TERM), Some(0));
    assert!(!served.is_mounted());

    let kept = File::open(served.back()).unwrap();
    for offset in offsets(3, 16, 1 << 20) {
        let mut read = vec![0; 1 << 20];
        kept.read_exact_at(&mut read, offset).unwrap();
        assert!(offset == 0 || read == pattern(offset, 0, 1 << 20), "{offset}");
    }
}

#[test]
fn a_random_read_costs_a_seek_and_a_sequential_one_does_not() {
    let Some(served) = Served::start("hdd") else { return };
    let disk = served.open();
    let alone = take_their_time(&disk, "64 random reads", &random(1, 64));
    let together = take_their_time(&disk, "64 random reads of 16 readers", &random(16, 64));
    let in_order = take_their_time(&disk, "64 sequential reads", &sequential(1, 64));
    // These are so far apart that the bounds tell them apart.
    assert!(alone > in_order.mul_f64(3.0), "seeks: {alone} and {in_order}");
    assert!(together < alone.mul_f64(0.7), "the elevator: {together} and {alone}");
}

#[test]
fn a_loop_device_on_it_is_a_block_device_on_which_readers_disturb_each_other() {
    let Some(served) = Served::start("hdd") else { return };
    if !is_root() {
        println!("SKIPPED: no right to attach loop devices: run the tests as root");
        return;
    }
    let mut attach = Command::new("losetup");
    attach.args(["--find", "--show", "--direct-io=on"]).arg(served.at());
    let attached = attach.output().unwrap();
    assert!(attached.status.success(), "{}", String::from_utf8_lossy(&attached.stderr));
    let name = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
    let direct = OFlags::DIRECT.bits() as i32;
    let device = OpenOptions::new().read(true).write(true).custom_flags(direct).open(&name);
    // From now on it goes with its last user.
    assert!(Command::new("losetup").args(["-d", &name]).status().unwrap().success());
    let device = device.unwrap();

    let mut bytes = BufferPool::new(0).take(8 << 20);
    bytes.copy_from_slice(&pattern(0, 1, 8 << 20));
    device.write_all_at(&bytes, 0).unwrap();
    device.sync_all().unwrap();
    let mut read = vec![0; bytes.len()];
    File::open(served.back()).unwrap().read_exact_at(&mut read, 0).unwrap();
    assert!(read == *bytes, "what was synced is kept");

    take_their_time(&device, "64 random reads", &random(1, 64));
    let [one, two, ..] = [1, 2, 4, 8].map(|readers| {
        let what = format!("128 sequential reads of {readers} readers");
        take_their_time(&device, &what, &sequential(readers, 128))
    });
    assert!(two > one.mul_f64(3.0), "interference: {one} and {two}");
    drop(device);
    eventually("the loop device is gone", || {
        let listed = Command::new("losetup").arg("-j").arg(served.at()).output().unwrap();
        listed.stdout.is_empty()
    });
}

#[test]
fn what_was_synced_survives_a_kill() {
    for seed in 0..3 {
        let Some(mut served) = Served::start("ssd") else { return };
        let disk = served.open();
        let length = 64 << 10;
        let (mut synced, mut rng) = (Vec::new(), Rng::new(seed));
        let pid = Pid::from_child(&served.disk);
        let (done, pause) = (&AtomicU64::new(0), Span::from_micros(rng.below(5_000)));
        let enough = 20 + rng.below(80);
        let kill = move || {
            eventually("enough is synced", || done.load(Ordering::Relaxed) >= enough);
            clock::sleep(pause);
            kill_process(pid, Signal::KILL).unwrap();
        };
        // Each place has what was written there last; of the very last write nobody knows.
        std::thread::scope(|scope| {
            scope.spawn(kill);
            for generation in 1.. {
                let offset = rng.below(64) * length;
                let bytes = pattern(offset, generation, length as usize);
                synced.push((offset, generation));
                if disk.write_all_at(&bytes, offset).and_then(|()| disk.sync_data()).is_err() {
                    break;
                }
                done.store(generation, Ordering::Relaxed);
            }
        });
        assert!(served.disk.wait().unwrap().code().is_none(), "killed");
        let kept = File::open(served.back()).unwrap();
        let (last, _) = *synced.last().unwrap();
        let mut checked = 0;
        for place in (0..64).map(|place| place * length).filter(|place| *place != last) {
            let latest = synced.iter().rev().find(|(offset, _)| *offset == place);
            let Some((_, generation)) = latest else { continue };
            let mut read = vec![0; length as usize];
            kept.read_exact_at(&mut read, place).unwrap();
            assert!(read == pattern(place, *generation, length as usize), "{place} {generation}");
            checked += 1;
        }
        assert!(checked > 9, "{checked}");
    }
}

#[test]
fn it_ends_in_every_way_and_says_what_cannot_be() {
    let Some(mut served) = Served::start("mem") else { return };
    unmount(&served.at());
    assert_eq!(served.disk.wait().unwrap().code(), Some(0), "its mount was taken away");

    let mut again = devdisk(served.root.path(), &["--size", "4GiB"]).spawn().unwrap();
    eventually("the disk is mounted", || served.is_mounted());
    let open = served.open();
    kill_process(Pid::from_child(&again), Signal::TERM).unwrap();
    eventually("it is taken away though it is open", || !served.is_mounted());
    clock::sleep(Span::from_millis(100));
    assert!(again.try_wait().unwrap().is_none(), "who has it open may go on");
    let mut byte = [1];
    open.read_exact_at(&mut byte, 5).unwrap();
    drop(open);
    assert_eq!(again.wait().unwrap().code(), Some(0));

    let refused = |options: &[&str], what: &str| {
        let output: Output = devdisk(served.root.path(), options).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(what), "{said}");
    };
    refused(&["--size", "1TiB"], "give less");
    refused(&["--device", "tape"], "use one of");
    refused(&["--size", "1GiB"], "raise the size");
    let folder = Command::new(AFFLUX).arg("devdisk").arg(served.root.path()).output().unwrap();
    assert_eq!(folder.status.code(), Some(1));
    let lock = File::open(served.back()).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    refused(&["--size", "4GiB"], "in use by another disk");
}
