//! What a search program says to people: shown as it comes, in bounds, and its end remembered.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::process::ChildStderr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::PollFlags;

use super::is_ready;
use crate::progress::Talk;

/// Lines that are shown between two answers of the program.
const LINES_SHOWN: usize = 20;

/// Lines that are quoted when it fails, and characters of a line.
const LINES_QUOTED: usize = 8;
const LINE_CHARS: usize = 300;

/// Between two looks at whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Reads after the program has ended: what it wrote is in a pipe, of 64 KiB by default.
const LAST_READS: u32 = 64;

/// Listens on a thread of its own, since a program may speak at any time.
pub(super) struct Listener {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    talk: Talk,
    /// Lines that may still be shown.
    allowance: AtomicUsize,
    ended: AtomicBool,
    last: Mutex<VecDeque<String>>,
}

impl Listener {
    /// Listens to `errors` and shows it as `talk`.
    pub(super) fn start(errors: ChildStderr, talk: Talk) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            talk,
            allowance: AtomicUsize::new(LINES_SHOWN),
            ended: AtomicBool::new(false),
            last: Mutex::default(),
        });
        let listening = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("listener".to_owned());
        let thread = thread.spawn(move || listening.listen(errors))?;
        Ok(Self { shared, thread })
    }

    /// As many lines as at first may be shown again.
    pub(super) fn allow(&self) {
        self.shared.allowance.store(LINES_SHOWN, Ordering::Relaxed);
    }

    /// Listens to the end, when the program has ended; gives its last lines.
    pub(super) fn end(self) -> Vec<String> {
        self.shared.ended.store(true, Ordering::Relaxed);
        // A listener that panicked has heard its last.
        let _ = self.thread.join();
        let mut last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.drain(..).collect()
    }
}

impl Shared {
    fn listen(&self, mut errors: ChildStderr) {
        let (mut bytes, mut begun) = (vec![0; 1 << 12], Vec::new());
        let mut reads_left = LAST_READS;
        loop {
            // Read before it is looked at: what is ready after the end is all that will come.
            let ended = self.ended.load(Ordering::Relaxed);
            let most = if ended { Duration::ZERO } else { LOOK_EVERY };
            if !is_ready(&errors, PollFlags::IN, most) {
                if ended {
                    break;
                }
                continue;
            }
            match errors.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(read) => self.hear(&mut begun, &bytes[..read]),
            }
            // One that has escaped its guard may hold the pipe and write for ever.
            reads_left -= u32::from(ended);
            if reads_left == 0 {
                break;
            }
        }
        self.hear(&mut begun, b"\n");
    }

    /// Takes what came; `begun` is the part of a line whose end did not come yet.
    fn hear(&self, begun: &mut Vec<u8>, bytes: &[u8]) {
        for &byte in bytes {
            // A progress bar goes back to the begin of its line instead of to the next.
            if !matches!(byte, b'\n' | b'\r') {
                // A character has at most four bytes.
                if begun.len() < 4 * LINE_CHARS {
                    begun.push(byte);
                }
            } else if !begun.is_empty() {
                self.line(&shown(&String::from_utf8_lossy(begun)));
                begun.clear();
            }
        }
    }

    fn line(&self, line: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back(line.to_owned());
        if last.len() > LINES_QUOTED {
            last.pop_front();
        }
        drop(last);
        let allowed = self.allowance.load(Ordering::Relaxed);
        self.allowance.store(allowed.saturating_sub(1), Ordering::Relaxed);
        match allowed {
            0 => {}
            1 => self.talk.say("search program: (more until its next answer is left out)"),
            _ => self.talk.say(&format!("search program: {line}")),
        }
    }
}

/// A line that is safe to show on a terminal.
fn shown(line: &str) -> String {
    let plain = |letter: char| match letter {
        '\t' => " ".to_owned(),
        letter if letter.is_control() => letter.escape_debug().to_string(),
        letter => letter.to_string(),
    };
    line.chars().take(LINE_CHARS).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::progress::Line;

    fn heard(script: &str) -> Vec<String> {
        let mut child =
            Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        let talk = Line::new(1, Duration::from_secs(1)).unwrap().talk();
        let listener = Listener::start(child.stderr.take().unwrap(), talk).unwrap();
        child.wait().unwrap();
        listener.end()
    }

    #[test]
    fn the_last_lines_are_kept_whole_and_harmless() {
        let said = heard("for n in 1 2 3 4 5 6 7 8 9; do echo line $n >&2; done");
        assert_eq!((said.len(), said[0].as_str(), said[7].as_str()), (8, "line 2", "line 9"));
        let said = heard(r"printf '\033[2Jred\n\n 10%%\r 20%%\rno end' >&2");
        assert_eq!(said, ["\\u{1b}[2Jred", " 10%", " 20%", "no end"]);
        let said = heard("head -c 100000 /dev/zero | tr '\\0' x >&2");
        assert_eq!(said, ["x".repeat(LINE_CHARS)]);
    }

    #[test]
    fn one_that_holds_the_pipe_for_ever_does_not_hold_the_listener() {
        let begin = std::time::Instant::now();
        assert_eq!(heard("sleep 20 & echo here >&2"), ["here"]);
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
