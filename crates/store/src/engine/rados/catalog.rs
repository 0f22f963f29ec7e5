//! Names, layouts and sizes of files, as keys of one object of the first pool.
//!
//! `n/NAME` has the file's record, `f/NUMBER` its name; `next` is the first number that no client
//! has taken. `servers`, in every pool, are the pools that all layouts count. Each change names
//! what it found, and is made again when somebody else was faster; so any number of clients may
//! work at once, and one that dies leaves nothing half done. A rename is one change of all the keys
//! that it concerns.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use afflux_librados::{Call, Change, Errno, Page, Pool};

use super::RadosError;
use super::under_way::Ticket;
use crate::catalog::{MAX_LIST, check_layout, check_name, check_rename, displace};
use crate::engine::{Answer, CatalogOperation, EngineError, FileRecord, Taken};
use crate::sync::lock;

const OBJECT: &CStr = c"catalog";
const SERVERS: &[u8] = b"servers";
const NEXT: &[u8] = b"next";
/// So many numbers a client takes at once; those it does not use are never used.
const NUMBERS: u64 = 64;
/// The records of so many files are remembered for when they grow.
const REMEMBERED: usize = 4096;

/// The catalog, as one client sees it.
#[derive(Debug)]
pub(super) struct Catalog {
    pool: Arc<Pool>,
    servers: u32,
    /// Numbers that this client took and has not given to files.
    numbers: Mutex<Range<u64>>,
    /// Records as they were last seen, by the numbers of their files.
    seen: Mutex<BTreeMap<u64, Seen>>,
}

/// A record, and the bytes that it was read from.
#[derive(Clone, Debug)]
struct Seen {
    record: FileRecord,
    bytes: Vec<u8>,
}

/// Who waits for the library: a request, or nobody who could give up.
type Asker<'a> = Option<&'a Ticket>;

impl Catalog {
    /// The catalog in the first of `pools`; made if there is none.
    pub(super) fn open(pools: &[Arc<Pool>]) -> Result<Self, RadosError> {
        let names: Vec<_> = pools.iter().map(|pool| (pool.name(), pool.id())).collect();
        let ours = serde_json::to_string(&names)
            .map_err(|error| RadosError::Catalog(error.to_string()))?;
        for pool in pools {
            claim(pool, &ours)?;
        }
        Ok(Self {
            pool: Arc::clone(pools.first().ok_or(RadosError::NoPool)?),
            servers: u32::try_from(pools.len()).unwrap_or(u32::MAX),
            numbers: Mutex::new(0..0),
            seen: Mutex::default(),
        })
    }

    /// Carries an operation out. Waits for the cluster; giving `ticket` up ends that.
    pub(super) fn serve(
        &self,
        ticket: &Ticket,
        operation: CatalogOperation,
    ) -> Result<Answer, Problem> {
        match operation {
            CatalogOperation::Create { name, layout } => {
                check_name(&name)?;
                check_layout(&layout, self.servers)?;
                let file = self.number(ticket)?;
                let record = FileRecord { name, file, layout, size_bytes: 0 };
                self.create(ticket, record)
            }
            CatalogOperation::Open { name } => {
                check_name(&name)?;
                Ok(Answer::File(self.find(ticket, &name)?.record))
            }
            CatalogOperation::Extend { file, size_bytes } => self.extend(ticket, file, size_bytes),
            CatalogOperation::Unlink { name } => {
                check_name(&name)?;
                self.unlink(ticket, &name)
            }
            CatalogOperation::Rename { from, to, taken } => {
                check_rename(&from, &to, &taken)?;
                self.rename(ticket, &from, &to, &taken)
            }
            CatalogOperation::List { prefix, after, limit } => {
                self.list(ticket, &prefix, &after, limit)
            }
        }
    }

    fn create(&self, ticket: &Ticket, record: FileRecord) -> Result<Answer, Problem> {
        let key = name_key(&record.name);
        let bytes = written(&record)?;
        let change = Change::default()
            .expecting(&key, b"")
            .setting(&key, &bytes)
            .setting(&number_key(record.file), record.name.as_bytes());
        if !self.change(Some(ticket), &change)? {
            return Err(EngineError::Exists(record.name).into());
        }
        self.remember(Seen { record: record.clone(), bytes });
        Ok(Answer::File(record))
    }

    /// A number that no file has had.
    fn number(&self, ticket: &Ticket) -> Result<u64, Problem> {
        loop {
            if let Some(number) = lock(&self.numbers).next() {
                return Ok(number);
            }
            let found = self.value(Some(ticket), NEXT)?;
            let first = if found.is_empty() { 1 } else { number_in(&found)? };
            let next = (first + NUMBERS).to_string();
            let change = Change::default().expecting(NEXT, &found).setting(NEXT, next.as_bytes());
            if self.change(Some(ticket), &change)? {
                // Two threads may have come here; what one of them took is then not used.
                *lock(&self.numbers) = first..first + NUMBERS;
            }
        }
    }

    fn find(&self, ticket: &Ticket, name: &str) -> Result<Seen, Problem> {
        let bytes = self.value(Some(ticket), &name_key(name))?;
        if bytes.is_empty() {
            return Err(EngineError::NotFound(name.to_owned()).into());
        }
        let seen = Seen { record: record_in(&bytes)?, bytes };
        self.remember(seen.clone());
        Ok(seen)
    }

    /// A file by its number, whatever its name is now.
    fn find_number(&self, ticket: &Ticket, file: u64) -> Result<Option<Seen>, Problem> {
        let number = number_key(file);
        let mut name = self.value(Some(ticket), &number)?;
        while !name.is_empty() {
            // Both at one moment, since it may be renamed between two looks.
            let key = [&b"n/"[..], &name].concat();
            let [now, bytes] = self.values(Some(ticket), [&number[..], &key[..]])?;
            if now == name {
                let seen = Seen { record: record_in(&bytes)?, bytes };
                self.remember(seen.clone());
                return Ok(Some(seen));
            }
            name = now;
        }
        Ok(None)
    }

    fn extend(&self, ticket: &Ticket, file: u64, size_bytes: u64) -> Result<Answer, Problem> {
        let missing = || Problem::from(EngineError::NotFound(format!("number {file}")));
        // What is remembered spares a look, and when it is out of date nothing is changed by it.
        let mut remembered = lock(&self.seen).get(&file).cloned();
        loop {
            let seen = match remembered.take().filter(|seen| seen.record.size_bytes < size_bytes) {
                Some(seen) => seen,
                None => self.find_number(ticket, file)?.ok_or_else(missing)?,
            };
            if seen.record.size_bytes >= size_bytes {
                return Ok(Answer::Done);
            }
            let record = FileRecord { size_bytes, ..seen.record };
            let (key, bytes) = (name_key(&record.name), written(&record)?);
            let change = Change::default().expecting(&key, &seen.bytes).setting(&key, &bytes);
            if self.change(Some(ticket), &change)? {
                self.remember(Seen { record, bytes });
                return Ok(Answer::Done);
            }
        }
    }

    fn unlink(&self, ticket: &Ticket, name: &str) -> Result<Answer, Problem> {
        loop {
            let Seen { record, bytes } = self.find(ticket, name)?;
            let key = name_key(name);
            let change = Change::default()
                .expecting(&key, &bytes)
                .removing(&key)
                .removing(&number_key(record.file));
            if self.change(Some(ticket), &change)? {
                lock(&self.seen).remove(&record.file);
                return Ok(Answer::File(record));
            }
        }
    }

    fn rename(
        &self,
        ticket: &Ticket,
        from: &str,
        to: &str,
        taken: &Taken,
    ) -> Result<Answer, Problem> {
        let aside = if let Taken::Moved(aside) = taken { aside } else { "" };
        let keys = [from, to, aside].map(name_key);
        loop {
            let [source, target, third] =
                self.values(Some(ticket), keys.each_ref().map(Vec::as_slice))?;
            if source.is_empty() {
                return Err(EngineError::NotFound(from.to_owned()).into());
            }
            let record = FileRecord { name: to.to_owned(), ..record_in(&source)? };
            let holder = if target.is_empty() { None } else { Some(record_in(&target)?) };
            let is_free = |_: &str| third.is_empty();
            let Some(displaced) = displace(from, to, holder.as_ref(), taken, is_free)? else {
                return Ok(Answer::Done);
            };
            let bytes = written(&record)?;
            let mut change = Change::default()
                .expecting(&keys[0], &source)
                .expecting(&keys[1], &target)
                .setting(&keys[1], &bytes)
                .setting(&number_key(record.file), to.as_bytes())
                .removing(&keys[0]);
            if let Some(displaced) = &displaced {
                let number = number_key(displaced.file);
                change = match taken {
                    Taken::Moved(aside) => change
                        .expecting(&keys[2], b"")
                        .setting(&keys[2], &written(displaced)?)
                        .setting(&number, aside.as_bytes()),
                    _ => change.removing(&number),
                };
            }
            if self.change(Some(ticket), &change)? {
                self.remember(Seen { record, bytes });
                if let Some(displaced) = &displaced {
                    lock(&self.seen).remove(&displaced.file);
                }
                return Ok(displaced.map_or(Answer::Done, Answer::File));
            }
        }
    }

    fn list(
        &self,
        ticket: &Ticket,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Answer, Problem> {
        let limit = limit.min(MAX_LIST) as usize;
        let mut files: Vec<FileRecord> = Vec::new();
        // No name has a zero byte, so that nothing starts with one.
        let text = |text: &str| CString::new(name_key(text)).ok();
        let (Some(prefix), Some(mut after)) = (text(prefix), text(after)) else {
            let why = "a listing's prefix and start contain no zero byte".to_owned();
            return Err(EngineError::Invalid(why).into());
        };
        while files.len() < limit {
            let left = (limit - files.len()) as u64;
            // A server answers with fewer keys than it is asked for when they are many.
            let page = wait(Some(ticket), |done| {
                let done = move |page| {
                    let _ = done.send(page);
                };
                self.pool.list_keys(OBJECT, &after, &prefix, left, done)
            })?;
            for (key, bytes) in &page.keys {
                files.push(record_in(bytes)?);
                after = CString::new(key.clone()).unwrap_or_default();
            }
            if !page.more || page.keys.is_empty() {
                break;
            }
        }
        Ok(Answer::Files(files))
    }

    fn remember(&self, seen: Seen) {
        let mut all = lock(&self.seen);
        if all.len() >= REMEMBERED {
            // Whatever is forgotten costs one more look when it grows again.
            all.clear();
        }
        all.insert(seen.record.file, seen);
    }

    fn value(&self, asker: Asker<'_>, key: &[u8]) -> Result<Vec<u8>, Errno> {
        value(&self.pool, asker, key)
    }

    /// The values of several keys at one moment.
    fn values<const N: usize>(
        &self,
        asker: Asker<'_>,
        keys: [&[u8]; N],
    ) -> Result<[Vec<u8>; N], Errno> {
        let found: BTreeMap<_, _> = page(&self.pool, asker, &keys)?.keys.into_iter().collect();
        Ok(keys.map(|key| found.get(key).cloned().unwrap_or_default()))
    }

    fn change(&self, asker: Asker<'_>, change: &Change) -> Result<bool, Errno> {
        make(&self.pool, asker, change)
    }
}

/// Makes a pool one of the servers `ours`, unless it is one of others: the objects of two stores
/// have the same names.
fn claim(pool: &Arc<Pool>, ours: &str) -> Result<(), RadosError> {
    let failed = |errno: Errno| {
        let pool = pool.name();
        RadosError::Catalog(format!("cannot tell what pool `{pool}` belongs to: {errno}"))
    };
    // An object must be there before its keys can be compared.
    make(pool, None, &Change::default().setting(b"format", b"afflux 1")).map_err(failed)?;
    let new = Change::default().expecting(SERVERS, b"").setting(SERVERS, ours.as_bytes());
    if make(pool, None, &new).map_err(failed)? {
        return Ok(());
    }
    let kept = value(pool, None, SERVERS).map_err(failed)?;
    if kept == ours.as_bytes() {
        return Ok(());
    }
    let kept = String::from_utf8_lossy(&kept).into_owned();
    Err(RadosError::OtherPools { pool: pool.name().to_owned(), kept, ours: ours.to_owned() })
}

/// The value of a key; empty when it is missing.
fn value(pool: &Arc<Pool>, asker: Asker<'_>, key: &[u8]) -> Result<Vec<u8>, Errno> {
    let page = page(pool, asker, &[key])?;
    Ok(page.keys.into_iter().next().map_or_else(Vec::new, |(_, value)| value))
}

/// Those of some keys that are there.
fn page(pool: &Arc<Pool>, asker: Asker<'_>, keys: &[&[u8]]) -> Result<Page, Errno> {
    wait(asker, |done| {
        pool.keys(OBJECT, keys, move |page| {
            let _ = done.send(page);
        })
    })
}

/// Makes a change; says whether all was as it expected.
fn make(pool: &Arc<Pool>, asker: Asker<'_>, change: &Change) -> Result<bool, Errno> {
    wait(asker, |done| {
        pool.change_keys(OBJECT, change, move |made| {
            let _ = done.send(made);
        })
    })
}

/// Waits for what a call of the library tells.
fn wait<T>(
    asker: Asker<'_>,
    start: impl FnOnce(mpsc::Sender<Result<T, Errno>>) -> Option<Call>,
) -> Result<T, Errno> {
    let (sender, receiver) = mpsc::channel();
    let call = start(sender);
    // Giving the request up ends the call, and so the wait.
    let kept = match asker {
        Some(ticket) => {
            ticket.add(call);
            None
        }
        None => call,
    };
    let told = receiver.recv().unwrap_or(Err(Errno::CANCELED));
    drop(kept);
    told
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Problem {
    /// The catalog's own words.
    Answer(EngineError),
    /// The cluster's.
    Cluster(Errno),
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        Self::Answer(error)
    }
}

impl From<Errno> for Problem {
    fn from(errno: Errno) -> Self {
        Self::Cluster(errno)
    }
}

fn name_key(name: &str) -> Vec<u8> {
    [b"n/", name.as_bytes()].concat()
}

fn number_key(file: u64) -> Vec<u8> {
    format!("f/{file:016x}").into_bytes()
}

fn damaged(why: impl std::fmt::Display) -> EngineError {
    EngineError::Io { server: "the catalog".to_owned(), what: format!("it is damaged: {why}") }
}

fn written(record: &FileRecord) -> Result<Vec<u8>, EngineError> {
    serde_json::to_vec(record).map_err(damaged)
}

fn record_in(bytes: &[u8]) -> Result<FileRecord, EngineError> {
    serde_json::from_slice(bytes).map_err(damaged)
}

fn number_in(bytes: &[u8]) -> Result<u64, EngineError> {
    let text = std::str::from_utf8(bytes).map_err(damaged)?;
    text.parse().map_err(damaged)
}
