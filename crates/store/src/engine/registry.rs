//! The engines that there are, and how a user names one: the store's part of `--on`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use afflux_core::parameters::ParameterError;
use afflux_core::units::Span;

use super::Engine;
use super::dirs::{DirsEngine, DirsError};
use super::lab::LabEngine;
use super::null::NullEngine;
use super::rados::{RadosEngine, RadosError, RadosStore};
use super::wrap::{self, WrapError, WrapperEntry, WrapperSpec};
use crate::lab::cluster::default_dir;

/// One known engine.
#[derive(Debug)]
pub struct EngineEntry {
    /// What users call it.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// How it is written.
    pub grammar: &'static str,
    /// Reads what follows the name and its colon; `None` when nothing does. An error says what is
    /// wrong with it.
    pub read: fn(Option<&str>) -> Result<EngineSpec, String>,
}

/// The engines, the default first.
pub static ENGINES: &[EngineEntry] = &[
    EngineEntry {
        name: "lab",
        about: "the embedded servers that `afflux lab up` starts",
        grammar: "lab, or lab:DIR for one in another directory",
        read: |rest| {
            Ok(EngineSpec::Lab { dir: rest.filter(|dir| !dir.is_empty()).map(Into::into) })
        },
    },
    EngineEntry {
        name: "dirs",
        about: "directories or mounts, each taken as one server",
        grammar: "dirs:DIR,DIR,...",
        read: |rest| {
            let dirs: Vec<PathBuf> = rest
                .unwrap_or_default()
                .split(',')
                .filter(|dir| !dir.is_empty())
                .map(Into::into)
                .collect();
            if dirs.is_empty() {
                Err("no directory".to_owned())
            } else {
                Ok(EngineSpec::Dirs { dirs })
            }
        },
    },
    EngineEntry {
        name: "rados",
        about: "pools of a Ceph cluster, each taken as one server",
        grammar: "rados, rados:CONF or rados:USER@CONF:POOL,POOL,...",
        read: |rest| Ok(EngineSpec::Rados(read_rados(rest.unwrap_or_default()))),
    },
    EngineEntry {
        name: "null",
        about: "four servers that answer at once, or after a delay, and keep no data",
        grammar: "null, or null:5ms to answer after 5 ms",
        read: |rest| {
            let delay = rest.map(str::parse::<Span>).transpose();
            delay
                .map(|delay| EngineSpec::Null { delay: delay.unwrap_or_default() })
                .map_err(|error| error.to_string())
        },
    },
];

/// How many servers the `null` engine has.
pub const NULL_SERVERS: u32 = 4;

/// An engine as users write it.
///
/// ```
/// use afflux_store::engine::registry::EngineSpec;
/// let spec: EngineSpec = "dirs:/mnt/a,/mnt/b".parse().unwrap();
/// assert_eq!(spec.to_string(), "dirs:/mnt/a,/mnt/b");
/// assert!("disk".parse::<EngineSpec>().unwrap_err().to_string().contains("null"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineSpec {
    /// The lab in a directory; `None` is the default one.
    Lab {
        /// Where.
        dir: Option<PathBuf>,
    },
    /// Directories.
    Dirs {
        /// Which.
        dirs: Vec<PathBuf>,
    },
    /// Pools of a Ceph cluster.
    Rados(RadosStore),
    /// Nothing behind it.
    Null {
        /// How long answers take.
        delay: Span,
    },
    /// Another one, in a wrapper: `WRAPPER:OPTIONS@ENGINE`.
    Wrapped {
        /// The wrapper.
        wrapper: WrapperSpec,
        /// What it is around.
        inner: Box<Self>,
    },
}

/// Text that names no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineSpecError {
    /// No engine has this name.
    #[error("there is no engine `{name}`{hint}: write {known}")]
    Unknown {
        /// What was read.
        name: String,
        /// What was probably meant.
        hint: String,
        /// The grammars of all.
        known: String,
    },
    /// A wrapper stands alone, or around what is no engine.
    #[error(
        "`{wrapper}:` goes around an object engine, and `{inner}` is none{hint}: write {grammar}, \
         where ENGINE is {known}"
    )]
    Around {
        /// The wrapper.
        wrapper: &'static str,
        /// What it is around.
        inner: String,
        /// What was probably meant.
        hint: String,
        /// How it is written.
        grammar: &'static str,
        /// The grammars of all engines.
        known: String,
    },
    /// What a wrapper is told cannot be read.
    #[error(transparent)]
    Wrapper(#[from] ParameterError),
    /// What follows the name cannot be read.
    #[error("`{text}`: {why}: write {grammar}")]
    Wrong {
        /// What was read.
        text: String,
        /// What is wrong with it.
        why: String,
        /// How it is written.
        grammar: &'static str,
    },
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The lab cannot be used.
    #[error(transparent)]
    Lab(#[from] super::lab::ConnectError),
    /// The directories cannot be used.
    #[error(transparent)]
    Dirs(#[from] DirsError),
    /// The cluster cannot be used.
    #[error(transparent)]
    Rados(#[from] RadosError),
    /// There is no wrapper around it.
    #[error(transparent)]
    Wrap(#[from] WrapError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl EngineSpec {
    /// Makes one client, with connections of its own.
    pub fn connect(&self) -> Result<Arc<dyn Engine>, ConnectError> {
        Ok(match self {
            Self::Lab { dir: Some(dir) } => Arc::new(LabEngine::connect(dir)?),
            Self::Lab { dir: None } => Arc::new(LabEngine::connect(&default_dir())?),
            Self::Dirs { dirs } => Arc::new(DirsEngine::open(dirs)?),
            Self::Rados(store) => Arc::new(RadosEngine::connect(store)?),
            Self::Null { delay } => Arc::new(NullEngine::delayed(NULL_SERVERS, *delay)?),
            Self::Wrapped { wrapper, inner } => wrapper.around(inner.connect()?)?,
        })
    }

    /// Reads `OPTIONS@ENGINE`.
    fn wrapped(wrapper: &'static WrapperEntry, rest: &str) -> Result<Self, EngineSpecError> {
        let (options, inner) = rest.split_once('@').unwrap_or((rest, ""));
        let spec = WrapperSpec::parse(wrapper, options)?;
        match inner.parse() {
            Ok(engine) => Ok(Self::Wrapped { wrapper: spec, inner: Box::new(engine) }),
            Err(EngineSpecError::Unknown { hint, .. }) => {
                let (wrapper, grammar) = (wrapper.name, wrapper.grammar);
                let (inner, known) = (inner.to_owned(), known());
                Err(EngineSpecError::Around { wrapper, inner, hint, grammar, known })
            }
            Err(other) => Err(other),
        }
    }
}

/// How all engines are written, for messages.
fn known() -> String {
    let all: Vec<_> = ENGINES.iter().map(|entry| entry.grammar).collect();
    all.join("; ")
}

impl FromStr for EngineSpec {
    type Err = EngineSpecError;

    fn from_str(text: &str) -> Result<Self, EngineSpecError> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        if let Some(wrapper) = wrap::find(name) {
            return Self::wrapped(wrapper, rest.unwrap_or_default());
        }
        let entry = ENGINES.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let (hint, known) = (wrap::hint(name), known());
            let known = format!("{known}; or around any of them {}", wrap::grammars());
            EngineSpecError::Unknown { name: name.to_owned(), hint, known }
        })?;
        (entry.read)(rest).map_err(|why| {
            let (text, grammar) = (text.to_owned(), entry.grammar);
            EngineSpecError::Wrong { text, why, grammar }
        })
    }
}

impl fmt::Display for EngineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Lab { dir: None } => "lab".to_owned(),
            Self::Lab { dir: Some(dir) } => format!("lab:{}", dir.display()),
            Self::Dirs { dirs } => {
                let dirs: Vec<_> = dirs.iter().map(|dir| dir.display().to_string()).collect();
                format!("dirs:{}", dirs.join(","))
            }
            Self::Rados(store) => written_rados(store),
            Self::Wrapped { wrapper, inner } => format!("{wrapper}@{inner}"),
            Self::Null { delay: Span::ZERO } => "null".to_owned(),
            Self::Null { delay } => format!("null:{delay}"),
        };
        f.pad(&text)
    }
}

/// Reads `USER@CONF:POOL,POOL`, of which each part may be missing.
fn read_rados(text: &str) -> RadosStore {
    let (place, pools) = text.split_once(':').unwrap_or((text, ""));
    let (user, configuration) = match place.split_once('@') {
        Some((user, configuration)) => (Some(user), configuration),
        None => (None, place),
    };
    let kept = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    RadosStore {
        user: user.and_then(kept),
        configuration: kept(configuration).map(PathBuf::from),
        pools: pools.split(',').filter_map(kept).collect(),
    }
}

fn written_rados(store: &RadosStore) -> String {
    let mut text = "rados".to_owned();
    let user = store.user.as_ref().map(|user| format!("{user}@"));
    let configuration = store.configuration.as_ref().map(|path| path.display().to_string());
    if user.is_some() || configuration.is_some() || !store.pools.is_empty() {
        text.push(':');
    }
    text.extend([user, configuration].into_iter().flatten());
    if !store.pools.is_empty() {
        text = format!("{text}:{}", store.pools.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for text in [
            "lab",
            "lab:/tmp/x",
            "dirs:/a",
            "dirs:/a,/b",
            "null",
            "null:5ms",
            "rados",
            "rados:/c",
            "rados:me@/c:a,b",
            "rados::a",
        ] {
            assert_eq!(text.parse::<EngineSpec>().unwrap().to_string(), text);
        }
        for text in
            ["limit:16@null", "trace:/t.jsonl@limit:16@dirs:/a,/b", "throttle:20MB/s@lab:/x"]
        {
            assert_eq!(text.parse::<EngineSpec>().unwrap().to_string(), text);
        }
        for (text, hint) in [
            ("limit:16", "goes around an object engine, and `` is none: write limit:N@ENGINE"),
            ("limit:16@sim:contended", "`sim:contended` is none"),
            ("limit:16@trace:/t@nul", "`nul` is none; did you mean `null`?"),
            ("limt:16@null", "did you mean `limit`?"),
            ("limit:0@null", "`requests=0` is not a whole number from 1"),
            ("limit:@null", "needs `requests`"),
            ("throttle:20MB@null", "20MB/s"),
            ("throttle:0B/s@null", "above zero"),
            ("fault:lose=2@null", "`lose=2` is not a number from 0 to 1"),
            ("fault:lost=0.1@null", "it takes seed, delay"),
            ("fault:server=x@null", "server=x"),
            ("disk", "throttle:RATE@ENGINE"),
        ] {
            let error = text.parse::<EngineSpec>().unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        for (text, hint) in [("dirs:", "dirs:DIR"), ("null:5", "5ms"), ("", "lab, or lab:DIR")] {
            let error = text.parse::<EngineSpec>().unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn every_engine_is_named_as_its_grammar_says() {
        for entry in ENGINES {
            assert!(entry.grammar.starts_with(entry.name), "{}", entry.name);
        }
    }
}
