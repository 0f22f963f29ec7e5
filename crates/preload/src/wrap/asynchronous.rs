//! Asynchronous I/O, which goes past the library: counted as escaped, with its bytes where they can
//! be told.
//!
//! `unsafe` here: the arguments are the program's, and are handed on as they came.

use std::ffi::{c_int, c_long, c_void};

use afflux_node::calls::{Call, Cause, Kind};
use libc::{aiocb, ssize_t};

use crate::next::interpose;
use crate::{look, raw, run};

interpose! {
    aio_return | aio_return64 => aio_return_with [] (block: *mut aiocb) -> ssize_t;
    io_submit => io_submit_with []
        (context: *mut c_void, count: c_long, blocks: *mut *mut c_void) -> c_int;
}

/// `aio_lio_opcode` of a write; all others read.
const LIO_WRITE: c_int = 1;

/// A request of POSIX asynchronous I/O has ended; its bytes went through a thread of the C library,
/// and the kernel has counted them.
unsafe fn aio_return_with(
    next: unsafe extern "C-unwind" fn(*mut aiocb) -> ssize_t,
    block: *mut aiocb,
) -> ssize_t {
    // SAFETY: the program's own call.
    let result = unsafe { next(block) };
    if result >= 0 && run::active().is_some() {
        // SAFETY: the call took its result from there.
        let (fd, operation) = unsafe { ((*block).aio_fildes, (*block).aio_lio_opcode) };
        let call = if operation == LIO_WRITE { Call::AioWrite } else { Call::AioRead };
        let kind = look::at(fd).map_or(Kind::Other, |(_, seen)| seen.kind());
        run::count(call, kind, result);
        if kind == Kind::Regulated {
            run::tally().escape(Cause::PosixAio, result as u64);
        }
    }
    result
}

/// The block of a request of libaio, as the kernel documents it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Block {
    data: u64,
    key_and_flags: [u32; 2],
    operation: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
}

/// Operations of a block: read and write, and the same with lists of buffers, whose length is then
/// their number.
const READ: u16 = 0;
const WRITE: u16 = 1;
const READ_LISTS: u16 = 7;
const WRITE_LISTS: u16 = 8;

unsafe fn io_submit_with(
    next: unsafe extern "C-unwind" fn(*mut c_void, c_long, *mut *mut c_void) -> c_int,
    context: *mut c_void,
    count: c_long,
    blocks: *mut *mut c_void,
) -> c_int {
    // SAFETY: the program's own call.
    let submitted = unsafe { next(context, count, blocks) };
    if run::active().is_some() {
        for index in 0..usize::try_from(submitted).unwrap_or(0) {
            let mut pointer = [std::ptr::null_mut::<c_void>()];
            if raw::copy_from_program(&mut pointer, blocks.wrapping_add(index)) {
                note(pointer[0].cast());
            }
        }
    }
    submitted
}

fn note(at: *const Block) {
    let mut block = [Block {
        data: 0,
        key_and_flags: [0; 2],
        operation: 0,
        priority: 0,
        fd: 0,
        buffer: 0,
        bytes: 0,
        offset: 0,
    }];
    if !raw::copy_from_program(&mut block, at) {
        return;
    }
    let [block] = block;
    let bytes = match block.operation {
        READ | WRITE => block.bytes as usize,
        READ_LISTS | WRITE_LISTS => {
            raw::bytes_of(block.buffer as *const libc::iovec, block.bytes as c_int)
        }
        _ => return,
    };
    let writes = matches!(block.operation, WRITE | WRITE_LISTS);
    let call = if writes { Call::LibAioWrite } else { Call::LibAioRead };
    let kind = look::at(block.fd as c_int);
    let kind = kind.map_or(Kind::Other, |(_, seen)| seen.kind());
    run::count(call, kind, bytes as isize);
    run::tally().escape(Cause::LibAio, bytes as u64);
}
