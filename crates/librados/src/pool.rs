//! A pool, and requests to its objects.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use rustix::io::Errno;

use crate::cluster::Cluster;
use crate::functions::{Functions, Handle};
use crate::request::{Call, outcome};

/// A pool of a cluster; requests to it may be made by any thread.
#[derive(Debug)]
pub struct Pool {
    cluster: Arc<Cluster>,
    handle: Handle,
    name: String,
    id: i64,
}

// SAFETY: the library allows an I/O context to be used by several threads, as long as what is set
// on it is not changed meanwhile; that happens in `Pool::new` only, before there is a value.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(crate) fn new(
        cluster: &Arc<Cluster>,
        handle: Handle,
        name: &str,
        namespace: &CStr,
    ) -> Arc<Self> {
        let library = cluster.library();
        // SAFETY: the handle was just made by the library, and nobody else has it yet.
        let id = unsafe {
            (library.ioctx_set_namespace)(handle, namespace.as_ptr());
            // A full pool shall answer so, instead of keeping requests until there is room.
            (library.set_pool_full_try)(handle);
            (library.ioctx_get_id)(handle)
        };
        Arc::new(Self { cluster: Arc::clone(cluster), handle, name: name.to_owned(), id })
    }

    pub(crate) fn library(&self) -> &'static Functions {
        self.cluster.library()
    }

    pub(crate) const fn handle(&self) -> Handle {
        self.handle
    }

    /// Its name, as it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, which no other pool of the cluster ever has.
    pub const fn id(&self) -> i64 {
        self.id
    }

    /// Whether it is still there, as far as the client was told. Does not wait.
    ///
    /// The library answers "no such object" to requests for a pool that was deleted; it has then
    /// been told so.
    pub fn exists(&self) -> bool {
        self.cluster.has_pool(self.id)
    }

    /// Writes `data` at `offset_bytes`, creating the object when it is missing. The library takes a
    /// copy.
    pub fn write(
        self: &Arc<Self>,
        object: &CStr,
        offset_bytes: u64,
        data: &[u8],
        done: impl FnOnce(Result<(), Errno>) + Send + 'static,
    ) -> Option<Call> {
        let finish = |value| done(outcome(value).map(|_| ()));
        let write = self.library().aio_write;
        let submit = |completion| {
            let (name, bytes) = (object.as_ptr(), data.as_ptr().cast());
            // SAFETY: all are alive during the call, and the library copies name and data.
            unsafe { write(self.handle, name, completion, bytes, data.len(), offset_bytes) }
        };
        // SAFETY: one request on this pool, which keeps none of our memory.
        unsafe { Call::start(self, finish, submit) }
    }

    /// Reads into `buffer`, as much as it is long, from `offset_bytes` on. It comes back as long as
    /// what was read, which is less at the object's end.
    pub fn read(
        self: &Arc<Self>,
        object: &CStr,
        offset_bytes: u64,
        mut buffer: Vec<u8>,
        done: impl FnOnce(Result<Vec<u8>, Errno>) + Send + 'static,
    ) -> Option<Call> {
        let (bytes, length) = (buffer.as_mut_ptr(), buffer.len());
        // From here on the buffer is the closure's, which looks at it when the request has ended.
        let finish = move |value| {
            done(outcome(value).map(|count| {
                buffer.truncate(count);
                buffer
            }));
        };
        let read = self.library().aio_read;
        let submit = |completion| {
            let name = object.as_ptr();
            // SAFETY: `bytes` are `length` bytes on the heap, which stay where they are until the
            // closure has run.
            unsafe { read(self.handle, name, completion, bytes.cast(), length, offset_bytes) }
        };
        // SAFETY: one request on this pool; its memory is owned by `finish`.
        unsafe { Call::start(self, finish, submit) }
    }

    /// Removes an object.
    pub fn remove(
        self: &Arc<Self>,
        object: &CStr,
        done: impl FnOnce(Result<(), Errno>) + Send + 'static,
    ) -> Option<Call> {
        let finish = |value| done(outcome(value).map(|_| ()));
        let remove = self.library().aio_remove;
        // SAFETY: the name is alive during the call; the library copies it.
        let submit = |completion| unsafe { remove(self.handle, object.as_ptr(), completion) };
        // SAFETY: one request on this pool, which keeps none of our memory.
        unsafe { Call::start(self, finish, submit) }
    }

    /// Reads an attribute of an object, of at most `most_bytes`.
    pub fn attribute(
        self: &Arc<Self>,
        object: &CStr,
        name: &CStr,
        most_bytes: usize,
        done: impl FnOnce(Result<Vec<u8>, Errno>) + Send + 'static,
    ) -> Option<Call> {
        let mut value = vec![0; most_bytes];
        let bytes: *mut u8 = value.as_mut_ptr();
        let finish = move |count| {
            done(outcome(count).map(|count| {
                value.truncate(count);
                value
            }));
        };
        let get = self.library().aio_getxattr;
        let submit = |completion| {
            let (object, name) = (object.as_ptr(), name.as_ptr());
            // SAFETY: as in `read`.
            unsafe { get(self.handle, object, completion, name, bytes.cast(), most_bytes) }
        };
        // SAFETY: one request on this pool; its memory is owned by `finish`.
        unsafe { Call::start(self, finish, submit) }
    }

    /// Raises an attribute of an object to `value`, in the order of bytes. Says whether it was less
    /// before, or missing. The object must be there.
    pub fn raise_attribute(
        self: &Arc<Self>,
        object: &CStr,
        name: &CStr,
        value: &[u8],
        done: impl FnOnce(Result<bool, Errno>) + Send + 'static,
    ) -> Option<Call> {
        const GREATER: u8 = 3;
        let fill = |library: &Functions, operation| {
            let (name, bytes, length) = (name.as_ptr(), value.as_ptr().cast(), value.len());
            // SAFETY: as `compound` promises; name and value are copied.
            unsafe {
                (library.write_op_cmpxattr)(operation, name, GREATER, bytes, length);
                (library.write_op_setxattr)(operation, name, bytes, length);
            }
        };
        // SAFETY: what is put into the operation is copied.
        unsafe { self.compound(object, fill, Errno::CANCELED, done) }
    }

    /// Creates an object with an attribute. Says whether it was missing.
    pub fn create_with_attribute(
        self: &Arc<Self>,
        object: &CStr,
        name: &CStr,
        value: &[u8],
        done: impl FnOnce(Result<bool, Errno>) + Send + 'static,
    ) -> Option<Call> {
        const ONLY_IF_IT_IS_MISSING: c_int = 1;
        let fill = |library: &Functions, operation| {
            let (name, bytes, length) = (name.as_ptr(), value.as_ptr().cast(), value.len());
            // SAFETY: as `compound` promises; name and value are copied.
            unsafe {
                (library.write_op_create)(operation, ONLY_IF_IT_IS_MISSING, std::ptr::null());
                (library.write_op_setxattr)(operation, name, bytes, length);
            }
        };
        // SAFETY: what is put into the operation is copied.
        unsafe { self.compound(object, fill, Errno::EXIST, done) }
    }

    /// Starts a compound write that `fill` puts together. All of it happens, or nothing: `done` is
    /// told whether it did, `otherwise` being the error by which the server says that something
    /// was not as the operation expects.
    ///
    /// # Safety
    /// `fill` is handed one of the library's compound writes, and puts nothing of our memory into
    /// it that is not copied.
    pub(crate) unsafe fn compound(
        self: &Arc<Self>,
        object: &CStr,
        fill: impl FnOnce(&Functions, Handle),
        otherwise: Errno,
        done: impl FnOnce(Result<bool, Errno>) + Send + 'static,
    ) -> Option<Call> {
        let finish = move |value| {
            done(match outcome(value) {
                Ok(_) => Ok(true),
                Err(errno) if errno == otherwise => Ok(false),
                Err(errno) => Err(errno),
            });
        };
        let library = self.library();
        // SAFETY: it takes nothing; what it gives is released below.
        let operation = unsafe { (library.create_write_op)() };
        fill(library, operation);
        let submit = |completion| {
            let (name, now) = (object.as_ptr(), std::ptr::null_mut());
            let start = library.aio_write_op_operate;
            // SAFETY: all are alive during the call.
            unsafe { start(operation, self.handle, completion, name, now, 0) }
        };
        // SAFETY: one request on this pool, which keeps none of our memory.
        let call = unsafe { Call::start(self, finish, submit) };
        // SAFETY: the library has taken over what was in it.
        unsafe { (library.release_write_op)(operation) };
        call
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle; requests under way hold counts of their own.
        unsafe { (self.library().ioctx_destroy)(self.handle) };
    }
}
