//! The functions of librados, found in the library at run time.
//!
//! Their shapes are those of `rados/librados.h` of Ceph 16; all of them are older than Ceph 13.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::OnceLock;

use libloading::Library;

/// The library's file, which Debian's package `librados2` brings.
pub const LIBRARY: &str = "librados.so.2";

/// Something of the library's that is only handed back to it.
pub(crate) type Handle = *mut c_void;
/// What the library calls at the end of a request, with the request and the caller's word.
pub(crate) type Ended = unsafe extern "C" fn(Handle, *mut c_void);
type Text = *const c_char;
type Texts = *const Text;
type Sizes = *const usize;

/// Why the library cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not there.
    #[error(
        "{LIBRARY} cannot be loaded: {0}; install it, on Debian by `apt-get install librados2`"
    )]
    Missing(String),
    /// It is there, and lacks a function.
    #[error("{LIBRARY} is too old: {0}; Ceph 13 or later is needed")]
    TooOld(String),
}

macro_rules! functions {
    ($($name:ident: ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used, without the `rados_` of their names.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            // What the functions lie in.
            _library: Library,
        }

        impl Functions {
            fn load() -> Result<Self, LoadError> {
                // SAFETY: what the library does when it is loaded is its own affair; Ceph's sets up
                // its statics and starts nothing.
                let library = unsafe { Library::new(LIBRARY) }
                    .map_err(|error| LoadError::Missing(error.to_string()))?;
                Ok(Self {
                    $(
                        // SAFETY: the functions of these names have these shapes since they exist;
                        // the library stays loaded for as long as they are there.
                        $name: *unsafe { library.get(concat!("rados_", stringify!($name), "\0")) }
                            .map_err(|error| LoadError::TooOld(error.to_string()))?,
                    )*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    create2: (*mut Handle, Text, Text, u64) -> c_int;
    conf_read_file: (Handle, Text) -> c_int;
    conf_parse_env: (Handle, Text) -> c_int;
    conf_set: (Handle, Text, Text) -> c_int;
    connect: (Handle) -> c_int;
    shutdown: (Handle);
    pool_list: (Handle, *mut c_char, usize) -> c_int;
    pool_reverse_lookup: (Handle, i64, *mut c_char, usize) -> c_int;
    mon_command: (
        Handle, Texts, usize, Text, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    osd_command: (
        Handle, c_int, Texts, usize, Text, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    buffer_free: (*mut c_char);
    ioctx_create: (Handle, Text, *mut Handle) -> c_int;
    ioctx_destroy: (Handle);
    ioctx_get_id: (Handle) -> i64;
    ioctx_set_namespace: (Handle, Text);
    set_pool_full_try: (Handle);
    application_list: (Handle, *mut c_char, *mut usize) -> c_int;
    aio_create_completion2: (*mut c_void, Option<Ended>, *mut Handle) -> c_int;
    aio_get_return_value: (Handle) -> c_int;
    aio_release: (Handle);
    aio_cancel: (Handle, Handle) -> c_int;
    aio_read: (Handle, Text, Handle, *mut c_char, usize, u64) -> c_int;
    aio_write: (Handle, Text, Handle, Text, usize, u64) -> c_int;
    aio_remove: (Handle, Text, Handle) -> c_int;
    aio_getxattr: (Handle, Text, Handle, Text, *mut c_char, usize) -> c_int;
    aio_write_op_operate: (Handle, Handle, Handle, Text, *mut i64, c_int) -> c_int;
    aio_read_op_operate: (Handle, Handle, Handle, Text, c_int) -> c_int;
    create_write_op: () -> Handle;
    release_write_op: (Handle);
    write_op_create: (Handle, c_int, Text);
    write_op_cmpxattr: (Handle, Text, u8, Text, usize);
    write_op_setxattr: (Handle, Text, Text, usize);
    write_op_omap_cmp2: (Handle, Text, u8, Text, usize, usize, *mut c_int);
    write_op_omap_set2: (Handle, Texts, Texts, Sizes, Sizes, usize);
    write_op_omap_rm_keys2: (Handle, Texts, Sizes, usize);
    create_read_op: () -> Handle;
    release_read_op: (Handle);
    read_op_omap_get_vals2: (
        Handle, Text, Text, u64, *mut Handle, *mut c_uchar, *mut c_int
    );
    read_op_omap_get_vals_by_keys2: (Handle, Texts, usize, Sizes, *mut Handle, *mut c_int);
    omap_get_next2: (
        Handle, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize
    ) -> c_int;
    omap_get_end: (Handle);
}

/// The functions; loads the library when they are asked for first.
pub(crate) fn functions() -> Result<&'static Functions, LoadError> {
    static LOADED: OnceLock<Result<Functions, LoadError>> = OnceLock::new();
    LOADED.get_or_init(Functions::load).as_ref().map_err(Clone::clone)
}
