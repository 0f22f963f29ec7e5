//! Who a process is, and whether it still lives.
//!
//! One word tells one run of one program from all others: the process number, when the process
//! began, and a digest of the start vector that the kernel gave to its program, which differs after
//! an `exec`. Being one word, it is written and taken over as a whole.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use super::text::Text;

/// Bits of the process number, which Linux keeps below 2^22, and of the time it began at.
const PID_BITS: u32 = 22;
const BEGAN_BITS: u32 = 26;

/// Bytes that were read from `/proc` and not yet asked for, see [`take_bytes_read`].
static BYTES_READ: AtomicU64 = AtomicU64::new(0);

/// Bytes that this process has read here since it last asked: the kernel counts them as the
/// program's, which did not read them. A forked child begins with its parent's.
pub fn take_bytes_read() -> u64 {
    BYTES_READ.swap(0, Relaxed)
}

/// This process. Reads `/proc`; what that does not tell counts as zero.
pub fn own() -> u64 {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u64;
    let began = look(Text::new("/proc/self/stat")).ok().and_then(|stat| stat.parse());
    identity(pid, began.map_or(0, |stat| stat.began), digest("/proc/self/auxv").unwrap_or(0))
}

fn identity(pid: u64, began: u64, digest: u16) -> u64 {
    let began = began & ((1 << BEGAN_BITS) - 1);
    pid & ((1 << PID_BITS) - 1) | began << PID_BITS | u64::from(digest) << (PID_BITS + BEGAN_BITS)
}

/// Whether it is that of the calling process, and not of one that shares its memory.
pub(super) fn is_own(identity: u64) -> bool {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u64;
    identity & ((1 << PID_BITS) - 1) == pid & ((1 << PID_BITS) - 1)
}

/// Whether both are programs of one process, of which at most one still runs.
pub(super) fn same_process(one: u64, other: u64) -> bool {
    (one ^ other) & ((1 << (PID_BITS + BEGAN_BITS)) - 1) == 0
}

/// Whether the process of `identity` may still act. In doubt it may.
pub fn is_alive(identity: u64) -> bool {
    let pid = identity & ((1 << PID_BITS) - 1);
    let Some(number) = Pid::from_raw(pid as i32) else { return false };
    if rustix::process::test_kill_process(number) == Err(Errno::SRCH) {
        return false;
    }
    let mut name = Text::new("/proc/");
    name.number(pid);
    let mut vector = Text::new(name.as_str());
    vector.push("/auxv");
    name.push("/stat");
    let stat = match look(name) {
        Ok(stat) => stat.parse(),
        Err(Errno::SRCH) => return false,
        Err(_) => None,
    };
    let Some(stat) = stat else { return true };
    let began = identity >> PID_BITS & ((1 << BEGAN_BITS) - 1);
    // A process is a zombie also while threads outlive its first one.
    if (stat.ended && stat.threads <= 1)
        || (began != 0 && began != stat.began & ((1 << BEGAN_BITS) - 1))
    {
        return false;
    }
    let own = (identity >> (PID_BITS + BEGAN_BITS)) as u16;
    own == 0 || digest(vector.as_str()).is_none_or(|digest| digest == own)
}

/// The beginning of a file of `/proc`.
struct Look {
    bytes: [u8; 1024],
    length: usize,
}

/// What is asked of `/proc/PID/stat`.
struct Stat {
    ended: bool,
    threads: u64,
    began: u64,
}

fn look(name: Text) -> Result<Look, Errno> {
    let file = rustix::fs::open(name.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0; 1024];
    let length = rustix::io::read(&file, &mut bytes[..])?;
    BYTES_READ.fetch_add(length as u64, Relaxed);
    Ok(Look { bytes, length })
}

impl Look {
    /// The fields after the program's name, which may itself contain anything.
    fn parse(&self) -> Option<Stat> {
        let bytes = &self.bytes[..self.length];
        let name_end = bytes.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(&bytes[name_end + 1..]).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let state = fields.next()?;
        // Fields 20 and 22 of proc(5), where the state is field 3.
        let threads = fields.nth(16)?.parse().ok()?;
        let began = fields.nth(1)?.parse().ok()?;
        Some(Stat { ended: matches!(state, "Z" | "X" | "x"), threads, began })
    }
}

/// A digest of a start vector; never zero. None when it cannot be read.
fn digest(name: &str) -> Option<u16> {
    let vector = look(Text::new(name)).ok().filter(|vector| vector.length > 0)?;
    let hash = super::names::hash(&vector.bytes[..vector.length]);
    Some(((hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) as u16).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_others_of_its_number_do_not() {
        let own = own();
        assert!(is_alive(own));
        assert_eq!(own & ((1 << PID_BITS) - 1), u64::from(std::process::id()));
        // Another time of birth, and another program in the same process.
        assert!(!is_alive(own ^ (1 << PID_BITS)));
        assert!(!is_alive(own ^ (1 << (PID_BITS + BEGAN_BITS))));
        assert!(!is_alive(0));
    }

    #[test]
    fn a_child_is_alive_until_it_is_not_and_a_zombie_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = u64::from(child.id());
        let mut name = Text::new("/proc/");
        name.number(pid);
        name.push("/stat");
        let stat = look(name).unwrap().parse().unwrap();
        let identity = identity(pid, stat.began, 0);
        assert!(is_alive(identity));
        child.kill().unwrap();
        // Nobody has waited for it yet: it is a zombie as soon as the signal was taken.
        let end = crate::clock::now() + afflux_core::units::Span::from_secs(5);
        while is_alive(identity) {
            assert!(crate::clock::now() < end, "it never died");
        }
        child.wait().unwrap();
        assert!(!is_alive(identity));
    }
}
