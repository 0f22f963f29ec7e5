//! What a file system does, said in operations of the store.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use afflux_core::layout::Layout;
use afflux_core::setting::Setting;
use bytes::Bytes;
use fuser::Errno;

use super::Log;
use super::driver::Driver;
use super::names::{Names, Node};
use super::removed::{self, Owner, is_removed};
use crate::catalog::MAX_NAME_BYTES;
use crate::client::{Operation, Outcome, Payload};
use crate::crc::crc32c;
use crate::engine::{Engine, EngineError, FileRecord, Taken};
use crate::sync::{read, write};

/// The stripe unit of new files, which lie over all servers.
const UNIT_BYTES: u32 = 1 << 20;

/// Names of one page of a listing.
const PAGE: u32 = 1_000;

/// The files and directories of a store.
pub(super) struct Files {
    driver: Driver,
    servers: u32,
    pub(super) names: Names,
    /// Held alone while a name changes, and by those who look a name up until they have noted what
    /// they found, so that nobody takes one file for another.
    moves: RwLock<()>,
    owner: Owner,
    next_removed: AtomicU64,
    log: Log,
}

/// A node, and the number that the kernel knows it by.
pub(super) type Told = (u64, Node);

impl Files {
    pub(super) fn new(engine: Arc<dyn Engine>, setting: &Setting, log: Log) -> io::Result<Self> {
        let servers = engine.servers();
        let driver = Driver::start(engine, setting)?;
        let (names, moves, next_removed) = (Names::new(), RwLock::default(), AtomicU64::new(0));
        Ok(Self { driver, servers, names, moves, owner: Owner::own(), next_removed, log })
    }

    /// The node of a name in a directory, which the kernel is told of.
    pub(super) fn look(&self, directory: u64, name: &str) -> Result<Told, Errno> {
        let _still = read(&self.moves);
        self.find(directory, name).map(|node| self.told(node))
    }

    fn told(&self, node: Node) -> Told {
        (self.names.tell(&node), node)
    }

    fn find(&self, directory: u64, name: &str) -> Result<Node, Errno> {
        let name = self.full_name(directory, name)?;
        match self.driver.finish(Operation::open(&name)) {
            Ok(outcome) => self.record(outcome).map(Node::File),
            Err(EngineError::NotFound(_)) if self.is_directory(&name)? => Ok(Node::Directory(name)),
            Err(error) => Err(self.errno("look up", &name, &error)),
        }
    }

    /// What a number stands for; of a file, what the catalog says now.
    pub(super) fn node(&self, number: u64) -> Result<Node, Errno> {
        let _still = read(&self.moves);
        self.node_now(number)
    }

    fn node_now(&self, number: u64) -> Result<Node, Errno> {
        match self.names.node(number).ok_or(Errno::ESTALE)? {
            Node::File(_) => self.file_now(number).map(Node::File),
            directory => Ok(directory),
        }
    }

    /// A new file of a name, which is open from now on; where that is allowed, the file that has
    /// the name already.
    pub(super) fn create(&self, directory: u64, name: &str, or_open: bool) -> Result<Told, Errno> {
        let _still = read(&self.moves);
        let full = self.full_name(directory, name)?;
        // Files of one stripe spread over the servers.
        let first_server = crc32c(full.as_bytes()) % self.servers;
        let layout = Layout { unit_bytes: UNIT_BYTES, first_server, count: self.servers };
        let node = match self.create_as(&full, layout) {
            Ok(record) => Node::File(record),
            Err(Errno::EEXIST) if or_open => self.find(directory, name)?,
            Err(errno) => return Err(errno),
        };
        let told = self.told(node);
        self.names.open(told.0);
        Ok(told)
    }

    /// Somebody opens a file, and will close it.
    pub(super) fn open(&self, number: u64) -> Result<(), Errno> {
        let _still = read(&self.moves);
        self.node_now(number)?;
        if self.names.open(number) { Ok(()) } else { Err(Errno::ESTALE) }
    }

    /// Somebody closes it again. A file that lost its name meanwhile goes with the last.
    pub(super) fn close(&self, number: u64) {
        if let Some(record) = self.names.close(number) {
            self.discard(&record);
        }
    }

    pub(super) fn make_directory(&self, parent: u64, name: &str) -> Result<Told, Errno> {
        let _still = read(&self.moves);
        match self.find(parent, name) {
            Ok(_) => Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {
                let name = self.full_name(parent, name)?;
                self.names.make(&name);
                Ok(self.told(Node::Directory(name)))
            }
            Err(other) => Err(other),
        }
    }

    pub(super) fn remove_directory(&self, parent: u64, name: &str) -> Result<(), Errno> {
        let Node::Directory(name) = self.find(parent, name)? else { return Err(Errno::ENOTDIR) };
        if !self.entries(&name)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.names.unmake(&name);
        Ok(())
    }

    /// Removes a file; its bytes go with the last that has it open. Its directory stays, until it
    /// is removed or this mount ends.
    pub(super) fn remove(&self, directory: u64, name: &str) -> Result<(), Errno> {
        let moving = write(&self.moves);
        let name = self.full_name(directory, name)?;
        let record = if self.names.is_open(&name) {
            let (record, kept) = (self.now(&name)?, self.name_for_removed());
            self.run("remove", &name, Operation::rename(&name, &kept, Taken::Refused))?;
            FileRecord { name: kept, ..record }
        } else {
            self.record(self.run("remove", &name, Operation::unlink(&name))?)?
        };
        let is_kept = self.names.remove(&name, &record);
        self.keep_directory_of(&name);
        drop(moving);
        if !is_kept {
            self.discard(&record);
        }
        Ok(())
    }

    /// Gives a file another name, at one moment. A file that has that name is removed, where it may
    /// be replaced.
    pub(super) fn rename(
        &self,
        (directory, name): (u64, &str),
        (new_directory, new_name): (u64, &str),
        may_replace: bool,
    ) -> Result<(), Errno> {
        let moving = write(&self.moves);
        let from = self.full_name(directory, name)?;
        let to = self.full_name(new_directory, new_name)?;
        let taken = match may_replace {
            false => Taken::Refused,
            true if self.names.is_open(&to) => Taken::Moved(self.name_for_removed()),
            true => Taken::Replaced,
        };
        let displaced = match self.run("rename", &from, Operation::rename(&from, &to, taken)) {
            Ok(outcome) => outcome.record,
            // The names of its files cannot change at one moment: let who asks copy them.
            Err(Errno::ENOENT) if self.is_directory(&from)? => return Err(Errno::EXDEV),
            Err(errno) => return Err(errno),
        };
        let is_kept = self.names.rename(&from, &to, displaced.as_ref());
        self.keep_directory_of(&from);
        drop(moving);
        if let Some(displaced) = displaced.filter(|_| !is_kept) {
            self.discard(&displaced);
        }
        Ok(())
    }

    /// Removes what mounts of this machine left that did not come to it.
    pub(super) fn remove_left(&self) {
        let ended = |name: &str| Owner::of(name).is_some_and(|owner| owner.has_ended(&self.owner));
        self.remove_removed(removed::PLACE, ended);
    }

    /// Removes what is still kept for those who had it open.
    pub(super) fn end(&self) {
        if self.next_removed.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.remove_removed(&self.owner.prefix(), |_| true);
    }

    fn remove_removed(&self, prefix: &str, is_due: impl Fn(&str) -> bool) {
        let mut after = String::new();
        loop {
            let list = Operation::list(prefix, &after, PAGE);
            let Ok(outcome) = self.run("look for removed files in", prefix, list) else { return };
            let page = outcome.listing;
            let Some(last) = page.last() else { return };
            last.name.clone_into(&mut after);
            page.iter().filter(|record| is_due(&record.name)).for_each(|file| self.discard(file));
        }
    }

    /// A name for a file that loses its own, which no file has had.
    fn name_for_removed(&self) -> String {
        let number = self.next_removed.fetch_add(1, Ordering::Relaxed);
        format!("{}{number}", self.owner.prefix())
    }

    /// Removes what is left of a file that nobody can reach. Who removed it has done so, whatever
    /// becomes of its bytes; the log hears of it.
    fn discard(&self, record: &FileRecord) {
        let operation = match is_removed(&record.name) {
            true => Operation::remove(&record.name),
            false => Operation::remove_objects(record),
        };
        let _told = self.run("remove the bytes of", &record.name, operation);
    }

    fn keep_directory_of(&self, name: &str) {
        if let Some((directory, _)) = name.rsplit_once('/') {
            self.names.make(directory);
        }
    }

    /// Bytes of a file, fewer at its end.
    pub(super) fn read(&self, number: u64, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
        let mut record = self.known(number)?;
        if offset + u64::from(length) > record.size_bytes {
            // Others may have made it longer.
            let _still = read(&self.moves);
            record = self.file_now(number)?;
        }
        let length = u64::from(length).min(record.size_bytes.saturating_sub(offset));
        if length == 0 {
            return Ok(Vec::new());
        }
        let read = Operation::read_all(record.file, record.layout, offset, length);
        Ok(self.run("read", &record.name, read)?.data)
    }

    /// Writes, and records the size where that grows; both are acknowledged when this returns.
    pub(super) fn write(&self, number: u64, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let record = self.known(number)?;
        let (length, payload) = (data.len() as u64, Payload::bytes(Bytes::copy_from_slice(data)));
        if offset + length <= record.size_bytes {
            let write = Operation::write(record.file, record.layout, offset, length, &payload);
            return self.run("write", &record.name, write).map(drop);
        }
        self.extend(number, &record, offset, length, &payload).map(drop)
    }

    /// Gives a file another length: a larger one, or none.
    pub(super) fn resize(&self, number: u64, size_bytes: u64) -> Result<FileRecord, Errno> {
        let still = read(&self.moves);
        let record = self.file_now(number)?;
        drop(still);
        if size_bytes == record.size_bytes {
            return Ok(record);
        }
        if size_bytes > record.size_bytes {
            let nothing = Payload::bytes(Bytes::new());
            return self.extend(number, &record, size_bytes, 0, &nothing);
        }
        if size_bytes > 0 {
            // Objects cannot be cut.
            return Err(Errno::EOPNOTSUPP);
        }
        self.empty(number)
    }

    /// Puts a new file in the place of one, at one moment.
    fn empty(&self, number: u64) -> Result<FileRecord, Errno> {
        let moving = write(&self.moves);
        let record = self.known(number)?;
        let fresh = self.create_as(&self.name_for_removed(), record.layout)?;
        let rename = Operation::rename(&fresh.name, &record.name, Taken::Replaced);
        let emptied = match self.run("empty", &record.name, rename) {
            Ok(outcome) => outcome.record,
            Err(errno) => {
                self.discard(&fresh);
                return Err(errno);
            }
        };
        let fresh = FileRecord { name: record.name, ..fresh };
        self.names.renew(number, &fresh);
        drop(moving);
        if let Some(emptied) = emptied {
            let remove = Operation::remove_objects(&emptied);
            let _told = self.run("remove the bytes of", &emptied.name, remove);
        }
        Ok(fresh)
    }

    /// The entries of a directory, and which of them are directories.
    pub(super) fn entries(&self, directory: &str) -> Result<BTreeMap<String, bool>, Errno> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let (mut entries, mut after) = (BTreeMap::new(), String::new());
        loop {
            let list = Operation::list(&prefix, &after, PAGE);
            let page = self.run("list", directory, list)?.listing;
            for record in &page {
                let Some(rest) = record.name.strip_prefix(&prefix) else { continue };
                match rest.split_once('/') {
                    // A file hides the directory of its name.
                    Some((first, _)) => drop(entries.entry(first.to_owned()).or_insert(true)),
                    None => drop(entries.insert(rest.to_owned(), false)),
                }
            }
            let Some(last) = page.last().filter(|_| page.len() == PAGE as usize) else { break };
            // The rest of a directory below is passed over.
            let below = last.name.strip_prefix(&prefix).and_then(|rest| rest.split_once('/'));
            after = match below {
                Some((first, _)) => format!("{prefix}{first}/{}", char::MAX),
                None => last.name.clone(),
            };
        }
        for made in self.names.made_in(directory) {
            entries.entry(made).or_insert(true);
        }
        // Catalogs take names that no path leads to.
        entries.retain(|name, _| !["", ".", ".."].contains(&name.as_str()));
        Ok(entries)
    }

    /// A file as far as it is known here.
    fn known(&self, number: u64) -> Result<FileRecord, Errno> {
        match self.names.node(number) {
            Some(Node::File(record)) => Ok(record),
            Some(Node::Directory(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ESTALE),
        }
    }

    /// A file as the catalog knows it now. Names must not change meanwhile.
    fn file_now(&self, number: u64) -> Result<FileRecord, Errno> {
        let record = self.now(&self.known(number)?.name)?;
        self.names.renew(number, &record);
        self.known(number)
    }

    fn now(&self, name: &str) -> Result<FileRecord, Errno> {
        self.record(self.run("look up", name, Operation::open(name))?)
    }

    fn extend(
        &self,
        number: u64,
        record: &FileRecord,
        offset: u64,
        length: u64,
        payload: &Payload,
    ) -> Result<FileRecord, Errno> {
        let extend = Operation::extend(record.file, record.layout, offset, length, payload);
        match self.driver.finish(extend) {
            Ok(_) => {
                let record = FileRecord { size_bytes: offset + length, ..record.clone() };
                self.names.renew(number, &record);
                self.known(number)
            }
            // Another client has removed it, or emptied it.
            Err(EngineError::NotFound(_)) => Err(Errno::ESTALE),
            Err(error) => Err(self.errno("write", &record.name, &error)),
        }
    }

    fn create_as(&self, name: &str, layout: Layout) -> Result<FileRecord, Errno> {
        let nothing = Payload::bytes(Bytes::new());
        let create = Operation::create(name, layout, 0, &nothing);
        self.record(self.run("create", name, create)?)
    }

    fn is_directory(&self, name: &str) -> Result<bool, Errno> {
        if self.names.is_made(name) {
            return Ok(true);
        }
        let list = Operation::list(&format!("{name}/"), "", 1);
        Ok(!self.run("look up", name, list)?.listing.is_empty())
    }

    /// The catalog's name for a name in a directory.
    fn full_name(&self, directory: u64, name: &str) -> Result<String, Errno> {
        let full = match self.names.node(directory) {
            Some(Node::Directory(directory)) if directory.is_empty() => name.to_owned(),
            Some(Node::Directory(directory)) => format!("{directory}/{name}"),
            Some(Node::File(_)) => return Err(Errno::ENOTDIR),
            None => return Err(Errno::ESTALE),
        };
        if full.len() > MAX_NAME_BYTES { Err(Errno::ENAMETOOLONG) } else { Ok(full) }
    }

    fn record(&self, outcome: Outcome) -> Result<FileRecord, Errno> {
        outcome.record.ok_or_else(|| {
            (self.log)("the catalog answered without a record");
            Errno::EIO
        })
    }

    fn run(&self, doing: &str, name: &str, operation: Operation) -> Result<Outcome, Errno> {
        self.driver.finish(operation).map_err(|error| self.errno(doing, name, &error))
    }

    /// The number that programs are told; the log is told more, unless all is as it should be.
    fn errno(&self, doing: &str, name: &str, error: &EngineError) -> Errno {
        let errno = match error {
            EngineError::NotFound(_) => return Errno::ENOENT,
            EngineError::Exists(_) => return Errno::EEXIST,
            EngineError::NoSpace { .. } => Errno::ENOSPC,
            EngineError::Invalid(_) => Errno::EINVAL,
            EngineError::Unsupported { .. } => Errno::EOPNOTSUPP,
            EngineError::TimedOut { .. } => Errno::ETIMEDOUT,
            EngineError::Unreachable { .. }
            | EngineError::Cancelled
            | EngineError::Io { .. }
            | EngineError::Protocol { .. } => Errno::EIO,
        };
        (self.log)(&format!("cannot {doing} `{name}`: {error}"));
        errno
    }
}
