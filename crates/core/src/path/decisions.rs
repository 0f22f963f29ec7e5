//! Decision logs: what a driver asked and told a controller, and what came of it, as text.
//!
//! One line for each call, with all that went in before the arrow and all that came out behind it.
//! What went in can be read back ([`Call::parse`]), so that another driver makes the same calls: if
//! both mean the same by every word, their logs are the same bytes.
//!
//! ```text
//! 1000 3/write ask size=1048576 cap=4 -> go window=8 gap=0 flight=1
//! 2000 3/write ask size=1048576 cap=4 -> hold:gap@33001000 window=8 gap=33000000 flight=1
//! 9000 3/write reply built=900 sent=1000 size=1048576 -> window=8 gap=0 flight=0 signals=0,0,1000
//! 9000 catalog/metadata fault -> window=8 gap=0 flight=0
//! ```
//!
//! Times are nanoseconds of the driver's clock.

use std::fmt::Write;

use super::{PathState, Reply, Ruling};
use crate::class::Class;
use crate::limits::{Credits, FanIn, Hold, Limits, Turn};
use crate::units::{Span, Time};

/// A log as it grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionLog {
    text: String,
}

/// A path, for a log: its server, none for the catalog, and its class.
pub type LoggedPath = (Option<u32>, Class);

/// One call of a controller, as far as it went in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When.
    pub now: Time,
    /// On which path.
    pub path: LoggedPath,
    /// What was asked or told.
    pub said: Said,
}

/// What was asked or told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// [`Controller::admit`](super::Controller::admit) was asked.
    Ask {
        /// The request's size.
        size_bytes: u32,
        /// The limits as they stood.
        limits: Limits,
    },
    /// [`Controller::reply`](super::Controller::reply) was told; it arrived when the call was made.
    Reply {
        /// When the request was built.
        built: Time,
        /// When it was sent.
        sent: Time,
        /// The request's size.
        size_bytes: u32,
    },
    /// [`Controller::fault`](super::Controller::fault) was told.
    Fault,
}

/// A line that is no line of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{text}` is no line of a decision log: {expected}")]
pub struct DecisionError {
    /// Its number, from 1.
    pub line: usize,
    /// What was read.
    pub text: String,
    /// What should stand there.
    pub expected: &'static str,
}

impl DecisionLog {
    /// The lines so far.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Notes that admission was asked for, with what it led to.
    pub fn ask(
        &mut self,
        now: Time,
        path: LoggedPath,
        size_bytes: u32,
        limits: &Limits,
        answer: &Result<(), Hold>,
        state: &PathState,
    ) {
        self.begin(now, path);
        let text = &mut self.text;
        // Writing into a String cannot fail, here and below.
        let _ = write!(text, "ask size={size_bytes}");
        if let Some(Credits { granted, used }) = limits.credits {
            let _ = write!(text, " credits={used}/{granted}");
        }
        if let Some(cap) = limits.cap {
            let _ = write!(text, " cap={cap}");
        }
        if let Some(FanIn { limit, in_flight }) = limits.fan_in {
            let _ = write!(text, " fan-in={in_flight}/{limit}");
        }
        if let Some(Turn { slot, of, mine }) = limits.turn {
            let _ = write!(text, " turn={}/{of}/{mine}", slot.as_nanos());
        }
        let _ = match answer {
            Ok(()) => write!(text, " -> go"),
            Err(Hold { reason, until: Time::NEVER }) => write!(text, " -> hold:{}", reason.name()),
            Err(Hold { reason, until }) => {
                write!(text, " -> hold:{}@{}", reason.name(), until.as_nanos())
            }
        };
        self.end(state);
    }

    /// Notes a reply, with what it led to.
    pub fn reply(&mut self, path: LoggedPath, reply: &Reply, ruling: &Ruling, state: &PathState) {
        self.begin(reply.arrived, path);
        let (built, sent) = (reply.built.as_nanos(), reply.sent.as_nanos());
        let _ = write!(self.text, "reply built={built} sent={sent} size={} ->", reply.size_bytes);
        self.end(state);
        self.text.pop();
        let signals: Vec<_> = ruling.signals.iter().map(u64::to_string).collect();
        let _ = write!(self.text, " signals={}", signals.join(","));
        if let Some(rule) = ruling.rule {
            let _ = write!(self.text, " rule={rule}");
        }
        self.text.push('\n');
    }

    /// Notes a fault, with what it led to.
    pub fn fault(&mut self, now: Time, path: LoggedPath, state: &PathState) {
        self.begin(now, path);
        self.text.push_str("fault ->");
        self.end(state);
    }

    fn begin(&mut self, now: Time, (server, class): LoggedPath) {
        let now = now.as_nanos();
        let _ = match server {
            Some(server) => write!(self.text, "{now} {server}/{class} "),
            None => write!(self.text, "{now} catalog/{class} "),
        };
    }

    fn end(&mut self, state: &PathState) {
        let (window, gap) = (state.window(), state.gap().as_nanos());
        let _ = writeln!(self.text, " window={window} gap={gap} flight={}", state.in_flight());
    }
}

impl Call {
    /// Reads what went into each call of a log.
    ///
    /// # Errors
    /// The first line that is none of a log.
    pub fn parse(log: &str) -> Result<Vec<Self>, DecisionError> {
        (1..)
            .zip(log.lines())
            .map(|(line, text)| {
                Self::of(text).map_err(|expected| {
                    let text = text.to_owned();
                    DecisionError { line, text, expected }
                })
            })
            .collect()
    }

    fn of(line: &str) -> Result<Self, &'static str> {
        let (went_in, _) = line.split_once(" ->").ok_or("write what came out behind an arrow")?;
        let mut words = went_in.split(' ');
        let now = number(words.next()).ok_or("begin with the time in nanoseconds")?;
        let path = words.next().and_then(path).ok_or("name a path, as in 3/write")?;
        let verb = words.next();
        let fields: Vec<_> = words.filter_map(|word| word.split_once('=')).collect();
        let field = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|pair| pair.1);
        let size = || number(field("size")).and_then(|size| u32::try_from(size).ok());
        let time = |name| number(field(name)).map(Time::from_nanos);
        let said = match verb {
            Some("ask") => {
                let size_bytes = size().ok_or("an ask has a size")?;
                Said::Ask { size_bytes, limits: limits(&field) }
            }
            Some("reply") => {
                let all = (time("built"), time("sent"), size());
                let (Some(built), Some(sent), Some(size_bytes)) = all else {
                    return Err("a reply has the fields built, sent and size");
                };
                Said::Reply { built, sent, size_bytes }
            }
            Some("fault") => Said::Fault,
            _ => return Err("the third word is ask, reply or fault"),
        };
        Ok(Self { now: Time::from_nanos(now), path, said })
    }
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

fn path(text: &str) -> Option<LoggedPath> {
    let (server, class) = text.split_once('/')?;
    let server = if server == "catalog" { None } else { Some(server.parse().ok()?) };
    Some((server, class.parse().ok()?))
}

fn limits<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> Limits {
    let count = |text: &str| text.parse::<u32>().ok();
    let pair = |text: &'a str| text.split_once('/');
    Limits {
        credits: field("credits").and_then(pair).and_then(|(used, granted)| {
            Some(Credits { granted: count(granted)?, used: count(used)? })
        }),
        cap: field("cap").and_then(count),
        fan_in: field("fan-in").and_then(pair).and_then(|(in_flight, limit)| {
            Some(FanIn { limit: count(limit)?, in_flight: count(in_flight)? })
        }),
        turn: field("turn").and_then(pair).and_then(|(slot, rest)| {
            let (of, mine) = rest.split_once('/')?;
            let slot = Span::from_nanos(slot.parse().ok()?);
            Some(Turn { slot, of: count(of)?, mine: count(mine)? })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Controller, Options};
    use crate::policy;

    #[test]
    fn what_went_in_reads_back() {
        let controller = Controller::new(Options::default(), policy::parse("fixed:1").unwrap());
        let mut state = controller.start();
        let mut log = DecisionLog::default();
        let path = (Some(3), Class::Write);
        let limits = Limits {
            credits: Some(Credits { granted: 9, used: 1 }),
            cap: None,
            fan_in: Some(FanIn { limit: 8, in_flight: 2 }),
            turn: Some(Turn { slot: Span::from_millis(1), of: 2, mine: 0 }),
        };
        let (sent, arrived) = (Time::from_nanos(5_000), Time::from_nanos(9_000));
        for _ in 0..2 {
            let answer = controller.admit(&mut state, sent, 4096, &limits);
            log.ask(sent, path, 4096, &limits, &answer, &state);
        }
        let reply = Reply { built: Time::ZERO, sent, arrived, size_bytes: 4096 };
        let ruling = controller.reply(&mut state, &reply);
        log.reply(path, &reply, &ruling, &state);
        log.fault(arrived, (None, Class::Metadata), &state);
        let lines: Vec<_> = log.as_str().lines().collect();
        assert!(lines[0].ends_with("-> go window=1 gap=0 flight=1"), "{}", lines[0]);
        assert!(lines[1].ends_with("-> hold:window window=1 gap=0 flight=1"), "{}", lines[1]);
        let calls = Call::parse(log.as_str()).unwrap();
        assert_eq!(
            calls[0],
            Call { now: sent, path, said: Said::Ask { size_bytes: 4096, limits } }
        );
        let said = Said::Reply { built: Time::ZERO, sent, size_bytes: 4096 };
        assert_eq!(calls[2], Call { now: arrived, path, said });
        assert_eq!((calls[3].path, calls[3].said), ((None, Class::Metadata), Said::Fault));
    }

    #[test]
    fn what_is_no_line_is_told_with_its_number() {
        for wrong in
            ["5 3/write ask size=1", "x 3/write fault ->", "5 3/tape fault ->", "5 3/write"]
        {
            let text = format!("1 0/read fault -> window=8\n{wrong}");
            let error = Call::parse(&text).unwrap_err();
            assert_eq!(error.line, 2, "{wrong}: {error}");
        }
    }
}
