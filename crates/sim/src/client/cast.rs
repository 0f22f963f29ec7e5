//! Who is on stage: the applications of a scenario as ranges of clients, paths and files.

use std::sync::Arc;

use afflux_core::class::Class;
use afflux_core::layout::Layout;
use afflux_core::rng::Rng;
use afflux_core::units::{Span, Time};
use afflux_core::workload::{Access, Kind, Placing, Step, Workload};

use crate::request::NONE;
use crate::scenario::{Application, Scenario};
use crate::server::{FileShape, golden_stride};
use crate::world::SimError;

/// Most clients whose measurements are kept apart unless the scenario says otherwise, and the
/// entries that more are merged into: the distributions of each may take 300 KiB in a long run.
const KEPT_APART: u32 = 4_096;
const MERGED: u32 = 256;

/// Paths, of 152 bytes each, and flows, of some 200.
const MOST_PATHS: u64 = 100_000_000;
const MOST_FLOWS: u64 = 10_000_000;

/// One application: which clients it has, where their paths stand, how their files lie.
#[derive(Clone, Debug)]
pub(crate) struct Cast {
    pub(crate) workload: Arc<Workload>,
    pub(crate) start: Span,
    /// Whether its clients keep to any limit.
    pub(crate) obeys: bool,
    /// Bytes after which each client ends.
    pub(crate) bytes: Option<u64>,
    pub(crate) first_client: u32,
    pub(crate) clients: u32,
    pub(crate) first_path: u32,
    pub(crate) paths_per_client: u32,
    /// The first of its pairs of client and server.
    pub(crate) first_pair: u32,
    /// The first of its entries in the measurement, and how many clients share one.
    pub(crate) first_group: u32,
    pub(crate) merge: u32,
    /// In which order its clients start.
    stride: u64,
    shift: u64,
    /// Servers over which its files go round, and the first of them.
    first_server: u32,
    servers: u32,
    stripes: u32,
    /// How many of them one client's files may touch.
    width: u32,
    /// Classes for which a client has a path to each of those.
    classes: Vec<Class>,
    /// Place of each class among these.
    class_places: [u32; Class::ALL.len()],
}

/// All applications, and what there is in all.
pub(crate) struct Casting {
    pub(crate) casts: Vec<Cast>,
    pub(crate) clients: u32,
    pub(crate) paths: u64,
    pairs: u64,
    pub(crate) groups: u32,
}

impl Casting {
    pub(crate) fn of(scenario: &Scenario, seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("order");
        let mut casting = Self { casts: Vec::new(), clients: 0, paths: 0, pairs: 0, groups: 0 };
        let clients = scenario.client_count();
        let usual = if clients > KEPT_APART { clients.div_ceil(MERGED) } else { 1 };
        let merge = scenario.run.merge.unwrap_or(usual);
        for application in &scenario.applications {
            let mut cast = Cast::new(application, scenario);
            cast.first_client = casting.clients;
            cast.first_path = casting.paths as u32;
            // A pair has at least one path, so that where paths fit into a number, so do pairs.
            cast.first_pair = casting.pairs as u32;
            casting.pairs += u64::from(cast.clients) * u64::from(cast.width);
            (cast.first_group, cast.merge) = (casting.groups, merge);
            cast.shift = rng.below(u64::from(cast.clients));
            casting.clients += cast.clients;
            casting.paths += u64::from(cast.clients) * u64::from(cast.paths_per_client);
            casting.groups += cast.clients.div_ceil(merge);
            casting.casts.push(cast);
        }
        casting
    }

    /// Whether all of it fits into a machine.
    pub(crate) fn check(&self, scenario: &Scenario) -> Result<(), SimError> {
        let pairs = u64::from(self.clients) * u64::from(scenario.servers.count);
        let in_segments = scenario.network.buffer.is_some() || scenario.network.segment.is_some();
        let flows = if in_segments { pairs * 2 } else { 0 };
        for (what, count, most) in [("paths", self.paths, MOST_PATHS), ("flows", flows, MOST_FLOWS)]
        {
            if count > most {
                return Err(SimError::TooLarge { what, count, most });
            }
        }
        Ok(())
    }
}

impl Cast {
    fn new(application: &Application, scenario: &Scenario) -> Self {
        let mut workload = application.workload.clone();
        workload.clients = scenario.clients_of(application);
        if let Some(threads) = scenario.clients.threads {
            workload.streams.iter_mut().for_each(|stream| stream.threads = threads);
        }
        let left = scenario.servers.count - application.first_server;
        // A range that begins at the first server may be all of them.
        let servers = application.servers.unwrap_or(left).min(left).max(1);
        let files = &workload.files;
        let stripes = match files.stripe_count {
            0 => servers,
            count => count.min(servers),
        };
        let width = (files.each.min(servers) + stripes - 1).min(servers);
        let classes = classes(&workload);
        let mut class_places = [NONE; Class::ALL.len()];
        for (place, class) in classes.iter().enumerate() {
            class_places[class.index()] = place as u32;
        }
        let catalog = u32::from(asks_catalog(&workload));
        Self {
            start: application.start,
            obeys: application.obeys,
            bytes: application.bytes,
            first_client: 0,
            clients: workload.clients,
            first_path: 0,
            paths_per_client: width * classes.len() as u32 + catalog,
            first_pair: 0,
            first_group: 0,
            merge: 1,
            stride: golden_stride(u64::from(workload.clients)),
            shift: 0,
            first_server: application.first_server,
            servers,
            stripes,
            width,
            classes,
            class_places,
            workload: Arc::new(workload),
        }
    }

    /// The number of a client's file within the application.
    pub(crate) fn file(&self, local: u32, file: u32) -> u32 {
        match self.workload.files.placing {
            Placing::PerClient => local * self.workload.files.each + file,
            Placing::Shared => file,
        }
    }

    /// How a file lies: first servers go round, so that files of one stripe spread over all.
    pub(crate) fn layout(&self) -> Layout {
        let unit_bytes = self.workload.files.stripe_unit;
        Layout { unit_bytes, first_server: 0, count: self.stripes }
    }

    /// The server of a stripe of a file that is numbered within the application.
    pub(crate) fn server(&self, file: u32, stripe: u32) -> u32 {
        self.first_server + (file % self.servers + stripe) % self.servers
    }

    /// The stripe of a file that a server keeps.
    pub(crate) const fn stripe(&self, file: u32, server: u32) -> u32 {
        (server - self.first_server + self.servers - file % self.servers) % self.servers
    }

    /// The place of a path among those of its client; `server` is none for the catalog.
    pub(crate) fn slot(&self, local: u32, server: u32, class: Class) -> u32 {
        if server == NONE {
            return self.paths_per_client - 1;
        }
        let base = self.file(local, 0) % self.servers;
        let among = (server - self.first_server + self.servers - base) % self.servers;
        debug_assert!(among < self.width, "a path that was not foreseen");
        among * self.classes.len() as u32 + self.class_places[class.index()]
    }

    /// Server and class of the path at `slot` of a client.
    pub(crate) fn end_of(&self, local: u32, slot: u32) -> (u32, Class) {
        let classes = self.classes.len() as u32;
        let among = slot / classes.max(1);
        if among >= self.width || classes == 0 {
            return (NONE, Class::Metadata);
        }
        let base = self.file(local, 0) % self.servers;
        let server = self.first_server + (base + among) % self.servers;
        (server, self.classes[(slot % classes) as usize])
    }

    /// Which of its client's servers a path at `slot` leads to; none for the catalog.
    pub(crate) fn among(&self, slot: u32) -> Option<u32> {
        let among = slot / self.class_count().max(1);
        (among < self.width && self.class_count() > 0).then_some(among)
    }

    /// The first path to one of its client's servers.
    pub(crate) fn slot_of(&self, among: u32) -> u32 {
        among * self.class_count()
    }

    /// Paths of a client to each of its servers.
    pub(crate) fn class_count(&self) -> u32 {
        self.classes.len() as u32
    }

    /// Paths of a client for one direction of data.
    pub(crate) const fn data_paths(&self) -> u32 {
        self.width
    }

    /// Whether a stream reads in sequence, so that what comes next can be asked for ahead.
    pub(crate) fn reads_ahead(&self, stream: u32) -> bool {
        let ahead = |step: &Step| step.kind == Kind::Read && step.access == Access::Sequential;
        self.workload.streams[stream as usize].steps.iter().all(ahead)
    }

    /// When the `number`-th client to start does so, and which it is. Starts are spread over
    /// `stagger`, each within a part of its own, in an order that `chance` decides.
    pub(crate) fn start_of(&self, number: u32, stagger: Span, chance: &mut Rng) -> (Time, u32) {
        let part = stagger.as_nanos() / u64::from(self.clients);
        let late = part * u64::from(number) + chance.below(part + 1);
        let at = (u64::from(number) * self.stride + self.shift) % u64::from(self.clients);
        (Time::ZERO + self.start + Span::from_nanos(late), self.first_client + at as u32)
    }

    /// What places depend on.
    pub(crate) fn file_shape(&self) -> FileShape {
        let files = &self.workload.files;
        let owners = match files.placing {
            Placing::PerClient => u64::from(self.clients),
            Placing::Shared => 1,
        };
        FileShape {
            files: owners * u64::from(files.each),
            file_bytes: files.size,
            servers: self.servers,
            stripes: self.stripes,
            unit_bytes: files.stripe_unit,
        }
    }
}

fn kinds(workload: &Workload) -> impl Iterator<Item = Kind> + '_ {
    workload.streams.iter().flat_map(|stream| stream.steps.iter().map(|step| step.kind))
}

/// Classes of the requests that a workload sends to storage servers.
fn classes(workload: &Workload) -> Vec<Class> {
    let of = |kind| match kind {
        Kind::Read => Some(Class::Read),
        Kind::Write | Kind::Append | Kind::Create => Some(Class::Write),
        Kind::Delete => Some(Class::Metadata),
        Kind::Stat => None,
    };
    let sent = |class: &Class| kinds(workload).any(|kind| of(kind) == Some(*class));
    Class::ALL.into_iter().filter(sent).collect()
}

/// Whether a workload asks the server of names.
fn asks_catalog(workload: &Workload) -> bool {
    kinds(workload).any(|kind| !matches!(kind, Kind::Read | Kind::Write))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_found_where_it_stands() {
        for (workload, servers) in [("fileserver", 7), ("mix-10-1", 4), ("seq-write", 1)] {
            let scenario = Scenario::default()
                .with(&[format!("workload={workload}"), format!("servers.count={servers}")])
                .unwrap();
            let cast = &Casting::of(&scenario, 1).casts[0];
            for local in 0..cast.clients {
                for file in (0..cast.workload.files.each).map(|file| cast.file(local, file)) {
                    for stripe in 0..cast.stripes {
                        let server = cast.server(file, stripe);
                        assert_eq!(cast.stripe(file, server), stripe);
                        for class in &cast.classes {
                            let slot = cast.slot(local, server, *class);
                            assert_eq!(cast.end_of(local, slot), (server, *class));
                        }
                    }
                }
            }
        }
    }
}
