//! The format of traces: a line of JSON for the end of each request, as `docs/engines.md` says.

use std::borrow::Cow;

use afflux_core::class::Class;
use serde::{Deserialize, Serialize};

use crate::engine::Taken;

/// The outcome of a request that was answered.
pub(crate) const DONE: &str = "done";

/// The first line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The version of the lines.
    pub(crate) afflux_trace: u32,
}

impl Header {
    /// What is written now.
    pub(crate) const CURRENT: Self = Self { afflux_trace: 2 };

    /// Whether lines of this version can be read; those of version 1 have no renames.
    pub(crate) const fn is_known(self) -> bool {
        matches!(self.afflux_trace, 1 | 2)
    }
}

/// One request that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) submitted_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) client: u32,
    pub(crate) place: String,
    pub(crate) class: Class,
    pub(crate) operation: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) taken: Option<Taken>,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u64,
    pub(crate) outcome: Cow<'static, str>,
    pub(crate) moved_bytes: u64,
    pub(crate) access_ns: u64,
    pub(crate) queued_ns: u64,
}
