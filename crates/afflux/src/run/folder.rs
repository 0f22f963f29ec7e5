//! The folder of a run while it lives: the counters of its programs, and what `afflux ctl` must
//! know of it. It lies in memory where there is a file system for that, since counters are written
//! often.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use afflux_node::lost::{self, Lost};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::failure::Failure;

/// How folders of runs are called.
const PREFIX: &str = "afflux-run-";
/// What a folder says of its run.
const ABOUT: &str = "about.json";

/// What others may know of a run that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    /// The process that started it.
    pub(crate) pid: u32,
    /// In whose name its requests are made.
    pub(crate) job: String,
    /// What it runs.
    pub(crate) command: Vec<String>,
    /// Observe, gate or write-behind.
    pub(crate) mode: String,
    /// Whose controllers it uses: the node's, the user's, or each process its own (private). An
    /// observer uses none.
    pub(crate) segment: Option<String>,
}

/// Where folders of runs lie, best first.
fn places() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let memory = [Some(PathBuf::from("/dev/shm")), own, Some(std::env::temp_dir())];
    memory.into_iter().flatten().filter(|place| place.is_dir()).collect()
}

/// Makes the folder of a run; it is removed with the value.
pub(crate) fn make(about: &About) -> Result<TempDir, Failure> {
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::broken(format!("cannot make a folder for the run's counters: {error}"))
    };
    let mut why = None;
    for place in places() {
        // What a user runs is nobody else's business.
        let mine = fs::Permissions::from_mode(0o700);
        match tempfile::Builder::new().prefix(PREFIX).permissions(mine).tempdir_in(&place) {
            Ok(folder) => {
                let text = serde_json::to_vec(about)?;
                let made = fs::write(folder.path().join(lost::FILE), Lost::NONE)
                    .and_then(|()| fs::write(folder.path().join(ABOUT), text));
                match made {
                    Ok(()) => return Ok(folder),
                    // It may be full.
                    Err(error) => why = Some(error),
                }
            }
            Err(error) => why = Some(error),
        }
    }
    Err(cannot(
        &why.map_or_else(|| "there is no place for it".to_owned(), |error| error.to_string()),
    ))
}

/// The runs of this user that are under way. Folders whose run was killed are removed.
pub(crate) fn under_way() -> Vec<About> {
    let mut found = Vec::new();
    for place in places() {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| is_run(&entry.path())) {
            let Some(about) = about(&entry.path()) else { continue };
            if Path::new(&format!("/proc/{}", about.pid)).exists() {
                found.push(about);
            } else {
                // Another command may remove it at the same time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
    found.sort_by_key(|about| about.pid);
    found
}

/// Whether it is the folder of a run of this user. Root could look at all of them, but the
/// controllers of other users are not its own.
fn is_run(path: &Path) -> bool {
    let is_named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let user = rustix::process::geteuid().as_raw();
    is_named && fs::symlink_metadata(path).is_ok_and(|folder| folder.uid() == user)
}

fn about(folder: &Path) -> Option<About> {
    serde_json::from_slice(&fs::read(folder.join(ABOUT)).ok()?).ok()
}
