//! What lies where in a segment: nothing but atomic integers, so that whatever another process
//! left there is a value, if not a sensible one.
//!
//! A lane is a place to work from; a thread has one for as long as one step takes. The state of a
//! path is never changed where it lies: a lane writes the next state into a block of its own, and
//! one compare-and-swap of the path's `head` publishes it. A process that dies at any instruction
//! therefore leaves the last published state whole.
//!
//! The file is sparse: what no lane has touched takes no memory.

use std::sync::atomic::{AtomicU32, AtomicU64};

use afflux_core::path::PathState;

/// Grows with every change of what lies where, and of what it means to `core`.
pub(super) const LAYOUT: u32 = 3;

/// The first word of a segment.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"afflux\r\n");

/// Lanes of all processes together.
pub(super) const LANES: usize = 1 << LANE_BITS;
pub(super) const LANE_BITS: u32 = 9;
/// Paths of all jobs together.
pub(super) const PATHS: usize = 1024;
/// Names of servers.
pub(super) const NAMES: usize = 1024;
/// Jobs with settings of their own.
pub(super) const JOBS: usize = 256;
/// Requests that wait in turn on one path; more of them look in now and then.
pub(super) const SEATS: usize = 64 * SEAT_WORDS;
pub(super) const SEAT_WORDS: usize = 4;
/// Rows of hit counters of one path: rules, [`ROW_OTHER`] and [`ROW_ALL`].
pub(super) const ROWS: usize = 124;
/// Replies for which no rule decided, or one beyond the rows.
pub(super) const ROW_OTHER: usize = ROWS - 2;
/// All replies since the path was made.
pub(super) const ROW_ALL: usize = ROWS - 1;
/// What a row counts: replies, the sums of their indicators, bytes, and process time.
pub(super) const SUMS: usize = 6;
/// Counts that a lane keeps to itself before it adds them to the rows.
pub(super) const TALLIES: usize = 16;
/// Words of one setting.
pub(super) const SETTING_WORDS: usize = 8192;
/// Bytes of a name that are kept.
pub(super) const NAME_BYTES: usize = 112;

/// A whole segment.
#[repr(C, align(4096))]
pub(super) struct Image {
    pub(super) header: Header,
    /// Who owns each lane; zero when nobody does.
    pub(super) owners: [AtomicU64; LANES],
    /// Which groups of [`GROUP`] cells of each lane have memory.
    pub(super) groups: [AtomicU64; LANES],
    pub(super) paths: [Path; PATHS],
    pub(super) jobs: [Job; JOBS],
    pub(super) names: [Name; NAMES],
    /// What is above has memory from the start; what follows gets it when it is first used.
    pub(super) sparse: Aligned,
    pub(super) settings: [[Setting; 2]; JOBS],
    pub(super) seats: [[Seat; SEATS]; PATHS],
    pub(super) counts: [Counts; PATHS],
    pub(super) tallies: [[Tally; TALLIES]; LANES],
    /// What is known of each lane on each path: the stamp of its last block that was replaced.
    pub(super) recorded: [Recorded; LANES],
    pub(super) cells: [[Cell; PATHS]; LANES],
}

/// Cells that share a page.
pub(super) const GROUP: usize = 4096 / size_of::<Cell>();

const _: () = assert!(PATHS / GROUP == 64, "one bit of a word for each group");
const _: () = assert!(align_of::<Image>() == 4096 && size_of::<Image>().is_multiple_of(4096));

/// What is read before anything else.
#[repr(C, align(64))]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) layout: AtomicU32,
    pub(super) spare: AtomicU32,
    pub(super) size: AtomicU64,
    /// When the dead were looked for last.
    pub(super) swept: AtomicU64,
    /// Who looks for them.
    pub(super) sweeper: AtomicU64,
    /// Who changes which jobs there are.
    pub(super) jobs_writer: AtomicU64,
    /// How many jobs were numbered.
    pub(super) tenants: AtomicU32,
}

/// Starts the next field on a page of its own.
#[repr(C, align(4096))]
pub(super) struct Aligned;

/// One path: what all of its users touch at every step is in one cache line.
#[repr(C, align(128))]
pub(super) struct Path {
    /// Zero, or [`super::paths`] of its key.
    pub(super) key: AtomicU64,
    /// Which block is its state, see [`super::step`].
    pub(super) head: AtomicU64,
    /// Which seats are taken by requests that wait for their turn.
    pub(super) waiting: [AtomicU64; SEAT_WORDS],
    /// One more than its job's index; zero when the job has no setting.
    pub(super) job: AtomicU32,
    /// What its server granted; zero when nothing.
    pub(super) credits: AtomicU32,
    /// The ticket that was drawn last.
    pub(super) tickets: AtomicU64,
    /// When the path was made.
    pub(super) made: AtomicU64,
}

/// One published or spare state, and its stamp, see [`super::step`].
#[repr(C, align(128))]
pub(super) struct Block {
    pub(super) words: [AtomicU64; PathState::WORDS],
    pub(super) stamp: AtomicU64,
}

/// A lane's two blocks for one path: when one is the path's state, the other is spare.
#[repr(C)]
pub(super) struct Cell {
    pub(super) blocks: [Block; 2],
}

#[repr(C, align(4096))]
pub(super) struct Recorded {
    pub(super) stamps: [AtomicU64; PATHS],
}

/// A request that waits.
#[repr(C, align(64))]
pub(super) struct Seat {
    /// Which process took it; zero when it is free.
    pub(super) owner: AtomicU64,
    /// Its place in the order; the least is first.
    pub(super) ticket: AtomicU64,
    /// Not zero when it was called. What is waited on.
    pub(super) called: AtomicU32,
}

/// Statistics of a path.
#[repr(C, align(4096))]
pub(super) struct Counts {
    pub(super) rows: [Row; ROWS],
    /// How often each reason held something, then for how long.
    pub(super) holds: [AtomicU64; 16],
    /// The generation of the setting whose rules the rows count.
    pub(super) generation: AtomicU64,
}

#[repr(C, align(64))]
pub(super) struct Row {
    pub(super) sums: [AtomicU64; SUMS],
}

/// What a lane counted of one rule on one path.
#[repr(C, align(64))]
pub(super) struct Tally {
    pub(super) key: AtomicU64,
    pub(super) sums: [AtomicU64; SUMS],
}

/// A job whose paths follow a setting of its own.
#[repr(C, align(64))]
pub(super) struct Job {
    /// One more than its tenant; zero when free.
    pub(super) tenant: AtomicU64,
    /// The generation in force; its setting is the one of this parity.
    pub(super) generation: AtomicU32,
    /// Not zero when it pauses.
    pub(super) paused: AtomicU32,
    /// Who writes the next setting.
    pub(super) writer: AtomicU64,
    /// When it was last spoken of.
    pub(super) kept: AtomicU64,
    /// What people call it; without a hash when it has a number only.
    pub(super) name: Name,
}

/// A setting as words, see [`super::settings`].
#[repr(C, align(4096))]
pub(super) struct Setting {
    pub(super) words: [AtomicU64; SETTING_WORDS],
}

/// A name: its hash and its length in one word, then as much of it as is kept.
#[repr(C, align(128))]
pub(super) struct Name {
    pub(super) hash: AtomicU64,
    pub(super) length: AtomicU64,
    pub(super) text: [AtomicU64; NAME_BYTES / 8],
}
