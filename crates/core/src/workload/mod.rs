//! Workloads: what the applications ask of storage, as a file and as a generator of operations.
//!
//! A [`Workload`] is read from TOML; a [`Generator`] turns it into the operations of one client.
//! Bench, scenarios, replay and signatures share this one schema.
//!
//! ```
//! use afflux_core::workload::{Generator, Next, Workload};
//! use afflux_core::units::Time;
//!
//! let workload = Workload::parse(r#"
//!     afflux-workload = 1
//!     name = "two-writers"
//!     clients = 2
//!     [files]
//!     each = 1
//!     size = "8 MiB"
//!     [[stream]]
//!     threads = 1
//!     steps = [{ do = "write", access = "sequential", size = "1 MiB" }]
//! "#).unwrap();
//! let mut generator = Generator::new(&workload, 0, 42);
//! let Next::Start(operation) = generator.next(Time::ZERO) else { panic!("one thread is idle") };
//! assert_eq!((operation.offset_bytes, operation.length_bytes), (0, 1 << 20));
//! assert_eq!(generator.next(Time::ZERO), Next::AfterCompletion);
//! ```

mod generator;
mod presets;
mod schema;

pub use generator::{AppOperation, Generator, Generators, Next};
pub use presets::{PRESETS, Preset, preset};
pub use schema::{Access, Burst, Files, Kind, Placing, Step, Stream, Workload, WorkloadError};
