//! The journal of a search: all that it needs to go on after it was killed.
//!
//! `search.jsonl` in the search's directory holds a head and then a line for each trial. A strategy
//! is a function of its configuration and of what it was told, so reading the journal back brings
//! it to where it was. The last line may be torn by a kill; it is dropped, and its trial run again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use afflux_core::search::{Pair, Told};
use afflux_core::summary::Summary;
use afflux_core::units::Span;
use serde::{Deserialize, Serialize};

use crate::experiment::Plan;
use crate::search::external::identity;

/// The version that this program writes and reads.
pub(crate) const VERSION: u32 = 1;

/// What a search is; the same for its whole life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// Version of the format.
    pub(crate) afflux_search: u32,
    /// Version of the program that began it.
    pub(crate) program: String,
    /// Name of the workload.
    pub(crate) workload: String,
    /// The workload file, whole.
    pub(crate) workload_text: String,
    /// Number of clients.
    pub(crate) clients: u32,
    /// As written after `--on`.
    pub(crate) target: String,
    /// The scenario file of a simulated target, whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) scenario_text: String,
    /// As written after `--method`.
    pub(crate) method: String,
    /// As written after `--objective`.
    pub(crate) objective: String,
    /// Seed of all choices.
    pub(crate) seed: u64,
    /// Time at the start of each run that is not counted.
    pub(crate) settle: Span,
    /// Counted time of a run at full length.
    pub(crate) length: Span,
    /// Counted time of a confirming run.
    pub(crate) confirm_length: Span,
    /// Rounds of the confirmation.
    pub(crate) pairs: u32,
    /// Runs of each trial of the search.
    pub(crate) runs: u32,
    /// Whether candidates run without the baseline beside them.
    pub(crate) unpaired: bool,
    /// What the method starts from.
    pub(crate) start: Start,
}

impl Head {
    /// How the confirming runs are made.
    pub(crate) fn plan(&self) -> Plan {
        let (settle, length) = (self.settle, self.confirm_length);
        Plan { pairs: self.pairs, settle, length, seed: self.seed, trace: None }
    }
}

/// What a method starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Start {
    /// Its own start; that of sharp is the paper's
    Method,
    /// A rule that settles at the best fixed setting
    Fixed,
}

/// The part of a search that a trial belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// The grid of fixed settings, the honest competitor.
    Grid,
    /// The method itself.
    Search,
    /// Fresh runs of the baseline, the best fixed setting and what was found.
    Confirm,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Where it belongs.
    pub(crate) stage: Stage,
    /// Its number within its stage.
    pub(crate) trial: u64,
    /// What was deployed.
    pub(crate) label: String,
    /// Its seed.
    pub(crate) seed: u64,
    /// Its place in a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pair: Option<Pair>,
    /// The epoch and the round of the method that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) round: Option<(u32, u32)>,
    /// The part of the full length that it ran.
    #[serde(default = "full", skip_serializing_if = "is_full")]
    pub(crate) fidelity: f64,
    /// What it cost, in seconds, preparation and repetitions included.
    pub(crate) secs: f64,
    /// What it showed.
    pub(crate) told: Told,
    /// Why and how it was made again, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) again: Option<Again>,
    /// All its numbers; kept for the confirmation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Summary>,
    /// The trial as the program wrote it that wanted it, for a method that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) written: Option<serde_json::Value>,
}

/// A trial that was doubted and made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Again {
    /// Why.
    pub(crate) why: String,
    /// The scores of all times, in their order, the doubted one first; none of one that failed.
    pub(crate) scores: Vec<Option<f64>>,
}

const fn full() -> f64 {
    1.0
}

fn is_full(fidelity: &f64) -> bool {
    *fidelity == full()
}

/// An open journal, locked against a second search.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Locked,
    /// What the journal says.
    pub(crate) entries: Vec<Entry>,
    /// Bytes of a torn last line that were dropped.
    pub(crate) torn_bytes: u64,
    /// Trials of the search, each counted as often as it was made.
    made: u64,
    confirmed: u64,
    spent_secs: f64,
}

/// A file that is locked until this is dropped. A program that is being started, by another thread,
/// has it open for a moment as well, so that closing it may not let the lock go.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Fails only for a bad descriptor, and this one is open.
        let _ = self.0.unlock();
    }
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// Another search runs there.
    #[error("another search is at work in {}: wait for it, or give another --out", .0.display())]
    Busy(PathBuf),
    /// The directory holds another search.
    #[error(
        "{} holds another search: its {what} is `{theirs}`, not `{ours}`; \
         give the same arguments to go on with it, or another --out",
        path.display()
    )]
    Other {
        /// The journal.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// As the journal has it.
        theirs: String,
        /// As it was given now.
        ours: String,
    },
    /// A line in the middle is damaged, or of another version.
    #[error("{}, line {line}: {why}; move the file away to begin anew", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It cannot be read or written.
    #[error("cannot {what} {}: {source}; what was written so far is kept", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl JournalError {
    /// Whether the user gave something wrong, rather than something being broken.
    pub(crate) const fn is_input(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

impl Journal {
    /// Opens the journal in `dir`, or begins it. One that is there must be of the same search.
    pub(crate) fn open(dir: &Path, head: &Head) -> Result<Self, JournalError> {
        let path = dir.join("search.jsonl");
        let io = |what| {
            let path = path.clone();
            move |source| JournalError::Io { what, path, source }
        };
        std::fs::create_dir_all(dir).map_err(io("make the directory of"))?;
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let file = file.map_err(io("open"))?;
        if file.try_lock().is_err() {
            return Err(JournalError::Busy(dir.to_owned()));
        }
        let mut file = Locked(file);
        let mut lines = Vec::new();
        let mut whole_bytes = 0;
        let mut reader = BufReader::new(&file.0);
        loop {
            let mut line = String::new();
            let read = reader.read_line(&mut line).map_err(io("read"))?;
            if read == 0 || !line.ends_with('\n') {
                break;
            }
            whole_bytes += read as u64;
            lines.push(line);
        }
        let length = file.0.metadata().map_err(io("read"))?.len();
        file.0.set_len(whole_bytes).map_err(io("mend"))?;
        file.0.seek(SeekFrom::End(0)).map_err(io("read"))?;
        let mut journal = Self {
            path,
            file,
            entries: Vec::new(),
            torn_bytes: length - whole_bytes,
            made: 0,
            confirmed: 0,
            spent_secs: 0.0,
        };
        match lines.split_first() {
            None => journal.write_line(head)?,
            Some((first, rest)) => {
                let theirs: Head = journal.read_line(1, first)?;
                journal.compare(&theirs, head)?;
                for (number, line) in (2..).zip(rest) {
                    let entry = journal.read_line(number, line)?;
                    journal.take(entry);
                }
            }
        }
        Ok(journal)
    }

    /// Adds an entry; it is in the file when this returns.
    pub(crate) fn add(&mut self, entry: Entry) -> Result<(), JournalError> {
        self.write_line(&entry)?;
        self.take(entry);
        Ok(())
    }

    fn take(&mut self, entry: Entry) {
        match entry.stage {
            Stage::Confirm => self.confirmed += 1,
            _ => self.made += entry.again.as_ref().map_or(1, |again| again.scores.len() as u64),
        }
        self.spent_secs += entry.secs;
        self.entries.push(entry);
    }

    /// The entries of one stage.
    pub(crate) fn of(&self, stage: Stage) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.stage == stage)
    }

    /// Runs that were made where each trial of the search has `of_trial` of them: a trial made
    /// again counts for each time, a confirming run for itself.
    pub(crate) fn runs(&self, of_trial: u32) -> u64 {
        self.made * u64::from(of_trial) + self.confirmed
    }

    /// Seconds that trials took, all stages together.
    pub(crate) fn spent_secs(&self) -> f64 {
        self.spent_secs
    }

    fn write_line(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let failed = |source| JournalError::Io { what: "write", path: self.path.clone(), source };
        let mut line = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        // One write, so that a kill leaves either the whole line or a torn tail.
        let before = self.file.0.metadata().map_err(failed)?.len();
        if let Err(error) = self.file.0.write_all(&line) {
            // A full disk may have taken half of it; what is there must stay readable.
            let _ = self.file.0.set_len(before);
            return Err(failed(error));
        }
        Ok(())
    }

    fn read_line<T: for<'a> Deserialize<'a>>(
        &self,
        line: usize,
        text: &str,
    ) -> Result<T, JournalError> {
        let path = self.path.clone();
        serde_json::from_str(text).map_err(|error| JournalError::Damaged {
            path,
            line,
            why: error.to_string(),
        })
    }

    fn compare(&self, theirs: &Head, ours: &Head) -> Result<(), JournalError> {
        let text = |span: Span| span.to_string();
        for (what, theirs, ours) in [
            ("format version", theirs.afflux_search.to_string(), ours.afflux_search.to_string()),
            ("workload", theirs.workload.clone(), ours.workload.clone()),
            ("workload file", theirs.workload_text.clone(), ours.workload_text.clone()),
            ("number of clients", theirs.clients.to_string(), ours.clients.to_string()),
            ("target", theirs.target.clone(), ours.target.clone()),
            ("scenario file", theirs.scenario_text.clone(), ours.scenario_text.clone()),
            ("method", identity(&theirs.method), identity(&ours.method)),
            ("objective", theirs.objective.clone(), ours.objective.clone()),
            ("seed", theirs.seed.to_string(), ours.seed.to_string()),
            ("settling time", text(theirs.settle), text(ours.settle)),
            ("length", text(theirs.length), text(ours.length)),
            ("confirming length", text(theirs.confirm_length), text(ours.confirm_length)),
            ("number of pairs", theirs.pairs.to_string(), ours.pairs.to_string()),
            ("number of runs of a trial", theirs.runs.to_string(), ours.runs.to_string()),
            ("--unpaired", theirs.unpaired.to_string(), ours.unpaired.to_string()),
            ("--start", format!("{:?}", theirs.start), format!("{:?}", ours.start)),
        ] {
            if theirs != ours {
                return Err(JournalError::Other { path: self.path.clone(), what, theirs, ours });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn head() -> Head {
        Head {
            afflux_search: VERSION,
            program: "0".to_owned(),
            workload: "w".to_owned(),
            workload_text: String::new(),
            clients: 2,
            target: "null".to_owned(),
            scenario_text: String::new(),
            method: "sharp".to_owned(),
            objective: "tp".to_owned(),
            seed: 1,
            settle: Span::from_secs(1),
            length: Span::from_secs(6),
            confirm_length: Span::from_secs(6),
            pairs: 4,
            runs: 1,
            unpaired: false,
            start: Start::Method,
        }
    }

    fn entry(trial: u64) -> Entry {
        Entry {
            stage: Stage::Search,
            trial,
            label: format!("candidate {trial}"),
            seed: 7,
            pair: (trial > 2).then_some(Pair { number: trial / 2, is_baseline: false }),
            round: Some((0, 3)),
            fidelity: if trial == 4 { 0.1 } else { 1.0 },
            secs: 1.5,
            told: Told::Fault("no \"luck\"".to_owned()),
            again: Some(Again { why: "it was odd".to_owned(), scores: vec![Some(0.1), None] }),
            summary: Some(Summary { total_mb_s: 0.1, ..Summary::default() }),
            written: Some(serde_json::json!({"id": trial, "gap_of_ack": 0.1})),
        }
    }

    #[test]
    fn a_journal_that_is_done_with_is_free_whoever_has_its_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), &head()).unwrap();
        let as_a_program_that_is_being_started = journal.file.0.try_clone().unwrap();
        assert!(matches!(Journal::open(dir.path(), &head()), Err(JournalError::Busy(_))));
        drop(journal);
        Journal::open(dir.path(), &head()).unwrap();
        drop(as_a_program_that_is_being_started);
    }

    #[test]
    fn a_kill_at_any_byte_loses_the_last_line_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("search.jsonl");
        let mut journal = Journal::open(dir.path(), &head()).unwrap();
        (0..5).for_each(|trial| journal.add(entry(trial)).unwrap());
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let lines = whole[..length].iter().filter(|&&byte| byte == b'\n').count();
            let mut journal = Journal::open(dir.path(), &head()).unwrap();
            assert_eq!(journal.entries.len(), lines.saturating_sub(1), "{length}");
            assert!(journal.entries.iter().zip(0..).all(|(read, trial)| *read == entry(trial)));
            journal.add(entry(9)).unwrap();
            drop(journal);
            let again = Journal::open(dir.path(), &head()).unwrap();
            assert_eq!(again.entries.last(), Some(&entry(9)));
        }
    }

    #[test]
    fn two_searches_and_another_search_and_damage_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path(), &head()).unwrap();
        journal.add(entry(0)).unwrap();
        let busy = Journal::open(dir.path(), &head()).unwrap_err();
        assert!(busy.to_string().contains("another search is at work"), "{busy}");
        drop(journal);
        let other = Head { objective: "tp - var".to_owned(), ..head() };
        let error = Journal::open(dir.path(), &other).unwrap_err().to_string();
        assert!(error.contains("objective is `tp`, not `tp - var`"), "{error}");
        let path = dir.path().join("search.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("candidate", "candi\"date")).unwrap();
        let error = Journal::open(dir.path(), &head()).unwrap_err();
        assert!(error.is_input() && error.to_string().contains("line 2"), "{error}");
    }
}
