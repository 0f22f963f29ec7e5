//! What one program of a run did, as counters in a file that it maps.
//!
//! A program may end in any way, without a last word: by `_exit`, by a signal, by becoming another
//! program. So there is no report that it would have to write: it counts in memory that is a file,
//! and whoever started the run reads that file when the program is gone. What the C library writes
//! after all destructors have run is in the file, too.
//!
//! The file is an array of 64-bit words in the machine's order, since it never leaves the machine.
//! It begins with [`MAGIC`]; another version has another magic. It is sparse: a program that
//! touches two paths occupies some tens of kilobytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use afflux_core::class::Class;
use afflux_core::limits::HoldReason;
use afflux_core::path::HoldTotals;
use afflux_core::units::Span;

use crate::calls::{CALLS, Call, Cause, Kind};

/// The first word: the format and its version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"AFXTALY4");

/// Copies of the counters of calls and of ends of requests. The first threads have one each, which
/// nobody else adds to; the last is for all others.
pub const SHARDS: usize = 8;
/// Paths that one program can use.
pub const PATHS: usize = 512;
/// Seconds that are counted apart; what comes later is added to the last.
pub const SECONDS: usize = 3840;
/// Rules whose hits are counted apart; those of later rules are added to the last.
pub const RULES: usize = 64;
/// Buckets of process times: four for each doubling, from 1 µs.
pub const BUCKETS: usize = 96;

const CALL_WORDS: usize = 4;
const CALLS_MAX: usize = 64;
const SHARD_WORDS: usize = CALL_WORDS * CALLS_MAX;
const TEXT_WORDS: usize = 32;
const STRANGERS: usize = 4;

/// Places of single words. Times are nanoseconds of the machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Word {
    /// Format and version.
    Magic = 0,
    /// The process.
    Pid = 1,
    /// The process that started it.
    Parent = 2,
    /// When the library was ready.
    Started = 3,
    /// What the kernel had counted as read by then: the loader's reads, and the work of earlier
    /// programs of this process.
    KernelReadAtStart = 4,
    /// The same for what was written.
    KernelWrittenAtStart = 5,
    /// What the library itself has read, as the kernel counts it.
    OwnRead = 6,
    /// What the kernel had counted as read when the process became another program; else 0.
    KernelReadAtExec = 8,
    /// The same for what was written.
    KernelWrittenAtExec = 9,
    /// How often the process was about to become another program.
    Execs = 10,
    /// Errors inside the library, each of which would be a defect; it then stands aside.
    Faults = 11,
    /// Whether the controllers were private, since the shared ones could not be used.
    Private = 12,
    /// Whether this is a process that was forked off by a program with the library.
    Forked = 13,
    /// Programs that were started and cannot load the library.
    Strangers = 14,
    /// Blocks of paths that were looked at, from the first.
    Paths = 15,
}

const PROGRAM_AT: usize = 32;
const CAUSES_AT: usize = PROGRAM_AT + TEXT_WORDS;
const STRANGERS_AT: usize = 128;
const CALLS_AT: usize = STRANGERS_AT + STRANGERS * TEXT_WORDS;
const PATHS_AT: usize = 4096;
const PATH_WORDS: usize = 5632;

/// Words of the whole file.
pub const WORDS: usize = PATHS_AT + PATHS * PATH_WORDS;
/// Bytes of the whole file, most of them never touched.
pub const BYTES: usize = WORDS * 8;
/// Bytes before the paths, all of them touched.
pub const HEAD_BYTES: usize = PATHS_AT * 8;

const _: () = assert!(CALLS.len() <= CALLS_MAX, "a call has no counters");
const _: () = assert!(CAUSES_AT + 2 * Cause::ALL.len() <= STRANGERS_AT, "a cause has no counters");
const _: () = assert!(CALLS_AT + SHARDS * SHARD_WORDS <= PATHS_AT, "calls reach into paths");
const _: () = assert!(SECONDS_AT + SECONDS <= PATH_WORDS, "seconds reach into the next path");

// Places within a path's block.
const KEY: usize = 0;
const NAME_AT: usize = 1;
const NAME_WORDS: usize = 15;
const HOLDS_AT: usize = 24;
const HELD_AT: usize = 32;
const ENDS_AT: usize = 40;
const SECONDS_AT: usize = ENDS_AT + SHARDS * END_WORDS;

// Places within one shard's counters of the ends of a path's requests.
const BYTES_GATED: usize = 0;
const PT_SUM: usize = 1;
const PT_MAX: usize = 2;
const BUCKETS_AT: usize = 3;
const RULES_AT: usize = BUCKETS_AT + BUCKETS;
const END_WORDS: usize = (RULES_AT + RULES).next_multiple_of(8);

/// A path whose block is being claimed.
const CLAIMED: u64 = u64::MAX;

/// The counters of this process.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'a> {
    words: &'a [AtomicU64; WORDS],
}

/// The block of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathBlock(u16);

impl PathBlock {
    /// Its number, below [`PATHS`].
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The block of that number.
    pub const fn of(number: u16) -> Self {
        Self(number)
    }

    const fn start(self) -> usize {
        PATHS_AT + self.0 as usize * PATH_WORDS
    }
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its bytes.
    pub bytes: u64,
    /// From send to reply.
    pub process_time: Span,
    /// The rule that decided at its reply.
    pub rule: Option<u32>,
}

impl<'a> Tally<'a> {
    /// Counters in these words.
    pub const fn new(words: &'a [AtomicU64; WORDS]) -> Self {
        Self { words }
    }

    /// Sets a single word.
    pub fn set(&self, word: Word, value: u64) {
        self.words[word as usize].store(value, Relaxed);
    }

    /// Adds to a single word.
    pub fn add(&self, word: Word, value: u64) {
        self.words[word as usize].fetch_add(value, Relaxed);
    }

    /// The program's name, cut where it is too long.
    pub fn name_program(&self, name: &[u8]) {
        put_text(&self.words[PROGRAM_AT..PROGRAM_AT + TEXT_WORDS], name);
    }

    /// A program was started that cannot load the library; the first few are named.
    pub fn note_stranger(&self, name: &[u8]) {
        let number = self.words[Word::Strangers as usize].fetch_add(1, Relaxed) as usize;
        self.escape(Cause::NoLibrary, 0);
        if number < STRANGERS {
            let at = STRANGERS_AT + number * TEXT_WORDS;
            put_text(&self.words[at..at + TEXT_WORDS], name);
        }
    }

    /// Counts a call, with the bytes that it moved.
    #[inline]
    pub fn count(&self, shard: usize, call: Call, kind: Kind, bytes: u64) {
        let words = self.of_call(shard, call);
        add_on(shard, &words[0], 1);
        if bytes > 0 {
            add_on(shard, &words[1 + kind.index()], bytes);
        }
    }

    /// Counts bytes that a call moved besides those that were counted with it.
    pub fn count_bytes(&self, shard: usize, call: Call, kind: Kind, bytes: u64) {
        add_on(shard, &self.of_call(shard, call)[1 + kind.index()], bytes);
    }

    #[inline]
    fn of_call(&self, shard: usize, call: Call) -> &[AtomicU64] {
        let at = CALLS_AT + shard.min(SHARDS - 1) * SHARD_WORDS + call.index() * CALL_WORDS;
        &self.words[at..at + CALL_WORDS]
    }

    /// Counts what is not seen, or not held.
    pub fn escape(&self, cause: Cause, bytes: u64) {
        let at = CAUSES_AT + 2 * cause.index();
        self.words[at].fetch_add(1, Relaxed);
        self.words[at + 1].fetch_add(bytes, Relaxed);
    }

    /// The block of the path to a server that is called `name`; `None` when all are taken, or when
    /// `back` has no memory for it: what is not backed must not be touched.
    pub fn path(
        &self,
        class: Class,
        name: &[u8],
        back: impl Fn(&[AtomicU64]) -> bool,
    ) -> Option<PathBlock> {
        let mut text = [0; NAME_WORDS];
        pack_text(&mut text, name);
        let key = class.index() as u64 + 1;
        for number in 0..PATHS as u16 {
            let block = PathBlock(number);
            let words = &self.words[block.start()..block.start() + PATH_WORDS];
            if !self.has_block(number.into(), words, &back) {
                return None;
            }
            if words[KEY].load(Relaxed) == 0
                && words[KEY].compare_exchange(0, CLAIMED, Relaxed, Relaxed).is_ok()
            {
                for (word, value) in words[NAME_AT..].iter().zip(text) {
                    word.store(value, Relaxed);
                }
                words[KEY].store(key, std::sync::atomic::Ordering::Release);
                return Some(block);
            }
            let is_it = words[KEY].load(std::sync::atomic::Ordering::Acquire) == key
                && words[NAME_AT..]
                    .iter()
                    .zip(text)
                    .all(|(word, value)| word.load(Relaxed) == value);
            if is_it {
                return Some(block);
            }
        }
        None
    }

    /// Whether a block has memory, by now.
    fn has_block(
        &self,
        number: u64,
        words: &[AtomicU64],
        back: impl Fn(&[AtomicU64]) -> bool,
    ) -> bool {
        let looked_at = &self.words[Word::Paths as usize];
        if number < looked_at.load(Relaxed) {
            return true;
        }
        let backed = back(words);
        if backed {
            looked_at.fetch_max(number + 1, Relaxed);
        }
        backed
    }

    /// Takes over the paths of `other`, so that they have the same blocks here, with nothing
    /// counted. False when `back` has no memory for all of them.
    pub fn adopt(&self, other: &Tally<'_>, back: impl Fn(&[AtomicU64]) -> bool) -> bool {
        let looked_at = other.words[Word::Paths as usize].load(Relaxed).min(PATHS as u64);
        for number in 0..looked_at as u16 {
            let start = PathBlock(number).start();
            let key = other.words[start + KEY].load(Relaxed);
            if key == 0 {
                break;
            }
            if !self.has_block(number.into(), &self.words[start..start + PATH_WORDS], &back) {
                return false;
            }
            for at in start + NAME_AT..start + NAME_AT + NAME_WORDS {
                self.words[at].store(other.words[at].load(Relaxed), Relaxed);
            }
            self.words[start + KEY].store(key, Relaxed);
        }
        true
    }

    /// Bytes moved on a path in a second of the run.
    pub fn moved(&self, block: PathBlock, second: u64, bytes: u64) {
        let start = block.start();
        let second = (second as usize).min(SECONDS - 1);
        self.words[start + SECONDS_AT + second].fetch_add(bytes, Relaxed);
    }

    /// A request of a path has ended.
    #[inline]
    pub fn ended(&self, shard: usize, block: PathBlock, ended: &Ended) {
        let start = block.start() + ENDS_AT + shard.min(SHARDS - 1) * END_WORDS;
        let words = &self.words[start..start + END_WORDS];
        let nanos = ended.process_time.as_nanos();
        add_on(shard, &words[BYTES_GATED], ended.bytes);
        add_on(shard, &words[PT_SUM], nanos);
        if words[PT_MAX].load(Relaxed) < nanos {
            words[PT_MAX].fetch_max(nanos, Relaxed);
        }
        add_on(shard, &words[BUCKETS_AT + bucket(nanos)], 1);
        if let Some(rule) = ended.rule {
            add_on(shard, &words[RULES_AT + (rule as usize).min(RULES - 1)], 1);
        }
    }

    /// A request of a path was held.
    pub fn held(&self, block: PathBlock, reason: HoldReason, time: Span) {
        let start = block.start();
        self.words[start + HOLDS_AT + reason.index()].fetch_add(1, Relaxed);
        self.words[start + HELD_AT + reason.index()].fetch_add(time.as_nanos(), Relaxed);
    }
}

/// The bucket of a process time.
pub fn bucket(nanos: u64) -> usize {
    let micros = (nanos / 1_000).max(1);
    let power = micros.ilog2() as usize;
    let quarter =
        if power >= 2 { (micros >> (power - 2)) & 3 } else { (micros << (2 - power)) & 3 };
    (power * 4 + quarter as usize).min(BUCKETS - 1)
}

/// The upper end of a bucket.
pub fn bucket_end(bucket: usize) -> Span {
    let (power, quarter) = (bucket / 4, bucket as u64 % 4);
    Span::from_nanos(((5 + quarter) << power) * 250)
}

fn pack_text(words: &mut [u64], text: &[u8]) {
    for (word, bytes) in words.iter_mut().zip(text.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
}

fn put_text(words: &[AtomicU64], text: &[u8]) {
    for (word, bytes) in words.iter().zip(text.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_ne_bytes(eight), Relaxed);
    }
}

/// What a tally file said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Single words, by [`Word`].
    words: Vec<u64>,
    /// The program's name.
    pub program: String,
    /// Programs that could not load the library; the first few.
    pub strangers: Vec<String>,
    /// Calls and bytes, by [`Call::index`] and [`Kind::index`].
    pub calls: Vec<(u64, [u64; 3])>,
    /// Count and bytes of what was not seen or not held, by [`Cause::index`].
    pub causes: Vec<(u64, u64)>,
    /// The paths.
    pub paths: Vec<PathTold>,
}

/// What a tally file said of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTold {
    /// The server.
    pub server: String,
    /// Index of the class.
    pub class: usize,
    /// Requests that reached the server, and had a process time.
    pub requests: u64,
    /// Bytes of all calls on the path.
    pub bytes: u64,
    /// Bytes of those requests.
    pub gated_bytes: u64,
    /// Sum of process times.
    pub pt_sum_nanos: u64,
    /// The longest.
    pub pt_max_nanos: u64,
    /// Holds by reason.
    pub holds: HoldTotals,
    /// Requests by [`bucket`] of their process time.
    pub buckets: Vec<u64>,
    /// Hits of rules.
    pub rule_hits: Vec<u64>,
    /// Bytes by second of the run, without the zeros at the end.
    pub seconds: Vec<u64>,
}

/// A file that is no tally of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TallyError {
    /// It does not begin as it should.
    #[error("is no tally file of this version: it was left by another version of Afflux")]
    Magic,
    /// It ends too early.
    #[error("ends after {0} bytes: the program ended while it was made")]
    Short(usize),
}

impl Told {
    /// Reads the file's bytes. `source(at, bytes)` fills `bytes` from offset `at`, so that the
    /// parts of a sparse file that were never touched need not be read.
    ///
    /// # Errors
    /// It is no tally file of this version, or the source fails.
    pub fn read<E: From<TallyError>>(
        mut source: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut head = words_of(&mut source, 0, PATHS_AT)?;
        if head[0] != MAGIC {
            return Err(TallyError::Magic.into());
        }
        let mut told = Self { program: text(&head[PROGRAM_AT..][..TEXT_WORDS]), ..Self::default() };
        told.causes = head[CAUSES_AT..][..2 * Cause::ALL.len()]
            .chunks(2)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        let strangers = (head[Word::Strangers as usize] as usize).min(STRANGERS);
        let names = head[STRANGERS_AT..].chunks(TEXT_WORDS).take(strangers);
        told.strangers = names.map(text).collect();
        told.calls = vec![(0, [0; 3]); CALLS.len()];
        for shard in head[CALLS_AT..][..SHARDS * SHARD_WORDS].chunks(SHARD_WORDS) {
            for (sum, words) in told.calls.iter_mut().zip(shard.chunks(CALL_WORDS)) {
                sum.0 += words[0];
                (0..3).for_each(|kind| sum.1[kind] += words[1 + kind]);
            }
        }
        for number in 0..PATHS {
            let at = PATHS_AT + number * PATH_WORDS;
            let key = words_of(&mut source, at, 1)?[0];
            if key == 0 {
                break;
            }
            if key != CLAIMED {
                told.paths.push(PathTold::of(&words_of(&mut source, at, PATH_WORDS)?));
            }
        }
        head.truncate(PROGRAM_AT);
        told.words = head;
        Ok(told)
    }

    /// A single word.
    pub fn word(&self, word: Word) -> u64 {
        self.words.get(word as usize).copied().unwrap_or(0)
    }
}

impl PathTold {
    fn of(words: &[u64]) -> Self {
        let mut holds = HoldTotals::default();
        let reasons = HoldReason::ALL.len();
        holds.holds.copy_from_slice(&words[HOLDS_AT..HOLDS_AT + reasons]);
        holds.held_nanos.copy_from_slice(&words[HELD_AT..HELD_AT + reasons]);
        let mut ends = [0; END_WORDS];
        let mut pt_max_nanos = 0;
        for shard in words[ENDS_AT..SECONDS_AT].chunks(END_WORDS) {
            ends.iter_mut().zip(shard).for_each(|(sum, word)| *sum += word);
            pt_max_nanos = shard[PT_MAX].max(pt_max_nanos);
        }
        let trimmed = |words: &[u64]| {
            let end = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
            words[..end].to_vec()
        };
        Self {
            server: text(&words[NAME_AT..][..NAME_WORDS]),
            class: (words[KEY] as usize).saturating_sub(1).min(Class::ALL.len() - 1),
            requests: ends[BUCKETS_AT..][..BUCKETS].iter().sum(),
            bytes: words[SECONDS_AT..][..SECONDS].iter().sum(),
            gated_bytes: ends[BYTES_GATED],
            pt_sum_nanos: ends[PT_SUM],
            pt_max_nanos,
            holds,
            buckets: trimmed(&ends[BUCKETS_AT..][..BUCKETS]),
            rule_hits: trimmed(&ends[RULES_AT..][..RULES]),
            seconds: trimmed(&words[SECONDS_AT..][..SECONDS]),
        }
    }
}

/// Adds to a counter of a shard. Only the last is added to by several threads; in the others a
/// signal handler can come between, and then what it counted is lost where the machine cannot add
/// to memory in one instruction.
#[inline]
fn add_on(shard: usize, word: &AtomicU64, more: u64) {
    if shard < SHARDS - 1 {
        word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
    } else {
        word.fetch_add(more, Relaxed);
    }
}

fn words_of<E>(
    source: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    at: usize,
    count: usize,
) -> Result<Vec<u64>, E> {
    let mut bytes = vec![0; count * 8];
    source(at as u64 * 8, &mut bytes)?;
    Ok(bytes
        .chunks_exact(8)
        .map(|b| u64::from_ne_bytes(b.try_into().unwrap_or_default()))
        .collect())
}

fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program counted, read back from the bytes of its words.
    fn read_back(words: &[AtomicU64; WORDS]) -> Result<Told, TallyError> {
        Told::read(|at, bytes| {
            for (word, eight) in words[at as usize / 8..].iter().zip(bytes.chunks_mut(8)) {
                eight.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
            }
            Ok(())
        })
    }

    fn blank() -> Box<[AtomicU64; WORDS]> {
        let words: Box<[AtomicU64]> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        words.try_into().unwrap()
    }

    #[test]
    fn what_was_counted_is_told() {
        let words = blank();
        let tally = Tally::new(&words);
        assert_eq!(read_back(&words).unwrap_err(), TallyError::Magic);
        tally.set(Word::Magic, MAGIC);
        tally.name_program(b"/bin/cat");
        (0..9).for_each(|shard| tally.count(shard, Call::Pwrite, Kind::Regulated, 10));
        tally.count(0, Call::Pwrite, Kind::Other, 7);
        tally.escape(Cause::Mapped, 5);
        tally.note_stranger(b"/sbin/static");
        let path = tally.path(Class::Write, b"nfs4 server:/export", |_| true).unwrap();
        // What is there needs no more memory; what is new does, and goes without.
        assert_eq!(tally.path(Class::Write, b"nfs4 server:/export", |_| false), Some(path));
        assert_eq!(tally.path(Class::Read, b"nfs4 server:/export", |_| false), None);
        assert_ne!(tally.path(Class::Read, b"nfs4 server:/export", |_| true), Some(path));
        let (child, poor) = (blank(), blank());
        assert!(Tally::new(&child).adopt(&tally, |_| true));
        assert_eq!(
            Tally::new(&child).path(Class::Write, b"nfs4 server:/export", |_| false),
            Some(path)
        );
        assert!(!Tally::new(&poor).adopt(&tally, |_| false));
        let process_time = Span::from_millis(3);
        let ended = Ended { bytes: 10, process_time, rule: Some(2) };
        [0, SHARDS - 1, SHARDS].iter().for_each(|shard| tally.ended(*shard, path, &ended));
        tally.moved(path, 4, 10);
        tally.held(path, HoldReason::Gap, Span::from_millis(1));
        let told = read_back(&words).unwrap();
        assert_eq!((told.program.as_str(), told.strangers.len()), ("/bin/cat", 1));
        assert_eq!(told.calls[Call::Pwrite.index()], (10, [90, 0, 7]));
        assert_eq!(told.causes[Cause::Mapped.index()], (1, 5));
        let path = &told.paths[0];
        assert_eq!(
            (path.server.as_str(), path.requests, path.bytes),
            ("nfs4 server:/export", 3, 10)
        );
        assert_eq!(
            (&path.seconds[..], &path.rule_hits[..]),
            (&[0, 0, 0, 0, 10][..], &[0, 0, 3][..])
        );
        assert_eq!((path.gated_bytes, path.pt_max_nanos), (30, process_time.as_nanos()));
        assert_eq!(path.holds.held(HoldReason::Gap), Span::from_millis(1));
        assert!(bucket_end(path.buckets.len() - 1) >= process_time);
    }

    #[test]
    fn a_process_time_lies_below_the_end_of_its_bucket_and_not_far() {
        for nanos in (0..60).map(|power| (1_u64 << power) + (1 << power) / 3) {
            let end = bucket_end(bucket(nanos)).as_nanos();
            let inside = (1_000..1 << 33).contains(&nanos);
            assert!(
                !inside || (end >= nanos / 1_000 * 1_000 && end <= nanos * 3 / 2),
                "{nanos} {end}"
            );
        }
    }
}
