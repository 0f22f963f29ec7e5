//! The only place that prints: data on stdout, talk on stderr.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use crate::failure::{Failure, Status};

/// Where a command writes.
pub(crate) struct Printer {
    /// Data, for people or programs.
    pub(crate) out: Box<dyn Write>,
    /// Progress, hints, warnings.
    pub(crate) talk: Box<dyn Write>,
}

impl Printer {
    /// Writes to the process's own streams; colours go where a terminal is and `NO_COLOR` is not.
    pub(crate) fn new() -> Self {
        Self { out: Box::new(anstream::stdout()), talk: Box::new(anstream::stderr()) }
    }

    /// Whether a person is watching the talk.
    pub(crate) fn is_watched() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Prints how it ended and gives the exit code.
    pub(crate) fn end(mut self, outcome: Result<Status, Failure>) -> ExitCode {
        let outcome = outcome.and_then(|status| {
            self.out.flush()?;
            Ok(status)
        });
        let (code, failure) = match outcome {
            Ok(Status::Done) | Err(Failure::ReaderGone) => return ExitCode::SUCCESS,
            Ok(Status::No) => return ExitCode::from(1),
            Err(failure @ Failure::Input(_)) => (1, failure),
            Err(failure) => (2, failure),
        };
        let _ = writeln!(self.talk, "afflux: {failure}");
        ExitCode::from(code)
    }
}

/// Prints help, the version, or what is wrong with the command line.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
