//! Starts a command and waits for it and all that it leaves behind, and asks the kernel what each
//! of them has read and written.
//!
//! The kernel keeps the count of a process until its parent has waited for it, and adds it to the
//! parent's count then. So each child is asked about when it has ended and was not yet waited for:
//! its count contains those of all its own children. Processes whose parent has ended become
//! children of this one.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, WaitOptions, set_child_subreaper, waitid, waitpid,
};

use crate::run::record::Bytes;

/// How a command ended, and what the kernel counted for it and its children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) kernel: Bytes,
    /// Processes that the command left running; what they had done by then is counted.
    pub(crate) left_running: u32,
}

/// Becomes the one that orphans are handed to.
pub(crate) fn adopt_orphans() {
    // Without it, what orphans did is missing from the kernel's count, and the report shows that.
    let _ = set_child_subreaper(rustix::process::Pid::from_raw(1));
}

/// Starts the command.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    command.spawn()
}

/// Waits for `child`, and for all that end before it.
pub(crate) fn wait(child: &Child) -> io::Result<Ended> {
    let main = Pid::from_child(child);
    let mut kernel = Bytes::default();
    let mut status = None;
    while status.is_none() {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for pid in children().into_iter().filter(|pid| has_ended(*pid)) {
            kernel = kernel.plus(counted(pid));
            let ended = waitpid(Some(pid), WaitOptions::empty())?;
            if pid == main {
                status = ended.map(|(_, status)| status);
            }
        }
    }
    let left: Vec<Pid> = children();
    for pid in &left {
        kernel = kernel.plus(counted(*pid));
    }
    let raw = status.map_or(0, |status| status.as_raw());
    let status = std::os::unix::process::ExitStatusExt::from_raw(raw);
    Ok(Ended { status, kernel, left_running: left.len() as u32 })
}

/// Children of this process, of all of its threads, those that have ended included.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let text = lists.collect::<Vec<_>>().join(" ");
    let numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Whether a child has ended and was not waited for.
fn has_ended(pid: Pid) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may contain anything, a bracket too.
    text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// What the kernel has counted for a process and all children that it has waited for.
fn counted(pid: Pid) -> Bytes {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Bytes { read: field("rchar:"), written: field("wchar:") }
}
