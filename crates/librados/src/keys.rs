//! Keys of an object: small values in order, changed several at once if others are as expected.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uchar};
use std::ptr;
use std::sync::Arc;

use rustix::io::Errno;

use crate::functions::{Functions, Handle};
use crate::pool::Pool;
use crate::request::{Call, outcome};

/// A change of an object's keys: all of it happens, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    expected: Vec<(Vec<u8>, Vec<u8>)>,
    set: Vec<(Vec<u8>, Vec<u8>)>,
    removed: Vec<Vec<u8>>,
}

/// A key and its value.
pub type Listed = (Vec<u8>, Vec<u8>);

/// Some keys of an object, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The keys with their values.
    pub keys: Vec<Listed>,
    /// Whether there are more behind the last.
    pub more: bool,
}

impl Change {
    /// Only if `key` has this value; one that is missing has an empty value.
    #[must_use]
    pub fn expecting(mut self, key: &[u8], value: &[u8]) -> Self {
        self.expected.push((key.to_vec(), value.to_vec()));
        self
    }

    /// Sets `key`.
    #[must_use]
    pub fn setting(mut self, key: &[u8], value: &[u8]) -> Self {
        self.set.push((key.to_vec(), value.to_vec()));
        self
    }

    /// Removes `key`; one that is missing stays so.
    #[must_use]
    pub fn removing(mut self, key: &[u8]) -> Self {
        self.removed.push(key.to_vec());
        self
    }

    /// Puts this into one of the library's operations.
    ///
    /// # Safety
    /// `operation` is a compound write of the library's.
    unsafe fn fill(&self, library: &Functions, operation: Handle) {
        const EQUAL: u8 = 1;
        let bytes = |text: &Vec<u8>| text.as_ptr().cast::<c_char>();
        for (key, value) in &self.expected {
            let (lengths, nowhere) = ((key.len(), value.len()), ptr::null_mut());
            // SAFETY: key and value are alive during the call, which copies them.
            unsafe {
                (library.write_op_omap_cmp2)(
                    operation,
                    bytes(key),
                    EQUAL,
                    bytes(value),
                    lengths.0,
                    lengths.1,
                    nowhere,
                );
            }
        }
        if !self.set.is_empty() {
            let (keys, values): (Vec<_>, Vec<_>) =
                self.set.iter().map(|(key, value)| (bytes(key), bytes(value))).unzip();
            let (key_lengths, value_lengths): (Vec<_>, Vec<_>) =
                self.set.iter().map(|(key, value)| (key.len(), value.len())).unzip();
            // SAFETY: four arrays of the same length, alive during the call, which copies what
            // they lead to.
            unsafe {
                (library.write_op_omap_set2)(
                    operation,
                    keys.as_ptr(),
                    values.as_ptr(),
                    key_lengths.as_ptr(),
                    value_lengths.as_ptr(),
                    keys.len(),
                );
            }
        }
        if !self.removed.is_empty() {
            let keys: Vec<_> = self.removed.iter().map(bytes).collect();
            let lengths: Vec<_> = self.removed.iter().map(Vec::len).collect();
            // SAFETY: as above, with two arrays.
            unsafe {
                (library.write_op_omap_rm_keys2)(
                    operation,
                    keys.as_ptr(),
                    lengths.as_ptr(),
                    keys.len(),
                );
            }
        }
    }
}

/// Where the library writes the answers of a read of keys.
struct Answers {
    keys: Handle,
    more: c_uchar,
    value: c_int,
}

/// Answers and the operation that they belong to, both given back at the end.
struct Reading {
    library: &'static Functions,
    operation: Handle,
    // A box's, by a pointer, since the library has others to it.
    answers: *mut Answers,
}

// SAFETY: it is used by one thread after the other: by the one that makes it, then by the one that
// tells the end.
unsafe impl Send for Reading {}

impl Reading {
    fn new(library: &'static Functions) -> Self {
        let answers = Answers { keys: ptr::null_mut(), more: 0, value: 0 };
        let answers = Box::into_raw(Box::new(answers));
        // SAFETY: it takes nothing; what it gives is released when this is dropped.
        let operation = unsafe { (library.create_read_op)() };
        Self { library, operation, answers }
    }

    /// What was read. Only for an operation that has ended well.
    fn page(&mut self) -> Result<Page, Errno> {
        // SAFETY: the operation has ended, so that nobody writes to them any more.
        let Answers { keys, more, value } = unsafe { self.answers.read() };
        outcome(value)?;
        let mut page = Page { keys: Vec::new(), more: more != 0 };
        loop {
            let (mut key, mut value) = (ptr::null_mut(), ptr::null_mut());
            let (mut key_length, mut value_length) = (0, 0);
            // SAFETY: the iterator was filled by the operation, and the four places are written to.
            let told = unsafe {
                (self.library.omap_get_next2)(
                    keys,
                    &raw mut key,
                    &raw mut value,
                    &raw mut key_length,
                    &raw mut value_length,
                )
            };
            outcome(told)?;
            if key.is_null() {
                return Ok(page);
            }
            let copied = |bytes: *mut c_char, length: usize| {
                if bytes.is_null() || length == 0 {
                    return Vec::new();
                }
                // SAFETY: the library has written so many bytes there, which stay until the
                // iterator is released.
                unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec()
            };
            page.keys.push((copied(key, key_length), copied(value, value_length)));
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // SAFETY: made by the library, or by `new` from a box, not used by the library any more,
        // and given back once.
        unsafe {
            (self.library.release_read_op)(self.operation);
            let answers = Box::from_raw(self.answers);
            if !answers.keys.is_null() {
                (self.library.omap_get_end)(answers.keys);
            }
        }
    }
}

impl Pool {
    /// Changes keys of an object, which must be there unless nothing is expected. Says whether all
    /// was as expected.
    pub fn change_keys(
        self: &Arc<Self>,
        object: &CStr,
        change: &Change,
        done: impl FnOnce(Result<bool, Errno>) + Send + 'static,
    ) -> Option<Call> {
        // SAFETY: the operation is a compound write, and copies all that is put into it.
        let fill = |library: &Functions, operation| unsafe { change.fill(library, operation) };
        // SAFETY: as above.
        unsafe { self.compound(object, fill, Errno::CANCELED, done) }
    }

    /// Reads the values of some keys of an object; those that are missing are left out.
    pub fn keys(
        self: &Arc<Self>,
        object: &CStr,
        keys: &[&[u8]],
        done: impl FnOnce(Result<Page, Errno>) + Send + 'static,
    ) -> Option<Call> {
        let starts: Vec<_> = keys.iter().map(|key| key.as_ptr().cast::<c_char>()).collect();
        let lengths: Vec<_> = keys.iter().map(|key| key.len()).collect();
        let reading = Reading::new(self.library());
        let (answers, operation) = (reading.answers, reading.operation);
        // SAFETY: the keys are alive during the call, which copies them; the answers are written
        // to the heap, where `reading` keeps them until the end.
        unsafe {
            let (found, value) = (&raw mut (*answers).keys, &raw mut (*answers).value);
            (self.library().read_op_omap_get_vals_by_keys2)(
                operation,
                starts.as_ptr(),
                keys.len(),
                lengths.as_ptr(),
                found,
                value,
            );
        }
        self.read_keys(object, reading, done)
    }

    /// Lists at most `limit` keys of an object that start with `prefix` and come after `after`.
    pub fn list_keys(
        self: &Arc<Self>,
        object: &CStr,
        after: &CStr,
        prefix: &CStr,
        limit: u64,
        done: impl FnOnce(Result<Page, Errno>) + Send + 'static,
    ) -> Option<Call> {
        let reading = Reading::new(self.library());
        let (answers, operation) = (reading.answers, reading.operation);
        // SAFETY: as in `keys`.
        unsafe {
            let (found, more) = (&raw mut (*answers).keys, &raw mut (*answers).more);
            let value = &raw mut (*answers).value;
            (self.library().read_op_omap_get_vals2)(
                operation,
                after.as_ptr(),
                prefix.as_ptr(),
                limit,
                found,
                more,
                value,
            );
        }
        self.read_keys(object, reading, done)
    }

    fn read_keys(
        self: &Arc<Self>,
        object: &CStr,
        mut reading: Reading,
        done: impl FnOnce(Result<Page, Errno>) + Send + 'static,
    ) -> Option<Call> {
        let operation = reading.operation;
        // One that did not end well has answers that were never filled in.
        let finish = move |value| done(outcome(value).and_then(|_| reading.page()));
        let start = self.library().aio_read_op_operate;
        let submit = |completion| {
            // SAFETY: the name is alive during the call; operation and answers are the closure's,
            // until the request has ended.
            unsafe { start(operation, self.handle(), completion, object.as_ptr(), 0) }
        };
        // SAFETY: one request on this pool; its memory is owned by `finish`.
        unsafe { Call::start(self, finish, submit) }
    }
}
