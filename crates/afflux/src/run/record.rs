//! The report of a run as a file: what `afflux run --report` writes and `afflux why` reads. Reports
//! of many ranks and nodes add up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use afflux_core::class::Class;
use afflux_core::limits::HoldReason;
use afflux_node::calls::{Kind, Moves};
use afflux_node::tally::{PathTold, bucket_end};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What the file says it is.
pub(crate) const FORMAT: &str = "afflux run";
/// The version of the format.
pub(crate) const VERSION: u32 = 2;

/// Bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bytes {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Bytes {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self { read: self.read + other.read, written: self.written + other.written }
    }

    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_sub(other.read),
            written: self.written.saturating_sub(other.written),
        }
    }
}

/// Bytes that passed through the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Of files that are regulated.
    pub(crate) regulated: Bytes,
    /// Of other files.
    pub(crate) files: Bytes,
    /// Of pipes, sockets, terminals.
    pub(crate) other: Bytes,
    /// Known to have gone past it, and counted by the kernel.
    pub(crate) escaped: Bytes,
    /// The same, and not counted by the kernel.
    pub(crate) escaped_uncounted: Bytes,
}

impl Seen {
    /// Adds the bytes of a class of calls, by kind.
    pub(crate) fn add(&mut self, moves: Moves, bytes: [u64; 3], escaped: bool, kernel: bool) {
        let one = |bytes| match moves {
            Moves::In => Bytes { read: bytes, written: 0 },
            Moves::Out => Bytes { read: 0, written: bytes },
            Moves::Nothing => Bytes::default(),
        };
        if escaped {
            // Only those of files: nobody misses what was spliced between pipes.
            let files = bytes[Kind::Regulated.index()] + bytes[Kind::File.index()];
            let sum = if kernel { &mut self.escaped } else { &mut self.escaped_uncounted };
            *sum = sum.plus(one(files));
            return;
        }
        for (sum, kind) in [
            (&mut self.regulated, Kind::Regulated),
            (&mut self.files, Kind::File),
            (&mut self.other, Kind::Other),
        ] {
            *sum = sum.plus(one(bytes[kind.index()]));
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            regulated: self.regulated.plus(other.regulated),
            files: self.files.plus(other.files),
            other: self.other.plus(other.other),
            escaped: self.escaped.plus(other.escaped),
            escaped_uncounted: self.escaped_uncounted.plus(other.escaped_uncounted),
        }
    }
}

/// Something that was not seen, or not held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EscapeRecord {
    pub(crate) count: u64,
    /// Bytes, where they can be told.
    pub(crate) bytes: u64,
}

/// How often and how long requests were held for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HoldRecord {
    pub(crate) count: u64,
    pub(crate) nanos: u64,
}

/// One path: the requests of this run to one server in one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathRecord {
    pub(crate) server: String,
    pub(crate) class: String,
    /// Requests that reached the server.
    pub(crate) requests: u64,
    /// Bytes of all calls.
    pub(crate) bytes: u64,
    /// Bytes of those requests.
    pub(crate) gated_bytes: u64,
    /// Sum, and longest, of their process times.
    pub(crate) pt_sum_nanos: u64,
    pub(crate) pt_max_nanos: u64,
    /// Requests by process time; the upper ends of the buckets follow from their number.
    pub(crate) pt_buckets: Vec<u64>,
    /// Hits of the rules, by their number from 0.
    pub(crate) rule_hits: Vec<u64>,
    /// Holds by reason.
    pub(crate) holds: BTreeMap<String, HoldRecord>,
    /// Bytes in each second of the run.
    pub(crate) bytes_by_second: Vec<u64>,
}

impl PathRecord {
    /// What a program told of a path.
    pub(crate) fn from_told(told: &PathTold) -> Self {
        let holds = HoldReason::ALL.iter().filter_map(|reason| {
            let (count, nanos) =
                (told.holds.holds[reason.index()], told.holds.held_nanos[reason.index()]);
            let held = count > 0 || nanos > 0;
            held.then(|| (reason.name().to_owned(), HoldRecord { count, nanos }))
        });
        Self {
            server: told.server.clone(),
            class: Class::ALL[told.class].name().to_owned(),
            requests: told.requests,
            bytes: told.bytes,
            gated_bytes: told.gated_bytes,
            pt_sum_nanos: told.pt_sum_nanos,
            pt_max_nanos: told.pt_max_nanos,
            pt_buckets: told.buckets.clone(),
            rule_hits: told.rule_hits.clone(),
            holds: holds.collect(),
            bytes_by_second: told.seconds.clone(),
        }
    }

    /// Adds `other`, whose seconds begin `shift` seconds after ours.
    pub(crate) fn add(&mut self, other: &Self, shift: usize) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.gated_bytes += other.gated_bytes;
        self.pt_sum_nanos += other.pt_sum_nanos;
        self.pt_max_nanos = self.pt_max_nanos.max(other.pt_max_nanos);
        add_all(&mut self.pt_buckets, &other.pt_buckets, 0);
        add_all(&mut self.rule_hits, &other.rule_hits, 0);
        add_all(&mut self.bytes_by_second, &other.bytes_by_second, shift);
        for (reason, hold) in &other.holds {
            let sum = self.holds.entry(reason.clone()).or_default();
            sum.count += hold.count;
            sum.nanos += hold.nanos;
        }
    }

    /// The process time below which a part of the requests stayed, in milliseconds, to a quarter of
    /// its power of two.
    pub(crate) fn quantile_ms(&self, part: f64) -> f64 {
        let wanted = (self.requests as f64 * part).ceil() as u64;
        let mut sum = 0;
        let found = self.pt_buckets.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        let end = found.map_or(0.0, |bucket| bucket_end(bucket).as_millis_f64());
        end.min(self.pt_max_nanos as f64 / 1e6)
    }

    /// Time held for all reasons, in nanoseconds.
    pub(crate) fn held_nanos(&self) -> u64 {
        self.holds.values().map(|hold| hold.nanos).sum()
    }
}

fn add_all(to: &mut Vec<u64>, from: &[u64], shift: usize) {
    if to.len() < from.len() + shift {
        to.resize(from.len() + shift, 0);
    }
    to[shift..].iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// Calls of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    pub(crate) calls: u64,
    /// Bytes of regulated files, of other files, of what is no file.
    pub(crate) bytes: [u64; 3],
}

/// A run, or several added up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRecord {
    pub(crate) format: String,
    pub(crate) version: u32,
    /// Seconds since 1970 at its start, and how long it took.
    pub(crate) started_at: u64,
    pub(crate) seconds: f64,
    /// How many runs this is.
    pub(crate) runs: u64,
    pub(crate) hosts: Vec<String>,
    pub(crate) command: Vec<String>,
    pub(crate) mode: String,
    pub(crate) setting: String,
    pub(crate) roots: Vec<String>,
    /// Exit statuses, as a shell gives them.
    pub(crate) exits: Vec<i32>,
    pub(crate) programs: u64,
    pub(crate) processes: u64,
    /// Whose controllers were shared: the node's, the user's, or none, each process having its own
    /// (private). Without an entry when nothing was to be held.
    pub(crate) segments: Vec<String>,
    /// Programs with controllers of their own, since those could not be used.
    pub(crate) private: u64,
    /// Programs whose counters found no room; they are in nothing of the following but the kernel's
    /// count.
    pub(crate) lost: u64,
    pub(crate) left_running: u64,
    /// Errors inside the library.
    pub(crate) faults: u64,
    /// What the kernel counted, of that the loader and the library, and what was seen.
    pub(crate) kernel: Bytes,
    pub(crate) loader: Bytes,
    pub(crate) own: Bytes,
    pub(crate) seen: Seen,
    pub(crate) escapes: BTreeMap<String, EscapeRecord>,
    pub(crate) strangers: BTreeMap<String, u64>,
    pub(crate) calls: BTreeMap<String, CallRecord>,
    pub(crate) paths: Vec<PathRecord>,
    /// What went wrong with the report itself.
    pub(crate) remarks: Vec<String>,
}

/// How much of the bytes of files was seen, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// Bytes of files that passed through the library.
    pub(crate) seen: u64,
    /// Bytes of files that the program moved.
    pub(crate) all: u64,
}

impl Coverage {
    /// In percent; all of nothing is all.
    pub(crate) fn percent(self) -> f64 {
        if self.all == 0 { 100.0 } else { 100.0 * self.seen as f64 / self.all as f64 }
    }
}

impl RunRecord {
    /// Coverage of reads and of writes. From what the kernel counted are taken what the loader and
    /// the library did, and what went through pipes and sockets; what is known to have gone past
    /// the kernel's count is added.
    pub(crate) fn coverage(&self) -> [Coverage; 2] {
        let program = self.kernel.minus(self.loader).minus(self.own);
        let of = |pick: fn(&Bytes) -> u64| {
            let seen = pick(&self.seen.regulated) + pick(&self.seen.files);
            let known = seen + pick(&self.seen.escaped);
            let files = pick(&program).saturating_sub(pick(&self.seen.other)).max(known);
            Coverage { seen, all: files + pick(&self.seen.escaped_uncounted) }
        };
        [of(|bytes| bytes.read), of(|bytes| bytes.written)]
    }

    /// Coverage of both directions together.
    pub(crate) fn coverage_of_all(&self) -> Coverage {
        let [read, written] = self.coverage();
        Coverage { seen: read.seen + written.seen, all: read.all + written.all }
    }

    /// Adds another run, as of another rank or node, by the calendar of both.
    pub(crate) fn add(&mut self, other: Self) {
        let (start, end) = (self.started_at, self.started_at as f64 + self.seconds);
        if other.started_at < start {
            let shift = (start - other.started_at) as usize;
            for path in &mut self.paths {
                path.bytes_by_second.splice(0..0, std::iter::repeat_n(0, shift));
            }
            self.started_at = other.started_at;
        }
        let shift = (other.started_at - self.started_at) as usize;
        let end = end.max(other.started_at as f64 + other.seconds);
        self.seconds = end - self.started_at as f64;
        for path in &other.paths {
            let same = |known: &&mut PathRecord| {
                (&known.server, &known.class) == (&path.server, &path.class)
            };
            match self.paths.iter_mut().find(same) {
                Some(known) => known.add(path, shift),
                None => {
                    let mut path = path.clone();
                    path.bytes_by_second.splice(0..0, std::iter::repeat_n(0, shift));
                    self.paths.push(path);
                }
            }
        }
        self.add_counts(&other);
        self.hosts.extend(other.hosts);
        self.hosts.sort();
        self.hosts.dedup();
        self.segments.extend(other.segments);
        self.segments.sort();
        self.segments.dedup();
        self.exits.extend(other.exits);
        self.remarks.extend(other.remarks);
    }

    fn add_counts(&mut self, other: &Self) {
        self.runs += other.runs;
        self.programs += other.programs;
        self.processes += other.processes;
        self.private += other.private;
        self.lost += other.lost;
        self.left_running += other.left_running;
        self.faults += other.faults;
        self.kernel = self.kernel.plus(other.kernel);
        self.loader = self.loader.plus(other.loader);
        self.own = self.own.plus(other.own);
        self.seen = self.seen.plus(&other.seen);
        for (cause, escape) in &other.escapes {
            let sum = self.escapes.entry(cause.clone()).or_default();
            sum.count += escape.count;
            sum.bytes += escape.bytes;
        }
        for (stranger, count) in &other.strangers {
            *self.strangers.entry(stranger.clone()).or_default() += count;
        }
        for (name, calls) in &other.calls {
            let sum = self.calls.entry(name.clone()).or_default();
            sum.calls += calls.calls;
            (0..3).for_each(|kind| sum.bytes[kind] += calls.bytes[kind]);
        }
    }

    /// Reads a report, or all reports of a directory as one.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        if !path.is_dir() {
            return Self::read_file(path);
        }
        let cannot = |error| Failure::input(format!("cannot read {}: {error}", path.display()));
        let entries = fs::read_dir(path).map_err(cannot)?.flatten().map(|entry| entry.path());
        let mut files: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
        files.sort();
        let mut sum: Option<Self> = None;
        for file in files {
            let run = Self::read_file(&file)?;
            match &mut sum {
                Some(sum) => sum.add(run),
                None => sum = Some(run),
            }
        }
        sum.ok_or_else(|| {
            Failure::input(format!(
                "{} has no reports: it is filled by `afflux run --report {}`",
                path.display(),
                path.display()
            ))
        })
    }

    fn read_file(path: &Path) -> Result<Self, Failure> {
        let at = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::input(format!("cannot read the report {at}: {error}")))?;
        let value: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| Failure::input(format!("{at} is no report: {error}")))?;
        let (format, version) = (value["format"].as_str(), value["version"].as_u64());
        if format != Some(FORMAT) || version != Some(u64::from(VERSION)) {
            return Err(Failure::input(format!(
                "{at} is no report of version {VERSION}: it was written by another program or by \
                 another version of Afflux"
            )));
        }
        serde_json::from_value(value)
            .map_err(|error| Failure::input(format!("{at} is no report: {error}")))
    }
}
