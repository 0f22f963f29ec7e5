//! A segment that is kept for all users of a node.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::Ordering::SeqCst;

use afflux_core::setting::Setting;
use afflux_node::shared::{AttachError, Shared, keep_in};

use crate::worker::{KEPT, KEY, Place, until};

/// Users of no program.
const USERS: [u32; 2] = [61_001, 61_002];

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: no right to act for other users: run the tests as root");
    }
    is_root
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn in_c(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// What is said of the segment, as it is found at `path`.
fn refused(path: &Path) -> String {
    let error = Shared::kept_at(&in_c(path)).unwrap_err();
    assert!(matches!(error, AttachError::Untrusted { .. }), "{error}");
    error.to_string()
}

/// A folder with a segment that is kept in a folder of its own.
fn kept() -> (tempfile::TempDir, PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("afflux/controllers");
    assert_eq!(Shared::kept_at(&in_c(&path)).unwrap_err(), AttachError::NotKept);
    assert_eq!(keep_in(&in_c(&path)), Ok(true));
    assert_eq!(keep_in(&in_c(&path)), Ok(false));
    Shared::kept_at(&in_c(&path)).unwrap();
    (outer, path)
}

#[test]
fn what_others_could_have_put_there_is_refused() {
    let (outer, path) = kept();
    let directory = path.parent().unwrap();
    for wrong in [0o600, 0o644, 0o660, 0o667, 0o4666] {
        mode(&path, wrong);
        let said = refused(&path);
        assert!(said.contains("its file is a file of user"), "{said}");
        assert!(said.contains(&format!("mode {wrong:o}, and must be")), "{said}");
    }
    mode(&path, 0o666);
    for wrong in [0o777, 0o775, 0o757, 0o1777] {
        mode(directory, wrong);
        assert!(refused(&path).contains("its directory is a directory"), "{wrong:o}");
    }
    mode(directory, 0o755);
    Shared::kept_at(&in_c(&path)).unwrap();
    let (moved, link) = (outer.path().join("moved"), outer.path().join("link"));
    symlink(directory, &link).unwrap();
    assert!(refused(&link.join("controllers")).contains("its directory is a symbolic link"));
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    assert!(refused(&path).contains("its file is a symbolic link"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refused(&path).contains("its file is a directory"));
    fs::remove_dir(&path).unwrap();
    fs::rename(&moved, &path).unwrap();
    Shared::kept_at(&in_c(&path)).unwrap();
    // A file that is no segment, of another size.
    fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    assert_eq!(Shared::kept_at(&in_c(&path)).unwrap_err(), AttachError::Foreign);
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let (_outer, path) = kept();
    chown(&path, Some(USERS[0]), None).unwrap();
    assert!(refused(&path).contains(&format!("file of user {}", USERS[0])));
    chown(&path, Some(0), None).unwrap();
    chown(path.parent().unwrap(), Some(USERS[0]), None).unwrap();
    assert!(refused(&path).contains(&format!("directory of user {}", USERS[0])));
}

#[test]
fn who_left_a_segment_of_another_version_is_no_hindrance_unless_it_is_used() {
    let (_outer, path) = kept();
    let old = || {
        // The layout's number stands after the magic word.
        let file = fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_at(&file, &[255], 8).unwrap();
    };
    old();
    // This process has it mapped.
    assert!(matches!(keep_in(&in_c(&path)), Err(AttachError::Version { .. })));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "nothing of ours").unwrap();
    mode(&path, 0o666);
    assert_eq!(keep_in(&in_c(&path)), Ok(true));
}

/// Starts a worker in the name of a user; none where other users cannot start this program.
fn start(place: &Place, task: &str, number: usize) -> Option<Child> {
    let mut command = place.command(task, number);
    let worker = command.env(KEPT, "1").uid(USERS[number]).gid(USERS[number]).spawn();
    if let Err(error) = &worker {
        println!("SKIPPED: other users cannot start this program ({error}): build it elsewhere");
    }
    worker.ok()
}

#[test]
fn who_waits_gets_the_slots_of_another_users_dead() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    mode(place.folder(), 0o755);
    assert_eq!(keep_in(&place.segment()), Ok(true));
    let (shared, board) = (Shared::kept_at(&place.segment()).unwrap(), place.board());
    mode(&place.folder().join("board"), 0o666);
    let setting = Setting::parse("fixed:2", &|_| Err("no files".to_owned())).unwrap();
    shared.set(KEY.tenant, &setting, "fixed:2", true).unwrap();
    let Some(mut holder) = start(&place, "hold 2", 0) else { return };
    until("one user holds the window", || board.ready.load(SeqCst) == 1);
    let mut waiter = start(&place, "hold 1", 1).unwrap();
    until("another one waits", || shared.paths()[0].waiting == 1);
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 2);
    holder.kill().unwrap();
    until("the other one goes on", || board.ready.load(SeqCst) == 2);
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 1);
    board.end.store(1, SeqCst);
    assert!(waiter.wait().unwrap().success());
    assert_eq!(shared.paths()[0].state.unwrap().in_flight(), 0);
    holder.wait().unwrap();
}
