//! A client of a cluster: its connection, its pools, and what monitors and servers are asked.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use serde_json::Value;

use crate::functions::{Functions, Handle, LoadError, functions};
use crate::pool::Pool;
use crate::request::{is_inside_an_end, outcome};

/// In whose name a client connects, and where its cluster is described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The user, without `client.`; `None` is `admin`.
    pub user: Option<String>,
    /// The cluster's `ceph.conf`; `None` looks where Ceph's own programs look: in `CEPH_CONF` of
    /// the environment, then in `/etc/ceph`.
    pub configuration: Option<PathBuf>,
}

/// A client of a cluster.
#[derive(Debug)]
pub struct Cluster {
    library: &'static Functions,
    handle: Handle,
}

// SAFETY: the library allows its client to be used by any number of threads at once.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No library.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// A name or path with a zero byte.
    #[error("`{0}` contains a zero byte")]
    Text(String),
    /// The configuration cannot be read.
    #[error(
        "cannot read the cluster's configuration {}: {errno}; name it as in \
         rados:/etc/ceph/ceph.conf",
        path.display()
    )]
    Configuration {
        /// The file, or where it was looked for.
        path: PathBuf,
        /// What the library said.
        errno: Errno,
    },
    /// The monitors cannot be reached, or refuse.
    #[error(
        "cannot connect to the cluster of {} as client.{user}: {errno}{}",
        path.display(),
        hint(*errno)
    )]
    Refused {
        /// The configuration.
        path: PathBuf,
        /// The user.
        user: String,
        /// What the library said.
        errno: Errno,
    },
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::TIMEDOUT => "; are its monitors running, and is `mon host` right?",
        Errno::ACCESS | Errno::PERM => "; does its keyring have this user's key?",
        Errno::NOENT => "; does it name a keyring, and monitors?",
        _ => "",
    }
}

/// Something that was asked of a cluster and failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {errno}")]
pub struct Failed {
    /// What was asked, and what the cluster said to it.
    pub what: String,
    /// The error's number.
    pub errno: Errno,
}

impl Cluster {
    /// Connects a new client. Waits for the monitors, at most so long.
    ///
    /// # Errors
    /// Also when the library is not installed.
    pub fn connect(account: &Account, patience: Duration) -> Result<Arc<Self>, ConnectError> {
        let library = functions()?;
        let user = account.user.as_deref().unwrap_or("admin");
        let name = text(&format!("client.{user}"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written to; the texts are alive during the call.
        let made =
            unsafe { (library.create2)(&raw mut handle, c"ceph".as_ptr(), name.as_ptr(), 0) };
        let path = account.configuration.clone().unwrap_or_else(default_configuration);
        let refused =
            |errno| ConnectError::Refused { path: path.clone(), user: user.to_owned(), errno };
        outcome(made).map_err(refused)?;
        let cluster = Self { library, handle };
        cluster.configure(account.configuration.as_deref(), &path, patience)?;
        // SAFETY: the handle was made above.
        outcome(unsafe { (library.connect)(handle) }).map_err(refused)?;
        Ok(Arc::new(cluster))
    }

    fn configure(
        &self,
        named: Option<&Path>,
        path: &Path,
        patience: Duration,
    ) -> Result<(), ConnectError> {
        let failed = |errno| ConnectError::Configuration { path: path.to_owned(), errno };
        let named = named.map(|path| text(&path.to_string_lossy())).transpose()?;
        let start = named.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: the handle is this value's; the path is alive during the call.
        outcome(unsafe { (self.library.conf_read_file)(self.handle, start) }).map_err(failed)?;
        // SAFETY: as above; no name means that of Ceph's own variable.
        outcome(unsafe { (self.library.conf_parse_env)(self.handle, ptr::null()) })
            .map_err(failed)?;
        let seconds = patience.as_secs().max(1).to_string();
        for (option, value) in [
            (c"client_mount_timeout", &seconds[..]),
            (c"rados_mon_op_timeout", &seconds[..]),
            // Who may send how much is for the caller to say, and no request may wait unseen.
            (c"objecter_inflight_ops", "0"),
            (c"objecter_inflight_op_bytes", "0"),
            (c"log_to_stderr", "false"),
            (c"err_to_stderr", "false"),
        ] {
            let value = text(value)?;
            let set = self.library.conf_set;
            // SAFETY: as above.
            outcome(unsafe { set(self.handle, option.as_ptr(), value.as_ptr()) })
                .map_err(failed)?;
        }
        Ok(())
    }

    pub(crate) const fn library(&self) -> &'static Functions {
        self.library
    }

    /// The names of all pools, in no order.
    pub fn pools(&self) -> Result<Vec<String>, Failed> {
        let failed = |errno| Failed { what: "cannot list the pools".to_owned(), errno };
        let mut buffer: Vec<u8> = vec![0; 4096];
        loop {
            let (start, length) = (buffer.as_mut_ptr().cast::<c_char>(), buffer.len());
            // SAFETY: the library writes at most so many bytes there.
            let told = unsafe { (self.library.pool_list)(self.handle, start, length) };
            let needed = outcome(told).map_err(failed)?;
            if needed <= buffer.len() {
                return Ok(texts(&buffer));
            }
            buffer.resize(needed, 0);
        }
    }

    /// Opens a pool, for the objects of one namespace in it.
    pub fn pool(self: &Arc<Self>, name: &str, namespace: &CStr) -> Result<Arc<Pool>, Failed> {
        let failed = |errno| Failed { what: format!("cannot open pool `{name}`"), errno };
        let named = CString::new(name).map_err(|_| failed(Errno::INVAL))?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written to; the name is alive during the call.
        let made =
            unsafe { (self.library.ioctx_create)(self.handle, named.as_ptr(), &raw mut handle) };
        outcome(made).map_err(failed)?;
        Ok(Pool::new(self, handle, name, namespace))
    }

    /// The applications that a pool is tagged with.
    pub fn applications(&self, pool: &Pool) -> Result<Vec<String>, Failed> {
        let mut buffer: Vec<u8> = vec![0; 4096];
        let mut length = buffer.len();
        let start = buffer.as_mut_ptr().cast::<c_char>();
        // SAFETY: the library writes at most `length` bytes, and how many there are.
        let told =
            unsafe { (self.library.application_list)(pool.handle(), start, &raw mut length) };
        outcome(told).map_err(|errno| {
            let what = format!("cannot tell what pool `{}` is for", pool.name());
            Failed { what, errno }
        })?;
        Ok(texts(buffer.get(..length).unwrap_or_default()))
    }

    pub(crate) fn has_pool(&self, id: i64) -> bool {
        let mut name: [c_char; 4] = [0; 4];
        let start = name.as_mut_ptr();
        // SAFETY: the library writes at most so many bytes there.
        let told =
            unsafe { (self.library.pool_reverse_lookup)(self.handle, id, start, name.len()) };
        // A name that is too long for the place is one, too.
        !matches!(outcome(told), Err(Errno::NOENT))
    }

    /// Asks the monitors; `command` and answer are JSON.
    pub fn ask_monitors(&self, command: &Value) -> Result<Value, Failed> {
        self.ask(None, command)
    }

    /// Asks one server of the cluster, an OSD; `command` and answer are JSON.
    pub fn ask_osd(&self, osd: i32, command: &Value) -> Result<Value, Failed> {
        self.ask(Some(osd), command)
    }

    fn ask(&self, osd: Option<i32>, command: &Value) -> Result<Value, Failed> {
        let library = self.library;
        let whom = osd.map_or_else(|| "the monitors".to_owned(), |osd| format!("osd.{osd}"));
        let written = command.to_string();
        let failed = |said: &str, errno| {
            let colon = if said.is_empty() { "" } else { ": " };
            Failed { what: format!("{whom} refused {written}{colon}{said}"), errno }
        };
        let text = CString::new(written.as_str()).map_err(|_| failed("", Errno::INVAL))?;
        let (texts, nothing) = ([text.as_ptr()], ptr::null());
        let mut out = Answer { library, text: ptr::null_mut(), length: 0 };
        let mut word = Answer { library, text: ptr::null_mut(), length: 0 };
        let (text, length) = (&raw mut out.text, &raw mut out.length);
        let (said, said_length) = (&raw mut word.text, &raw mut word.length);
        let (handle, texts) = (self.handle, texts.as_ptr());
        // SAFETY: one text, alive during the calls, and four places that are written to.
        let told = unsafe {
            match osd {
                None => (library.mon_command)(
                    handle,
                    texts,
                    1,
                    nothing,
                    0,
                    text,
                    length,
                    said,
                    said_length,
                ),
                Some(osd) => (library.osd_command)(
                    handle,
                    osd,
                    texts,
                    1,
                    nothing,
                    0,
                    text,
                    length,
                    said,
                    said_length,
                ),
            }
        };
        outcome(told).map_err(|errno| failed(&String::from_utf8_lossy(word.bytes()), errno))?;
        let bytes = out.bytes();
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(bytes).map_err(|error| failed(&error.to_string(), Errno::PROTO))
    }
}

/// Memory of the library's with an answer.
struct Answer {
    library: &'static Functions,
    text: *mut c_char,
    length: usize,
}

impl Answer {
    fn bytes(&self) -> &[u8] {
        if self.text.is_null() {
            return &[];
        }
        // SAFETY: the library has written so many bytes there, which are this value's now.
        unsafe { std::slice::from_raw_parts(self.text.cast(), self.length) }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.text.is_null() {
            // SAFETY: the library has made it for its caller, who gives it back once.
            unsafe { (self.library.buffer_free)(self.text) };
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let (library, handle) = (self.library, Sent(self.handle));
        // SAFETY: nobody else has the handle, and all pools are closed, since they hold this value.
        let shut_down = move || unsafe { (library.shutdown)(handle.take()) };
        if is_inside_an_end() {
            // It waits for the very thread that this is.
            std::thread::spawn(shut_down);
        } else {
            shut_down();
        }
    }
}

/// A handle on its way to another thread.
struct Sent(Handle);

// SAFETY: the library's client may be used by any thread.
unsafe impl Send for Sent {}

impl Sent {
    fn take(self) -> Handle {
        self.0
    }
}

fn default_configuration() -> PathBuf {
    std::env::var_os("CEPH_CONF").map_or_else(|| "/etc/ceph/ceph.conf".into(), PathBuf::from)
}

fn text(text: &str) -> Result<CString, ConnectError> {
    CString::new(text).map_err(|_| ConnectError::Text(text.replace('\0', "\\0")))
}

/// Texts that stand one behind the other, each ended by a zero byte; an empty one ends them.
fn texts(bytes: &[u8]) -> Vec<String> {
    let texts = bytes.split(|&byte| byte == 0).take_while(|text| !text.is_empty());
    texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}
