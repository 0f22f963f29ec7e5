//! Processes that are known by more than their number, so that a recycled one is never hit.

use std::time::Duration;

use afflux_core::units::Span;
use afflux_node::clock;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process: its number, when it started, and in which life of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// The process number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub start_ticks: u64,
    /// The machine's boot.
    pub boot: String,
}

impl ProcessMark {
    /// The mark of a process that runs now.
    pub fn of(pid: u32) -> Option<Self> {
        let (_, start_ticks) = stat(pid)?;
        Some(Self { pid, start_ticks, boot: boot() })
    }

    /// Whether it is still there; one that ended and was not yet reaped is not.
    pub fn is_alive(&self) -> bool {
        let here = stat(self.pid);
        let same = here
            .is_some_and(|(state, start)| start == self.start_ticks && !matches!(state, 'Z' | 'X'));
        same && boot() == self.boot
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        self.send(Signal::TERM);
    }

    /// Ends it.
    pub fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Waits until it is gone, at most so long; says whether it is.
    pub fn wait(&self, most: Duration) -> bool {
        let deadline = clock::now() + Span::from_nanos(most.as_nanos() as u64);
        while self.is_alive() {
            if clock::now() >= deadline {
                return false;
            }
            clock::sleep(Span::from_millis(2));
        }
        true
    }

    fn send(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return };
        // Once the descriptor is open the number cannot be given to another process under it, so
        // the look at the start time in between is conclusive.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.is_alive() {
            // It may end by itself right now.
            let _ = pidfd_send_signal(&process, signal);
        }
    }
}

/// State letter and start time of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, so the fields are counted from its end.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_process_is_hit() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mark = ProcessMark::of(child.id()).unwrap();
        assert!(mark.is_alive());
        let other = ProcessMark { start_ticks: mark.start_ticks - 1, ..mark.clone() };
        assert!(!other.is_alive());
        other.kill();
        assert!(mark.is_alive() && !mark.wait(Duration::from_millis(5)));
        mark.kill();
        assert!(mark.wait(Duration::from_secs(5)), "a zombie counts as gone");
        child.wait().unwrap();
        assert!(!mark.is_alive());
    }
}
