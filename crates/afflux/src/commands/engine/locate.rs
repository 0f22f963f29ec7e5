//! `afflux engine locate`: where a file lies.

use std::io::Write;
use std::path::PathBuf;

use afflux_core::units::{display_bytes, parse_bytes};

use crate::failure::{Failure, Status};
use crate::locate::{At, LocateError, Located, Stretch, locate};

/// Arguments of `afflux engine locate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LocateArgs {
    /// A file on any mount
    file: PathBuf,
    /// Bytes of it whose servers are asked for, as in 0 or 64MiB
    #[arg(value_parser = offset)]
    offsets: Vec<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  afflux engine locate /scratch/out.nc             its layout, and the servers that it is over
  afflux engine locate /scratch/out.nc 0 64MiB     and who keeps these two bytes

Layouts of Lustre, CephFS and GlusterFS are read; any other mount counts as one server, as it does
under `afflux run`. Which OSDs of Ceph keep a byte, the `ceph` program asks the monitors: CEPH_CONF
names their cluster where it is not the usual one.";

fn offset(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().or_else(|| parse_bytes(text).ok());
    number.ok_or_else(|| "write a number of bytes or a size, as in 4096 or 64MiB".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &LocateArgs, out: &mut dyn Write) -> Result<Status, Failure> {
    let located = locate(&args.file, &args.offsets).map_err(|error| match error {
        LocateError::File { .. } | LocateError::NoFile(_) => Failure::input(error),
        LocateError::Ceph(_) => Failure::broken(error),
    })?;
    if args.json {
        serde_json::to_writer(&mut *out, &located)?;
        writeln!(out)?;
    } else {
        print(&located, out)?;
    }
    Ok(Status::Done)
}

fn print(located: &Located, out: &mut dyn Write) -> Result<(), Failure> {
    let size = display_bytes(located.size_bytes);
    writeln!(out, "{}: {size} on {}", located.file.display(), located.mount)?;
    match located.layout {
        Some(name) => writeln!(out, "Its layout is told by {name}:")?,
        None => {
            writeln!(out, "It has no layout that can be read; its mount counts as one server:")?
        }
    }
    for stretch in &located.stretches {
        writeln!(out, "  {}", words(stretch))?;
    }
    for at in &located.offsets {
        writeln!(out, "Byte {}: {}", at.offset, whereabouts(at))?;
    }
    Ok(())
}

fn words(stretch: &Stretch) -> String {
    let end = stretch.end.map_or("the end".to_owned(), display_bytes);
    let unit = stretch
        .unit_bytes
        .map_or(String::new(), |unit| format!("{} in a row, ", display_bytes(unit)));
    let servers = match stretch.servers.is_empty() {
        true => "servers are chosen at the first write".to_owned(),
        false => stretch.servers.join(", "),
    };
    format!("from {} to {end}: {unit}{servers}", display_bytes(stretch.start))
}

fn whereabouts(at: &At) -> String {
    let server = at.server.as_deref().unwrap_or("no server before the first write");
    let Some(object) = &at.object else { return server.to_owned() };
    let osds: Vec<_> = object.osds.iter().map(|osd| format!("osd.{osd}")).collect();
    let osds = if osds.is_empty() { "no OSD now".to_owned() } else { osds.join(", ") };
    format!(
        "{server}, {osds}: byte {} of object {} in placement group {}",
        object.object_offset, object.object, object.placement_group
    )
}
