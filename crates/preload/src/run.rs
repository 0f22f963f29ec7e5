//! The run that this process belongs to: what it is set to, its counters, the shared controllers.
//!
//! Nothing here is there before the constructor has run, and everything stays after the destructors
//! have: the C library writes its last buffers after them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use afflux_core::rules::{self, RuleFile};
use afflux_core::setting::Setting;
use afflux_core::units::{Span, Time};
use afflux_node::calls::{Call, Cause, Kind};
use afflux_node::clock;
use afflux_node::lost::{self, Lost};
use afflux_node::shared::{self, Segment, Shared};
use afflux_node::tally::{self, Ended, PathBlock, Tally, Word};

use crate::environment::Environment;
use crate::{raw, thread};

/// What is done with the program's I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Counted and clocked, never held.
    Observe,
    /// Requests that reach a server are held as the controllers say.
    Gate,
    /// The same, and full parts of what was written are sent to the server while the program goes
    /// on.
    WriteBehind,
}

/// What does not change while the process lives.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) mode: Mode,
    /// Files below these directories are regulated; when there are none, files of all file systems
    /// that are no memory.
    pub(crate) roots: Vec<Vec<u8>>,
    /// Where the counters are kept, ending with a slash.
    folder: Vec<u8>,
    /// When the run started, for the seconds of reports.
    start: Time,
    /// The controllers, and whose they are; none in an observer.
    pub(crate) shared: Option<Shared>,
    segment: Option<Segment>,
    /// In whose name requests are made.
    pub(crate) tenant: u32,
    /// Longest time that a request is held, whatever the controllers say.
    pub(crate) patience: Span,
}

impl Run {
    /// Whether the controllers are the process's own.
    fn is_private(&self) -> bool {
        self.segment == Some(Segment::Private)
    }
}

static RUN: OnceLock<Run> = OnceLock::new();

/// Whether calls are looked at. False before the constructor, and after an error of our own.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// The mapped counters.
static COUNTERS: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Joins the run that the environment names, if it does.
pub(crate) fn join(environment: &Environment) {
    let Some(folder) = environment.folder.clone() else { return };
    let (joined, segment) = match environment.mode {
        Mode::Observe => (None, None),
        _ => attach(environment),
    };
    let run = Run {
        mode: environment.mode,
        roots: environment.roots.clone(),
        folder,
        start: environment.start,
        tenant: joined.as_ref().map_or(0, |(_, tenant)| *tenant),
        shared: joined.map(|(shared, _)| shared),
        segment,
        patience: environment.patience,
    };
    if RUN.set(run).is_err() || !new_counters() {
        return;
    }
    ACTIVE.store(true, Relaxed);
}

/// The controllers that the run uses, the number of the job there, and whose they are: private
/// where `afflux run` could not have others, and has said so, or where this process cannot, which
/// it says.
fn attach(environment: &Environment) -> (Option<(Shared, u32)>, Option<Segment>) {
    // Nobody else puts a setting in force there.
    let private = || {
        let shared = Shared::private().ok()?;
        let tenant = shared.tenant("own").ok()?;
        let setting = Setting::parse(&environment.setting, &load_rules).ok()?;
        shared.set(tenant, &setting, &setting.label, true).ok()?;
        Some((shared, tenant))
    };
    if environment.job.is_empty() {
        return (private(), Some(Segment::Private));
    }
    let shared = Shared::of(environment.segment);
    let error = match shared.map(|shared| (shared, shared.tenant(&environment.job))) {
        Ok((shared, Ok(tenant))) => return (Some((shared, tenant)), Some(environment.segment)),
        Ok((_, Err(full))) => full.to_string(),
        Err(error) => error.to_string(),
    };
    let folder = environment.folder.as_deref().unwrap_or_default();
    tell_once(folder, "private", &format!("{error}; each process is regulated by itself"));
    (private(), Some(Segment::Private))
}

/// Tells people something that concerns all programs of a run, unless one of them has told it: then
/// a file of the name of the `matter` lies in the folder of the run.
fn tell_once(folder: &[u8], matter: &str, text: &str) {
    let path = [folder, matter.as_bytes(), b"\0"].concat();
    let made = libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let first = raw::open(&path, made, 0o600);
    let told = first.is_none().then(|| raw::open(&path, libc::O_CLOEXEC, 0)).flatten();
    if told.is_none() {
        raw::tell(&format!("afflux: {text}\n"));
    }
    first.into_iter().chain(told).for_each(raw::close);
}

/// Rules by file or by `shipped:NAME`. Only asked for while the constructor runs, when the names
/// that this library defines still pass everything through.
fn load_rules(name: &str) -> Result<RuleFile, String> {
    let text = match name.strip_prefix("shipped:") {
        Some(name) => rules::shipped(name).map(str::to_owned).ok_or("not shipped".to_owned())?,
        None => std::fs::read_to_string(name).map_err(|error| error.to_string())?,
    };
    RuleFile::checked(&text).map_err(|error| error.to_string())
}

/// The run, while calls are looked at.
#[inline]
pub(crate) fn active() -> Option<&'static Run> {
    if ACTIVE.load(Relaxed) { RUN.get() } else { None }
}

/// Does `work` for the run, unless this thread is inside already. Whatever goes wrong in it, the
/// program goes on with `otherwise`; the library stands aside from then on.
#[inline]
pub(crate) fn hook<R>(otherwise: R, work: impl FnOnce(&'static Run) -> R) -> R {
    let Some(run) = active() else { return otherwise };
    match thread::once(|| catch_unwind(AssertUnwindSafe(|| work(run)))) {
        Some(Ok(result)) => result,
        Some(Err(_)) => {
            stand_aside();
            otherwise
        }
        None => {
            tally().escape(Cause::InSignal, 0);
            otherwise
        }
    }
}

#[cold]
fn stand_aside() {
    ACTIVE.store(false, Relaxed);
    tally().add(Word::Faults, 1);
    raw::tell("afflux: an error inside the library, which is a defect; it stands aside\n");
}

/// The counters of this process. Only to be asked for while active.
#[inline]
pub(crate) fn tally() -> Tally<'static> {
    let words = COUNTERS.load(Relaxed);
    // SAFETY: a mapping of that many words, made before active was set, and never unmapped but in a
    // forked child, which has one thread and stores the new one first.
    Tally::new(unsafe { &*words.cast::<[AtomicU64; tally::WORDS]>() })
}

/// Counts a call. `result` is what it returned: bytes, or an error.
#[inline]
pub(crate) fn count(call: Call, kind: Kind, result: isize) {
    tally().count(thread::shard(), call, kind, result.max(0) as u64);
}

/// Counts a request of a path that has ended.
#[inline]
pub(crate) fn ended(block: PathBlock, ended: &Ended) {
    tally().ended(thread::shard(), block, ended);
}

/// Counts bytes that a call moved besides those that were counted with it.
pub(crate) fn count_bytes(call: Call, kind: Kind, bytes: u64) {
    tally().count_bytes(thread::shard(), call, kind, bytes);
}

/// Counts a call that moves nothing, if calls are looked at.
#[inline]
pub(crate) fn count_call(call: Call) {
    if active().is_some() {
        count(call, Kind::Other, 0);
    }
}

/// The second of the run that it is now.
#[inline]
pub(crate) fn second(run: &Run) -> u64 {
    second_of(run, clock::coarse())
}

/// The second of the run that a time lies in.
#[inline]
pub(crate) fn second_of(run: &Run, now: Time) -> u64 {
    now.since(run.start).as_nanos() / 1_000_000_000
}

/// Makes a file for the counters, or memory where no file can be made: then they are lost, but the
/// program is regulated all the same.
fn new_counters() -> bool {
    let Some(run) = RUN.get() else { return false };
    let (pid, parent) = raw::process();
    let now = clock::now();
    let mut path = run.folder.clone();
    path.extend_from_slice(format!("{pid}-{}.tally\0", now.as_nanos()).as_bytes());
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let fd = raw::open(&path, flags, 0o600);
    let has_room = |fd| raw::set_length(fd, tally::BYTES) && raw::reserve(fd, tally::HEAD_BYTES);
    let roomy = fd.filter(|fd| has_room(*fd));
    let words = raw::map_words(roomy, tally::WORDS);
    if let Some(fd) = fd {
        raw::close(fd);
        if roomy.is_none() {
            raw::remove(&path);
        }
    }
    if roomy.is_none() {
        let folder = String::from_utf8_lossy(&run.folder);
        let text = format!("no room for counters in {folder}; the report is not complete");
        tell_once(&run.folder, "counters", &text);
        note_lost(run);
    }
    let Some(words) = words else { return false };
    COUNTERS.store(words.as_ptr().cast_mut(), Relaxed);
    let tally = tally();
    tally.set(Word::Pid, pid);
    tally.set(Word::Parent, parent);
    tally.set(Word::Started, now.as_nanos());
    tally.set(Word::Private, run.is_private().into());
    let mut buffer = [0; 256];
    if let Some(program) = raw::read_link(b"/proc/self/exe\0", &mut buffer) {
        tally.name_program(program);
    }
    if let Some(counts) = kernel_counts(&tally, PROCESS) {
        tally.set(Word::KernelReadAtStart, counts.read);
        tally.set(Word::KernelWrittenAtStart, counts.written);
    }
    // What was read until now is in that count, or in that of the parent.
    shared::take_bytes_read();
    tally.set(Word::Magic, tally::MAGIC);
    true
}

/// Has the run know that it will not find the counters of this program.
fn note_lost(run: &Run) {
    let path = [&run.folder, lost::FILE.as_bytes(), b"\0"].concat();
    let Some(fd) = raw::open(&path, libc::O_RDWR | libc::O_CLOEXEC, 0) else { return };
    // The run has made the file with its memory, while there was some.
    if let Some(words) = raw::map_words(Some(fd), Lost::WORDS) {
        words[Lost::Programs as usize].fetch_add(1, Relaxed);
        words[Lost::Private as usize].fetch_add(run.is_private().into(), Relaxed);
    }
    raw::close(fd);
}

/// Before the program ends or becomes another: counts what the controllers have read, which asked
/// the kernel who lives.
pub(crate) fn count_own() {
    if active().is_some() {
        tally().add(Word::OwnRead, shared::take_bytes_read());
    }
}

/// Makes a call within which the C library reads files for itself, past the names that this library
/// defines, and counts what it read. Not for calls that programs make often.
pub(crate) fn within_library<R>(real: impl FnOnce() -> R) -> R {
    let look = || hook(None, |_| kernel_counts(&tally(), THREAD));
    let before = look();
    let result = real();
    if let Some((before, after)) = before.zip(look()) {
        let bytes = after.read.saturating_sub(before.read + before.looked_at);
        if bytes > 0 {
            count(Call::LibraryRead, Kind::File, bytes as isize);
            tally().escape(Cause::CLibrary, bytes);
        }
    }
    result
}

/// What the kernel has counted: bytes read and written, and bytes of the text that says so, which
/// it counts as read after that.
pub(crate) struct Counts {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) looked_at: u64,
}

/// Where the kernel tells the counts of this process.
pub(crate) const PROCESS: &[u8] = b"/proc/self/io\0";
/// The same of this thread alone.
const THREAD: &[u8] = b"/proc/thread-self/io\0";

/// What the kernel has counted so far.
pub(crate) fn kernel_counts(tally: &Tally<'_>, of: &[u8]) -> Option<Counts> {
    let fd = raw::open(of, libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
    let mut buffer = [0; 256];
    let length = raw::read_at(fd, &mut buffer, 0);
    raw::close(fd);
    let text = &buffer[..length?];
    tally.add(Word::OwnRead, text.len() as u64);
    let field = |name: &[u8]| {
        let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        let digits = line.iter().filter(|byte| byte.is_ascii_digit());
        Some(digits.fold(0_u64, |sum, digit| sum.wrapping_mul(10) + u64::from(digit - b'0')))
    };
    let looked_at = text.len() as u64;
    Some(Counts { read: field(b"rchar:")?, written: field(b"wchar:")?, looked_at })
}

/// In a forked child: counters of its own, in which the paths have the same numbers.
pub(crate) fn forked() {
    let old = COUNTERS.load(Relaxed);
    hook((), |_| {
        let before = tally();
        if new_counters() {
            // Without room for all paths, what is counted on the others goes to nobody's block.
            if !tally().adopt(&before, raw::back) {
                crate::places::forget_blocks();
            }
            tally().set(Word::Forked, 1);
            // SAFETY: the mapping of the parent, which this process has no other reference to: it
            // has one thread, and that one is here.
            unsafe {
                raw::call(libc::SYS_munmap, [old as usize, tally::BYTES, 0, 0, 0, 0]);
            }
        }
    });
}
