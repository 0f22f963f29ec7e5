//! Which servers keep an object of CephFS: the monitor knows, and the `ceph` program asks it.

use std::io;
use std::process::Command;

use afflux_node::placement::cephfs::Striping;
use serde::{Deserialize, Serialize};

/// How long the monitors may take to be found, in seconds.
const PATIENCE: &str = "15";

/// Where in a pool a byte lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectPlace {
    /// The object: the file's inode and the object's number, both in hexadecimal.
    pub(crate) object: String,
    /// The byte within it.
    pub(crate) object_offset: u64,
    /// The placement group.
    pub(crate) placement_group: String,
    /// The servers that keep it, the one that answers first; empty while there is none.
    pub(crate) osds: Vec<i64>,
}

/// Why Ceph does not tell.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CephError {
    /// The program is missing.
    #[error(
        "there is no `ceph` to ask which server keeps an object: install ceph-common, or leave \
         out the offset"
    )]
    Missing,
    /// It cannot be started.
    #[error("cannot start `ceph`: {0}")]
    Start(io::Error),
    /// The monitors gave no answer.
    #[error(
        "`ceph {command}` failed: {said}\n\
         hint: CEPH_CONF names the cluster's configuration, CEPH_ARGS whom to be, as in --id me"
    )]
    Refused {
        /// What was asked.
        command: String,
        /// What it said.
        said: String,
    },
    /// Its answer is another one than is known.
    #[error("`ceph {command}` answered what cannot be read: {why}")]
    Unreadable {
        /// What was asked.
        command: String,
        /// What is wrong with it.
        why: serde_json::Error,
    },
}

/// What the monitor says of an object.
#[derive(Debug, Deserialize)]
struct Map {
    pgid: String,
    acting: Vec<i64>,
    acting_primary: i64,
}

/// Asks where the byte at `offset` of the file `inode` is.
pub(crate) fn place(
    striping: &Striping<'_>,
    inode: u64,
    offset: u64,
) -> Result<ObjectPlace, CephError> {
    let (number, object_offset) = striping.object(offset);
    let object = format!("{inode:x}.{number:08x}");
    let mut arguments = vec!["osd", "map", striping.pool, &object];
    arguments.extend((!striping.name_space.is_empty()).then_some(striping.name_space));
    let map = ask(&arguments)?;
    let mut osds = map.acting;
    // A server that is missing is told by the greatest number.
    osds.retain(|osd| (0..i64::from(i32::MAX)).contains(osd));
    osds.sort_by_key(|osd| *osd != map.acting_primary);
    Ok(ObjectPlace { object, object_offset, placement_group: map.pgid, osds })
}

fn ask(arguments: &[&str]) -> Result<Map, CephError> {
    let command = arguments.join(" ");
    let asked = Command::new("ceph")
        .args(["--connect-timeout", PATIENCE, "--format", "json"])
        .args(arguments)
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CephError::Missing,
            _ => CephError::Start(error),
        })?;
    if !asked.status.success() {
        let said = String::from_utf8_lossy(&asked.stderr).trim().to_owned();
        return Err(CephError::Refused { command, said });
    }
    serde_json::from_slice(&asked.stdout).map_err(|why| CephError::Unreadable { command, why })
}
