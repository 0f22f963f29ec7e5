//! What goes wrong in a scenario.

use afflux_core::units::Span;

use super::Scenario;

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub at: Span,
    /// What.
    pub what: FaultKind,
    /// Which server or client; `None` means all.
    pub which: Option<u32>,
    /// How long; `None` is for ever.
    pub lasts: Option<Span>,
    /// How many times slower, for what slows.
    pub factor: f64,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The server starts nothing, but forgets nothing.
    Stall,
    /// The server forgets all requests and takes none.
    Die,
    /// The server's link is slower.
    SlowLink,
    /// The server's device is slower.
    SlowDisk,
    /// The client forgets its cache and what it waits for; its applications begin nothing.
    ClientDie,
    /// The server of names starts nothing, but forgets nothing.
    NamesStall,
    /// The server of names forgets all requests and takes none.
    NamesDie,
}

/// What faults happen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultOf {
    Server,
    Client,
    Names,
}

impl FaultKind {
    pub(crate) const fn of(self) -> FaultOf {
        match self {
            Self::Stall | Self::Die | Self::SlowLink | Self::SlowDisk => FaultOf::Server,
            Self::ClientDie => FaultOf::Client,
            Self::NamesStall | Self::NamesDie => FaultOf::Names,
        }
    }
}

impl Default for Fault {
    fn default() -> Self {
        Self {
            at: Span::ZERO,
            what: FaultKind::Stall,
            which: None,
            lasts: Some(Span::from_secs(1)),
            factor: 2.0,
        }
    }
}

impl Fault {
    /// What contradicts the rest of the scenario: where, what, and what to write instead.
    pub(super) fn check(
        &self,
        scenario: &Scenario,
    ) -> Result<(), (&'static str, String, &'static str)> {
        let (count, kind) = match self.what.of() {
            FaultOf::Server => (scenario.servers.count, "servers"),
            FaultOf::Client => (scenario.client_count(), "clients"),
            FaultOf::Names if self.which.is_some() => {
                let what = "there is one server of names".to_owned();
                return Err(("fault.which", what, "leave it out"));
            }
            FaultOf::Names => (1, ""),
        };
        if self.which.is_some_and(|which| which >= count) {
            let what = format!("there are {count} {kind}, numbered from 0");
            return Err(("fault.which", what, "name one of them, or \"all\""));
        }
        let forgets = matches!(self.what, FaultKind::Die | FaultKind::NamesDie);
        let holds = matches!(self.what, FaultKind::Stall | FaultKind::NamesStall);
        if scenario.clients.timeout.is_none() && (forgets || holds && self.lasts.is_none()) {
            let happens = if forgets { "dies" } else { "stalls for ever" };
            let what = format!("a server {happens}, and clients would wait for it for ever");
            return Err(("clients.timeout", what, "give clients a timeout, as in \"10s\""));
        }
        Ok(())
    }
}
