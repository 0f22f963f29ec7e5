//! Gathers the counters of a run's programs: those of programs that have ended are added up and
//! removed, so that a run of many thousands of programs keeps few files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use afflux_node::calls::{CALLS, Cause, Treatment};
use afflux_node::lost::{self, Lost};
use afflux_node::tally::{PathTold, TallyError, Told, Word};

use crate::run::record::{Bytes, CallRecord, EscapeRecord, PathRecord, Seen};

/// What was gathered so far.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Programs; one process may have been several, one after the other.
    pub(crate) programs: u64,
    /// Processes.
    pub(crate) processes: u64,
    /// Those whose controllers were their own, also of those whose counters found no room.
    pub(crate) private: u64,
    /// Programs whose counters found no room: what they did is missing in all that follows.
    pub(crate) lost: u64,
    /// Errors inside the library.
    pub(crate) faults: u64,
    /// What passed through it.
    pub(crate) seen: Seen,
    /// What the loader read before the library was there, and what the library itself did.
    pub(crate) loader: Bytes,
    pub(crate) own: Bytes,
    pub(crate) calls: BTreeMap<String, CallRecord>,
    pub(crate) escapes: BTreeMap<String, EscapeRecord>,
    /// Programs that could not be seen.
    pub(crate) strangers: BTreeMap<String, u64>,
    pub(crate) paths: BTreeMap<(String, String), PathRecord>,
    /// The programs of each process.
    images: BTreeMap<u64, Vec<Image>>,
    /// Files that could not be read, and why.
    pub(crate) unread: Vec<String>,
}

/// One program of a process: the kernel's counts when the library was ready in it, and when it
/// became another program.
#[derive(Clone, Copy, Debug)]
struct Image {
    started: u64,
    forked: bool,
    at_start: Bytes,
    at_exec: Option<Bytes>,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("{0}")]
    Tally(#[from] TallyError),
}

impl Gathered {
    /// Adds the counters of programs that have ended; of all when the run has.
    pub(crate) fn gather(&mut self, folder: &Path, all: bool) {
        for path in tallies(folder) {
            if !all && is_mapped(&path) {
                continue;
            }
            match read(&path) {
                Ok(told) => {
                    self.add(&told);
                    // What cannot be removed now is removed with the folder, and is not read again.
                    let _ = fs::remove_file(&path);
                }
                // It may be in the making; at the end that is no longer so.
                Err(_) if !all => {}
                Err(error) => self.unread.push(format!("{}: {error}", path.display())),
            }
        }
        if all {
            self.settle_loader();
            let told = fs::read(folder.join(lost::FILE)).unwrap_or_default();
            self.lost += Lost::Programs.told(&told).unwrap_or(0);
            self.private += Lost::Private.told(&told).unwrap_or(0);
        }
    }

    /// The paths so far: what was gathered, and what the programs have counted that still run.
    pub(crate) fn paths_so_far(&self, folder: &Path) -> BTreeMap<(String, String), PathRecord> {
        let mut so_far = Self { paths: self.paths.clone(), ..Self::default() };
        // What cannot be read is in the making, and has counted nothing.
        for told in tallies(folder).iter().filter_map(|path| read(path).ok()) {
            told.paths.iter().for_each(|path| so_far.add_path(path));
        }
        so_far.paths
    }

    fn add(&mut self, told: &Told) {
        self.programs += 1;
        self.private += told.word(Word::Private);
        self.faults += told.word(Word::Faults);
        self.own.read += told.word(Word::OwnRead);
        for (class, (calls, bytes)) in CALLS.iter().zip(&told.calls) {
            if *calls == 0 && bytes.iter().all(|bytes| *bytes == 0) {
                continue;
            }
            let sum = self.calls.entry(class.name.to_owned()).or_default();
            sum.calls += calls;
            (0..3).for_each(|kind| sum.bytes[kind] += bytes[kind]);
            let escaped = matches!(class.treatment, Treatment::Escaped(_));
            self.seen.add(class.moves, *bytes, escaped, class.kernel_counts);
        }
        for (cause, (count, bytes)) in Cause::ALL.iter().zip(&told.causes) {
            if *count > 0 {
                let escape = self.escapes.entry(cause.name().to_owned()).or_default();
                escape.count += count;
                escape.bytes += bytes;
            }
        }
        for stranger in &told.strangers {
            *self.strangers.entry(stranger.clone()).or_default() += 1;
        }
        for path in &told.paths {
            self.add_path(path);
        }
        let counts = |read, written| Bytes { read: told.word(read), written: told.word(written) };
        let image = Image {
            started: told.word(Word::Started),
            forked: told.word(Word::Forked) > 0,
            at_start: counts(Word::KernelReadAtStart, Word::KernelWrittenAtStart),
            at_exec: (told.word(Word::Execs) > 0)
                .then(|| counts(Word::KernelReadAtExec, Word::KernelWrittenAtExec)),
        };
        self.images.entry(told.word(Word::Pid)).or_default().push(image);
    }

    fn add_path(&mut self, told: &PathTold) {
        let record = PathRecord::from_told(told);
        let key = (record.server.clone(), record.class.clone());
        match self.paths.get_mut(&key) {
            Some(known) => known.add(&record, 0),
            None => drop(self.paths.insert(key, record)),
        }
    }

    /// What the kernel counted between the end of one program and the readiness of the library in
    /// the next is the work of the loader.
    fn settle_loader(&mut self) {
        self.processes = self.images.len() as u64;
        for images in self.images.values_mut() {
            images.sort_by_key(|image| image.started);
            let mut before = Bytes::default();
            for image in images {
                if !image.forked {
                    self.loader = self.loader.plus(image.at_start.minus(before));
                }
                before = image.at_exec.unwrap_or(image.at_start);
            }
        }
    }
}

fn tallies(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tally");
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

/// Whether a process still counts in this file. Its name begins with the process.
fn is_mapped(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let pid = name.split('-').next().unwrap_or_default();
    match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps.contains(&name),
        // Gone, or another user's.
        Err(_) => Path::new(&format!("/proc/{pid}")).exists(),
    }
}

fn read(path: &Path) -> Result<Told, Unread> {
    let file = File::open(path)?;
    Told::read(|at, bytes| match file.read_exact_at(bytes, at) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(TallyError::Short(file.metadata()?.len() as usize).into())
        }
        Err(error) => Err(error.into()),
    })
}
