//! `afflux guard`: the hidden command that runs a search program, or a command that is measured,
//! and sees to its end.
//!
//! A process cannot be sure to end its children: it may be killed itself. So a search starts this
//! one, whose standard input is a pipe from the search and is handed on to the program. When its
//! other side is closed, the program is to end, and so it is made to: the pipe closes in whatever
//! way the search ends. The kernel's parent death signal would not do, since it goes to one process
//! and not to its children, and tells the end of a thread.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::failure::{Failure, Status};

/// Its name on the command line.
pub(crate) const NAME: &str = "guard";

/// Time for the program to end by itself, once its input has ended.
const GRACE: Duration = Duration::from_secs(3);

/// Time for it to end once it was told to by a signal.
const GRACE_AFTER_SIGNAL: Duration = Duration::from_secs(2);

/// Within this time after its input has ended, the guard is gone, and the program with it.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Arguments of `afflux guard`.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// Give it no time to end by itself
    #[arg(long)]
    at_once: bool,
    /// What the shell runs
    command: String,
}

/// Runs the program to its end, and ends with its exit code.
pub(crate) fn run(args: &GuardArgs) -> Result<Status, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Broken(format!("cannot start the shell for a search program: {error}"))
    };
    let mut program = Command::new("sh")
        .args(["-c", &args.command])
        // A group of its own, so that what the shell starts can be ended with it.
        .process_group(0)
        .spawn()
        .map_err(|error| failed(&error))?;
    let grace = if args.at_once { Duration::ZERO } else { GRACE };
    let watched = watch(&program, grace);
    // The group has this number as long as its leader was not waited for, so nobody else is hit.
    let _ = kill_process_group(Pid::from_child(&program), Signal::KILL);
    let status = program.wait().map_err(|error| failed(&error))?;
    watched.map_err(|error| failed(&error))?;
    std::process::exit(exit_code(status))
}

/// Returns when the program has ended, or has had its time to do so.
fn watch(program: &Child, grace: Duration) -> Result<(), Errno> {
    // Only the program shall hold its output, so that it is seen when it closes it.
    let nothing = File::open("/dev/null").map_err(|_| Errno::NOENT)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    let group = Pid::from_child(program);
    let process = pidfd_open(group, PidfdFlags::empty())?;
    let ended = || PollFd::new(&process, PollFlags::IN);
    let input = std::io::stdin();
    // Without any flag, only the end of the other side is reported: what comes is the program's.
    wait(&mut [ended(), PollFd::new(&input, PollFlags::empty())], None)?;
    if wait(&mut [ended()], Some(grace))? {
        return Ok(());
    }
    let _ = kill_process_group(group, Signal::TERM);
    wait(&mut [ended()], Some(GRACE_AFTER_SIGNAL)).map(drop)
}

/// Waits until something has happened to one of `fds`; says whether it has.
fn wait(fds: &mut [PollFd<'_>], most: Option<Duration>) -> Result<bool, Errno> {
    let most = most.map(|most| Timespec { tv_sec: most.as_secs() as i64, tv_nsec: 0 });
    loop {
        match poll(fds, most.as_ref()) {
            Err(Errno::INTR) => {}
            happened => return happened.map(|happened| happened > 0),
        }
    }
}

/// The exit code as a shell gives it: 128 and the signal for what was killed.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2)
}
