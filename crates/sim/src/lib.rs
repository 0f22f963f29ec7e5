//! A world for the controllers of [`afflux_core`]: clients, links, switch ports, servers, devices,
//! metadata and locks, moved by events in the order of (time, sequence).
//!
//! The same seed gives the same bytes on every machine. Nothing here reads a clock, a file or the
//! environment, and one world is one thread: whoever wants many of them runs many.
//!
//! ```
//! use afflux_core::setting::Setting;
//! use afflux_core::target::Unwatched;
//! use afflux_sim::{Scenario, Simulation};
//!
//! let scenario = Scenario::parse("afflux-scenario = 1\nname = \"one\"\nworkload = \"seq-read\"")
//!     .unwrap()
//!     .with(&["servers.count=2", "run.settle=1s", "run.length=2s"])
//!     .unwrap();
//! let outcome = Simulation::new(&scenario, &Setting::none(), 7).unwrap().run(&Unwatched).unwrap();
//! assert_eq!(outcome.measurement.clients.len(), 8);
//! assert!(outcome.totals.replies > 100);
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`scenario`] | what a world is made of, as text with errors that quote its schema |
//! | `world` | the composition, and the loop over the events |
//! | `events` | what can happen, and the queue of what will |
//! | `client` | applications, caches, paths under the controllers of core, timers |
//! | `network` | links, switch ports, buffers, drops and retransmission |
//! | `server` | queue, service threads, bulk transfer, devices and where objects lie |
//! | `pages` | what clients and servers keep in memory |
//! | `metadata`, `locks` | the server of names; locks on shared files |
//! | `faults` | what a scenario has go wrong, and when |
//! | `invariants` | what must hold whatever happens |
//! | `replay` | the calls of a recorded decision log, made by these clients |
//! | [`series`], [`outcome`], [`numbers`] | what a run showed |
//! | [`published`] | published figures beside what a scenario gives |
//! | [`target`] | a scenario as the thing that bench, search and calibrate run on |

#![forbid(unsafe_code)]

pub mod numbers;
pub mod outcome;
pub mod published;
pub mod scenario;
pub mod series;
pub mod target;

mod client;
mod events;
mod faults;
mod invariants;
mod locks;
mod metadata;
mod network;
mod pages;
mod replay;
mod request;
mod server;
mod world;

pub use outcome::Outcome;
pub use replay::{ReplayError, replay};
pub use scenario::{Scenario, ScenarioError};
pub use target::SimTarget;
pub use world::{SimError, Simulation};
