//! A board on which processes count, to check from outside what they were admitted to. It knows
//! nothing of what it checks: a file of atomic integers, mapped. And a forked child, and a signal
//! handler, since these need unsafe code.

use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rustix::mm::{MapFlags, ProtFlags};

/// How many workers have a line of their own.
pub(crate) const LINES: usize = 64;

#[repr(C, align(64))]
pub(crate) struct Board {
    /// Requests under way now.
    pub(crate) under_way: AtomicU64,
    /// The most that ever were.
    pub(crate) most: AtomicU64,
    /// Not zero when workers may begin, and when they are to end.
    pub(crate) begin: AtomicU64,
    pub(crate) end: AtomicU64,
    /// Workers that are ready.
    pub(crate) ready: AtomicU64,
    /// The thread that is to be followed.
    pub(crate) thread: AtomicU64,
    pub(crate) lines: [Line; LINES],
}

/// What one worker did.
#[repr(C, align(64))]
pub(crate) struct Line {
    pub(crate) admitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// The longest wait for an admission, in nanoseconds.
    pub(crate) longest: AtomicU64,
}

impl Board {
    pub(crate) fn open(path: &Path) -> &'static Self {
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(size_of::<Self>() as u64).unwrap();
        let (size, access) = (size_of::<Self>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, which stays; the file is as long, and any bytes are a `Board`,
        // which has no fields but atomic integers.
        unsafe {
            let at = rustix::mm::mmap(ptr::null_mut(), size, access, MapFlags::SHARED, &file, 0);
            &*at.unwrap().cast::<Self>()
        }
    }

    /// A request begins.
    pub(crate) fn enter(&self) {
        let now = self.under_way.fetch_add(1, SeqCst) + 1;
        if now > self.most.load(SeqCst) {
            self.most.fetch_max(now, SeqCst);
        }
    }

    /// It ended.
    pub(crate) fn leave(&self) {
        self.under_way.fetch_sub(1, SeqCst);
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.lines.iter().map(|line| line.admitted.load(SeqCst)).sum()
    }
}

/// Runs `life` in a forked child of this process, which then kills itself. In a process with
/// threads it may neither allocate nor wait for a lock.
pub(crate) fn fork_and_die(life: impl FnOnce()) -> nix::unistd::Pid {
    // SAFETY: what the child calls uses no lock and no memory that another thread may be changing:
    // that this is so is what the test is about.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Parent { child } => child,
        nix::unistd::ForkResult::Child => {
            life();
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            panic!("it outlived itself")
        }
    }
}

/// What a signal handler does.
type Handler = Box<dyn Fn() + Send + Sync>;

/// Has the handler of `SIGUSR1` do `work` and never return: as after a long jump, what it
/// interrupted does not go on.
pub(crate) fn on_signal_forever(work: Handler) {
    static WORK: OnceLock<Handler> = OnceLock::new();
    extern "C" fn handle(_: nix::libc::c_int) {
        if let Some(work) = WORK.get() {
            work();
        }
        loop {
            afflux_node::clock::sleep(afflux_core::units::Span::from_secs(600));
        }
    }
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    assert!(WORK.set(work).is_ok(), "there is one already");
    let action = SigAction::new(SigHandler::Handler(handle), SaFlags::empty(), SigSet::empty());
    // SAFETY: what the handler does uses no lock and no memory that what it interrupts may be
    // changing: that this is so is what the test is about.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
}
