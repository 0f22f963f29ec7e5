//! Wrappers: engines around any other engine, to see how a client does when something is amiss.
//!
//! `limit:16@dirs:/a,/b` is the engine `dirs:/a,/b` with at most 16 requests at each server at
//! once; wrappers nest: `trace:/tmp/t.jsonl@limit:16@lab`. Those that hold requests are state
//! machines that are told the time, driven by the one `relay`.
//!
//! ```
//! use afflux_store::engine::registry::EngineSpec;
//! let spec: EngineSpec = "limit:2@throttle:20MB/s@null".parse().unwrap();
//! assert_eq!(spec.connect().unwrap().name(), "limit");
//! ```

pub mod fault;
pub mod limit;
mod lines;
mod relay;
pub mod throttle;
pub mod trace;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use afflux_core::nearest::nearest;
use afflux_core::parameters::ParameterError;

use super::Engine;
use super::registry::ENGINES;

/// One known wrapper.
#[derive(Debug)]
pub struct WrapperEntry {
    /// What users call it.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// How it is written.
    pub grammar: &'static str,
    /// Reads what stands between its colon and the `@`.
    pub read: fn(&str) -> Result<Arc<dyn Wrapper>, ParameterError>,
}

/// The wrappers.
pub static WRAPPERS: &[WrapperEntry] = &[limit::ENTRY, throttle::ENTRY, fault::ENTRY, trace::ENTRY];

/// Puts an engine around another.
pub trait Wrapper: fmt::Debug + Send + Sync {
    /// Around the engine of one more client.
    fn around(&self, inner: Arc<dyn Engine>) -> Result<Arc<dyn Engine>, WrapError>;
}

/// Why there is no wrapper around an engine.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// The file that it writes cannot be made.
    #[error("cannot write the trace {}: {source}", .file.display())]
    Trace {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A wrapper as users write it. Copies of one are the same wrapper: the clients that they are put
/// around are told apart, and write to one trace.
#[derive(Clone, Debug)]
pub struct WrapperSpec {
    name: &'static str,
    options: String,
    wrapper: Arc<dyn Wrapper>,
}

impl WrapperSpec {
    /// Reads `options` for a wrapper.
    pub fn parse(entry: &WrapperEntry, options: &str) -> Result<Self, ParameterError> {
        let wrapper = (entry.read)(options)?;
        Ok(Self { name: entry.name, options: options.to_owned(), wrapper })
    }

    /// Puts it around the engine of one more client.
    pub fn around(&self, inner: Arc<dyn Engine>) -> Result<Arc<dyn Engine>, WrapError> {
        self.wrapper.around(inner)
    }
}

impl PartialEq for WrapperSpec {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.options) == (other.name, &other.options)
    }
}

impl Eq for WrapperSpec {}

impl fmt::Display for WrapperSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.options)
    }
}

/// How all wrappers are written, for messages.
pub fn grammars() -> String {
    let all: Vec<_> = WRAPPERS.iter().map(|entry| entry.grammar).collect();
    all.join("; ")
}

/// The wrapper of this name.
pub fn find(name: &str) -> Option<&'static WrapperEntry> {
    WRAPPERS.iter().find(|entry| entry.name == name)
}

/// The engine or wrapper that `name` was probably meant to be, as the end of a message.
pub(super) fn hint(name: &str) -> String {
    let names = ENGINES.iter().map(|entry| entry.name);
    let names = names.chain(WRAPPERS.iter().map(|entry| entry.name));
    nearest(name, names).map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}
