//! What a file system does, said in operations of the store.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use afflux_core::layout::Layout;
use afflux_core::setting::Setting;
use bytes::Bytes;
use fuser::Errno;

use super::Log;
use super::driver::Driver;
use super::names::{Names, Node};
use crate::catalog::MAX_NAME_BYTES;
use crate::client::{Operation, Outcome, Payload};
use crate::crc::crc32c;
use crate::engine::{Engine, EngineError, FileRecord};

/// The stripe unit of new files, which lie over all servers.
const UNIT_BYTES: u32 = 1 << 20;

/// Names of one page of a listing.
const PAGE: u32 = 1_000;

/// The files and directories of a store.
pub(super) struct Files {
    driver: Driver,
    servers: u32,
    pub(super) names: Names,
    log: Log,
}

impl Files {
    pub(super) fn new(engine: Arc<dyn Engine>, setting: &Setting, log: Log) -> io::Result<Self> {
        let servers = engine.servers();
        let driver = Driver::start(engine, setting)?;
        Ok(Self { driver, servers, names: Names::new(), log })
    }

    /// The node of a name in a directory.
    pub(super) fn look(&self, directory: u64, name: &str) -> Result<Node, Errno> {
        let name = self.full_name(directory, name)?;
        match self.driver.finish(Operation::open(&name)) {
            Ok(outcome) => self.record(outcome).map(Node::File),
            Err(EngineError::NotFound(_)) if self.is_directory(&name)? => Ok(Node::Directory(name)),
            Err(error) => Err(self.errno("look up", &name, &error)),
        }
    }

    /// What a number stands for; of a file, what the catalog says now.
    pub(super) fn node(&self, number: u64) -> Result<Node, Errno> {
        match self.names.node(number).ok_or(Errno::ESTALE)? {
            Node::File(record) => self.file_now(number, &record.name).map(Node::File),
            directory => Ok(directory),
        }
    }

    /// A new file of a name, which must not be taken.
    pub(super) fn create(&self, directory: u64, name: &str) -> Result<FileRecord, Errno> {
        let name = self.full_name(directory, name)?;
        // Files of one stripe spread over the servers.
        let first_server = crc32c(name.as_bytes()) % self.servers;
        let layout = Layout { unit_bytes: UNIT_BYTES, first_server, count: self.servers };
        self.create_as(&name, layout)
    }

    pub(super) fn make_directory(&self, parent: u64, name: &str) -> Result<Node, Errno> {
        match self.look(parent, name) {
            Ok(_) => Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {
                let name = self.full_name(parent, name)?;
                self.names.make(&name);
                Ok(Node::Directory(name))
            }
            Err(other) => Err(other),
        }
    }

    pub(super) fn remove_directory(&self, parent: u64, name: &str) -> Result<(), Errno> {
        let Node::Directory(name) = self.look(parent, name)? else { return Err(Errno::ENOTDIR) };
        if !self.entries(&name)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.names.unmake(&name);
        Ok(())
    }

    /// Removes a file. Its directory stays, until it is removed or this mount ends.
    pub(super) fn remove(&self, directory: u64, name: &str) -> Result<(), Errno> {
        let name = self.full_name(directory, name)?;
        self.run("remove", &name, Operation::remove(&name))?;
        if let Some((directory, _)) = name.rsplit_once('/') {
            self.names.make(directory);
        }
        Ok(())
    }

    /// Bytes of a file, fewer at its end.
    pub(super) fn read(&self, number: u64, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
        let mut record = self.known(number)?;
        if offset + u64::from(length) > record.size_bytes {
            // Others may have made it longer.
            record = self.file_now(number, &record.name)?;
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
        let record = self.known(number)?;
        let record = self.file_now(number, &record.name)?;
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
        self.run("empty", &record.name, Operation::remove(&record.name))?;
        let record = self.create_as(&record.name, record.layout)?;
        self.names.renew(number, &record);
        Ok(record)
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

    /// A file as the catalog knows it now.
    fn file_now(&self, number: u64, name: &str) -> Result<FileRecord, Errno> {
        let record = self.record(self.run("look up", name, Operation::open(name))?)?;
        self.names.renew(number, &record);
        self.known(number)
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
