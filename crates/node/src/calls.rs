//! What programs call, and what each call means for traffic control: one line for each class.
//!
//! A process time exists only for work that reaches a server. So a call is *gated* only if it goes
//! there now: direct I/O, synchronous writes, reads that the page cache cannot answer. All others
//! are counted and touch no window. Calls that cannot be seen to their end are *escaped*: counted
//! by cause, so that a report can say what it does not know.

/// Which way a call moves the bytes of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// None.
    Nothing,
    /// From a descriptor to the program.
    In,
    /// From the program to a descriptor.
    Out,
}

/// What traffic control does at a call of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Starts and ends a process time if it reaches a server: direct or synchronous I/O, and reads
    /// that the page cache cannot answer. Otherwise counted.
    Gated,
    /// As [`Treatment::Gated`], when the stream's buffer is too small for the call; else counted.
    Buffered,
    /// Starts and ends a process time if what it makes durable is at most one request.
    Durable,
    /// Counted, with its bytes where it moves any; it ends in the page cache or moves none.
    Counted,
    /// Only its end is counted, and no window is touched: it goes past the library.
    Escaped(Cause),
}

/// Why bytes may move unseen, or unregulated.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A file was mapped: loads and stores are no calls.
    Mapped,
    /// Requests of io_uring go through memory that the program shares with the kernel.
    IoUring,
    /// Requests of libaio are submitted in bulk and complete later.
    LibAio,
    /// POSIX asynchronous I/O is done by threads inside the C library.
    PosixAio,
    /// Bytes spliced from a pipe to a file or back.
    Spliced,
    /// System calls made by number.
    ByNumber,
    /// A program that the library cannot be loaded into: static, privileged, or started with an
    /// environment that does not name the library.
    NoLibrary,
    /// A call from a signal handler that interrupted the library itself.
    InSignal,
    /// A descriptor beyond the table of descriptors.
    HighDescriptor,
    /// The call was admitted without waiting: its descriptor is non-blocking.
    NonBlocking,
    /// No room for one more path in the tables.
    NoRoom,
    /// What the C library reads for itself within a call that has another purpose.
    CLibrary,
}

impl Cause {
    /// All causes, in the order of their index.
    pub const ALL: [Self; 12] = [
        Self::Mapped,
        Self::IoUring,
        Self::LibAio,
        Self::PosixAio,
        Self::Spliced,
        Self::ByNumber,
        Self::NoLibrary,
        Self::InSignal,
        Self::HighDescriptor,
        Self::NonBlocking,
        Self::NoRoom,
        Self::CLibrary,
    ];

    /// Position in [`Cause::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mmap",
            Self::IoUring => "io_uring",
            Self::LibAio => "libaio",
            Self::PosixAio => "aio",
            Self::Spliced => "splice",
            Self::ByNumber => "syscall",
            Self::NoLibrary => "no-library",
            Self::InSignal => "signal-handler",
            Self::HighDescriptor => "high-descriptor",
            Self::NonBlocking => "non-blocking",
            Self::NoRoom => "no-room",
            Self::CLibrary => "c-library",
        }
    }

    /// What it means, for people.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Mapped => "files mapped into memory; nobody counts loads and stores",
            Self::IoUring => "io_uring rings set up; their requests need no call",
            Self::LibAio => "requests submitted through libaio",
            Self::PosixAio => "requests of POSIX asynchronous I/O",
            Self::Spliced => "bytes spliced between pipes and files",
            Self::ByNumber => "I/O by syscall(), past the names of the C library",
            Self::NoLibrary => "programs that cannot load the library",
            Self::InSignal => "calls of signal handlers that interrupted the library",
            Self::HighDescriptor => "calls on descriptors beyond the table",
            Self::NonBlocking => "calls on non-blocking descriptors, never held",
            Self::NoRoom => "calls on paths beyond the table",
            Self::CLibrary => {
                "what the C library reads for itself: locales, names of users, /proc/self/maps"
            }
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct CallClass {
    /// The name in reports.
    pub name: &'static str,
    /// Which way it moves bytes.
    pub moves: Moves,
    /// Whether the kernel's own count of the process (`rchar`, `wchar`) includes those bytes.
    /// Verified by the tests of the library.
    pub kernel_counts: bool,
    /// What traffic control does.
    pub treatment: Treatment,
}

macro_rules! calls {
    ($($call:ident $name:literal $moves:ident $kernel:literal $treatment:expr;)*) => {
        /// The classes of calls.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each is named after the call that it is")]
        pub enum Call { $($call),* }

        /// The table, in the order of [`Call::index`].
        pub static CALLS: &[CallClass] = &[$(CallClass {
            name: $name,
            moves: Moves::$moves,
            kernel_counts: $kernel,
            treatment: $treatment,
        }),*];
    };
}

use Cause::{ByNumber, CLibrary, IoUring, LibAio, Mapped, PosixAio, Spliced};
use Treatment::{Buffered, Counted, Durable, Escaped, Gated};

calls! {
    // call         name               bytes    kernel treatment
    Read            "read"             In       true   Gated;
    Readv           "readv"            In       true   Gated;
    Pread           "pread"            In       true   Gated;
    Preadv          "preadv"           In       true   Gated;
    Preadv2         "preadv2"          In       true   Gated;
    Write           "write"            Out      true   Gated;
    Writev          "writev"           Out      true   Gated;
    Pwrite          "pwrite"           Out      true   Gated;
    Pwritev         "pwritev"          Out      true   Gated;
    Pwritev2        "pwritev2"         Out      true   Gated;
    // Between two descriptors: the call, and the side that it reads from.
    CopyFileRange   "copy_file_range"  Out      true   Counted;
    CopiedFrom      "copied from"      In       true   Counted;
    Sendfile        "sendfile"         Out      true   Counted;
    SentFrom        "sent from"        In       true   Counted;
    Splice          "splice"           Out      false  Escaped(Spliced);
    SplicedFrom     "spliced from"     In       false  Escaped(Spliced);
    Tee             "tee"              Nothing  false  Counted;
    Vmsplice        "vmsplice"         Nothing  false  Counted;
    StreamRead      "fread"            In       true   Buffered;
    StreamScan      "fscanf"           In       true   Buffered;
    StreamReadWide  "fgetwc"           In       true   Buffered;
    StreamWrite     "fwrite"           Out      true   Buffered;
    StreamPrint     "fprintf"          Out      true   Buffered;
    StreamWriteWide "fputwc"           Out      true   Buffered;
    StreamOpen      "fopen"            Nothing  false  Counted;
    // What the program put into the buffer in line, without a call, is counted by these.
    StreamFlush     "fflush"           Out      true   Buffered;
    StreamClose     "fclose"           Out      true   Buffered;
    StreamSeek      "fseek"            Out      true   Counted;
    // What is read around the new position.
    StreamSeekRead  "fseek read"       In       true   Buffered;
    Print           "dprintf"          Out      true   Gated;
    Fsync           "fsync"            Nothing  false  Durable;
    Fdatasync       "fdatasync"        Nothing  false  Durable;
    SyncFileRange   "sync_file_range"  Nothing  false  Counted;
    Sync            "sync"             Nothing  false  Counted;
    Msync           "msync"            Nothing  false  Counted;
    Open            "open"             Nothing  false  Counted;
    Close           "close"            Nothing  false  Counted;
    Duplicate       "dup"              Nothing  false  Counted;
    Control         "fcntl"            Nothing  false  Counted;
    DeviceControl   "ioctl"            Nothing  false  Counted;
    Lock            "flock"            Nothing  false  Counted;
    Channel         "pipe"             Nothing  false  Counted;
    Seek            "lseek"            Nothing  false  Counted;
    Truncate        "truncate"         Nothing  false  Counted;
    Allocate        "fallocate"        Nothing  false  Counted;
    Advise          "posix_fadvise"    Nothing  false  Counted;
    Stat            "stat"             Nothing  false  Counted;
    Name            "rename"           Nothing  false  Counted;
    Message         "sendmsg"          Nothing  false  Counted;
    Map             "mmap"             Nothing  false  Escaped(Mapped);
    AioRead         "aio_read"         In       true   Escaped(PosixAio);
    AioWrite        "aio_write"        Out      true   Escaped(PosixAio);
    LibAioRead      "io_submit read"   In       false  Escaped(LibAio);
    LibAioWrite     "io_submit write"  Out      false  Escaped(LibAio);
    Ring            "io_uring_setup"   Nothing  false  Escaped(IoUring);
    Numbered        "syscall"          Nothing  false  Counted;
    NumberedRead    "syscall read"     In       true   Escaped(ByNumber);
    NumberedWrite   "syscall write"    Out      true   Escaped(ByNumber);
    LibraryRead     "c library read"   In       true   Escaped(CLibrary);
    Fork            "fork"             Nothing  false  Counted;
    Exec            "exec"             Nothing  false  Counted;
    Exit            "exit"             Nothing  false  Counted;
}

impl Call {
    /// Its place in [`CALLS`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its line in the table.
    pub fn class(self) -> &'static CallClass {
        &CALLS[self.index()]
    }
}

/// The kinds of things that a descriptor may stand for, as far as they are counted apart.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A file that is regulated.
    Regulated,
    /// Another file.
    File,
    /// A pipe, a socket, a terminal, ...
    Other,
}

impl Kind {
    /// Every kind, in the order of its index.
    pub const ALL: [Self; 3] = [Self::Regulated, Self::File, Self::Other];

    /// Position in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_calls_are_at_their_index() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!((cause.index(), cause.name().is_empty()), (index, false));
        }
        assert_eq!(Call::Exit.index() + 1, CALLS.len());
        assert_eq!(Call::Pwrite.class().name, "pwrite");
    }

    #[test]
    fn what_escapes_moves_bytes_or_names_what_it_sets_up() {
        for class in CALLS.iter().filter(|class| class.moves == Moves::Nothing) {
            assert!(!class.kernel_counts, "{} counts what it does not move", class.name);
            assert_ne!(class.treatment, Gated, "{} is gated without bytes", class.name);
        }
    }
}
