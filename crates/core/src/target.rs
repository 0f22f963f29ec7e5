//! Targets: what a trial runs on.
//!
//! The lab, a set of directories, a simulated scenario: each says how files are prepared, how a
//! setting is deployed and how a run is measured; bench and search know nothing else.
//!
//! ```
//! use afflux_core::measure::Measurement;
//! use afflux_core::setting::Setting;
//! use afflux_core::target::{Run, Target, TargetError};
//! use afflux_core::workload::Workload;
//!
//! /// A target on which nothing happens: a null of everything, to test the tools themselves.
//! struct Void;
//! impl Target for Void {
//!     fn name(&self) -> String { "void".to_owned() }
//!     fn prepare(&mut self, _: &Workload) -> Result<(), TargetError> { Ok(()) }
//!     fn deploy(&mut self, _: &Setting) -> Result<(), TargetError> { Ok(()) }
//!     fn run(&mut self, _: &Run<'_>) -> Result<Measurement, TargetError> {
//!         Ok(Measurement::default())
//!     }
//! }
//! ```

use crate::measure::{Measurement, TraceRequest};
use crate::setting::Setting;
use crate::units::Span;
use crate::workload::Workload;

/// Something that a workload can be measured on.
pub trait Target {
    /// As it is written after `--on`.
    fn name(&self) -> String;

    /// Brings the workload's files into the state in which every trial starts.
    fn prepare(&mut self, workload: &Workload) -> Result<(), TargetError>;

    /// Puts all controllers under `setting` for the next run: window 8, indicators empty.
    fn deploy(&mut self, setting: &Setting) -> Result<(), TargetError>;

    /// Runs the workload that was prepared and measures it.
    fn run(&mut self, run: &Run<'_>) -> Result<Measurement, TargetError>;

    /// Whether a run takes its length. A simulated one takes what it takes, to be measured.
    fn is_in_real_time(&self) -> bool {
        true
    }

    /// Removes the workload's files, which otherwise stay for the next run. A target that keeps
    /// none does nothing.
    fn clear(&mut self, _workload: &Workload) -> Result<(), TargetError> {
        Ok(())
    }
}

/// How long and from which seed a trial runs.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The seed of the workload's choices.
    pub seed: u64,
    /// Time at the start that is not counted.
    pub settle: Span,
    /// Counted time, in whole seconds.
    pub length: Span,
    /// What is traced besides; a target that cannot trace leaves it out.
    pub trace: Option<TraceRequest>,
    /// Told about the progress of the run.
    pub progress: &'a dyn Progress,
}

/// Hears how a run goes on. All hooks are optional.
pub trait Progress: Send + Sync {
    /// So many bytes were moved since the last call; called often.
    fn moved(&self, _bytes: u64) {}

    /// A part of the run, from 0 to 1, is over; told where runs do not take their length.
    fn reached(&self, _part: f64) {}

    /// Something is amiss that failed no request, and that the user should hear of.
    fn warned(&self, _what: &str) {}

    /// Whether the user wants it to end now.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Progress that nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {}

/// Why a trial has no measurement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The user ended it.
    #[error("ended before it was done")]
    Cancelled,
    /// The target cannot do what is asked; another workload or target may.
    #[error("{target} cannot run this: {why}")]
    Unsuitable {
        /// The target.
        target: String,
        /// Why, and what to do.
        why: String,
    },
    /// The target failed.
    #[error("{target} failed while {doing}: {why}")]
    Failed {
        /// The target.
        target: String,
        /// What was going on.
        doing: String,
        /// What it said.
        why: String,
    },
}
