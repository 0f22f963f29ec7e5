//! `afflux devdisk`: the model of a device as a file, for storage servers that are not ours.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use afflux_core::device::DeviceSpec;
use afflux_core::units::{display_bytes, parse_bytes};
use afflux_store::disk::{Disk, DiskError, DiskOptions};
use afflux_store::served::Remover;

use super::seed;
use crate::failure::{Failure, Status};

/// After this time a disk that was taken away and is still there is in use.
const GONE_WITHIN: Duration = Duration::from_millis(500);

/// Arguments of `afflux devdisk`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevdiskArgs {
    /// The file that becomes the disk until this command ends; an empty one is made where there is
    /// none
    #[arg(value_name = "MOUNTPOINT")]
    at: PathBuf,
    /// The model of a device, such as hdd, ssd or hdd:elevator=fifo
    #[arg(long, default_value = "hdd")]
    device: DeviceSpec,
    /// Its size, as in 4GiB: so much of the device, from its outer edge on [default: all of it]
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    size: Option<u64>,
    /// The file that keeps the bytes, sparse, made where there is none [default: memory, until this
    /// command ends]
    #[arg(long, value_name = "FILE")]
    back: Option<PathBuf>,
    /// What differs between two disks of a kind, such as how the platters stand
    #[arg(long, value_parser = seed, default_value_t = 1)]
    seed: u64,
}

const EXAMPLES: &str = "\
Reads and writes of the disk take the time that the device would take, up to 128 of them at once;
nothing caches them. Put a loop device on it for whoever wants a block device. A write is answered
when its bytes are kept; what was answered and synced survives the end of this command, by any signal.
It runs until Ctrl-C or SIGTERM, or until the disk is unmounted; who has it open then keeps it until
they close it, and a second signal does not wait for that. SIGKILL leaves a dead mount: unmount it.

Exit status: 0 when it was taken away; 1 when what was asked for cannot be; 2 when it could not be
mounted, or broke.

Examples:
  afflux devdisk /tmp/disk
  afflux devdisk --device hdd:elevator=fifo --size 4GiB --back /var/tmp/bytes /tmp/disk
  losetup --find --show --direct-io=on /tmp/disk      as root, while it runs
  umount /tmp/disk                                    ends it";

/// What may happen to a disk while it serves.
enum Event {
    /// Somebody wants it to end.
    Signal,
    /// It was taken away, or broke.
    Ended(Result<(), DiskError>),
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Self {
        if error.is_input() { Self::input(error) } else { Self::broken(error) }
    }
}

/// Runs the command: messages go to `talk`.
pub(crate) fn run(args: &DevdiskArgs, talk: &mut dyn Write) -> Result<Status, Failure> {
    let options = DiskOptions {
        device: args.device.clone(),
        seed: args.seed,
        size_bytes: args.size,
        back: args.back.clone(),
    };
    let (tell, events) = mpsc::channel();
    let signal = tell.clone();
    ctrlc::set_handler(move || drop(signal.send(Event::Signal))).map_err(Failure::broken)?;
    let mut disk = Disk::mount(&options, &args.at)?;
    let (at, size) = (disk.at().display(), display_bytes(disk.size_bytes()));
    writeln!(talk, "afflux: {size} of {} are at {at}; Ctrl-C takes them away", args.device)?;
    let mut remover = disk.remover();
    std::thread::spawn(move || drop(tell.send(Event::Ended(disk.serve()))));
    match events.recv().map_err(Failure::broken)? {
        Event::Ended(ended) => ended?,
        Event::Signal => take_away(&mut remover, &events, talk)?,
    }
    Ok(Status::Done)
}

/// Unmounts the disk, and waits for those who have it open.
fn take_away(
    remover: &mut Remover,
    events: &mpsc::Receiver<Event>,
    talk: &mut dyn Write,
) -> Result<(), Failure> {
    remover.remove().map_err(|error| {
        Failure::broken(format!("cannot unmount the disk: {error}; use umount or fusermount3 -u"))
    })?;
    let mut next = events.recv_timeout(GONE_WITHIN);
    if let Err(RecvTimeoutError::Timeout) = next {
        let note = "afflux: the disk is still open elsewhere: this ends when that is closed; \
            Ctrl-C ends it now";
        writeln!(talk, "{note}")?;
        next = events.recv().map_err(|_| RecvTimeoutError::Disconnected);
    }
    match next {
        Ok(Event::Ended(ended)) => Ok(ended?),
        // A second signal.
        Ok(Event::Signal) | Err(_) => Ok(()),
    }
}
