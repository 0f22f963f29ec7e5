//! One regulated path of a client: its controller's state and the requests that wait for it.

use std::collections::VecDeque;
use std::sync::Arc;

use afflux_core::class::Class;
use afflux_core::path::{Controller, HoldLedger, LoggedPath, PathKey, PathState};
use afflux_core::units::Time;

use crate::engine::{Operation, Place};

/// A path and its queue.
pub(super) struct Path {
    pub(super) place: Place,
    pub(super) class: Class,
    pub(super) controller: Arc<Controller>,
    pub(super) state: PathState,
    pub(super) pending: VecDeque<Pending>,
    pub(super) holds: HoldLedger,
    /// Whether any reply came.
    pub(super) answered: bool,
}

/// A request that was built and not yet answered.
pub(super) struct Pending {
    /// The operation that it belongs to.
    pub(super) operation: u64,
    pub(super) built: Time,
    pub(super) file_offset_bytes: u64,
    pub(super) size_bytes: u32,
    pub(super) request: Slot,
}

/// The request itself, until it is sent.
pub(super) struct Slot(Option<Operation>);

impl Slot {
    pub(super) fn data_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, Operation::data_bytes)
    }

    /// The request; a slot is emptied once, when it is sent.
    pub(super) fn take(&mut self) -> Operation {
        self.0.take().expect("a request is sent once")
    }
}

impl Pending {
    pub(super) fn new(id: u64, built: Time, file_offset_bytes: u64, request: Operation) -> Self {
        let size_bytes = request.data_bytes() as u32;
        let request = Slot(Some(request));
        Self { operation: id, built, file_offset_bytes, size_bytes, request }
    }
}

impl Path {
    pub(super) fn new(place: Place, class: Class, controller: &Arc<Controller>) -> Self {
        Self {
            place,
            class,
            state: controller.start(),
            controller: Arc::clone(controller),
            pending: VecDeque::new(),
            holds: HoldLedger::default(),
            answered: false,
        }
    }

    /// Position of a path in a client's list; the catalog comes after all storage servers.
    pub(super) fn index(place: Place, class: Class, servers: u32) -> usize {
        let server = match place {
            Place::Storage(server) => server,
            Place::Metadata => servers,
        };
        server as usize * Class::ALL.len() + class.index()
    }

    /// Turns are for data: a name that must be looked up should not wait for them.
    pub(super) fn takes_turns(&self) -> bool {
        self.class != Class::Metadata
    }

    /// The path's name in traces.
    pub(super) fn key(&self) -> PathKey {
        PathKey { server: self.number(), class: self.class, tenant: 0 }
    }

    /// The path's name in decision logs.
    pub(super) const fn logged(&self) -> LoggedPath {
        let server = match self.place {
            Place::Storage(server) => Some(server),
            Place::Metadata => None,
        };
        (server, self.class)
    }

    pub(super) fn number(&self) -> u32 {
        match self.place {
            Place::Storage(server) => server,
            Place::Metadata => 0,
        }
    }
}
