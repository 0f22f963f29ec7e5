//! The functions behind ours: what the program would have called without this library, which may be
//! another library's that was loaded after it.
//!
//! `unsafe` here: the dynamic linker is asked for a name, and what it gives is called as what the C
//! library says it is. The types stand in the wrappers, once for each name.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

/// Whether the constructor has run. Before it, functions that are plain system calls make them
/// themselves, since the dynamic linker may not be asked everywhere (inside an allocator, say).
static READY: AtomicBool = AtomicBool::new(false);

/// From now on the dynamic linker is asked.
pub(crate) fn set_ready() {
    READY.store(true, Relaxed);
}

/// Whether the dynamic linker may be asked.
#[inline]
pub(crate) fn is_ready() -> bool {
    READY.load(Relaxed)
}

/// The next function of a name.
pub(crate) struct Next {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Where it is; null when no library behind this one has it. Found at its first use, without a
    /// lock: who comes at the same time finds the same.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        let at = self.at.load(Relaxed);
        if at.is_null() { self.find() } else { at }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero byte.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(at, Relaxed);
        at
    }
}

/// What a function gives when there is none behind it.
pub(crate) trait Absent {
    /// Failure, as such functions tell it.
    fn absent() -> Self;
}

impl Absent for i32 {
    fn absent() -> Self {
        crate::raw::set_errno(libc::ENOSYS);
        -1
    }
}

impl Absent for i64 {
    fn absent() -> Self {
        crate::raw::set_errno(libc::ENOSYS);
        -1
    }
}

impl Absent for isize {
    fn absent() -> Self {
        crate::raw::set_errno(libc::ENOSYS);
        -1
    }
}

impl Absent for usize {
    fn absent() -> Self {
        crate::raw::set_errno(libc::ENOSYS);
        0
    }
}

impl Absent for u32 {
    fn absent() -> Self {
        crate::raw::set_errno(libc::ENOSYS);
        Self::MAX
    }
}

impl<T> Absent for *mut T {
    fn absent() -> Self {
        crate::raw::set_errno(libc::ENOSYS);
        std::ptr::null_mut()
    }
}

impl Absent for () {
    fn absent() -> Self {}
}

/// Defines names of the C library.
///
/// `names => body(arguments) -> result;` exports each name; it calls `body(next, arguments)`, where
/// `next` is the function behind it. With `[number]` the function is that system call with these
/// arguments, and makes it itself before the library is ready.
macro_rules! interpose {
    ($($($name:ident)|+ => $body:ident $number:tt $args:tt -> $result:ty;)*) => {
        $($crate::next::interpose!(@each [$($name)+] $body $number $args $result);)*
    };
    (@each [$($name:ident)+] $body:ident $number:tt $args:tt $result:ty) => {
        $($crate::next::interpose!(@one $name $body $number $args $result);)+
    };
    (@one $name:ident $body:ident $number:tt ($($arg:ident: $type:ty),*) $result:ty) => {
        /// As the C library documents it.
        ///
        /// # Safety
        /// As the C library documents it.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            static NEXT: $crate::next::Next = $crate::next::Next::new(
                match ::std::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without end"),
                },
            );
            $crate::next::interpose!(@early $number ($($arg),*) $result);
            let next = NEXT.get();
            if next.is_null() {
                return $crate::next::Absent::absent();
            }
            // SAFETY: it is the function of that name, whose type is the C library's. Whatever the
            // caller promised is handed on.
            unsafe {
                let next: unsafe extern "C-unwind" fn($($type),*) -> $result =
                    ::std::mem::transmute(next);
                $body(next, $($arg),*)
            }
        }
    };
    (@early [] $args:tt $result:ty) => {};
    (@early [$number:expr] ($($arg:ident),*) $result:ty) => {
        if !$crate::next::is_ready() {
            let words = $crate::next::interpose!(@words $($arg),*);
            // SAFETY: the arguments are the caller's, for the same system call.
            return unsafe { $crate::raw::to_c($crate::raw::call($number, words)) as $result };
        }
    };
    (@words $a:expr) => { [$a as usize, 0, 0, 0, 0, 0] };
    (@words $a:expr, $b:expr) => { [$a as usize, $b as usize, 0, 0, 0, 0] };
    (@words $a:expr, $b:expr, $c:expr) => { [$a as usize, $b as usize, $c as usize, 0, 0, 0] };
    (@words $a:expr, $b:expr, $c:expr, $d:expr) => {
        [$a as usize, $b as usize, $c as usize, $d as usize, 0, 0]
    };
    (@words $a:expr, $b:expr, $c:expr, $d:expr, $e:expr) => {
        [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0]
    };
    (@words $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize]
    };
}
pub(crate) use interpose;

/// Defines names whose calls are only counted: `names => body call(arguments) -> result;`, where
/// `body` is the name of the function that this makes.
macro_rules! counted {
    ($(
        $($name:ident)|+ => $body:ident $call:ident ($($arg:ident: $type:ty),*) -> $result:ty;
    )*) => {
        $crate::next::interpose! {
            $($($name)|+ => $body [] ($($arg: $type),*) -> $result;)*
        }
        $(
            #[allow(clippy::too_many_arguments, reason = "as many as the C library's has")]
            unsafe fn $body(
                next: unsafe extern "C-unwind" fn($($type),*) -> $result,
                $($arg: $type),*
            ) -> $result {
                $crate::run::count_call(::afflux_node::calls::Call::$call);
                // SAFETY: the program's own call.
                unsafe { next($($arg),*) }
            }
        )*
    };
}
pub(crate) use counted;

/// Defines names whose calls are made within something of ours: `names => body [number]
/// (arguments) -> result { real: what is done }`, where `real` makes the program's own call, and
/// `body` is the name of the function that this makes.
macro_rules! within {
    ($(
        $($name:ident)|+ => $body:ident $number:tt ($($arg:ident: $type:ty),*) -> $result:ty
            { $real:ident: $done:expr }
    )*) => {
        $crate::next::interpose! {
            $($($name)|+ => $body $number ($($arg: $type),*) -> $result;)*
        }
        $(
            #[allow(clippy::too_many_arguments, reason = "as many as the C library's has")]
            unsafe fn $body(
                next: unsafe extern "C-unwind" fn($($type),*) -> $result,
                $($arg: $type),*
            ) -> $result {
                // SAFETY: the program's own call.
                let $real = || unsafe { next($($arg),*) };
                // SAFETY: what is handed on are the arguments of that call.
                #[allow(unused_unsafe, reason = "not all of it is unsafe")]
                unsafe { $done }
            }
        )*
    };
}
pub(crate) use within;
