//! The files of a workload on an engine: their names, their striping, and their state at the start.

use std::collections::BTreeMap;
use std::sync::Arc;

use afflux_core::layout::Layout;
use afflux_core::setting::Setting;
use afflux_core::units::Time;
use afflux_core::workload::{Generator, Placing, Workload};
use afflux_node::clock;

use crate::client::{Client, Identity, Operation, Payload};
use crate::engine::{Engine, EngineError, FileRecord};

/// The files of a workload, as they stand before a run.
#[derive(Clone, Debug)]
pub struct FileSet {
    workload: Workload,
    servers: u32,
    records: BTreeMap<String, FileRecord>,
}

/// The files as one client sees them.
pub(crate) struct ClientFiles<'a> {
    set: &'a FileSet,
    client: u32,
    /// Those that exist, by their number in the workload.
    pub(crate) records: BTreeMap<u32, FileRecord>,
}

impl ClientFiles<'_> {
    /// The name of a file, whether it exists or not.
    pub(crate) fn name(&self, file: u32) -> String {
        self.set.name(self.client, file)
    }

    /// How it is striped.
    pub(crate) fn layout(&self, file: u32) -> Layout {
        self.set.layout(self.client, file)
    }
}

/// How many operations prepare files at the same time.
const AT_ONCE: usize = 8;

impl FileSet {
    /// Brings the files into the state in which the workload starts: those that it finds exist at
    /// full size, and no others of its names do.
    ///
    /// When that fails, as on a target that is too small, all files of its names are removed.
    pub(crate) fn prepare(
        engine: Arc<dyn Engine>,
        workload: &Workload,
    ) -> Result<Self, EngineError> {
        let prepared = Self::bring_about(Arc::clone(&engine), workload);
        if prepared.is_err() {
            // The first error is the one to tell.
            let _ = Self::remove(engine, workload);
        }
        prepared
    }

    /// Removes all files of the workload's names.
    pub(crate) fn remove(engine: Arc<dyn Engine>, workload: &Workload) -> Result<(), EngineError> {
        let mut client = Client::new(engine, &Setting::none(), Identity::ALONE);
        let records = list(&mut client, &format!("{}/", workload.name))?;
        let removals = records.iter().map(|record| Operation::remove(&record.name));
        run_all(&mut client, removals.collect()).map(drop)
    }

    fn bring_about(engine: Arc<dyn Engine>, workload: &Workload) -> Result<Self, EngineError> {
        let servers = engine.servers();
        let mut files = Self { workload: workload.clone(), servers, records: BTreeMap::new() };
        let mut client = Client::new(engine, &Setting::none(), Identity::ALONE)
            .with_max_request(workload.max_request);
        let wanted = files.wanted();
        let payload = Payload::pattern(workload.max_request);
        let mut jobs = Vec::new();
        for record in list(&mut client, &files.prefix())? {
            let right = wanted.get(&record.name).is_some_and(|layout| *layout == record.layout)
                && record.size_bytes == workload.files.size;
            if right {
                files.records.insert(record.name.clone(), record);
            } else {
                jobs.push(Operation::remove(&record.name));
            }
        }
        run_all(&mut client, jobs)?;
        let missing = wanted.iter().filter(|(name, _)| !files.records.contains_key(*name));
        let creates = missing
            .map(|(name, layout)| Operation::create(name, *layout, workload.files.size, &payload))
            .collect();
        for record in run_all(&mut client, creates)? {
            let record = FileRecord { size_bytes: workload.files.size, ..record };
            files.records.insert(record.name.clone(), record);
        }
        Ok(files)
    }

    /// The files as client `client` sees them.
    pub(crate) fn of_client(&self, client: u32) -> ClientFiles<'_> {
        let numbers = 0..self.workload.files.each;
        let records = numbers
            .filter_map(|number| {
                let record = self.records.get(&self.name(client, number))?;
                Some((number, record.clone()))
            })
            .collect();
        ClientFiles { set: self, client, records }
    }

    fn prefix(&self) -> String {
        format!("{}/", self.workload.name)
    }

    fn name(&self, client: u32, file: u32) -> String {
        match self.workload.files.placing {
            Placing::PerClient => format!("{}/{client}/{file}", self.workload.name),
            Placing::Shared => format!("{}/shared/{file}", self.workload.name),
        }
    }

    /// First servers go round, so that files of one stripe spread over all servers.
    fn layout(&self, client: u32, file: u32) -> Layout {
        let files = &self.workload.files;
        let count = match files.stripe_count {
            0 => self.servers,
            count => count.min(self.servers),
        };
        let owner = match files.placing {
            Placing::PerClient => client,
            Placing::Shared => 0,
        };
        let first_server =
            (u64::from(owner) * u64::from(files.each) + u64::from(file)) % u64::from(self.servers);
        Layout { unit_bytes: files.stripe_unit, first_server: first_server as u32, count }
    }

    fn wanted(&self) -> BTreeMap<String, Layout> {
        let owners = match self.workload.files.placing {
            Placing::PerClient => self.workload.clients,
            Placing::Shared => 1,
        };
        (0..owners)
            .flat_map(|client| {
                let generator = Generator::new(&self.workload, client, 0);
                let files = generator.files_at_start().to_vec();
                files.into_iter().map(move |file| (client, file))
            })
            .map(|(client, file)| (self.name(client, file), self.layout(client, file)))
            .collect()
    }
}

/// All records under `prefix`, page by page.
pub(crate) fn list(client: &mut Client, prefix: &str) -> Result<Vec<FileRecord>, EngineError> {
    const PAGE: u32 = 1_000;
    let mut records: Vec<FileRecord> = Vec::new();
    loop {
        let after = records.last().map_or(String::new(), |record| record.name.clone());
        let page = client.finish(Operation::list(prefix, &after, PAGE))?.listing;
        let last = page.len() < PAGE as usize;
        records.extend(page);
        if last {
            return Ok(records);
        }
    }
}

/// Runs all operations, a few at the same time; gives the records that came of them. After an error
/// no more are begun, but those under way are waited for, so that none acts later.
pub(crate) fn run_all(
    client: &mut Client,
    operations: Vec<Operation>,
) -> Result<Vec<FileRecord>, EngineError> {
    let (mut records, mut left) = (Vec::new(), operations.into_iter().enumerate());
    let (mut under_way, mut failure) = (0, None);
    loop {
        while under_way < AT_ONCE && failure.is_none() {
            let Some((id, operation)) = left.next() else { break };
            client.submit(clock::now(), id as u64, operation);
            under_way += 1;
        }
        if under_way == 0 {
            return failure.map_or(Ok(records), Err);
        }
        for done in client.wait(Time::NEVER, None) {
            under_way -= 1;
            match done.outcome {
                Ok(outcome) => records.extend(outcome.record),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
    }
}
