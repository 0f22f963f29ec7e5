//! What the environment tells the library: the variables that `afflux run` sets, and the kill
//! switch.

use afflux_core::units::{Span, Time};
use afflux_node::shared::Segment;

use crate::run::Mode;

/// The variables, read once.
#[derive(Debug)]
pub(crate) struct Environment {
    /// `AFFLUX_RUN`: the folder of the run, with a slash at its end. Without it nothing is done.
    pub(crate) folder: Option<Vec<u8>>,
    /// `AFFLUX_MODE`: `observe`, `gate` or `write-behind`.
    pub(crate) mode: Mode,
    /// `AFFLUX_ROOTS`: directories, with colons between them.
    pub(crate) roots: Vec<Vec<u8>>,
    /// `AFFLUX_START`: when the run started, in nanoseconds of the machine's clock.
    pub(crate) start: Time,
    /// `AFFLUX_JOB`: in whose name requests are made.
    pub(crate) job: String,
    /// `AFFLUX_SEGMENT`: whose controllers the run uses, `node` or `user`.
    pub(crate) segment: Segment,
    /// `AFFLUX_SETTING`: the setting, for controllers of the process's own.
    pub(crate) setting: String,
    /// `AFFLUX_PATIENCE`: seconds after which a held request goes all the same.
    pub(crate) patience: Span,
}

/// Held requests go after this time, unless told otherwise: whatever happened, a program never
/// hangs.
const PATIENCE: Span = Span::from_secs(60);

impl Environment {
    /// Reads `variables`; `None` when the kill switch `AFFLUX_DISABLE` is on: anything but nothing,
    /// `0` and `no`.
    pub(crate) fn read<'v>(variables: impl Iterator<Item = &'v [u8]>) -> Option<Self> {
        let mut read = Self {
            folder: None,
            mode: Mode::Observe,
            roots: Vec::new(),
            start: Time::ZERO,
            job: String::new(),
            segment: Segment::User,
            setting: String::new(),
            patience: PATIENCE,
        };
        for variable in variables.filter_map(|variable| variable.strip_prefix(b"AFFLUX_")) {
            let Some(at) = variable.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&variable[..at], &variable[at + 1..]);
            match name {
                b"DISABLE" if !matches!(value, b"" | b"0" | b"no") => return None,
                b"RUN" if value.starts_with(b"/") => {
                    let slash = if value.ends_with(b"/") { b"".as_slice() } else { b"/" };
                    read.folder = Some([value, slash].concat());
                }
                b"MODE" => {
                    read.mode = match value {
                        b"gate" => Mode::Gate,
                        b"write-behind" => Mode::WriteBehind,
                        _ => Mode::Observe,
                    }
                }
                b"ROOTS" => {
                    let roots = value.split(|byte| *byte == b':').filter(|root| !root.is_empty());
                    read.roots = roots.map(|root| root.trim_ascii_end().to_vec()).collect();
                }
                b"START" => read.start = Time::from_nanos(number(value).unwrap_or(0)),
                b"JOB" => read.job = String::from_utf8_lossy(value).into_owned(),
                b"SEGMENT" => {
                    let named = std::str::from_utf8(value).ok().and_then(Segment::named);
                    read.segment = named.unwrap_or(Segment::User);
                }
                b"SETTING" => read.setting = String::from_utf8_lossy(value).into_owned(),
                b"PATIENCE" => read.patience = number(value).map_or(PATIENCE, Span::from_secs),
                _ => {}
            }
        }
        Some(read)
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
