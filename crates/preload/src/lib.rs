//! `libafflux.so`: regulates and measures the I/O of programs that know nothing of it.
//!
//! The dynamic linker loads it before the C library (`LD_PRELOAD`, set by `afflux run`), so that
//! the names that it defines come first. Each wrapper makes the program's own call, exactly once,
//! on the program's own descriptor, and hands on what it returns with `errno` untouched. Around the
//! call it counts, and where the call reaches a server it takes a place in the window that all
//! processes of the node share.
//!
//! What must hold, whatever happens:
//!
//! 1. The program's call is made, and made once. What is done around it runs behind [`run::hook`],
//!    which catches a panic and stands aside from then on.
//! 2. No lock is held across a wait, and none is waited for. Tables only grow, or are single words.
//! 3. Every wrapper works before the constructor has run, after the destructors have, in a forked
//!    child, and in a signal handler that interrupted another wrapper, which it may leave for good
//!    by a long jump: what was held then is given back.
//! 4. The library's own I/O is made by system calls ([`raw`]), never through the names it defines.
//! 5. Everything unusual is passed through and counted by its cause.
//!
//! The table of what each call means stands in `afflux_node::calls`.

mod behind;
mod cache;
mod descriptors;
mod environment;
mod gate;
mod jump;
mod look;
mod mounts;
mod next;
mod places;
mod raw;
mod run;
mod seek;
mod start;
mod strangers;
mod stream;
mod thread;
mod wrap;
