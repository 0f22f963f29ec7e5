//! The metadata server's service: the catalog, kept in a journal.

use std::path::Path;
use std::sync::Mutex;

use afflux_core::units::Span;
use bytes::Bytes;

use super::{Reply, Service};
use crate::catalog::Origin;
use crate::catalog::journal::JournalError;
use crate::catalog::kept::KeptCatalog;
use crate::engine::{CatalogOperation, EngineError};
use crate::lab::stream::Payload;
use crate::lab::wire::{Header, Kind, Status};
use crate::sync::lock;

/// Names, layouts and sizes, behind the wire.
#[derive(Debug)]
pub(super) struct Metadata {
    catalog: Mutex<KeptCatalog>,
}

impl Metadata {
    pub(super) fn open(dir: &Path, server: &str, servers: u32) -> Result<Self, JournalError> {
        let catalog = KeptCatalog::open_alone(dir, server, servers)?;
        Ok(Self { catalog: Mutex::new(catalog) })
    }
}

impl Service for Metadata {
    fn serve(&self, request: &Header, payload: Bytes, client: u64) -> Reply {
        if request.kind != Kind::Catalog {
            return Reply::error(Status::Invalid, "the metadata server keeps no objects");
        }
        let operation = match serde_json::from_slice::<CatalogOperation>(&payload) {
            Ok(operation) => operation,
            Err(error) => {
                return Reply::error(Status::Invalid, &format!("catalog operation: {error}"));
            }
        };
        let origin = Origin { client, request: request.id };
        let outcome = lock(&self.catalog).serve(&operation, origin);
        match outcome {
            Ok(answer) => {
                // Names and numbers always have a JSON form.
                let text = serde_json::to_vec(&answer).unwrap_or_default();
                Reply::done(Payload::text(text), Span::ZERO)
            }
            Err(EngineError::Exists(name)) => Reply::error(Status::Exists, &name),
            Err(EngineError::NotFound(name)) => Reply::error(Status::NotFound, &name),
            Err(EngineError::Invalid(why)) => Reply::error(Status::Invalid, &why),
            Err(EngineError::NoSpace { .. }) => Reply::error(Status::NoSpace, ""),
            Err(EngineError::Io { what, .. }) => Reply::error(Status::Io, &what),
            Err(other) => Reply::error(Status::Io, &other.to_string()),
        }
    }

    fn stored_bytes(&self) -> u64 {
        lock(&self.catalog).journal_bytes()
    }

    fn device(&self) -> String {
        let catalog = lock(&self.catalog);
        let torn = match catalog.torn_bytes() {
            0 => String::new(),
            bytes => format!("; cut off {bytes} bytes of a torn record at its end"),
        };
        format!("a journal of {} files{torn}", catalog.files())
    }

    fn capacity_bytes(&self) -> Option<u64> {
        None
    }
}
