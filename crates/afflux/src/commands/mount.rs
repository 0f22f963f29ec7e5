//! `afflux mount`: the striped store as a file system, until it is taken away.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use afflux_store::mount::{Mount, MountError};

use crate::failure::{Failure, Status};
use crate::progress::interruption;
use crate::settings::SettingFlags;
use crate::target;

/// How often is looked whether somebody wants it to end.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `afflux mount`.
#[derive(Debug, clap::Args)]
#[command(after_help = target::help(EXAMPLES))]
pub(crate) struct MountArgs {
    /// The directory over which it is mounted
    #[arg(value_name = "DIRECTORY")]
    at: PathBuf,
    #[arg(long, value_name = "TARGET", default_value = "lab", help = target::ABOUT)]
    on: String,
    #[command(flatten)]
    setting: SettingFlags,
}

const EXAMPLES: &str = "\
Names of the store with slashes are files in directories. A write is answered when the servers have
acknowledged it. Files can be cut to nothing only, and directories not renamed; docs/engines.md has the
rest. Only object engines can be mounted.

It runs until Ctrl-C or SIGTERM, or until it is unmounted; who has a file of it open then keeps that
until it is closed, and a second signal does not wait for that. SIGKILL leaves a dead mount: unmount it.

Exit status: 0 when it was taken away; 1 when what was asked for cannot be; 2 when it could not be
mounted, or broke.

Examples:
  afflux mount --on lab:/tmp/lab /mnt
  afflux mount --on rados --policy fixed:8 /mnt       a Ceph cluster, with windows of 8
  afflux mount --on dirs:/srv/a,/srv/b --rules shipped:paced /mnt
  umount /mnt                                         or fusermount3 -u /mnt: ends it";

/// What may happen to a mount while it serves.
enum Event {
    /// Something failed that programs were told a number of.
    Said(String),
    /// It was taken away, or broke.
    Ended(Result<(), MountError>),
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Self {
        if error.is_input() { Self::input(error) } else { Self::broken(error) }
    }
}

/// Runs the command: messages go to `talk`.
pub(crate) fn run(args: &MountArgs, talk: &mut dyn Write) -> Result<Status, Failure> {
    let setting = args.setting.setting()?;
    let interrupted = interruption()?;
    let (name, connect) = target::engine(&args.on, talk)?;
    let engine = connect().map_err(Failure::broken)?;
    let (tell, events) = mpsc::channel();
    let said = tell.clone();
    // Nobody listens any more once the mount has ended.
    let log = Box::new(move |what: &str| drop(said.send(Event::Said(what.to_owned()))));
    let mut mount = Mount::new(engine, &setting, &args.at, log)?;
    let (at, label) = (mount.at().display(), &setting.label);
    writeln!(talk, "afflux: {name} is mounted at {at} under {label}; Ctrl-C unmounts it")?;
    let mut remover = mount.remover();
    std::thread::spawn(move || drop(tell.send(Event::Ended(mount.serve()))));
    let mut is_removed = false;
    loop {
        match events.recv_timeout(LOOK) {
            Ok(Event::Said(what)) => writeln!(talk, "afflux: {what}")?,
            Ok(Event::Ended(ended)) => {
                ended?;
                return Ok(Status::Done);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Status::Done),
        }
        if !interrupted.swap(false, Ordering::Relaxed) {
            continue;
        }
        if is_removed {
            return Ok(Status::Done);
        }
        remover.remove().map_err(|error| {
            Failure::broken(format!("cannot unmount: {error}; use umount or fusermount3 -u"))
        })?;
        is_removed = true;
    }
}
