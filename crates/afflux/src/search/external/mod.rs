//! Search methods that are programs: started, spoken to, and ended in any case.
//!
//! What is said and decided is [`afflux_core::search::external`]'s part. The program is a child of
//! a process that guards it ([`crate::commands::guard`]), whose standard input is the program's:
//! when it is closed, as it is by our end in whatever way, the guard ends the program and all that
//! it has started.

mod listener;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use afflux_core::search::external::{
    External, LINE_MAX, Order, Program, ProgramError, ProtocolError, Wrong, proposal,
};
use afflux_core::search::{self, Setup, Strategy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::commands::guard;
use crate::failure::Failure;
use crate::progress::{Talk, interruption};
use crate::search::journal::{Journal, Stage};
use listener::Listener;

/// Between two looks at whether the user wants it to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A program that has closed its output has so long to end before it counts as running.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Checks how a method is written, before anything is started for it.
pub(crate) fn check(method: &str, setup: &Setup) -> Result<(), Failure> {
    match Order::read(method) {
        Some(order) => order.map(drop),
        None => search::build(method, setup).map(drop),
    }
    .map_err(Failure::input)
}

/// What two searches have in common that are one, see [`Order::identity`].
pub(crate) fn identity(method: &str) -> String {
    match Order::read(method) {
        Some(Ok(order)) => order.identity(),
        _ => method.to_owned(),
    }
}

/// The strategy written as `method`; if it is a program, with its trials from the journal.
pub(crate) fn strategy(
    method: &str,
    setup: &Setup,
    journal: &Journal,
    talk: Talk,
) -> Result<Box<dyn Strategy>, Failure> {
    let Some(order) = Order::read(method) else {
        return search::build(method, setup).map_err(Failure::input);
    };
    let order = order.map_err(Failure::input)?;
    // The baseline beside a trial of the program is no trial of the program's.
    let mut earlier = BTreeMap::new();
    for entry in journal.of(Stage::Search) {
        let number = entry.pair.map_or(entry.trial, |pair| pair.number);
        if let Some(written) = entry.written.clone() {
            earlier.insert(number, proposal(written).map_err(Failure::input)?);
        }
    }
    let program = Running { order: order.clone(), talk, interrupted: interruption()?, alive: None };
    let external = External::new(&order, setup, Box::new(program), earlier);
    Ok(search::beside_baseline(Box::new(external.map_err(Failure::input)?), setup))
}

/// What people are told about a program that decides no more.
pub(crate) fn failure(error: &ProgramError) -> Failure {
    let text = format!(
        "{error}\nAll trials are kept. The same command goes on after them, with a program that \
         is told them again; another program needs another --out."
    );
    match error.wrong {
        Wrong::Interrupted => {
            Failure::Broken("interrupted; the same command goes on from here".to_owned())
        }
        Wrong::Unknown(_) => Failure::Input(text),
        _ => Failure::Broken(text),
    }
}

/// A program, before, while and after it runs.
struct Running {
    order: Order,
    talk: Talk,
    interrupted: Arc<AtomicBool>,
    alive: Option<Alive>,
}

/// A program that runs.
struct Alive {
    guard: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// What it wrote beyond the last line that was taken.
    heard: Vec<u8>,
    listener: Listener,
}

impl Running {
    fn start(&self) -> Result<Alive, Wrong> {
        let failed = |error: &dyn std::fmt::Display| Wrong::Start(error.to_string());
        let executable = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut guard = Command::new(executable)
            .args([guard::NAME, "--", &self.order.command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for us: the program is ended when the search has come to a stop.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&error))?;
        let (Some(input), Some(output), Some(errors)) =
            (guard.stdin.take(), guard.stdout.take(), guard.stderr.take())
        else {
            return Err(Wrong::Start("it has no pipes".to_owned()));
        };
        fcntl_setfl(&input, OFlags::NONBLOCK).map_err(|error| failed(&error))?;
        let listener =
            Listener::start(errors, self.talk.clone()).map_err(|error| failed(&error))?;
        Ok(Alive { guard, input, output, heard: Vec::new(), listener })
    }

    /// Waits until `ready`, at most until `deadline`; says whether it came to that.
    fn wait(&self, fd: &impl AsFd, ready: PollFlags, deadline: Instant) -> Result<bool, Wrong> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Wrong::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if is_ready(fd, ready, left.min(LOOK_EVERY)) {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_nanos(self.order.timeout.as_nanos())
    }

    /// How a program ended that takes or gives no more.
    fn gone(&self, alive: &mut Alive) -> Wrong {
        match ended_within(&mut alive.guard, END_WITHIN) {
            None => Wrong::Closed,
            Some(126 | 127) => Wrong::Unknown(self.order.command.clone()),
            Some(code) => Wrong::Ended { code },
        }
    }

    /// Nothing may have come since the last answer.
    fn expect_silence(&self, alive: &mut Alive) -> Result<(), Wrong> {
        let mut bytes = [0; 256];
        if is_ready(&alive.output, PollFlags::IN, Duration::ZERO) {
            match alive.output.read(&mut bytes) {
                Ok(0) | Err(_) => return Err(self.gone(alive)),
                Ok(read) => alive.heard.extend(&bytes[..read]),
            }
        }
        match alive.heard.is_empty() {
            true => Ok(()),
            false => Err(Wrong::unasked(&String::from_utf8_lossy(&alive.heard))),
        }
    }

    fn write(&self, alive: &mut Alive, line: &str) -> Result<(), Wrong> {
        self.expect_silence(alive)?;
        let (line, deadline) = (format!("{line}\n"), self.deadline());
        let mut left = line.as_bytes();
        while !left.is_empty() {
            match alive.input.write(left) {
                Ok(taken) => left = &left[taken..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(&alive.input, PollFlags::OUT, deadline)? {
                        return Err(Wrong::Deaf { within: self.order.timeout });
                    }
                }
                Err(_) => return Err(self.gone(alive)),
            }
        }
        Ok(())
    }

    fn read(&self, alive: &mut Alive) -> Result<Vec<u8>, Wrong> {
        let deadline = self.deadline();
        let mut bytes = vec![0; 1 << 16];
        let mut searched = 0;
        loop {
            let end = alive.heard[searched..].iter().position(|&byte| byte == b'\n');
            if let Some(end) = end.map(|end| searched + end) {
                let rest = alive.heard.split_off(end + 1);
                let mut line = std::mem::replace(&mut alive.heard, rest);
                line.truncate(end);
                return Ok(line);
            }
            searched = alive.heard.len();
            if searched > LINE_MAX {
                return Err(ProtocolError::Long { bytes: searched }.into());
            }
            if !self.wait(&alive.output, PollFlags::IN, deadline)? {
                return Err(Wrong::Silent { within: self.order.timeout });
            }
            match alive.output.read(&mut bytes) {
                Ok(0) => return Err(self.gone(alive)),
                Ok(read) => alive.heard.extend(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(self.gone(alive)),
            }
        }
    }

    /// Does something with a program that runs.
    fn with<T>(
        &mut self,
        act: impl FnOnce(&Self, &mut Alive) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        let mut alive = match self.alive.take() {
            Some(alive) => alive,
            None => self.start()?,
        };
        let done = act(self, &mut alive);
        self.alive = Some(alive);
        done
    }
}

impl Program for Running {
    fn say(&mut self, line: &str) -> Result<(), Wrong> {
        self.with(|running, alive| running.write(alive, line))
    }

    fn hear(&mut self) -> Result<Vec<u8>, Wrong> {
        let line = self.with(|running, alive| running.read(alive))?;
        if let Some(alive) = &self.alive {
            alive.listener.allow();
        }
        Ok(line)
    }

    fn end(&mut self) -> Vec<String> {
        let Some(Alive { mut guard, input, output, heard: _, listener }) = self.alive.take() else {
            return Vec::new();
        };
        drop((input, output));
        if ended_within(&mut guard, guard::ENDS_WITHIN).is_none() {
            // The guard itself hangs, which it can only do in the kernel.
            let _ = guard.kill();
            let _ = guard.wait();
        }
        listener.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The exit code of a process, if it ends within `most`.
fn ended_within(child: &mut Child, most: Duration) -> Option<i32> {
    let deadline = Instant::now() + most;
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(guard::exit_code(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        is_ready(&process, PollFlags::IN, left);
    }
}

/// Whether `fd` gets ready within `most`; a signal may shorten the wait.
fn is_ready(fd: &impl AsFd, ready: PollFlags, most: Duration) -> bool {
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    // An error or an end is ready, too: reading or writing then says which.
    poll(&mut [PollFd::new(fd, ready)], Some(&most)).is_ok_and(|ready| ready > 0)
}
