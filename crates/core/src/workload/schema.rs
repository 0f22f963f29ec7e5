//! The schema of workload files, version 1.

use serde::{Deserialize, Deserializer};

use crate::units::{Span, parse_bytes};

/// The version that this code writes and reads.
const VERSION: u32 = 1;

/// Steps of a stream at most: each thread of each client counts them in 16 bits.
const MOST_STEPS: usize = u16::MAX as usize;

/// What a set of clients asks of storage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Version of the format; 1.
    #[serde(rename = "afflux-workload", deserialize_with = "version")]
    version: u32,
    /// A short name for reports.
    pub name: String,
    /// What it stands for, in a sentence.
    #[serde(default)]
    pub about: String,
    /// How many clients run it; each has connections and controllers of its own.
    #[serde(deserialize_with = "count")]
    pub clients: u32,
    /// The largest request that a client sends to a server.
    #[serde(default = "max_request", deserialize_with = "request_bytes")]
    pub max_request: u32,
    /// The files that it works on.
    pub files: Files,
    /// What each client does, all of it at the same time.
    #[serde(rename = "stream")]
    pub streams: Vec<Stream>,
}

/// The files of a workload and how they lie on the servers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Whether each client has files of its own or all share the same.
    #[serde(default)]
    pub placing: Placing,
    /// How many files: of each client, or in all when they are shared.
    #[serde(deserialize_with = "count")]
    pub each: u32,
    /// Size of each file.
    #[serde(deserialize_with = "bytes")]
    pub size: u64,
    /// Bytes in a row on one server.
    #[serde(default = "max_request", deserialize_with = "request_bytes")]
    pub stripe_unit: u32,
    /// How many servers hold each file; 0 means all.
    #[serde(default)]
    pub stripe_count: u32,
    /// How many of the files exist when the workload starts, in percent; the others are there for
    /// it to create.
    #[serde(default = "all", deserialize_with = "percent")]
    pub present_percent: u32,
}

/// Whose files they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placing {
    /// Each client has its own.
    #[default]
    PerClient,
    /// All clients use the same.
    Shared,
}

/// One activity of every client: some threads that go through the same steps again and again.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// A name for reports.
    #[serde(default)]
    pub name: String,
    /// How many run at once; each waits for its operation before it goes on.
    #[serde(deserialize_with = "count")]
    pub threads: u32,
    /// Operations of this stream in each cycle: no stream begins a cycle before all have begun all
    /// operations of the one before, so that their ratio is held exactly. Absent, a stream runs
    /// free.
    #[serde(default, deserialize_with = "optional_count")]
    pub share: Option<u32>,
    /// Which clients run it: those whose number leaves this remainder, as `[divisor, remainder]`.
    #[serde(default)]
    pub clients: Option<[u32; 2]>,
    /// What a thread does, in turn.
    pub steps: Vec<Step>,
    /// Work in bursts.
    #[serde(default)]
    pub burst: Option<Burst>,
}

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is done.
    #[serde(rename = "do")]
    pub kind: Kind,
    /// Where in the files.
    #[serde(default)]
    pub access: Access,
    /// How many bytes; the whole file when absent. Not for metadata.
    #[serde(default, deserialize_with = "optional_bytes")]
    pub size: Option<u64>,
    /// How long the thread thinks before it.
    #[serde(default)]
    pub think: Span,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads from a file that exists.
    Read,
    /// Writes into a file that exists.
    Write,
    /// Writes at the end of a file that exists.
    Append,
    /// Makes a file that does not exist yet, and writes it.
    Create,
    /// Removes a file that exists.
    Delete,
    /// Asks for a file's record.
    Stat,
}

impl Kind {
    /// Whether a file appears, disappears or grows by it.
    pub const fn changes_file(self) -> bool {
        matches!(self, Self::Create | Self::Delete | Self::Append)
    }
}

/// Where an operation works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// From where the stream's last operation ended, through one file after the other.
    #[default]
    Sequential,
    /// The same from end to start.
    Backward,
    /// At any multiple of the operation's size in any file.
    Random,
}

/// Bursts: so many operations, then a pause after the last of them is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Operations in a burst.
    #[serde(deserialize_with = "count")]
    pub operations: u32,
    /// Time from the end of a burst to the start of the next.
    pub pause: Span,
}

/// A workload file that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// It is not TOML, or a key or value is not one of the schema's.
    #[error("{0}")]
    Syntax(String),
    /// Its values contradict each other.
    #[error("workload `{workload}`, {place}: {what}; {remedy}")]
    Impossible {
        /// Name of the workload.
        workload: String,
        /// Which table and key.
        place: String,
        /// What is wrong.
        what: String,
        /// What to write instead.
        remedy: String,
    },
}

impl Workload {
    /// Reads a workload file. Errors give line, column and remedy.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let workload: Self =
            toml::from_str(text).map_err(|error| WorkloadError::Syntax(error.to_string()))?;
        workload.check()?;
        Ok(workload)
    }

    /// Bytes that its files hold when all of them exist at full size.
    pub fn footprint_bytes(&self) -> u64 {
        let owners = match self.files.placing {
            Placing::PerClient => u64::from(self.clients),
            Placing::Shared => 1,
        };
        owners.saturating_mul(u64::from(self.files.each)).saturating_mul(self.files.size)
    }

    /// Whether any stream works in bursts, so that a second's throughput says little.
    pub fn is_bursty(&self) -> bool {
        self.streams.iter().any(|stream| stream.burst.is_some())
    }

    /// Whether files come, go or grow, so that operations on one file must not overlap.
    pub fn changes_files(&self) -> bool {
        self.streams.iter().flat_map(|stream| &stream.steps).any(|step| step.kind.changes_file())
    }

    fn check(&self) -> Result<(), WorkloadError> {
        let wrong = |place: String, what: String, remedy: &str| {
            let workload = self.name.clone();
            Err(WorkloadError::Impossible { workload, place, what, remedy: remedy.to_owned() })
        };
        if self.streams.is_empty() {
            let what = "there is no stream, so nothing would be done".to_owned();
            return wrong("top".to_owned(), what, "add a [[stream]] with steps");
        }
        for (number, stream) in self.streams.iter().enumerate() {
            let place = match stream.name.as_str() {
                "" => format!("stream {}", number + 1),
                name => format!("stream `{name}`"),
            };
            if stream.steps.is_empty() {
                let what = "`steps` is empty".to_owned();
                return wrong(place, what, "write at least one, as in { do = \"read\" }");
            }
            if stream.steps.len() > MOST_STEPS {
                let what = format!("{} steps", stream.steps.len());
                return wrong(place, what, "at most 65535 are kept: repeat fewer");
            }
            if let Some([divisor, remainder]) = stream.clients
                && (divisor == 0 || remainder >= divisor || remainder >= self.clients)
            {
                let what = format!("`clients = [{divisor}, {remainder}]` names no client");
                return wrong(place, what, "write [2, 0] for the even ones, [2, 1] for the odd");
            }
            for step in &stream.steps {
                if step.size.is_some_and(|size| size > self.files.size) {
                    let size = step.size.unwrap_or_default();
                    let what = format!("a step of {size} B in files of {} B", self.files.size);
                    return wrong(place, what, "make `files.size` larger or `size` smaller");
                }
                let moves = matches!(step.kind, Kind::Read | Kind::Write);
                if moves
                    && step.access != Access::Random
                    && step.size.is_some()
                    && self.changes_files()
                {
                    let what =
                        "a sequential step with a `size`, though files come and go".to_owned();
                    return wrong(
                        place,
                        what,
                        "leave `size` out to take whole files, or use random",
                    );
                }
                if step.kind == Kind::Append && step.size.is_none() {
                    let what = "`append` without `size`".to_owned();
                    return wrong(place, what, "say how much, as in size = \"1 MiB\"");
                }
            }
        }
        Ok(())
    }
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let version = u32::deserialize(deserializer)?;
    if version == VERSION {
        return Ok(version);
    }
    Err(serde::de::Error::custom(format!(
        "version {version} is not known here: this program reads version {VERSION}"
    )))
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let count = i64::deserialize(deserializer)?;
    match u32::try_from(count) {
        Ok(count) if (1..=1_000_000).contains(&count) => Ok(count),
        _ => Err(serde::de::Error::custom(format!("{count} is not from 1 to 1000000"))),
    }
}

fn optional_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    count(deserializer).map(Some)
}

fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let percent = u32::deserialize(deserializer)?;
    if percent <= 100 {
        return Ok(percent);
    }
    Err(serde::de::Error::custom(format!("{percent} percent is more than all: write 0 to 100")))
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    match parse_bytes(&text) {
        Ok(0) => Err(serde::de::Error::custom("a size of zero: write at least 1B")),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(serde::de::Error::custom(error)),
    }
}

fn optional_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    bytes(deserializer).map(Some)
}

fn request_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let bytes = bytes(deserializer)?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes <= 16 << 20 => Ok(bytes),
        _ => Err(serde::de::Error::custom(format!("{bytes} B is too large: at most 16 MiB"))),
    }
}

const fn max_request() -> u32 {
    1 << 20
}

const fn all() -> u32 {
    100
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
afflux-workload = 1
name = "good"
clients = 4
[files]
each = 1
size = "8 MiB"
[[stream]]
threads = 2
steps = [{ do = "write", access = "random", size = "1 MiB", think = "5ms" }]
"#;

    #[test]
    fn a_good_file_is_read() {
        let workload = Workload::parse(GOOD).unwrap();
        assert_eq!(workload.footprint_bytes(), 32 << 20);
        assert_eq!(workload.max_request, 1 << 20);
        assert_eq!(workload.streams[0].steps[0].think, Span::from_millis(5));
    }

    /// Each fault names its line and what would be right.
    #[test]
    fn faults_name_place_and_remedy() {
        for (right, wrong, says) in [
            ("clients = 4", "clients = 0", "line 4"),
            ("clients = 4", "clints = 4", "unknown field `clints`"),
            ("\"8 MiB\"", "\"8 Mib\"", "a unit of size"),
            ("\"5ms\"", "\"5 parsecs\"", "33ms"),
            ("\"8 MiB\"", "\"8 KiB\"", "make `files.size` larger"),
            ("threads = 2", "threads = -2", "-2 is not from 1"),
            ("afflux-workload = 1", "afflux-workload = 2", "reads version 1"),
            ("do = \"write\"", "do = \"wrote\"", "`write`"),
        ] {
            let text = GOOD.replace(right, wrong);
            assert_ne!(text, GOOD);
            let error = Workload::parse(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
